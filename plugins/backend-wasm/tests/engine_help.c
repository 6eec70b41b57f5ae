/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/bake.h"
#include "engine_help.h"

static const struct vfs_limits limits = {.bytes = 1 << 20, .entries = 100, .open_files = 20};

void help_tree(const char *preload, uint8_t **ret_data, struct vfs_tree *ret_tree) {
        struct vfs_tree_builder *builder;
        size_t size;

        assert_int_equal(vfs_tree_builder_new(&builder), 0);
        assert_int_equal(vfs_tree_builder_add(builder, "/usr/lib/sbx/preload", preload, strlen(preload), 0), 0);
        assert_int_equal(vfs_tree_builder_add(builder, "/usr/lib/hello", "hello\n", 6, 0), 0);
        assert_int_equal(vfs_tree_builder_finish(builder, ret_data, &size), 0);
        assert_int_equal(vfs_tree_open(*ret_data, size, ret_tree), 0);
        vfs_tree_builder_free(builder);
}

int help_memfd(const void *data, size_t size) {
        int fd = memfd_create("test", MFD_CLOEXEC);

        assert_true(fd >= 0);
        assert_int_equal(pwrite(fd, data, size, 0), (ssize_t)size);
        return fd;
}

uint8_t *help_read(int fd, size_t *ret_size) {
        struct stat st;
        uint8_t *data;

        assert_int_equal(fstat(fd, &st), 0);
        data = malloc((size_t)st.st_size + 1);
        assert_int_equal(pread(fd, data, (size_t)st.st_size, 0), st.st_size);
        *ret_size = (size_t)st.st_size;
        return data;
}

int help_bake(uint8_t extra) {
        struct wasm_status status = {0};
        struct wasm_host host = {.status = &status, .memory_limit = HELP_MEMORY_LIMIT, .baking = true};
        const struct wasm_hot_run hot[] = {{0, 1}, {TINY_FREE / WASM_HOST_PAGE, 3}};
        struct wasm_instance *instance;
        struct vfs_tree tree;
        uint8_t *tree_data;
        char message[256] = "";
        uint32_t value = 1;
        int fd = memfd_create("image", MFD_CLOEXEC);

        help_tree("preload me", &tree_data, &tree);
        assert_int_equal(vfs_new(&tree, &limits, &host.vfs), 0);
        assert_int_equal(wasm_instance_new(TINY_CODE, NULL, &host, &instance), 0);
        assert_int_equal(wasm_signals_install(instance), 0);
        assert_int_equal(wasm_module_load(instance, tiny_module, sizeof(tiny_module), message, sizeof(message)), 0);
        assert_int_equal(wasm_call_initialize(instance), WASM_TRAP_NONE);
        assert_int_equal(wasm_call(instance, TINY_CODE->start, &value), WASM_TRAP_NONE);
        assert_int_equal(value, 0);
        assert_int_equal(wasm_call(instance, TINY_CODE->prepare, &value), WASM_TRAP_NONE);
        assert_int_equal(value, 0);
        instance->memory[TINY_FREE] = extra;
        assert_int_equal(image_write(fd, instance, &tree, HELP_MANIFEST, hot, 2, message, sizeof(message)), 0);
        wasm_instance_free(instance);
        vfs_free(host.vfs);
        free(tree_data);
        return fd;
}

void help_image(uint8_t extra, struct wasm_image *ret_image) {
        char message[256] = "";
        int packed = help_bake(extra), expanded = memfd_create("expanded", MFD_CLOEXEC);

        if (image_expand(packed, expanded, message, sizeof(message)) < 0)
                fail_msg("%s", message);
        close(packed);
        if (image_open(expanded, ret_image, message, sizeof(message)) < 0)
                fail_msg("%s", message);
}

void help_session(const struct wasm_image *image, struct session *session) {
        int sockets[2];

        memset(session, 0, sizeof(*session));
        session->host.status = &session->status;
        session->host.memory_limit = HELP_MEMORY_LIMIT;
        assert_int_equal(vfs_new(image != NULL ? &image->tree : &(struct vfs_tree){0}, &limits, &session->host.vfs), 0);
        assert_int_equal(wasm_instance_new(TINY_CODE, image, &session->host, &session->instance), 0);
        assert_int_equal(wasm_signals_install(session->instance), 0);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
        session->control = sockets[0];
        session->guest_control = sockets[1];
        vfs_set_streams(session->host.vfs, -1, -1, -1, session->guest_control);
}

void help_session_end(struct session *session) {
        wasm_instance_free(session->instance);
        vfs_free(session->host.vfs);
        close(session->control);
        close(session->guest_control);
}

enum wasm_trap help_request(struct session *session, const struct tiny_command *commands, size_t count) {
        uint32_t value = 77;
        enum wasm_trap trap;

        assert_int_equal(write(session->control, commands, count * sizeof(*commands)),
                         (ssize_t)(count * sizeof(*commands)));
        wasm_signals_install(session->instance); /* cmocka has put its own handlers in their place */
        trap = wasm_call(session->instance, TINY_CODE->request, &value);
        if (trap == WASM_TRAP_NONE)
                assert_int_equal(value, 0);
        return trap;
}

enum wasm_trap help_run(struct session *session, uint32_t op, uint32_t a, uint32_t b) {
        return help_request(session, &(struct tiny_command){op, a, b}, 1);
}

uint64_t help_result(const struct session *session) {
        uint64_t result;

        memcpy(&result, session->instance->memory + TINY_RESULT, sizeof(result));
        return result;
}

uint32_t help_u32(const struct session *session, uint32_t address) {
        uint32_t value;

        memcpy(&value, session->instance->memory + address, sizeof(value));
        return value;
}

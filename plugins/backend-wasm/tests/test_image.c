/* SPDX-License-Identifier: Apache-2.0 */
/* Images: written the same every time, expanded, opened; damaged ones, other formats and cut ones are refused; files
 * and modules that go into them are checked. */
#include "test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/bake.h"
#include "engine/image_layout.h"
#include "engine_help.h"

static char message[256];

static int packed_fd(void **state) {
        *state = (void *)(intptr_t)help_bake(0);
        return 0;
}

static int close_fd(void **state) {
        close((int)(intptr_t)*state);
        return 0;
}

static void the_same_state_gives_the_same_bytes(void **state) {
        int again = help_bake(0), other = help_bake(1);
        size_t first_size, again_size, other_size;
        uint8_t *first = help_read((int)(intptr_t)*state, &first_size), *second = help_read(again, &again_size),
                *third = help_read(other, &other_size);

        assert_int_equal(first_size, again_size);
        assert_memory_equal(first, second, first_size);
        assert_memory_not_equal(((struct image_header *)first)->hash, ((struct image_header *)third)->hash,
                                WASM_IMAGE_HASH_SIZE);
        free(first);
        free(second);
        free(third);
        close(again);
        close(other);
}

static void is_described_in_both_forms(void **state) {
        int fd = (int)(intptr_t)*state, expanded = memfd_create("expanded", MFD_CLOEXEC);
        uint8_t hash[WASM_IMAGE_HASH_SIZE], expanded_hash[WASM_IMAGE_HASH_SIZE];
        char *manifest = NULL;

        assert_int_equal(image_describe(fd, hash, &manifest, message, sizeof(message)), 0);
        assert_string_equal(manifest, HELP_MANIFEST);
        free(manifest);
        assert_int_equal(image_expand(fd, expanded, message, sizeof(message)), 0);
        assert_int_equal(image_describe(expanded, expanded_hash, &manifest, message, sizeof(message)), 0);
        assert_string_equal(manifest, HELP_MANIFEST);
        assert_memory_equal(hash, expanded_hash, sizeof(hash));
        free(manifest);
        close(expanded);
}

static void opens_what_was_written(void **state) {
        struct wasm_image image;

        help_image(9, &image);
        assert_string_equal(image.manifest, HELP_MANIFEST);
        assert_string_equal(image.module_sha256, TINY_CODE->module_sha256);
        assert_int_equal(strlen(image.hash_text), 64);
        assert_int_equal(image.memory_pages, TINY_PAGES);
        assert_int_equal(image.global_count, 1);
        assert_int_equal(image.globals[0], TINY_STACK_TOP);
        assert_int_equal(image.memory[TINY_FREE], 9);
        /* The dead part of the guest's stack is not in it: start() had written there. */
        for (uint32_t i = 0; i < TINY_STACK_TOP; i++)
                assert_int_equal(image.memory[i], 0);
        assert_int_equal(image.hot_count, 2);
        assert_int_equal(image.hot[1].first, TINY_FREE / WASM_HOST_PAGE);
        assert_int_equal(image.hot[1].count, 3);
        assert_int_equal(image.interrupt_count, 2);
        assert_int_equal(image.interrupt[0].address, TINY_PENDING);
        assert_int_equal(image.interrupt[1].address, TINY_TRIPPED);
        assert_int_equal(image.interrupt[0].value, 1);
        image_close(&image);
        image_close(&image);
}

static void each_form_is_for_its_use(void **state) {
        int fd = (int)(intptr_t)*state, expanded = memfd_create("expanded", MFD_CLOEXEC),
            again = memfd_create("again", MFD_CLOEXEC);
        struct wasm_image image;

        assert_int_equal(image_open(dup(fd), &image, message, sizeof(message)), -EINVAL);
        assert_contains(message, "packed");
        assert_int_equal(image_expand(fd, expanded, message, sizeof(message)), 0);
        assert_int_equal(image_expand(expanded, again, message, sizeof(message)), -EINVAL);
        assert_contains(message, "expanded already");
        close(expanded);
        close(again);
}

/* *ret_expanded, where it is wanted: malloc'ed on success. */
static int expand_bytes(const uint8_t *data, size_t size, uint8_t **ret_expanded, size_t *ret_size) {
        int from = help_memfd(data, size), to = memfd_create("to", MFD_CLOEXEC), r;
        struct wasm_image image;

        message[0] = '\0';
        r = image_expand(from, to, message, sizeof(message));
        if (r < 0) /* what is there is no image */
                assert_int_equal(image_open(dup(to), &image, (char[100]){0}, 100), -EINVAL);
        else if (ret_expanded != NULL)
                *ret_expanded = help_read(to, ret_size);
        close(from);
        close(to);
        return r;
}

/* A few bits of compressed frames mean nothing: then the content is what it was. */
static void a_flipped_bit_is_found(void **state) {
        size_t size, whole_size, expanded_size;
        uint8_t *data = help_read((int)(intptr_t)*state, &size), *whole, *expanded;
        unsigned unnoticed = 0;

        assert_int_equal(expand_bytes(data, size, &whole, &whole_size), 0);
        for (size_t at = 0; at < size; at++) {
                /* The header's page ends in zeros that mean nothing, either. */
                if (at >= sizeof(struct image_header) && at < IMAGE_HEADER_SIZE)
                        continue;
                data[at] ^= (uint8_t)(1 << at % 8);
                if (expand_bytes(data, size, &expanded, &expanded_size) == 0) {
                        assert_int_equal(expanded_size, whole_size);
                        assert_memory_equal(expanded, whole, whole_size);
                        free(expanded);
                        unnoticed++;
                } else {
                        assert_string_not_equal(message, "");
                        assert_null(strchr(message, '\n'));
                }
                data[at] ^= (uint8_t)(1 << at % 8);
        }
        assert_true(unnoticed < 20);
        free(whole);
        free(data);
}

static void a_cut_or_longer_file_is_found(void **state) {
        size_t size;
        uint8_t *data = help_read((int)(intptr_t)*state, &size);

        for (size_t cut = 0; cut < size; cut += cut < 700 ? 1 : 97)
                assert_int_equal(expand_bytes(data, cut, NULL, NULL), -EINVAL);
        data[size] = 0;
        assert_int_equal(expand_bytes(data, size + 1, NULL, NULL), -EINVAL);
        assert_contains(message, "bytes instead of");
        free(data);
}

/* Headers that are whole, but lie: `change` makes one. */
static void refuse_header(const uint8_t *data, size_t size, void (*change)(struct image_header *header),
                          const char *expected) {
        uint8_t *copy = malloc(size);

        memcpy(copy, data, size);
        change((struct image_header *)copy);
        assert_int_equal(expand_bytes(copy, size, NULL, NULL), -EINVAL);
        assert_contains(message, expected);
        free(copy);
}

static void set_format(struct image_header *header) {
        header->format = WASM_IMAGE_FORMAT + 1;
}
static void set_huge_memory(struct image_header *header) {
        header->memory_size = UINT64_MAX - 65535;
}
static void set_wrapping_sizes(struct image_header *header) {
        header->memory_packed += 1000;
        header->tree_packed -= 1000;
}
static void set_far_interrupt(struct image_header *header) {
        header->interrupt[1].address = (uint32_t)header->memory_size;
}
static void set_crooked_interrupt(struct image_header *header) {
        header->interrupt[0].address += 1;
}
static void set_many_globals(struct image_header *header) {
        header->global_count = WASM_GLOBALS_MAX + 1;
}
static void set_more_memory(struct image_header *header) {
        header->memory_size += WASM_PAGE;
}
static void set_less_tree(struct image_header *header) {
        header->tree_size -= 1;
}
static void set_strange_module(struct image_header *header) {
        header->module_sha256[5] = '\n';
}

static void set_many_hot_runs(struct image_header *header) {
        header->hot_count = IMAGE_HOT_MAX + 1;
}
static void set_fewer_hot_runs(struct image_header *header) {
        header->hot_count -= 1;
        header->manifest_size += sizeof(struct wasm_hot_run);
}

static void headers_that_lie_are_refused(void **state) {
        size_t size;
        uint8_t *data = help_read((int)(intptr_t)*state, &size);

        refuse_header(data, size, set_format, "has format ");
        refuse_header(data, size, set_huge_memory, "damaged");
        refuse_header(data, size, set_wrapping_sizes, "damaged");
        refuse_header(data, size, set_far_interrupt, "damaged");
        refuse_header(data, size, set_crooked_interrupt, "damaged");
        refuse_header(data, size, set_many_globals, "damaged");
        refuse_header(data, size, set_more_memory, "memory");
        refuse_header(data, size, set_less_tree, "files");
        refuse_header(data, size, set_many_hot_runs, "damaged");
        refuse_header(data, size, set_fewer_hot_runs, "damaged");
        refuse_header(data, size, set_strange_module, "damaged");
        free(data);
}

/* An expanded image, whose hash nobody looks at any more. */
static void hot_pages_lie_in_memory(void **state) {
        static const struct wasm_hot_run bad[] = {
                {TINY_PAGES * 16, 1}, {UINT32_MAX, 2}, {1, UINT32_MAX}, {0, 1}, {5, 0}};
        int expanded = memfd_create("expanded", MFD_CLOEXEC);
        struct wasm_image image;

        assert_int_equal(image_expand((int)(intptr_t)*state, expanded, message, sizeof(message)), 0);
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                assert_int_equal(pwrite(expanded, &bad[i], sizeof(bad[i]), IMAGE_HEADER_SIZE + sizeof(bad[i])),
                                 sizeof(bad[i]));
                assert_int_equal(image_open(dup(expanded), &image, message, sizeof(message)), -EINVAL);
                assert_contains(message, "hot pages");
        }
        close(expanded);
}

/* ---- modules ---- */

static int load(const uint8_t *module, size_t size) {
        struct session session;
        int r;

        help_session(NULL, &session);
        r = wasm_module_load(session.instance, module, size, message, sizeof(message));
        help_session_end(&session);
        return r;
}

static void only_its_own_module_is_loaded(void **state) {
        uint8_t module[TINY_MODULE_SIZE];

        assert_int_equal(load(tiny_module, sizeof(tiny_module)), 0);
        for (size_t i = 0; i < sizeof(module); i++) {
                memcpy(module, tiny_module, sizeof(module));
                module[i] ^= 1;
                assert_int_equal(load(module, sizeof(module)), -EINVAL);
        }
        assert_int_equal(load(tiny_module, sizeof(tiny_module) - 1), -EINVAL);
        assert_contains(message, "not the one that the code was made of");
        assert_int_equal(load(tiny_module, 0), -EINVAL);
        assert_contains(message, "no WebAssembly");
}

/* ---- directories ---- */

static void make_directory(char *path) {
        strcpy(path, "/tmp/test-wasm-image-XXXXXX");
        assert_non_null(mkdtemp(path));
}

static void write_text(const char *directory, const char *name, const char *text) {
        char path[200];
        FILE *file;

        snprintf(path, sizeof(path), "%s/%s", directory, name);
        file = fopen(path, "w");
        assert_non_null(file);
        fputs(text, file);
        fclose(file);
}

static void remove_file(const char *directory, const char *name) {
        char path[200];

        snprintf(path, sizeof(path), "%s/%s", directory, name);
        assert_int_equal(remove(path), 0);
}

static void directories_become_trees(void **state) {
        struct vfs_limits limits = {.bytes = 1 << 20, .entries = 10, .open_files = 10};
        struct vfs_tree_builder *builder;
        struct vfs_tree tree;
        struct vfs_stat stat;
        struct vfs *vfs;
        struct vfs_at at = {.fd = VFS_ROOT_FD, .path = "usr/a", .size = 5};
        char directory[64], below[80];
        uint8_t *data;
        size_t size;

        make_directory(directory);
        snprintf(below, sizeof(below), "%s/usr", directory);
        assert_int_equal(mkdir(below, 0700), 0);
        write_text(below, "a", "content");
        assert_int_equal(vfs_tree_builder_new(&builder), 0);
        assert_int_equal(wasm_bake_add_directory(builder, directory, message, sizeof(message)), 0);
        assert_int_equal(vfs_tree_builder_finish(builder, &data, &size), 0);
        vfs_tree_builder_free(builder);
        assert_int_equal(vfs_tree_open(data, size, &tree), 0);
        assert_int_equal(vfs_new(&tree, &limits, &vfs), 0);
        assert_int_equal(vfs_stat_at(vfs, &at, &stat), 0);
        assert_int_equal(stat.size, 7);
        vfs_free(vfs);
        free(data);
        remove_file(below, "a");
        remove_file(directory, "usr");
        remove_file(directory, "");
}

static void what_leads_elsewhere_is_not_followed(void **state) {
        struct vfs_tree_builder *builder;
        char directory[64], path[80];

        make_directory(directory);
        snprintf(path, sizeof(path), "%s/link", directory);
        assert_int_equal(vfs_tree_builder_new(&builder), 0);
        assert_int_equal(symlink("/etc/passwd", path), 0);
        assert_int_equal(wasm_bake_add_directory(builder, directory, message, sizeof(message)), -EINVAL);
        assert_contains(message, "/link can't be read: it is a symbolic link");
        remove_file(directory, "link");
        assert_int_equal(mkfifo(path, 0600), 0);
        assert_int_equal(wasm_bake_add_directory(builder, directory, message, sizeof(message)), -EINVAL);
        assert_contains(message, "neither file nor directory");
        remove_file(directory, "link");
        remove_file(directory, "");
        assert_int_equal(wasm_bake_add_directory(builder, directory, message, sizeof(message)), -EINVAL);
        assert_contains(message, directory);
        vfs_tree_builder_free(builder);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, packed_fd, close_fd)
        const struct CMUnitTest tests[] = {
                TEST(the_same_state_gives_the_same_bytes),
                TEST(is_described_in_both_forms),
                TEST(each_form_is_for_its_use),
                TEST(a_flipped_bit_is_found),
                TEST(a_cut_or_longer_file_is_found),
                TEST(headers_that_lie_are_refused),
                TEST(hot_pages_lie_in_memory),
                cmocka_unit_test(opens_what_was_written),
                cmocka_unit_test(only_its_own_module_is_loaded),
                cmocka_unit_test(directories_become_trees),
                cmocka_unit_test(what_leads_elsewhere_is_not_followed),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Bakes an image: loads a guest's module into memory, or an image that there is, lets it import what it shall have, and
 * writes its state. Clocks stand still and random numbers are a fixed sequence meanwhile. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bake.h"
#include "image.h"
#include "image_layout.h"
#include "vfs.h"

#define ADD_MAX 16
#define INPUT_MAX ((off_t)256 << 20)
#define MEMORY_MAX ((uint64_t)512 << 20)
#define PRELOAD_PATH "/usr/lib/sbx/preload"
#define PRELOAD_MTIME_NS (INT64_C(1672531200) * 1000000000)

static const char usage_text[] =
        "usage: sbx-wasm bake --code FILE.so --module FILE.wasm --tree DIR --manifest FILE --out FILE.sbximg\n"
        "       sbx-wasm bake --code FILE.so --image FILE.sbximg [--add DIR]... [--preload FILE] --manifest FILE\n"
        "                     --out FILE.sbximg\n"
        "DIR stands for \"/\" of the guest. A preload file names modules to import, one a line.\n";

struct bake {
        const char *code_path, *module_path, *image_path, *tree_path, *preload_path, *manifest_path, *out_path;
        const char *add[ADD_MAX];
        unsigned add_count;
        /* while it goes on */
        struct wasm_image image; /* fd < 0: none */
        struct vfs_tree_builder *builder;
        uint8_t *tree_data;
        struct vfs_tree tree;
        struct wasm_status status;
        struct wasm_host host;
        struct wasm_instance *instance;
        char message[512];
};

static int parse(struct bake *bake, int argc, char **argv) {
        static const struct option options[] = {
                {"code", required_argument, NULL, 'c'},
                {"module", required_argument, NULL, 'w'},
                {"image", required_argument, NULL, 'i'},
                {"tree", required_argument, NULL, 't'},
                {"add", required_argument, NULL, 'a'},
                {"preload", required_argument, NULL, 'p'},
                {"manifest", required_argument, NULL, 'm'},
                {"out", required_argument, NULL, 'o'},
                {NULL, 0, NULL, 0},
        };
        int option;

        while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
                const char **to = option == 'c'   ? &bake->code_path
                                  : option == 'w' ? &bake->module_path
                                  : option == 'i' ? &bake->image_path
                                  : option == 't' ? &bake->tree_path
                                  : option == 'p' ? &bake->preload_path
                                  : option == 'm' ? &bake->manifest_path
                                  : option == 'o' ? &bake->out_path
                                                  : NULL;

                if (option == 'a' && bake->add_count < ADD_MAX)
                        to = &bake->add[bake->add_count++];
                if (to == NULL)
                        return -EINVAL;
                *to = optarg;
        }
        if (optind != argc || bake->code_path == NULL || bake->manifest_path == NULL || bake->out_path == NULL)
                return -EINVAL;
        if (bake->image_path != NULL)
                return bake->module_path == NULL && bake->tree_path == NULL ? 0 : -EINVAL;
        return bake->module_path != NULL && bake->tree_path != NULL && bake->add_count == 0 ? 0 : -EINVAL;
}

/* malloc'ed, with a NUL behind it. */
static int read_file(struct bake *bake, const char *path, uint8_t **ret_data, size_t *ret_size) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        uint8_t *data = NULL;
        struct stat st;
        int r = fd < 0 || fstat(fd, &st) < 0 ? -errno : 0;

        if (r == 0 && (!S_ISREG(st.st_mode) || st.st_size > INPUT_MAX))
                r = -EFBIG;
        if (r == 0 && (data = malloc((size_t)st.st_size + 1)) == NULL)
                r = -ENOMEM;
        if (r == 0)
                r = image_read_at(fd, data, (size_t)st.st_size, 0);
        if (fd >= 0)
                close(fd);
        if (r < 0) {
                free(data);
                return image_refuse(bake->message, sizeof(bake->message), "%s can't be read: %s", path, strerror(-r));
        }
        data[st.st_size] = '\0';
        *ret_data = data;
        *ret_size = (size_t)st.st_size;
        return 0;
}

static int add_preload(struct bake *bake) {
        uint8_t *data;
        size_t size;
        int r = read_file(bake, bake->preload_path, &data, &size);

        if (r < 0)
                return r;
        r = vfs_tree_builder_add(bake->builder, PRELOAD_PATH, data, size, PRELOAD_MTIME_NS);
        free(data);
        return r < 0 ? image_refuse(bake->message, sizeof(bake->message), "%s can't be added: %s", bake->preload_path,
                                    strerror(-r))
                     : 0;
}

/* The files of the new image. */
static int build_tree(struct bake *bake) {
        size_t size;
        int r = vfs_tree_builder_new(&bake->builder);

        if (r == 0 && bake->image_path != NULL)
                r = vfs_tree_builder_add_tree(bake->builder, &bake->image.tree);
        if (r < 0)
                return image_refuse(bake->message, sizeof(bake->message), "the files can't be put together: %s",
                                    strerror(-r));
        if (bake->tree_path != NULL)
                r = wasm_bake_add_directory(bake->builder, bake->tree_path, bake->message, sizeof(bake->message));
        for (unsigned i = 0; i < bake->add_count && r == 0; i++)
                r = wasm_bake_add_directory(bake->builder, bake->add[i], bake->message, sizeof(bake->message));
        if (r == 0 && bake->preload_path != NULL)
                r = add_preload(bake);
        if (r < 0)
                return r;
        r = vfs_tree_builder_finish(bake->builder, &bake->tree_data, &size);
        if (r == 0)
                r = vfs_tree_open(bake->tree_data, size, &bake->tree);
        return r < 0 ? image_refuse(bake->message, sizeof(bake->message), "the files can't be put together: %s",
                                    strerror(-r))
                     : 0;
}

static int make_instance(struct bake *bake, const struct wasm_code *code) {
        static const struct vfs_limits limits = {.bytes = MEMORY_MAX, .entries = 10000, .open_files = 256};
        const struct wasm_image *image = bake->image_path != NULL ? &bake->image : NULL;
        int r = vfs_new(&bake->tree, &limits, &bake->host.vfs);

        if (r < 0)
                return image_refuse(bake->message, sizeof(bake->message), "no memory for the guest's files");
        vfs_set_streams(bake->host.vfs, -1, STDERR_FILENO, STDERR_FILENO, -1);
        bake->host.status = &bake->status;
        bake->host.memory_limit = MEMORY_MAX;
        bake->host.baking = true;
        r = wasm_instance_new(code, image, &bake->host, &bake->instance);
        if (r == 0)
                r = wasm_signals_install(bake->instance);
        if (r < 0)
                return image_refuse(bake->message, sizeof(bake->message), "the guest can't be set up: %s",
                                    r == -EINVAL ? "code and image are not of the same module" : strerror(-r));
        return 0;
}

static int load_module(struct bake *bake) {
        uint8_t *module;
        size_t size;
        int r = read_file(bake, bake->module_path, &module, &size);

        if (r < 0)
                return r;
        r = wasm_module_load(bake->instance, module, size, bake->message, sizeof(bake->message));
        free(module);
        return r;
}

static int step(struct bake *bake, const char *name, uint32_t (*function)(struct wasm_instance *instance)) {
        uint32_t value = 0;
        enum wasm_trap trap =
                function != NULL ? wasm_call(bake->instance, function, &value) : wasm_call_initialize(bake->instance);

        if (trap == WASM_TRAP_EXIT)
                return image_refuse(bake->message, sizeof(bake->message), "the guest ended in %s with status %u", name,
                                    bake->status.exit_code);
        if (trap != WASM_TRAP_NONE)
                return image_refuse(bake->message, sizeof(bake->message), "the guest trapped in %s: %s", name,
                                    wasm_trap_name(trap));
        if (value != 0)
                return image_refuse(bake->message, sizeof(bake->message), "the guest's %s failed (%u)", name, value);
        return 0;
}

/* A session begins with empty directories and no descriptors: what refers to others would be lost. */
static int check_files(struct bake *bake) {
        struct vfs_usage fresh_usage, usage;
        const struct vfs_limits limits = {.bytes = MEMORY_MAX, .entries = 10000, .open_files = 256};
        struct vfs *fresh;

        if (vfs_new(&bake->tree, &limits, &fresh) < 0)
                return image_refuse(bake->message, sizeof(bake->message), "no memory for the guest's files");
        vfs_get_usage(fresh, &fresh_usage);
        vfs_free(fresh);
        vfs_get_usage(bake->host.vfs, &usage);
        if (usage.entries != fresh_usage.entries || usage.open_files != fresh_usage.open_files)
                return image_refuse(bake->message, sizeof(bake->message),
                                    "what was imported left %u files and %u open descriptors behind: a session "
                                    "would not find them",
                                    usage.entries - fresh_usage.entries, usage.open_files - fresh_usage.open_files);
        return 0;
}

static int run_guest(struct bake *bake) {
        const struct wasm_code *code = bake->host.code;
        int r = 0;

        if (bake->image_path == NULL) {
                r = load_module(bake);
                if (r == 0)
                        r = step(bake, "initialization", NULL);
                if (r == 0)
                        r = step(bake, "start", code->start);
        }
        if (r == 0)
                r = step(bake, "preparation", code->prepare);
        if (r == 0)
                r = check_files(bake);
        if (r == 0 && bake->host.interrupt_count == 0)
                r = image_refuse(bake->message, sizeof(bake->message),
                                 "the guest did not show how it is interrupted (interrupt_mark)");
        return r;
}

/* Under another name first: what is there stays whole until the new one is. */
static int write_image(struct bake *bake) {
        char path[4096];
        uint8_t *manifest;
        size_t size;
        int fd, r = read_file(bake, bake->manifest_path, &manifest, &size);

        if (r < 0)
                return r;
        if (snprintf(path, sizeof(path), "%s.%ld.tmp", bake->out_path, (long)getpid()) >= (int)sizeof(path))
                r = image_refuse(bake->message, sizeof(bake->message), "the path of the image is too long");
        fd = r < 0 ? -1 : open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        if (r == 0 && fd < 0)
                r = image_refuse(bake->message, sizeof(bake->message), "%s can't be made: %s", path, strerror(errno));
        if (r == 0) {
                r = strlen((const char *)manifest) != size
                            ? image_refuse(bake->message, sizeof(bake->message), "the manifest is no text")
                            : image_write(fd, bake->instance, &bake->tree, (const char *)manifest, bake->message,
                                          sizeof(bake->message));
                if (r == 0 && (fsync(fd) < 0 || rename(path, bake->out_path) < 0))
                        r = image_refuse(bake->message, sizeof(bake->message), "%s can't be written: %s",
                                         bake->out_path, strerror(errno));
                if (r < 0)
                        unlink(path);
                close(fd);
        }
        free(manifest);
        return r;
}

static void bake_free(struct bake *bake) {
        wasm_instance_free(bake->instance);
        vfs_free(bake->host.vfs);
        free(bake->tree_data);
        vfs_tree_builder_free(bake->builder);
        image_close(&bake->image);
        free(bake);
}

int wasm_bake_main(int argc, char **argv) {
        struct bake *bake = calloc(1, sizeof(*bake));
        const struct wasm_code *code;
        int r;

        if (bake == NULL)
                return EXIT_FAILURE;
        bake->image.fd = -1;
        if (parse(bake, argc, argv) < 0) {
                fputs(usage_text, stderr);
                free(bake);
                return 2;
        }
        r = wasm_code_load(bake->code_path, &code, bake->message, sizeof(bake->message));
        if (r == 0 && bake->image_path != NULL)
                r = image_open_path(bake->image_path, &bake->image, bake->message, sizeof(bake->message));
        if (r == 0)
                r = build_tree(bake);
        if (r == 0)
                r = make_instance(bake, code);
        if (r == 0)
                r = run_guest(bake);
        if (r == 0)
                r = write_image(bake);
        if (r < 0)
                fprintf(stderr, "sbx-wasm bake: %s\n", bake->message);
        bake_free(bake);
        return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

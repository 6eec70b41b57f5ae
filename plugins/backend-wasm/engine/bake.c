/* SPDX-License-Identifier: Apache-2.0 */
/* Bakes an image: reads all that goes into it, lets a locked child boot the guest and write its state, and puts the
 * image in its place when it is whole. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bake_internal.h"
#include "image_layout.h"

#define INPUT_MAX ((off_t)256 << 20)
#define PRELOAD_PATH "/usr/lib/sbx/preload"

static const char usage_text[] =
        "usage: sbx-wasm bake --code FILE.so --module FILE.wasm --tree DIR --manifest FILE --out FILE.sbximg\n"
        "       sbx-wasm bake --code FILE.so --image FILE.sbximg [--add DIR]... [--preload FILE] --manifest FILE\n"
        "                     --out FILE.sbximg\n"
        "DIR stands for \"/\" of the guest. A preload file names modules to import, one a line.\n";

int bake_refuse(struct bake *bake, const char *format, ...) {
        va_list args;

        va_start(args, format);
        vsnprintf(bake->message, sizeof(bake->message), format, args);
        va_end(args);
        return -EINVAL;
}

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

                if (option == 'a' && bake->add_count < BAKE_ADD_MAX)
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

/* ---- what goes in */

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
                return bake_refuse(bake, "%s can't be read: %s", path, strerror(-r));
        }
        data[st.st_size] = '\0';
        *ret_data = data;
        *ret_size = (size_t)st.st_size;
        return 0;
}

static int add_preload(struct bake *bake, struct vfs_tree_builder *builder) {
        uint8_t *data;
        size_t size;
        int r = read_file(bake, bake->preload_path, &data, &size);

        if (r < 0)
                return r;
        r = vfs_tree_builder_add(builder, PRELOAD_PATH, data, size, BAKE_MTIME_NS);
        free(data);
        return r < 0 ? bake_refuse(bake, "%s can't be added: %s", bake->preload_path, strerror(-r)) : 0;
}

static int add_files(struct bake *bake, struct vfs_tree_builder *builder) {
        int r = 0;

        if (bake->tree_path != NULL)
                r = wasm_bake_add_directory(builder, bake->tree_path, bake->message, sizeof(bake->message));
        for (unsigned i = 0; i < bake->add_count && r == 0; i++)
                r = wasm_bake_add_directory(builder, bake->add[i], bake->message, sizeof(bake->message));
        if (r == 0 && bake->preload_path != NULL)
                r = add_preload(bake, builder);
        return r;
}

/* The files of the new image. */
static int build_tree(struct bake *bake) {
        struct vfs_tree_builder *builder = NULL;
        size_t size;
        int r = vfs_tree_builder_new(&builder);

        if (r == 0 && bake->image_path != NULL)
                r = vfs_tree_builder_add_tree(builder, &bake->image.tree);
        if (r < 0)
                bake_refuse(bake, "the files can't be put together: %s", strerror(-r));
        else
                r = add_files(bake, builder);
        if (r == 0) {
                r = vfs_tree_builder_finish(builder, &bake->tree_data, &size);
                if (r == 0)
                        r = vfs_tree_open(bake->tree_data, size, &bake->tree);
                if (r < 0)
                        bake_refuse(bake, "the files can't be put together: %s", strerror(-r));
        }
        vfs_tree_builder_free(builder);
        return r;
}

static int read_inputs(struct bake *bake) {
        int r = wasm_code_load(bake->code_path, &bake->code, bake->message, sizeof(bake->message));

        if (r == 0 && bake->image_path != NULL)
                r = image_open_path(bake->image_path, &bake->image, bake->message, sizeof(bake->message));
        if (r == 0 && bake->module_path != NULL)
                r = read_file(bake, bake->module_path, &bake->module, &bake->module_size);
        if (r == 0)
                r = read_file(bake, bake->manifest_path, &bake->manifest, &bake->manifest_size);
        if (r == 0 && strlen((const char *)bake->manifest) != bake->manifest_size)
                r = bake_refuse(bake, "the manifest is no text");
        return r < 0 ? r : build_tree(bake);
}

/* ---- what comes out */

/* Under another name first: what is there stays whole until the new one is. */
static int open_output(struct bake *bake) {
        int length = snprintf(bake->out_name, sizeof(bake->out_name), "%s.%ld.tmp", bake->out_path, (long)getpid());

        if ((size_t)length >= sizeof(bake->out_name))
                return bake_refuse(bake, "the path of the image is too long");
        bake->out_fd = open(bake->out_name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        if (bake->out_fd < 0)
                return bake_refuse(bake, "%s can't be made: %s", bake->out_name, strerror(errno));
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, bake->rehearsal) < 0)
                return bake_refuse(bake, "no socket can be made: %s", strerror(errno));
        return 0;
}

/* What is imported may be anybody's code. */
static _Noreturn void run_child(struct bake *bake, int (*lock)(char *message, size_t size)) {
        int r = bake_make_instance(bake);

        if (r == 0 && lock != NULL)
                r = lock(bake->message, sizeof(bake->message));
        if (r == 0)
                r = bake_run_guest(bake);
        if (r == 0)
                r = bake_rehearse(bake);
        if (r == 0)
                r = image_write(bake->out_fd, bake->instance, &bake->tree, (const char *)bake->manifest, bake->hot,
                                bake->hot_count, bake->message, sizeof(bake->message));
        if (r < 0)
                fprintf(stderr, "sbx-wasm bake: %s\n", bake->message);
        _exit(r < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
}

/* -ECANCELED: the child has said why. */
static int run(struct bake *bake, int (*lock)(char *message, size_t size)) {
        int status = 0;
        pid_t pid = fork();

        if (pid < 0)
                return bake_refuse(bake, "no process can be made: %s", strerror(errno));
        if (pid == 0)
                run_child(bake, lock);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        if (WIFSIGNALED(status))
                return bake_refuse(bake, "the guest's process was killed by signal %d (%s)", WTERMSIG(status),
                                   strsignal(WTERMSIG(status)));
        if (WEXITSTATUS(status) != 0)
                return -ECANCELED;
        if (fsync(bake->out_fd) < 0 || rename(bake->out_name, bake->out_path) < 0)
                return bake_refuse(bake, "%s can't be written: %s", bake->out_path, strerror(errno));
        return 0;
}

static void bake_free(struct bake *bake) {
        for (int i = 0; i < 2; i++)
                if (bake->rehearsal[i] >= 0)
                        close(bake->rehearsal[i]);
        if (bake->out_fd >= 0)
                close(bake->out_fd);
        free(bake->tree_data);
        free(bake->module);
        free(bake->manifest);
        image_close(&bake->image);
        free(bake);
}

int wasm_bake_main(int argc, char **argv, int (*lock)(char *message, size_t size)) {
        struct bake *bake = calloc(1, sizeof(*bake));
        int r;

        if (bake == NULL)
                return EXIT_FAILURE;
        bake->image.fd = bake->out_fd = bake->rehearsal[0] = bake->rehearsal[1] = -1;
        if (parse(bake, argc, argv) < 0) {
                fputs(usage_text, stderr);
                bake_free(bake);
                return 2;
        }
        r = read_inputs(bake);
        if (r == 0)
                r = open_output(bake);
        if (r == 0)
                r = run(bake, lock);
        if (r < 0 && bake->out_fd >= 0)
                unlink(bake->out_name);
        if (r < 0 && r != -ECANCELED)
                fprintf(stderr, "sbx-wasm bake: %s\n", bake->message);
        bake_free(bake);
        return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* `sbx-wasm run`: one program in one guest, for trying images. There is no jail around it and no server: the other end
 * of the guest protocol is a few lines here. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "frames.h"
#include "image.h"
#include "run.h"
#include "vfs.h"

#define SOURCE_MAX ((size_t)16 << 20)
#define FRAME_MAX ((size_t)80 << 20)
#define MEMORY_MAX ((uint64_t)512 << 20)

static const char usage_text[] =
        "usage: sbx-wasm run --code FILE.so --image FILE.sbximg [--time] [FILE]...\n"
        "Runs each FILE, or standard input, in one session and prints its output; what else the guest answers goes to\n"
        "stderr. For trying images: there are no limits but the jail's own.\n";

struct runner {
        const char *code_path, *image_path;
        bool timed;
        int control;
        char message[512];
};

/* Prints frames until one of type `last` comes. 1: that is a result whose end is not "ok". */
static int receive_until(int fd, enum frame last) {
        for (;;) {
                uint32_t size, json_size = 0;
                uint8_t type;
                char *data;
                int r = frames_read(fd, &size, sizeof(size));

                if (r == 0)
                        r = frames_read(fd, &type, 1);
                if (r < 0 || size > FRAME_MAX || (data = malloc((size_t)size + 1)) == NULL)
                        return -EIO;
                data[size] = '\0';
                r = frames_read(fd, data, size);
                if (r == 0 && (type == FRAME_STDOUT || type == FRAME_STDERR))
                        r = frames_write(type == FRAME_STDOUT ? STDOUT_FILENO : STDERR_FILENO, data, size);
                else if (r == 0 && type != FRAME_READY && size >= sizeof(json_size))
                        memcpy(&json_size, data, sizeof(json_size));
                if (r == 0 && json_size > 0 && json_size <= size - sizeof(json_size)) {
                        fprintf(stderr, "%.*s\n", (int)json_size, data + sizeof(json_size));
                        r = type == FRAME_RESULT && memmem(data, size, "\"end\": \"ok\"", 11) == NULL &&
                            memmem(data, size, "\"end\":\"ok\"", 10) == NULL;
                }
                free(data);
                if (r < 0 || type == last)
                        return r;
        }
}

static _Noreturn void serve(struct wasm_instance *instance, int control) {
        const struct wasm_code *code = instance->host->code;
        enum wasm_trap trap = WASM_TRAP_NONE;
        uint32_t ended = 0;

        while (trap == WASM_TRAP_NONE && ended == 0) {
                struct pollfd fd = {.fd = control, .events = POLLIN};

                if (poll(&fd, 1, -1) > 0)
                        trap = wasm_call(instance, code->request, &ended);
        }
        if (trap == WASM_TRAP_NONE)
                _exit(EXIT_SUCCESS);
        if (trap == WASM_TRAP_EXIT)
                fprintf(stderr, "sbx-wasm run: the guest ended with status %u\n",
                        atomic_load(&instance->host->status->exit_code));
        else
                fprintf(stderr, "sbx-wasm run: the guest trapped: %s\n", wasm_trap_name(trap));
        _exit(EXIT_FAILURE);
}

/* In a process of its own, as sessions are. */
static int start(struct runner *runner, int (*lock)(char *message, size_t size)) {
        static const struct vfs_limits limits = {.bytes = 64 << 20, .entries = 10000, .open_files = 256};
        static struct wasm_image image;
        static struct wasm_status status;
        static struct wasm_host host = {.status = &status, .memory_limit = MEMORY_MAX};
        const struct wasm_code *code;
        struct wasm_instance *instance;
        int sockets[2];
        int r = wasm_code_load(runner->code_path, &code, runner->message, sizeof(runner->message));

        if (r == 0)
                r = image_open_path(runner->image_path, &image, runner->message, sizeof(runner->message));
        if (r < 0)
                return r;
        r = vfs_new(&image.tree, &limits, &host.vfs);
        if (r == 0)
                r = wasm_instance_new(code, &image, &host, &instance);
        if (r == 0)
                r = wasm_signals_install(instance);
        if (r == 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) < 0)
                r = -errno;
        if (r < 0) {
                snprintf(runner->message, sizeof(runner->message), "the guest can't be set up: %s", strerror(-r));
                return r;
        }
        fflush(NULL);
        if (fork() == 0) {
                close(sockets[0]);
                if (lock(runner->message, sizeof(runner->message)) < 0) {
                        fprintf(stderr, "sbx-wasm run: %s\n", runner->message);
                        _exit(EXIT_FAILURE);
                }
                vfs_set_streams(host.vfs, -1, -1, -1, sockets[1]);
                serve(instance, sockets[1]);
        }
        close(sockets[1]);
        signal(SIGINT, SIG_IGN); /* the terminal sends it to the guest as well */
        signal(SIGPIPE, SIG_IGN);
        runner->control = sockets[0];
        return 0;
}

static int execute(struct runner *runner, const char *path) {
        char *source = malloc(SOURCE_MAX);
        FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "r");
        size_t size;
        int r;

        if (source == NULL || file == NULL) {
                fprintf(stderr, "sbx-wasm run: %s can't be read: %s\n", path, strerror(errno));
                free(source);
                return -EIO;
        }
        size = fread(source, 1, SOURCE_MAX, file);
        if (file != stdin)
                fclose(file);
        r = frames_send_exec(runner->control, source, size);
        free(source);
        return r < 0 ? r : receive_until(runner->control, FRAME_RESULT);
}

static double now_ms(void) {
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static int run_all(struct runner *runner, int count, char **paths) {
        static char *standard_input[] = {"-"};
        double begin = now_ms();
        int r = frames_send_hello(runner->control);

        if (r == 0)
                r = receive_until(runner->control, FRAME_READY);
        if (runner->timed)
                fprintf(stderr, "ready after %.3f ms\n", now_ms() - begin);
        for (int i = 0; i < (count > 0 ? count : 1) && r >= 0; i++) {
                int one;

                begin = now_ms();
                one = execute(runner, (count > 0 ? paths : standard_input)[i]);
                r = one < 0 || r == 0 ? one : r;
                if (runner->timed)
                        fprintf(stderr, "executed in %.3f ms\n", now_ms() - begin);
        }
        return r;
}

static int parse(struct runner *runner, int argc, char **argv) {
        static const struct option options[] = {{"code", required_argument, NULL, 'c'},
                                                {"image", required_argument, NULL, 'i'},
                                                {"time", no_argument, NULL, 't'},
                                                {NULL, 0, NULL, 0}};
        int option;

        while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
                if (option == 'c')
                        runner->code_path = optarg;
                else if (option == 'i')
                        runner->image_path = optarg;
                else if (option == 't')
                        runner->timed = true;
                else
                        return -EINVAL;
        }
        return runner->code_path != NULL && runner->image_path != NULL ? 0 : -EINVAL;
}

int wasm_run_main(int argc, char **argv, int (*lock)(char *message, size_t size)) {
        struct runner runner = {0};
        int status, r;

        if (parse(&runner, argc, argv) < 0) {
                fputs(usage_text, stderr);
                return 2;
        }
        if (start(&runner, lock) < 0) {
                fprintf(stderr, "sbx-wasm run: %s\n", runner.message);
                return EXIT_FAILURE;
        }
        r = run_all(&runner, argc - optind, argv + optind);
        close(runner.control);
        while (wait(&status) < 0 && errno == EINTR)
                ;
        return r == 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Starting a helper process: what it is handed, and nothing else of the server's. */
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "helper_internal.h"
#include "util.h"

#define HELPER_PROGRAM "sbx-wasm"
#define FIRST_FREE_FD 10 /* beyond those that the program gets */

struct launch {
        int ours, socket, image, code, config, log_read, log_write;
};

static void close_launch(struct launch *launch) {
        close_fd(&launch->ours);
        close_fd(&launch->socket);
        close_fd(&launch->image);
        close_fd(&launch->code);
        close_fd(&launch->config);
        close_fd(&launch->log_read);
        close_fd(&launch->log_write);
}

static int make_config(const struct backend *backend, int *ret_fd) {
        const struct wasm_options *options = &backend->options;
        struct helper_config config = {
                .struct_size = sizeof(config),
                .drop = backend->drop,
                .uid = options->user,
                .gid = options->user,
                .namespaces = options->namespaces,
                .sessions_max = options->sessions_max,
                .memory_max = options->memory_max_bytes,
                .files_max = options->files_bytes,
                .file_entries_max = options->file_entries,
                .open_files_max = options->open_files,
                .snapshot_max = options->snapshot_max_bytes,
                .cpu_seconds = options->cpu_seconds,
        };
        _cleanup_close_ int fd = memfd_create("sbx-config", MFD_CLOEXEC);
        int r = fd < 0 ? -errno : write_whole(fd, &config, sizeof(config));

        if (r == 0 && lseek(fd, 0, SEEK_SET) < 0)
                r = -errno;
        if (r == 0)
                *ret_fd = steal_fd(&fd);
        return r;
}

/* Native code that somebody else could have written is not run. */
static int open_code(const struct guest_image *image, int *ret_fd, struct sbx_error *err) {
        _cleanup_close_ int fd = open(image->code_path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0)
                return sbx_error_set(err, -errno, WASM_ORIGIN, "reinstall the program", "%s: %s", image->code_path,
                                     strerror(errno));
        if (!S_ISREG(st.st_mode) || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0 ||
            (st.st_uid != 0 && st.st_uid != geteuid()))
                return sbx_error_set(err, -EPERM, WASM_ORIGIN, "it must belong to root or you: chmod go-w, chown",
                                     "%s is not loaded: others than root and you can write it (owner %u, mode %03o)",
                                     image->code_path, st.st_uid, st.st_mode & 07777);
        *ret_fd = steal_fd(&fd);
        return 0;
}

/* Away from the numbers that the program's own get. */
static int move_up(int *fd) {
        int moved;

        if (*fd >= FIRST_FREE_FD)
                return 0;
        moved = fcntl(*fd, F_DUPFD_CLOEXEC, FIRST_FREE_FD);
        if (moved < 0)
                return -errno;
        close(*fd);
        *fd = moved;
        return 0;
}

static int open_channels(const struct backend *backend, struct launch *launch) {
        int *const moved[] = {&launch->socket, &launch->image, &launch->code, &launch->config, &launch->log_write};
        int pair[2], r;

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return -errno;
        launch->ours = pair[0];
        launch->socket = pair[1];
        if (pipe2(pair, O_CLOEXEC | O_NONBLOCK) < 0)
                return -errno;
        launch->log_read = pair[0];
        launch->log_write = pair[1];
        r = make_config(backend, &launch->config);
        for (size_t i = 0; r == 0 && i < sizeof(moved) / sizeof(moved[0]); i++)
                r = move_up(moved[i]);
        return r;
}

static int open_launch(struct backend *backend, const struct guest_image *image, const struct sbx_call *call,
                       struct launch *launch, struct sbx_error *err) {
        int r = open_code(image, &launch->code, err);

        if (r == 0)
                r = cache_open(backend, image, call, &launch->image, err);
        if (r < 0)
                return r;
        r = open_channels(backend, launch);
        return r < 0 ? sbx_error_set(err, r == -EMFILE || r == -ENFILE ? -EAGAIN : r, WASM_ORIGIN,
                                     "raise the limit of open files (ulimit -n)", "descriptors: %s", strerror(-r))
                     : 0;
}

static int spawn_program(const char *path, const struct launch *launch, pid_t *ret_pid) {
        const int numbers[][2] = {
                {launch->log_write, 1},           {launch->log_write, 2},         {launch->socket, HELPER_SOCKET_FD},
                {launch->image, HELPER_IMAGE_FD}, {launch->code, HELPER_CODE_FD}, {launch->config, HELPER_CONFIG_FD}};
        static char *const argv[] = {(char *)HELPER_PROGRAM, (char *)"zygote", NULL};
        static char *const no_environment[] = {NULL};
        posix_spawn_file_actions_t actions;
        posix_spawnattr_t attributes;
        sigset_t all, none;
        int r;

        sigfillset(&all);
        sigemptyset(&none);
        posix_spawn_file_actions_init(&actions);
        posix_spawnattr_init(&attributes);
        r = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
        for (size_t i = 0; r == 0 && i < sizeof(numbers) / sizeof(numbers[0]); i++)
                r = posix_spawn_file_actions_adddup2(&actions, numbers[i][0], numbers[i][1]);
        posix_spawnattr_setsigdefault(&attributes, &all);
        posix_spawnattr_setsigmask(&attributes, &none);
        /* A session of its own: the terminal's signals are not for it. */
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID);
        if (r == 0)
                r = posix_spawn(ret_pid, path, &actions, &attributes, argv, no_environment);
        posix_spawnattr_destroy(&attributes);
        posix_spawn_file_actions_destroy(&actions);
        return -r;
}

static int start_program(const struct backend *backend, const struct launch *launch, int *ret_pidfd,
                         struct sbx_error *err) {
        const char *libexec = backend->host.directory(backend->host.self, "libexec");
        _cleanup_free_ char *path = NULL;
        pid_t pid = -1;
        int r, pidfd;

        if (libexec == NULL || asprintf(&path, "%s/" HELPER_PROGRAM, libexec) < 0) {
                path = NULL;
                return sbx_error_set(err, -ENOENT, WASM_ORIGIN, "reinstall the program",
                                     "the directory of helper programs is missing");
        }
        r = spawn_program(path, launch, &pid);
        if (r < 0)
                return sbx_error_set(err, r, WASM_ORIGIN, "reinstall the program", "can't start %s: %s", path,
                                     strerror(-r));
        pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
        if (pidfd < 0) {
                r = -errno;
                kill(pid, SIGKILL);
                while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                        ;
                return sbx_error_set(err, r, WASM_ORIGIN, "Linux 5.13 or later is needed", "pidfd: %s", strerror(-r));
        }
        *ret_pidfd = pidfd;
        return 0;
}

int helper_new(struct backend *backend, const struct guest_image *image, const struct sbx_call *call,
               struct helper **ret_helper, struct sbx_error *err) {
        _cleanup_(close_launch) struct launch launch = {-1, -1, -1, -1, -1, -1, -1};
        _cleanup_free_ struct helper *helper = calloc(1, sizeof(*helper));
        int r;

        if (helper == NULL)
                return sbx_error_set(err, -ENOMEM, WASM_ORIGIN, NULL, "out of memory");
        r = open_launch(backend, image, call, &launch, err);
        if (r == 0)
                r = start_program(backend, &launch, &helper->pidfd, err);
        if (r < 0)
                return r;
        atomic_init(&helper->references, 1);
        atomic_init(&helper->dead, false);
        pthread_mutex_init(&helper->lock, NULL);
        helper->backend = backend;
        helper->socket = steal_fd(&launch.ours);
        helper->log = steal_fd(&launch.log_read);
        *ret_helper = steal_pointer(helper);
        return 0;
}

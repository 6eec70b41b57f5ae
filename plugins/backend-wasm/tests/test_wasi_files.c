/* SPDX-License-Identifier: Apache-2.0 */
/* WASI's functions for files as generated code calls them: addresses that aren't the guest's, streams, frames, buffers,
 * reading directories piece by piece. The memory is on the heap, so that a step beyond it is seen by a sanitizer. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/host.h"
#include "vfs_help.h"

#define MEMORY 4096u
#define NOW 123456789u

/* In the place of wasi.c and wasi_poll.c. */
static uint32_t wait_answer;
static unsigned waits;

uint64_t wasi_now_ns(struct wasm_instance *instance, enum wasi_clock clock) {
        (void)instance;
        return clock == WASI_CLOCK_REALTIME ? NOW : 1;
}

uint32_t wasi_wait(struct wasm_instance *instance, int host_fd, short events, int64_t timeout_ns) {
        struct pollfd fd = {.fd = host_fd, .events = events};

        (void)instance;
        assert_true(timeout_ns < 0);
        waits++;
        return wait_answer != 0 ? wait_answer : poll(&fd, 1, -1) == 1 ? 0 : WASI_EIO;
}

struct fixture {
        struct wasm_instance instance;
        struct wasm_host host;
        struct wasm_status status;
        struct vfs_tree tree;
        int control[2];
};

static int setup(void **state) {
        const struct vfs_limits limits = {.bytes = 1 << 20, .entries = 300, .open_files = 20};
        struct fixture *fixture = calloc(1, sizeof(*fixture));

        make_tree(&fixture->tree);
        assert_int_equal(vfs_new(&fixture->tree, &limits, &fixture->host.vfs), 0);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fixture->control), 0);
        fixture->host.status = &fixture->status;
        fixture->instance.host = &fixture->host;
        fixture->instance.memory = calloc(1, MEMORY);
        fixture->instance.size = MEMORY;
        wait_answer = waits = 0;
        *state = fixture;
        return 0;
}

static int teardown(void **state) {
        struct fixture *fixture = *state;

        vfs_free(fixture->host.vfs);
        free_tree(&fixture->tree);
        free(fixture->instance.memory);
        close(fixture->control[0]);
        close(fixture->control[1]);
        free(fixture);
        return 0;
}

static uint32_t get_u32(const struct fixture *fixture, uint32_t address) {
        uint32_t value;

        memcpy(&value, fixture->instance.memory + address, sizeof(value));
        return value;
}

/* Text at an address; its size. */
static uint32_t put(struct fixture *fixture, uint32_t address, const char *text) {
        memcpy(fixture->instance.memory + address, text, strlen(text));
        return (uint32_t)strlen(text);
}

static void put_iov(struct fixture *fixture, uint32_t address, uint32_t data, uint32_t size) {
        struct wasi_iovec iov = {.address = data, .size = size};

        memcpy(fixture->instance.memory + address, &iov, sizeof(iov));
}

#define RIGHTS_READ WASI_RIGHT_FD_READ
#define RIGHTS_WRITE WASI_RIGHT_FD_WRITE

static uint32_t open_path(struct fixture *fixture, const char *path, uint32_t flags, uint64_t rights) {
        uint32_t size = put(fixture, 1024, path);
        uint32_t r = wasi_path_open(&fixture->instance, VFS_ROOT_FD, WASI_LOOKUP_FOLLOW, 1024, size, flags, rights, 0,
                                    0, 2048);

        assert_int_equal(r, 0);
        return get_u32(fixture, 2048);
}

/* Ends of memory, ends of 32 bits. */
static const uint32_t bad[] = {MEMORY - 3, MEMORY, MEMORY + 1, 0x7fffffff, 0x80000000, 0xfffffffc, 0xffffffff};

static void test_bad_results(void **state) {
        struct fixture *fixture = *state;
        struct wasm_instance *instance = &fixture->instance;
        uint32_t fd = open_path(fixture, "work/f", WASI_OPEN_CREATE, RIGHTS_READ | RIGHTS_WRITE);
        uint32_t size = put(fixture, 0, "work/f"), link = put(fixture, 100, "work/l");

        assert_int_equal(wasi_path_symlink(instance, 0, size, VFS_ROOT_FD, 100, link), 0);
        put_iov(fixture, 200, 300, 4);
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                uint32_t to = bad[i];

                assert_int_equal(wasi_fd_fdstat_get(instance, fd, to), WASI_EFAULT);
                assert_int_equal(wasi_fd_filestat_get(instance, fd, to), WASI_EFAULT);
                assert_int_equal(wasi_fd_prestat_get(instance, VFS_ROOT_FD, to), WASI_EFAULT);
                assert_int_equal(wasi_fd_seek(instance, fd, 0, WASI_WHENCE_SET, to), WASI_EFAULT);
                assert_int_equal(wasi_fd_tell(instance, fd, to), WASI_EFAULT);
                assert_int_equal(wasi_fd_read(instance, fd, 200, 1, to), WASI_EFAULT);
                assert_int_equal(wasi_fd_pread(instance, fd, 200, 1, 0, to), WASI_EFAULT);
                assert_int_equal(wasi_fd_write(instance, fd, 200, 1, to), WASI_EFAULT);
                assert_int_equal(wasi_fd_pwrite(instance, fd, 200, 1, 0, to), WASI_EFAULT);
                assert_int_equal(wasi_fd_readdir(instance, VFS_ROOT_FD, 400, 64, 0, to), WASI_EFAULT);
                assert_int_equal(wasi_path_filestat_get(instance, VFS_ROOT_FD, 0, 0, size, to), WASI_EFAULT);
                assert_int_equal(wasi_path_readlink(instance, VFS_ROOT_FD, 100, link, 400, 64, to), WASI_EFAULT);
                assert_int_equal(wasi_path_open(instance, VFS_ROOT_FD, 0, 0, size, 0, RIGHTS_READ, 0, 0, to),
                                 WASI_EFAULT);
        }
        assert_int_equal(wasi_fd_prestat_dir_name(instance, VFS_ROOT_FD, MEMORY, 1), WASI_EFAULT);
        assert_int_equal(wasi_fd_prestat_dir_name(instance, VFS_ROOT_FD, 400, 0), WASI_ENAMETOOLONG);
        /* A descriptor whose number can't be told was not opened. */
        assert_int_equal(open_path(fixture, "work/f", 0, RIGHTS_READ), fd + 1);
}

static void test_bad_buffers(void **state) {
        struct fixture *fixture = *state;
        struct wasm_instance *instance = &fixture->instance;
        uint32_t fd = open_path(fixture, "work/f", WASI_OPEN_CREATE, RIGHTS_READ | RIGHTS_WRITE);
        uint32_t size = put(fixture, 0, "work/f");

        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                uint32_t from = bad[i];

                assert_int_equal(wasi_fd_write(instance, fd, from, 1, 400), WASI_EFAULT);
                assert_int_equal(wasi_fd_read(instance, fd, from, 1, 400), WASI_EFAULT);
                put_iov(fixture, 200, from, 4);
                assert_int_equal(wasi_fd_write(instance, fd, 200, 1, 400), WASI_EFAULT);
                assert_int_equal(wasi_fd_read(instance, fd, 200, 1, 400), WASI_EFAULT);
                assert_int_equal(wasi_fd_pread(instance, fd, 200, 1, 0, 400), WASI_EFAULT);
                assert_int_equal(wasi_fd_pwrite(instance, fd, 200, 1, 0, 400), WASI_EFAULT);
                put_iov(fixture, 200, 8, from);
                if (from > MEMORY - 8)
                        assert_int_equal(wasi_fd_write(instance, fd, 200, 1, 400), WASI_EFAULT);
                assert_int_equal(wasi_fd_readdir(instance, VFS_ROOT_FD, from, 64, 0, 400), WASI_EFAULT);
                assert_int_equal(wasi_fd_readdir(instance, VFS_ROOT_FD, 64, from, 0, 400),
                                 from > MEMORY - 64 ? WASI_EFAULT : 0);
                assert_int_equal(wasi_path_unlink_file(instance, VFS_ROOT_FD, from, 10), WASI_EFAULT);
                assert_int_equal(wasi_path_unlink_file(instance, VFS_ROOT_FD, 10, from), WASI_EFAULT);
                assert_int_equal(wasi_path_create_directory(instance, VFS_ROOT_FD, from, 10), WASI_EFAULT);
                assert_int_equal(wasi_path_remove_directory(instance, VFS_ROOT_FD, from, 10), WASI_EFAULT);
                assert_int_equal(wasi_path_rename(instance, VFS_ROOT_FD, 0, size, VFS_ROOT_FD, from, 10), WASI_EFAULT);
                assert_int_equal(wasi_path_rename(instance, VFS_ROOT_FD, from, 10, VFS_ROOT_FD, 0, size), WASI_EFAULT);
                assert_int_equal(wasi_path_link(instance, VFS_ROOT_FD, 0, 0, size, VFS_ROOT_FD, from, 10), WASI_EFAULT);
                assert_int_equal(wasi_path_link(instance, VFS_ROOT_FD, 0, from, 10, VFS_ROOT_FD, 0, size), WASI_EFAULT);
                assert_int_equal(wasi_path_symlink(instance, from, 10, VFS_ROOT_FD, 0, size), WASI_EFAULT);
                assert_int_equal(wasi_path_symlink(instance, 0, size, VFS_ROOT_FD, from, 10), WASI_EFAULT);
                assert_int_equal(wasi_path_readlink(instance, VFS_ROOT_FD, 0, size, from, 10, 400), WASI_EFAULT);
                assert_int_equal(wasi_path_readlink(instance, VFS_ROOT_FD, from, 10, 0, 10, 400), WASI_EFAULT);
                assert_int_equal(wasi_path_filestat_get(instance, VFS_ROOT_FD, 0, from, 10, 400), WASI_EFAULT);
                assert_int_equal(wasi_path_filestat_set_times(instance, VFS_ROOT_FD, 0, from, 10, 0, 0, 0),
                                 WASI_EFAULT);
                assert_int_equal(wasi_path_open(instance, VFS_ROOT_FD, 0, from, 10, 0, 0, 0, 0, 400), WASI_EFAULT);
        }
        assert_int_equal(wasi_fd_write(instance, fd, 0, UINT32_MAX, 400), WASI_EINVAL);
        assert_int_equal(wasi_fd_write(instance, fd, 0, 1025, 400), WASI_EINVAL);
        assert_int_equal(wasi_fd_pread(instance, fd, 0, 1, UINT64_MAX, 400), WASI_EINVAL);
        assert_int_equal(wasi_path_filestat_get(instance, VFS_ROOT_FD, 2, 0, size, 400), WASI_EINVAL);
}

static void test_bad_descriptors(void **state) {
        struct fixture *fixture = *state;
        struct wasm_instance *instance = &fixture->instance;

        for (uint32_t fd = 5; fd != 0; fd = fd == 5 ? UINT32_MAX : 0) {
                assert_int_equal(wasi_fd_advise(instance, fd, 0, 0, 0), WASI_EBADF);
                assert_int_equal(wasi_fd_allocate(instance, fd, 0, 1), WASI_EBADF);
                assert_int_equal(wasi_fd_close(instance, fd), WASI_EBADF);
                assert_int_equal(wasi_fd_datasync(instance, fd), WASI_EBADF);
                assert_int_equal(wasi_fd_sync(instance, fd), WASI_EBADF);
                assert_int_equal(wasi_fd_fdstat_get(instance, fd, 0), WASI_EBADF);
                assert_int_equal(wasi_fd_fdstat_set_flags(instance, fd, 0), WASI_EBADF);
                assert_int_equal(wasi_fd_fdstat_set_rights(instance, fd, 0, 0), WASI_EBADF);
                assert_int_equal(wasi_fd_filestat_get(instance, fd, 0), WASI_EBADF);
                assert_int_equal(wasi_fd_filestat_set_size(instance, fd, 0), WASI_EBADF);
                assert_int_equal(wasi_fd_filestat_set_times(instance, fd, 0, 0, 0), WASI_EBADF);
                assert_int_equal(wasi_fd_prestat_get(instance, fd, 0), WASI_EBADF);
                assert_int_equal(wasi_fd_prestat_dir_name(instance, fd, 0, 1), WASI_EBADF);
                assert_int_equal(wasi_fd_read(instance, fd, 0, 0, 0), WASI_EBADF);
                assert_int_equal(wasi_fd_write(instance, fd, 0, 0, 0), WASI_EBADF);
                assert_int_equal(wasi_fd_readdir(instance, fd, 0, 64, 0, 0), WASI_EBADF);
                assert_int_equal(wasi_fd_renumber(instance, fd, 0), WASI_EBADF);
                assert_int_equal(wasi_fd_seek(instance, fd, 0, 0, 0), WASI_EBADF);
                assert_int_equal(wasi_path_create_directory(instance, fd, 0, 1), WASI_EILSEQ);
                put(fixture, 0, "x");
                assert_int_equal(wasi_path_create_directory(instance, fd, 0, 1), WASI_EBADF);
                memset(instance->memory, 0, MEMORY);
        }
}

/* What wasi-libc looks at: the rights say how it was opened; no stream is a terminal. */
static void test_fdstat(void **state) {
        struct fixture *fixture = *state;
        struct wasm_instance *instance = &fixture->instance;
        uint32_t reader = open_path(fixture, "etc/name", 0, RIGHTS_READ);
        uint32_t writer = open_path(fixture, "work/f", WASI_OPEN_CREATE, RIGHTS_WRITE);
        uint32_t null = open_path(fixture, "dev/null", 0, RIGHTS_READ | RIGHTS_WRITE);
        struct wasi_fdstat stat;

        assert_int_equal(wasi_fd_fdstat_get(instance, reader, 0), 0);
        memcpy(&stat, instance->memory, sizeof(stat));
        assert_int_equal(stat.type, WASI_FILETYPE_REGULAR_FILE);
        assert_true((stat.rights & WASI_RIGHT_FD_READ) != 0 && (stat.rights & WASI_RIGHT_FD_WRITE) == 0);
        assert_int_equal(wasi_fd_fdstat_set_flags(instance, writer, WASI_FD_APPEND), 0);
        assert_int_equal(wasi_fd_fdstat_set_flags(instance, writer, 64), WASI_EINVAL);
        assert_int_equal(wasi_fd_fdstat_get(instance, writer, 0), 0);
        memcpy(&stat, instance->memory, sizeof(stat));
        assert_int_equal(stat.flags, WASI_FD_APPEND);
        assert_true((stat.rights & WASI_RIGHT_FD_READ) == 0 && (stat.rights & WASI_RIGHT_FD_WRITE) != 0);
        assert_int_equal(wasi_fd_fdstat_get(instance, VFS_ROOT_FD, 0), 0);
        memcpy(&stat, instance->memory, sizeof(stat));
        assert_int_equal(stat.type, WASI_FILETYPE_DIRECTORY);
        assert_true((stat.inheriting & (RIGHTS_READ | RIGHTS_WRITE)) == (RIGHTS_READ | RIGHTS_WRITE));
        for (uint32_t fd = 0; fd <= null; fd++) {
                assert_int_equal(wasi_fd_fdstat_get(instance, fd, 0), 0);
                memcpy(&stat, instance->memory, sizeof(stat));
                assert_false(stat.type == WASI_FILETYPE_CHARACTER_DEVICE &&
                             (stat.rights & (WASI_RIGHT_FD_SEEK | WASI_RIGHT_FD_TELL)) == 0);
        }
}

static void test_buffers(void **state) {
        struct fixture *fixture = *state;
        struct wasm_instance *instance = &fixture->instance;
        uint32_t fd = open_path(fixture, "work/f", WASI_OPEN_CREATE, RIGHTS_READ | RIGHTS_WRITE);
        struct wasi_filestat stat;

        put(fixture, 300, "hello");
        put(fixture, 400, " world");
        put_iov(fixture, 200, 300, 5);
        put_iov(fixture, 208, 999999, 0); /* of no size: outside all the same */
        assert_int_equal(wasi_fd_write(instance, fd, 200, 2, 500), 0);
        assert_int_equal(get_u32(fixture, 500), 5);
        put_iov(fixture, 200, 400, 6);
        put_iov(fixture, 208, 0, 0);
        assert_int_equal(wasi_fd_write(instance, fd, 200, 2, 500), 0);
        assert_int_equal(fixture->status.files, fixture->status.files_peak);
        assert_true(fixture->status.files > 11);
        assert_int_equal(wasi_fd_filestat_get(instance, fd, 600), 0);
        memcpy(&stat, instance->memory + 600, sizeof(stat));
        assert_int_equal(stat.size, 11);
        assert_int_equal(stat.modified_ns, NOW);
        put_iov(fixture, 200, 700, 3);
        put_iov(fixture, 208, 800, 100);
        assert_int_equal(wasi_fd_pread(instance, fd, 200, 2, 4, 500), 0);
        assert_int_equal(get_u32(fixture, 500), 7);
        assert_memory_equal(instance->memory + 700, "o w", 3);
        assert_memory_equal(instance->memory + 800, "orld", 4);
        assert_int_equal(wasi_fd_read(instance, fd, 200, 2, 500), 0);
        assert_int_equal(get_u32(fixture, 500), 0);
        assert_int_equal(wasi_fd_filestat_set_times(instance, fd, 5, 6, WASI_TIME_ACCESS | WASI_TIME_MODIFY_NOW), 0);
        assert_int_equal(wasi_fd_filestat_set_times(instance, fd, 5, 6, WASI_TIME_ACCESS | WASI_TIME_ACCESS_NOW),
                         WASI_EINVAL);
        assert_int_equal(wasi_fd_filestat_get(instance, fd, 600), 0);
        memcpy(&stat, instance->memory + 600, sizeof(stat));
        assert_int_equal(stat.accessed_ns, 5);
        assert_int_equal(stat.modified_ns, NOW);
}

static void test_streams(void **state) {
        struct fixture *fixture = *state;
        struct wasm_instance *instance = &fixture->instance;
        char text[16];

        put(fixture, 300, "hello");
        put_iov(fixture, 200, 300, 5);
        /* Without a host behind them. */
        assert_int_equal(wasi_fd_read(instance, 0, 200, 1, 500), 0);
        assert_int_equal(get_u32(fixture, 500), 0);
        assert_int_equal(wasi_fd_write(instance, 1, 200, 1, 500), 0);
        assert_int_equal(get_u32(fixture, 500), 5);
        assert_int_equal(wasi_fd_read(instance, 1, 200, 1, 500), WASI_EBADF);
        assert_int_equal(wasi_fd_write(instance, 0, 200, 1, 500), WASI_EBADF);
        assert_int_equal(wasi_fd_seek(instance, 1, 0, WASI_WHENCE_CUR, 500), WASI_ESPIPE);
        assert_int_equal(wasi_fd_pread(instance, 0, 200, 1, 0, 500), WASI_ESPIPE);
        /* The control stream, both ways. */
        vfs_set_streams(fixture->host.vfs, -1, fixture->control[1], -1, fixture->control[1]);
        assert_int_equal(wasi_fd_write(instance, VFS_CONTROL_FD, 200, 1, 500), 0);
        assert_int_equal(read(fixture->control[0], text, sizeof(text)), 5);
        assert_int_equal(wasi_fd_write(instance, 1, 200, 1, 500), 0);
        assert_int_equal(read(fixture->control[0], text, sizeof(text)), 5);
        assert_int_equal(write(fixture->control[0], "abc", 3), 3);
        assert_int_equal(wasi_fd_read(instance, VFS_CONTROL_FD, 200, 1, 500), 0);
        assert_int_equal(get_u32(fixture, 500), 3);
        assert_memory_equal(instance->memory + 300, "abc", 3);
        assert_int_equal(waits, 0); /* all of it was ready */
        /* Nothing there: it waits, and an interrupt ends that; or it does not wait. */
        wait_answer = WASI_EINTR;
        assert_int_equal(wasi_fd_read(instance, VFS_CONTROL_FD, 200, 1, 500), WASI_EINTR);
        assert_int_equal(waits, 1);
        assert_int_equal(wasi_fd_fdstat_set_flags(instance, VFS_CONTROL_FD, WASI_FD_NONBLOCK), 0);
        assert_int_equal(wasi_fd_read(instance, VFS_CONTROL_FD, 200, 1, 500), WASI_EAGAIN);
        assert_int_equal(waits, 1);
        /* The other end is gone. */
        close(fixture->control[0]);
        fixture->control[0] = dup(fixture->control[1]);
        assert_int_equal(wasi_fd_read(instance, VFS_CONTROL_FD, 200, 1, 500), 0);
        assert_int_equal(get_u32(fixture, 500), 0);
        assert_int_equal(wasi_fd_write(instance, VFS_CONTROL_FD, 200, 1, 500), WASI_EPIPE);
        /* Closing leaves them. */
        assert_int_equal(wasi_fd_close(instance, VFS_CONTROL_FD), 0);
        assert_int_equal(wasi_fd_fdstat_get(instance, VFS_CONTROL_FD, 0), 0);
}

static void test_frames(void **state) {
        struct fixture *fixture = *state;
        struct wasm_instance *instance = &fixture->instance;
        uint8_t frame[32];

        vfs_set_streams(fixture->host.vfs, -1, -1, -1, fixture->control[1]);
        put(fixture, 300, "hello");
        put_iov(fixture, 200, 300, 5);
        assert_int_equal(wasi_fd_write(instance, 1, 200, 1, 500), 0);
        assert_int_equal(get_u32(fixture, 500), 5);
        assert_int_equal(read(fixture->control[0], frame, sizeof(frame)), 10);
        assert_memory_equal(frame, "\5\0\0\0\x82hello", 10);
        put_iov(fixture, 208, 300, 2);
        assert_int_equal(wasi_fd_write(instance, 2, 200, 2, 500), 0);
        assert_int_equal(read(fixture->control[0], frame, sizeof(frame)), 17);
        assert_memory_equal(frame, "\5\0\0\0\x83hello\2\0\0\0\x83he", 17);
        put_iov(fixture, 200, 300, 0);
        assert_int_equal(wasi_fd_write(instance, 1, 200, 1, 500), 0);
        assert_int_equal(recv(fixture->control[0], frame, sizeof(frame), MSG_DONTWAIT), -1);
        assert_int_equal(errno, EAGAIN);
        wait_answer = WASI_EINTR;
        while (send(fixture->control[1], frame, sizeof(frame), MSG_DONTWAIT) > 0)
                ;
        put_iov(fixture, 200, 300, 5);
        assert_int_equal(wasi_fd_write(instance, 1, 200, 1, 500), WASI_EINTR);
}

/* In buffers of every size: each name once, and what is cut is found again by the cookie before it. */
static void test_readdir(void **state) {
        struct fixture *fixture = *state;
        struct wasm_instance *instance = &fixture->instance;
        uint32_t directory;

        for (unsigned i = 0; i < 100; i++) {
                char path[32];

                snprintf(path, sizeof(path), "work/file%02u", i);
                wasi_fd_close(instance, open_path(fixture, path, WASI_OPEN_CREATE, RIGHTS_WRITE));
        }
        directory = open_path(fixture, "work", WASI_OPEN_DIRECTORY, RIGHTS_READ);
        for (uint32_t size = sizeof(struct wasi_dirent) + 6; size < 1000; size += 37) {
                unsigned count = 0;
                uint64_t cookie = 0;
                uint32_t used;

                do {
                        uint32_t at = 0;

                        assert_int_equal(wasi_fd_readdir(instance, directory, 1024, size, cookie, 500), 0);
                        used = get_u32(fixture, 500);
                        assert_true(used <= size);
                        while (at + sizeof(struct wasi_dirent) <= used) {
                                struct wasi_dirent entry;
                                char name[20];

                                memcpy(&entry, instance->memory + 1024 + at, sizeof(entry));
                                at += (uint32_t)sizeof(entry) + entry.name_size;
                                if (at > used)
                                        break;
                                cookie = entry.next;
                                if (count >= 2) {
                                        snprintf(name, sizeof(name), "file%02u", count - 2);
                                        assert_memory_equal(instance->memory + 1024 + at - entry.name_size, name, 6);
                                }
                                count++;
                        }
                } while (used == size);
                assert_int_equal(count, 102);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_bad_results, setup, teardown),
                cmocka_unit_test_setup_teardown(test_bad_buffers, setup, teardown),
                cmocka_unit_test_setup_teardown(test_bad_descriptors, setup, teardown),
                cmocka_unit_test_setup_teardown(test_fdstat, setup, teardown),
                cmocka_unit_test_setup_teardown(test_buffers, setup, teardown),
                cmocka_unit_test_setup_teardown(test_streams, setup, teardown),
                cmocka_unit_test_setup_teardown(test_frames, setup, teardown),
                cmocka_unit_test_setup_teardown(test_readdir, setup, teardown),
        };

        signal(SIGPIPE, SIG_IGN);
        return cmocka_run_group_tests(tests, NULL, NULL);
}

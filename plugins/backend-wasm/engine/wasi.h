/* SPDX-License-Identifier: Apache-2.0 */
/* WASI preview 1 as generated code calls it: every import of a guest is one of these. Pointers are addresses of linear
 * memory and hostile: wasm_range() before each use. Results are enum wasi_errno. Numbers, names and structures are
 * those of <wasi/api.h> (wasi-libc). wasi.c has what is not files, wasi_poll.c waiting, wasi_files*.c files and
 * directories. Included by generated code: C11, no other header but code.h. */
#pragma once

#include "code.h"

enum wasi_errno {
        WASI_SUCCESS = 0,
        WASI_E2BIG = 1,
        WASI_EACCES = 2,
        WASI_EADDRINUSE = 3,
        WASI_EADDRNOTAVAIL = 4,
        WASI_EAFNOSUPPORT = 5,
        WASI_EAGAIN = 6,
        WASI_EALREADY = 7,
        WASI_EBADF = 8,
        WASI_EBADMSG = 9,
        WASI_EBUSY = 10,
        WASI_ECANCELED = 11,
        WASI_ECHILD = 12,
        WASI_ECONNABORTED = 13,
        WASI_ECONNREFUSED = 14,
        WASI_ECONNRESET = 15,
        WASI_EDEADLK = 16,
        WASI_EDESTADDRREQ = 17,
        WASI_EDOM = 18,
        WASI_EDQUOT = 19,
        WASI_EEXIST = 20,
        WASI_EFAULT = 21,
        WASI_EFBIG = 22,
        WASI_EHOSTUNREACH = 23,
        WASI_EIDRM = 24,
        WASI_EILSEQ = 25,
        WASI_EINPROGRESS = 26,
        WASI_EINTR = 27,
        WASI_EINVAL = 28,
        WASI_EIO = 29,
        WASI_EISCONN = 30,
        WASI_EISDIR = 31,
        WASI_ELOOP = 32,
        WASI_EMFILE = 33,
        WASI_EMLINK = 34,
        WASI_EMSGSIZE = 35,
        WASI_EMULTIHOP = 36,
        WASI_ENAMETOOLONG = 37,
        WASI_ENETDOWN = 38,
        WASI_ENETRESET = 39,
        WASI_ENETUNREACH = 40,
        WASI_ENFILE = 41,
        WASI_ENOBUFS = 42,
        WASI_ENODEV = 43,
        WASI_ENOENT = 44,
        WASI_ENOEXEC = 45,
        WASI_ENOLCK = 46,
        WASI_ENOLINK = 47,
        WASI_ENOMEM = 48,
        WASI_ENOMSG = 49,
        WASI_ENOPROTOOPT = 50,
        WASI_ENOSPC = 51,
        WASI_ENOSYS = 52,
        WASI_ENOTCONN = 53,
        WASI_ENOTDIR = 54,
        WASI_ENOTEMPTY = 55,
        WASI_ENOTRECOVERABLE = 56,
        WASI_ENOTSOCK = 57,
        WASI_ENOTSUP = 58,
        WASI_ENOTTY = 59,
        WASI_ENXIO = 60,
        WASI_EOVERFLOW = 61,
        WASI_EOWNERDEAD = 62,
        WASI_EPERM = 63,
        WASI_EPIPE = 64,
        WASI_EPROTO = 65,
        WASI_EPROTONOSUPPORT = 66,
        WASI_EPROTOTYPE = 67,
        WASI_ERANGE = 68,
        WASI_EROFS = 69,
        WASI_ESPIPE = 70,
        WASI_ESRCH = 71,
        WASI_ESTALE = 72,
        WASI_ETIMEDOUT = 73,
        WASI_ETXTBSY = 74,
        WASI_EXDEV = 75,
        WASI_ENOTCAPABLE = 76,
};

/* The program exports these although everything else in it is hidden. */
#pragma GCC visibility push(default)

/* ---- files and directories ---- */

uint32_t wasi_fd_advise(struct wasm_instance *instance, uint32_t fd, uint64_t offset, uint64_t size, uint32_t advice);
uint32_t wasi_fd_allocate(struct wasm_instance *instance, uint32_t fd, uint64_t offset, uint64_t size);
uint32_t wasi_fd_close(struct wasm_instance *instance, uint32_t fd);
uint32_t wasi_fd_datasync(struct wasm_instance *instance, uint32_t fd);
uint32_t wasi_fd_fdstat_get(struct wasm_instance *instance, uint32_t fd, uint32_t ret_stat);
uint32_t wasi_fd_fdstat_set_flags(struct wasm_instance *instance, uint32_t fd, uint32_t flags);
uint32_t wasi_fd_fdstat_set_rights(struct wasm_instance *instance, uint32_t fd, uint64_t rights, uint64_t inheriting);
uint32_t wasi_fd_filestat_get(struct wasm_instance *instance, uint32_t fd, uint32_t ret_stat);
uint32_t wasi_fd_filestat_set_size(struct wasm_instance *instance, uint32_t fd, uint64_t size);
uint32_t wasi_fd_filestat_set_times(struct wasm_instance *instance, uint32_t fd, uint64_t accessed_ns,
                                    uint64_t modified_ns, uint32_t flags);
uint32_t wasi_fd_pread(struct wasm_instance *instance, uint32_t fd, uint32_t iovs, uint32_t count, uint64_t offset,
                       uint32_t ret_size);
uint32_t wasi_fd_prestat_get(struct wasm_instance *instance, uint32_t fd, uint32_t ret_prestat);
uint32_t wasi_fd_prestat_dir_name(struct wasm_instance *instance, uint32_t fd, uint32_t path, uint32_t size);
uint32_t wasi_fd_pwrite(struct wasm_instance *instance, uint32_t fd, uint32_t iovs, uint32_t count, uint64_t offset,
                        uint32_t ret_size);
uint32_t wasi_fd_read(struct wasm_instance *instance, uint32_t fd, uint32_t iovs, uint32_t count, uint32_t ret_size);
uint32_t wasi_fd_readdir(struct wasm_instance *instance, uint32_t fd, uint32_t buffer, uint32_t size, uint64_t cookie,
                         uint32_t ret_size);
uint32_t wasi_fd_renumber(struct wasm_instance *instance, uint32_t fd, uint32_t to);
uint32_t wasi_fd_seek(struct wasm_instance *instance, uint32_t fd, uint64_t offset, uint32_t whence,
                      uint32_t ret_offset);
uint32_t wasi_fd_sync(struct wasm_instance *instance, uint32_t fd);
uint32_t wasi_fd_tell(struct wasm_instance *instance, uint32_t fd, uint32_t ret_offset);
uint32_t wasi_fd_write(struct wasm_instance *instance, uint32_t fd, uint32_t iovs, uint32_t count, uint32_t ret_size);
uint32_t wasi_path_create_directory(struct wasm_instance *instance, uint32_t fd, uint32_t path, uint32_t size);
uint32_t wasi_path_filestat_get(struct wasm_instance *instance, uint32_t fd, uint32_t lookup, uint32_t path,
                                uint32_t size, uint32_t ret_stat);
uint32_t wasi_path_filestat_set_times(struct wasm_instance *instance, uint32_t fd, uint32_t lookup, uint32_t path,
                                      uint32_t size, uint64_t accessed_ns, uint64_t modified_ns, uint32_t flags);
uint32_t wasi_path_link(struct wasm_instance *instance, uint32_t from_fd, uint32_t lookup, uint32_t from,
                        uint32_t from_size, uint32_t to_fd, uint32_t to, uint32_t to_size);
uint32_t wasi_path_open(struct wasm_instance *instance, uint32_t fd, uint32_t lookup, uint32_t path, uint32_t size,
                        uint32_t open_flags, uint64_t rights, uint64_t inheriting, uint32_t fd_flags, uint32_t ret_fd);
uint32_t wasi_path_readlink(struct wasm_instance *instance, uint32_t fd, uint32_t path, uint32_t size, uint32_t buffer,
                            uint32_t buffer_size, uint32_t ret_size);
uint32_t wasi_path_remove_directory(struct wasm_instance *instance, uint32_t fd, uint32_t path, uint32_t size);
uint32_t wasi_path_rename(struct wasm_instance *instance, uint32_t from_fd, uint32_t from, uint32_t from_size,
                          uint32_t to_fd, uint32_t to, uint32_t to_size);
uint32_t wasi_path_symlink(struct wasm_instance *instance, uint32_t target, uint32_t target_size, uint32_t fd,
                           uint32_t path, uint32_t size);
uint32_t wasi_path_unlink_file(struct wasm_instance *instance, uint32_t fd, uint32_t path, uint32_t size);

/* ---- the rest ---- */

uint32_t wasi_args_get(struct wasm_instance *instance, uint32_t argv, uint32_t buffer);
uint32_t wasi_args_sizes_get(struct wasm_instance *instance, uint32_t ret_count, uint32_t ret_size);
uint32_t wasi_environ_get(struct wasm_instance *instance, uint32_t environment, uint32_t buffer);
uint32_t wasi_environ_sizes_get(struct wasm_instance *instance, uint32_t ret_count, uint32_t ret_size);
uint32_t wasi_clock_res_get(struct wasm_instance *instance, uint32_t clock, uint32_t ret_ns);
uint32_t wasi_clock_time_get(struct wasm_instance *instance, uint32_t clock, uint64_t precision, uint32_t ret_ns);
uint32_t wasi_random_get(struct wasm_instance *instance, uint32_t buffer, uint32_t size);
uint32_t wasi_poll_oneoff(struct wasm_instance *instance, uint32_t subscriptions, uint32_t events, uint32_t count,
                          uint32_t ret_count);
_Noreturn void wasi_proc_exit(struct wasm_instance *instance, uint32_t code);
uint32_t wasi_sched_yield(struct wasm_instance *instance);
uint32_t wasi_sock_accept(struct wasm_instance *instance, uint32_t fd, uint32_t flags, uint32_t ret_fd);
uint32_t wasi_sock_recv(struct wasm_instance *instance, uint32_t fd, uint32_t iovs, uint32_t count, uint32_t flags,
                        uint32_t ret_size, uint32_t ret_flags);
uint32_t wasi_sock_send(struct wasm_instance *instance, uint32_t fd, uint32_t iovs, uint32_t count, uint32_t flags,
                        uint32_t ret_size);
uint32_t wasi_sock_shutdown(struct wasm_instance *instance, uint32_t fd, uint32_t how);

#pragma GCC visibility pop

/* ---- numbers ---- */

#define WASI_RIGHT_FD_DATASYNC (UINT64_C(1) << 0)
#define WASI_RIGHT_FD_READ (UINT64_C(1) << 1)
#define WASI_RIGHT_FD_SEEK (UINT64_C(1) << 2)
#define WASI_RIGHT_FD_FDSTAT_SET_FLAGS (UINT64_C(1) << 3)
#define WASI_RIGHT_FD_SYNC (UINT64_C(1) << 4)
#define WASI_RIGHT_FD_TELL (UINT64_C(1) << 5)
#define WASI_RIGHT_FD_WRITE (UINT64_C(1) << 6)
#define WASI_RIGHT_FD_ADVISE (UINT64_C(1) << 7)
#define WASI_RIGHT_FD_ALLOCATE (UINT64_C(1) << 8)
#define WASI_RIGHT_PATH_CREATE_DIRECTORY (UINT64_C(1) << 9)
#define WASI_RIGHT_PATH_CREATE_FILE (UINT64_C(1) << 10)
#define WASI_RIGHT_PATH_LINK_SOURCE (UINT64_C(1) << 11)
#define WASI_RIGHT_PATH_LINK_TARGET (UINT64_C(1) << 12)
#define WASI_RIGHT_PATH_OPEN (UINT64_C(1) << 13)
#define WASI_RIGHT_FD_READDIR (UINT64_C(1) << 14)
#define WASI_RIGHT_PATH_READLINK (UINT64_C(1) << 15)
#define WASI_RIGHT_PATH_RENAME_SOURCE (UINT64_C(1) << 16)
#define WASI_RIGHT_PATH_RENAME_TARGET (UINT64_C(1) << 17)
#define WASI_RIGHT_PATH_FILESTAT_GET (UINT64_C(1) << 18)
#define WASI_RIGHT_PATH_FILESTAT_SET_SIZE (UINT64_C(1) << 19)
#define WASI_RIGHT_PATH_FILESTAT_SET_TIMES (UINT64_C(1) << 20)
#define WASI_RIGHT_FD_FILESTAT_GET (UINT64_C(1) << 21)
#define WASI_RIGHT_FD_FILESTAT_SET_SIZE (UINT64_C(1) << 22)
#define WASI_RIGHT_FD_FILESTAT_SET_TIMES (UINT64_C(1) << 23)
#define WASI_RIGHT_PATH_SYMLINK (UINT64_C(1) << 24)
#define WASI_RIGHT_PATH_REMOVE_DIRECTORY (UINT64_C(1) << 25)
#define WASI_RIGHT_PATH_UNLINK_FILE (UINT64_C(1) << 26)
#define WASI_RIGHT_POLL_FD_READWRITE (UINT64_C(1) << 27)
#define WASI_RIGHT_SOCK_SHUTDOWN (UINT64_C(1) << 28)
#define WASI_RIGHT_SOCK_ACCEPT (UINT64_C(1) << 29)

enum wasi_filetype {
        WASI_FILETYPE_UNKNOWN,
        WASI_FILETYPE_BLOCK_DEVICE,
        WASI_FILETYPE_CHARACTER_DEVICE,
        WASI_FILETYPE_DIRECTORY,
        WASI_FILETYPE_REGULAR_FILE,
        WASI_FILETYPE_SOCKET_DGRAM,
        WASI_FILETYPE_SOCKET_STREAM,
        WASI_FILETYPE_SYMBOLIC_LINK
};
enum wasi_clock { WASI_CLOCK_REALTIME, WASI_CLOCK_MONOTONIC, WASI_CLOCK_PROCESS_CPUTIME, WASI_CLOCK_THREAD_CPUTIME };
enum wasi_whence { WASI_WHENCE_SET, WASI_WHENCE_CUR, WASI_WHENCE_END };
enum wasi_event { WASI_EVENT_CLOCK, WASI_EVENT_FD_READ, WASI_EVENT_FD_WRITE };

/* fdflags */
#define WASI_FD_APPEND 1u
#define WASI_FD_DSYNC 2u
#define WASI_FD_NONBLOCK 4u
#define WASI_FD_RSYNC 8u
#define WASI_FD_SYNC 16u
/* oflags */
#define WASI_OPEN_CREATE 1u
#define WASI_OPEN_DIRECTORY 2u
#define WASI_OPEN_EXCLUSIVE 4u
#define WASI_OPEN_TRUNCATE 8u
/* lookupflags, fstflags, subclockflags, eventrwflags, preopentype */
#define WASI_LOOKUP_FOLLOW 1u
#define WASI_TIME_ACCESS 1u
#define WASI_TIME_ACCESS_NOW 2u
#define WASI_TIME_MODIFY 4u
#define WASI_TIME_MODIFY_NOW 8u
#define WASI_POLL_ABSOLUTE 1u
#define WASI_POLL_HANGUP 1u
#define WASI_PREOPEN_DIRECTORY 0u

/* ---- structures in guest memory, little endian ---- */

struct wasi_iovec {
        uint32_t address, size;
};
struct wasi_prestat {
        uint8_t type, padding[3];
        uint32_t name_size;
};
struct wasi_fdstat {
        uint8_t type, padding0;
        uint16_t flags;
        uint32_t padding1;
        uint64_t rights, inheriting;
};
struct wasi_filestat {
        uint64_t device, inode;
        uint8_t type, padding[7];
        uint64_t links, size, accessed_ns, modified_ns, changed_ns;
};
struct wasi_dirent { /* the name follows, without NUL */
        uint64_t next;
        uint64_t inode;
        uint32_t name_size;
        uint8_t type, padding[3];
};
_Static_assert(sizeof(struct wasi_fdstat) == 24 && sizeof(struct wasi_filestat) == 64 &&
                       sizeof(struct wasi_dirent) == 24 && sizeof(struct wasi_prestat) == 8,
               "as <wasi/api.h>");

/* ---- for the parts of the engine ---- */

/* WASI time of a clock: what guests and files are stamped with. Stands still while an image is baked. */
uint64_t wasi_now_ns(struct wasm_instance *instance, enum wasi_clock clock);
/* Waits until a host descriptor is ready (POLLIN or POLLOUT), for at most `timeout_ns` (< 0: no limit), also when an
 * interrupt comes between a check and the wait. A negative descriptor waits for the time alone. Every host call that
 * could block waits here first. 0, WASI_EINTR (the guest's signal handler is to run), WASI_ETIMEDOUT. */
uint32_t wasi_wait(struct wasm_instance *instance, int host_fd, short events, int64_t timeout_ns);

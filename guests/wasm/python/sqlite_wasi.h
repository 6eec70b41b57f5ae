/* SPDX-License-Identifier: Apache-2.0 */
/* What SQLite's os_unix.c wants and WASI lacks; included ahead of sqlite3.c. There is one process and one user in a
 * guest: file locks are always granted, owners and modes are not kept. */
#pragma once

#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#ifndef F_SETLK
#define F_RDLCK 0
#define F_WRLCK 1
#define F_UNLCK 2
#define F_GETLK 5
#define F_SETLK 6
#define F_SETLKW 7
#endif

static inline int sqlite_fcntl(int fd, int command, ...) {
        va_list arguments;
        int result = 0;

        va_start(arguments, command);
        if (command == F_GETLK)
                va_arg(arguments, struct flock *)->l_type = F_UNLCK;
        else if (command != F_SETLK && command != F_SETLKW)
                result = fcntl(fd, command, va_arg(arguments, int));
        va_end(arguments);
        return result;
}
#define fcntl sqlite_fcntl

static inline int fchmod(int fd, mode_t mode) {
        (void)fd, (void)mode;
        return 0;
}
static inline int fchown(int fd, uid_t user, gid_t group) {
        (void)fd, (void)user, (void)group;
        return 0;
}
static inline uid_t geteuid(void) {
        return 0;
}

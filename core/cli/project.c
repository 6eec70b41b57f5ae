/* SPDX-License-Identifier: Apache-2.0 */
/* Writing files into a project directory: whole or not at all, and never through a symbolic link. */
#include "cli/project.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"

#define ORIGIN "cli"

int sbx_cli_project_look(int dir_fd, const char *name, mode_t *ret_mode, struct sbx_error *err) {
        struct stat st;

        if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
                int code = -errno;

                return code == -ENOENT ? 0
                                       : sbx_error_set(err, code, ORIGIN, NULL, "can't look at %s: %s", name,
                                                       SBX_ERRNO_TEXT(code));
        }
        if (S_ISLNK(st.st_mode))
                return sbx_error_set(err, -ELOOP, ORIGIN,
                                     "replace the link by a file, or change what it points to by hand",
                                     "%s is a symbolic link; nothing is written through it", name);
        if (!S_ISREG(st.st_mode))
                return sbx_error_set(err, -EINVAL, ORIGIN, "move it away", "%s is not a file", name);
        if (ret_mode != NULL)
                *ret_mode = st.st_mode & 0777;
        return 1;
}

static int write_temporary(int dir_fd, const char *name, struct sbx_bytes content, mode_t mode) {
        _cleanup_close_ int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
        int r;

        if (fd < 0)
                return -errno;
        r = sbx_fd_write_all(fd, content, NULL);
        if (r == 0 && fsync(fd) < 0)
                r = -errno;
        if (r < 0)
                (void)unlinkat(dir_fd, name, 0);
        return r;
}

int sbx_cli_project_write(int dir_fd, const char *name, struct sbx_bytes content, mode_t mode, bool replace,
                          struct sbx_error *err) {
        _cleanup_free_ char *temporary = NULL;
        int r;

        if (asprintf(&temporary, "%s.%ld.tmp", name, (long)getpid()) < 0) {
                temporary = NULL;
                return SBX_NOMEM(err, ORIGIN);
        }
        r = write_temporary(dir_fd, temporary, content, mode);
        if (r < 0)
                return sbx_error_set(err, r, ORIGIN, NULL, "can't write %s: %s", name, SBX_ERRNO_TEXT(r));
        /* A link fails where a rename would replace what somebody else has just put there. */
        if (replace ? renameat(dir_fd, temporary, dir_fd, name) < 0 : linkat(dir_fd, temporary, dir_fd, name, 0) < 0)
                r = -errno;
        if (!replace || r < 0)
                (void)unlinkat(dir_fd, temporary, 0);
        return r < 0 ? sbx_error_set(err, r, ORIGIN, NULL, "can't write %s: %s", name, SBX_ERRNO_TEXT(r)) : 0;
}

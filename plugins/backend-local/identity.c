/* SPDX-License-Identifier: Apache-2.0 */
/* Whose id guests have outside: the server's own, or when that is root, the one that the option "user" names. */
#include <fcntl.h>

#include "local.h"
#include "util.h"

#define MAP_TEXT_MAX 16384 /* 340 lines are the kernel's limit */

/* What `inside` of this user namespace is in its parent (user_namespaces(7)); -ENOENT: nothing. */
static int map_id(const char *path, unsigned inside, unsigned *ret_outside) {
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        char text[MAP_TEXT_MAX], *rest = text, *line;
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

        if (n < 0)
                return -errno;
        text[n] = '\0';
        while ((line = strsep(&rest, "\n")) != NULL) {
                unsigned first, outside, count;

                if (sscanf(line, "%u %u %u", &first, &outside, &count) == 3 && inside >= first &&
                    inside - first < count) {
                        *ret_outside = outside + (inside - first);
                        return 0;
                }
        }
        return -ENOENT;
}

int identity_find(struct local *local, struct sbx_error *err) {
        unsigned outside = 0, user = (unsigned)local->options.user;

        local->drop = false;
        local->uid = geteuid();
        local->gid = getegid();
        if (local->uid != 0)
                return 0;
        if (map_id("/proc/self/uid_map", user, &outside) == 0 && map_id("/proc/self/gid_map", user, &outside) == 0) {
                local->drop = true;
                local->uid = local->gid = user;
                return 0;
        }
        /* Root of a user namespace with no other id in it is an ordinary user outside. */
        if (map_id("/proc/self/uid_map", 0, &outside) == 0 && outside != 0)
                return 0;
        return sbx_error_set(err, -ENOTSUP, LOCAL_ORIGIN,
                             "set the option \"user\" to an id that exists here, or serve as an ordinary user",
                             "layer \"ids\": root, in a user namespace without the uid and gid %u", user);
}

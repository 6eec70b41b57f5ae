/* SPDX-License-Identifier: Apache-2.0 */
/* Locks: tried and tried again, since flock(2) can't wait for a deadline or a cancellation. */
#include "lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include "files.h"

#define PATIENCE_NS UINT64_C(60000000000)
#define PAUSE_MAX_MS 16u

int lock_descriptor(const struct dir_store *store, int fd, bool exclusive, const char *whose,
                    const struct sbx_call *call, struct sbx_error *err) {
        uint64_t end = clock_ns(CLOCK_MONOTONIC) + PATIENCE_NS;
        unsigned pause = 1;
        int r;

        while (flock(fd, (exclusive ? LOCK_EX : LOCK_SH) | LOCK_NB) < 0) {
                if (errno == EINTR)
                        continue;
                if (errno != EWOULDBLOCK)
                        return sbx_error_set(err, -errno, DIR_ORIGIN,
                                             "Use a file system with flock(2): a local disk, or NFS version 4.",
                                             "can't lock %s in %s: %m", whose, store->path);
                r = call_pause(call, pause, NULL);
                if (r == 0 && clock_ns(CLOCK_MONOTONIC) >= end)
                        r = -ETIMEDOUT;
                if (r < 0)
                        return sbx_error_set(err, r, DIR_ORIGIN,
                                             r == -ETIMEDOUT ? "Another program is using it; is one stopped, or hung?"
                                                             : NULL,
                                             "gave up waiting for the lock of %s in %s", whose, store->path);
                pause = pause < PAUSE_MAX_MS ? 2 * pause : pause;
        }
        return 0;
}

int lock_directory(const struct dir_store *store, const char *directory, const struct sbx_call *call, int *ret_fd,
                   struct sbx_error *err) {
        _cleanup_lock_ int fd = -1;
        uint32_t hash = 2166136261u; /* FNV-1a; which file it is need not be a secret */
        char name[16];
        int r;

        for (const char *c = directory; *c != '\0'; c++)
                hash = (hash ^ (uint8_t)*c) * 16777619u;
        snprintf(name, sizeof(name), "%02x", hash % LOCKS);
        r = file_open(store->locks_fd, name, O_RDWR | O_CREAT, &fd, NULL);
        if (r < 0)
                return store_error(store, r, "open the lock", "locks", name, err);
        r = lock_descriptor(store, fd, true, directory[0] != '\0' ? directory : "the names", call, err);
        if (r == 0)
                *ret_fd = steal_fd(&fd);
        return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Adds up what the store takes. Looking at every file takes a while, so what this process writes is added to the last
 * sum, and the sum is made anew after some seconds, or before something is refused. */
#include "quota.h"

#include <fcntl.h>

#include "files.h"
#include "object.h"

#define FRESH_NS UINT64_C(10000000000)

/* A file that has several names in the store counts where it is in objects/. */
static int add_file(void *data, int fd, const char *name) {
        uint64_t *sum = data;
        struct stat st;

        if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
                return 0;
        if (!object_is_name(name) || st.st_nlink == 1)
                *sum += strcmp(name, "index.old") != 0 || st.st_nlink == 1 ? (uint64_t)st.st_size : 0;
        return 0;
}

static int add_object(void *data, int fd, const char *name) {
        uint64_t *sum = data;
        struct stat st;

        if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
                *sum += (uint64_t)st.st_size;
        return 0;
}

static int add_directory(void *data, int fd, const char *name) {
        _cleanup_close_ int inside = -1;

        if (directory_open(fd, name, false, &inside) < 0)
                return 0; /* removed meanwhile, or not ours */
        return directory_visit(inside, add_file, data);
}

int quota_measure(struct dir_store *store, uint64_t *ret_bytes) {
        uint64_t sum = 0;
        int r = directory_visit(store->names_fd, add_directory, &sum);

        if (r == 0)
                r = directory_visit(store->objects_fd, add_object, &sum);
        if (r == 0)
                *ret_bytes = sum;
        return r;
}

static int measure_again(struct dir_store *store, struct sbx_error *err) {
        uint64_t sum = 0;
        int r = quota_measure(store, &sum);

        if (r < 0)
                return store_error(store, r, "add up the size of", "names", NULL, err);
        store->used_bytes = sum;
        store->measured_ns = clock_ns(CLOCK_MONOTONIC);
        store->measured = true;
        return 0;
}

int quota_check(struct dir_store *store, uint64_t more, struct sbx_error *err) {
        _cleanup_unlock_ pthread_mutex_t *locked = lock_mutex(&store->usage_mutex);
        bool fresh = store->measured && clock_ns(CLOCK_MONOTONIC) - store->measured_ns < FRESH_NS;
        bool fits;
        int r;

        (void)locked;
        if (store->quota_bytes == 0)
                return 0;
        fits = more <= store->quota_bytes && store->used_bytes <= store->quota_bytes - more;
        if (!fresh || !fits) {
                r = measure_again(store, err);
                if (r < 0)
                        return r;
                fits = more <= store->quota_bytes && store->used_bytes <= store->quota_bytes - more;
        }
        return fits ? 0
                    : sbx_error_set(err, -ENOSPC, DIR_ORIGIN,
                                    "`sessions delete` or `sessions gc` makes room; or raise the option `quota`.",
                                    "the store in %s is full: %llu of %llu MB, and %llu KB more are to be stored",
                                    store->path, (unsigned long long)(store->used_bytes >> 20),
                                    (unsigned long long)(store->quota_bytes >> 20), (unsigned long long)(more >> 10));
}

void quota_add(struct dir_store *store, int64_t bytes) {
        _cleanup_unlock_ pthread_mutex_t *locked = lock_mutex(&store->usage_mutex);

        (void)locked;
        if (bytes >= 0 || store->used_bytes >= (uint64_t)-bytes)
                store->used_bytes += (uint64_t)bytes;
        else
                store->used_bytes = 0;
}

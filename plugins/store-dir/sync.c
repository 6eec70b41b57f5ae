/* SPDX-License-Identifier: Apache-2.0 */
/* Syncs directories of names, and the thread that does so a moment after they were changed. */
#include "sync.h"

#include <fcntl.h>
#include <signal.h>

#include "directory.h"
#include "files.h"
#include "lock.h"

#define DELAY_NS UINT64_C(400000000) /* what is changed again in this time is synced once */
#define QUEUE_MAX 4096u              /* directories; the next one is synced at once */

/* ---- one directory ---- */

/* The index that is being synced, under a name of its own in tmp/, so that others can replace it meanwhile. Where the
 * file system has no hard links it is the index itself, and there is never an old one. */
struct kept {
        const struct directory *directory;
        int fd;
        const char *file;
        char temporary[FILE_NAME_RANDOM];
        uint64_t generation;
        bool is_first; /* there is no old one yet */
};

static void kept_clear(struct kept *kept) {
        if (kept->file == kept->temporary)
                (void)unlinkat(kept->fd, kept->temporary, 0); /* unless it has become the old one */
}

static int lock_kept(const struct kept *kept, const struct sbx_call *call, int *ret_lock) {
        return lock_directory(kept->directory->store, kept->directory->name, call, ret_lock, NULL);
}

/* -EALREADY: it is on the disk; -ENOENT: it is gone. */
static int keep_newest(struct kept *kept, const struct sbx_call *call) {
        const struct directory *directory = kept->directory;
        _cleanup_lock_ int lock = -1;
        struct stat newest, old;
        int r = lock_kept(kept, call, &lock);

        if (r < 0)
                return r;
        if (fstatat(directory->fd, INDEX_FILE, &newest, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        kept->is_first = fstatat(directory->fd, INDEX_OLD, &old, AT_SYMLINK_NOFOLLOW) < 0;
        if (!kept->is_first && same_file(&newest, &old))
                return -EALREADY;
        file_random_name(kept->temporary);
        if (linkat(directory->fd, INDEX_FILE, directory->store->tmp_fd, kept->temporary, 0) == 0) {
                kept->fd = directory->store->tmp_fd;
                kept->file = kept->temporary;
                return 0;
        }
        if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS)
                return -errno;
        kept->fd = directory->fd;
        kept->file = INDEX_FILE;
        return 0;
}

static int sync_file(int parent_fd, const char *name) {
        _cleanup_close_ int fd = -1;
        int r = file_open(parent_fd, name, O_RDONLY, &fd, NULL);

        if (r < 0)
                return r == -ENOENT ? 0 : r; /* removed meanwhile, so nobody needs it */
        return fdatasync(fd) < 0 ? -errno : 0;
}

static int load_at(const struct directory *directory, int fd, const char *file, struct index *ret_index) {
        _cleanup_bytes_ struct bytes bytes = {0};
        int r = file_read(fd, file, INDEX_FILE_MAX, &bytes, NULL);

        return r < 0 ? r : index_parse(&directory->store->sealing, directory->name, &bytes, ret_index);
}

/* The large blobs that the old index does not have, then the index, then the names of all of them. */
static int sync_kept(struct kept *kept) {
        const struct directory *directory = kept->directory;
        _cleanup_index_ struct index newest = {0}, old = {0};
        _cleanup_objects_ struct index_objects synced = {0}, wanted = {0};
        int r = load_at(directory, kept->fd, kept->file, &newest);

        if (r == 0)
                (void)load_at(directory, directory->fd, INDEX_OLD, &old); /* without it, all of them */
        if (r == 0)
                r = index_objects(&newest, &wanted);
        if (r == 0)
                r = index_objects(&old, &synced);
        kept->generation = newest.generation;
        for (size_t i = 0; r == 0 && i < wanted.count; i++) {
                char hex[OBJECT_HEX];

                if (index_objects_has(&synced, wanted.ids[i]) ||
                    (i > 0 && memcmp(wanted.ids[i - 1], wanted.ids[i], SEALING_HASH_SIZE) == 0))
                        continue;
                object_name(wanted.ids[i], hex);
                r = sync_file(directory->fd, hex);
        }
        if (r == 0)
                r = sync_file(kept->fd, kept->file);
        if (r == 0 && (fsync(directory->fd) < 0 || (kept->is_first && fsync(directory->store->names_fd) < 0)))
                r = -errno;
        return r;
}

/* What is on the disk now becomes the old index, unless another program was faster with a newer one. */
static int make_old(const struct kept *kept, const struct sbx_call *call) {
        const struct directory *directory = kept->directory;
        _cleanup_index_ struct index old = {0};
        _cleanup_lock_ int lock = -1;
        int r = lock_kept(kept, call, &lock);

        if (r < 0 || kept->fd == directory->fd)
                return r;
        if (load_at(directory, directory->fd, INDEX_OLD, &old) == 0 && old.generation >= kept->generation)
                return 0;
        return renameat(kept->fd, kept->file, directory->fd, INDEX_OLD) < 0 && errno != ENOENT ? -errno : 0;
}

/* Not before the old index is on the disk under that name: the one before it may need more. */
static int sweep(const struct kept *kept, const struct sbx_call *call) {
        _cleanup_lock_ int lock = -1;
        int r = fsync(kept->directory->fd) < 0 ? -errno : lock_kept(kept, call, &lock);

        if (r == 0)
                directory_sweep(kept->directory);
        return r;
}

static int sync_directory(const struct directory *directory, const struct sbx_call *call, struct sbx_error *err) {
        __attribute__((cleanup(kept_clear))) struct kept kept = {.directory = directory, .fd = -1};
        int r = keep_newest(&kept, call);

        if (r == -EALREADY || r == -ENOENT)
                return 0;
        if (r == 0)
                r = sync_kept(&kept);
        if (r == 0)
                r = make_old(&kept, call);
        if (r == 0)
                r = sweep(&kept, call);
        return r < 0 ? store_error(directory->store, r, "sync", "names", directory->file, err) : 0;
}

int sync_now(struct dir_store *store, const char *name, const struct sbx_call *call, struct sbx_error *err) {
        _cleanup_directory_ struct directory directory = DIRECTORY_NONE;
        int r = directory_find(store, name, false, &directory, err);

        if (r == 0)
                return sync_directory(&directory, call, err);
        if (r != -ENOENT)
                return r;
        /* It is gone: that is what has to survive. */
        return fsync(store->names_fd) < 0 ? store_error(store, -errno, "sync", "names", NULL, err) : 0;
}

/* ---- the thread ---- */

struct waiting {
        struct waiting *next;
        char name[NAME_MAX_BYTES + 1];
};

struct sync_queue {
        struct dir_store *store;
        pthread_t thread;
        pthread_mutex_t mutex; /* of all below */
        pthread_cond_t changed;
        struct waiting *first;
        size_t count;
        bool stopping;
};

static bool is_waiting(const struct sync_queue *queue, const char *name) {
        for (const struct waiting *waiting = queue->first; waiting != NULL; waiting = waiting->next)
                if (strcmp(waiting->name, name) == 0)
                        return true;
        return false;
}

/* Whether it is in the queue now. */
static bool enqueue(struct sync_queue *queue, const char *name) {
        _cleanup_unlock_ pthread_mutex_t *locked = lock_mutex(&queue->mutex);
        struct waiting *waiting;

        (void)locked;
        if (is_waiting(queue, name))
                return true;
        waiting = queue->count < QUEUE_MAX && !queue->stopping ? malloc(sizeof(*waiting)) : NULL;
        if (waiting == NULL)
                return false;
        snprintf(waiting->name, sizeof(waiting->name), "%s", name);
        waiting->next = queue->first;
        queue->first = waiting;
        queue->count++;
        pthread_cond_signal(&queue->changed);
        return true;
}

/* Waits until there is something, and a little longer. Takes all of it; NULL: it is time to end. */
static struct waiting *dequeue(struct sync_queue *queue) {
        _cleanup_unlock_ pthread_mutex_t *locked = lock_mutex(&queue->mutex);
        struct timespec end;
        struct waiting *all;
        uint64_t end_ns;

        (void)locked;
        while (queue->first == NULL && !queue->stopping)
                pthread_cond_wait(&queue->changed, &queue->mutex);
        end_ns = clock_ns(CLOCK_MONOTONIC) + DELAY_NS;
        end = (struct timespec){(time_t)(end_ns / 1000000000), (long)(end_ns % 1000000000)};
        while (!queue->stopping && pthread_cond_timedwait(&queue->changed, &queue->mutex, &end) != ETIMEDOUT)
                ;
        all = queue->first;
        queue->first = NULL;
        queue->count = 0;
        return all;
}

static void *sync_thread(void *data) {
        struct sync_queue *queue = data;
        struct waiting *waiting;

        while ((waiting = dequeue(queue)) != NULL) {
                while (waiting != NULL) {
                        struct waiting *next = waiting->next;
                        struct sbx_error err = {0};

                        if (sync_now(queue->store, waiting->name, NULL, &err) < 0)
                                store_log(queue->store, SBX_LOG_ERROR,
                                          "what was stored may not survive a loss of power: %s", err.message);
                        free(waiting);
                        waiting = next;
                }
        }
        return NULL;
}

static void free_queue(struct sync_queue *queue) {
        pthread_cond_destroy(&queue->changed);
        pthread_mutex_destroy(&queue->mutex);
        free(queue);
}

int sync_start(struct dir_store *store, struct sbx_error *err) {
        struct sync_queue *queue = calloc(1, sizeof(*queue));
        pthread_condattr_t attributes;
        sigset_t all, before;
        int r;

        if (queue == NULL)
                return no_memory(err);
        queue->store = store;
        pthread_mutex_init(&queue->mutex, NULL);
        pthread_condattr_init(&attributes);
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        pthread_cond_init(&queue->changed, &attributes);
        pthread_condattr_destroy(&attributes);
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the program's own threads */
        r = pthread_create(&queue->thread, NULL, sync_thread, queue);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (r != 0) {
                free_queue(queue);
                return sbx_error_set(err, -r, DIR_ORIGIN, NULL, "can't start a thread");
        }
        store->queue = queue;
        return 0;
}

void sync_stop(struct dir_store *store) {
        struct sync_queue *queue = steal_pointer(store->queue);

        if (queue == NULL)
                return;
        pthread_mutex_lock(&queue->mutex);
        queue->stopping = true;
        pthread_cond_signal(&queue->changed);
        pthread_mutex_unlock(&queue->mutex);
        pthread_join(queue->thread, NULL);
        free_queue(queue);
}

int sync_soon(struct dir_store *store, const char *directory, struct sbx_error *err) {
        if (store->queue != NULL && enqueue(store->queue, directory))
                return 0;
        return sync_now(store, directory, NULL, err);
}

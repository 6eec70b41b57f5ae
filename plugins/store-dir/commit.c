/* SPDX-License-Identifier: Apache-2.0 */
/* The second half of a commit: under the lock of the directory and that of the lease, the index is made to say it. */
#include "commit.h"

#include <fcntl.h>
#include <inttypes.h>

#include "files.h"
#include "lease.h"
#include "lock.h"
#include "quota.h"
#include "read.h"
#include "sync.h"

#define CHANGES_MAX 65536u
#define INDEX_FULL ((off_t)512 << 10) /* from this size on it takes no more small blobs */
#define OBJECT_NEW "new-blob"
#define TRIES 4 /* to find a large blob of another directory that others keep removing */

/* ---- what is asked ---- */

static int compare_leaves(const void *one, const void *other) {
        return strcmp(*(const char *const *)one, *(const char *const *)other);
}

/* The same name twice has no meaning. */
static int check_repeated(const struct prepared *prepared, struct sbx_error *err) {
        _cleanup_free_ const char **leaves = reallocarray(NULL, prepared->count, sizeof(*leaves));

        if (leaves == NULL)
                return no_memory(err);
        for (size_t i = 0; i < prepared->count; i++)
                leaves[i] = prepared->items[i].leaf;
        qsort(leaves, prepared->count, sizeof(*leaves), compare_leaves);
        for (size_t i = 1; i < prepared->count; i++)
                if (strcmp(leaves[i - 1], leaves[i]) == 0)
                        return sbx_error_set(err, -EINVAL, DIR_ORIGIN, NULL, "a commit has the name %s twice",
                                             leaves[i]);
        return 0;
}

static int take_change(const struct dir_store *store, const struct sbx_store_change *change, const char *directory,
                       struct pending *item, struct sbx_error *err) {
        struct name name;
        int r = name_split(change->name, &name, err);

        if (r < 0)
                return r;
        if (strcmp(name.directory, directory) != 0)
                return sbx_error_set(err, -EINVAL, DIR_ORIGIN, NULL, "a commit has names of two directories: %s, %s",
                                     directory, name.directory);
        if (change->blob.data != NULL && change->blob.size > store->blob_max_bytes)
                return sbx_error_set(err, -EFBIG, DIR_ORIGIN, "Raise the option max_blob of the store.",
                                     "a blob of %zu bytes is more than the store takes (%" PRIu64 ")",
                                     change->blob.size, store->blob_max_bytes);
        *item = (struct pending){.change = change, .removes = change->blob.data == NULL, .writer.fd = -1};
        item->leaf = change->name + (directory[0] != '\0' ? strlen(directory) + 1 : 0);
        return 0;
}

static int take_changes(struct dir_store *store, const struct sbx_store_change *changes, size_t count,
                        const char *directory, struct prepared *ret_prepared, struct sbx_error *err) {
        int r = 0;

        ret_prepared->store = store;
        ret_prepared->items = calloc(count, sizeof(*ret_prepared->items));
        if (ret_prepared->items == NULL)
                return no_memory(err);
        for (; r == 0 && ret_prepared->count < count; ret_prepared->count += r == 0)
                r = take_change(store, &changes[ret_prepared->count], directory,
                                &ret_prepared->items[ret_prepared->count], err);
        return r < 0 ? r : check_repeated(ret_prepared, err);
}

/* ---- under the lock ---- */

/* Puts a new file where its name may be taken: by one that is damaged, or that another commit has made meanwhile. */
static int link_new(const struct directory *directory, const struct pending *item, const char *hex) {
        int r = object_writer_link(&item->writer, directory->fd, hex);

        if (r != -EEXIST)
                return r;
        if (unlinkat(directory->fd, OBJECT_NEW, 0) < 0 && errno != ENOENT)
                return -errno;
        r = object_writer_link(&item->writer, directory->fd, OBJECT_NEW);
        return r < 0 ? r : file_replace(directory->fd, OBJECT_NEW, hex);
}

/* -EAGAIN: nobody has it any more, or the file has as many names as can be. */
static int link_reused(const struct directory *directory, const char *hex) {
        struct stat shared, own;

        if (linkat(directory->store->objects_fd, hex, directory->fd, hex, 0) == 0)
                return 0;
        if (errno != EEXIST)
                return errno == ENOENT || errno == EMLINK ? -EAGAIN : -errno;
        if (fstatat(directory->store->objects_fd, hex, &shared, AT_SYMLINK_NOFOLLOW) < 0 ||
            fstatat(directory->fd, hex, &own, AT_SYMLINK_NOFOLLOW) < 0)
                return -EAGAIN;
        if (same_file(&shared, &own))
                return 0;
        if (unlinkat(directory->fd, OBJECT_NEW, 0) < 0 && errno != ENOENT)
                return -errno;
        if (linkat(directory->store->objects_fd, hex, directory->fd, OBJECT_NEW, 0) < 0)
                return errno == ENOENT || errno == EMLINK ? -EAGAIN : -errno;
        return file_replace(directory->fd, OBJECT_NEW, hex);
}

/* `*ret_again`: the item that has to be written after all, with -EAGAIN. */
static int link_objects(const struct directory *directory, struct prepared *prepared, struct pending **ret_again,
                        struct sbx_error *err) {
        for (size_t i = 0; i < prepared->count; i++) {
                struct pending *item = &prepared->items[i];
                char hex[OBJECT_HEX];
                int r;

                if (!item->is_object)
                        continue;
                object_name(item->id, hex);
                r = item->reused ? link_reused(directory, hex) : link_new(directory, item, hex);
                /* So that others find it. If it can't be: they write it themselves. */
                if (r == 0 && !item->reused)
                        (void)linkat(directory->fd, hex, prepared->store->objects_fd, hex, 0);
                if (r == -EAGAIN)
                        *ret_again = item;
                if (r < 0)
                        return r == -EAGAIN ? r : store_error(prepared->store, r, "link", directory->file, hex, err);
        }
        return 0;
}

/* Changes the entries; `*ret_changed` tells whether there is anything to write. */
static int apply(const struct prepared *prepared, struct index *index, bool *ret_changed) {
        *ret_changed = false;
        for (size_t i = 0; i < prepared->count; i++) {
                const struct pending *item = &prepared->items[i];
                struct index_entry entry = {.leaf = (char *)item->leaf,
                                            .size = item->change->blob.size,
                                            .sealed_size = item->sealed_size,
                                            .is_object = item->is_object,
                                            .blob = item->is_object ? NULL : item->sealed.data};
                int r;

                if (item->removes) {
                        *ret_changed = index_remove(index, item->leaf) || *ret_changed;
                        continue;
                }
                *ret_changed = true;
                memcpy(entry.id, item->id, sizeof(entry.id));
                r = index_put(index, &entry);
                if (r < 0)
                        return r;
        }
        index_settle(index);
        index->generation++;
        return 0;
}

/* What the disk has to take beyond what is there. */
static uint64_t new_bytes(const struct prepared *prepared) {
        uint64_t bytes = 0;

        for (size_t i = 0; i < prepared->count; i++)
                if (!prepared->items[i].removes && !prepared->items[i].reused)
                        bytes += prepared->items[i].sealed_size;
        return bytes;
}

static int save(struct directory *directory, struct prepared *prepared, struct index *index, struct pending **ret_again,
                struct sbx_error *err) {
        uint64_t size = 0, before = index->file.size;
        int r = link_objects(directory, prepared, ret_again, err);

        if (r == 0)
                r = directory_save(directory, index, &size, err);
        if (r < 0) {
                if (r != -EAGAIN)
                        directory_sweep(directory); /* what was linked already */
                return r;
        }
        quota_add(directory->store, (int64_t)size - (int64_t)before);
        for (size_t i = 0; i < prepared->count; i++)
                if (prepared->items[i].is_object && !prepared->items[i].reused)
                        quota_add(directory->store, (int64_t)prepared->items[i].sealed_size);
        return 0;
}

static bool only_removes(const struct prepared *prepared) {
        for (size_t i = 0; i < prepared->count; i++)
                if (!prepared->items[i].removes)
                        return false;
        return true;
}

/* The locks are held. `*ret_dropped`: the directory has no names any more, and is gone. */
static int change_directory(struct prepared *prepared, const char *name, struct pending **ret_again, bool *ret_dropped,
                            struct sbx_error *err) {
        _cleanup_directory_ struct directory directory = DIRECTORY_NONE;
        _cleanup_index_ struct index index = {0};
        bool changed, removes = only_removes(prepared);
        int r = directory_find(prepared->store, name, !removes, &directory, err);

        *ret_dropped = true;
        if (r == -ENOENT)
                return 0; /* there is nothing to remove */
        if (r == 0)
                r = directory_load(&directory, &index, err);
        if (r == -ENOENT)
                r = 0;
        if (r == 0 && apply(prepared, &index, &changed) < 0)
                r = no_memory(err);
        if (r < 0)
                return r;
        if (index.count == 0)
                return directory_drop(&directory, err);
        *ret_dropped = !changed;
        if (!changed)
                return 0;
        if (!removes)
                r = quota_check(prepared->store, new_bytes(prepared), err);
        if (r == 0)
                r = save(&directory, prepared, &index, ret_again, err);
        if (r < 0 && directory.made)
                (void)unlinkat(prepared->store->names_fd, directory.file, AT_REMOVEDIR);
        return r;
}

static int change_locked(struct prepared *prepared, const char *directory, const char *lease, uint64_t token,
                         const struct sbx_call *call, struct pending **ret_again, bool *ret_dropped,
                         struct sbx_error *err) {
        _cleanup_lock_ int lease_lock = -1, lock = -1;
        int r = lock_directory(prepared->store, directory, call, &lock, err);

        if (r == 0 && lease != NULL)
                r = lease_hold(prepared->store, lease, token, call, &lease_lock, err);
        return r < 0 ? r : change_directory(prepared, directory, ret_again, ret_dropped, err);
}

/* ---- the whole ---- */

/* Only a hint, so it needs no lock. */
static bool index_is_full(const struct dir_store *store, const char *directory) {
        char file[NAME_MAX_BYTES + 1], path[NAME_MAX_BYTES + sizeof("/" INDEX_FILE)];
        struct stat st;

        name_encode(directory, file);
        snprintf(path, sizeof(path), "%s/" INDEX_FILE, file);
        return fstatat(store->names_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_size > INDEX_FULL;
}

static int check_arguments(const struct sbx_store_change *changes, size_t count, const char *lease, uint32_t flags,
                           struct name *ret_name, struct sbx_error *err) {
        int r = lease != NULL ? name_check(lease, "lease", err) : 0;

        if (r < 0)
                return r;
        if (count == 0 || count > CHANGES_MAX || (flags & ~SBX_STORE_SOON) != 0)
                return sbx_error_set(err, -EINVAL, DIR_ORIGIN, NULL,
                                     "a commit has 1 to %u changes and no flags but SBX_STORE_SOON", CHANGES_MAX);
        return name_split(changes[0].name, ret_name, err);
}

int store_commit(struct dir_store *store, const struct sbx_store_change *changes, size_t count, const char *lease,
                 uint64_t token, uint32_t flags, const struct sbx_call *call, struct sbx_error *err) {
        _cleanup_prepared_ struct prepared prepared = {0};
        struct pending *again = NULL;
        struct name name;
        bool dropped = false;
        int r = check_arguments(changes, count, lease, flags, &name, err);

        if (r == 0)
                r = store_ready(store, true, err);
        if (r == 0)
                r = take_changes(store, changes, count, name.directory, &prepared, err);
        if (r < 0)
                return r;
        prepared.large_only = index_is_full(store, name.directory);
        r = commit_prepare(&prepared, call, err);
        if (r == 0)
                r = change_locked(&prepared, name.directory, lease, token, call, &again, &dropped, err);
        for (int i = 0; r == -EAGAIN && again != NULL && i < TRIES; i++) {
                r = commit_write_again(again, store, call, err);
                again = NULL;
                if (r == 0)
                        r = change_locked(&prepared, name.directory, lease, token, call, &again, &dropped, err);
        }
        if (r < 0)
                return r == -EAGAIN ? sbx_error_set(err, -EIO, DIR_ORIGIN, NULL, "the store changes too fast") : r;
        return (flags & SBX_STORE_SOON) != 0 ? sync_soon(store, name.directory, err)
                                             : sync_now(store, name.directory, call, err);
}

int store_remove(struct dir_store *store, const char *name, const struct sbx_call *call, struct sbx_error *err) {
        const struct sbx_store_change change = {.name = name};
        bool there = false;
        int r = read_has(store, name, &there, err);

        if (r < 0)
                return r;
        if (!there)
                return sbx_error_set(err, -ENOENT, DIR_ORIGIN, NULL, "nothing is stored as %s", name);
        return store_commit(store, &change, 1, NULL, 0, 0, call, err);
}

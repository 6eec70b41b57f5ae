/* SPDX-License-Identifier: Apache-2.0 */
/* Loads, saves and drops a directory of names. */
#include "directory.h"

#include <fcntl.h>

#include "files.h"

#define INDEX_NEW "new"

void directory_close(struct directory *directory) {
        close_fd(&directory->fd);
}

int directory_find(struct dir_store *store, const char *name, bool create, struct directory *ret_directory,
                   struct sbx_error *err) {
        struct directory found = {.store = store, .name = name, .fd = -1};
        int r;

        name_encode(name, found.file);
        r = directory_open(store->names_fd, found.file, false, &found.fd);
        if (r == -ENOENT && create) {
                found.made = true;
                r = directory_open(store->names_fd, found.file, true, &found.fd);
        }
        if (r == -ENOENT && !create)
                return r;
        if (r < 0)
                return store_error(store, r == -ELOOP || r == -ENOTDIR ? -EBADMSG : r, "open", "names", found.file,
                                   err);
        *ret_directory = found;
        return 0;
}

/* ---- loading ---- */

static int load_file(const struct directory *directory, const char *file, struct index *ret_index) {
        _cleanup_bytes_ struct bytes bytes = {0};
        int r = file_read(directory->fd, file, INDEX_FILE_MAX, &bytes, NULL);

        if (r < 0)
                return r == -EFBIG ? -EBADMSG : r;
        return index_parse(&directory->store->sealing, directory->name, &bytes, ret_index);
}

static int damaged(const struct directory *directory, int code, struct sbx_error *err) {
        char hint[SBX_ERROR_HINT_MAX];

        if (code == -EPROTONOSUPPORT)
                return sbx_error_set(err, code, DIR_ORIGIN, "Use a newer snipara-sandbox for this store.",
                                     "%s/names/%s/%s is of a newer version", directory->store->path, directory->file,
                                     INDEX_FILE);
        if (code != -EBADMSG)
                return store_error(directory->store, code, "read", "names", directory->file, err);
        snprintf(hint, sizeof(hint),
                 "Put it back from a copy of the store, or give up what it holds: rm -r '%s/names/%s'",
                 directory->store->path, directory->file);
        return sbx_error_set(err, code, DIR_ORIGIN, hint, "%s/names/%s/%s is damaged", directory->store->path,
                             directory->file, INDEX_FILE);
}

int directory_load(const struct directory *directory, struct index *ret_index, struct sbx_error *err) {
        int r = load_file(directory, INDEX_FILE, ret_index), old;

        if (r == 0)
                return 0;
        if (r != -ENOENT && r != -EBADMSG)
                return damaged(directory, r, err);
        old = load_file(directory, INDEX_OLD, ret_index);
        if (old == -ENOENT && r == -ENOENT)
                return r;
        if (old < 0)
                return damaged(directory, r == -ENOENT ? old : r, err);
        store_log(directory->store, SBX_LOG_WARNING,
                  "%s/names/%s: the newest index did not survive; what was stored in the second before is lost",
                  directory->store->path, directory->file);
        return 0;
}

/* ---- changing ---- */

int directory_save(const struct directory *directory, const struct index *index, uint64_t *ret_size,
                   struct sbx_error *err) {
        _cleanup_bytes_ struct bytes bytes = {0};
        _cleanup_close_ int fd = -1;
        int r = index_build(&directory->store->sealing, directory->name, index, &bytes);

        if (r == -EFBIG)
                return sbx_error_set(err, r, DIR_ORIGIN, "Remove some of them, or use directories of fewer names.",
                                     "too many names in the directory \"%s\"", directory->name);
        if (r < 0)
                return no_memory(err);
        /* Never written over: what a killed process has left may be a link of the old index. */
        if (unlinkat(directory->fd, INDEX_NEW, 0) < 0 && errno != ENOENT)
                return store_error(directory->store, -errno, "remove", directory->file, INDEX_NEW, err);
        r = file_open(directory->fd, INDEX_NEW, O_WRONLY | O_CREAT | O_EXCL, &fd, NULL);
        if (r == 0)
                r = write_at(fd, bytes.data, bytes.size, 0);
        if (r == 0)
                r = file_replace(directory->fd, INDEX_NEW, INDEX_FILE);
        if (r < 0) {
                (void)unlinkat(directory->fd, INDEX_NEW, 0);
                return store_error(directory->store, r, "write", directory->file, INDEX_FILE, err);
        }
        *ret_size = bytes.size;
        return 0;
}

void directory_unlink_object(const struct dir_store *store, int fd, const char *hex) {
        struct stat st;

        (void)unlinkat(fd, hex, 0);
        /* Should somebody link it at this moment, he has it under his own name already. */
        if (fstatat(store->objects_fd, hex, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_nlink == 1)
                (void)unlinkat(store->objects_fd, hex, 0);
}

struct sweep {
        const struct directory *directory;
        struct index_objects newest, old;
};

static int sweep_entry(void *data, int fd, const char *name) {
        const struct sweep *sweep = data;
        struct object_id id;

        if (strcmp(name, INDEX_FILE) == 0 || strcmp(name, INDEX_OLD) == 0)
                return 0;
        if (!object_is_name(name)) {
                (void)unlinkat(fd, name, 0);
                return 0;
        }
        object_parse_name(name, &id);
        if (!index_objects_has(&sweep->newest, id.bytes) && !index_objects_has(&sweep->old, id.bytes))
                directory_unlink_object(sweep->directory->store, fd, name);
        return 0;
}

/* -ENOENT: there is no such index, and it needs nothing. */
static int load_objects(const struct directory *directory, const char *file, struct index_objects *ret_objects) {
        _cleanup_index_ struct index index = {0};
        int r = load_file(directory, file, &index);

        return r < 0 ? r : index_objects(&index, ret_objects);
}

void directory_sweep(const struct directory *directory) {
        struct sweep sweep = {.directory = directory};
        int newest = load_objects(directory, INDEX_FILE, &sweep.newest);
        int old = load_objects(directory, INDEX_OLD, &sweep.old);

        /* What can't be read may need any of them. */
        if (newest == 0 && (old == 0 || old == -ENOENT))
                (void)directory_visit(directory->fd, sweep_entry, &sweep);
        index_objects_clear(&sweep.newest);
        index_objects_clear(&sweep.old);
}

static int drop_entry(void *data, int fd, const char *name) {
        if (object_is_name(name))
                directory_unlink_object(data, fd, name);
        return 0;
}

int directory_empty_trash(struct dir_store *store, const char *file) {
        _cleanup_close_ int fd = -1;
        int r = directory_open(store->trash_fd, file, false, &fd);

        if (r == 0)
                r = directory_visit(fd, drop_entry, store);
        return r < 0 ? r : directory_remove(store->trash_fd, file);
}

int directory_drop(const struct directory *directory, struct sbx_error *err) {
        struct dir_store *store = directory->store;
        char file[FILE_NAME_RANDOM];

        file_random_name(file);
        if (renameat(store->names_fd, directory->file, store->trash_fd, file) < 0)
                return errno == ENOENT ? 0 : store_error(store, -errno, "remove", "names", directory->file, err);
        (void)directory_empty_trash(store, file); /* what is left goes with the next collect */
        return 0;
}

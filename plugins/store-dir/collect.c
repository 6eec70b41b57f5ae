/* SPDX-License-Identifier: Apache-2.0 */
/* Looks at every blob and removes what no name stands for. Each directory is locked for the moment in which its files
 * are removed, never while they are looked at; the files in objects/ are there for whoever wants to share them, so that
 * removing one that nobody shares does no harm to anybody. */
#include "collect.h"

#include <fcntl.h>
#include <jansson.h>

#include "directory.h"
#include "files.h"
#include "lease.h"
#include "lock.h"
#include "quota.h"

#define DAMAGED_MAX 1000u
#define TMP_AGE_S (24 * 3600) /* nobody writes a file for so long */

struct collection {
        struct dir_store *store;
        const struct sbx_call *call;
        struct sbx_error *err;
        uint64_t blobs, bytes, removed, removed_bytes;
        json_t *damaged;
};

/* ---- looking ---- */

static void tell_damaged(struct collection *collection, const char *directory, const char *leaf) {
        char name[2 * NAME_MAX_BYTES + 2];

        snprintf(name, sizeof(name), "%s%s%s", directory, directory[0] != '\0' && leaf[0] != '\0' ? "/" : "", leaf);
        if (json_array_size(collection->damaged) < DAMAGED_MAX)
                json_array_append_new(collection->damaged, json_string(name));
}

static int drop_bytes(void *data, struct sbx_bytes bytes) {
        (void)data;
        (void)bytes;
        return 0;
}

static int check_large(const struct collection *collection, const struct directory *directory,
                       const struct index_entry *entry) {
        _cleanup_object_ struct object object = OBJECT_NONE;
        char hex[OBJECT_HEX];
        int r;

        object_name(entry->id, hex);
        r = object_open(collection->store, directory->fd, hex, &object);
        if (r == 0)
                r = object_read(collection->store, &object, collection->call, drop_bytes, NULL, NULL);
        if (r == -EBADMSG)
                (void)unlinkat(collection->store->objects_fd, hex, 0); /* so that nobody shares it any more */
        return r;
}

static int check_small(const struct collection *collection, const struct index_entry *entry) {
        _cleanup_free_ uint8_t *raw = malloc((size_t)entry->size + 1);

        if (raw == NULL)
                return -ENOMEM;
        return entry_unseal(&collection->store->sealing, entry, raw);
}

/* Whether `entry` is still in the directory as it is now. */
static bool is_current(const struct directory *directory, const struct index_entry *entry) {
        _cleanup_index_ struct index index = {0};
        const struct index_entry *now;

        if (directory_load(directory, &index, NULL) < 0)
                return false;
        now = index_find(&index, entry->leaf);
        return now != NULL && memcmp(now->id, entry->id, sizeof(now->id)) == 0;
}

static int check_entry(struct collection *collection, const struct directory *directory,
                       const struct index_entry *entry) {
        int r = entry->is_object ? check_large(collection, directory, entry) : check_small(collection, entry);

        collection->blobs++;
        collection->bytes += entry->size;
        if ((r == -EBADMSG || r == -ENOENT) && is_current(directory, entry))
                tell_damaged(collection, directory->name, entry->leaf);
        if (r == -ENOMEM)
                return no_memory(collection->err);
        return call_check(collection->call, collection->err);
}

/* ---- removing ---- */

static int measure_entry(void *data, int fd, const char *name) {
        uint64_t *sums = data;
        struct stat st;

        if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_nlink <= 2) {
                sums[0]++;
                sums[1] += (uint64_t)st.st_size;
        }
        return 0;
}

static int sweep_directory(struct collection *collection, const struct directory *directory) {
        uint64_t before[2] = {0}, after[2] = {0};
        _cleanup_lock_ int lock = -1;
        int r = lock_directory(collection->store, directory->name, collection->call, &lock, collection->err);

        if (r < 0)
                return r;
        (void)directory_visit(directory->fd, measure_entry, before);
        directory_sweep(directory);
        (void)directory_visit(directory->fd, measure_entry, after);
        collection->removed += before[0] - after[0];
        collection->removed_bytes += before[1] - after[1];
        if (after[0] == 0)
                (void)unlinkat(collection->store->names_fd, directory->file,
                               AT_REMOVEDIR); /* fails if it is not empty */
        return 0;
}

static int collect_directory(void *data, int fd, const char *file) {
        struct collection *collection = data;
        _cleanup_directory_ struct directory directory = DIRECTORY_NONE;
        _cleanup_index_ struct index index = {0};
        char name[NAME_MAX_BYTES + 1];
        struct sbx_error why = {0};
        int r = 0;

        (void)fd;
        if (!name_decode(file, name))
                return 0;
        if (directory_find(collection->store, name, false, &directory, NULL) < 0)
                return 0;
        sbx_call_progress(collection->call, name);
        r = directory_load(&directory, &index, &why);
        if (r == -EBADMSG || r == -EPROTONOSUPPORT)
                tell_damaged(collection, name, "");
        else if (r < 0 && r != -ENOENT)
                return sbx_error_set(collection->err, r, why.origin, why.hint, "%s", why.message);
        for (size_t i = 0; i < index.count; i++) {
                r = check_entry(collection, &directory, &index.entries[i]);
                if (r < 0)
                        return r;
        }
        return sweep_directory(collection, &directory);
}

static int collect_object(void *data, int fd, const char *name) {
        struct collection *collection = data;
        struct stat st;

        if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_nlink != 1 || unlinkat(fd, name, 0) < 0)
                return 0;
        collection->removed++;
        collection->removed_bytes += (uint64_t)st.st_size;
        return call_check(collection->call, collection->err);
}

static int collect_temporary(void *data, int fd, const char *name) {
        struct collection *collection = data;
        struct timespec now;
        struct stat st;

        clock_gettime(CLOCK_REALTIME, &now);
        if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || now.tv_sec - st.st_mtim.tv_sec < TMP_AGE_S ||
            unlinkat(fd, name, 0) < 0)
                return 0;
        collection->removed++;
        collection->removed_bytes += (uint64_t)st.st_size;
        return 0;
}

static int collect_trash(void *data, int fd, const char *name) {
        struct collection *collection = data;

        (void)fd;
        if (directory_empty_trash(collection->store, name) == 0)
                collection->removed++;
        return 0;
}

/* ---- all of it ---- */

static int collect_all(struct collection *collection) {
        struct dir_store *store = collection->store;
        int r = directory_visit(store->trash_fd, collect_trash, collection);

        if (r == 0)
                r = directory_visit(store->names_fd, collect_directory, collection);
        if (r == 0)
                r = directory_visit(store->objects_fd, collect_object, collection);
        if (r == 0)
                r = directory_visit(store->tmp_fd, collect_temporary, collection);
        return r == 0 ? lease_clean(store, collection->call, collection->err) : r;
}

static int tell(const struct collection *collection, uint64_t stored_bytes, struct sbx_output *ret_json,
                struct sbx_error *err) {
        const struct dir_store *store = collection->store;
        json_t *told =
                json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:O, s:s, s:b}", "blobs", (json_int_t)collection->blobs,
                          "bytes", (json_int_t)collection->bytes, "stored_bytes", (json_int_t)stored_bytes,
                          "quota_bytes", (json_int_t)store->quota_bytes, "removed", (json_int_t)collection->removed,
                          "removed_bytes", (json_int_t)collection->removed_bytes, "damaged", collection->damaged,
                          "location", store->path, "encrypted", store->key_file != NULL);
        char *text = told != NULL ? json_dumps(told, JSON_COMPACT) : NULL;
        int r = text == NULL ? no_memory(err)
                             : store->host->output_append(store->host->self, ret_json, text, strlen(text));

        free(text);
        json_decref(told);
        return r < 0 ? sbx_error_set(err, r, DIR_ORIGIN, NULL, "the answer is too long") : 0;
}

int store_collect(struct dir_store *store, const struct sbx_call *call, struct sbx_output *ret_json,
                  struct sbx_error *err) {
        struct collection collection = {.store = store, .call = call, .err = err, .damaged = json_array()};
        uint64_t stored_bytes = 0;
        int r = collection.damaged == NULL ? no_memory(err) : store_ready(store, false, err);

        if (r == 0) {
                r = collect_all(&collection);
                if (r == 0)
                        r = quota_measure(store, &stored_bytes);
                if (r < 0)
                        store_error(store, r, "look through", "names", NULL, err);
        } else if (r == -ENOENT) {
                r = 0; /* nobody has stored anything yet */
        }
        if (r == 0)
                r = tell(&collection, stored_bytes, ret_json, err);
        json_decref(collection.damaged);
        return r;
}

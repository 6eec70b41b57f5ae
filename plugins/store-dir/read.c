/* SPDX-License-Identifier: Apache-2.0 */
/* Gets a blob: from the index, or from its own file. No chunk of it is handed out before it was compared with its hash.
 */
#include "read.h"

#include "directory.h"

#define TRIES 8

static int not_there(const char *name, struct sbx_error *err) {
        return sbx_error_set(err, -ENOENT, DIR_ORIGIN, NULL, "nothing is stored as %s", name);
}

static int damaged(const struct dir_store *store, const char *name, const char *how, struct sbx_error *err) {
        return sbx_error_set(err, -EBADMSG, DIR_ORIGIN,
                             "Use an older checkpoint, or put the store back from a copy; look at the disk.",
                             "%s is damaged: %s (in %s)", name, how, store->path);
}

/* Where the bytes go, and what that said. */
struct taker {
        const struct dir_store *store;
        struct sbx_output *output;
        int failure;
};

static int take(void *data, struct sbx_bytes bytes) {
        struct taker *taker = data;

        taker->failure =
                taker->store->host->output_append(taker->store->host->self, taker->output, bytes.data, bytes.size);
        return taker->failure;
}

static int take_error(int r, uint64_t size, struct sbx_error *err) {
        if (r == -EFBIG)
                return sbx_error_set(err, r, DIR_ORIGIN, NULL, "a blob of %llu bytes is more than was asked for",
                                     (unsigned long long)size);
        return r == -ENOMEM ? no_memory(err) : r;
}

static int get_small(const struct dir_store *store, const char *name, const struct index_entry *entry,
                     struct taker *taker, struct sbx_error *err) {
        _cleanup_free_ uint8_t *raw = malloc((size_t)entry->size + 1);
        struct sbx_bytes blob = {raw, (size_t)entry->size};
        int r;

        if (raw == NULL)
                return no_memory(err);
        r = entry_unseal(&store->sealing, entry, raw);
        if (r == -ENOMEM)
                return no_memory(err);
        if (r < 0)
                return damaged(store, name,
                               entry->blob == NULL ? "its file was cut short"
                                                   : "its bytes are not those that were stored",
                               err);
        return take_error(take(taker, blob), blob.size, err);
}

/* Nobody is to find the damaged file when he stores the same contents again. */
static void disown(const struct dir_store *store, const char *hex) {
        (void)unlinkat(store->objects_fd, hex, 0);
}

/* -EAGAIN: it is not there; perhaps it was removed since the index was read. */
static int get_large(const struct directory *directory, const char *name, const struct index_entry *entry,
                     const struct sbx_call *call, struct taker *taker, struct sbx_error *err) {
        const struct dir_store *store = directory->store;
        _cleanup_object_ struct object object = OBJECT_NONE;
        char hex[OBJECT_HEX];
        int r;

        object_name(entry->id, hex);
        r = object_open(store, directory->fd, hex, &object);
        if (r == -ENOENT)
                return -EAGAIN;
        if (r == 0)
                r = object_read(store, &object, call, take, taker, err);
        if (r < 0 && r == taker->failure)
                return take_error(r, entry->size, err);
        if (r == -EBADMSG) {
                disown(store, hex);
                return damaged(store, name, "its file is not what was stored", err);
        }
        if (r == -ENOMEM)
                return no_memory(err);
        return r < 0 ? store_error(store, r, "read", directory->file, hex, err) : 0;
}

static int get_once(struct dir_store *store, const char *name, const struct name *parts, const struct sbx_call *call,
                    struct sbx_output *ret_blob, struct sbx_error *err) {
        _cleanup_directory_ struct directory directory = DIRECTORY_NONE;
        _cleanup_index_ struct index index = {0};
        struct taker taker = {.store = store, .output = ret_blob};
        const struct index_entry *entry;
        int r = directory_find(store, parts->directory, false, &directory, err);

        if (r == 0)
                r = directory_load(&directory, &index, err);
        if (r < 0)
                return r == -ENOENT ? not_there(name, err) : r;
        entry = index_find(&index, parts->leaf);
        if (entry == NULL)
                return not_there(name, err);
        return entry->is_object ? get_large(&directory, name, entry, call, &taker, err)
                                : get_small(store, name, entry, &taker, err);
}

int store_get(struct dir_store *store, const char *name, const struct sbx_call *call, struct sbx_output *ret_blob,
              struct sbx_error *err) {
        struct name parts;
        int r = name_split(name, &parts, err);

        if (r == 0)
                r = call_check(call, err);
        if (r < 0)
                return r;
        r = store_ready(store, false, err);
        if (r < 0)
                return r == -ENOENT ? not_there(name, err) : r;
        for (int i = 0; i < TRIES; i++) {
                r = get_once(store, name, &parts, call, ret_blob, err);
                if (r != -EAGAIN)
                        return r;
        }
        return damaged(store, name, "its file is missing", err);
}

int read_has(struct dir_store *store, const char *name, bool *ret_there, struct sbx_error *err) {
        _cleanup_directory_ struct directory directory = DIRECTORY_NONE;
        _cleanup_index_ struct index index = {0};
        struct name parts;
        int r = name_split(name, &parts, err);

        if (r == 0)
                r = store_ready(store, false, err);
        if (r == 0)
                r = directory_find(store, parts.directory, false, &directory, err);
        if (r == 0)
                r = directory_load(&directory, &index, err);
        if (r < 0 && r != -ENOENT)
                return r;
        *ret_there = r == 0 && index_find(&index, parts.leaf) != NULL;
        return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Lists names: of all directories that may have some, sorted, and only then told. */
#include <stdio.h>

#include "directory.h"
#include "files.h"
#include "read.h"

#define NAMES_MAX ((size_t)4 << 20) /* of one listing */

struct item {
        char *name;
        uint64_t size;
};
struct listing {
        struct dir_store *store;
        const char *prefix;
        const struct sbx_call *call;
        struct sbx_error *err;
        struct item *items;
        size_t count, capacity;
        int damaged; /* the first directory that could not be read */
        struct sbx_error why;
};

static void listing_clear(struct listing *listing) {
        for (size_t i = 0; i < listing->count; i++)
                free(listing->items[i].name);
        free(listing->items);
}

static int add_item(struct listing *listing, const char *directory, const struct index_entry *entry) {
        char name[2 * NAME_MAX_BYTES + 2];

        snprintf(name, sizeof(name), "%s%s%s", directory, directory[0] != '\0' ? "/" : "", entry->leaf);
        if (strncmp(name, listing->prefix, strlen(listing->prefix)) != 0)
                return 0;
        if (listing->count == NAMES_MAX)
                return sbx_error_set(listing->err, -EFBIG, DIR_ORIGIN, "Ask for a longer prefix.",
                                     "more than %zu names begin with \"%s\"", NAMES_MAX, listing->prefix);
        if (listing->count == listing->capacity) {
                size_t capacity = listing->capacity == 0 ? 64 : 2 * listing->capacity;
                struct item *grown = reallocarray(listing->items, capacity, sizeof(*grown));

                if (grown == NULL)
                        return no_memory(listing->err);
                listing->items = grown;
                listing->capacity = capacity;
        }
        listing->items[listing->count] = (struct item){strdup(name), entry->size};
        if (listing->items[listing->count].name == NULL)
                return no_memory(listing->err);
        listing->count++;
        return 0;
}

/* Whether names in the directory may begin with the prefix. */
static bool may_match(const char *directory, const char *prefix) {
        size_t size = strlen(directory);

        if (size == 0)
                return strchr(prefix, '/') == NULL;
        if (strlen(prefix) <= size)
                return strncmp(directory, prefix, strlen(prefix)) == 0;
        return strncmp(directory, prefix, size) == 0 && prefix[size] == '/';
}

static int list_directory(void *data, int fd, const char *file) {
        _cleanup_directory_ struct directory directory = DIRECTORY_NONE;
        _cleanup_index_ struct index index = {0};
        struct listing *listing = data;
        char name[NAME_MAX_BYTES + 1];
        struct sbx_error why = {0};
        int r = call_check(listing->call, listing->err);

        (void)fd;
        if (r < 0 || !name_decode(file, name) || !may_match(name, listing->prefix))
                return r;
        r = directory_find(listing->store, name, false, &directory, &why);
        if (r == 0)
                r = directory_load(&directory, &index, &why);
        if (r == -EBADMSG || r == -EPROTONOSUPPORT || r == -EPERM) {
                if (listing->damaged == 0) {
                        listing->damaged = r;
                        listing->why = why;
                }
                return 0;
        }
        if (r < 0)
                return r == -ENOENT ? 0 : sbx_error_set(listing->err, r, why.origin, why.hint, "%s", why.message);
        for (size_t i = 0; r == 0 && i < index.count; i++)
                r = add_item(listing, name, &index.entries[i]);
        return r;
}

static int compare_items(const void *one, const void *other) {
        return strcmp(((const struct item *)one)->name, ((const struct item *)other)->name);
}

static int tell(const struct listing *listing, const struct sbx_store_events *events) {
        for (size_t i = 0; i < listing->count; i++) {
                int r = events->item(events->data, listing->items[i].name, listing->items[i].size);

                if (r < 0)
                        return r;
        }
        return 0;
}

int store_list(struct dir_store *store, const char *prefix, const struct sbx_store_events *events,
               const struct sbx_call *call, struct sbx_error *err) {
        __attribute__((cleanup(listing_clear))) struct listing listing = {
                .store = store, .prefix = prefix, .call = call, .err = err};
        int r = store_ready(store, false, err);

        if (r < 0)
                return r == -ENOENT ? 0 : r;
        r = directory_visit(store->names_fd, list_directory, &listing);
        if (r < 0)
                return store_error(store, r, "read", "names", NULL, err);
        if (listing.count > 0)
                qsort(listing.items, listing.count, sizeof(*listing.items), compare_items);
        r = tell(&listing, events);
        if (r == 0 && listing.damaged < 0) {
                /* Told after what could be read. */
                r = sbx_error_set(err, listing.damaged == -EPROTONOSUPPORT ? listing.damaged : -EBADMSG,
                                  listing.why.origin, listing.why.hint, "%s", listing.why.message);
        }
        return r;
}

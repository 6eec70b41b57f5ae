/* SPDX-License-Identifier: Apache-2.0 */
/* Makes packed trees, when an image is baked: files are collected in a tree of nodes, sorted and written out. */
#include "vfs_tree.h"

#include <errno.h>

#include "vfs_internal.h"

#define TREE_SIZE_MAX (UINT64_C(1) << 32) /* names are found by 32 bits */

struct item {
        char name[VFS_NAME_MAX];
        uint8_t name_size;
        uint8_t type; /* enum tree_type */
        bool dated; /* a directory that was given a time */
        int64_t mtime_ns;
        uint8_t *content;
        size_t size;
        struct item **items; /* of a directory */
        uint32_t count, capacity;
        uint32_t index, parent, first; /* while it is written */
        uint64_t start;
};
struct vfs_tree_builder {
        struct item *root;
        uint32_t count; /* of all items */
};

static void item_free(struct item *item) {
        if (item == NULL)
                return;
        for (uint32_t i = 0; i < item->count; i++)
                item_free(item->items[i]);
        free(item->items);
        free(item->content);
        free(item);
}

static struct item *item_new(const char *name, size_t size, uint8_t type) {
        struct item *item = calloc(1, sizeof(*item));

        if (item == NULL)
                return NULL;
        memcpy(item->name, name, size);
        item->name_size = (uint8_t)size;
        item->type = type;
        return item;
}

/* The item of that name, made if it isn't there. */
static int enter(struct vfs_tree_builder *builder, struct item *directory, const char *name, size_t size, uint8_t type,
                 struct item **ret_item) {
        struct item *item;

        if (!vfs_name_valid(name, size))
                return -EINVAL;
        if (directory->type != TREE_DIRECTORY)
                return -ENOTDIR;
        for (uint32_t i = 0; i < directory->count; i++) {
                item = directory->items[i];
                if (item->name_size != size || memcmp(item->name, name, size) != 0)
                        continue;
                if (item->type != type)
                        return type == TREE_DIRECTORY ? -ENOTDIR : -EISDIR;
                *ret_item = item;
                return 0;
        }
        if (builder->count >= TREE_ENTRIES_MAX)
                return -EFBIG;
        if (directory->count == directory->capacity) {
                uint32_t capacity = directory->capacity > 0 ? 2 * directory->capacity : 8;
                struct item **items = reallocarray(directory->items, capacity, sizeof(*items));

                if (items == NULL)
                        return -ENOMEM;
                directory->items = items;
                directory->capacity = capacity;
        }
        item = item_new(name, size, type);
        if (item == NULL)
                return -ENOMEM;
        directory->items[directory->count++] = item;
        builder->count++;
        *ret_item = item;
        return 0;
}

/* The item at `path`, with what leads to it. */
static int enter_path(struct vfs_tree_builder *builder, const char *path, uint8_t type, struct item **ret_item) {
        struct item *item = builder->root;
        int r;

        if (path[0] != '/')
                return -EINVAL;
        while (*path == '/') {
                size_t size = strcspn(++path, "/");

                r = enter(builder, item, path, size, path[size] == '/' ? TREE_DIRECTORY : type, &item);
                if (r < 0)
                        return r;
                path += size;
        }
        *ret_item = item;
        return 0;
}

void vfs_tree_builder_free(struct vfs_tree_builder *builder) {
        if (builder == NULL)
                return;
        item_free(builder->root);
        free(builder);
}

int vfs_tree_builder_new(struct vfs_tree_builder **ret_builder) {
        struct vfs_tree_builder *builder = calloc(1, sizeof(*builder));
        struct item *device;

        if (builder == NULL)
                return -ENOMEM;
        builder->count = 1;
        builder->root = item_new("", 0, TREE_DIRECTORY);
        if (builder->root == NULL || enter_path(builder, "/dev/null", TREE_NULL_DEVICE, &device) < 0) {
                vfs_tree_builder_free(builder);
                return -ENOMEM;
        }
        *ret_builder = builder;
        return 0;
}

int vfs_tree_builder_add(struct vfs_tree_builder *builder, const char *path, const void *content, size_t size,
                         int64_t mtime_ns) {
        uint8_t *copy = malloc(size > 0 ? size : 1);
        struct item *item = NULL;
        int r;

        if (copy == NULL)
                return -ENOMEM;
        r = size <= VFS_FILE_SIZE_MAX ? enter_path(builder, path, TREE_FILE, &item) : -EFBIG;
        if (r < 0) {
                free(copy);
                return r;
        }
        if (size > 0)
                memcpy(copy, content, size);
        free(item->content);
        item->content = copy;
        item->size = size;
        item->mtime_ns = mtime_ns;
        return 0;
}

int vfs_tree_builder_add_directory(struct vfs_tree_builder *builder, const char *path, int64_t mtime_ns) {
        struct item *item = NULL;
        int r = enter_path(builder, path, TREE_DIRECTORY, &item);

        if (r == 0) {
                item->mtime_ns = mtime_ns;
                item->dated = true;
        }
        return r;
}

/* Copies the files of `index` and below into `item`. */
static int add_entries(struct vfs_tree_builder *builder, struct item *item, const struct vfs_tree *tree,
                       uint32_t index) {
        static const uint8_t types[] = {[WASI_FILETYPE_DIRECTORY] = TREE_DIRECTORY,
                                        [WASI_FILETYPE_REGULAR_FILE] = TREE_FILE,
                                        [WASI_FILETYPE_CHARACTER_DEVICE] = TREE_NULL_DEVICE};
        struct vfs_tree_entry directory, entry;
        struct item *child = NULL;
        int r = 0;

        vfs_tree_get(tree, index, &directory);
        item->mtime_ns = directory.mtime_ns;
        for (uint32_t i = directory.first; r == 0 && i < directory.first + directory.count; i++) {
                vfs_tree_get(tree, i, &entry);
                r = enter(builder, item, entry.name, entry.name_size, types[entry.type], &child);
                if (r < 0)
                        return r;
                child->mtime_ns = entry.mtime_ns;
                if (entry.type == WASI_FILETYPE_DIRECTORY) {
                        r = add_entries(builder, child, tree, i);
                        continue;
                }
                free(child->content);
                child->size = 0;
                child->content = malloc(entry.size > 0 ? entry.size : 1);
                if (child->content == NULL)
                        return -ENOMEM;
                if (entry.size > 0)
                        memcpy(child->content, entry.content, entry.size);
                child->size = entry.size;
        }
        return r;
}

int vfs_tree_builder_add_tree(struct vfs_tree_builder *builder, const struct vfs_tree *tree) {
        return add_entries(builder, builder->root, tree, 0);
}

static int compare_items(const void *a, const void *b) {
        const struct item *x = *(struct item *const *)a, *y = *(struct item *const *)b;
        size_t least = x->name_size < y->name_size ? x->name_size : y->name_size;
        int order = memcmp(x->name, y->name, least);

        return order != 0 ? order : (int)x->name_size - (int)y->name_size;
}

/* All items breadth first, each directory's sorted; gives them their places. */
static uint64_t lay_out(struct vfs_tree_builder *builder, struct item **all) {
        uint64_t offset = sizeof(struct tree_header) + (uint64_t)builder->count * sizeof(struct tree_entry);
        uint32_t count = 1;

        all[0] = builder->root;
        for (uint32_t i = 0; i < count; i++) {
                struct item *item = all[i];

                item->index = i;
                item->first = count;
                if (item->count > 0)
                        qsort(item->items, item->count, sizeof(*item->items), compare_items);
                for (uint32_t j = 0; j < item->count; j++) {
                        item->items[j]->parent = i;
                        all[count++] = item->items[j];
                }
                offset += item->name_size;
        }
        /* A directory that came with a file in it is as old as the youngest there. */
        for (uint32_t i = count; i-- > 0;)
                for (uint32_t j = 0; j < all[i]->count && !all[i]->dated; j++)
                        if (all[i]->items[j]->mtime_ns > all[i]->mtime_ns)
                                all[i]->mtime_ns = all[i]->items[j]->mtime_ns;
        for (uint32_t i = 0; i < count; i++) {
                if (all[i]->type != TREE_FILE)
                        continue;
                offset = (offset + TREE_CONTENT_ALIGN - 1) & ~(uint64_t)(TREE_CONTENT_ALIGN - 1);
                all[i]->start = offset;
                offset += all[i]->size;
        }
        return offset;
}

static void write_entries(uint8_t *data, struct item *const *all, uint32_t count) {
        uint64_t name = sizeof(struct tree_header) + (uint64_t)count * sizeof(struct tree_entry);

        for (uint32_t i = 0; i < count; i++) {
                const struct item *item = all[i];
                bool directory = item->type == TREE_DIRECTORY;
                struct tree_entry entry = {
                        .start = htole64(directory ? item->first : item->start),
                        .length = htole64(directory ? item->count : item->size),
                        .mtime_ns = (int64_t)htole64((uint64_t)item->mtime_ns),
                        .name = htole32((uint32_t)name),
                        .parent = htole32(item->parent),
                        .type = item->type,
                        .name_size = item->name_size,
                };

                memcpy(data + sizeof(struct tree_header) + i * sizeof(entry), &entry, sizeof(entry));
                memcpy(data + name, item->name, item->name_size);
                name += item->name_size;
                if (item->size > 0)
                        memcpy(data + item->start, item->content, item->size);
        }
}

int vfs_tree_builder_finish(struct vfs_tree_builder *builder, uint8_t **ret_data, size_t *ret_size) {
        struct item **all = calloc(builder->count, sizeof(*all));
        struct tree_header header = {.magic = TREE_MAGIC, .count = htole32(builder->count)};
        uint8_t *data = NULL;
        uint64_t size;
        int r = -ENOMEM;

        if (all == NULL)
                return -ENOMEM;
        size = lay_out(builder, all);
        if (size > TREE_SIZE_MAX)
                r = -EFBIG;
        else
                data = calloc(1, size);
        if (data != NULL) {
                header.size = htole64(size);
                memcpy(data, &header, sizeof(header));
                write_entries(data, all, builder->count);
                *ret_data = data;
                *ret_size = size;
                r = 0;
        }
        free(all);
        return r;
}

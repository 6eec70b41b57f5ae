/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the packed tree of an image. All of it is checked when it is opened; afterwards its offsets are believed. */
#include "vfs_tree.h"

#include <errno.h>

#include "vfs_internal.h"

static void read_entry(const uint8_t *data, uint32_t index, struct tree_entry *ret_entry) {
        memcpy(ret_entry, data + sizeof(struct tree_header) + (size_t)index * sizeof(*ret_entry), sizeof(*ret_entry));
        ret_entry->start = le64toh(ret_entry->start);
        ret_entry->length = le64toh(ret_entry->length);
        ret_entry->mtime_ns = (int64_t)le64toh((uint64_t)ret_entry->mtime_ns);
        ret_entry->name = le32toh(ret_entry->name);
        ret_entry->parent = le32toh(ret_entry->parent);
}

uint32_t vfs_tree_count(const struct vfs_tree *tree) {
        struct tree_header header;

        if (tree->size == 0)
                return 1;
        memcpy(&header, tree->data, sizeof(header));
        return le32toh(header.count);
}

void vfs_tree_get(const struct vfs_tree *tree, uint32_t index, struct vfs_tree_entry *ret_entry) {
        struct tree_entry entry;

        *ret_entry = (struct vfs_tree_entry){.type = WASI_FILETYPE_DIRECTORY, .name = ""};
        if (tree->size == 0)
                return;
        read_entry(tree->data, index, &entry);
        ret_entry->parent = entry.parent;
        ret_entry->mtime_ns = entry.mtime_ns;
        ret_entry->name = (const char *)tree->data + entry.name;
        ret_entry->name_size = entry.name_size;
        if (entry.type == TREE_DIRECTORY) {
                ret_entry->first = (uint32_t)entry.start;
                ret_entry->count = (uint32_t)entry.length;
        } else if (entry.type == TREE_FILE) {
                ret_entry->type = WASI_FILETYPE_REGULAR_FILE;
                ret_entry->content = tree->data + entry.start;
                ret_entry->size = entry.length;
        } else {
                ret_entry->type = WASI_FILETYPE_CHARACTER_DEVICE;
        }
}

static int compare_names(const char *a, size_t a_size, const char *b, size_t b_size) {
        int order = memcmp(a, b, a_size < b_size ? a_size : b_size);

        return order != 0 ? order : (a_size > b_size) - (a_size < b_size);
}

bool vfs_tree_find(const struct vfs_tree *tree, uint32_t directory, const char *name, size_t size,
                   uint32_t *ret_index) {
        struct vfs_tree_entry parent, entry;
        uint32_t low, high;

        vfs_tree_get(tree, directory, &parent);
        low = parent.first;
        high = parent.first + parent.count;
        while (low < high) {
                uint32_t middle = low + (high - low) / 2;
                int order;

                vfs_tree_get(tree, middle, &entry);
                order = compare_names(entry.name, entry.name_size, name, size);
                if (order == 0) {
                        *ret_index = middle;
                        return true;
                }
                if (order < 0)
                        low = middle + 1;
                else
                        high = middle;
        }
        return false;
}

static bool range_inside(uint64_t start, uint64_t length, uint64_t from, uint64_t size) {
        return start >= from && start <= size && length <= size - start;
}

/* What is checked of every entry: its name, its content, and that directories tile the entries: `*next` is where the
 * next directory's run has to begin. */
static bool entry_valid(const uint8_t *data, uint64_t size, uint32_t count, uint32_t index, uint64_t *next) {
        uint64_t names = sizeof(struct tree_header) + (uint64_t)count * sizeof(struct tree_entry);
        struct tree_entry entry, parent;

        read_entry(data, index, &entry);
        if (!range_inside(entry.name, entry.name_size, names, size))
                return false;
        if (index == 0 ? entry.name_size != 0 || entry.parent != 0 || entry.type != TREE_DIRECTORY
                       : entry.parent >= index || !vfs_name_valid((const char *)data + entry.name, entry.name_size))
                return false;
        if (index > 0) {
                read_entry(data, entry.parent, &parent);
                if (parent.type != TREE_DIRECTORY || index < parent.start || index - parent.start >= parent.length)
                        return false;
        }
        switch (entry.type) {
        case TREE_DIRECTORY:
                if (entry.start != *next || entry.length > count - *next)
                        return false;
                *next += entry.length;
                return true;
        case TREE_FILE:
                return range_inside(entry.start, entry.length, names, size) && entry.length <= VFS_FILE_SIZE_MAX;
        case TREE_NULL_DEVICE:
                return entry.start == 0 && entry.length == 0;
        default:
                return false;
        }
}

/* Entries of one directory are sorted, without doubles: finding one relies on it. */
static bool order_valid(const uint8_t *data, uint32_t index) {
        struct tree_entry before, entry;

        read_entry(data, index - 1, &before);
        read_entry(data, index, &entry);
        return before.parent != entry.parent || compare_names((const char *)data + before.name, before.name_size,
                                                              (const char *)data + entry.name, entry.name_size) < 0;
}

int vfs_tree_open(const uint8_t *data, size_t size, struct vfs_tree *ret_tree) {
        struct tree_header header;
        uint64_t next = 1;
        uint32_t count;

        if (size < sizeof(header))
                return -EINVAL;
        memcpy(&header, data, sizeof(header));
        count = le32toh(header.count);
        if (memcmp(header.magic, TREE_MAGIC, sizeof(header.magic)) != 0 || le64toh(header.size) != size || count == 0 ||
            count > TREE_ENTRIES_MAX || count > (size - sizeof(header)) / sizeof(struct tree_entry))
                return -EINVAL;
        for (uint32_t i = 0; i < count; i++)
                if (!entry_valid(data, size, count, i, &next) || (i > 0 && !order_valid(data, i)))
                        return -EINVAL;
        if (next != count)
                return -EINVAL;
        *ret_tree = (struct vfs_tree){.data = data, .size = size};
        return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the session's files to a snapshot: nodes, the names of directories, descriptors. vfs_load.c reads it.
 *
 *   u64 next inode
 *   u32 count of nodes; of each: u32 type, u64 inode, u64 accessed, modified, changed, then what it holds
 *       file: u64 size, u32 count of chunks; of each: u32 number, u32 size, bytes
 *       link: u32 size, bytes
 *       directory: u64 next cookie
 *   u32 number of the node that /work is, the same of /tmp
 *   u32 count of names, by directory and cookie; of each: u32 directory, u32 node, u64 cookie, u32 size, bytes
 *   u32 count of descriptors; of each: u32 number, u32 how (VFS_SAVED_*), u32 flags, u64 position, u32 node or index;
 *       of streams and "/" flags and position alone count
 *
 * Nodes go by their number in that list. Only what is there is written, so a restored file system takes no more of the
 * quota than the saved one. */
#include <errno.h>

#include "snapshot.h"
#include "vfs_internal.h"
#include "vfs_save.h"

/* All nodes in the order of their inodes, so that the same files give the same bytes. */
struct node_list {
        const struct vfs_node **nodes;
        uint32_t count;
};

static int compare_nodes(const void *a, const void *b) {
        uint64_t x = (*(const struct vfs_node *const *)a)->inode, y = (*(const struct vfs_node *const *)b)->inode;

        return (x > y) - (x < y);
}

static int list_nodes(const struct vfs *vfs, struct node_list *ret_list) {
        uint32_t count = 0;

        for (const struct vfs_node *node = vfs->nodes; node != NULL; node = node->next)
                count++;
        ret_list->nodes = calloc(count, sizeof(*ret_list->nodes));
        if (ret_list->nodes == NULL)
                return -ENOMEM;
        for (const struct vfs_node *node = vfs->nodes; node != NULL; node = node->next)
                ret_list->nodes[ret_list->count++] = node;
        qsort(ret_list->nodes, count, sizeof(*ret_list->nodes), compare_nodes);
        return 0;
}

static uint32_t number_of(const struct node_list *list, const struct vfs_node *node) {
        const struct vfs_node **found = bsearch(&node, list->nodes, list->count, sizeof(*list->nodes), compare_nodes);

        return (uint32_t)(found - list->nodes);
}

/* How much of a chunk has to be written: what follows reads as zero. */
static uint32_t chunk_size(const struct vfs_chunk *chunk) {
        uint32_t size = chunk != NULL ? chunk->capacity : 0;

        while (size > 0 && chunk->data[size - 1] == 0)
                size--;
        return size;
}

static int save_content(const struct vfs_content *content, struct snapshot_writer *writer) {
        uint32_t count = 0;
        int r;

        for (uint32_t i = 0; i < content->chunks_capacity; i++)
                count += chunk_size(content->chunks[i]) > 0;
        r = snapshot_put_u64(writer, content->size);
        if (r == 0)
                r = snapshot_put_u32(writer, count);
        for (uint32_t i = 0; r == 0 && i < content->chunks_capacity; i++) {
                uint32_t size = chunk_size(content->chunks[i]);

                if (size == 0)
                        continue;
                r = snapshot_put_u32(writer, i);
                if (r == 0)
                        r = snapshot_put_u32(writer, size);
                if (r == 0)
                        r = snapshot_put(writer, content->chunks[i]->data, size);
        }
        return r;
}

static int save_node(const struct vfs_node *node, struct snapshot_writer *writer) {
        const uint64_t numbers[] = {node->inode, node->accessed_ns, node->modified_ns, node->changed_ns};
        int r = snapshot_put_u32(writer, node->type);

        for (size_t i = 0; r == 0 && i < sizeof(numbers) / sizeof(numbers[0]); i++)
                r = snapshot_put_u64(writer, numbers[i]);
        if (r == 0 && node->type == WASI_FILETYPE_REGULAR_FILE)
                return save_content(&node->content, writer);
        if (r == 0 && node->type == WASI_FILETYPE_DIRECTORY)
                return snapshot_put_u64(writer, node->directory.next_cookie);
        if (r == 0 && node->type == WASI_FILETYPE_SYMBOLIC_LINK) {
                r = snapshot_put_u32(writer, node->link.size);
                if (r == 0)
                        r = snapshot_put(writer, node->link.text, node->link.size);
        }
        return r;
}

static int save_nodes(const struct vfs *vfs, const struct node_list *list, struct snapshot_writer *writer) {
        int r = snapshot_put_u32(writer, list->count);

        for (uint32_t i = 0; r == 0 && i < list->count; i++)
                r = save_node(list->nodes[i], writer);
        for (int i = 0; r == 0 && i < VFS_ROOTS; i++)
                r = snapshot_put_u32(writer, number_of(list, vfs->roots[i]));
        return r;
}

static int save_name(const struct node_list *list, uint32_t directory, const struct vfs_slot *slot,
                     struct snapshot_writer *writer) {
        int r = snapshot_put_u32(writer, directory);

        if (r == 0)
                r = snapshot_put_u32(writer, number_of(list, slot->name->node));
        if (r == 0)
                r = snapshot_put_u64(writer, slot->cookie);
        if (r == 0)
                r = snapshot_put_u32(writer, slot->name->size);
        return r == 0 ? snapshot_put(writer, slot->name->text, slot->name->size) : r;
}

static int save_names(const struct vfs *vfs, const struct node_list *list, struct snapshot_writer *writer) {
        int r = snapshot_put_u32(writer, vfs->usage.entries);

        for (uint32_t i = 0; i < list->count; i++) {
                const struct vfs_directory *directory = &list->nodes[i]->directory;

                if (list->nodes[i]->type != WASI_FILETYPE_DIRECTORY)
                        continue;
                for (uint32_t j = 0; r == 0 && j < directory->used; j++)
                        if (directory->slots[j].name != NULL)
                                r = save_name(list, i, &directory->slots[j], writer);
        }
        return r;
}

static int save_file(const struct node_list *list, uint32_t fd, const struct vfs_file *file,
                     struct snapshot_writer *writer) {
        uint32_t how = (file->read ? VFS_SAVED_READ : 0) | (file->write ? VFS_SAVED_WRITE : 0) |
                       (file->place.node != NULL ? VFS_SAVED_NODE : 0);
        int r = snapshot_put_u32(writer, fd);

        if (r == 0)
                r = snapshot_put_u32(writer, how);
        if (r == 0)
                r = snapshot_put_u32(writer, file->flags);
        if (r == 0)
                r = snapshot_put_u64(writer, file->position);
        if (r == 0)
                r = snapshot_put_u32(writer,
                                     file->place.node != NULL ? number_of(list, file->place.node) : file->place.index);
        return r;
}

static int save_files(const struct vfs *vfs, const struct node_list *list, struct snapshot_writer *writer) {
        uint32_t count = 0;
        int r;

        for (uint32_t fd = 0; fd < vfs->files_capacity; fd++)
                count += vfs->files[fd].used;
        r = snapshot_put_u32(writer, count);
        for (uint32_t fd = 0; r == 0 && fd < vfs->files_capacity; fd++)
                if (vfs->files[fd].used)
                        r = save_file(list, fd, &vfs->files[fd], writer);
        return r;
}

int vfs_save(const struct vfs *vfs, struct snapshot_writer *writer) {
        struct node_list list = {0};
        int r = list_nodes(vfs, &list);

        if (r == 0)
                r = snapshot_put_u64(writer, vfs->next_inode);
        if (r == 0)
                r = save_nodes(vfs, &list, writer);
        if (r == 0)
                r = save_names(vfs, &list, writer);
        if (r == 0)
                r = save_files(vfs, &list, writer);
        free(list.nodes);
        return r;
}

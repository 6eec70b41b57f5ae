/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of files: size, times, and what a directory holds. */
#include "vfs_internal.h"

static void stat_place(const struct vfs *vfs, const struct vfs_place *place, struct vfs_stat *ret_stat) {
        const struct vfs_node *node = place->node;
        struct vfs_tree_entry entry;

        if (node == NULL) {
                vfs_tree_get(&vfs->tree, place->index, &entry);
                *ret_stat = (struct vfs_stat){
                        .device = VFS_DEVICE_TREE,
                        .inode = (uint64_t)place->index + 1,
                        .links = 1,
                        .size = entry.size,
                        .accessed_ns = (uint64_t)entry.mtime_ns,
                        .modified_ns = (uint64_t)entry.mtime_ns,
                        .changed_ns = (uint64_t)entry.mtime_ns,
                        .type = entry.type,
                };
                return;
        }
        *ret_stat = (struct vfs_stat){
                .device = VFS_DEVICE_SESSION,
                .inode = node->inode,
                .links = node->links,
                .accessed_ns = node->accessed_ns,
                .modified_ns = node->modified_ns,
                .changed_ns = node->changed_ns,
                .type = node->type,
        };
        if (node->type == WASI_FILETYPE_REGULAR_FILE)
                ret_stat->size = node->content.size;
        else if (node->type == WASI_FILETYPE_SYMBOLIC_LINK)
                ret_stat->size = node->link.size;
}

int vfs_stat_fd(const struct vfs *vfs, uint32_t fd, struct vfs_stat *ret_stat) {
        const struct vfs_file *file = vfs_file_get(vfs, fd);

        if (file == NULL)
                return WASI_EBADF;
        if (file->stream)
                *ret_stat = (struct vfs_stat){
                        .device = VFS_DEVICE_STREAM, .inode = (uint64_t)fd + 1, .links = 1, .type = file->type};
        else
                stat_place(vfs, &file->place, ret_stat);
        return 0;
}

static int find_place(const struct vfs *vfs, const struct vfs_at *at, struct vfs_place *ret_place) {
        struct vfs_walk walk;
        int r = vfs_walk(vfs, at, at->follow ? VFS_WALK_FOLLOW : VFS_WALK_NO_FOLLOW, &walk);

        if (r == 0 && !walk.found)
                r = WASI_ENOENT;
        if (r == 0)
                *ret_place = walk.place;
        return r;
}

int vfs_stat_at(const struct vfs *vfs, const struct vfs_at *at, struct vfs_stat *ret_stat) {
        struct vfs_place place;
        int r = find_place(vfs, at, &place);

        if (r == 0)
                stat_place(vfs, &place, ret_stat);
        return r;
}

static int set_times(const struct vfs *vfs, struct vfs_node *node, const struct vfs_times *times) {
        if (node == NULL)
                return WASI_EROFS;
        if (times->set_accessed)
                node->accessed_ns = times->accessed_ns;
        if (times->set_modified)
                node->modified_ns = times->modified_ns;
        vfs_node_changed(vfs, node);
        return 0;
}

int vfs_set_times_fd(struct vfs *vfs, uint32_t fd, const struct vfs_times *times) {
        const struct vfs_file *file = vfs_file_get(vfs, fd);

        if (file == NULL)
                return WASI_EBADF;
        return file->stream ? WASI_EINVAL : set_times(vfs, file->place.node, times);
}

int vfs_set_times_at(struct vfs *vfs, const struct vfs_at *at, const struct vfs_times *times) {
        struct vfs_place place;
        int r = find_place(vfs, at, &place);

        return r != 0 ? r : set_times(vfs, place.node, times);
}

/* "." and "..", whose cookies are 1 and 2. */
static void dot_entry(const struct vfs *vfs, const struct vfs_place *directory, uint64_t cookie,
                      struct vfs_dirent *ret_entry) {
        struct vfs_place place = *directory;
        struct vfs_stat stat;
        struct vfs_tree_entry entry;

        if (cookie == 1 && place.node != NULL) {
                place.node = place.node->directory.parent;
                place.index = 0;
        } else if (cookie == 1) {
                vfs_tree_get(&vfs->tree, place.index, &entry);
                place.index = entry.parent;
        }
        stat_place(vfs, &place, &stat);
        *ret_entry = (struct vfs_dirent){
                .next = cookie + 1,
                .inode = stat.inode,
                .name = "..",
                .name_size = (uint32_t)cookie + 1,
                .type = WASI_FILETYPE_DIRECTORY,
        };
}

/* The entry of a tree's directory after `cookie`, which is 2 more than the number of those before it. What has the name
 * of one of the session's directories in "/" is hidden by it; these come last. */
static void tree_entry_after(const struct vfs *vfs, uint32_t index, uint64_t cookie, struct vfs_dirent *ret_entry) {
        struct vfs_tree_entry directory, entry;
        uint64_t number = cookie - 2;

        vfs_tree_get(&vfs->tree, index, &directory);
        for (; number < directory.count; number++) {
                bool hidden = false;

                vfs_tree_get(&vfs->tree, directory.first + (uint32_t)number, &entry);
                for (int i = 0; index == 0 && i < VFS_ROOTS; i++)
                        hidden |= strlen(vfs_root_names[i]) == entry.name_size &&
                                  memcmp(vfs_root_names[i], entry.name, entry.name_size) == 0;
                if (hidden)
                        continue;
                *ret_entry = (struct vfs_dirent){
                        .next = number + 3,
                        .inode = (uint64_t)directory.first + number + 1,
                        .name = entry.name,
                        .name_size = entry.name_size,
                        .type = entry.type,
                };
                return;
        }
        if (index != 0 || number - directory.count >= VFS_ROOTS)
                return;
        *ret_entry = (struct vfs_dirent){
                .next = number + 3,
                .inode = vfs->roots[number - directory.count]->inode,
                .name = vfs_root_names[number - directory.count],
                .name_size = (uint32_t)strlen(vfs_root_names[number - directory.count]),
                .type = WASI_FILETYPE_DIRECTORY,
        };
}

int vfs_readdir(const struct vfs *vfs, uint32_t fd, uint64_t cookie, struct vfs_dirent *ret_entry) {
        const struct vfs_file *file = vfs_file_get(vfs, fd);
        const struct vfs_slot *slot;

        if (file == NULL)
                return WASI_EBADF;
        if (file->type != WASI_FILETYPE_DIRECTORY)
                return WASI_ENOTDIR;
        *ret_entry = (struct vfs_dirent){0};
        if (file->place.node != NULL && file->place.node->links == 0)
                return 0;
        if (cookie < 2) {
                dot_entry(vfs, &file->place, cookie, ret_entry);
                return 0;
        }
        if (file->place.node == NULL) {
                tree_entry_after(vfs, file->place.index, cookie, ret_entry);
                return 0;
        }
        slot = vfs_directory_after(&file->place.node->directory, cookie);
        if (slot != NULL)
                *ret_entry = (struct vfs_dirent){
                        .next = slot->cookie,
                        .inode = slot->name->node->inode,
                        .name = slot->name->text,
                        .name_size = slot->name->size,
                        .type = slot->name->node->type,
                };
        return 0;
}

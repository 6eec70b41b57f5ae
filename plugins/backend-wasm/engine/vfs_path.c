/* SPDX-License-Identifier: Apache-2.0 */
/* Follows paths: names, "..", symbolic links. Nothing leads out of "/"; what a path costs is bounded by its size, by
 * the links that are followed and by the size of what they say. */
#include "vfs_internal.h"

bool vfs_name_valid(const char *text, size_t size) {
        if (size == 0 || size > VFS_NAME_MAX || memchr(text, '/', size) != NULL || memchr(text, '\0', size) != NULL)
                return false;
        return text[0] != '.' || (size != 1 && (size != 2 || text[1] != '.'));
}

uint8_t vfs_place_type(const struct vfs *vfs, const struct vfs_place *place) {
        struct vfs_tree_entry entry;

        if (place->node != NULL)
                return place->node->type;
        vfs_tree_get(&vfs->tree, place->index, &entry);
        return entry.type;
}

int vfs_walk_writable(const struct vfs_walk *walk) {
        if (walk->directory.node == NULL)
                return WASI_EROFS;
        return walk->directory.node->links > 0 ? 0 : WASI_ENOENT;
}

/* What is left of the path, at the end of its buffer: what a link says is put before it. */
struct rest {
        size_t at;
        unsigned links;
        char bytes[2 * VFS_PATH_MAX];
};

static bool prepend(struct rest *rest, const char *text, size_t size) {
        if (size > rest->at)
                return false;
        rest->at -= size;
        memcpy(rest->bytes + rest->at, text, size);
        return true;
}

static bool skip_slashes(struct rest *rest) {
        size_t before = rest->at;

        while (rest->at < sizeof(rest->bytes) && rest->bytes[rest->at] == '/')
                rest->at++;
        return rest->at > before;
}

/* Cuts the next name off. */
static size_t next_name(struct rest *rest, char name[VFS_NAME_MAX + 1]) {
        const char *begin = rest->bytes + rest->at;
        size_t left = sizeof(rest->bytes) - rest->at;
        const char *slash = memchr(begin, '/', left);
        size_t size = slash != NULL ? (size_t)(slash - begin) : left;

        if (size <= VFS_NAME_MAX)
                memcpy(name, begin, size);
        rest->at += size;
        return size;
}

static void parent_of(const struct vfs *vfs, struct vfs_place *place) {
        struct vfs_tree_entry entry;

        if (place->node != NULL) {
                place->node = place->node->directory.parent;
                place->index = 0;
        } else {
                vfs_tree_get(&vfs->tree, place->index, &entry);
                place->index = entry.parent;
        }
}

static bool find_child(const struct vfs *vfs, const struct vfs_place *directory, const char *name, size_t size,
                       struct vfs_place *ret_child) {
        const struct vfs_name *found;

        *ret_child = (struct vfs_place){0};
        if (directory->node != NULL) {
                found = vfs_directory_find(&directory->node->directory, name, size);
                if (found != NULL)
                        ret_child->node = found->node;
                return found != NULL;
        }
        for (int i = 0; directory->index == 0 && i < VFS_ROOTS; i++) {
                if (strlen(vfs_root_names[i]) == size && memcmp(vfs_root_names[i], name, size) == 0) {
                        ret_child->node = vfs->roots[i];
                        return true;
                }
        }
        return vfs_tree_find(&vfs->tree, directory->index, name, size, &ret_child->index);
}

/* Puts what a link says before the rest of the path. */
static int follow_link(const struct vfs_node *link, struct rest *rest, struct vfs_place *current) {
        if (++rest->links > VFS_LINKS_MAX)
                return WASI_ELOOP;
        if (!prepend(rest, link->link.text, link->link.size))
                return WASI_ENAMETOOLONG;
        if (link->link.text[0] == '/')
                *current = (struct vfs_place){0};
        return 0;
}

/* One name of the path, in the directory `current`. True: the walk goes on. */
static bool step(const struct vfs *vfs, struct rest *rest, struct vfs_place *current, enum vfs_walk_last mode,
                 struct vfs_walk *walk, int *ret_error) {
        char name[VFS_NAME_MAX + 1];
        size_t size = next_name(rest, name);
        bool slash = skip_slashes(rest), last = rest->at == sizeof(rest->bytes), found;
        struct vfs_place child;

        *ret_error = WASI_ENAMETOOLONG;
        if (size > VFS_NAME_MAX)
                return false;
        *ret_error = 0;
        walk->found = true;
        walk->name_size = 0;
        walk->dots = 0;
        if (size <= 2 && memcmp(name, "..", size) == 0) {
                if (size == 2)
                        parent_of(vfs, current);
                walk->dots = (uint8_t)size;
                return !last;
        }
        found = find_child(vfs, current, name, size, &child);
        if (found && child.node != NULL && child.node->type == WASI_FILETYPE_SYMBOLIC_LINK &&
            (!last || mode == VFS_WALK_FOLLOW || mode == (slash ? VFS_WALK_NO_FOLLOW : VFS_WALK_CREATE))) {
                if (slash && !prepend(rest, "/", 1))
                        *ret_error = WASI_ENAMETOOLONG;
                else
                        *ret_error = follow_link(child.node, rest, current);
                return *ret_error == 0;
        }
        if (!last) {
                if (found && vfs_place_type(vfs, &child) == WASI_FILETYPE_DIRECTORY)
                        *current = child;
                else
                        *ret_error = found ? WASI_ENOTDIR : WASI_ENOENT;
                return *ret_error == 0;
        }
        if (found && slash && mode <= VFS_WALK_NO_FOLLOW && vfs_place_type(vfs, &child) != WASI_FILETYPE_DIRECTORY)
                *ret_error = WASI_ENOTDIR;
        walk->found = found;
        walk->place = child;
        walk->directory = *current;
        walk->slash = slash;
        walk->name_size = (uint32_t)size;
        memcpy(walk->name, name, size);
        return false;
}

/* The path is copied before it is looked at: an interrupt may write to the memory of the guest at any time. */
static int begin(const struct vfs *vfs, const struct vfs_at *at, struct rest *rest, struct vfs_place *ret_place) {
        const struct vfs_file *file = vfs_file_get(vfs, at->fd);

        if (at->size == 0)
                return WASI_ENOENT;
        if (at->size > VFS_PATH_MAX)
                return WASI_ENAMETOOLONG;
        rest->links = 0;
        rest->at = sizeof(rest->bytes);
        prepend(rest, at->path, at->size);
        if (memchr(rest->bytes + rest->at, '\0', at->size) != NULL)
                return WASI_EILSEQ;
        *ret_place = (struct vfs_place){0};
        if (rest->bytes[rest->at] == '/')
                return 0;
        if (file == NULL)
                return WASI_EBADF;
        if (file->type != WASI_FILETYPE_DIRECTORY)
                return WASI_ENOTDIR;
        *ret_place = file->place;
        return 0;
}

int vfs_walk(const struct vfs *vfs, const struct vfs_at *at, enum vfs_walk_last last, struct vfs_walk *ret_walk) {
        struct vfs_place current;
        struct rest rest;
        int r = begin(vfs, at, &rest, &current);

        if (r != 0)
                return r;
        *ret_walk = (struct vfs_walk){.found = true, .place = current};
        skip_slashes(&rest);
        while (rest.at < sizeof(rest.bytes) && step(vfs, &rest, &current, last, ret_walk, &r))
                skip_slashes(&rest);
        if (rest.at == sizeof(rest.bytes) && r == 0 && ret_walk->name_size == 0)
                ret_walk->place = current;
        return r;
}

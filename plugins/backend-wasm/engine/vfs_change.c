/* SPDX-License-Identifier: Apache-2.0 */
/* Makes, removes and renames what paths lead to, with the errors that Linux gives. */
#include "vfs_internal.h"

/* A place for a new name: nothing is there yet. */
static int walk_new(struct vfs *vfs, const struct vfs_at *at, bool directory, struct vfs_walk *ret_walk) {
        int r = vfs_walk(vfs, at, VFS_WALK_NAME, ret_walk);

        if (r != 0)
                return r;
        if (ret_walk->found)
                return WASI_EEXIST;
        if (ret_walk->slash && !directory)
                return WASI_ENOENT;
        return vfs_walk_writable(ret_walk);
}

/* Gives `node` the name that `walk` found free. A node without any name is freed when that fails. */
static int add_name(struct vfs *vfs, const struct vfs_walk *walk, struct vfs_node *node) {
        struct vfs_node *parent = walk->directory.node;
        int r = vfs_directory_add(vfs, &parent->directory, walk->name, walk->name_size, node, 0);

        if (r != 0) {
                vfs_node_settle(vfs, node);
                return r;
        }
        if (node->type == WASI_FILETYPE_DIRECTORY)
                node->directory.parent = parent;
        vfs_node_modified(vfs, parent);
        return 0;
}

/* Takes the name away that `walk` found, and frees what it led to unless more holds it. */
static void remove_name(struct vfs *vfs, const struct vfs_walk *walk) {
        struct vfs_node *parent = walk->directory.node, *node = walk->place.node;

        vfs_directory_remove(vfs, &parent->directory,
                             vfs_directory_find(&parent->directory, walk->name, walk->name_size));
        if (node->type == WASI_FILETYPE_DIRECTORY)
                node->directory.parent = NULL;
        vfs_node_modified(vfs, parent);
        vfs_node_changed(vfs, node);
        vfs_node_settle(vfs, node);
}

int vfs_make_directory(struct vfs *vfs, const struct vfs_at *at) {
        struct vfs_node *node = NULL;
        struct vfs_walk walk;
        int r = walk_new(vfs, at, true, &walk);

        if (r == 0)
                r = vfs_node_new(vfs, WASI_FILETYPE_DIRECTORY, &node);
        return r != 0 ? r : add_name(vfs, &walk, node);
}

int vfs_symlink(struct vfs *vfs, const char *target, size_t size, const struct vfs_at *at) {
        struct vfs_node *node = NULL;
        struct vfs_walk walk;
        int r;

        if (size == 0)
                return WASI_ENOENT;
        if (size > VFS_PATH_MAX)
                return WASI_ENAMETOOLONG;
        r = walk_new(vfs, at, false, &walk);
        if (r == 0)
                r = vfs_node_new(vfs, WASI_FILETYPE_SYMBOLIC_LINK, &node);
        if (r != 0)
                return r;
        r = vfs_charge(vfs, size);
        if (r == 0) {
                node->link.size = (uint32_t)size;
                node->link.text = malloc(size);
                r = node->link.text == NULL ? WASI_ENOMEM : 0;
        }
        if (r == 0) {
                memcpy(node->link.text, target, size);
                r = memchr(node->link.text, '\0', size) != NULL ? WASI_EILSEQ : 0;
        }
        if (r != 0) {
                vfs_node_settle(vfs, node);
                return r;
        }
        return add_name(vfs, &walk, node);
}

int vfs_readlink(const struct vfs *vfs, const struct vfs_at *at, char *buffer, size_t size, size_t *ret_size) {
        struct vfs_walk walk;
        int r = vfs_walk(vfs, at, VFS_WALK_NO_FOLLOW, &walk);

        if (r != 0)
                return r;
        if (!walk.found)
                return WASI_ENOENT;
        if (walk.place.node == NULL || walk.place.node->type != WASI_FILETYPE_SYMBOLIC_LINK)
                return WASI_EINVAL;
        *ret_size = walk.place.node->link.size < size ? walk.place.node->link.size : size;
        memcpy(buffer, walk.place.node->link.text, *ret_size);
        return 0;
}

int vfs_link(struct vfs *vfs, const struct vfs_at *from, const struct vfs_at *to) {
        struct vfs_walk old, new;
        int r = vfs_walk(vfs, from, from->follow ? VFS_WALK_FOLLOW : VFS_WALK_NO_FOLLOW, &old);

        if (r == 0 && !old.found)
                r = WASI_ENOENT;
        if (r == 0)
                r = walk_new(vfs, to, false, &new);
        if (r != 0)
                return r;
        if (old.place.node == NULL)
                return WASI_EXDEV;
        if (old.place.node->type == WASI_FILETYPE_DIRECTORY)
                return WASI_EPERM;
        if (old.place.node->links == UINT32_MAX)
                return WASI_EMLINK;
        r = add_name(vfs, &new, old.place.node);
        if (r == 0)
                vfs_node_changed(vfs, old.place.node);
        return r;
}

/* What is there can be taken away: a name of the session's own, and not /work or /tmp. */
static int removable(const struct vfs_walk *walk) {
        if (!walk->found)
                return WASI_ENOENT;
        if (walk->name_size == 0 || (walk->directory.node == NULL && walk->place.node != NULL))
                return WASI_EBUSY;
        return walk->place.node == NULL ? WASI_EROFS : 0;
}

int vfs_unlink(struct vfs *vfs, const struct vfs_at *at) {
        struct vfs_walk walk;
        int r = vfs_walk(vfs, at, VFS_WALK_NAME, &walk);

        if (r != 0)
                return r;
        if (walk.found && vfs_place_type(vfs, &walk.place) == WASI_FILETYPE_DIRECTORY)
                return WASI_EISDIR;
        if (walk.found && walk.slash)
                return WASI_ENOTDIR;
        r = removable(&walk);
        if (r == 0)
                remove_name(vfs, &walk);
        return r;
}

int vfs_remove_directory(struct vfs *vfs, const struct vfs_at *at) {
        struct vfs_walk walk;
        int r = vfs_walk(vfs, at, VFS_WALK_NAME, &walk);

        if (r != 0)
                return r;
        if (walk.found && vfs_place_type(vfs, &walk.place) != WASI_FILETYPE_DIRECTORY)
                return WASI_ENOTDIR;
        if (walk.dots > 0)
                return walk.dots == 1 ? WASI_EINVAL : WASI_ENOTEMPTY;
        r = removable(&walk);
        if (r != 0)
                return r;
        if (walk.place.node->directory.live > 0)
                return WASI_ENOTEMPTY;
        remove_name(vfs, &walk);
        return 0;
}

/* `directory` is `node` or somewhere below it. */
static bool is_below(const struct vfs_node *directory, const struct vfs_node *node) {
        for (; directory != NULL; directory = directory->directory.parent)
                if (directory == node)
                        return true;
        return false;
}

/* Whether what `old` found may take the place of what `new` found. */
static int check_rename(const struct vfs_walk *old, const struct vfs_walk *new) {
        const struct vfs_node *node = old->place.node, *other = new->place.node;
        bool directory;

        if (old->name_size == 0 || new->name_size == 0)
                return WASI_EBUSY;
        if (!old->found)
                return WASI_ENOENT;
        if ((old->directory.node == NULL) != (new->directory.node == NULL))
                return node != NULL && old->directory.node == NULL ? WASI_EBUSY : WASI_EXDEV;
        if (old->directory.node == NULL)
                return node != NULL ? WASI_EBUSY : WASI_EROFS;
        if (new->directory.node->links == 0)
                return WASI_ENOENT;
        directory = node->type == WASI_FILETYPE_DIRECTORY;
        if ((new->slash || old->slash) && !directory)
                return WASI_ENOTDIR;
        if (directory && is_below(new->directory.node, node))
                return WASI_EINVAL;
        if (!new->found || other == node)
                return 0;
        if (is_below(old->directory.node, other))
                return WASI_ENOTEMPTY;
        if (directory && other->type != WASI_FILETYPE_DIRECTORY)
                return WASI_ENOTDIR;
        if (!directory && other->type == WASI_FILETYPE_DIRECTORY)
                return WASI_EISDIR;
        return directory && other->directory.live > 0 ? WASI_ENOTEMPTY : 0;
}

/* The name that `new` found leads to `node` from now on. */
static void replace_name(struct vfs *vfs, const struct vfs_walk *new, struct vfs_node *node) {
        struct vfs_directory *directory = &new->directory.node->directory;
        struct vfs_node *other = new->place.node;

        vfs_directory_find(directory, new->name, new->name_size)->node = node;
        node->links++;
        other->links--;
        if (other->type == WASI_FILETYPE_DIRECTORY)
                other->directory.parent = NULL;
        vfs_node_modified(vfs, new->directory.node);
        vfs_node_changed(vfs, other);
        vfs_node_settle(vfs, other);
}

/* The second name of a node that is about to lose its first one, whose part of the quota it takes over. */
static int add_second_name(struct vfs *vfs, const struct vfs_walk *new, struct vfs_node *node, size_t old_size) {
        struct vfs_limits limits = vfs->limits;
        uint64_t peak = vfs->usage.bytes_peak;
        int r;

        vfs->limits.entries = UINT32_MAX;
        vfs->limits.bytes += VFS_NAME_COST + old_size;
        r = add_name(vfs, new, node);
        vfs->limits = limits;
        vfs->usage.bytes_peak = peak;
        return r;
}

int vfs_rename(struct vfs *vfs, const struct vfs_at *from, const struct vfs_at *to) {
        struct vfs_walk old, new;
        struct vfs_node *node;
        int r = vfs_walk(vfs, from, VFS_WALK_NAME, &old);

        if (r == 0)
                r = vfs_walk(vfs, to, VFS_WALK_NAME, &new);
        if (r == 0)
                r = check_rename(&old, &new);
        if (r != 0 || (new.found &&new.place.node == old.place.node))
                return r;
        node = old.place.node;
        if (new.found)
                replace_name(vfs, &new, node);
        else
                r = add_second_name(vfs, &new, node, old.name_size);
        if (r != 0)
                return r;
        remove_name(vfs, &old);
        if (vfs->usage.bytes > vfs->usage.bytes_peak) /* a longer name */
                vfs->usage.bytes_peak = vfs->usage.bytes;
        if (node->type == WASI_FILETYPE_DIRECTORY)
                node->directory.parent = new.directory.node;
        return 0;
}

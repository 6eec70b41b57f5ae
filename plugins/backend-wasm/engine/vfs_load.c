/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a file system of what a snapshot says; vfs_save.c has the layout. A snapshot is hostile: every number is
 * checked, nothing is allocated that the quota has not paid for, and directories must form a tree. */
#include <errno.h>

#include "snapshot.h"
#include "vfs_internal.h"
#include "vfs_save.h"

#define COOKIE_MAX (UINT64_MAX / 2)
#define NO_PARENT UINT32_MAX

struct loader {
        struct vfs *vfs;
        struct snapshot_reader *reader;
        struct vfs_node **nodes; /* by number */
        uint32_t *parents;       /* of directories, by number; NO_PARENT: none */
        uint32_t count;
};

/* What loading answers to an error that a guest would get. */
static int errno_of(int error) {
        switch (error) {
        case 0:
                return 0;
        case WASI_ENOMEM:
                return -ENOMEM;
        case WASI_ENOSPC:
        case WASI_EMFILE:
                return -EDQUOT;
        default:
                return -EINVAL;
        }
}

static int get_u32s(struct snapshot_reader *reader, uint32_t *values, size_t count) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < count; i++)
                r = snapshot_get_u32(reader, &values[i]);
        return r;
}

static int load_chunk(struct loader *loader, struct vfs_content *content, uint64_t least, uint32_t *ret_number) {
        uint32_t head[2]; /* number, size */
        uint8_t *data = NULL;
        int r = get_u32s(loader->reader, head, 2);

        if (r < 0)
                return r;
        if (head[0] < least || head[1] == 0 || head[1] > VFS_CHUNK_SIZE ||
            (uint64_t)head[0] * VFS_CHUNK_SIZE + head[1] > content->size)
                return -EINVAL;
        *ret_number = head[0];
        r = errno_of(vfs_content_chunk(loader->vfs, content, head[0], head[1], &data));
        return r < 0 ? r : snapshot_get(loader->reader, data, head[1]);
}

static int load_content(struct loader *loader, struct vfs_content *content) {
        uint32_t count = 0, number = 0;
        uint64_t size = 0;
        int r = snapshot_get_u64(loader->reader, &size);

        if (r == 0)
                r = snapshot_get_u32(loader->reader, &count);
        if (r == 0 && size > VFS_FILE_SIZE_MAX)
                r = -EINVAL;
        content->size = r == 0 ? size : 0;
        for (uint32_t i = 0; r == 0 && i < count; i++)
                r = load_chunk(loader, content, i == 0 ? 0 : (uint64_t)number + 1, &number);
        return r;
}

static int load_link(struct loader *loader, struct vfs_node *node) {
        uint32_t size = 0;
        int r = snapshot_get_u32(loader->reader, &size);

        if (r == 0 && (size == 0 || size > VFS_PATH_MAX))
                r = -EINVAL;
        if (r == 0)
                r = errno_of(vfs_charge(loader->vfs, size));
        if (r < 0)
                return r;
        node->link.size = size;
        node->link.text = malloc(size);
        if (node->link.text == NULL)
                return -ENOMEM;
        r = snapshot_get(loader->reader, node->link.text, size);
        return r == 0 && memchr(node->link.text, '\0', size) != NULL ? -EINVAL : r;
}

static int load_node(struct loader *loader, uint64_t least, uint64_t inode_end, struct vfs_node **ret_node) {
        struct vfs_node *node = NULL;
        uint64_t numbers[4] = {0}; /* inode, times */
        uint32_t type = 0;
        int r = snapshot_get_u32(loader->reader, &type);

        for (int i = 0; r == 0 && i < 4; i++)
                r = snapshot_get_u64(loader->reader, &numbers[i]);
        if (r == 0 && (numbers[0] < least || numbers[0] >= inode_end ||
                       (type != WASI_FILETYPE_DIRECTORY && type != WASI_FILETYPE_REGULAR_FILE &&
                        type != WASI_FILETYPE_SYMBOLIC_LINK)))
                r = -EINVAL;
        if (r == 0)
                r = errno_of(vfs_node_new(loader->vfs, (uint8_t)type, &node));
        if (r < 0)
                return r;
        node->inode = numbers[0];
        node->accessed_ns = numbers[1];
        node->modified_ns = numbers[2];
        node->changed_ns = numbers[3];
        *ret_node = node;
        if (type == WASI_FILETYPE_REGULAR_FILE)
                return load_content(loader, &node->content);
        if (type == WASI_FILETYPE_SYMBOLIC_LINK)
                return load_link(loader, node);
        r = snapshot_get_u64(loader->reader, &node->directory.next_cookie);
        return r == 0 && node->directory.next_cookie > COOKIE_MAX ? -EINVAL : r;
}

static int load_nodes(struct loader *loader) {
        const struct vfs_limits *limits = &loader->vfs->limits;
        uint64_t next_inode = 0, least = VFS_FIRST_INODE;
        uint32_t roots[VFS_ROOTS] = {0};
        int r = snapshot_get_u64(loader->reader, &next_inode);

        if (r == 0)
                r = snapshot_get_u32(loader->reader, &loader->count);
        if (r < 0)
                return r;
        if (next_inode < VFS_FIRST_INODE || next_inode > UINT64_MAX / 2 || loader->count < VFS_ROOTS)
                return -EINVAL;
        if (loader->count > (uint64_t)limits->entries + limits->open_files + VFS_ROOTS ||
            loader->count > limits->bytes / VFS_NODE_COST)
                return -EDQUOT;
        loader->nodes = calloc(loader->count, sizeof(*loader->nodes));
        loader->parents = calloc(loader->count, sizeof(*loader->parents));
        if (loader->nodes == NULL || loader->parents == NULL)
                return -ENOMEM;
        for (uint32_t i = 0; r == 0 && i < loader->count; i++) {
                loader->parents[i] = NO_PARENT;
                r = load_node(loader, least, next_inode, &loader->nodes[i]);
                if (r == 0)
                        least = loader->nodes[i]->inode + 1;
        }
        loader->vfs->next_inode = next_inode;
        if (r == 0)
                r = get_u32s(loader->reader, roots, VFS_ROOTS);
        for (int i = 0; r == 0 && i < VFS_ROOTS; i++) {
                if (roots[i] >= loader->count || loader->nodes[roots[i]]->type != WASI_FILETYPE_DIRECTORY ||
                    loader->nodes[roots[i]]->links > 0)
                        return -EINVAL;
                loader->vfs->roots[i] = loader->nodes[roots[i]];
                loader->vfs->roots[i]->links = 1;
        }
        return r;
}

static int load_name(struct loader *loader) {
        struct vfs_node *directory, *node;
        uint32_t numbers[2], size = 0; /* directory, node */
        char text[VFS_NAME_MAX];
        uint64_t cookie = 0;
        int r = get_u32s(loader->reader, numbers, 2);

        if (r == 0)
                r = snapshot_get_u64(loader->reader, &cookie);
        if (r == 0)
                r = snapshot_get_u32(loader->reader, &size);
        if (r == 0)
                r = size <= VFS_NAME_MAX ? snapshot_get(loader->reader, text, size) : -EINVAL;
        if (r < 0)
                return r;
        if (numbers[0] >= loader->count || numbers[1] >= loader->count || !vfs_name_valid(text, size))
                return -EINVAL;
        directory = loader->nodes[numbers[0]];
        node = loader->nodes[numbers[1]];
        if (directory->type != WASI_FILETYPE_DIRECTORY || cookie < VFS_FIRST_COOKIE ||
            cookie >= directory->directory.next_cookie || node->links == UINT32_MAX ||
            vfs_directory_find(&directory->directory, text, size) != NULL)
                return -EINVAL;
        if (directory->directory.used > 0 && cookie <= directory->directory.slots[directory->directory.used - 1].cookie)
                return -EINVAL;
        if (node->type == WASI_FILETYPE_DIRECTORY) {
                if (node->links > 0)
                        return -EINVAL;
                loader->parents[numbers[1]] = numbers[0];
                node->directory.parent = directory;
        }
        return errno_of(vfs_directory_add(loader->vfs, &directory->directory, text, size, node, cookie));
}

/* Every directory with names in it leads up to /work or /tmp: none to itself, none to one that was removed. */
static int check_tree(struct loader *loader) {
        for (uint32_t i = 0; i < loader->count; i++) {
                uint32_t top = i, steps = 0;

                if (loader->nodes[i]->type != WASI_FILETYPE_DIRECTORY)
                        continue;
                while (loader->parents[top] != NO_PARENT) {
                        top = loader->parents[top];
                        if (++steps > loader->count)
                                return -EINVAL;
                }
                if (loader->nodes[top]->links == 0 && (top != i || loader->nodes[top]->directory.live > 0))
                        return -EINVAL;
                /* What was walked ends at the top: next time that is one step. */
                for (uint32_t at = i; loader->parents[at] != NO_PARENT;) {
                        uint32_t up = loader->parents[at];

                        loader->parents[at] = top;
                        at = up;
                }
        }
        return 0;
}

static int load_names(struct loader *loader) {
        uint32_t count = 0;
        int r = snapshot_get_u32(loader->reader, &count);

        if (r == 0 && count > loader->vfs->limits.entries)
                r = -EDQUOT;
        for (uint32_t i = 0; r == 0 && i < count; i++)
                r = load_name(loader);
        return r == 0 ? check_tree(loader) : r;
}

/* A file that is not a stream, as vfs_open would have opened it. */
static int load_opened(struct loader *loader, uint32_t number, uint32_t how, struct vfs_file *file) {
        struct vfs *vfs = loader->vfs;
        bool own = (how & VFS_SAVED_NODE) != 0;

        if (number >= (own ? loader->count : vfs_tree_count(&vfs->tree)))
                return -EINVAL;
        if (own)
                file->place.node = loader->nodes[number];
        else
                file->place.index = number;
        file->type = vfs_place_type(vfs, &file->place);
        if (file->type == WASI_FILETYPE_SYMBOLIC_LINK ||
            (file->write &&
             (file->type == WASI_FILETYPE_DIRECTORY || (file->type == WASI_FILETYPE_REGULAR_FILE && !own))))
                return -EINVAL;
        if (vfs->usage.open_files >= vfs->limits.open_files)
                return -EDQUOT;
        vfs->usage.open_files++;
        if (own)
                file->place.node->opens++;
        return 0;
}

static int load_file(struct loader *loader, uint64_t least, uint32_t *ret_fd) {
        struct vfs *vfs = loader->vfs;
        uint32_t head[3], number = 0; /* descriptor, how, flags */
        struct vfs_file file = {.used = true};
        int r = get_u32s(loader->reader, head, 3);

        if (r == 0)
                r = snapshot_get_u64(loader->reader, &file.position);
        if (r == 0)
                r = snapshot_get_u32(loader->reader, &number);
        if (r < 0)
                return r;
        file.flags = (uint16_t)head[2];
        if (head[0] < least || head[2] != file.flags || file.position > INT64_MAX)
                return -EINVAL;
        *ret_fd = head[0];
        if (head[0] < VFS_FIRST_FD) {
                vfs->files[head[0]].flags = file.flags;
                vfs->files[head[0]].position = file.position;
                return 0;
        }
        if (head[0] - VFS_FIRST_FD >= vfs->limits.open_files)
                return -EDQUOT;
        file.read = (head[1] & VFS_SAVED_READ) != 0;
        file.write = (head[1] & VFS_SAVED_WRITE) != 0;
        r = errno_of(vfs_files_reserve(vfs, head[0] + 1));
        if (r == 0)
                r = load_opened(loader, number, head[1], &file);
        if (r == 0)
                vfs->files[head[0]] = file;
        return r;
}

static int load_files(struct loader *loader) {
        uint32_t count = 0, fd = 0;
        int r = snapshot_get_u32(loader->reader, &count);

        for (uint32_t i = 0; r == 0 && i < count; i++)
                r = load_file(loader, i == 0 ? 0 : (uint64_t)fd + 1, &fd);
        return r;
}

int vfs_load(const struct vfs_tree *tree, const struct vfs_limits *limits, struct snapshot_reader *reader,
             struct vfs **ret_vfs) {
        struct loader loader = {.reader = reader};
        int r = vfs_new_empty(tree, limits, &loader.vfs);

        if (r == 0)
                r = load_nodes(&loader);
        if (r == 0)
                r = load_names(&loader);
        if (r == 0)
                r = load_files(&loader);
        for (uint32_t i = 0; r == 0 && i < loader.count; i++)
                vfs_node_settle(loader.vfs, loader.nodes[i]);
        free(loader.nodes);
        free(loader.parents);
        if (r < 0)
                vfs_free(loader.vfs);
        else
                *ret_vfs = loader.vfs;
        return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The file system as a whole: its life, its quota, and the nodes of the session's own files. */
#include "vfs_internal.h"

#include <errno.h>

const char *const vfs_root_names[VFS_ROOTS] = {[VFS_ROOT_WORK] = "work", [VFS_ROOT_TMP] = "tmp"};

int vfs_charge(struct vfs *vfs, uint64_t bytes) {
        if (bytes > vfs->limits.bytes || vfs->usage.bytes > vfs->limits.bytes - bytes)
                return WASI_ENOSPC;
        vfs->usage.bytes += bytes;
        if (vfs->usage.bytes > vfs->usage.bytes_peak)
                vfs->usage.bytes_peak = vfs->usage.bytes;
        return 0;
}

void vfs_discharge(struct vfs *vfs, uint64_t bytes) {
        vfs->usage.bytes -= bytes;
}

int vfs_node_new(struct vfs *vfs, uint8_t type, struct vfs_node **ret_node) {
        struct vfs_node *node;
        int r = vfs_charge(vfs, VFS_NODE_COST);

        if (r != 0)
                return r;
        node = calloc(1, sizeof(*node));
        if (node == NULL) {
                vfs_discharge(vfs, VFS_NODE_COST);
                return WASI_ENOMEM;
        }
        node->type = type;
        node->inode = vfs->next_inode++;
        node->accessed_ns = node->modified_ns = node->changed_ns = vfs->now_ns;
        node->next = vfs->nodes;
        if (vfs->nodes != NULL)
                vfs->nodes->previous = node;
        vfs->nodes = node;
        *ret_node = node;
        return 0;
}

static void node_free(struct vfs *vfs, struct vfs_node *node) {
        if (node->type == WASI_FILETYPE_DIRECTORY) {
                vfs_directory_free(vfs, &node->directory);
        } else if (node->type == WASI_FILETYPE_REGULAR_FILE) {
                vfs_content_free(vfs, &node->content);
        } else {
                vfs_discharge(vfs, node->link.size);
                free(node->link.text);
        }
        if (node->previous != NULL)
                node->previous->next = node->next;
        else
                vfs->nodes = node->next;
        if (node->next != NULL)
                node->next->previous = node->previous;
        vfs_discharge(vfs, VFS_NODE_COST);
        free(node);
}

void vfs_node_settle(struct vfs *vfs, struct vfs_node *node) {
        if (node->links == 0 && node->opens == 0)
                node_free(vfs, node);
}

void vfs_node_changed(const struct vfs *vfs, struct vfs_node *node) {
        node->changed_ns = vfs->now_ns;
}

void vfs_node_modified(const struct vfs *vfs, struct vfs_node *node) {
        node->modified_ns = node->changed_ns = vfs->now_ns;
}

/* The descriptors that every guest begins with. */
static int open_streams(struct vfs *vfs) {
        int r = vfs_files_reserve(vfs, VFS_FIRST_FD);

        if (r != 0)
                return r;
        for (uint32_t fd = 0; fd < VFS_FIRST_FD; fd++) {
                struct vfs_file *file = &vfs->files[fd];

                vfs->streams[fd] = -1;
                file->used = true;
                file->stream = fd != VFS_ROOT_FD;
                file->type = file->stream ? WASI_FILETYPE_SOCKET_STREAM : WASI_FILETYPE_DIRECTORY;
                file->read = fd == 0 || fd == VFS_ROOT_FD || fd == VFS_CONTROL_FD;
                file->write = fd == 1 || fd == 2 || fd == VFS_CONTROL_FD;
        }
        return 0;
}

int vfs_new_empty(const struct vfs_tree *tree, const struct vfs_limits *limits, struct vfs **ret_vfs) {
        struct vfs *vfs = calloc(1, sizeof(*vfs));

        if (vfs == NULL)
                return -ENOMEM;
        if (tree != NULL)
                vfs->tree = *tree;
        vfs->limits = *limits;
        if (vfs->limits.bytes > INT64_MAX) /* sums stay in range */
                vfs->limits.bytes = INT64_MAX;
        vfs->next_inode = VFS_FIRST_INODE;
        if (open_streams(vfs) != 0) {
                vfs_free(vfs);
                return -ENOMEM;
        }
        *ret_vfs = vfs;
        return 0;
}

int vfs_new(const struct vfs_tree *tree, const struct vfs_limits *limits, struct vfs **ret_vfs) {
        struct vfs *vfs = NULL;
        int r = vfs_new_empty(tree, limits, &vfs);

        if (r < 0)
                return r;
        for (int i = 0; i < VFS_ROOTS; i++) {
                if (vfs_node_new(vfs, WASI_FILETYPE_DIRECTORY, &vfs->roots[i]) != 0) {
                        vfs_free(vfs);
                        return -ENOMEM;
                }
                vfs->roots[i]->links = 1;
        }
        *ret_vfs = vfs;
        return 0;
}

void vfs_free(struct vfs *vfs) {
        if (vfs == NULL)
                return;
        while (vfs->nodes != NULL)
                node_free(vfs, vfs->nodes);
        free(vfs->files);
        free(vfs);
}

void vfs_set_time(struct vfs *vfs, uint64_t now_ns) {
        vfs->now_ns = now_ns;
}

void vfs_set_streams(struct vfs *vfs, int stdin_fd, int stdout_fd, int stderr_fd, int control_fd) {
        vfs->streams[0] = stdin_fd;
        vfs->streams[1] = stdout_fd;
        vfs->streams[2] = stderr_fd;
        vfs->streams[VFS_CONTROL_FD] = control_fd;
}

void vfs_get_usage(const struct vfs *vfs, struct vfs_usage *ret_usage) {
        *ret_usage = vfs->usage;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A session's file system: in memory, a tree with directories, files and symbolic links, with quotas.
 *
 * The image's files are below it, read-only and shared by all sessions; "/work" (the workspace) and "/tmp" are the
 * session's own; nothing else can be written. No path of the host is ever opened: files come in and go out through the
 * guest protocol. Descriptors 0, 1, 2 and VFS_CONTROL_FD are streams of the host; VFS_ROOT_FD is "/".
 * wasi_files.c is what guests see of this. Errors are WASI's (wasi.h), as positive numbers; 0 is success. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VFS_ROOT_FD 3
#define VFS_CONTROL_FD 4 /* SBX_CONTROL_FD in guests */
#define VFS_FIRST_FD 5
#define VFS_NAME_MAX 255
#define VFS_PATH_MAX 4096
#define VFS_DEPTH_MAX 64
#define VFS_LINKS_MAX 16 /* symbolic links followed in one path */

/* Read-only files of an image, packed: vfs_tree.c has the layout. A view of mapped bytes, checked by vfs_tree_open. */
struct vfs_tree {
        const uint8_t *data;
        size_t size;
};
int vfs_tree_open(const uint8_t *data, size_t size, struct vfs_tree *ret_tree); /* -EINVAL: malformed */

struct vfs_limits {
        uint64_t bytes;      /* of all files' content, names and entries' own cost included */
        uint32_t entries;    /* files, directories and links */
        uint32_t open_files; /* descriptors */
};

struct vfs;
struct vfs_usage {
        uint64_t bytes, bytes_peak;
        uint32_t entries, open_files;
};

/* With empty /work and /tmp. `tree` outlives it. -ENOMEM. */
int vfs_new(const struct vfs_tree *tree, const struct vfs_limits *limits, struct vfs **ret_vfs);
void vfs_free(struct vfs *vfs);
/* Host descriptors that guest streams stand for; -1: reading gives end of file, writing is dropped. Not owned. They
 * survive neither a fork nor a restore: set anew. */
void vfs_set_streams(struct vfs *vfs, int stdin_fd, int stdout_fd, int stderr_fd, int control_fd);
void vfs_get_usage(const struct vfs *vfs, struct vfs_usage *ret_usage);
/* For poll_oneoff: the host descriptor that stands behind a guest's, or -1: it is always ready (files, directories,
 * streams without a host descriptor). WASI_EBADF: not open. */
uint32_t vfs_host_fd(const struct vfs *vfs, uint32_t fd, int *ret_host_fd);

/* ---- snapshots: entries, contents, open descriptors with their positions (also of files that were unlinked) ---- */
struct snapshot_writer; /* snapshot.h */
struct snapshot_reader;
int vfs_save(const struct vfs *vfs, struct snapshot_writer *writer);
/* Into a new file system; the limits are the new session's. -EINVAL: malformed; -EDQUOT: beyond the limits. */
int vfs_load(const struct vfs_tree *tree, const struct vfs_limits *limits, struct snapshot_reader *reader,
             struct vfs **ret_vfs);

/* ---- making trees, at bake time ---- */
struct vfs_tree_builder;
int vfs_tree_builder_new(struct vfs_tree_builder **ret_builder);
void vfs_tree_builder_free(struct vfs_tree_builder *builder);
int vfs_tree_builder_add_tree(struct vfs_tree_builder *builder, const struct vfs_tree *tree); /* all of another one */
/* `path`: absolute, no "." or ".."; parents are made; what is there is replaced. */
int vfs_tree_builder_add(struct vfs_tree_builder *builder, const char *path, const void *content, size_t size,
                         int64_t mtime_ns);
/* Sorted: the same files give the same bytes. *ret_data is malloc'ed. */
int vfs_tree_builder_finish(struct vfs_tree_builder *builder, uint8_t **ret_data, size_t *ret_size);

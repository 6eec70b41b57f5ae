/* SPDX-License-Identifier: Apache-2.0 */
/* A session's file system: in memory, a tree with directories, files and symbolic links, with quotas.
 *
 * The image's files are below it, read-only and shared by all sessions; "/work" (the workspace) and "/tmp" are the
 * session's own; nothing else can be written ("/dev/null" takes and forgets). No path of the host is ever opened: files
 * come in and go out through the guest protocol. Descriptors 0, 1, 2 and VFS_CONTROL_FD are streams of the host;
 * VFS_ROOT_FD is "/". wasi_files*.c are what guests see of this.
 *
 * What the engine calls (vfs_new, vfs_save, trees ...) answers 0 or a negative errno; what a guest can ask for answers
 * 0 or WASI's number (enum wasi_errno), which is positive. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VFS_ROOT_FD 3
#define VFS_CONTROL_FD 4 /* SBX_CONTROL_FD in guests */
#define VFS_FIRST_FD 5
#define VFS_NAME_MAX 255
#define VFS_PATH_MAX 4096
#define VFS_LINKS_MAX 40 /* symbolic links followed in one path, as Linux does */

/* Read-only files of an image, packed: vfs_tree.c has the layout. A view of mapped bytes, checked by vfs_tree_open. All
 * zero: a tree without any. */
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
/* The time that changes from now on are stamped with. */
void vfs_set_time(struct vfs *vfs, uint64_t now_ns);
/* Host descriptors that guest streams stand for; -1: reading gives end of file; output goes to the control stream, as
 * frames, or without one is dropped. Not owned. They survive neither a fork nor a restore: set anew. */
void vfs_set_streams(struct vfs *vfs, int stdin_fd, int stdout_fd, int stderr_fd, int control_fd);
void vfs_get_usage(const struct vfs *vfs, struct vfs_usage *ret_usage);

/* ---- what a guest can ask for: 0 or enum wasi_errno ---- */

/* A path from a guest: not terminated; relative to a descriptor, or absolute. Any bytes but NUL. */
struct vfs_at {
        uint32_t fd;
        const char *path;
        size_t size;
        bool follow; /* a symbolic link in the last place */
};
struct vfs_open_how {
        bool create, exclusive, truncate, directory, read, write;
        uint16_t flags; /* WASI_FD_* */
};
struct vfs_stat {
        uint64_t device, inode, links, size;
        uint64_t accessed_ns, modified_ns, changed_ns;
        uint8_t type; /* enum wasi_filetype */
};
struct vfs_descriptor {
        uint8_t type;
        uint16_t flags;
        bool read, write;
        bool stream;
        int stream_fd; /* of the host; -1: none */
};
struct vfs_times {
        bool set_accessed, set_modified;
        uint64_t accessed_ns, modified_ns;
};
struct vfs_dirent {
        uint64_t next, inode; /* next: the cookie that what follows it begins at */
        const char *name;     /* until the next change */
        uint32_t name_size;   /* 0: the end of the directory */
        uint8_t type;
};

int vfs_open(struct vfs *vfs, const struct vfs_at *at, const struct vfs_open_how *how, uint32_t *ret_fd);
int vfs_close(struct vfs *vfs, uint32_t fd);
int vfs_renumber(struct vfs *vfs, uint32_t fd, uint32_t to);
int vfs_describe(const struct vfs *vfs, uint32_t fd, struct vfs_descriptor *ret_descriptor);
/* What to wait for: a host descriptor, or -1: it is always ready. */
int vfs_host_fd(const struct vfs *vfs, uint32_t fd, int *ret_host_fd);
int vfs_set_flags(struct vfs *vfs, uint32_t fd, uint16_t flags);

/* Files alone: streams are the caller's. A write may be short. */
int vfs_read(struct vfs *vfs, uint32_t fd, void *buffer, size_t size, size_t *ret_size);
int vfs_pread(const struct vfs *vfs, uint32_t fd, uint64_t offset, void *buffer, size_t size, size_t *ret_size);
int vfs_write(struct vfs *vfs, uint32_t fd, const void *data, size_t size, size_t *ret_size);
int vfs_pwrite(struct vfs *vfs, uint32_t fd, uint64_t offset, const void *data, size_t size, size_t *ret_size);
int vfs_seek(struct vfs *vfs, uint32_t fd, int64_t offset, uint32_t whence, uint64_t *ret_position);
int vfs_set_size(struct vfs *vfs, uint32_t fd, uint64_t size);
int vfs_allocate(struct vfs *vfs, uint32_t fd, uint64_t offset, uint64_t size);

int vfs_stat_fd(const struct vfs *vfs, uint32_t fd, struct vfs_stat *ret_stat);
int vfs_stat_at(const struct vfs *vfs, const struct vfs_at *at, struct vfs_stat *ret_stat);
int vfs_set_times_fd(struct vfs *vfs, uint32_t fd, const struct vfs_times *times);
int vfs_set_times_at(struct vfs *vfs, const struct vfs_at *at, const struct vfs_times *times);
/* The entry that follows `cookie`; 0 is the beginning. Entries that are there all the time are met exactly once,
 * whatever is made or removed meanwhile. */
int vfs_readdir(const struct vfs *vfs, uint32_t fd, uint64_t cookie, struct vfs_dirent *ret_entry);

int vfs_make_directory(struct vfs *vfs, const struct vfs_at *at);
int vfs_remove_directory(struct vfs *vfs, const struct vfs_at *at);
int vfs_unlink(struct vfs *vfs, const struct vfs_at *at);
int vfs_rename(struct vfs *vfs, const struct vfs_at *from, const struct vfs_at *to);
int vfs_link(struct vfs *vfs, const struct vfs_at *from, const struct vfs_at *to);
int vfs_symlink(struct vfs *vfs, const char *target, size_t size, const struct vfs_at *at);
/* Up to `size` bytes, as many as fit. */
int vfs_readlink(const struct vfs *vfs, const struct vfs_at *at, char *buffer, size_t size, size_t *ret_size);

/* ---- snapshots: entries, contents, open descriptors with their positions (also of files that were unlinked) ---- */
struct snapshot_writer; /* snapshot.h */
struct snapshot_reader;
int vfs_save(const struct vfs *vfs, struct snapshot_writer *writer);
/* Into a new file system; the limits are the new session's. -EINVAL: malformed; -EDQUOT: beyond the limits. */
int vfs_load(const struct vfs_tree *tree, const struct vfs_limits *limits, struct snapshot_reader *reader,
             struct vfs **ret_vfs);

/* ---- making trees, at bake time ---- */
struct vfs_tree_builder;
/* With "/dev/null" in it. -ENOMEM. */
int vfs_tree_builder_new(struct vfs_tree_builder **ret_builder);
void vfs_tree_builder_free(struct vfs_tree_builder *builder);
int vfs_tree_builder_add_tree(struct vfs_tree_builder *builder, const struct vfs_tree *tree); /* all of another one */
/* `path`: absolute, no "." or ".."; parents are made; a file that is there is replaced. -EINVAL, -ENOTDIR,
 * -EISDIR: a file and a directory in one place; -EFBIG, -ENOMEM. */
int vfs_tree_builder_add(struct vfs_tree_builder *builder, const char *path, const void *content, size_t size,
                         int64_t mtime_ns);
int vfs_tree_builder_add_directory(struct vfs_tree_builder *builder, const char *path, int64_t mtime_ns);
/* Sorted: the same files give the same bytes. *ret_data is malloc'ed. */
int vfs_tree_builder_finish(struct vfs_tree_builder *builder, uint8_t **ret_data, size_t *ret_size);

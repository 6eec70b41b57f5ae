/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the file system share: one with a small tree, short ways to call it, and a snapshot in memory. */
#pragma once

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/snapshot.h"
#include "engine/vfs.h"
#include "engine/wasi.h"

#define MTIME (INT64_C(1700000000) * 1000000000)

/* A path from "/", or from descriptor `fd`. */
static inline struct vfs_at at_fd(uint32_t fd, const char *path) {
        return (struct vfs_at){.fd = fd, .path = path, .size = strlen(path)};
}
static inline struct vfs_at at(const char *path) {
        return at_fd(VFS_ROOT_FD, path);
}
static inline struct vfs_at at_follow(const char *path) {
        return (struct vfs_at){.fd = VFS_ROOT_FD, .path = path, .size = strlen(path), .follow = true};
}
#define AT(path) ((struct vfs_at[]){at(path)})
#define AT_FOLLOW(path) ((struct vfs_at[]){at_follow(path)})
#define AT_FD(fd, path) ((struct vfs_at[]){at_fd(fd, path)})

/* Opens as open(2) with "r", "w" (create, truncate), "a", "x", "r+", "d" would; a positive result is an error. */
static inline int open_as(struct vfs *vfs, const char *path, const char *mode, uint32_t *ret_fd) {
        struct vfs_open_how how = {
                .read = mode[0] == 'r' || mode[0] == 'd',
                .write = strpbrk(mode, "wax+") != NULL,
                .create = strpbrk(mode, "wax") != NULL,
                .truncate = mode[0] == 'w',
                .exclusive = mode[0] == 'x',
                .directory = mode[0] == 'd',
                .flags = mode[0] == 'a' ? WASI_FD_APPEND : 0,
        };

        return vfs_open(vfs, AT_FOLLOW(path), &how, ret_fd);
}

/* Writes a whole file; the error, also for a short write. */
static inline int write_file(struct vfs *vfs, const char *path, const void *data, size_t size) {
        size_t done = 0;
        uint32_t fd = 0;
        int r = open_as(vfs, path, "w", &fd);

        if (r != 0)
                return r;
        r = vfs_write(vfs, fd, data, size, &done);
        vfs_close(vfs, fd);
        return r == 0 && done < size ? WASI_ENOSPC : r;
}

/* Its size, or -1. */
static inline int64_t read_file(struct vfs *vfs, const char *path, void *buffer, size_t size) {
        size_t done = 0;
        uint32_t fd = 0;

        if (open_as(vfs, path, "r", &fd) != 0)
                return -1;
        if (vfs_read(vfs, fd, buffer, size, &done) != 0)
                done = (size_t)-1;
        vfs_close(vfs, fd);
        return (int64_t)done;
}

/* A packed tree: malloc'ed. */
static inline void make_tree(struct vfs_tree *ret_tree) {
        struct vfs_tree_builder *builder = NULL;
        uint8_t *data = NULL;
        size_t size = 0;
        int r = vfs_tree_builder_new(&builder);

        assert(r == 0);
        r |= vfs_tree_builder_add(builder, "/usr/lib/b.py", "print(2)\n", 9, MTIME);
        r |= vfs_tree_builder_add(builder, "/usr/lib/a.py", "print(1)\n", 9, MTIME);
        r |= vfs_tree_builder_add(builder, "/usr/lib/package/__init__.py", "", 0, MTIME);
        r |= vfs_tree_builder_add(builder, "/etc/name", "box", 3, MTIME);
        r |= vfs_tree_builder_add(builder, "/tmp/hidden", "x", 1, MTIME);
        r |= vfs_tree_builder_finish(builder, &data, &size);
        vfs_tree_builder_free(builder);
        r |= vfs_tree_open(data, size, ret_tree);
        assert(r == 0);
        (void)r;
}
static inline void free_tree(struct vfs_tree *tree) {
        free((void *)(uintptr_t)tree->data);
}

/* ---- in the place of snapshot.c: bytes in memory ---- */

struct snapshot_writer {
        uint8_t *data;
        size_t size, capacity;
};
struct snapshot_reader {
        const uint8_t *data;
        size_t size, at;
};

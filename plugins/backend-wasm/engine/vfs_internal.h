/* SPDX-License-Identifier: Apache-2.0 */
/* The file system from inside: what its files share. The session's own files are nodes on the heap that names point to;
 * files of the image are entries of a tree; a place is either. All of it is for one thread. */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "vfs.h"
#include "wasi.h"

#define VFS_FILE_SIZE_MAX (UINT64_C(4) << 30)
#define VFS_CHUNK_SIZE 65536u

/* What a name and a node cost of the quota, beside the name's and the content's bytes: at least what they take here,
 * a directory's tables included. */
#define VFS_NAME_COST 192u
#define VFS_NODE_COST 384u

#define VFS_DEVICE_TREE 1
#define VFS_DEVICE_SESSION 2
#define VFS_DEVICE_STREAM 3
#define VFS_FIRST_INODE (UINT64_C(1) << 32) /* of nodes; those of tree entries are below */

/* ---- content of a file: vfs_content.c ---- */

struct vfs_chunk {
        uint32_t capacity; /* a power of two; what lies beyond it reads as zero */
        uint8_t data[];
};
struct vfs_content {
        uint64_t size;
        struct vfs_chunk **chunks; /* NULL: a hole */
        uint32_t chunks_capacity;
};

/* ---- names of a directory: vfs_directory.c ---- */

struct vfs_node;
struct vfs_name {
        struct vfs_node *node;
        uint32_t hash;
        uint32_t size;
        char text[];
};
struct vfs_slot {
        uint64_t cookie;       /* grows from slot to slot */
        struct vfs_name *name; /* NULL: removed */
};
struct vfs_directory {
        struct vfs_slot *slots;
        uint32_t *buckets; /* 2 * capacity: a slot's number + 1, or 0; open addressing */
        uint32_t capacity, used, live;
        uint64_t next_cookie;
        struct vfs_node *parent; /* NULL: /work, /tmp, or a directory that was removed */
};

struct vfs_node {
        struct vfs_node *previous, *next; /* of all nodes */
        uint64_t inode;
        uint64_t accessed_ns, modified_ns, changed_ns;
        uint32_t links; /* names; 1 for /work and /tmp */
        uint32_t opens; /* descriptors */
        uint8_t type;   /* enum wasi_filetype: directory, regular file, symbolic link */
        union {
                struct vfs_directory directory;
                struct vfs_content content;
                struct {
                        char *text;
                        uint32_t size;
                } link;
        };
};

/* Something that a path leads to. */
struct vfs_place {
        struct vfs_node *node; /* NULL: entry `index` of the tree */
        uint32_t index;
};

struct vfs_file {
        bool used, stream, read, write;
        uint8_t type;
        uint16_t flags;
        struct vfs_place place;
        uint64_t position;
};

enum { VFS_ROOT_WORK, VFS_ROOT_TMP, VFS_ROOTS };

struct vfs {
        struct vfs_tree tree;
        struct vfs_limits limits;
        struct vfs_usage usage;
        uint64_t now_ns, next_inode;
        struct vfs_node *nodes;
        struct vfs_node *roots[VFS_ROOTS];
        struct vfs_file *files; /* by descriptor */
        uint32_t files_capacity;
        int streams[VFS_FIRST_FD]; /* host descriptors */
};

/* ---- vfs.c ---- */
extern const char *const vfs_root_names[VFS_ROOTS];
int vfs_charge(struct vfs *vfs, uint64_t bytes); /* WASI_ENOSPC */
void vfs_discharge(struct vfs *vfs, uint64_t bytes);
int vfs_new_empty(const struct vfs_tree *tree, const struct vfs_limits *limits,
                  struct vfs **ret_vfs);                                     /* no roots yet */
int vfs_node_new(struct vfs *vfs, uint8_t type, struct vfs_node **ret_node); /* no names yet */
/* Frees it unless a name or a descriptor holds it. */
void vfs_node_settle(struct vfs *vfs, struct vfs_node *node);
/* With a name more or less, or its content changed. */
void vfs_node_changed(const struct vfs *vfs, struct vfs_node *node);
void vfs_node_modified(const struct vfs *vfs, struct vfs_node *node);

/* ---- vfs_content.c ---- */
size_t vfs_content_read(const struct vfs_content *content, uint64_t offset, void *buffer, size_t size);
/* Short where the quota ends; an error only if nothing was written. */
int vfs_content_write(struct vfs *vfs, struct vfs_content *content, uint64_t offset, const void *data, size_t size,
                      size_t *ret_size);
int vfs_content_resize(struct vfs *vfs, struct vfs_content *content, uint64_t size);
int vfs_content_allocate(struct vfs *vfs, struct vfs_content *content, uint64_t offset, uint64_t size);
/* The bytes of chunk `index`, with room for `size` of them. */
int vfs_content_chunk(struct vfs *vfs, struct vfs_content *content, uint64_t index, uint32_t size, uint8_t **ret_data);
void vfs_content_free(struct vfs *vfs, struct vfs_content *content);

/* ---- vfs_directory.c ---- */
#define VFS_FIRST_COOKIE 3 /* 1 and 2 are "." and ".." */
struct vfs_name *vfs_directory_find(const struct vfs_directory *directory, const char *text, size_t size);
/* `cookie` 0: the next one; else above all that are there, below the next one. It counts as a name and a link.
 * WASI_ENOSPC, WASI_ENOMEM. */
int vfs_directory_add(struct vfs *vfs, struct vfs_directory *directory, const char *text, size_t size,
                      struct vfs_node *node, uint64_t cookie);
/* Takes `name` out; what it pointed to loses a link and is settled by the caller. */
void vfs_directory_remove(struct vfs *vfs, struct vfs_directory *directory, struct vfs_name *name);
/* The first name whose cookie is above `cookie`; NULL: none. */
const struct vfs_slot *vfs_directory_after(const struct vfs_directory *directory, uint64_t cookie);
void vfs_directory_free(struct vfs *vfs, struct vfs_directory *directory); /* links of what it names are not touched */

/* ---- vfs_tree.c ---- */
struct vfs_tree_entry {
        const uint8_t *content; /* of a file */
        uint64_t size;
        uint32_t first, count; /* of a directory: its entries lie one after another, sorted by name */
        uint32_t parent;
        int64_t mtime_ns;
        const char *name;
        uint32_t name_size;
        uint8_t type; /* enum wasi_filetype: directory, regular file; character device: /dev/null */
};
uint32_t vfs_tree_count(const struct vfs_tree *tree); /* at least 1: entry 0 is the root */
void vfs_tree_get(const struct vfs_tree *tree, uint32_t index, struct vfs_tree_entry *ret_entry);
bool vfs_tree_find(const struct vfs_tree *tree, uint32_t directory, const char *name, size_t size, uint32_t *ret_index);

/* ---- vfs_path.c ---- */
enum vfs_walk_last {
        VFS_WALK_FOLLOW,    /* a link in the last place is followed */
        VFS_WALK_NO_FOLLOW, /* only if a slash follows it */
        VFS_WALK_NAME,      /* never: it is the name that counts */
        VFS_WALK_CREATE,    /* unless a slash follows it */
};
struct vfs_walk {
        bool found;
        struct vfs_place place;     /* what is there */
        struct vfs_place directory; /* where the last name is, or would be */
        uint32_t name_size;         /* 0: the path has no last name ("/", "a/.", "..") */
        uint8_t dots;               /* in the place of a name, with 0 */
        bool slash;                 /* follows the name: only a directory will do */
        char name[VFS_NAME_MAX];
};
/* A path whose last name isn't there is no error: `found` tells. */
int vfs_walk(const struct vfs *vfs, const struct vfs_at *at, enum vfs_walk_last last, struct vfs_walk *ret_walk);
uint8_t vfs_place_type(const struct vfs *vfs, const struct vfs_place *place);
/* Whether a name can be made in the walk's directory: WASI_EROFS, WASI_ENOENT (the directory was removed). */
int vfs_walk_writable(const struct vfs_walk *walk);
bool vfs_name_valid(const char *text, size_t size);

/* ---- vfs_open.c ---- */
struct vfs_file *vfs_file_get(const struct vfs *vfs, uint32_t fd); /* NULL: not open */
int vfs_files_reserve(struct vfs *vfs, uint32_t count);            /* WASI_ENOMEM */

static inline uint32_t vfs_power_of_two(uint32_t least, uint64_t needed) {
        uint32_t power = least;

        while (power < needed)
                power *= 2;
        return power;
}

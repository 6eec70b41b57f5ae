/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors: opening and closing, positions, reading and writing through them. */
#include "vfs_internal.h"

#define FILES_LEAST 16u

struct vfs_file *vfs_file_get(const struct vfs *vfs, uint32_t fd) {
        return fd < vfs->files_capacity && vfs->files[fd].used ? &vfs->files[fd] : NULL;
}

int vfs_files_reserve(struct vfs *vfs, uint32_t count) {
        uint32_t capacity = vfs_power_of_two(FILES_LEAST, count);
        struct vfs_file *files;

        if (count <= vfs->files_capacity)
                return 0;
        files = calloc(capacity, sizeof(*files));
        if (files == NULL)
                return WASI_ENOMEM;
        if (vfs->files_capacity > 0)
                memcpy(files, vfs->files, vfs->files_capacity * sizeof(*files));
        free(vfs->files);
        vfs->files = files;
        vfs->files_capacity = capacity;
        return 0;
}

/* The lowest descriptor that is free, as POSIX has it; room for it is made. */
static int free_descriptor(struct vfs *vfs, uint32_t *ret_fd) {
        uint32_t fd = VFS_FIRST_FD;
        int r;

        if (vfs->usage.open_files >= vfs->limits.open_files)
                return WASI_EMFILE;
        while (vfs_file_get(vfs, fd) != NULL)
                fd++;
        r = vfs_files_reserve(vfs, fd + 1);
        if (r == 0)
                *ret_fd = fd;
        return r;
}

/* What stands at the path may be opened like this. */
static int check_open(const struct vfs *vfs, const struct vfs_walk *walk, const struct vfs_open_how *how) {
        uint8_t type = vfs_place_type(vfs, &walk->place);

        if (how->create && how->exclusive)
                return WASI_EEXIST;
        if (type == WASI_FILETYPE_SYMBOLIC_LINK)
                return how->directory ? WASI_ENOTDIR : WASI_ELOOP;
        if (how->directory && type != WASI_FILETYPE_DIRECTORY)
                return WASI_ENOTDIR;
        if (type == WASI_FILETYPE_DIRECTORY)
                return how->write || how->truncate || how->create ? WASI_EISDIR : 0;
        if (type == WASI_FILETYPE_REGULAR_FILE && walk->place.node == NULL && (how->write || how->truncate))
                return WASI_EROFS;
        return 0;
}

static int create_file(struct vfs *vfs, struct vfs_walk *walk) {
        struct vfs_node *node = NULL, *parent = walk->directory.node;
        int r = vfs_walk_writable(walk);

        if (r == 0)
                r = vfs_node_new(vfs, WASI_FILETYPE_REGULAR_FILE, &node);
        if (r != 0)
                return r;
        r = vfs_directory_add(vfs, &parent->directory, walk->name, walk->name_size, node, 0);
        if (r != 0) {
                vfs_node_settle(vfs, node);
                return r;
        }
        vfs_node_modified(vfs, parent);
        walk->found = true;
        walk->place = (struct vfs_place){.node = node};
        return 0;
}

static int open_place(struct vfs *vfs, struct vfs_walk *walk, const struct vfs_open_how *how) {
        struct vfs_node *node;
        int r;

        if (!walk->found)
                return how->create ? create_file(vfs, walk) : WASI_ENOENT;
        r = check_open(vfs, walk, how);
        node = walk->place.node;
        if (r == 0 && how->truncate && node != NULL) {
                r = vfs_content_resize(vfs, &node->content, 0);
                vfs_node_modified(vfs, node);
        }
        return r;
}

int vfs_open(struct vfs *vfs, const struct vfs_at *at, const struct vfs_open_how *how, uint32_t *ret_fd) {
        struct vfs_walk walk;
        uint32_t fd = 0;
        int r;

        if (how->create && how->directory)
                return WASI_EINVAL;
        if (how->create)
                r = vfs_walk(vfs, at, at->follow && !how->exclusive ? VFS_WALK_CREATE : VFS_WALK_NAME, &walk);
        else
                r = vfs_walk(vfs, at, at->follow ? VFS_WALK_FOLLOW : VFS_WALK_NO_FOLLOW, &walk);
        if (r == 0 && how->create && walk.slash)
                r = WASI_EISDIR;
        if (r == 0)
                r = free_descriptor(vfs, &fd);
        if (r == 0)
                r = open_place(vfs, &walk, how);
        if (r != 0)
                return r;
        vfs->files[fd] = (struct vfs_file){
                .used = true,
                .read = how->read,
                .write = how->write,
                .type = vfs_place_type(vfs, &walk.place),
                .flags = how->flags,
                .place = walk.place,
        };
        if (walk.place.node != NULL)
                walk.place.node->opens++;
        vfs->usage.open_files++;
        *ret_fd = fd;
        return 0;
}

static void release(struct vfs *vfs, struct vfs_file *file) {
        struct vfs_node *node = file->place.node;

        vfs->usage.open_files--;
        *file = (struct vfs_file){0};
        if (node != NULL) {
                node->opens--;
                vfs_node_settle(vfs, node);
        }
}

int vfs_close(struct vfs *vfs, uint32_t fd) {
        struct vfs_file *file = vfs_file_get(vfs, fd);

        /* Streams stay: nothing could bring one back, and a program that closes all that it finds is not to lose them.
         */
        if (file == NULL || fd == VFS_ROOT_FD)
                return WASI_EBADF;
        if (!file->stream)
                release(vfs, file);
        return 0;
}

/* Streams stay where they are: a descriptor's number is what the host knows them by. */
int vfs_renumber(struct vfs *vfs, uint32_t fd, uint32_t to) {
        struct vfs_file *from_file = vfs_file_get(vfs, fd), *to_file = vfs_file_get(vfs, to);

        if (from_file == NULL || to_file == NULL)
                return WASI_EBADF;
        if (fd == to)
                return 0;
        if (fd < VFS_FIRST_FD || to < VFS_FIRST_FD)
                return WASI_ENOTSUP;
        release(vfs, to_file);
        *to_file = *from_file;
        *from_file = (struct vfs_file){0};
        return 0;
}

int vfs_describe(const struct vfs *vfs, uint32_t fd, struct vfs_descriptor *ret_descriptor) {
        const struct vfs_file *file = vfs_file_get(vfs, fd);

        if (file == NULL)
                return WASI_EBADF;
        *ret_descriptor = (struct vfs_descriptor){
                .type = file->type,
                .flags = file->flags,
                .read = file->read,
                .write = file->write,
                .stream = file->stream,
                .stream_fd = file->stream ? vfs->streams[fd] : -1,
        };
        return 0;
}

int vfs_host_fd(const struct vfs *vfs, uint32_t fd, int *ret_host_fd) {
        struct vfs_descriptor descriptor;
        int r = vfs_describe(vfs, fd, &descriptor);

        if (r == 0)
                *ret_host_fd = descriptor.stream_fd;
        return r;
}

int vfs_set_flags(struct vfs *vfs, uint32_t fd, uint16_t flags) {
        struct vfs_file *file = vfs_file_get(vfs, fd);

        if (file == NULL)
                return WASI_EBADF;
        file->flags = flags;
        return 0;
}

/* The file behind a descriptor for reading or writing at an offset. */
static int seekable(const struct vfs *vfs, uint32_t fd, bool write, struct vfs_file **ret_file) {
        struct vfs_file *file = vfs_file_get(vfs, fd);

        if (file == NULL)
                return WASI_EBADF;
        if (file->stream)
                return WASI_ESPIPE;
        if (file->type == WASI_FILETYPE_DIRECTORY)
                return write ? WASI_EBADF : WASI_EISDIR;
        if (write ? !file->write : !file->read)
                return WASI_EBADF;
        *ret_file = file;
        return 0;
}

static size_t read_place(const struct vfs *vfs, const struct vfs_place *place, uint64_t offset, void *buffer,
                         size_t size) {
        struct vfs_tree_entry entry;

        if (place->node != NULL)
                return vfs_content_read(&place->node->content, offset, buffer, size);
        vfs_tree_get(&vfs->tree, place->index, &entry);
        if (offset >= entry.size)
                return 0;
        if (size > entry.size - offset)
                size = entry.size - offset;
        if (size > 0)
                memcpy(buffer, entry.content + offset, size);
        return size;
}

int vfs_pread(const struct vfs *vfs, uint32_t fd, uint64_t offset, void *buffer, size_t size, size_t *ret_size) {
        struct vfs_file *file = NULL;
        int r = seekable(vfs, fd, false, &file);

        if (r == 0)
                *ret_size = read_place(vfs, &file->place, offset, buffer, size);
        return r;
}

int vfs_read(struct vfs *vfs, uint32_t fd, void *buffer, size_t size, size_t *ret_size) {
        struct vfs_file *file = NULL;
        int r = seekable(vfs, fd, false, &file);

        if (r != 0)
                return r;
        *ret_size = read_place(vfs, &file->place, file->position, buffer, size);
        file->position += *ret_size;
        return 0;
}

static int write_place(struct vfs *vfs, const struct vfs_place *place, uint64_t offset, const void *data, size_t size,
                       size_t *ret_size) {
        int r;

        if (place->node == NULL) { /* /dev/null */
                *ret_size = size;
                return 0;
        }
        r = vfs_content_write(vfs, &place->node->content, offset, data, size, ret_size);
        if (r == 0 && *ret_size > 0)
                vfs_node_modified(vfs, place->node);
        return r;
}

int vfs_pwrite(struct vfs *vfs, uint32_t fd, uint64_t offset, const void *data, size_t size, size_t *ret_size) {
        struct vfs_file *file = NULL;
        int r = seekable(vfs, fd, true, &file);

        return r != 0 ? r : write_place(vfs, &file->place, offset, data, size, ret_size);
}

int vfs_write(struct vfs *vfs, uint32_t fd, const void *data, size_t size, size_t *ret_size) {
        struct vfs_file *file = NULL;
        int r = seekable(vfs, fd, true, &file);

        if (r != 0)
                return r;
        if ((file->flags & WASI_FD_APPEND) != 0 && file->place.node != NULL)
                file->position = file->place.node->content.size;
        r = write_place(vfs, &file->place, file->position, data, size, ret_size);
        if (r == 0 && file->place.node != NULL)
                file->position += *ret_size;
        return r;
}

int vfs_seek(struct vfs *vfs, uint32_t fd, int64_t offset, uint32_t whence, uint64_t *ret_position) {
        struct vfs_file *file = vfs_file_get(vfs, fd);
        struct vfs_stat stat = {0};
        int64_t base, position;

        if (file == NULL)
                return WASI_EBADF;
        if (file->stream)
                return WASI_ESPIPE;
        if (whence > WASI_WHENCE_END)
                return WASI_EINVAL;
        vfs_stat_fd(vfs, fd, &stat);
        base = whence == WASI_WHENCE_SET ? 0 : (int64_t)(whence == WASI_WHENCE_CUR ? file->position : stat.size);
        if (__builtin_add_overflow(base, offset, &position) || position < 0)
                return whence == WASI_WHENCE_SET || offset < 0 ? WASI_EINVAL : WASI_EOVERFLOW;
        if (file->type != WASI_FILETYPE_CHARACTER_DEVICE)
                file->position = (uint64_t)position;
        *ret_position = file->position;
        return 0;
}

/* A file of the session's own that is open for writing. */
static int resizable(const struct vfs *vfs, uint32_t fd, struct vfs_node **ret_node) {
        struct vfs_file *file = NULL;
        int r = seekable(vfs, fd, true, &file);

        if (r == WASI_ESPIPE || (r == 0 && file->place.node == NULL))
                return WASI_EINVAL;
        if (r == 0)
                *ret_node = file->place.node;
        return r;
}

int vfs_set_size(struct vfs *vfs, uint32_t fd, uint64_t size) {
        struct vfs_node *node = NULL;
        int r = resizable(vfs, fd, &node);

        if (r == 0)
                r = vfs_content_resize(vfs, &node->content, size);
        if (r == 0)
                vfs_node_modified(vfs, node);
        return r;
}

int vfs_allocate(struct vfs *vfs, uint32_t fd, uint64_t offset, uint64_t size) {
        struct vfs_node *node = NULL;
        int r = size == 0 ? WASI_EINVAL : resizable(vfs, fd, &node);

        if (r == 0)
                r = vfs_content_allocate(vfs, &node->content, offset, size);
        if (r == 0)
                vfs_node_modified(vfs, node);
        return r;
}

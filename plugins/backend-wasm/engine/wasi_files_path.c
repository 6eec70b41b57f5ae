/* SPDX-License-Identifier: Apache-2.0 */
/* WASI's functions for paths. */
#include "wasi_files.h"

/* A path in guest memory. */
static uint32_t get_path(struct wasm_instance *instance, uint32_t fd, uint32_t path, uint32_t size, uint32_t lookup,
                         struct vfs_at *ret_at) {
        const char *text = wasm_range(instance, path, size);

        if (text == NULL)
                return WASI_EFAULT;
        if ((lookup & ~WASI_LOOKUP_FOLLOW) != 0)
                return WASI_EINVAL;
        *ret_at = (struct vfs_at){.fd = fd, .path = text, .size = size, .follow = (lookup & WASI_LOOKUP_FOLLOW) != 0};
        return 0;
}

uint32_t wasi_path_open(struct wasm_instance *instance, uint32_t fd, uint32_t lookup, uint32_t path, uint32_t size,
                        uint32_t open_flags, uint64_t rights, uint64_t inheriting, uint32_t fd_flags, uint32_t ret_fd) {
        const uint64_t writing = WASI_RIGHT_FD_WRITE | WASI_RIGHT_FD_ALLOCATE | WASI_RIGHT_FD_FILESTAT_SET_SIZE;
        struct vfs_open_how how = {
                .create = (open_flags & WASI_OPEN_CREATE) != 0,
                .exclusive = (open_flags & WASI_OPEN_EXCLUSIVE) != 0,
                .truncate = (open_flags & WASI_OPEN_TRUNCATE) != 0,
                .directory = (open_flags & WASI_OPEN_DIRECTORY) != 0,
                .read = (rights & (WASI_RIGHT_FD_READ | WASI_RIGHT_FD_READDIR)) != 0,
                .write = (rights & writing) != 0,
                .flags = (uint16_t)fd_flags,
        };
        struct vfs_at at;
        uint32_t opened = 0;
        uint32_t r = get_path(instance, fd, path, size, lookup, &at);

        (void)inheriting;
        if (r == 0 && wasm_range(instance, ret_fd, sizeof(opened)) == NULL)
                r = WASI_EFAULT;
        if (r == 0)
                r = wasi_files_changed(instance, vfs_open(wasi_files_change(instance), &at, &how, &opened));
        return r != 0 ? r : wasi_store_u32(instance, ret_fd, opened);
}

uint32_t wasi_path_filestat_get(struct wasm_instance *instance, uint32_t fd, uint32_t lookup, uint32_t path,
                                uint32_t size, uint32_t ret_stat) {
        struct vfs_at at;
        struct vfs_stat stat = {0};
        uint32_t r = get_path(instance, fd, path, size, lookup, &at);

        if (r == 0)
                r = (uint32_t)vfs_stat_at(instance->host->vfs, &at, &stat);
        return r != 0 ? r : wasi_store_stat(instance, ret_stat, &stat);
}

uint32_t wasi_path_filestat_set_times(struct wasm_instance *instance, uint32_t fd, uint32_t lookup, uint32_t path,
                                      uint32_t size, uint64_t accessed_ns, uint64_t modified_ns, uint32_t flags) {
        struct vfs_times times;
        struct vfs_at at;
        uint32_t r = get_path(instance, fd, path, size, lookup, &at);

        if (r == 0)
                r = wasi_read_times(instance, accessed_ns, modified_ns, flags, &times);
        return r != 0 ? r : (uint32_t)vfs_set_times_at(wasi_files_change(instance), &at, &times);
}

uint32_t wasi_path_create_directory(struct wasm_instance *instance, uint32_t fd, uint32_t path, uint32_t size) {
        struct vfs_at at;
        uint32_t r = get_path(instance, fd, path, size, 0, &at);

        return r != 0 ? r : wasi_files_changed(instance, vfs_make_directory(wasi_files_change(instance), &at));
}

uint32_t wasi_path_remove_directory(struct wasm_instance *instance, uint32_t fd, uint32_t path, uint32_t size) {
        struct vfs_at at;
        uint32_t r = get_path(instance, fd, path, size, 0, &at);

        return r != 0 ? r : wasi_files_changed(instance, vfs_remove_directory(wasi_files_change(instance), &at));
}

uint32_t wasi_path_unlink_file(struct wasm_instance *instance, uint32_t fd, uint32_t path, uint32_t size) {
        struct vfs_at at;
        uint32_t r = get_path(instance, fd, path, size, 0, &at);

        return r != 0 ? r : wasi_files_changed(instance, vfs_unlink(wasi_files_change(instance), &at));
}

uint32_t wasi_path_rename(struct wasm_instance *instance, uint32_t from_fd, uint32_t from, uint32_t from_size,
                          uint32_t to_fd, uint32_t to, uint32_t to_size) {
        struct vfs_at old, new;
        uint32_t r = get_path(instance, from_fd, from, from_size, 0, &old);

        if (r == 0)
                r = get_path(instance, to_fd, to, to_size, 0, &new);
        return r != 0 ? r : wasi_files_changed(instance, vfs_rename(wasi_files_change(instance), &old, &new));
}

uint32_t wasi_path_link(struct wasm_instance *instance, uint32_t from_fd, uint32_t lookup, uint32_t from,
                        uint32_t from_size, uint32_t to_fd, uint32_t to, uint32_t to_size) {
        struct vfs_at old, new;
        uint32_t r = get_path(instance, from_fd, from, from_size, lookup, &old);

        if (r == 0)
                r = get_path(instance, to_fd, to, to_size, 0, &new);
        return r != 0 ? r : wasi_files_changed(instance, vfs_link(wasi_files_change(instance), &old, &new));
}

uint32_t wasi_path_symlink(struct wasm_instance *instance, uint32_t target, uint32_t target_size, uint32_t fd,
                           uint32_t path, uint32_t size) {
        const char *text = wasm_range(instance, target, target_size);
        struct vfs_at at;
        uint32_t r = get_path(instance, fd, path, size, 0, &at);

        if (text == NULL)
                r = WASI_EFAULT;
        if (r != 0)
                return r;
        return wasi_files_changed(instance, vfs_symlink(wasi_files_change(instance), text, target_size, &at));
}

uint32_t wasi_path_readlink(struct wasm_instance *instance, uint32_t fd, uint32_t path, uint32_t size, uint32_t buffer,
                            uint32_t buffer_size, uint32_t ret_size) {
        char *to = wasm_range(instance, buffer, buffer_size);
        size_t used = 0;
        struct vfs_at at;
        uint32_t r = get_path(instance, fd, path, size, 0, &at);

        if (to == NULL)
                r = WASI_EFAULT;
        if (r == 0)
                r = (uint32_t)vfs_readlink(instance->host->vfs, &at, to, buffer_size, &used);
        return r != 0 ? r : wasi_store_u32(instance, ret_size, (uint32_t)used);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* WASI's functions for descriptors, without reading and writing: what they are, their positions, sizes and times, and
 * what directories hold. */
#include "wasi_files.h"

#include <string.h>

struct vfs *wasi_files_change(struct wasm_instance *instance) {
        struct vfs *vfs = instance->host->vfs;

        vfs_set_time(vfs, wasi_now_ns(instance, WASI_CLOCK_REALTIME));
        return vfs;
}

uint32_t wasi_files_changed(struct wasm_instance *instance, int result) {
        struct wasm_status *status = instance->host->status;
        struct vfs_usage usage;

        vfs_get_usage(instance->host->vfs, &usage);
        atomic_store_explicit(&status->files, usage.bytes, memory_order_relaxed);
        atomic_store_explicit(&status->files_peak, usage.bytes_peak, memory_order_relaxed);
        return (uint32_t)result;
}

uint32_t wasi_store(struct wasm_instance *instance, uint32_t address, const void *value, size_t size) {
        void *to = wasm_range(instance, address, size);

        if (to == NULL)
                return WASI_EFAULT;
        memcpy(to, value, size);
        return 0;
}

uint32_t wasi_store_u32(struct wasm_instance *instance, uint32_t address, uint32_t value) {
        return wasi_store(instance, address, &value, sizeof(value));
}

uint32_t wasi_store_stat(struct wasm_instance *instance, uint32_t address, const struct vfs_stat *stat) {
        struct wasi_filestat value = {
                .device = stat->device,
                .inode = stat->inode,
                .type = stat->type,
                .links = stat->links,
                .size = stat->size,
                .accessed_ns = stat->accessed_ns,
                .modified_ns = stat->modified_ns,
                .changed_ns = stat->changed_ns,
        };

        return wasi_store(instance, address, &value, sizeof(value));
}

uint32_t wasi_read_times(struct wasm_instance *instance, uint64_t accessed_ns, uint64_t modified_ns, uint32_t flags,
                         struct vfs_times *ret_times) {
        const uint32_t access = WASI_TIME_ACCESS | WASI_TIME_ACCESS_NOW;
        const uint32_t modify = WASI_TIME_MODIFY | WASI_TIME_MODIFY_NOW;
        uint64_t now_ns = wasi_now_ns(instance, WASI_CLOCK_REALTIME);

        if ((flags & ~(access | modify)) != 0 || (flags & access) == access || (flags & modify) == modify)
                return WASI_EINVAL;
        *ret_times = (struct vfs_times){
                .set_accessed = (flags & access) != 0,
                .set_modified = (flags & modify) != 0,
                .accessed_ns = (flags & WASI_TIME_ACCESS_NOW) != 0 ? now_ns : accessed_ns,
                .modified_ns = (flags & WASI_TIME_MODIFY_NOW) != 0 ? now_ns : modified_ns,
        };
        return 0;
}

/* A descriptor that is open, for what has nothing to do here: there is no disk behind the files. */
static uint32_t check_fd(struct wasm_instance *instance, uint32_t fd) {
        struct vfs_descriptor descriptor;

        return (uint32_t)vfs_describe(instance->host->vfs, fd, &descriptor);
}

uint32_t wasi_fd_advise(struct wasm_instance *instance, uint32_t fd, uint64_t offset, uint64_t size, uint32_t advice) {
        (void)offset;
        (void)size;
        (void)advice;
        return check_fd(instance, fd);
}

uint32_t wasi_fd_datasync(struct wasm_instance *instance, uint32_t fd) {
        return wasi_fd_sync(instance, fd);
}

uint32_t wasi_fd_sync(struct wasm_instance *instance, uint32_t fd) {
        struct vfs_descriptor descriptor;
        int r = vfs_describe(instance->host->vfs, fd, &descriptor);

        return r == 0 && descriptor.stream ? WASI_EINVAL : (uint32_t)r;
}

uint32_t wasi_fd_allocate(struct wasm_instance *instance, uint32_t fd, uint64_t offset, uint64_t size) {
        return wasi_files_changed(instance, vfs_allocate(wasi_files_change(instance), fd, offset, size));
}

uint32_t wasi_fd_close(struct wasm_instance *instance, uint32_t fd) {
        return wasi_files_changed(instance, vfs_close(instance->host->vfs, fd));
}

uint32_t wasi_fd_renumber(struct wasm_instance *instance, uint32_t fd, uint32_t to) {
        return wasi_files_changed(instance, vfs_renumber(instance->host->vfs, fd, to));
}

/* What a descriptor can do: wasi-libc takes the mode of opening from it, and what opening in a directory may ask for.
 */
static uint64_t rights_of(const struct vfs_descriptor *descriptor) {
        const uint64_t reading = WASI_RIGHT_FD_READ | WASI_RIGHT_FD_READDIR;
        const uint64_t writing =
                WASI_RIGHT_FD_DATASYNC | WASI_RIGHT_FD_WRITE | WASI_RIGHT_FD_ALLOCATE | WASI_RIGHT_FD_FILESTAT_SET_SIZE;
        const uint64_t seeking = WASI_RIGHT_FD_SEEK | WASI_RIGHT_FD_TELL;
        uint64_t rights = 2 * WASI_RIGHT_SOCK_ACCEPT - 1;

        if (!descriptor->read)
                rights &= ~reading;
        if (!descriptor->write)
                rights &= ~writing;
        return descriptor->stream ? rights & ~seeking : rights;
}

uint32_t wasi_fd_fdstat_get(struct wasm_instance *instance, uint32_t fd, uint32_t ret_stat) {
        struct vfs_descriptor descriptor;
        struct wasi_fdstat stat;
        int r = vfs_describe(instance->host->vfs, fd, &descriptor);

        if (r != 0)
                return (uint32_t)r;
        stat = (struct wasi_fdstat){
                .type = descriptor.type,
                .flags = descriptor.flags,
                .rights = rights_of(&descriptor),
                .inheriting = 2 * WASI_RIGHT_SOCK_ACCEPT - 1,
        };
        return wasi_store(instance, ret_stat, &stat, sizeof(stat));
}

uint32_t wasi_fd_fdstat_set_flags(struct wasm_instance *instance, uint32_t fd, uint32_t flags) {
        if ((flags & ~(WASI_FD_APPEND | WASI_FD_DSYNC | WASI_FD_NONBLOCK | WASI_FD_RSYNC | WASI_FD_SYNC)) != 0)
                return WASI_EINVAL;
        return (uint32_t)vfs_set_flags(instance->host->vfs, fd, (uint16_t)flags);
}

/* Rights are what a descriptor was opened for; giving some up is not offered by wasi-libc either. */
uint32_t wasi_fd_fdstat_set_rights(struct wasm_instance *instance, uint32_t fd, uint64_t rights, uint64_t inheriting) {
        uint32_t r = check_fd(instance, fd);

        (void)rights;
        (void)inheriting;
        return r != 0 ? r : WASI_ENOTSUP;
}

uint32_t wasi_fd_filestat_get(struct wasm_instance *instance, uint32_t fd, uint32_t ret_stat) {
        struct vfs_stat stat;
        int r = vfs_stat_fd(instance->host->vfs, fd, &stat);

        return r != 0 ? (uint32_t)r : wasi_store_stat(instance, ret_stat, &stat);
}

uint32_t wasi_fd_filestat_set_size(struct wasm_instance *instance, uint32_t fd, uint64_t size) {
        return wasi_files_changed(instance, vfs_set_size(wasi_files_change(instance), fd, size));
}

uint32_t wasi_fd_filestat_set_times(struct wasm_instance *instance, uint32_t fd, uint64_t accessed_ns,
                                    uint64_t modified_ns, uint32_t flags) {
        struct vfs_times times;
        uint32_t r = wasi_read_times(instance, accessed_ns, modified_ns, flags, &times);

        return r != 0 ? r : (uint32_t)vfs_set_times_fd(wasi_files_change(instance), fd, &times);
}

uint32_t wasi_fd_prestat_get(struct wasm_instance *instance, uint32_t fd, uint32_t ret_prestat) {
        struct wasi_prestat prestat = {.type = WASI_PREOPEN_DIRECTORY, .name_size = 1};

        return fd == VFS_ROOT_FD ? wasi_store(instance, ret_prestat, &prestat, sizeof(prestat)) : WASI_EBADF;
}

uint32_t wasi_fd_prestat_dir_name(struct wasm_instance *instance, uint32_t fd, uint32_t path, uint32_t size) {
        if (fd != VFS_ROOT_FD)
                return WASI_EBADF;
        return size >= 1 ? wasi_store(instance, path, "/", 1) : WASI_ENAMETOOLONG;
}

/* Fills the buffer to its end, the last entry cut: that is how the reader knows that there is more. */
uint32_t wasi_fd_readdir(struct wasm_instance *instance, uint32_t fd, uint32_t buffer, uint32_t size, uint64_t cookie,
                         uint32_t ret_size) {
        uint8_t *to = wasm_range(instance, buffer, size);
        uint32_t used = 0;

        if (to == NULL)
                return WASI_EFAULT;
        while (used < size) {
                struct vfs_dirent entry;
                struct wasi_dirent head = {0};
                uint32_t part;
                int r = vfs_readdir(instance->host->vfs, fd, cookie, &entry);

                if (r != 0)
                        return (uint32_t)r;
                if (entry.name_size == 0)
                        break;
                head.next = cookie = entry.next;
                head.inode = entry.inode;
                head.name_size = entry.name_size;
                head.type = entry.type;
                part = size - used < sizeof(head) ? size - used : (uint32_t)sizeof(head);
                memcpy(to + used, &head, part);
                used += part;
                part = size - used < entry.name_size ? size - used : entry.name_size;
                memcpy(to + used, entry.name, part);
                used += part;
        }
        return wasi_store_u32(instance, ret_size, used);
}

uint32_t wasi_fd_seek(struct wasm_instance *instance, uint32_t fd, uint64_t offset, uint32_t whence,
                      uint32_t ret_offset) {
        uint64_t position;
        int r = vfs_seek(instance->host->vfs, fd, (int64_t)offset, whence, &position);

        return r != 0 ? (uint32_t)r : wasi_store(instance, ret_offset, &position, sizeof(position));
}

uint32_t wasi_fd_tell(struct wasm_instance *instance, uint32_t fd, uint32_t ret_offset) {
        return wasi_fd_seek(instance, fd, 0, WASI_WHENCE_CUR, ret_offset);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What the WASI functions for files share. */
#pragma once

#include "host.h"
#include "vfs.h"
#include "wasi.h"

/* The session's files, for a change: stamped with the time. */
struct vfs *wasi_files_change(struct wasm_instance *instance);
/* Tells the server what the files take; after each change. Returns `result`. */
uint32_t wasi_files_changed(struct wasm_instance *instance, int result);
/* Writes a result to guest memory: WASI_EFAULT where it isn't the guest's. */
uint32_t wasi_store(struct wasm_instance *instance, uint32_t address, const void *value, size_t size);
uint32_t wasi_store_u32(struct wasm_instance *instance, uint32_t address, uint32_t value);
uint32_t wasi_store_stat(struct wasm_instance *instance, uint32_t address, const struct vfs_stat *stat);
/* What utimensat and futimens say with WASI_TIME_*. */
uint32_t wasi_read_times(struct wasm_instance *instance, uint64_t accessed_ns, uint64_t modified_ns, uint32_t flags,
                         struct vfs_times *ret_times);

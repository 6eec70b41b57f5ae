/* SPDX-License-Identifier: Apache-2.0 */
/* Store plugins: keep named blobs (checkpoints), atomically and durably. */
#ifndef SNIPARA_SANDBOX_STORE_H
#define SNIPARA_SANDBOX_STORE_H

#include <snipara-sandbox/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sbx_store_events {
        uint32_t struct_size;
        uint32_t reserved;
        void *data;
        /* Return 0 to go on, a negative errno to stop the listing with it. */
        int (*item)(void *data, const char *name, uint64_t size_bytes);
};

/* Names: 1 to 255 of [A-Za-z0-9_.-] and '/', no empty or dot component. Calls run in parallel. */
struct sbx_store_ops {
        uint32_t struct_size;
        uint32_t reserved;
        /* When it returns 0 the blob is durable and whole; a reader sees the old one or the new one. */
        int (*put)(void *instance, const char *name, struct sbx_bytes blob, const struct sbx_call *call,
                   struct sbx_error *err);
        int (*get)(void *instance, const char *name, const struct sbx_call *call, struct sbx_output *ret_blob,
                   struct sbx_error *err); /* -ENOENT; -EBADMSG: damaged */
        int (*list)(void *instance, const char *prefix, const struct sbx_store_events *events,
                    const struct sbx_call *call, struct sbx_error *err);
        int (*remove)(void *instance, const char *name, const struct sbx_call *call, struct sbx_error *err);
};

#ifdef __cplusplus
}
#endif
#endif

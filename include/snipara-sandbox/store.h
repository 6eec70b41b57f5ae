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

/* One change of a commit. */
struct sbx_store_change {
        const char *name;
        struct sbx_bytes
                blob; /* what it is from now on; data NULL: it is removed, which is no error if it is not there */
};

/* Who may write what a lease stands for (since 1.4). A lease has a name of its own, apart from those of blobs, by the
 * same rules. `token` grows with every holder, for as long as the store exists, also after the lease was given back. */
struct sbx_store_lease {
        uint32_t struct_size;
        uint32_t remaining_ms; /* until it ends unless it is renewed; 0: it has ended */
        uint64_t token;
        char holder[256]; /* as its holder calls himself: UTF-8, shown to people */
};

#define SBX_STORE_SOON                                                                                                 \
        (1u << 0) /* commit: survives the end of this process at once, that of the machine within a second */

/* Names: 1 to 255 of [A-Za-z0-9_.-] and '/', no empty or dot component. Calls run in parallel, also of several
 * processes and machines on one store. A blob is at most what the store's options allow (-EFBIG); -ENOSPC: the disk or
 * the store's quota is full, and nothing has changed. */
struct sbx_store_ops {
        uint32_t struct_size;
        uint32_t reserved;
        /* When it returns 0 the blob is durable and whole; a reader sees the old one or the new one. */
        int (*put)(void *instance, const char *name, struct sbx_bytes blob, const struct sbx_call *call,
                   struct sbx_error *err);
        int (*get)(void *instance, const char *name, const struct sbx_call *call, struct sbx_output *ret_blob,
                   struct sbx_error *err); /* -ENOENT; -EBADMSG: damaged; -EFBIG: more than ret_blob takes. What a
                                               * failure has left in ret_blob is nothing to use. */
        /* In order of the names' bytes; those that begin with `prefix`, "": all. -EBADMSG: names are lost; told after
         * all those that could be read. */
        int (*list)(void *instance, const char *prefix, const struct sbx_store_events *events,
                    const struct sbx_call *call, struct sbx_error *err);
        /* Durable when it returns 0. -ENOENT. */
        int (*remove)(void *instance, const char *name, const struct sbx_call *call, struct sbx_error *err);

        /* ---- since ABI 1.4; a store without them can't keep sessions ---- */

        /* All of the changes or none, durable when it returns 0 (with SBX_STORE_SOON: see there), and so is what was
         * committed in their directory before. The names are different ones (-EINVAL) and share their directory, which
         * is what stands before the last '/'. `lease` NULL: no lease is looked at; else -ESTALE, with nothing changed,
         * unless `token` is that of the lease's holder, whether its time has ended or not; one that was given back has
         * none. A commit with an old token never gets through once lease_take has given the lease to somebody else. */
        int (*commit)(void *instance, const struct sbx_store_change *changes, size_t count, const char *lease,
                      uint64_t token, uint32_t flags, const struct sbx_call *call, struct sbx_error *err);
        /* Takes a lease that nobody has, or whose time has ended, or whose token is `replace_token` (0: none; for a
         * holder who is known to be dead, or who takes his own anew). 0, and `*ret_lease` is the new one; -EBUSY, and
         * it is the other's. Never waits for it. `ttl_ms`: 1 to 3600000, here and below (-EINVAL); `holder`: 1 to 255
         * bytes. */
        int (*lease_take)(void *instance, const char *lease, const char *holder, uint32_t ttl_ms,
                          uint64_t replace_token, const struct sbx_call *call, struct sbx_store_lease *ret_lease,
                          struct sbx_error *err);
        /* -ESTALE: somebody else has it by now, or it was given back. One that ended and that nobody took is the
         * holder's again. */
        int (*lease_renew)(void *instance, const char *lease, uint64_t token, uint32_t ttl_ms,
                           const struct sbx_call *call, struct sbx_error *err);
        /* Gives it back; another's is left alone. */
        int (*lease_release)(void *instance, const char *lease, uint64_t token, const struct sbx_call *call,
                             struct sbx_error *err);
        /* Frees what no name stands for any more, and looks at every blob: {"blobs", "bytes" (of the names' contents),
         * "stored_bytes" (on disk), "quota_bytes" (0: none), "removed", "removed_bytes", "damaged": [names], "location"
         * (for people)}. Safe beside others that use the store. */
        int (*collect)(void *instance, const struct sbx_call *call, struct sbx_output *ret_json, struct sbx_error *err);
        /* Who has a lease, without taking it or changing anything. -ENOENT: nobody has ever had it, or it was given back.
         */
        int (*lease_look)(void *instance, const char *lease, const struct sbx_call *call,
                          struct sbx_store_lease *ret_lease, struct sbx_error *err);
};

#ifdef __cplusplus
}
#endif
#endif

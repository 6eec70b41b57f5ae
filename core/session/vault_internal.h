/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the vaults share. */
#pragma once

#include <stdatomic.h>

#include <snipara-sandbox/store.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "plugin/registry.h"
#include "session/lease.h"
#include "session/manifest.h"
#include "session/memory_store.h"

#define SBX_VAULT_ORIGIN "sessions"
#define SBX_VAULT_PREFIX "sessions/"
#define SBX_VAULT_KEY_SIZE 48   /* 40 hexadecimal digits of what the session is called; of one in memory a number */
#define SBX_VAULT_LEASE_SIZE 64 /* "sessions/<key>" */
#define SBX_VAULT_NAME_SIZE 256 /* of a blob, with its directory; no store takes longer ones */
#define SBX_VAULT_RESERVE 64u   /* ids that a server leaves out after one that gave out some that are not stored */

/* Where blobs are: a plugin's instance, or memory. */
struct sbx_vault_store {
        const struct sbx_store_ops *ops;
        void *instance;
};

struct sbx_vaults {
        const struct sbx_config *config;
        struct sbx_registry *registry;
        const struct sbx_logger *logger;
        const char *store_name; /* NULL: none is configured */
        size_t checkpoints_max;
        uint64_t store_wait_ms;
        uint32_t ttl_ms;             /* of leases */
        uint64_t renew_ms, again_ms; /* between renewals, and after one that failed */
        struct sbx_memory_store *memory;
        char holder[SBX_LEASE_HOLDER_SIZE];
        int stop_fd; /* readable: leases are renewed no more */

        pthread_mutex_t lock;   /* protects what follows */
        pthread_cond_t changed; /* a vault was opened, or its pins went; stop */
        struct sbx_vault *open; /* the durable ones, also while they are opened */
        uint64_t memory_number; /* of the last vault in memory */
        bool renewer_runs, stop;
        char problem[SBX_ERROR_MESSAGE_MAX]; /* why the store can't be had; never changed once it is set */
        pthread_t renewer;
};

struct sbx_vault {
        struct sbx_vaults *owner;
        struct sbx_vault_store store;
        char *principal, *id;
        char key[SBX_VAULT_KEY_SIZE];
        char lease[SBX_VAULT_LEASE_SIZE]; /* "sessions/<key>", the directory of its blobs, too */
        bool durable;
        char *problem;  /* why not, if it is this session's own; NULL: it is not */
        bool stored;    /* there is a manifest */
        bool frozen;    /* ids were given out that no manifest knows */
        uint64_t token; /* of the lease */
        struct sbx_manifest manifest;

        /* Of durable ones. */
        struct sbx_vault *next; /* under the owner's lock, as the next three */
        bool held;              /* the lease is ours, and to be renewed */
        unsigned pins;          /* it is being renewed: not to be freed */
        uint64_t renew_at_ns;   /* CLOCK_MONOTONIC */
        atomic_bool lost;
        _Atomic(uint64_t) renewed_ns; /* CLOCK_BOOTTIME: sleep counts */
        bool renewal_failed;          /* which was logged; the renewer's own */
};

/* The store's instance, started. -ENOTSUP: none is configured; or why it can't be had. */
int sbx_vaults_store(struct sbx_vaults *vaults, const struct sbx_call *call, struct sbx_vault_store *ret_store,
                     struct sbx_error *err);
void sbx_vault_key(const char *principal, const char *id, char ret_key[SBX_VAULT_KEY_SIZE]);
bool sbx_vault_key_valid(const char *key);

/* ---- leases (vault_lease.c) ---- */

/* Takes the vault's, and has it renewed from then on. Waits as the setting store_wait says. */
int sbx_vault_lease_take(struct sbx_vault *vault, uint64_t wait_ms, const struct sbx_call *call, struct sbx_error *err);
/* Gives it back. */
void sbx_vault_lease_release(struct sbx_vault *vault);
void sbx_vaults_renewer_stop(struct sbx_vaults *vaults);
static inline uint64_t sbx_boottime_ns(void) {
        struct timespec now;

        clock_gettime(CLOCK_BOOTTIME, &now);
        return (uint64_t)now.tv_sec * SBX_NS_PER_S + (uint64_t)now.tv_nsec;
}
int64_t sbx_vault_now_ms(void); /* since 1970 */

/* ---- manifests and blobs in the store (vault_store.c) ---- */

/* What the store has for a key. -ENOENT; as sbx_manifest_decode; -EBADMSG: it belongs to another session. */
int sbx_vault_load(const struct sbx_vault_store *store, const char *key, const struct sbx_call *call,
                   struct sbx_manifest *ret_manifest, struct sbx_manifest_owner *ret_owner, struct sbx_error *err);
/* -EBADMSG: it is missing, or not what the manifest says. */
int sbx_vault_read_blob(struct sbx_vault *vault, const struct sbx_blob *blob, const struct sbx_call *call,
                        struct sbx_buffer *ret_bytes, struct sbx_error *err);
/* Makes `next` what the store has for the session, with the blobs of `state` (NULL: none) that belong to its newest
 * checkpoint and are not there yet, and without those that only the present manifest has. On success it is the vault's
 * manifest, and `next` is empty; else nothing has changed. */
int sbx_vault_commit(struct sbx_vault *vault, struct sbx_manifest *next, const struct sbx_session_state *state,
                     unsigned flags, const struct sbx_call *call, struct sbx_error *err);
/* Everything below the vault's directory. */
int sbx_vault_erase(struct sbx_vault *vault, const struct sbx_call *call, struct sbx_error *err);

/* Those of them that no checkpoint of the vault's manifest has. */
int sbx_vault_prune(struct sbx_vault *vault, const struct sbx_call *call, struct sbx_error *err);

/* ---- all sessions (vault_scan.c) ---- */

struct sbx_vault_found {
        char key[SBX_VAULT_KEY_SIZE];
        uint64_t bytes; /* of the blobs and the manifest */
        size_t blobs;   /* without the manifest */
};
struct sbx_vault_scan {
        struct sbx_vault_found *items;
        size_t count, capacity;
        char damage[SBX_ERROR_MESSAGE_MAX]; /* why some are not among them; "": all are */
};
int sbx_vault_scan(const struct sbx_vault_store *store, const struct sbx_call *call, struct sbx_vault_scan *ret_scan,
                   struct sbx_error *err);
void sbx_vault_scan_clear(struct sbx_vault_scan *scan);

/* A vault that stands for a key, with nothing in it, and without its lease. */
int sbx_vault_new(struct sbx_vaults *vaults, const char *principal, const char *id, struct sbx_vault **ret_vault,
                  struct sbx_error *err);
void sbx_vault_free(struct sbx_vault *vault); /* NULL is fine */

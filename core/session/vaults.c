/* SPDX-License-Identifier: Apache-2.0 */
/* The vaults of a runtime: which sessions are durable, and where the store is. */
#include "session/vault_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include "base/cleanup.h"

#define ORIGIN SBX_VAULT_ORIGIN
#define KEY_BYTES 20 /* of SHA-256: nobody finds two names with one key, or a name for somebody else's */

int64_t sbx_vault_now_ms(void) {
        struct timespec now;

        clock_gettime(CLOCK_REALTIME, &now);
        return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- names ---- */

void sbx_vault_key(const char *principal, const char *id, char ret_key[SBX_VAULT_KEY_SIZE]) {
        unsigned char digest[SBX_SHA256_SIZE];
        struct sbx_sha256 hash;

        sbx_sha256_begin(&hash);
        sbx_sha256_add(&hash, (struct sbx_bytes){principal, strlen(principal) + 1});
        sbx_sha256_add(&hash, (struct sbx_bytes){id, strlen(id)});
        sbx_sha256_end(&hash, digest);
        sbx_hex_encode(digest, KEY_BYTES, ret_key);
}

bool sbx_vault_key_valid(const char *key) {
        unsigned char digest[KEY_BYTES];

        return sbx_hex_decode(key, digest, sizeof(digest)) == 0;
}

bool sbx_vaults_durable(const struct sbx_vaults *vaults, const char *principal, const char *id) {
        bool run = strncmp(principal, "run:", 4) == 0;

        if (vaults->store_name == NULL || id[0] == '\0')
                return false;
        if (run)
                return strchr(principal, '/') == NULL;
        return strcmp(id, "default") != 0 && strncmp(id, "default-", 8) != 0;
}

/* ---- the store ---- */

/* The first reason stays, and is logged. */
static void note_problem(struct sbx_vaults *vaults, const struct sbx_error *problem) {
        bool first;

        pthread_mutex_lock(&vaults->lock);
        first = vaults->problem[0] == '\0';
        if (first)
                memcpy(vaults->problem, problem->message, sizeof(vaults->problem));
        pthread_mutex_unlock(&vaults->lock);
        if (first)
                sbx_log(vaults->logger, SBX_LOG_WARNING, "sessions end with this server, store '%s' can't be had: %s",
                        vaults->store_name, problem->message);
}

const char *sbx_vaults_problem(struct sbx_vaults *vaults) {
        SBX_LOCKED(&vaults->lock);
        return vaults->problem[0] != '\0' ? vaults->problem : NULL;
}

static bool keeps_sessions(const struct sbx_store_ops *ops) {
        return ops->commit != NULL && ops->lease_take != NULL && ops->lease_renew != NULL &&
               ops->lease_release != NULL && ops->lease_look != NULL && ops->collect != NULL;
}

int sbx_vaults_store(struct sbx_vaults *vaults, const struct sbx_call *call, struct sbx_vault_store *ret_store,
                     struct sbx_error *err) {
        const struct sbx_instance *instance = NULL;
        struct sbx_error problem = {0};
        int r;

        if (vaults->store_name == NULL)
                return sbx_error_set(err, -ENOTSUP, ORIGIN, "Set `store` to the name of a store.",
                                     "no store is configured that keeps sessions");
        r = sbx_registry_get(vaults->registry, vaults->store_name, SBX_PLUGIN_STORE, call, &instance, &problem);
        if (r == 0 && !keeps_sessions(instance->ops))
                r = sbx_error_set(&problem, -ENOTSUP, ORIGIN, "Use a plugin that was built for ABI 1.4.",
                                  "plugin '%s' is too old to keep sessions", instance->module->plugin.name);
        if (r < 0) {
                if (r != -ECANCELED && r != -ETIMEDOUT)
                        note_problem(vaults, &problem);
                return sbx_error_set(err, r, problem.origin, problem.hint, "%s", problem.message);
        }
        *ret_store = (struct sbx_vault_store){instance->ops, instance->state};
        return 0;
}

/* ---- the vaults ---- */

static int init(struct sbx_vaults *vaults, struct sbx_error *err) {
        uint64_t memory_bytes = (uint64_t)sbx_config_int(vaults->config, "checkpoint_memory");
        const char *store = sbx_config_string(vaults->config, "store");
        int r;

        vaults->store_name = store != NULL && store[0] != '\0' ? store : NULL;
        vaults->checkpoints_max = (size_t)sbx_config_int(vaults->config, "checkpoints_max");
        vaults->store_wait_ms = (uint64_t)sbx_config_int(vaults->config, "store_wait");
        vaults->ttl_ms = SBX_LEASE_TTL_MS;
        vaults->renew_ms = SBX_LEASE_RENEW_MS;
        vaults->again_ms = SBX_LEASE_AGAIN_MS;
        sbx_lease_holder(vaults->holder);
        vaults->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (vaults->stop_fd < 0)
                return sbx_error_set(err, -errno, ORIGIN, "Raise the limit of open files (ulimit -n).",
                                     "can't make an eventfd: %s", SBX_ERRNO_TEXT(errno));
        r = sbx_cond_init(&vaults->changed);
        if (r < 0) {
                close(vaults->stop_fd);
                return sbx_error_set(err, r, ORIGIN, NULL, "can't make a condition: %s", SBX_ERRNO_TEXT(r));
        }
        r = sbx_memory_store_new(memory_bytes, &vaults->memory, err);
        if (r < 0) {
                pthread_cond_destroy(&vaults->changed);
                close(vaults->stop_fd);
        }
        return r;
}

int sbx_vaults_new(const struct sbx_config *config, struct sbx_registry *registry, const struct sbx_logger *logger,
                   struct sbx_vaults **ret_vaults, struct sbx_error *err) {
        struct sbx_vaults *vaults = calloc(1, sizeof(*vaults));
        int r;

        if (vaults == NULL)
                return SBX_NOMEM(err, ORIGIN);
        vaults->config = config;
        vaults->registry = registry;
        vaults->logger = logger;
        r = init(vaults, err);
        if (r < 0) {
                free(vaults);
                return r;
        }
        pthread_mutex_init(&vaults->lock, NULL);
        *ret_vaults = vaults;
        return 0;
}

void sbx_vaults_free(struct sbx_vaults *vaults) {
        if (vaults == NULL)
                return;
        sbx_vaults_renewer_stop(vaults);
        while (vaults->open != NULL)
                sbx_vault_close(vaults->open);
        sbx_memory_store_free(vaults->memory);
        pthread_mutex_destroy(&vaults->lock);
        pthread_cond_destroy(&vaults->changed);
        close(vaults->stop_fd);
        free(vaults);
}

/* ---- one vault without its content ---- */

int sbx_vault_new(struct sbx_vaults *vaults, const char *principal, const char *id, struct sbx_vault **ret_vault,
                  struct sbx_error *err) {
        struct sbx_vault *vault = calloc(1, sizeof(*vault));

        if (vault == NULL)
                return SBX_NOMEM(err, ORIGIN);
        vault->owner = vaults;
        vault->principal = strdup(principal);
        vault->id = strdup(id);
        if (vault->principal == NULL || vault->id == NULL) {
                sbx_vault_free(vault);
                return SBX_NOMEM(err, ORIGIN);
        }
        atomic_init(&vault->lost, false);
        atomic_init(&vault->renewed_ns, sbx_boottime_ns());
        *ret_vault = vault;
        return 0;
}

void sbx_vault_free(struct sbx_vault *vault) {
        if (vault == NULL)
                return;
        sbx_manifest_clear(&vault->manifest);
        free(vault->principal);
        free(vault->id);
        free(vault->problem);
        free(vault);
}

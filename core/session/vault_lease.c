/* SPDX-License-Identifier: Apache-2.0 */
/* The leases of durable sessions: taken when a vault is opened, renewed by one thread for all of them, given back when
 * it is closed. Nothing relies on that a lease is held: every commit carries its token, and the store has the last
 * word. */
#include "session/vault_internal.h"

#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include "base/cleanup.h"

#define ORIGIN SBX_VAULT_ORIGIN
#define STEP_MS 50 /* between two attempts to take a lease */
#define RENEW_TIMEOUT_MS UINT64_C(5000)
#define LOOK_TIMEOUT_MS UINT64_C(2000)

/* ---- who has which vault open in this process ---- */

static bool enter(struct sbx_vault *vault) {
        struct sbx_vaults *vaults = vault->owner;

        SBX_LOCKED(&vaults->lock);
        for (const struct sbx_vault *at = vaults->open; at != NULL; at = at->next)
                if (strcmp(at->key, vault->key) == 0)
                        return false;
        vault->next = vaults->open;
        vaults->open = vault;
        return true;
}

static void leave(struct sbx_vault *vault) {
        struct sbx_vaults *vaults = vault->owner;

        SBX_LOCKED(&vaults->lock);
        for (struct sbx_vault **at = &vaults->open; *at != NULL; at = &(*at)->next)
                if (*at == vault) {
                        *at = vault->next;
                        break;
                }
}

/* ---- renewing ---- */

/* What became of a renewal. */
static void settle(struct sbx_vault *vault, int r, const struct sbx_error *problem) {
        const struct sbx_logger *logger = vault->owner->logger;

        if (r == 0) {
                atomic_store(&vault->renewed_ns, sbx_boottime_ns());
                if (vault->renewal_failed)
                        sbx_log(logger, SBX_LOG_INFO, "the lease of session '%s' is renewed again", vault->id);
                vault->renewal_failed = false;
        } else if (r == -ESTALE) {
                atomic_store(&vault->lost, true);
                sbx_log(logger, SBX_LOG_WARNING, "another server has taken session '%s'", vault->id);
        } else if (r != -ECANCELED && !vault->renewal_failed) {
                vault->renewal_failed = true;
                sbx_log(logger, SBX_LOG_WARNING, "the lease of session '%s' can't be renewed: %s", vault->id,
                        problem->message);
        }
}

static int renew(struct sbx_vault *vault) {
        struct sbx_call call = {.struct_size = sizeof(call),
                                .cancel_fd = vault->owner->stop_fd,
                                .deadline_ns = sbx_clock_deadline_ms(RENEW_TIMEOUT_MS)};
        struct sbx_error problem = {0};
        int r = vault->store.ops->lease_renew(vault->store.instance, vault->lease, vault->token, vault->owner->ttl_ms,
                                              &call, &problem);

        settle(vault, r, &problem);
        return r;
}

/* One that is due, pinned; NULL: none is, and `*ret_next_ns` is when to look again (0: when told). */
static struct sbx_vault *take_due_locked(struct sbx_vaults *vaults, uint64_t *ret_next_ns) {
        uint64_t now = sbx_clock_ns();

        *ret_next_ns = 0;
        for (struct sbx_vault *at = vaults->open; at != NULL; at = at->next) {
                if (!at->held || atomic_load(&at->lost))
                        continue;
                if (at->renew_at_ns <= now) {
                        at->pins++;
                        return at;
                }
                if (*ret_next_ns == 0 || at->renew_at_ns < *ret_next_ns)
                        *ret_next_ns = at->renew_at_ns;
        }
        return NULL;
}

static void *renewer_run(void *data) {
        struct sbx_vaults *vaults = data;

        pthread_mutex_lock(&vaults->lock);
        while (!vaults->stop) {
                uint64_t next_ns;
                struct sbx_vault *vault = take_due_locked(vaults, &next_ns);
                int r;

                if (vault == NULL) {
                        sbx_cond_wait(&vaults->changed, &vaults->lock, next_ns);
                        continue;
                }
                pthread_mutex_unlock(&vaults->lock);
                r = renew(vault);
                pthread_mutex_lock(&vaults->lock);
                vault->renew_at_ns = sbx_clock_deadline_ms(r == 0 ? vaults->renew_ms : vaults->again_ms);
                vault->pins--;
                pthread_cond_broadcast(&vaults->changed);
        }
        pthread_mutex_unlock(&vaults->lock);
        return NULL;
}

static int begin_renewal(struct sbx_vault *vault, struct sbx_error *err) {
        struct sbx_vaults *vaults = vault->owner;
        int r = 0;

        SBX_LOCKED(&vaults->lock);
        atomic_store(&vault->renewed_ns, sbx_boottime_ns());
        if (!vaults->renewer_runs && !vaults->stop) {
                r = sbx_thread_start(&vaults->renewer, "sbx-leases", renewer_run, vaults);
                vaults->renewer_runs = r == 0;
        }
        if (r < 0)
                return sbx_error_set(err, r, ORIGIN, "End other programs, or raise the limit of threads (ulimit -u).",
                                     "no thread can be had that renews leases: %s", SBX_ERRNO_TEXT(r));
        vault->renew_at_ns = sbx_clock_deadline_ms(vaults->renew_ms);
        vault->held = true;
        pthread_cond_broadcast(&vaults->changed);
        return 0;
}

/* When it returns the renewer knows nothing of the vault any more. */
static void end_renewal(struct sbx_vault *vault) {
        struct sbx_vaults *vaults = vault->owner;

        SBX_LOCKED(&vaults->lock);
        vault->held = false;
        while (vault->pins > 0)
                sbx_cond_wait(&vaults->changed, &vaults->lock, 0);
}

void sbx_vaults_renewer_stop(struct sbx_vaults *vaults) {
        bool runs;

        pthread_mutex_lock(&vaults->lock);
        runs = vaults->renewer_runs;
        vaults->stop = true;
        vaults->renewer_runs = false;
        eventfd_write(vaults->stop_fd, 1);
        pthread_cond_broadcast(&vaults->changed);
        pthread_mutex_unlock(&vaults->lock);
        if (runs)
                pthread_join(vaults->renewer, NULL);
}

/* ---- taking ---- */

static int pause_for(uint64_t until_ns, const struct sbx_call *call) {
        struct pollfd cancel = {.fd = call != NULL ? call->cancel_fd : -1, .events = POLLIN};
        uint64_t now = sbx_clock_ns();
        uint64_t left_ms = until_ns > now ? (until_ns - now) / SBX_NS_PER_MS + 1 : 0;

        if (call != NULL && call->deadline_ns != 0 && call->deadline_ns <= now)
                return -ETIMEDOUT;
        return poll(&cancel, 1, (int)(left_ms < STEP_MS ? left_ms : STEP_MS)) > 0 ? -ECANCELED : 0;
}

static int refuse(const struct sbx_vault *vault, const struct sbx_store_lease *lease, struct sbx_error *err) {
        char who[SBX_LEASE_HOLDER_SIZE], hint[SBX_ERROR_HINT_MAX];
        uint32_t remaining_ms = lease->remaining_ms < SBX_LEASE_TTL_MS ? lease->remaining_ms : SBX_LEASE_TTL_MS;

        sbx_lease_holder_show(lease->holder, who, sizeof(who));
        snprintf(hint, sizeof(hint),
                 "End it there, or wait: unless that server renews its claim it ends in %u seconds.",
                 (remaining_ms + 999) / 1000);
        return sbx_error_set(err, -EBUSY, ORIGIN, hint,
                             "session '%s' belongs to another server: %s, heard of %u seconds ago", vault->id, who,
                             (SBX_LEASE_TTL_MS - remaining_ms) / 1000);
}

/* One attempt; -EBUSY: `*lease` is the other's. A dead holder on this machine is replaced, and so is this server
 * itself: its own vaults have been looked at, so that it is a claim that it failed to give back. */
static int take_once(struct sbx_vault *vault, const struct sbx_call *call, struct sbx_store_lease *lease,
                     struct sbx_error *err) {
        const struct sbx_store_ops *ops = vault->store.ops;
        const char *holder = vault->owner->holder;
        int r = ops->lease_take(vault->store.instance, vault->lease, holder, vault->owner->ttl_ms, 0, call, lease, err);

        if (r != -EBUSY)
                return r;
        lease->holder[sizeof(lease->holder) - 1] = '\0';
        if (strcmp(lease->holder, holder) != 0 && !sbx_lease_holder_gone(lease->holder))
                return r;
        if (err != NULL)
                *err = (struct sbx_error){0};
        return ops->lease_take(vault->store.instance, vault->lease, holder, vault->owner->ttl_ms, lease->token, call,
                               lease, err);
}

static int take(struct sbx_vault *vault, uint64_t until_ns, const struct sbx_call *call, struct sbx_error *err) {
        for (;;) {
                struct sbx_store_lease lease = {.struct_size = sizeof(lease)};
                struct sbx_error problem = {0};
                int r = take_once(vault, call, &lease, &problem);

                if (r == 0) {
                        vault->token = lease.token;
                        return begin_renewal(vault, err);
                }
                if (r != -EBUSY)
                        return sbx_error_set(err, r, problem.origin, problem.hint, "session '%s' can't be had: %s",
                                             vault->id, problem.message);
                if (sbx_clock_ns() >= until_ns)
                        return refuse(vault, &lease, err);
                r = pause_for(until_ns, call);
                if (r < 0)
                        return sbx_error_set(err, r, ORIGIN, NULL, "the call ended while session '%s' was waited for",
                                             vault->id);
        }
}

int sbx_vault_lease_take(struct sbx_vault *vault, uint64_t wait_ms, const struct sbx_call *call,
                         struct sbx_error *err) {
        uint64_t until_ns = sbx_clock_deadline_ms(wait_ms);
        int r;

        while (!enter(vault)) {
                if (sbx_clock_ns() >= until_ns)
                        return sbx_error_set(err, -EBUSY, ORIGIN, "Wait until it ends.",
                                             "session '%s' is being stored or resumed", vault->id);
                r = pause_for(until_ns, call);
                if (r < 0)
                        return sbx_error_set(err, r, ORIGIN, NULL, "the call ended while session '%s' was waited for",
                                             vault->id);
        }
        r = take(vault, until_ns, call, err);
        if (r < 0)
                sbx_vault_lease_release(vault);
        return r;
}

void sbx_vault_lease_release(struct sbx_vault *vault) {
        struct sbx_call call = {
                .struct_size = sizeof(call), .cancel_fd = -1, .deadline_ns = sbx_clock_deadline_ms(RENEW_TIMEOUT_MS)};
        struct sbx_error problem = {0};
        int r = 0;

        end_renewal(vault);
        if (vault->token != 0)
                r = vault->store.ops->lease_release(vault->store.instance, vault->lease, vault->token, &call, &problem);
        if (r < 0)
                sbx_log(vault->owner->logger, SBX_LOG_WARNING, "the lease of session '%s' can't be given back: %s",
                        vault->id, problem.message);
        vault->token = 0;
        leave(vault);
}

/* ---- lost ---- */

bool sbx_vault_lost(struct sbx_vault *vault) {
        uint64_t silent_ns;
        struct sbx_call call = {.struct_size = sizeof(call), .cancel_fd = -1};
        struct sbx_error problem = {0};
        int r;

        if (atomic_load(&vault->lost))
                return true;
        if (!vault->durable)
                return false;
        silent_ns = sbx_boottime_ns() - atomic_load(&vault->renewed_ns);
        if (silent_ns < vault->owner->ttl_ms * SBX_NS_PER_MS)
                return false;
        call.deadline_ns = sbx_clock_deadline_ms(LOOK_TIMEOUT_MS);
        r = vault->store.ops->lease_renew(vault->store.instance, vault->lease, vault->token, vault->owner->ttl_ms,
                                          &call, &problem);
        if (r == 0)
                atomic_store(&vault->renewed_ns, sbx_boottime_ns());
        else if (r == -ESTALE)
                atomic_store(&vault->lost, true);
        return r == -ESTALE;
}

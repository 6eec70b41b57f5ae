/* SPDX-License-Identifier: Apache-2.0 */
/* What a session goes on with: its vault, its backend, and the newest of its checkpoints that can be used. Code is
 * never run again; what did not come back is told. */
#include "session/state.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"

#define ORIGIN SBX_SESSION_ORIGIN
#define MEMORY_MAX (UINT64_C(4) << 30) /* that a stored session may ask for: that of the largest profile */
#define FAILURES_MAX 2048u
#define MOVE_TIMEOUT_MS UINT64_C(10000)

/* ---- its vault ---- */

void sbx_session_give_up(struct sbx_session *session) {
        sbx_log(session->owner->logger, SBX_LOG_WARNING, "session '%s' is another server's now: it is given up here",
                session->id);
        sbx_session_bury(session);
        sbx_copies_clear(session);
        sbx_vault_close(steal_pointer(session->vault));
        sbx_notice_clear(session);
        free(steal_pointer(session->fall));
        session->current[0] = '\0';
        session->unstored = false;
}

int sbx_session_open(struct sbx_session *session, bool create, const struct sbx_call *call, struct sbx_error *err) {
        struct sbx_sessions *sessions = session->owner;
        int r = 0;

        if (session->vault != NULL && sbx_vault_lost(session->vault))
                sbx_session_give_up(session);
        if (session->vault != NULL || session->id[0] == '\0')
                return 0;
        if (session->durable) /* one of that name may still be giving it back */
                r = sbx_session_wait_gone(session, call, err);
        if (r == 0)
                r = sbx_vault_open(sessions->vaults, session->principal, session->id, create, call, &session->vault,
                                   err);
        return r;
}

/* ---- its backend ---- */

static int check_identity(const struct sbx_session *session, const struct sbx_vault_identity *identity,
                          const char *environment, const char *runtime, struct sbx_error *err) {
        static const char hint[] =
                "Leave it out to go on with the session, use another session_id, or destroy it first.";
        struct sbx_runtime_name name;
        int r;

        if (environment != NULL && strcmp(environment, identity->environment) != 0)
                return sbx_error_set(err, -EINVAL, ORIGIN, hint,
                                     "session '%s' is stored, of environment '%s', and can't move to '%.64s'",
                                     session->id, identity->environment, environment);
        if (runtime == NULL)
                return 0;
        r = sbx_runtime_name_parse(runtime, &name, err);
        if (r < 0 || strcmp(name.text, identity->runtime) == 0)
                return r;
        return sbx_error_set(err, -EINVAL, ORIGIN, hint, "session '%s' is stored, one of %s, and can't execute %s",
                             session->id, identity->runtime, name.text);
}

static int set_backend(struct sbx_session *session, const char *environment, const char *runtime,
                       const char *created_at, const struct sbx_call *call, struct sbx_error *err) {
        struct sbx_backend_pool *backend = NULL;
        struct sbx_runtime_name name;
        int r = sbx_runtime_name_parse(runtime, &name, err);

        if (r == 0)
                r = sbx_backend_find(session->owner, environment, name.text, call, &backend, err);
        if (r < 0)
                return r;
        SBX_LOCKED(&session->owner->lock);
        session->backend = backend;
        session->runtime = name;
        if (created_at != NULL)
                snprintf(session->created_at, sizeof(session->created_at), "%.*s", SBX_TIMESTAMP_SIZE - 1, created_at);
        return 0;
}

void sbx_session_identify(struct sbx_session *session) {
        const struct sbx_instance *instance = session->backend->instance;
        struct sbx_vault_identity identity = {.memory_limit_bytes = session->memory_limit_bytes};

        snprintf(identity.environment, sizeof(identity.environment), "%s", instance->name);
        snprintf(identity.backend, sizeof(identity.backend), "%s", instance->module->plugin.name);
        snprintf(identity.runtime, sizeof(identity.runtime), "%.63s", session->runtime.text);
        snprintf(identity.created_at, sizeof(identity.created_at), "%s", session->created_at);
        sbx_vault_identify(session->vault, &identity);
}

static int choose_backend(struct sbx_session *session, const char *environment, const char *runtime,
                          const struct sbx_call *call, struct sbx_error *err) {
        struct sbx_vault_identity identity;
        int r;

        if (session->vault == NULL || !sbx_vault_identity(session->vault, &identity))
                return set_backend(session, environment, runtime != NULL ? runtime : session->runtime.text, NULL, call,
                                   err);
        r = check_identity(session, &identity, environment, runtime, err);
        if (r < 0)
                return r;
        r = set_backend(session, identity.environment, identity.runtime, identity.created_at, call, err);
        if (r < 0)
                sbx_error_wrap(err, "session '%s' is stored with environment '%s'", session->id, identity.environment);
        else
                session->memory_limit_bytes =
                        identity.memory_limit_bytes < MEMORY_MAX ? identity.memory_limit_bytes : MEMORY_MAX;
        return r;
}

int sbx_session_begin(struct sbx_session *session, bool create, const char *environment, const char *runtime,
                      const struct sbx_call *call, struct sbx_error *err) {
        int r = sbx_session_open(session, create, call, err);

        if (r == 0 && session->backend == NULL)
                r = choose_backend(session, environment, runtime, call, err);
        if (r == 0)
                r = sbx_session_check_wish(session, environment, runtime, err);
        if (r == 0 && session->vault != NULL)
                sbx_session_identify(session);
        return r;
}

/* ---- its state ---- */

struct sbx_checkpoint *sbx_session_head(const struct sbx_session *session) {
        const struct sbx_tree *tree = session->vault != NULL ? sbx_vault_tree(session->vault) : NULL;

        return tree != NULL && tree->head[0] != '\0' ? sbx_tree_find(tree, tree->head) : NULL;
}

static struct sbx_checkpoint *parent_of(const struct sbx_session *session, const struct sbx_checkpoint *checkpoint) {
        return checkpoint->parent[0] != '\0' ? sbx_tree_find(sbx_vault_tree(session->vault), checkpoint->parent) : NULL;
}

struct sbx_checkpoint *sbx_session_stored_head(const struct sbx_session *session) {
        struct sbx_checkpoint *at = sbx_session_head(session);

        while (at != NULL && at->part_count == 0)
                at = parent_of(session, at);
        return at;
}

bool sbx_session_revivable(const struct sbx_session *session) {
        for (const struct sbx_checkpoint *at = sbx_session_head(session); at != NULL; at = parent_of(session, at))
                if (at->part_count > 0 || sbx_copies_find((struct sbx_session *)session, at->id) != NULL)
                        return true;
        return false;
}

void sbx_session_stand(struct sbx_session *session, const char *checkpoint) {
        struct sbx_call call = {
                .struct_size = sizeof(call), .cancel_fd = -1, .deadline_ns = sbx_clock_deadline_ms(MOVE_TIMEOUT_MS)};
        struct sbx_error problem = {0};

        if (session->current != checkpoint)
                snprintf(session->current, sizeof(session->current), "%s", checkpoint);
        /* What the store does not learn now it learns with the next checkpoint; a server that is asked for the session
         * before that goes the same way again. */
        if (strcmp(sbx_vault_tree(session->vault)->head, session->current) != 0 &&
            sbx_vault_move(session->vault, session->current, &call, &problem) < 0)
                sbx_log(session->owner->logger, SBX_LOG_WARNING,
                        "session '%s' goes on from %s, and the store can't know: %s", session->id, session->current,
                        problem.message);
}

struct fresh {
        struct sbx_session *session;
        uint64_t memory_bytes;
};

static int start_fresh(void *data, const struct sbx_call *call, struct sbx_guest_process **ret_guest,
                       struct sbx_error *err) {
        struct fresh *fresh = data;

        return sbx_session_start_guest(fresh->session, fresh->memory_bytes, call, ret_guest, err);
}

int sbx_session_restore(struct sbx_session *session, struct sbx_vault *vault, const struct sbx_checkpoint *checkpoint,
                        uint64_t memory_bytes, const struct sbx_call *call, struct sbx_guest_process **ret_guest,
                        json_t **ret_missing, struct sbx_error *err) {
        _cleanup_state_ struct sbx_session_state state = {0};
        struct fresh fresh = {session, memory_bytes};
        const struct sbx_state_start start = {&fresh, start_fresh};
        char label[SBX_SESSION_LABEL_SIZE];
        struct sbx_guest_spec spec;
        int r = sbx_vault_read(vault, checkpoint->id, call, &state, err);

        if (r < 0)
                return r;
        sbx_session_describe(session, memory_bytes, label, &spec);
        return sbx_state_give(session->backend->instance, &spec, &state, &start, call, ret_guest, ret_missing, err);
}

/* Whether an older checkpoint may do better: it is this one's fault, not that of a machine that has no room now. */
static bool is_unusable(int code) {
        return code == -ENOENT || code == -EBADMSG || code == -EINVAL || code == -EXDEV || code == -EPROTONOSUPPORT;
}

uint64_t sbx_session_memory(const struct sbx_session *session, uint64_t memory_bytes) {
        const struct sbx_profile *profile = NULL;

        if (memory_bytes == 0 && sbx_profile_find(NULL, &profile, NULL) == 0)
                memory_bytes = profile->memory_bytes;
        return memory_bytes > session->memory_limit_bytes ? memory_bytes : session->memory_limit_bytes;
}

/* What it is brought back by goes into `notice`; `*memory_bytes` is the hard limit that its guest has then. */
static int try_checkpoint(struct sbx_session *session, const struct sbx_checkpoint *from, uint64_t *memory_bytes,
                          const struct sbx_call *call, struct sbx_notice *notice, struct sbx_guest_process **ret_guest,
                          json_t **ret_missing, struct sbx_error *err) {
        bool last_of_it = from->automatic && from->part_count == 0;
        int r = -ENOENT;

        if (sbx_copies_find(session, from->id) != NULL) { /* the guest of the session is dead, and gone */
                notice->mechanism = sbx_copies_mechanism(session);
                r = sbx_copies_use(session, from->id, last_of_it, call, ret_guest, err);
                if (r == 0 && session->memory_limit_bytes > 0)
                        *memory_bytes = session->memory_limit_bytes;
        }
        if (r < 0 && from->part_count > 0) {
                notice->mechanism = from->mechanism;
                *err = (struct sbx_error){0};
                r = sbx_session_restore(session, session->vault, from, *memory_bytes, call, ret_guest, ret_missing,
                                        err);
        }
        return r;
}

static void note_failure(struct sbx_session *session, const struct sbx_checkpoint *from,
                         const struct sbx_error *problem, struct sbx_buffer *failures) {
        if (from->part_count == 0) /* a copy that ended with its guest: nobody was promised more */
                return;
        sbx_log(session->owner->logger, SBX_LOG_WARNING, "checkpoint %s of session '%s' can't be used: %s", from->id,
                session->id, problem->message);
        (void)sbx_buffer_printf(failures, "%sCheckpoint %s could not be used: %s.", failures->size > 0 ? " " : "",
                                from->id, problem->message);
}

/* What has been found becomes the session's. */
static void go_on(struct sbx_session *session, struct sbx_guest_process *guest, uint64_t memory_bytes,
                  struct sbx_notice *notice) {
        char from[SBX_CHECKPOINT_ID_SIZE] = "";
        bool restarted = notice->from == NULL && (notice->reason != NULL || notice->failures != NULL);

        if (notice->from != NULL) {
                memcpy(from, notice->from->id, sizeof(from));
                if (session->executions == 0) {
                        SBX_LOCKED(&session->owner->lock);
                        session->executions = notice->from->executions;
                }
        }
        if (notice->from != NULL || restarted)
                sbx_notice_set(session, notice);
        sbx_session_adopt(session, guest, memory_bytes);
        if (session->vault != NULL)
                sbx_session_stand(session, from);
        sbx_copies_prune(session);
}

int sbx_session_revive(struct sbx_session *session, uint64_t memory_bytes, const struct sbx_call *call,
                       struct sbx_error *err) {
        _cleanup_buffer_ struct sbx_buffer failures = SBX_BUFFER(FAILURES_MAX);
        _cleanup_json_ json_t *missing = NULL;
        struct sbx_guest_process *guest = NULL;
        struct sbx_notice notice = {.from = sbx_session_head(session), .reason = session->fall};
        struct sbx_error problem = {0};
        int r = 0;

        memory_bytes = sbx_session_memory(session, memory_bytes);
        for (; notice.from != NULL; notice.from = parent_of(session, notice.from)) {
                problem = (struct sbx_error){0};
                r = try_checkpoint(session, notice.from, &memory_bytes, call, &notice, &guest, &missing, &problem);
                if (r == 0 || !is_unusable(r))
                        break;
                note_failure(session, notice.from, &problem, &failures);
        }
        if (notice.from == NULL)
                r = sbx_session_start_guest(session, memory_bytes, call, &guest, err);
        else if (r < 0 && err != NULL && err->code == 0)
                *err = problem;
        if (r < 0)
                return r;
        notice.missing = missing;
        notice.failures = failures.data;
        go_on(session, guest, memory_bytes, &notice);
        return 0;
}

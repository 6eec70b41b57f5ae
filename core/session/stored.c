/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions as they are stored: their list, one as a file, and removing those that nobody uses. */
#include "session/state.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"

#define ORIGIN SBX_SESSION_ORIGIN

/* ---- the list ---- */

static bool runs_here(struct sbx_sessions *sessions, const char *principal, const char *id) {
        const struct sbx_session *session;

        SBX_LOCKED(&sessions->lock);
        session = sbx_table_find_locked(sessions, principal, id);
        return session != NULL && session->isolation != NULL;
}

/* Those that were destroyed while they executed: they are stored until that has ended. [[principal, id]] */
static json_t *destroyed_ones(struct sbx_sessions *sessions) {
        json_t *list = json_array();
        bool complete = list != NULL;

        SBX_LOCKED(&sessions->lock);
        for (const struct sbx_session *at = sessions->ending; at != NULL; at = at->next)
                if (at->destroyed)
                        complete = json_array_append_new(list, json_pack("[s, s]", at->principal, at->id)) == 0 &&
                                   complete;
        if (!complete)
                json_decref(steal_pointer(list));
        return list;
}

static bool is_among(const json_t *list, const char *principal, const char *id) {
        const json_t *one;
        size_t i;

        json_array_foreach ((json_t *)list, i, one) {
                if (strcmp(json_string_value(json_array_get(one, 0)), principal) == 0 &&
                    strcmp(json_string_value(json_array_get(one, 1)), id) == 0)
                        return true;
        }
        return false;
}

int sbx_sessions_stored(struct sbx_sessions *sessions, const char *principal, const struct sbx_call *call, json_t **ret,
                        struct sbx_error *err) {
        _cleanup_json_ json_t *destroyed = destroyed_ones(sessions), *all = NULL, *list = json_array();
        json_t *entry;
        size_t i;
        int r = destroyed != NULL && list != NULL ? sbx_vaults_list(sessions->vaults, principal, call, &all, err)
                                                  : SBX_NOMEM(err, ORIGIN);

        if (r < 0)
                return r;
        json_array_foreach (all, i, entry) {
                const char *owner = json_string_value(json_object_get(entry, "principal"));
                const char *id = json_string_value(json_object_get(entry, "id"));
                bool running = owner != NULL && id != NULL && runs_here(sessions, owner, id);

                if (!running && owner != NULL && id != NULL && is_among(destroyed, owner, id))
                        continue;
                if (json_object_set_new(entry, "running", json_boolean(running)) < 0 ||
                    json_array_append(list, entry) < 0)
                        return SBX_NOMEM(err, ORIGIN);
        }
        *ret = steal_pointer(list);
        return 0;
}

/* ---- one as a file ---- */

struct transfer {
        const char *checkpoint;
        int fd;
};

static int run_export(struct sbx_session *session, void *data, const struct sbx_call *call, struct sbx_error *err) {
        const struct sbx_checkpoint *checkpoint = NULL;
        struct transfer *transfer = data;
        char id[SBX_CHECKPOINT_ID_SIZE];
        int r;

        if (transfer->checkpoint == NULL)
                return sbx_vault_export(session->vault, NULL, transfer->fd, call, err);
        r = sbx_session_find_checkpoint(session, transfer->checkpoint, &checkpoint, err);
        if (r < 0)
                return r;
        memcpy(id, checkpoint->id, sizeof(id));
        return sbx_vault_export(session->vault, id, transfer->fd, call, err);
}

int sbx_sessions_export(struct sbx_sessions *sessions, const char *principal, const char *id, const char *checkpoint,
                        int fd, const struct sbx_call *call, struct sbx_error *err) {
        struct transfer transfer = {.checkpoint = checkpoint, .fd = fd};
        struct sbx_operation operation = {.principal = principal,
                                          .id = id,
                                          .on = SBX_ON_STORED,
                                          .what = "it was exported",
                                          .run = run_export,
                                          .data = &transfer};

        return sbx_session_operate(sessions, &operation, call, err);
}

static int check_import(struct sbx_session *session, struct sbx_error *err) {
        struct sbx_vault_identity identity;

        if (!sbx_vault_durable(session->vault)) {
                const char *why = sbx_vault_problem(session->vault);

                return sbx_error_set(
                        err, -EINVAL, ORIGIN,
                        "Name another session_id, one that does not begin with \"default\"; `snipara-sandbox "
                        "doctor` tells of the store.",
                        "session '%s' can't be stored%s%s", session->id, why != NULL ? ": " : "",
                        why != NULL ? why : "");
        }
        if (session->guest == NULL && sbx_vault_tree(session->vault)->count == 0 &&
            !sbx_vault_identity(session->vault, &identity))
                return 0;
        return sbx_error_set(err, -EEXIST, ORIGIN, "Use another session_id, or destroy that session first.",
                             "there is a session '%s' already", session->id);
}

int sbx_sessions_import(struct sbx_sessions *sessions, const char *principal, const char *id, int fd,
                        const struct sbx_call *call, json_t **ret, struct sbx_error *err) {
        const struct sbx_session_wish wish = {.principal = principal, .id = id};
        _cleanup_turn_ struct sbx_session *session = NULL;
        json_t *answer;
        int r = sbx_session_take(sessions, &wish, call, &session, err);

        if (r == 0)
                r = sbx_session_open(session, true, call, err);
        if (r == 0)
                r = check_import(session, err);
        if (r == 0)
                r = sbx_vault_import(session->vault, fd, call, err);
        if (r < 0)
                return r;
        answer = json_pack("{s:s, s:s, s:I}", "session_id", session->id, "head", sbx_vault_tree(session->vault)->head,
                           "checkpoints", (json_int_t)sbx_vault_tree(session->vault)->count);
        if (answer == NULL)
                return SBX_NOMEM(err, ORIGIN);
        *ret = answer;
        return 0;
}

/* ---- removing ---- */

int sbx_sessions_collect(struct sbx_sessions *sessions, const char *principal, uint64_t idle_ms,
                         const struct sbx_call *call, json_t **ret, struct sbx_error *err) {
        return sbx_vaults_collect(sessions->vaults, principal, idle_ms, call, ret, err);
}

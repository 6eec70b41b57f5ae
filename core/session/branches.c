/* SPDX-License-Identifier: Apache-2.0 */
/* The tree of a session's states, for its user: checkpoints that he asks for, their list, and going back to one. */
#include "session/state.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"

#define ORIGIN SBX_SESSION_ORIGIN
#define NAMES_TOLD 5u
#define KEEP_TIMEOUT_MS UINT64_C(600000)

struct tree_request {
        const char *label, *checkpoint;
        json_t *answer;
};

static int operate(struct sbx_sessions *sessions, const char *principal, const char *id, const char *what,
                   int (*run)(struct sbx_session *, void *, const struct sbx_call *, struct sbx_error *),
                   struct tree_request *request, const struct sbx_call *call, json_t **ret, struct sbx_error *err) {
        struct sbx_operation operation = {.principal = principal,
                                          .id = id,
                                          .on = SBX_ON_STORED,
                                          .limit_ms = KEEP_TIMEOUT_MS,
                                          .what = what,
                                          .run = run,
                                          .data = request};
        int r = sbx_session_operate(sessions, &operation, call, err);

        if (r == 0)
                *ret = steal_pointer(request->answer);
        json_decref(request->answer);
        return r;
}

static const struct sbx_tree *tree_of(const struct sbx_session *session) {
        return sbx_vault_tree(session->vault);
}

/* ---- finding one ---- */

static int refuse_unknown(const struct sbx_session *session, const char *name, struct sbx_error *err) {
        _cleanup_buffer_ struct sbx_buffer names = SBX_BUFFER(1024);
        const struct sbx_tree *tree = tree_of(session);

        for (size_t i = tree->count; i-- > 0 && tree->count - i <= NAMES_TOLD;) {
                const struct sbx_checkpoint *at = tree->items[i];

                (void)sbx_buffer_printf(&names, "%s%s%s%s%s", names.size > 0 ? ", " : "", at->id,
                                        at->label != NULL ? " (\"" : "", at->label != NULL ? at->label : "",
                                        at->label != NULL ? "\")" : "");
        }
        if (tree->count == 0)
                return sbx_error_set(err, -ENOENT, ORIGIN, "checkpoint_session makes one.",
                                     "session '%s' has no checkpoint", session->id);
        return sbx_error_set(err, -ENOENT, ORIGIN, "list_checkpoints shows them all.",
                             "session '%s' has no checkpoint '%.*s'; the newest are %s", session->id,
                             (int)SBX_CHECKPOINT_LABEL_MAX, name, names.size > 0 ? names.data : "?");
}

int sbx_session_find_checkpoint(const struct sbx_session *session, const char *name,
                                const struct sbx_checkpoint **ret_checkpoint, struct sbx_error *err) {
        const struct sbx_tree *tree = tree_of(session);
        const struct sbx_checkpoint *found = NULL;

        if (name != NULL)
                found = sbx_tree_find(tree, name);
        else if (tree->count > 0)
                found = tree->items[tree->count - 1];
        if (found == NULL)
                return refuse_unknown(session, name, err);
        *ret_checkpoint = found;
        return 0;
}

static json_t *describe_in(const struct sbx_tree *tree, const struct sbx_checkpoint *checkpoint, bool durable,
                           bool copy) {
        json_t *json = sbx_checkpoint_json(tree, checkpoint);

        if (json == NULL || json_object_set_new(json, "durable", json_boolean(durable)) < 0 ||
            json_object_set_new(json, "copy", json_boolean(copy)) < 0) {
                json_decref(json);
                return NULL;
        }
        return json;
}

static json_t *describe(struct sbx_session *session, const struct sbx_checkpoint *checkpoint) {
        return describe_in(tree_of(session), checkpoint,
                           checkpoint->part_count > 0 && sbx_vault_durable(session->vault),
                           sbx_copies_find(session, checkpoint->id) != NULL);
}

static double milliseconds_since(uint64_t began_ns) {
        return (double)((sbx_clock_ns() - began_ns) / 1000) / 1000.0;
}

/* ---- making one ---- */

static int copy_besides(struct sbx_session *session, const struct sbx_checkpoint *given, const char *id,
                        const struct sbx_call *call, struct sbx_error *err) {
        int r = sbx_copies_possible(session) && !session->uncopyable
                        ? sbx_copies_make(session, given, id, call, err)
                        : sbx_error_set(err, -ENOTSUP, ORIGIN, NULL,
                                        "environment '%s' can neither save the state of session '%s' nor copy it",
                                        session->backend->instance->name, session->id);

        if (r == -ENOTSUP)
                session->uncopyable = true;
        return r;
}

/* Kept as parts, and as a copy where that can be: the copy is quick to go back to, and has what parts can't hold. */
static int make_checkpoint(struct sbx_session *session, const struct sbx_checkpoint *given, const struct sbx_call *call,
                           struct sbx_error *err) {
        const struct sbx_state_budget budget = {.bytes_max = SBX_STATE_BYTES_MAX};
        _cleanup_state_ struct sbx_session_state state = {0};
        const struct sbx_checkpoint *checkpoint = NULL;
        struct sbx_error problem = {0}, ignored = {0};
        int r = sbx_state_take(session->guest, &budget, call, &state, &problem);

        if (r == 0)
                r = sbx_session_keep(session, given, &state, false, call, &checkpoint, &problem);
        if (r == 0) {
                if (sbx_copies_possible(session))
                        (void)copy_besides(session, given, session->current, call, &ignored);
                return 0;
        }
        /* What can't be taken apart can still be copied; a store that fails is no reason for less than was asked for.
         */
        if ((r == -ENOTSUP || r == -EFBIG) && session->vault != NULL && sbx_guest_alive(session->guest) &&
            sbx_copies_possible(session))
                return copy_besides(session, given, "", call, err);
        if (err != NULL && err->code == 0)
                *err = problem;
        return r;
}

static int run_checkpoint(struct sbx_session *session, void *data, const struct sbx_call *call, struct sbx_error *err) {
        struct tree_request *request = data;
        const struct sbx_checkpoint *checkpoint;
        struct sbx_checkpoint given = {0};
        uint64_t began_ns = sbx_clock_ns();
        char label[SBX_CHECKPOINT_LABEL_MAX + 1] = "";
        json_t *unsaved;
        int r = request->label != NULL ? sbx_checkpoint_check_label(request->label, err) : 0;

        if (r == 0)
                r = sbx_session_ready(session, 0, call, err);
        if (r < 0)
                return r;
        given.executions = session->executions;
        if (request->label != NULL) {
                snprintf(label, sizeof(label), "%s", request->label);
                given.label = label;
        }
        r = make_checkpoint(session, &given, call, err);
        if (r < 0)
                return r;
        checkpoint = sbx_tree_find(tree_of(session), session->current);
        request->answer = checkpoint != NULL ? describe(session, checkpoint) : NULL;
        unsaved = checkpoint != NULL ? json_object_get(checkpoint->about, "unsaved") : NULL;
        if (request->answer == NULL ||
            json_object_set_new(request->answer, "unsaved", unsaved != NULL ? json_deep_copy(unsaved) : json_array()) <
                    0 ||
            json_object_set_new(request->answer, "took_ms", json_real(milliseconds_since(began_ns))) < 0)
                return SBX_NOMEM(err, ORIGIN);
        return 0;
}

int sbx_sessions_checkpoint(struct sbx_sessions *sessions, const char *principal, const char *id, const char *label,
                            const struct sbx_call *call, json_t **ret, struct sbx_error *err) {
        struct tree_request request = {.label = label};

        return operate(sessions, principal, id, "its state was saved", run_checkpoint, &request, call, ret, err);
}

/* ---- listing them ---- */

static int run_list(struct sbx_session *session, void *data, const struct sbx_call *call, struct sbx_error *err) {
        struct tree_request *request = data;
        const struct sbx_tree *tree;

        json_decref(request->answer);
        request->answer = json_array();
        sbx_copies_prune(session);
        tree = tree_of(session);
        for (size_t i = 0; i < tree->count; i++)
                if (request->answer == NULL ||
                    json_array_append_new(request->answer, describe(session, tree->items[i])) < 0)
                        return SBX_NOMEM(err, ORIGIN);
        return request->answer != NULL ? 0 : SBX_NOMEM(err, ORIGIN);
}

static bool is_here(struct sbx_sessions *sessions, const char *principal, const char *id) {
        SBX_LOCKED(&sessions->lock);
        return sbx_table_find_locked(sessions, principal, id) != NULL;
}

/* Of a session that does not run here. It may run elsewhere: looking takes no lease. */
static int list_stored(struct sbx_sessions *sessions, const char *principal, const char *id,
                       const struct sbx_call *call, json_t **ret, struct sbx_error *err) {
        _cleanup_json_ json_t *list = json_array();
        struct sbx_tree tree = {0};
        int r = sbx_vaults_look(sessions->vaults, principal, id, call, &tree, err);

        for (size_t i = 0; r == 0 && i < tree.count; i++)
                if (list == NULL || json_array_append_new(list, describe_in(&tree, tree.items[i], true, false)) < 0)
                        r = SBX_NOMEM(err, ORIGIN);
        sbx_tree_clear(&tree);
        if (r == 0)
                *ret = steal_pointer(list);
        return r;
}

int sbx_sessions_checkpoints(struct sbx_sessions *sessions, const char *principal, const char *id,
                             const struct sbx_call *call, json_t **ret, struct sbx_error *err) {
        struct tree_request request = {0};
        struct sbx_error unknown = {0};
        int r;

        principal = principal != NULL ? principal : "";
        id = id != NULL ? id : SBX_SESSION_DEFAULT;
        if (!is_here(sessions, principal, id)) {
                r = list_stored(sessions, principal, id, call, ret, &unknown);
                if (r != -ENOENT) {
                        if (r < 0 && err != NULL)
                                *err = unknown;
                        return r;
                }
        }
        return operate(sessions, principal, id, "its checkpoints were listed", run_list, &request, call, ret, err);
}

/* ---- going back to one ---- */

struct going_back {
        char id[SBX_CHECKPOINT_ID_SIZE];
        uint64_t executions, memory_bytes; /* memory_bytes: what the guest may have */
        enum sbx_mechanism mechanism;
        struct sbx_guest_process *guest; /* that has its state */
        json_t *missing;
};

/* Without the session's guest being touched, so that nothing is lost where it does not work. */
static int prepare(struct sbx_session *session, const struct sbx_checkpoint *checkpoint, struct going_back *back,
                   const struct sbx_call *call, struct sbx_error *err) {
        struct sbx_error ignored = {0};
        int r = -ENOENT;

        back->mechanism = sbx_copies_mechanism(session);
        back->memory_bytes = session->memory_limit_bytes; /* a copy has what its original had */
        if (sbx_copies_find(session, back->id) != NULL && session->guest != NULL)
                r = sbx_copies_use(session, back->id, false, call, &back->guest, &ignored);
        if (r == 0 || sbx_copies_find(session, back->id) != NULL)
                return r;
        if (checkpoint->part_count == 0)
                return refuse_unknown(session, checkpoint->id, err);
        back->mechanism = checkpoint->mechanism;
        back->memory_bytes = sbx_session_memory(session, 0);
        return sbx_session_restore(session, session->vault, checkpoint, back->memory_bytes, call, &back->guest,
                                   &back->missing, err);
}

/* There is a copy that can take the place of the session's guest, which has to end first. */
static int take_place(struct sbx_session *session, struct going_back *back, const struct sbx_call *call,
                      struct sbx_error *err) {
        char reason[64 + SBX_CHECKPOINT_ID_SIZE];
        int r;

        if (session->guest != NULL) {
                sbx_guest_end(session->guest);
                sbx_session_bury(session);
        }
        r = sbx_copies_use(session, back->id, false, call, &back->guest, err);
        if (r == 0 || session->fall != NULL)
                return r;
        snprintf(reason, sizeof(reason), "the copy of checkpoint %s ended when it was needed", back->id);
        session->fall = strdup(reason);
        return r;
}

static void adopt(struct sbx_session *session, struct going_back *back) {
        if (session->guest != NULL)
                sbx_guest_end(session->guest);
        sbx_session_adopt(session, steal_pointer(back->guest), back->memory_bytes);
        memcpy(session->current, back->id, sizeof(session->current));
        sbx_notice_clear(session);
        if (session->executions == 0) {
                SBX_LOCKED(&session->owner->lock);
                session->executions = back->executions;
        }
}

static int go_back(struct sbx_session *session, const struct sbx_checkpoint *checkpoint, struct going_back *back,
                   const struct sbx_call *call, struct sbx_error *err) {
        int r = prepare(session, checkpoint, back, call, err);

        if (r < 0 && sbx_copies_find(session, back->id) == NULL)
                return r;
        r = sbx_vault_move(session->vault, back->id, call, err);
        if (r == -ESTALE)
                sbx_session_give_up(session);
        if (r == 0 && back->guest == NULL)
                r = take_place(session, back, call, err);
        if (r == 0)
                adopt(session, back);
        sbx_guest_free(back->guest);
        return r;
}

static int run_rollback(struct sbx_session *session, void *data, const struct sbx_call *call, struct sbx_error *err) {
        struct tree_request *request = data;
        const struct sbx_checkpoint *checkpoint = NULL;
        struct going_back back = {0};
        uint64_t began_ns = sbx_clock_ns();
        int r;

        sbx_copies_prune(session);
        r = sbx_session_find_checkpoint(session, request->checkpoint, &checkpoint, err);
        if (r < 0)
                return r;
        memcpy(back.id, checkpoint->id, sizeof(back.id));
        back.executions = checkpoint->executions;
        r = go_back(session, checkpoint, &back, call, err);
        checkpoint = r == 0 ? sbx_tree_find(tree_of(session), back.id) : NULL;
        if (checkpoint != NULL)
                request->answer = describe(session, checkpoint);
        if (back.missing == NULL)
                back.missing = json_array();
        if (r == 0 &&
            (request->answer == NULL || json_object_set(request->answer, "missing", back.missing) < 0 ||
             json_object_set_new(request->answer, "mechanism", json_string(sbx_mechanism_name(back.mechanism))) < 0 ||
             json_object_set_new(request->answer, "took_ms", json_real(milliseconds_since(began_ns))) < 0))
                r = SBX_NOMEM(err, ORIGIN);
        json_decref(back.missing);
        return r;
}

int sbx_sessions_rollback(struct sbx_sessions *sessions, const char *principal, const char *id, const char *checkpoint,
                          const struct sbx_call *call, json_t **ret, struct sbx_error *err) {
        struct tree_request request = {.checkpoint = checkpoint};
        int r = operate(sessions, principal, id, "it was rolled back", run_rollback, &request, call, ret, err);

        if (r == 0)
                sbx_session_tell(sessions, principal, id);
        return r;
}

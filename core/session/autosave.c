/* SPDX-License-Identifier: Apache-2.0 */
/* Automatic checkpoints: what an execution left behind is kept before its result is returned, within a budget, so that
 * a guest, a server or a machine that ends takes at most the execution with it that was running. */
#include "session/state.h"

#include <inttypes.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"

#define ORIGIN SBX_SESSION_ORIGIN
#define TIME_DEFAULT_MS UINT64_C(2000)
#define SIZE_DEFAULT (UINT64_C(256) << 20)
#define WAIT_DEFAULT_MS UINT64_C(100)
#define LARGE_BYTES (UINT64_C(4) << 20)  /* smaller states are waited for, however busy the machine is */
#define GRACE_MS UINT64_C(2000)          /* for a guest that does not notice by itself that its time is over */
#define STORE_TIMEOUT_MS UINT64_C(10000) /* a store that says nothing for so long has not kept it */
#define TOLD_MAX ((size_t)1 << 20)

/* ---- how the backend is configured ---- */

static const struct sbx_value *setting(const struct sbx_session *session, const char *name) {
        const struct sbx_instance *instance = session->backend->instance;
        const struct sbx_value *value =
                instance->core_settings != NULL ? sbx_settings_get(instance->core_settings, name) : NULL;

        return value != NULL && value->set ? value : NULL;
}

static bool policy_is(const struct sbx_session *session, const char *policy) {
        const struct sbx_value *value = setting(session, "checkpoint");

        return strcmp(value != NULL ? value->string : "always", policy) == 0;
}

bool sbx_session_saves(const struct sbx_session *session) {
        return !policy_is(session, "off");
}

struct sbx_state_budget sbx_session_budget(const struct sbx_session *session) {
        const struct sbx_value *time = setting(session, "checkpoint_time"), *size = setting(session, "checkpoint_size");

        return (struct sbx_state_budget){
                .bytes_max = size != NULL ? (uint64_t)size->integer : SIZE_DEFAULT,
                .time_ms = time != NULL ? (uint64_t)time->integer : TIME_DEFAULT_MS,
        };
}

/* Executions do not wait for it: the keeper takes it once the session is quiet. */
static bool is_put_off(const struct sbx_session *session) {
        const struct sbx_value *wait = setting(session, "checkpoint_wait");
        uint64_t wait_ms = wait != NULL ? (uint64_t)wait->integer : WAIT_DEFAULT_MS;

        return session->kept_bytes >= LARGE_BYTES && session->kept_ns > wait_ms * SBX_NS_PER_MS;
}

/* ---- keeping a state ---- */

int sbx_session_keep(struct sbx_session *session, const struct sbx_checkpoint *given, struct sbx_session_state *state,
                     bool soon, const struct sbx_call *call, const struct sbx_checkpoint **ret_checkpoint,
                     struct sbx_error *err) {
        const struct sbx_checkpoint *checkpoint = NULL;
        int r;

        sbx_session_identify(session);
        r = sbx_vault_add(session->vault, given, state, soon, call, &checkpoint, err);
        if (r == -ESTALE)
                sbx_session_give_up(session);
        if (r < 0)
                return r;
        memcpy(session->current, checkpoint->id, sizeof(session->current));
        session->unstored = false;
        sbx_copies_prune(session);
        *ret_checkpoint = sbx_tree_find(sbx_vault_tree(session->vault), session->current);
        return 0;
}

struct saving {
        json_t *before; /* what the checkpoint before holds; NULL: there is none */
        json_t *about;  /* what this one holds; NULL: there is none */
        char id[SBX_CHECKPOINT_ID_SIZE];
        enum sbx_mechanism mechanism;
        uint64_t bytes, began_ns;
};

static void cleanup_saving(struct saving *saving) {
        json_decref(saving->before);
        json_decref(saving->about);
}

static void note_checkpoint(struct saving *saving, const struct sbx_checkpoint *checkpoint) {
        json_decref(saving->about);
        saving->about = json_incref(checkpoint->about);
        saving->mechanism = checkpoint->mechanism;
        saving->bytes = checkpoint->bytes;
        memcpy(saving->id, checkpoint->id, sizeof(saving->id));
}

/* Of the newest checkpoint, if the policy is to keep nothing that is the same. */
static const char *known_digest(const struct sbx_session *session, const struct sbx_checkpoint *head) {
        return head != NULL && head->part_count > 0 && policy_is(session, "changed")
                       ? json_string_value(json_object_get(head->about, "digest"))
                       : NULL;
}

/* Nobody cancels it: what was executed is kept, also where the session ends with this server. */
static int save(struct sbx_session *session, struct saving *saving, struct sbx_error *err) {
        _cleanup_state_ struct sbx_session_state state = {0};
        struct sbx_state_budget budget = sbx_session_budget(session);
        struct sbx_call call = {.struct_size = sizeof(call),
                                .cancel_fd = -1,
                                .deadline_ns = sbx_clock_deadline_ms(budget.time_ms + GRACE_MS)};
        const struct sbx_checkpoint given = {.automatic = true, .executions = session->executions};
        const struct sbx_checkpoint *checkpoint = sbx_session_head(session);
        int r;

        saving->before = checkpoint != NULL ? json_incref(checkpoint->about) : NULL;
        budget.known_digest = known_digest(session, checkpoint);
        r = sbx_state_take(session->guest, &budget, &call, &state, err);
        if (r == 0) {
                call.deadline_ns = sbx_clock_deadline_ms(STORE_TIMEOUT_MS);
                r = sbx_session_keep(session, &given, &state, true, &call, &checkpoint, err);
        } else if (r == 1) {
                memcpy(session->current, checkpoint->id, sizeof(session->current));
                r = 0;
        }
        if (r == 0)
                note_checkpoint(saving, checkpoint);
        return r;
}

/* ---- what is told of it ---- */

static bool names_it(const json_t *unsaved, const json_t *entry) {
        for (size_t i = 0; i < json_array_size(unsaved); i++) {
                const json_t *at = json_array_get(unsaved, i);

                if (json_equal(json_object_get(at, "name"), json_object_get(entry, "name")) &&
                    json_equal(json_object_get(at, "type"), json_object_get(entry, "type")))
                        return true;
        }
        return false;
}

/* What is not in the checkpoint; "new" is what the one before did not name. */
static json_t *tell_unsaved(const struct saving *saving) {
        const json_t *before = json_object_get(saving->before, "unsaved");
        json_t *unsaved = json_deep_copy(json_object_get(saving->about, "unsaved")), *entry;
        size_t i;

        if (unsaved == NULL)
                return json_array();
        json_array_foreach (unsaved, i, entry) {
                if (!names_it(before, entry))
                        json_object_set_new(entry, "new", json_true());
        }
        return unsaved;
}

static char *encode(const json_t *told) {
        _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(TOLD_MAX);

        return told != NULL && sbx_json_encode(told, &text) == 0 ? sbx_buffer_steal(&text) : NULL;
}

static double milliseconds_since(uint64_t began_ns) {
        return (double)((sbx_clock_ns() - began_ns) / 1000) / 1000.0;
}

static char *tell_kept(const struct saving *saving) {
        _cleanup_json_ json_t *told =
                json_pack("{s:s, s:s, s:b, s:I, s:f, s:o}", "id", saving->id, "mechanism",
                          sbx_mechanism_name(saving->mechanism), "durable", 1, "bytes", (json_int_t)saving->bytes,
                          "took_ms", milliseconds_since(saving->began_ns), "unsaved", tell_unsaved(saving));

        return encode(told);
}

static char *tell_unkept(struct sbx_session *session, const struct saving *saving, const char *reason) {
        bool again = session->unkept != NULL && strcmp(session->unkept, reason) == 0;
        _cleanup_json_ json_t *text = sbx_json_text((struct sbx_bytes){reason, strlen(reason)});
        _cleanup_json_ json_t *told =
                json_pack("{s:n, s:b, s:f, s:[], s:O, s:b}", "id", "durable", 0, "took_ms",
                          milliseconds_since(saving->began_ns), "unsaved", "reason", text, "reason_new", (int)!again);

        if (!again) {
                free(session->unkept);
                session->unkept = strdup(reason);
                sbx_log(session->owner->logger, SBX_LOG_WARNING, "session '%s' is not kept: %s", session->id, reason);
        }
        return encode(told);
}

static char *tell_put_off(struct sbx_session *session) {
        _cleanup_json_ json_t *told = NULL;
        char reason[160];

        snprintf(reason, sizeof(reason),
                 "a state of %" PRIu64 " MB takes %" PRIu64 " ms to keep: it is kept once the session is quiet",
                 session->kept_bytes >> 20, session->kept_ns / SBX_NS_PER_MS);
        told = json_pack("{s:n, s:b, s:b, s:f, s:[], s:s, s:b}", "id", "durable", 0, "pending", 1, "took_ms", 0.0,
                         "unsaved", "reason", session->unkept != NULL ? session->unkept : reason, "reason_new", 0);
        return encode(told);
}

/* The checkpoint that the session's state is, or that it goes on from because its guest has just died; NULL: it is to
 * be saved. */
static const struct sbx_checkpoint *is_kept(const struct sbx_session *session) {
        const struct sbx_checkpoint *head = sbx_session_stored_head(session);

        return head != NULL && (session->guest == NULL || strcmp(session->current, head->id) == 0) ? head : NULL;
}

/* What the next one will take, as far as this one tells. One that was too much counts as a large one. */
static void note_cost(struct sbx_session *session, const struct saving *saving, int code) {
        session->kept_ns = sbx_clock_ns() - saving->began_ns;
        session->kept_bytes =
                code == -EFBIG || code == -ETIMEDOUT ? sbx_session_budget(session).bytes_max : saving->bytes;
}

static char *save_and_tell(struct sbx_session *session, bool at_once) {
        __attribute__((cleanup(cleanup_saving))) struct saving saving = {.began_ns = sbx_clock_ns()};
        const struct sbx_checkpoint *kept;
        struct sbx_error problem = {0};
        const char *why;
        int r = -ESRCH;

        if (!sbx_vault_durable(session->vault)) {
                why = sbx_vault_problem(session->vault);
                return tell_unkept(session, &saving, why != NULL ? why : "there is no store");
        }
        kept = is_kept(session);
        if (kept != NULL) {
                saving.before = json_incref(kept->about);
                note_checkpoint(&saving, kept);
                return tell_kept(&saving);
        }
        if (!at_once && session->guest != NULL && is_put_off(session)) {
                session->unstored = true;
                return tell_put_off(session);
        }
        if (session->guest != NULL) {
                r = save(session, &saving, &problem);
                note_cost(session, &saving, r);
        } else {
                sbx_error_set(&problem, r, ORIGIN, NULL, "its interpreter ended, and it has no checkpoint");
        }
        if (r < 0) {
                if (session->guest != NULL)
                        sbx_session_settle(session, "its interpreter ended while its state was saved");
                return tell_unkept(session, &saving, problem.message[0] != '\0' ? problem.message : SBX_ERRNO_TEXT(r));
        }
        free(steal_pointer(session->unkept));
        return tell_kept(&saving);
}

/* What is destroyed is not kept first. */
static bool is_destroyed(const struct sbx_session *session) {
        SBX_LOCKED(&session->owner->lock);
        return session->destroyed;
}

static char *autosave(struct sbx_session *session, bool at_once) {
        session->unstored = false;
        return session->durable && session->vault != NULL && sbx_session_saves(session) && !is_destroyed(session)
                       ? save_and_tell(session, at_once)
                       : NULL;
}

void sbx_session_autosave(struct sbx_session *session, char **ret_told) {
        char *told = autosave(session, false);

        if (ret_told != NULL)
                *ret_told = told;
        else
                free(told);
}

void sbx_session_store(struct sbx_session *session) {
        if (session->unstored && session->guest != NULL && sbx_guest_alive(session->guest) && session->vault != NULL &&
            !sbx_vault_lost(session->vault))
                free(autosave(session, true));
}

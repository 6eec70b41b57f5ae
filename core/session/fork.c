/* SPDX-License-Identifier: Apache-2.0 */
/* Branches: a new session that begins as another one is, or was at one of its checkpoints. */
#include "session/state.h"

#include <sys/random.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"

#define ORIGIN SBX_SESSION_ORIGIN
#define FORK_TIMEOUT_MS UINT64_C(600000)
#define NAME_TRIES 8u

struct fork {
        const char *checkpoint, *wanted_id;
        char id[SBX_SESSION_ID_MAX + 1]; /* of the new session */
        json_t *answer;
};

/* What a branch begins with: one of the two. */
struct beginning {
        struct sbx_guest_process *guest;
        struct sbx_session_state state;
        char from[SBX_CHECKPOINT_ID_SIZE]; /* "": as the origin is now */
        uint64_t executions;
        enum sbx_mechanism mechanism;
        json_t *missing;
};

static void cleanup_beginning(struct beginning *beginning) {
        sbx_guest_free(beginning->guest);
        sbx_state_clear(&beginning->state);
        json_decref(beginning->missing);
}

/* ---- the new session ---- */

static int make_up_id(const struct sbx_session *origin, char ret_id[SBX_SESSION_ID_MAX + 1], struct sbx_error *err) {
        unsigned char bytes[3];

        if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
                return sbx_error_set(err, -EIO, ORIGIN, NULL, "there are no random numbers for a name");
        snprintf(ret_id, SBX_SESSION_ID_MAX + 1, "%.*s-%02x%02x%02x", SBX_SESSION_ID_MAX - 7, origin->id, bytes[0],
                 bytes[1], bytes[2]);
        return 0;
}

static int check_new(struct sbx_session *branch, struct sbx_error *err) {
        struct sbx_vault_identity identity;

        if (sbx_vault_tree(branch->vault)->count == 0 && !sbx_vault_identity(branch->vault, &identity))
                return 0;
        return sbx_error_set(err, -EEXIST, ORIGIN, "Use another session_id for the new one, or leave it out.",
                             "there is a stored session '%s' already", branch->id);
}

static int take_branch(struct sbx_session *origin, const char *id, const struct sbx_call *call,
                       struct sbx_session **ret_branch, struct sbx_error *err) {
        _cleanup_turn_ struct sbx_session *branch = NULL;
        int r = sbx_session_take_branch(origin, id, &branch, err);

        if (r == 0)
                r = sbx_session_open(branch, true, call, err);
        if (r == 0)
                r = check_new(branch, err);
        if (r == 0)
                r = sbx_session_begin(branch, true, origin->backend->instance->name, origin->runtime.text, call, err);
        if (r < 0)
                return r;
        branch->memory_limit_bytes = origin->memory_limit_bytes;
        *ret_branch = steal_pointer(branch);
        return 0;
}

static int take_named(struct sbx_session *origin, struct fork *fork, const struct sbx_call *call,
                      struct sbx_session **ret_branch, struct sbx_error *err) {
        struct sbx_error problem = {0};
        int r = -EEXIST;

        if (fork->wanted_id != NULL) {
                snprintf(fork->id, sizeof(fork->id), "%s", fork->wanted_id);
                return take_branch(origin, fork->wanted_id, call, ret_branch, err);
        }
        for (unsigned i = 0; r == -EEXIST && i < NAME_TRIES; i++) {
                problem = (struct sbx_error){0};
                r = make_up_id(origin, fork->id, &problem);
                if (r == 0)
                        r = take_branch(origin, fork->id, call, ret_branch, &problem);
        }
        if (r < 0 && err != NULL && err->code == 0)
                *err = problem;
        return r;
}

/* ---- what it begins with ---- */

/* A copy that runs beside the other guest; not every backend has such. */
static int copy_beside(const struct sbx_session *branch, struct sbx_guest_process *guest, const struct sbx_call *call,
                       struct beginning *beginning) {
        struct sbx_error problem = {0};
        char label[SBX_SESSION_LABEL_SIZE];
        struct sbx_guest_spec spec;
        int r;

        sbx_session_describe(branch, branch->memory_limit_bytes, label, &spec);
        r = sbx_guest_fork(guest, &spec, call, &beginning->guest, &problem);
        if (r == 0)
                beginning->mechanism = sbx_copies_mechanism(branch);
        else
                sbx_log(branch->owner->logger, SBX_LOG_DEBUG, "session '%s' begins from parts: %s", branch->id,
                        problem.message);
        return r;
}

static int begin_now(struct sbx_session *origin, const struct sbx_session *branch, const struct sbx_call *call,
                     struct beginning *beginning, struct sbx_error *err) {
        const struct sbx_state_budget budget = {.bytes_max = SBX_STATE_BYTES_MAX};
        int r;

        beginning->executions = origin->executions;
        if (sbx_copies_possible(branch) && copy_beside(branch, origin->guest, call, beginning) == 0)
                return 0;
        r = sbx_state_take(origin->guest, &budget, call, &beginning->state, err);
        if (r < 0)
                return r;
        beginning->mechanism = beginning->state.mechanism;
        return 0;
}

static int begin_then(struct sbx_session *origin, const struct sbx_session *branch,
                      const struct sbx_checkpoint *checkpoint, const struct sbx_call *call, struct beginning *beginning,
                      struct sbx_error *err) {
        struct sbx_guest_process *copy = sbx_copies_find(origin, checkpoint->id);
        unsigned part_count = checkpoint->part_count;
        json_t *about;
        int r;

        memcpy(beginning->from, checkpoint->id, sizeof(beginning->from));
        beginning->executions = checkpoint->executions;
        beginning->mechanism = checkpoint->mechanism;
        if (copy != NULL && copy_beside(branch, copy, call, beginning) == 0)
                return 0;
        if (part_count == 0)
                return sbx_error_set(
                        err, -ENOTSUP, ORIGIN,
                        "Go back to it with rollback_session, and fork the session as it is then.",
                        "checkpoint '%s' of session '%s' is a copy of its process, which can't run beside it",
                        beginning->from, origin->id);
        r = sbx_vault_read(origin->vault, beginning->from, call, &beginning->state, err);
        if (r < 0)
                return r;
        about = json_deep_copy(beginning->state.about); /* the origin's tree has that one, and another thread soon */
        json_decref(beginning->state.about);
        beginning->state.about = about;
        return about != NULL ? 0 : SBX_NOMEM(err, ORIGIN);
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

static int give(struct sbx_session *branch, struct beginning *beginning, uint64_t memory_bytes,
                const struct sbx_call *call, struct sbx_error *err) {
        struct fresh fresh = {branch, memory_bytes};
        const struct sbx_state_start start = {&fresh, start_fresh};
        char label[SBX_SESSION_LABEL_SIZE];
        struct sbx_guest_spec spec;

        sbx_session_describe(branch, memory_bytes, label, &spec);
        return sbx_state_give(branch->backend->instance, &spec, &beginning->state, &start, call, &beginning->guest,
                              &beginning->missing, err);
}

/* A branch that was made of parts is stored at once, as they are there. Of a copy nobody waits for that. */
static int store(struct sbx_session *branch, struct beginning *beginning, const struct sbx_call *call,
                 struct sbx_error *err) {
        const struct sbx_checkpoint given = {.automatic = true, .executions = beginning->executions};
        const struct sbx_checkpoint *checkpoint = NULL;

        if (!branch->durable || !sbx_session_saves(branch) || !sbx_vault_durable(branch->vault))
                return 0;
        if (beginning->state.part_count > 0)
                return sbx_session_keep(branch, &given, &beginning->state, true, call, &checkpoint, err);
        branch->unstored = true;
        return 0;
}

/* ---- all of it ---- */

static json_t *answer(const struct sbx_session *origin, const struct sbx_session *branch,
                      const struct beginning *beginning, uint64_t began_ns) {
        double took_ms = (double)((sbx_clock_ns() - began_ns) / 1000) / 1000.0;
        json_t *missing = beginning->missing != NULL ? json_incref(beginning->missing) : json_array();

        return json_pack("{s:s, s:s, s:s?, s:s, s:b, s:o, s:f}", "session_id", branch->id, "from", origin->id,
                         "checkpoint", beginning->from[0] != '\0' ? beginning->from : NULL, "mechanism",
                         sbx_mechanism_name(beginning->mechanism), "durable",
                         (int)(branch->durable && branch->current[0]), "missing", missing, "took_ms", took_ms);
}

static int run_fork(struct sbx_session *origin, void *data, const struct sbx_call *call, struct sbx_error *err) {
        _cleanup_turn_ struct sbx_session *branch = NULL;
        /* Given back before the turn is: what it holds may be the branch's, too. */
        __attribute__((cleanup(cleanup_beginning))) struct beginning beginning = {0};
        const struct sbx_checkpoint *checkpoint = NULL;
        uint64_t began_ns = sbx_clock_ns(), memory_bytes;
        struct fork *fork = data;
        int r;

        sbx_copies_prune(origin);
        r = fork->checkpoint != NULL ? sbx_session_find_checkpoint(origin, fork->checkpoint, &checkpoint, err)
                                     : sbx_session_ready(origin, 0, call, err);
        if (r == 0)
                r = take_named(origin, fork, call, &branch, err);
        if (r < 0)
                return r;
        r = checkpoint != NULL ? begin_then(origin, branch, checkpoint, call, &beginning, err)
                               : begin_now(origin, branch, call, &beginning, err);
        /* A copy has what its original had. */
        memory_bytes = beginning.guest != NULL ? origin->memory_limit_bytes : sbx_session_memory(origin, 0);
        if (r == 0 && beginning.guest == NULL)
                r = give(branch, &beginning, memory_bytes, call, err);
        if (r == 0)
                r = store(branch, &beginning, call, err);
        if (r < 0)
                return r;
        sbx_session_adopt(branch, steal_pointer(beginning.guest), memory_bytes);
        pthread_mutex_lock(&branch->owner->lock);
        branch->executions = beginning.executions;
        pthread_mutex_unlock(&branch->owner->lock);
        sbx_keeper_mark(branch);
        fork->answer = answer(origin, branch, &beginning, began_ns);
        return fork->answer != NULL ? 0 : SBX_NOMEM(err, ORIGIN);
}

int sbx_sessions_fork(struct sbx_sessions *sessions, const char *principal, const char *id, const char *checkpoint,
                      const char *new_id, const struct sbx_call *call, json_t **ret, struct sbx_error *err) {
        struct fork fork = {.checkpoint = checkpoint, .wanted_id = new_id};
        struct sbx_operation operation = {.principal = principal,
                                          .id = id,
                                          .on = SBX_ON_STORED,
                                          .limit_ms = FORK_TIMEOUT_MS,
                                          .what = "it was copied",
                                          .run = run_fork,
                                          .data = &fork};
        int r = sbx_session_operate(sessions, &operation, call, err);

        if (r < 0) {
                json_decref(fork.answer);
                return r;
        }
        *ret = fork.answer;
        sbx_session_tell(sessions, principal, fork.id);
        return 0;
}

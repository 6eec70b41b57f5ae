/* SPDX-License-Identifier: Apache-2.0 */
/* A resumed run goes on with what the store has of its sessions.
 *
 * The record of an execution names the checkpoint that the session made after it. A process can be killed between the
 * two: then the store has a state that the journal knows nothing of, and the execution will be done once more. So a
 * session is not taken as it stands in the store, but rolled back to the newest checkpoint that a record names. */
#include "agent/restore.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"

#define ORIGIN SBX_AGENT_ORIGIN
#define MISSING_SHOWN 10u

void sbx_restored_clear(struct sbx_restored *restored) {
        json_decref(restored->since);
        json_decref(restored->given);
        *restored = (struct sbx_restored){0};
}

static const char *text_in(const json_t *record, const char *member) {
        const char *text = json_string_value(json_object_get(record, member));

        return text != NULL ? text : "";
}

/* ---- what the journal says ---- */

struct survey {
        struct sbx_run *run;
        json_t *sessions; /* {name: {"lost": key, "states": [[key, checkpoint], ...]}} */
};

/* Checkpoints of these names were gone when it was written: those that have their ids now are others. */
static void forget_states(struct survey *survey, const json_t *names) {
        json_t *name;
        size_t index;

        json_array_foreach ((json_t *)names, index, name) {
                const char *text = json_string_value(name);

                if (text != NULL)
                        json_array_clear(json_object_get(json_object_get(survey->sessions, text), "states"));
        }
}

static json_t *session_of(struct survey *survey, const char *name) {
        json_t *session = json_object_get(survey->sessions, name);

        if (session != NULL)
                return session;
        session = json_pack("{s:[]}", "states");
        return json_object_set_new(survey->sessions, name, session) == 0 ? session : NULL;
}

static int look_at(void *data, const char *key, const json_t *record) {
        struct survey *survey = data;
        const char *checkpoint = text_in(record, "checkpoint");
        char name[SBX_RESTORE_NAME_SIZE];
        json_t *session;

        if (strcmp(text_in(record, "type"), "restoring") == 0)
                forget_states(survey, json_object_get(record, "sessions"));
        if (!sbx_restore_needs(survey->run, record, name))
                return 0;
        session = session_of(survey, name);
        if (session == NULL)
                return -ENOMEM;
        if (strcmp(text_in(record, "state"), sbx_state_name(SBX_STATE_LOST)) == 0) {
                json_array_clear(json_object_get(session, "states"));
                return json_object_set_new(session, "lost", json_string(key)) < 0 ? -ENOMEM : 0;
        }
        if (checkpoint[0] == '\0')
                return 0;
        return json_array_append_new(json_object_get(session, "states"), json_pack("[ss]", key, checkpoint)) < 0
                       ? -ENOMEM
                       : 0;
}

/* Tools that ran side by side may have used one session: its state after one of them may hold another's work, which has
 * no record and will be done again. */
static bool turn_is_whole(struct sbx_run *run, const char *key) {
        const char *dot = strrchr(key, '.');
        char turn[SBX_JOURNAL_KEY_MAX], sibling[SBX_JOURNAL_KEY_MAX];
        _cleanup_json_ json_t *answer = NULL;
        size_t count;

        if (!sbx_config_bool(run->parts->config, "parallel_tools") || dot == NULL || dot[1] != 't')
                return true;
        snprintf(turn, sizeof(turn), "%.*s", (int)(dot - key), key);
        if (sbx_key_make(sibling, NULL, turn, ".model") < 0)
                return false;
        answer = sbx_journal_find(run->journal, sibling);
        count = json_array_size(json_object_get(answer, "tool_calls"));
        for (size_t i = 0; i < count; i++) {
                _cleanup_json_ json_t *record = NULL;

                if (sbx_key_make(sibling, NULL, turn, ".t%zu", i) < 0)
                        return false;
                record = sbx_journal_find(run->journal, sibling);
                if (record == NULL)
                        return false;
        }
        return true;
}

/* ---- what the store has ---- */

static const char *id_of(const struct sbx_run *run, const char *name) {
        size_t length = strlen(run->session_principal);

        return strncmp(name, run->session_principal, length) == 0 && name[length] == ' ' ? name + length + 1 : NULL;
}

static bool has_checkpoint(const json_t *checkpoints, const char *id) {
        json_t *checkpoint;
        size_t index;

        json_array_foreach ((json_t *)checkpoints, index, checkpoint) {
                if (strcmp(text_in(checkpoint, "id"), id) == 0)
                        return true;
        }
        return false;
}

static void tell_given(struct sbx_run *run, const char *id, const char *checkpoint, const json_t *answer) {
        const json_t *missing = json_object_get(answer, "missing");
        _cleanup_buffer_ struct sbx_buffer names = SBX_BUFFER(4096);
        json_t *item;
        size_t index;

        sbx_run_notice(run, "Session '%s' goes on from what was stored (checkpoint %s): nothing was executed again.",
                       id, checkpoint);
        json_array_foreach ((json_t *)missing, index, item) {
                if (index < MISSING_SHOWN)
                        (void)sbx_buffer_printf(&names, "%s%.80s (%.80s)", index > 0 ? ", " : "", text_in(item, "name"),
                                                text_in(item, "type"));
        }
        if (names.size > 0)
                sbx_run_notice(run, "Session '%s' is without what could not be stored: %s%s.", id, names.data,
                               json_array_size(missing) > MISSING_SHOWN ? ", and more" : "");
}

/* One that is gone, damaged, or of another image is no reason to fail: an older one may do. */
static bool may_go_on(int r) {
        return r == -ENOENT || r == -EBADMSG || r == -EXDEV || r == -EPROTONOSUPPORT || r == -EINVAL || r == -ENOTSUP;
}

/* The newest of the session's recorded states that comes back. */
static int give_back(struct sbx_run *run, const char *name, const json_t *states, struct sbx_restored *restored,
                     struct sbx_error *err) {
        const char *id = id_of(run, name);
        _cleanup_json_ json_t *checkpoints = NULL;
        struct sbx_error problem = {0};
        int r = sbx_sessions_checkpoints(run->parts->sessions, run->session_principal, id, run->call, &checkpoints,
                                         &problem);

        for (size_t i = json_array_size(states); r == 0 && i > 0; i--) {
                const json_t *state = json_array_get(states, i - 1);
                const char *key = json_string_value(json_array_get(state, 0)),
                           *checkpoint = json_string_value(json_array_get(state, 1));
                _cleanup_json_ json_t *answer = NULL;

                if (!has_checkpoint(checkpoints, checkpoint) || !turn_is_whole(run, key))
                        continue;
                problem = (struct sbx_error){0};
                r = sbx_sessions_rollback(run->parts->sessions, run->session_principal, id, checkpoint, run->call,
                                          &answer, &problem);
                if (r == 0) {
                        tell_given(run, id, checkpoint, answer);
                        return json_object_set_new(restored->since, name, json_string(key)) < 0 ||
                                               json_object_set_new(restored->given, name, json_string(checkpoint)) < 0
                                       ? SBX_NOMEM(err, ORIGIN)
                                       : 0;
                }
                if (may_go_on(r))
                        sbx_run_notice(run, "Checkpoint %s of session '%s' can't be used: %s", checkpoint, id,
                                       problem.message);
                r = may_go_on(r) ? 0 : r;
        }
        if (r < 0 && !may_go_on(r))
                return sbx_error_set(err, r, problem.origin, problem.hint, "%s", problem.message);
        return 0;
}

/* What is in the store and was not given back fits nothing that the journal knows: what is done again begins clean. */
static int remove_others(struct sbx_run *run, const json_t *stored, const struct sbx_restored *restored,
                         struct sbx_error *err) {
        char name[SBX_RESTORE_NAME_SIZE];
        json_t *session;
        size_t index;

        json_array_foreach ((json_t *)stored, index, session) {
                struct sbx_error problem = {0};
                int r;

                snprintf(name, sizeof(name), "%s %s", run->session_principal, text_in(session, "id"));
                if (json_object_get(restored->given, name) != NULL)
                        continue;
                r = sbx_sessions_destroy(run->parts->sessions, run->session_principal, text_in(session, "id"),
                                         &problem);
                if (r < 0 && r != -ENOENT)
                        return sbx_error_set(err, r, problem.origin, problem.hint, "%s", problem.message);
        }
        return 0;
}

/* Before their states are removed, since new ones will have the same ids. */
static int record_forgotten(struct sbx_run *run, json_t *names, struct sbx_error *err) {
        _cleanup_json_ json_t *record = NULL;
        char key[SBX_JOURNAL_KEY_MAX];
        int r = 0;

        if (json_array_size(names) == 0)
                return 0;
        for (unsigned number = 1; r == 0; number++) {
                _cleanup_json_ json_t *earlier = NULL;

                r = sbx_key_make(key, err, "restoring", ".%u", number);
                if (r == 0)
                        earlier = sbx_journal_find(run->journal, key);
                if (earlier == NULL)
                        break;
        }
        record = json_pack("{s:s, s:O}", "type", "restoring", "sessions", names);
        if (r == 0)
                r = sbx_journal_add(run->journal, key, record, err);
        return r < 0 ? r : sbx_journal_sync(run->journal, err);
}

static int choose(struct survey *survey, struct sbx_restored *restored, json_t *forgotten, struct sbx_error *err) {
        struct sbx_run *run = survey->run;
        const char *name;
        json_t *session;
        int r = 0;

        json_object_foreach (survey->sessions, name, session) {
                json_t *states = json_object_get(session, "states"), *lost = json_object_get(session, "lost");

                if (lost != NULL && json_object_set(restored->since, name, lost) < 0)
                        return SBX_NOMEM(err, ORIGIN);
                if (json_array_size(states) == 0 || id_of(run, name) == NULL)
                        continue;
                r = give_back(run, name, states, restored, err);
                if (r < 0)
                        return r;
                if (json_object_get(restored->given, name) != NULL)
                        continue;
                sbx_run_notice(run, "The store has no state of session '%s' that the journal knows of.",
                               id_of(run, name));
                if (json_array_append_new(forgotten, json_string(name)) < 0)
                        return SBX_NOMEM(err, ORIGIN);
        }
        return 0;
}

int sbx_restore_states(struct sbx_run *run, struct sbx_restored *ret_restored, struct sbx_error *err) {
        _cleanup_json_ json_t *sessions = json_object(), *forgotten = json_array(), *stored = NULL;
        struct sbx_restored restored = {.since = json_object(), .given = json_object()};
        struct survey survey = {.run = run, .sessions = sessions};
        struct sbx_error problem = {0};
        int r = sessions != NULL && forgotten != NULL && restored.since != NULL && restored.given != NULL
                        ? sbx_journal_each(run->journal, look_at, &survey)
                        : -ENOMEM;

        if (r == 0)
                r = choose(&survey, &restored, forgotten, err);
        if (r == 0)
                r = record_forgotten(run, forgotten, err);
        /* A store that can't be asked keeps no session, and has not kept any of these. */
        if (r == 0 &&
            sbx_sessions_stored(run->parts->sessions, run->session_principal, run->call, &stored, &problem) == 0)
                r = remove_others(run, stored, &restored, err);
        if (r < 0) {
                sbx_restored_clear(&restored);
                return r == -ENOMEM ? SBX_NOMEM(err, ORIGIN) : r;
        }
        *ret_restored = restored;
        return 0;
}

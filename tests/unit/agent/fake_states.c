/* SPDX-License-Identifier: Apache-2.0 */
/* What is stored of the sessions of fake_world.h: a state for each execution, under ids that begin anew with a session
 * that was removed. Global, as the world is. */
#include "fake_world.h"

#define STATES_MAX 4096u
#define ID_SIZE 16

struct state {
        char principal[160], session[64], id[ID_SIZE];
        unsigned number;
        int64_t n;
        json_t *texts;
        bool damaged;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects what follows */
static struct state *states[STATES_MAX];                 /* oldest first */
static size_t count;
static struct state *marked[STATES_MAX]; /* copies */
static size_t marked_count;
static bool on, keep;
static unsigned executions, rollbacks;

static void free_state(struct state *state) {
        json_decref(state->texts);
        free(state);
}

static void remove_at(size_t index) {
        free_state(states[index]);
        memmove(&states[index], &states[index + 1], (count - index - 1) * sizeof(struct state *));
        count--;
}

static struct state *copy_state(const struct state *state) {
        struct state *copy = malloc(sizeof(*copy));

        assert_non_null(copy);
        *copy = *state;
        copy->texts = json_deep_copy(state->texts);
        return copy;
}

static bool is_of(const struct state *state, const char *principal, const char *id) {
        return strcmp(state->principal, principal) == 0 && (id == NULL || strcmp(state->session, id) == 0);
}

static void remove_matching(const char *principal, const char *id) {
        for (size_t i = count; i > 0; i--)
                if (principal == NULL || is_of(states[i - 1], principal, id))
                        remove_at(i - 1);
}

void world_states_on(bool given_keep) {
        SBX_LOCKED(&lock);
        on = true;
        keep = given_keep;
        executions = rollbacks = 0;
}

static void forget_marked(void) {
        while (marked_count > 0)
                free_state(marked[--marked_count]);
}

void world_states_off(void) {
        SBX_LOCKED(&lock);
        on = keep = false;
        remove_matching(NULL, NULL);
        forget_marked();
}

void world_states_mark(void) {
        SBX_LOCKED(&lock);
        forget_marked();
        for (; marked_count < count; marked_count++)
                marked[marked_count] = copy_state(states[marked_count]);
}

void world_states_back(void) {
        SBX_LOCKED(&lock);
        remove_matching(NULL, NULL);
        for (; count < marked_count; count++)
                states[count] = copy_state(marked[count]);
}

void world_states_lose(void) {
        SBX_LOCKED(&lock);
        remove_matching(NULL, NULL);
}

void world_states_remove(const char *principal, const char *id) {
        SBX_LOCKED(&lock);
        if (id != NULL || !keep)
                remove_matching(principal, id);
}

unsigned world_states(void) {
        SBX_LOCKED(&lock);
        return (unsigned)count;
}

static unsigned newest_number(const char *principal, const char *id) {
        unsigned newest = 0;

        for (size_t i = 0; i < count; i++)
                if (is_of(states[i], principal, id) && states[i]->number > newest)
                        newest = states[i]->number;
        return newest;
}

void world_states_damage(unsigned newest) {
        SBX_LOCKED(&lock);
        for (size_t i = 0; i < count; i++)
                states[i]->damaged =
                        states[i]->number + newest > newest_number(states[i]->principal, states[i]->session);
}

/* As the real ones: those of a run itself, not those of its sub-completions. */
static bool is_durable(const char *principal) {
        return on && strncmp(principal, "run:", 4) == 0 && strchr(principal, '/') == NULL;
}

const char *world_states_add(const struct world_session *session) {
        static _Thread_local char text[160];
        struct state *state;
        SBX_LOCKED(&lock);

        if (!is_durable(session->principal))
                return NULL;
        assert_true(count < STATES_MAX);
        state = calloc(1, sizeof(*state));
        assert_non_null(state);
        snprintf(state->principal, sizeof(state->principal), "%s", session->principal);
        snprintf(state->session, sizeof(state->session), "%s", session->id);
        state->number = newest_number(session->principal, session->id) + 1;
        snprintf(state->id, sizeof(state->id), "c%u", state->number);
        state->n = session->n;
        state->texts = json_deep_copy(session->texts);
        states[count++] = state;
        snprintf(text, sizeof(text), "{\"id\": \"%s\", \"mechanism\": \"portable\", \"durable\": true}", state->id);
        return text;
}

unsigned world_executions(void) {
        unsigned found;
        SBX_LOCKED(&lock);

        found = executions;
        executions = 0;
        return found;
}

unsigned world_rollbacks(void) {
        unsigned found;
        SBX_LOCKED(&lock);

        found = rollbacks;
        rollbacks = 0;
        return found;
}

void world_executed(void) {
        SBX_LOCKED(&lock);
        executions++;
}

/* ---- what the agent asks of core/session ---- */

static int refuse(const char *id, struct sbx_error *err) {
        return sbx_error_set(err, -ENOENT, "fake", NULL, "no session '%s' is stored", id);
}

int sbx_sessions_checkpoints(struct sbx_sessions *all, const char *principal, const char *id,
                             const struct sbx_call *call, json_t **ret, struct sbx_error *err) {
        json_t *list;
        SBX_LOCKED(&lock);

        if (newest_number(principal, id) == 0)
                return refuse(id, err);
        list = json_array();
        for (size_t i = 0; i < count; i++)
                if (is_of(states[i], principal, id))
                        json_array_append_new(list, json_pack("{s:s}", "id", states[i]->id));
        *ret = list;
        return 0;
}

int sbx_sessions_rollback(struct sbx_sessions *all, const char *principal, const char *id, const char *checkpoint,
                          const struct sbx_call *call, json_t **ret, struct sbx_error *err) {
        struct world_session *session = world_session(principal, id, true);
        SBX_LOCKED(&lock);

        for (size_t i = 0; i < count; i++) {
                if (!is_of(states[i], principal, id) || strcmp(states[i]->id, checkpoint) != 0)
                        continue;
                if (states[i]->damaged)
                        return sbx_error_set(err, -EBADMSG, "fake", NULL, "checkpoint %s is damaged", checkpoint);
                session->n = states[i]->n;
                json_decref(session->texts);
                session->texts = json_deep_copy(states[i]->texts);
                rollbacks++;
                *ret = json_pack("{s:s, s:[{s:s, s:s, s:s}]}", "id", checkpoint, "missing", "name", "rows", "type",
                                 "generator", "reason", "it can't be saved");
                return 0;
        }
        return refuse(id, err);
}

int sbx_sessions_stored(struct sbx_sessions *all, const char *principal, const struct sbx_call *call, json_t **ret,
                        struct sbx_error *err) {
        json_t *list = json_array();
        SBX_LOCKED(&lock);

        for (size_t i = 0; i < count; i++)
                if (is_of(states[i], principal, NULL) &&
                    states[i]->number == newest_number(principal, states[i]->session))
                        json_array_append_new(list, json_pack("{s:s, s:b}", "id", states[i]->session, "running", 0));
        *ret = list;
        return 0;
}

/* The tools for clients: none is called here. */
int sbx_sessions_checkpoint(struct sbx_sessions *all, const char *principal, const char *id, const char *label,
                            const struct sbx_call *call, json_t **ret, struct sbx_error *err) {
        return refuse(id, err);
}

int sbx_sessions_fork(struct sbx_sessions *all, const char *principal, const char *id, const char *checkpoint,
                      const char *new_id, const struct sbx_call *call, json_t **ret, struct sbx_error *err) {
        return refuse(id, err);
}

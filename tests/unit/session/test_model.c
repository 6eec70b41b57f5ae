/* SPDX-License-Identifier: Apache-2.0 */
/* The tree of states against a model of it: random executions, crashes, checkpoints, ways back, branches, ends of
 * servers; after each the session is where the model says. A guest's state is the number of executions that led to it,
 * which its next result tells. MODEL_SEEDS: how many random sequences (of each kind of backend). */
#include "fake_store.h"
#include "session/tree.h"

#define STEPS 120
#define SESSIONS 4
#define IDS_MAX 1024

struct model {
        char name[SBX_SESSION_ID_MAX + 1];
        bool exists;
        int state, begun_with;
        int states[IDS_MAX]; /* by the number of the checkpoint's id; -1: nobody was told of it */
};

struct play {
        struct table server;
        struct model models[SESSIONS];
        unsigned seed, names;
};

static void model_begin(struct play *play, struct model *model, int state) {
        *model = (struct model){.exists = true, .state = state, .begun_with = state};
        snprintf(model->name, sizeof(model->name), "m%u", ++play->names);
        for (size_t i = 0; i < IDS_MAX; i++)
                model->states[i] = -1;
}

static void note(struct model *model, const json_t *told) {
        const char *id = json_string_value(json_object_get(told, "id"));
        int number = id != NULL ? atoi(id + 1) : 0;

        assert_non_null(id);
        assert_in_range(number, 1, IDS_MAX - 1);
        model->states[number] = model->state;
}

static void execute(struct play *play, struct model *model, const char *code) {
        _cleanup_json_ json_t *kept = NULL;

        assert_int_equal(run(&play->server, model->name, code), 0);
        kept = kept_by(&play->server);
        if (strcmp(code, "ok") == 0) {
                assert_int_equal(atoi(play->server.result->value), model->state + 1);
                model->state++;
        }
        if (model->state > 0) { /* a crash of one that has never done anything leaves nothing to tell of */
                assert_true(json_is_true(json_object_get(kept, "durable")));
                note(model, kept);
        }
}

/* One of those that the session says it has; and what its state is, by the model. */
static int pick(struct play *play, struct model *model, char ret_id[SBX_CHECKPOINT_ID_SIZE]) {
        _cleanup_json_ json_t *list = NULL;
        const json_t *chosen;
        int state;

        assert_int_equal(
                sbx_sessions_checkpoints(play->server.sessions, NULL, model->name, NULL, &list, &play->server.err), 0);
        if (json_array_size(list) == 0)
                return -1;
        chosen = json_array_get(list, (size_t)rand_r(&play->seed) % json_array_size(list));
        snprintf(ret_id, SBX_CHECKPOINT_ID_SIZE, "%s", json_string_value(json_object_get(chosen, "id")));
        state = model->states[atoi(ret_id + 1)];
        return state >= 0 ? state : model->begun_with; /* which the keeper stores, and tells nobody */
}

static void go_back(struct play *play, struct model *model) {
        _cleanup_json_ json_t *told = NULL;
        char id[SBX_CHECKPOINT_ID_SIZE];
        int state = pick(play, model, id);

        if (state < 0)
                return;
        assert_int_equal(
                sbx_sessions_rollback(play->server.sessions, NULL, model->name, id, NULL, &told, &play->server.err), 0);
        model->state = state;
}

static void make_checkpoint(struct play *play, struct model *model) {
        _cleanup_json_ json_t *told = NULL;

        assert_int_equal(
                sbx_sessions_checkpoint(play->server.sessions, NULL, model->name, NULL, NULL, &told, &play->server.err),
                0);
        note(model, told);
}

static void make_branch(struct play *play, struct model *model, struct model *other) {
        _cleanup_json_ json_t *told = NULL;
        char id[SBX_CHECKPOINT_ID_SIZE];
        const char *from = rand_r(&play->seed) % 2 ? id : NULL;
        int state = from != NULL ? pick(play, model, id) : model->state;

        if (state < 0 || other == model)
                return;
        if (other->exists)
                assert_int_equal(sbx_sessions_destroy(play->server.sessions, NULL, other->name, &play->server.err), 0);
        model_begin(play, other, state);
        assert_int_equal(sbx_sessions_fork(play->server.sessions, NULL, model->name, from, other->name, NULL, &told,
                                           &play->server.err),
                         0);
        if (!json_is_true(json_object_get(told, "durable")))
                execute(play, other, "ok"); /* a server may end before the keeper gets to it; a result is a promise */
}

static void step(struct play *play) {
        struct model *model = &play->models[rand_r(&play->seed) % SESSIONS];

        if (!model->exists) {
                model_begin(play, model, 0);
                execute(play, model, "ok");
        }
        switch (rand_r(&play->seed) % 12) {
        case 0:
                execute(play, model, "crash");
                return;
        case 1:
                execute(play, model, "die-after");
                return;
        case 2:
                make_checkpoint(play, model);
                return;
        case 3:
        case 4:
                go_back(play, model);
                return;
        case 5:
                make_branch(play, model, &play->models[rand_r(&play->seed) % SESSIONS]);
                return;
        case 6:
                server_close(&play->server);
                server_open(&play->server, (const char *const[]){"checkpoints_max=6", NULL});
                return;
        case 7:
                sbx_sessions_suspend_all(play->server.sessions, NULL);
                return;
        case 8:
                fake_guest_kill_all();
                return;
        default:
                execute(play, model, "ok");
        }
}

static void play_all(void (*prepare)(void)) {
        const char *wanted = getenv("MODEL_SEEDS");
        unsigned seeds = wanted != NULL ? (unsigned)atoi(wanted) : 10;

        for (unsigned seed = 1; seed <= seeds; seed++) {
                struct play play = {.seed = seed};

                if (wanted != NULL)
                        print_message("# seed %u\n", seed);
                fake_store_open();
                prepare();
                server_open(&play.server, (const char *const[]){"checkpoints_max=6", NULL});
                for (unsigned i = 0; i < STEPS; i++)
                        step(&play);
                server_close(&play.server);
                fake_store_close();
        }
}

static void prepare_portable(void) {
        fake_guest_can_tell();
}

static void prepare_exact(void) {
        fake_registry_can_save();
        fake_registry_can_fork();
}

static void prepare_frozen(void) {
        fake_guest_can_tell();
        fake_registry_families();
}

static void test_portable(void **state) {
        play_all(prepare_portable);
}

static void test_exact(void **state) {
        play_all(prepare_exact);
}

static void test_frozen(void **state) {
        play_all(prepare_frozen);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_portable),
                cmocka_unit_test(test_exact),
                cmocka_unit_test(test_frozen),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

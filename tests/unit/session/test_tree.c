/* SPDX-License-Identifier: Apache-2.0 */
/* The tree of a session's states: what it says to clients, and that after any changes it equals a model of it, also
 * after it was stored and read. SBX_TREE_SEED and SBX_TREE_ROUNDS choose other changes, and more. */
#include "vaults.h"

#include "base/number.h"

#define MODEL_MAX 4096

/* Every checkpoint that there ever was, by its number; `content` is what it holds. */
struct model {
        struct {
                bool there, stored, automatic;
                unsigned parent;
                uint64_t content;
        } items[MODEL_MAX];
        unsigned head, last, count;
};

static uint64_t random_state;

/* xorshift64*: the same numbers everywhere. */
static unsigned choose(unsigned limit) {
        random_state ^= random_state >> 12;
        random_state ^= random_state << 25;
        random_state ^= random_state >> 27;
        return (unsigned)((random_state * UINT64_C(2685821657736338717)) >> 33) % limit;
}

static unsigned number_of(const char *id) {
        uint64_t number = 0;

        assert_true(id[0] == '\0' || sbx_checkpoint_id_number(id, &number));
        return (unsigned)number;
}

static unsigned model_pick(const struct model *model) {
        unsigned skip = choose(model->count);

        for (unsigned i = 1; i <= model->last; i++)
                if (model->items[i].there && skip-- == 0)
                        return i;
        return 0;
}

static void model_add(struct model *model, unsigned number, bool stored, bool automatic, uint64_t content) {
        model->items[number].there = true;
        model->items[number].stored = stored;
        model->items[number].automatic = automatic;
        model->items[number].parent = model->head;
        model->items[number].content = content;
        model->head = model->last = number;
        model->count++;
}

static void model_remove(struct model *model, unsigned number) {
        for (unsigned i = 1; i <= model->last; i++)
                if (model->items[i].there && model->items[i].parent == number)
                        model->items[i].parent = model->items[number].parent;
        if (model->head == number)
                model->head = model->items[number].parent;
        model->items[number].there = false;
        model->count--;
}

static void model_trim(struct model *model, unsigned max) {
        unsigned stored = 0;

        for (unsigned i = 1; i <= model->last; i++)
                stored += model->items[i].there && model->items[i].stored;
        for (unsigned i = 1; i <= model->last && stored > max; i++)
                if (model->items[i].there && model->items[i].stored && model->items[i].automatic && i != model->head) {
                        model_remove(model, i);
                        stored--;
                }
}

/* The server is gone: so are copies of processes. */
static void model_restart(struct model *model) {
        for (unsigned i = model->last; i > 0; i--)
                if (model->items[i].there && !model->items[i].stored)
                        model_remove(model, i);
}

static void text_of(uint64_t content, char ret_text[32]) {
        snprintf(ret_text, 32, "content %llu", (unsigned long long)content);
}

static void assert_equals(struct desk *desk, struct sbx_vault *vault, const struct model *model) {
        const struct sbx_tree *tree = sbx_vault_tree(vault);

        assert_int_equal(tree->count, model->count);
        assert_int_equal(number_of(tree->head), model->head);
        for (size_t i = 0; i < tree->count; i++) {
                unsigned number = number_of(tree->items[i]->id);

                assert_true(number <= model->last && model->items[number].there);
                assert_true(i == 0 || number > number_of(tree->items[i - 1]->id));
                assert_int_equal(number_of(tree->items[i]->parent), model->items[number].parent);
                assert_int_equal(tree->items[i]->part_count > 0, model->items[number].stored);
                assert_int_equal(tree->items[i]->automatic, model->items[number].automatic);
        }
}

static void assert_contents(struct desk *desk, struct sbx_vault *vault, const struct model *model) {
        for (unsigned i = 1; i <= model->last; i++) {
                char id[SBX_CHECKPOINT_ID_SIZE], text[32];

                if (!model->items[i].there || !model->items[i].stored)
                        continue;
                snprintf(id, sizeof(id), "c%u", i);
                text_of(model->items[i].content, text);
                assert_holds(desk, vault, id, text);
        }
}

static void step_add(struct desk *desk, struct sbx_vault *vault, struct model *model) {
        const struct sbx_checkpoint *checkpoint = NULL;
        uint64_t content = choose(20); /* often the same as another one's */
        bool automatic = choose(3) > 0, fails = choose(8) == 0;
        char text[32];

        text_of(content, text);
        if (fails)
                gated_store_fail(&desk->store, GATE_COMMIT, 0, -ENOSPC);
        assert_int_equal(add_with(desk, vault, text, NULL, automatic, &checkpoint), fails ? -ENOSPC : 0);
        gated_store_heal(&desk->store);
        if (fails)
                return;
        model_add(model, number_of(checkpoint->id), true, automatic, content);
        model_trim(model, 6);
}

static void step_freeze(struct sbx_vault *vault, struct model *model) {
        const struct sbx_checkpoint *checkpoint = NULL;

        assert_int_equal(sbx_vault_add_frozen(
                                 vault, &(struct sbx_checkpoint){.mechanism = SBX_MECHANISM_FROZEN, .automatic = true},
                                 &checkpoint, NULL),
                         0);
        model_add(model, number_of(checkpoint->id), false, true, 0);
}

static void step_other(struct sbx_vault *vault, struct model *model, bool removes) {
        unsigned number = model->count > 0 ? model_pick(model) : 0;
        char id[SBX_CHECKPOINT_ID_SIZE] = "";

        if (number == 0)
                return;
        snprintf(id, sizeof(id), "c%u", number);
        if (removes) {
                assert_int_equal(sbx_vault_remove(vault, id, NULL, NULL), 0);
                model_remove(model, number);
        } else {
                assert_int_equal(sbx_vault_move(vault, id, NULL, NULL), 0);
                model->head = number;
        }
}

/* With a good end, which stores where a session stands. */
static struct sbx_vault *step_restart(struct desk *desk, struct sbx_vault *vault, struct model *model) {
        sbx_vault_close(vault);
        sbx_vaults_free(desk->vaults);
        desk->vaults = desk_server(desk);
        model_restart(model);
        return open_vault(desk, "work");
}

static unsigned setting(const char *name, unsigned otherwise) {
        const char *text = getenv(name);
        int64_t number = 0;

        return text != NULL && sbx_number_int(text, &number) == 0 && number > 0 && number < UINT32_MAX
                       ? (unsigned)number
                       : otherwise;
}

static void test_model(void **state) {
        static const char *const settings[] = {"checkpoints_max=6", NULL};
        static struct model model;
        unsigned seed = setting("SBX_TREE_SEED", 1), rounds = setting("SBX_TREE_ROUNDS", 20);

        for (unsigned round = 0; round < rounds; round++) {
                struct desk desk;
                struct sbx_vault *vault;

                print_message("# seed %u\n", seed + round);
                random_state = UINT64_C(0x9e3779b97f4a7c15) * (seed + round);
                model = (struct model){0};
                desk_open(&desk, settings);
                vault = open_vault(&desk, "work");
                for (unsigned i = 0; i < 150; i++) {
                        unsigned what = choose(16);

                        if (what < 8)
                                step_add(&desk, vault, &model);
                        else if (what < 10)
                                step_freeze(vault, &model);
                        else if (what < 14)
                                step_other(vault, &model, what < 12);
                        else if (what == 14)
                                vault = step_restart(&desk, vault, &model);
                        else
                                assert_contents(&desk, vault, &model);
                        assert_equals(&desk, vault, &model);
                }
                vault = step_restart(&desk, vault, &model);
                assert_equals(&desk, vault, &model);
                assert_contents(&desk, vault, &model);
                sbx_vault_close(vault);
                desk_close(&desk);
        }
}

static void test_for_clients(void **state) {
        struct sbx_checkpoint given = {.label = (char *)"l",
                                       .mechanism = SBX_MECHANISM_BYTE_EXACT,
                                       .created_ms = 1500,
                                       .executions = 3,
                                       .bytes = 70,
                                       .part_count = 1};
        struct sbx_checkpoint *checkpoint = NULL;
        struct sbx_tree tree = {0};
        _cleanup_json_ json_t *json = NULL, *expected = NULL, *about = json_pack("{s:i}", "variables", 2);

        given.about = about;
        assert_int_equal(sbx_tree_add(&tree, &given, &checkpoint, NULL), 0);
        json = sbx_checkpoint_json(&tree, checkpoint);
        expected = json_pack("{s:s, s:n, s:s, s:b, s:s, s:i, s:i, s:s, s:b, s:{s:i}}", "id", "c1", "parent", "label",
                             "l", "automatic", 0, "created_at", "1970-01-01T00:00:01.500Z", "executions", 3, "bytes",
                             70, "mechanism", "byte-exact", "head", 1, "holds", "variables", 2);
        assert_true(json_equal(json, expected));
        sbx_tree_clear(&tree);
}

static void test_mechanisms(void **state) {
        assert_string_equal(sbx_mechanism_name(SBX_MECHANISM_FROZEN), "frozen process");
        assert_string_equal(sbx_mechanism_name((enum sbx_mechanism)0), "unknown");
        assert_string_equal(sbx_mechanism_name((enum sbx_mechanism)9), "unknown");
        assert_int_equal(sbx_mechanism_find("portable"), SBX_MECHANISM_PORTABLE);
        assert_int_equal(sbx_mechanism_find(""), 0);
}

static void test_full(void **state) {
        struct sbx_checkpoint *checkpoint = NULL;
        struct sbx_tree tree = {0};
        struct sbx_error err = {0};

        for (unsigned i = 0; i < SBX_TREE_CHECKPOINTS_MAX; i++)
                assert_int_equal(sbx_tree_add(&tree, &(struct sbx_checkpoint){0}, &checkpoint, NULL), 0);
        assert_int_equal(sbx_tree_add(&tree, &(struct sbx_checkpoint){0}, &checkpoint, &err), -ENOSPC);
        assert_contains(err.message, "4096");
        assert_string_equal(sbx_tree_find(&tree, "c1000")->parent, "c999");
        assert_null(sbx_tree_find(&tree, "c4097"));
        assert_null(sbx_tree_find(&tree, ""));
        sbx_tree_clear(&tree);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_model),
                cmocka_unit_test(test_for_clients),
                cmocka_unit_test(test_mechanisms),
                cmocka_unit_test(test_full),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance: portable states hold what a session has, name what they can't hold, cost no more than they may, and are
 * taken up by another guest without running any code again; what is no state is refused. */
#include "suite.h"

#define STATE_MAX ((uint64_t)256 << 20)
#define PARTS_MAX 64

#define BEGIN                                                                                                          \
        "import collections, os, random, sys\n"                                                                        \
        "runs = 1\ndef tmp(): return os.environ.get('TMPDIR', '/tmp')\n"                                               \
        "shared = ['before']\nother = {'same': shared}\n"                                                              \
        "loop = [1]\nloop.append(loop)\n"                                                                              \
        "def counter():\n    n = 0\n    def more():\n        nonlocal n\n        n += 1\n        return n\n"           \
        "    return more\nmore = counter()\nmore()\n"                                                                  \
        "class Point(collections.namedtuple('Base', 'x y')):\n    def sum(self): return self.x + self.y\n"             \
        "point = Point(3, 4)\nwide = bytearray(b'w') * 300000\n"                                                       \
        "def fails(): raise KeyError('here')\n"                                                                        \
        "def count():\n    yield 1\nhalf = count()\nholder = {'deep': [half]}\n"                                       \
        "os.makedirs('deep/er')\nopen('deep/er/file', 'w').write('x' * 70000)\n"                                       \
        "open(tmp() + '/large', 'wb').write(bytes(range(256)) * 2048)\nos.symlink('deep/er/file', 'link')\n"           \
        "with open(tmp() + '/log', 'w') as f: f.write('one\\ntwo\\n')\n"                                               \
        "log = open(tmp() + '/log')\nlog.readline()\n"                                                                 \
        "os.environ['MINE'] = 'yes'\nos.chdir('deep')\nsys.path.append('/nowhere')\nnumbers = random.random()"
#define GO_ON                                                                                                          \
        "other['same'].append('after')\n"                                                                              \
        "print(runs, shared, loop[1] is loop, more(), point.sum(), len(wide), log.readline().strip())\n"               \
        "print(len(open('../link').read()), len(open(tmp() + '/large', 'rb').read()), os.environ['MINE'], "            \
        "os.path.basename(os.getcwd()), '/nowhere' in sys.path, random.random() == numbers)"
#define WENT_ON                                                                                                        \
        "1 ['before', 'after'] True 2 7 300000 two\n"                                                                  \
        "70000 524288 yes deep True False\n"

struct state {
        struct sbx_buffer parts[PARTS_MAX];
        size_t count;
        int refuse; /* the answer to the first part; 0: none */
        json_t *told;
};

static void clear_state(struct state *state) {
        for (size_t i = 0; i < state->count; i++)
                sbx_buffer_free(&state->parts[i]);
        json_decref(state->told);
        *state = (struct state){0};
}

static int keep_part(void *data, struct sbx_buffer *part) {
        struct state *state = data;

        if (state->refuse != 0)
                return state->refuse;
        assert_true(state->count < PARTS_MAX);
        state->parts[state->count++] = *part;
        *part = (struct sbx_buffer)SBX_BUFFER(0);
        return 0;
}

static int try_save(struct sbx_guest_process *guest, uint64_t max_bytes, uint64_t max_ms, const char *known,
                    struct state *state, struct sbx_error *err) {
        const struct sbx_guest_portable request = {
                .max_bytes = max_bytes, .max_ms = max_ms, .known_digest = known, .data = state, .part = keep_part};
        struct sbx_call call = patience();

        return sbx_guest_save_portable(guest, &request, &call, &state->told, err);
}

static void save(struct sbx_guest_process *guest, const char *known, struct state *state) {
        struct sbx_error err = {0};

        must(try_save(guest, STATE_MAX, 0, known, state, &err), &err);
}

static int try_restore(struct sbx_guest_process *guest, const struct state *state, json_t **ret_told,
                       struct sbx_error *err) {
        struct sbx_bytes parts[PARTS_MAX];
        struct sbx_call call = patience();

        for (size_t i = 0; i < state->count; i++)
                parts[i] = sbx_buffer_bytes(&state->parts[i]);
        return sbx_guest_restore_portable(guest, parts, state->count, &call, ret_told, err);
}

static struct sbx_guest_process *start_portable(const char *label) {
        struct sbx_guest_process *guest = start(label);

        if (!sbx_guest_portable(guest)) {
                sbx_guest_free(guest);
                skip_because("the guest's worker has no portable states");
        }
        return guest;
}

/* The reason that a list of problems has for a name. */
static const char *reason(const json_t *told, const char *list, const char *name, const char *type) {
        const json_t *item;
        size_t i;

        json_array_foreach (json_object_get(told, list), i, item)
                if (strcmp(json_string_value(json_object_get(item, "name")), name) == 0) {
                        assert_string_equal(json_string_value(json_object_get(item, "type")), type);
                        return json_string_value(json_object_get(item, "reason"));
                }
        return NULL;
}

static const char *digest(const struct state *state) {
        return json_string_value(json_object_get(state->told, "digest"));
}

static void test_a_state_goes_on_in_another_guest(void **unused) {
        struct sbx_guest_process *guest = start_portable("portable"), *other;
        struct state state = {0};
        json_t *told = NULL;
        struct sbx_error err = {0};

        expect(guest, BEGIN, SBX_END_OK, NULL);
        save(guest, NULL, &state);
        assert_true(state.count > 1);
        assert_non_null(reason(state.told, "unsaved", "half", "generator"));
        assert_non_null(strstr(reason(state.told, "unsaved", "holder", "dict"), "generator"));
        assert_int_equal(json_array_size(json_object_get(state.told, "unsaved")), 2);
        assert_true(json_integer_value(json_object_get(json_object_get(state.told, "files"), "count")) >= 6);
        expect(guest, "print(next(half), more())", SBX_END_OK, "1 2\n"); /* nothing has happened to it */
        sbx_guest_free(guest);

        other = start_portable("portable-other");
        must(try_restore(other, &state, &told, &err), &err);
        assert_non_null(reason(told, "missing", "half", "generator"));
        assert_int_equal(json_array_size(json_object_get(told, "missing")), 2);
        assert_int_equal(json_integer_value(json_object_get(told, "variables")),
                         json_integer_value(json_object_get(state.told, "variables")));
        assert_true(json_array_size(sbx_guest_names(other)) > 8);
        expect(other, GO_ON, SBX_END_OK, WENT_ON);
        expect(other, "try:\n    half\nexcept NameError as e:\n    print(e)", SBX_END_OK,
               "name 'half' is not defined\n");
        expect(other, "import traceback\ntry:\n    fails()\nexcept KeyError:\n    print(traceback.format_exc())",
               SBX_END_OK, NULL);
        json_decref(told);
        clear_state(&state);
        sbx_guest_free(other);
}

static void test_an_equal_state_is_told_by_its_digest(void **unused) {
        struct sbx_guest_process *guest = start_portable("portable-equal");
        struct state first = {0}, same = {0}, changed = {0};

        expect(guest, "data = [1, {'two': 3}]\ndef f(): return data\nopen('file', 'w').write('content')", SBX_END_OK,
               NULL);
        save(guest, NULL, &first);
        expect(guest, "print(len(data))", SBX_END_OK, "2\n"); /* which changes nothing */
        save(guest, digest(&first), &same);
        assert_true(json_is_true(json_object_get(same.told, "unchanged")));
        assert_int_equal(same.count, 0);
        expect(guest, "open('file', 'w').write('Content')", SBX_END_OK, NULL); /* as long as before, a moment later */
        save(guest, digest(&first), &changed);
        assert_false(json_is_true(json_object_get(changed.told, "unchanged")));
        assert_string_not_equal(digest(&first), digest(&changed));
        clear_state(&first);
        clear_state(&same);
        clear_state(&changed);
        sbx_guest_free(guest);
}

static void test_a_state_has_a_budget(void **unused) {
        struct sbx_guest_process *guest = start_portable("portable-budget");
        struct state state = {0};
        struct sbx_error err = {0};

        expect(guest, "data = bytes(3 << 20)\nname = 'here'", SBX_END_OK, "");
        assert_int_equal(try_save(guest, 1 << 20, 0, NULL, &state, &err), -EFBIG);
        assert_non_null(strstr(err.message, "1048576"));
        expect(guest, "del data\nopen('file', 'wb').write(bytes(3 << 20))\nprint(name)", SBX_END_OK, NULL);
        memset(&err, 0, sizeof(err));
        assert_int_equal(try_save(guest, 1 << 20, 0, NULL, &state, &err), -EFBIG);
        expect(guest, "import os\nos.unlink('file')", SBX_END_OK, "");
        memset(&err, 0, sizeof(err));
        must(try_save(guest, 1 << 20, 0, NULL, &state, &err), &err);
        clear_state(&state);
        state.refuse = -ENOSPC;
        assert_int_equal(try_save(guest, 1 << 20, 0, NULL, &state, &err), -ENOSPC);
        expect(guest, "print(name)", SBX_END_OK, "here\n");
        clear_state(&state);
        sbx_guest_free(guest);
}

static void test_what_hangs_is_left_out_or_ends_the_attempt(void **unused) {
        struct sbx_guest_process *guest = start_portable("portable-hangs");
        struct state state = {0};
        struct sbx_error err = {0};
        int r;

        expect(guest,
               "class Hangs:\n    def __reduce__(self):\n        while True: pass\n"
               "hangs = Hangs()\nfine = 'fine'",
               SBX_END_OK, "");
        r = try_save(guest, STATE_MAX, 800, NULL, &state, &err);
        if (r == 0) /* where the worker has a timer */
                assert_non_null(reason(state.told, "unsaved", "hangs", "Hangs"));
        else
                assert_int_equal(r, -ETIMEDOUT);
        assert_true(sbx_guest_alive(guest));
        expect(guest, "print(fine)", SBX_END_OK, "fine\n");
        clear_state(&state);
        sbx_guest_free(guest);
}

static void test_what_is_no_state_is_refused(void **unused) {
        static const struct {
                const char *index;
                int code;
        } bad[] = {
                {"", -EBADMSG},
                {"garbage", -EBADMSG},
                {"{}", -EBADMSG},
                {"{\"format\":\"snipara-sandbox state\",\"version\":1,\"language\":\"perl\"}", -EBADMSG},
                {"{\"format\":\"snipara-sandbox state\",\"version\":1,\"language\":\"python\"}", -EBADMSG},
                {"{\"format\":\"snipara-sandbox state\",\"version\":99,\"language\":\"python\"}", -EPROTONOSUPPORT},
        };
        struct sbx_guest_process *guest = start_portable("portable-refuses");
        struct state state = {.count = 1};

        state.parts[0] = (struct sbx_buffer)SBX_BUFFER(1024);
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                struct sbx_error err = {0};
                json_t *told = NULL;

                sbx_buffer_clear(&state.parts[0]);
                assert_return_code(sbx_buffer_append_text(&state.parts[0], bad[i].index), 0);
                assert_int_equal(try_restore(guest, &state, &told, &err), bad[i].code);
                assert_true(err.message[0] != '\0');
                assert_null(told);
                expect(guest, "pass", SBX_END_OK, "");
        }
        clear_state(&state);
        sbx_guest_free(guest);
}

static void test_a_state_needs_a_guest_that_has_run_nothing(void **unused) {
        struct sbx_guest_process *guest = start_portable("portable-twice");
        struct state state = {0};
        struct sbx_error err = {0};
        json_t *told = NULL;

        expect(guest, "value = 1", SBX_END_OK, "");
        save(guest, NULL, &state);
        assert_int_equal(try_restore(guest, &state, &told, &err), -EBUSY);
        expect(guest, "print(value)", SBX_END_OK, "1\n");
        clear_state(&state);
        sbx_guest_free(guest);
}

struct group portable_group(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_state_goes_on_in_another_guest),
                cmocka_unit_test(test_an_equal_state_is_told_by_its_digest),
                cmocka_unit_test(test_a_state_has_a_budget),
                cmocka_unit_test(test_what_hangs_is_left_out_or_ends_the_attempt),
                cmocka_unit_test(test_what_is_no_state_is_refused),
                cmocka_unit_test(test_a_state_needs_a_guest_that_has_run_nothing),
        };

        return (struct group){tests, sizeof(tests) / sizeof(tests[0])};
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance: states that are forked, saved and restored go on exactly where they were, and share nothing; states that
 * were cut, altered or made up are refused, or are a strange guest and no more. */
#include "suite.h"

#include <inttypes.h>

#include "guest/process.h"

#define STATE_MAX ((size_t)256 << 20)
/* Something of everything that a session can hold. */
#define BEGIN                                                                                                          \
        "import collections, itertools, re, time\n"                                                                    \
        "def count():\n    for i in itertools.count():\n        yield i\n"                                             \
        "half = count()\nassert [next(half) for _ in range(5)] == [0, 1, 2, 3, 4]\n"                                   \
        "def counter():\n    n = 0\n    def more():\n        nonlocal n\n        n += 1\n        return n\n"           \
        "    return more\nmore = counter()\nmore()\n"                                                                  \
        "class Point(collections.namedtuple('Base', 'x y')):\n    def sum(self): return self.x + self.y\n"             \
        "point = Point(3, 4)\npattern = re.compile('a+')\n"                                                            \
        "with open('/tmp/log', 'w') as f: f.write('one\\ntwo\\nthree\\n')\n"                                           \
        "log = open('/tmp/log', 'r+')\nlog.readline()\n"                                                               \
        "unlinked = open('/tmp/gone', 'w+')\nunlinked.write('still here')\nunlinked.flush()\n"                         \
        "import os\nos.unlink('/tmp/gone')\nos.makedirs('deep/er')\nopen('deep/er/file', 'w').write('x' * 70000)\n"    \
        "before = time.monotonic()\ndef fails(): raise KeyError('here')"
#define GO_ON                                                                                                            \
        "unlinked.seek(0)\n"                                                                                             \
        "print(next(half), more(), point.sum(), pattern.match('aab').group(), log.readline().strip(), unlinked.read(), " \
        "len(open('deep/er/file').read()), time.monotonic() >= before)"
#define WENT_ON "5 2 7 aa two still here 70000 True\n"

static void need(uint32_t feature) {
        if ((suite.ops->features & feature) == 0) {
                print_reason("snapshots", feature == SBX_BACKEND_FORK ? "the backend forks no guests"
                                                                      : "the backend saves no states");
                skip();
        }
}

static struct sbx_guest_process *fork_as(struct sbx_guest_process *guest, const struct sbx_guest_spec *wanted) {
        struct sbx_guest_process *copy = NULL;
        struct sbx_call call = patience();
        struct sbx_error err = {0};

        must(sbx_guest_fork(guest, wanted, &call, &copy, &err), &err);
        return copy;
}

static struct sbx_guest_process *fork_guest(struct sbx_guest_process *guest) {
        const struct sbx_guest_spec wanted = spec("conformance-copy");

        return fork_as(guest, &wanted);
}

/* A copy that waits to take the place of the guest. */
static struct sbx_guest_process *freeze_guest(struct sbx_guest_process *guest) {
        struct sbx_guest_spec wanted = spec("conformance-frozen");

        wanted.flags = SBX_GUEST_FROZEN;
        return fork_as(guest, &wanted);
}

/* Skips where there are none, as the backend is configured. */
static void need_copies(struct sbx_guest_process *guest, uint32_t flags, const char *without) {
        struct sbx_guest_spec wanted = spec("conformance-possible");
        struct sbx_guest_process *copy = NULL;
        struct sbx_call call = patience();
        struct sbx_error err = {0};
        int r;

        wanted.flags = flags;
        r = sbx_guest_fork(guest, &wanted, &call, &copy, &err);
        sbx_guest_free(copy);
        if (r != -ENOTSUP) {
                must(r, &err);
                return;
        }
        assert_true(err.message[0] != '\0');
        expect(guest, "print('alive')", SBX_END_OK, "alive\n");
        sbx_guest_free(guest);
        skip_because("%s", without);
}

static bool can_freeze(struct sbx_guest_process *guest) {
        struct sbx_guest_spec wanted = spec("conformance-possible");
        struct sbx_guest_process *copy = NULL;
        struct sbx_call call = patience();
        int r;

        wanted.flags = SBX_GUEST_FROZEN;
        r = sbx_guest_fork(guest, &wanted, &call, &copy, NULL);
        sbx_guest_free(copy);
        return r == 0;
}

static void need_branches(struct sbx_guest_process *guest) {
        need_copies(guest, 0, "copies of this backend's guests only take their place");
}

static void need_waiting(struct sbx_guest_process *guest) {
        need_copies(guest, SBX_GUEST_FROZEN, "the backend makes no copies with these options");
}

static struct sbx_buffer save(struct sbx_guest_process *guest) {
        struct sbx_buffer state = SBX_BUFFER(STATE_MAX);
        struct sbx_call call = patience();
        struct sbx_error err = {0};

        must(sbx_guest_save(guest, &call, &state, &err), &err);
        assert_true(state.size > 0);
        return state;
}

static int try_restore(struct sbx_bytes state, struct sbx_guest_process **ret_guest, struct sbx_error *err) {
        const struct sbx_guest_spec wanted = spec("conformance-restored");
        struct sbx_call call = patience();

        return sbx_guest_restore(suite.backend, &wanted, state, &call, ret_guest, err);
}

static struct sbx_guest_process *restore(const struct sbx_buffer *state) {
        struct sbx_guest_process *guest = NULL;
        struct sbx_error err = {0};

        must(try_restore(sbx_buffer_bytes(state), &guest, &err), &err);
        return guest;
}

/* ---- what a backend can't do is an error ---- */

static void test_states_are_refused_where_declared(void **state) {
        struct sbx_guest_process *guest = start("conformance-declared"), *copy = NULL;
        const struct sbx_guest_spec wanted = spec("conformance-declared-copy");
        _cleanup_buffer_ struct sbx_buffer bytes = SBX_BUFFER(STATE_MAX);
        struct sbx_call call = patience();
        struct sbx_error err = {0};

        if ((suite.ops->features & SBX_BACKEND_FORK) == 0)
                assert_int_equal(sbx_guest_fork(guest, &wanted, &call, &copy, &err), -ENOTSUP);
        if ((suite.ops->features & SBX_BACKEND_SAVE) == 0) {
                assert_int_equal(sbx_guest_save(guest, &call, &bytes, &err), -ENOTSUP);
                assert_int_equal(try_restore((struct sbx_bytes){"x", 1}, &copy, &err), -ENOTSUP);
        }
        assert_null(copy);
        expect(guest, "print('alive')", SBX_END_OK, "alive\n");
        sbx_guest_free(guest);
}

static void test_states_of_the_dead(void **state) {
        struct sbx_guest_process *guest, *copy = NULL;
        const struct sbx_guest_spec wanted = spec("conformance-dead-copy");
        _cleanup_buffer_ struct sbx_buffer bytes = SBX_BUFFER(STATE_MAX);
        struct sbx_call call = patience();
        struct sbx_error err = {0};

        need(SBX_BACKEND_FORK);
        need(SBX_BACKEND_SAVE);
        guest = start("conformance-dead");
        suite.ops->guest_kill(suite.backend->state, guest->handle.handle);
        assert_true(sbx_guest_fork(guest, &wanted, &call, &copy, &err) < 0);
        assert_true(err.message[0] != '\0');
        memset(&err, 0, sizeof(err));
        assert_true(sbx_guest_save(guest, &call, &bytes, &err) < 0);
        assert_true(err.message[0] != '\0');
        assert_null(copy);
        sbx_guest_free(guest);
}

/* ---- forks ---- */

static void test_a_fork_goes_on(void **state) {
        struct sbx_guest_process *guest, *copy, *second;

        need(SBX_BACKEND_FORK);
        guest = start("conformance-fork");
        need_branches(guest);
        expect(guest, BEGIN, SBX_END_OK, "");
        copy = fork_guest(guest);
        expect(copy, GO_ON, SBX_END_OK, WENT_ON);
        second = fork_guest(copy);
        expect(second, "print(next(half), more(), log.readline().strip())", SBX_END_OK, "6 3 three\n");
        expect(guest, GO_ON, SBX_END_OK, WENT_ON); /* nothing of that happened here */
        sbx_guest_free(guest);
        expect(copy, "print(next(half))", SBX_END_OK, "6\n"); /* a copy outlives what it was made of */
        sbx_guest_free(copy);
        expect(second, "print(next(half))", SBX_END_OK, "7\n");
        sbx_guest_free(second);
}

static void test_forks_share_nothing(void **state) {
        struct sbx_guest_process *guest, *copy;

        need(SBX_BACKEND_FORK);
        guest = start("conformance-apart");
        need_branches(guest);
        expect(guest, "shared = ['before']\nopen('file', 'w').write('before')\nlog = open('file', 'a')", SBX_END_OK,
               NULL);
        copy = fork_guest(guest);
        expect(copy, "shared.append('copy')\nlog.write(' copy')\nlog.flush()\nopen('only', 'w').close()", SBX_END_OK,
               NULL);
        expect(guest, "import os\nprint(shared, open('file').read(), os.path.exists('only'))", SBX_END_OK,
               "['before'] before False\n");
        expect(guest, "log.write(' original')\nlog.flush()\nshared.append('original')", SBX_END_OK, NULL);
        expect(copy, "print(shared, open('file').read())", SBX_END_OK, "['before', 'copy'] before copy\n");
        sbx_guest_free(copy);
        expect(guest, "print(shared, open('file').read())", SBX_END_OK, "['before', 'original'] before original\n");
        sbx_guest_free(guest);
}

/* Names, tracebacks with the lines of code that ran before the fork, calls to the host. */
static void test_a_fork_is_a_whole_session(void **state) {
        struct sbx_guest_process *guest, *copy;
        struct sbx_result *result;

        need(SBX_BACKEND_FORK);
        guest = start("conformance-whole");
        need_branches(guest);
        expect(guest, BEGIN, SBX_END_OK, "");
        copy = fork_guest(guest);
        assert_true(json_equal(sbx_guest_names(copy), sbx_guest_names(guest)));
        assert_true(json_equal(sbx_guest_info(copy), sbx_guest_info(guest)) ||
                    json_object_get(sbx_guest_info(copy), "names") != NULL);
        result = execute_until(copy, "fails()", PATIENCE_MS, NULL);
        assert_int_equal(result->end, SBX_END_ERROR);
        assert_non_null(strstr(result->traceback, "def fails(): raise KeyError('here')"));
        sbx_result_free(result);
        result = execute_until(copy, "import asyncio\nawait asyncio.sleep(0)\n1 + 1", PATIENCE_MS, NULL);
        assert_int_equal(result->end, SBX_END_OK);
        assert_string_equal(result->value, "2");
        sbx_result_free(result);
        sbx_guest_free(copy);
        sbx_guest_free(guest);
}

static void test_interrupts_and_ends_of_a_fork_are_its_own(void **state) {
        struct sbx_guest_process *guest, *copy;
        struct sbx_result *result;

        need(SBX_BACKEND_FORK);
        guest = start("conformance-ends");
        need_branches(guest);
        expect(guest, "kept = 1", SBX_END_OK, "");
        copy = fork_guest(guest);
        result = execute_until(copy, "kept = 2\nwhile True: pass", 300, NULL);
        assert_int_equal(result->end, SBX_END_TIMEOUT);
        assert_int_equal(result->state, SBX_STATE_KEPT);
        sbx_result_free(result);
        expect(copy, "print(kept)", SBX_END_OK, "2\n");
        result = execute_until(copy, "import os\nos._exit(3)", PATIENCE_MS, NULL);
        assert_int_equal(result->end, SBX_END_LOST);
        sbx_result_free(result);
        expect(guest, "print(kept)", SBX_END_OK, "1\n");
        sbx_guest_free(copy);
        sbx_guest_free(guest);
}

static void test_a_fork_has_limits_of_its_own(void **state) {
        struct sbx_guest_spec small = spec("conformance-small-copy");
        struct sbx_guest_process *guest, *copy;
        struct sbx_result *result;

        need(SBX_BACKEND_FORK);
        guest = start("conformance-roomy");
        need_branches(guest);
        small.limits.memory_bytes = 64 << 20;
        copy = fork_as(guest, &small);
        result = execute_until(copy, "data = bytearray(128 << 20)", PATIENCE_MS, NULL);
        assert_int_equal(result->end, SBX_END_MEMORY);
        sbx_result_free(result);
        expect(guest, "data = bytearray(128 << 20)\nprint(len(data) >> 20)", SBX_END_OK, "128\n");
        sbx_guest_free(copy);
        sbx_guest_free(guest);
}

static void test_many_forks(void **state) {
        enum { COPIES = 50 };
        struct sbx_guest_process *guest, *copies[COPIES];
        char code[64], said[32];

        need(SBX_BACKEND_FORK);
        guest = start("conformance-many-copies");
        need_branches(guest);
        expect(guest, "numbers = list(range(100000))", SBX_END_OK, "");
        for (int i = 0; i < COPIES; i++) {
                copies[i] = fork_guest(i % 2 == 0 ? guest : copies[i - 1]);
                snprintf(code, sizeof(code), "mine = %d; numbers[mine] = -1", i);
                expect(copies[i], code, SBX_END_OK, "");
        }
        for (int i = 0; i < COPIES; i++) {
                snprintf(said, sizeof(said), "%d %d\n", i, i % 2 + 1);
                expect(copies[i], "print(mine, numbers.count(-1))", SBX_END_OK, said);
        }
        expect(guest, "print(numbers.count(-1))", SBX_END_OK, "0\n");
        for (int i = 0; i < COPIES; i++)
                sbx_guest_free(copies[i]);
        sbx_guest_free(guest);
}

/* ---- copies that wait ---- */

#define SPOIL                                                                                                          \
        "unlinked.seek(0)\nunlinked.write('otherwise!')\nunlinked.flush()\nlog.write('else')\nlog.flush()\n"           \
        "os.rename('deep/er', 'shallow')\nopen('more', 'w').close()\nos.remove('/tmp/log')\npoint = None"

static void test_a_waiting_copy_takes_over(void **state) {
        struct sbx_guest_process *guest, *copy;

        need(SBX_BACKEND_FORK);
        guest = start("conformance-waiting");
        need_waiting(guest);
        expect(guest, BEGIN, SBX_END_OK, "");
        copy = freeze_guest(guest);
        expect(guest, GO_ON, SBX_END_OK, WENT_ON); /* being copied changes nothing */
        expect(guest, SPOIL, SBX_END_OK, NULL);
        sbx_guest_free(guest);
        expect(copy, GO_ON, SBX_END_OK, WENT_ON);
        expect(copy, "print(sorted(os.listdir('.')), open('/tmp/log').read().split())", SBX_END_OK,
               "['deep'] ['one', 'two', 'three']\n");
        expect(copy, SPOIL, SBX_END_OK, NULL);
        sbx_guest_free(copy);
}

/* Back and forth, each time from a copy of a copy. */
static void test_copies_of_copies(void **state) {
        enum { ROUNDS = 20 };
        struct sbx_guest_process *guest;
        char code[128], said[32];

        need(SBX_BACKEND_FORK);
        guest = start("conformance-generations");
        need_waiting(guest);
        expect(guest, "steps = []\nkept = open('steps', 'w+')", SBX_END_OK, "");
        for (int i = 0; i < ROUNDS; i++) {
                struct sbx_guest_process *copy;

                snprintf(code, sizeof(code), "steps.append(%d); _ = kept.write('%d '); kept.flush()", i, i);
                expect(guest, code, SBX_END_OK, "");
                copy = freeze_guest(guest);
                expect(guest, "steps.append('lost'); _ = kept.write('lost '); kept.flush()", SBX_END_OK, "");
                sbx_guest_free(guest);
                guest = copy;
        }
        snprintf(said, sizeof(said), "%d %d %d\n", ROUNDS, ROUNDS, ROUNDS);
        expect(guest,
               "kept.seek(0); print(len(steps), len(kept.read().split()), len(set(open('steps').read().split())))",
               SBX_END_OK, said);
        sbx_guest_free(guest);
}

/* The same state is gone back to again and again, while it stays. */
static void test_a_copy_is_used_more_than_once(void **state) {
        struct sbx_guest_process *guest, *kept;

        need(SBX_BACKEND_FORK);
        guest = start("conformance-again");
        need_waiting(guest);
        expect(guest, "word = 'first'\nopen('word', 'w').write(word)", SBX_END_OK, NULL);
        kept = freeze_guest(guest);
        for (int i = 0; i < 5; i++) {
                expect(guest, "word = 'second'\nopen('word', 'w').write(word)", SBX_END_OK, NULL);
                sbx_guest_free(guest);
                guest = freeze_guest(kept);
                expect(guest, "print(word, open('word').read())", SBX_END_OK, "first first\n");
        }
        sbx_guest_free(guest);
        expect(kept, "print(word, open('word').read())", SBX_END_OK, "first first\n");
        sbx_guest_free(kept);
}

/* Any one of them may be closed first, and any one may be the one that goes on. */
static void test_copies_end_in_any_order(void **state) {
        struct sbx_guest_process *guest, *copies[4];

        need(SBX_BACKEND_FORK);
        guest = start("conformance-order");
        need_waiting(guest);
        for (int i = 0; i < 4; i++) {
                char code[32];

                snprintf(code, sizeof(code), "at = %d", i);
                expect(guest, code, SBX_END_OK, "");
                copies[i] = freeze_guest(guest);
        }
        sbx_guest_free(copies[2]);
        sbx_guest_free(copies[0]);
        expect(guest, "print(at)", SBX_END_OK, "3\n");
        sbx_guest_free(guest);
        expect(copies[1], "print(at)", SBX_END_OK, "1\n");
        sbx_guest_free(copies[1]);
        expect(copies[3], "print(at)", SBX_END_OK, "3\n");
        sbx_guest_free(copies[3]);
}

static void test_ends_of_a_copy_are_its_own(void **state) {
        struct sbx_guest_process *guest, *copy, *last;
        struct sbx_result *result;

        need(SBX_BACKEND_FORK);
        guest = start("conformance-copy-ends");
        need_waiting(guest);
        expect(guest, "kept = 1", SBX_END_OK, "");
        copy = freeze_guest(guest);
        result = execute_until(guest, "kept = 2\nwhile True: pass", 300, NULL);
        assert_int_equal(result->end, SBX_END_TIMEOUT);
        assert_int_equal(result->state, SBX_STATE_KEPT);
        sbx_result_free(result);
        expect(guest, "print(kept)", SBX_END_OK, "2\n");
        result = execute_until(guest, "import os\nos._exit(3)", PATIENCE_MS, NULL);
        assert_int_equal(result->end, SBX_END_LOST);
        sbx_result_free(result);
        sbx_guest_free(guest);
        last = freeze_guest(copy);
        result = execute_until(copy, "print(kept)\nwhile True: pass", 300, NULL);
        assert_int_equal(result->end, SBX_END_TIMEOUT);
        assert_string_equal((const char *)result->stdout_text.data, "1\n");
        sbx_result_free(result);
        sbx_guest_free(copy);
        expect(last, "print(kept)", SBX_END_OK, "1\n");
        sbx_guest_free(last);
}

static void test_a_waiting_copy_has_the_limits_it_was_given(void **state) {
        struct sbx_guest_spec small = spec("conformance-small-frozen");
        struct sbx_guest_process *guest, *copy;
        struct sbx_result *result;

        need(SBX_BACKEND_FORK);
        guest = start("conformance-roomy-frozen");
        need_waiting(guest);
        small.limits.memory_bytes = 64 << 20;
        small.flags = SBX_GUEST_FROZEN;
        copy = fork_as(guest, &small);
        expect(guest, "data = bytearray(128 << 20)\nprint(len(data) >> 20)", SBX_END_OK, "128\n");
        sbx_guest_free(guest);
        result = execute_until(copy, "data = bytearray(256 << 20)", PATIENCE_MS, NULL);
        assert_int_equal(result->end, SBX_END_MEMORY);
        sbx_result_free(result);
        sbx_guest_free(copy);
}

/* What can't be in two processes at once: the copy is refused, with the reason, or is whole. The guest goes on. */
static void test_what_can_not_be_copied_is_told(void **state) {
        static const char *const codes[] = {
                "import threading, time\nt = threading.Thread(target=time.sleep, args=(600,), daemon=True)\nt.start()",
                "import subprocess\np = subprocess.Popen(['sleep', '600'])",
                "import os\nends = os.pipe()",
                "import socket\npair = socket.socketpair()",
                "import mmap\nshared = mmap.mmap(-1, 4096)",
                "import signal\n_ = signal.alarm(600)",
                "import select\ne = select.epoll()",
        };
        struct sbx_guest_spec wanted = spec("conformance-busy");

        need(SBX_BACKEND_FORK);
        wanted.flags = SBX_GUEST_FROZEN;
        for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
                struct sbx_guest_process *guest = start("conformance-busy"), *copy = NULL;
                struct sbx_call call = patience();
                struct sbx_error err = {0};
                int r;

                sbx_result_free(execute_until(guest, codes[i], PATIENCE_MS, NULL)); /* it may fail, too */
                r = sbx_guest_fork(guest, &wanted, &call, &copy, &err);
                assert_true(r == 0 || ((r == -EBUSY || r == -ENOTSUP) && err.message[0] != '\0'));
                expect(guest, "print('goes on')", SBX_END_OK, "goes on\n");
                sbx_guest_free(copy);
                sbx_guest_free(guest);
        }
}

/* ---- chance ---- */

#define CHANCE                                                                                                         \
        "import os, random, uuid, secrets, tempfile\n"                                                                 \
        "print(random.getrandbits(64), uuid.uuid4(), secrets.token_hex(8), os.urandom(8).hex())"

static char *chance_of(struct sbx_guest_process *guest) {
        struct sbx_result *result = execute_until(guest, CHANCE, PATIENCE_MS, NULL);
        char *said;

        assert_int_equal(result->end, SBX_END_OK);
        said = strdup((const char *)result->stdout_text.data);
        assert_non_null(said);
        sbx_result_free(result);
        return said;
}

/* No word of one may be in the other. */
static void differ(const char *one, const char *other) {
        _cleanup_free_ char *words = strdup(one);
        char *rest = NULL;

        assert_non_null(words);
        for (const char *word = strtok_r(words, " \n", &rest); word != NULL; word = strtok_r(NULL, " \n", &rest))
                if (strstr(other, word) != NULL)
                        fail_msg("%s is in both \"%s\" and \"%s\"", word, one, other);
}

static void test_chance_differs(void **state) {
        struct sbx_guest_process *guests[4] = {start("conformance-chance-one"), start("conformance-chance-two")};
        _cleanup_buffer_ struct sbx_buffer saved = SBX_BUFFER(0);
        size_t count = 2;
        char *said[4];

        expect(guests[0], "import random\nrandom.random()", SBX_END_OK, NULL);
        if ((suite.ops->features & SBX_BACKEND_FORK) != 0 && can_freeze(guests[0]))
                guests[count++] = freeze_guest(guests[0]);
        if ((suite.ops->features & SBX_BACKEND_SAVE) != 0) {
                saved = save(guests[0]);
                guests[count++] = restore(&saved);
        }
        for (size_t i = 0; i < count; i++) {
                said[i] = chance_of(guests[i]);
                sbx_guest_free(guests[i]); /* before the next one, which may be its copy */
                for (size_t j = 0; j < i; j++)
                        differ(said[i], said[j]);
        }
        for (size_t i = 0; i < count; i++)
                free(said[i]);
}

/* Who sets a seed gets its numbers, also after a fork between the two. */
static void test_a_seed_that_was_set_is_kept_by_nobody_else(void **state) {
        struct sbx_guest_process *one = start("conformance-seed-one"), *two = start("conformance-seed-two");

        expect(one, "import random\nrandom.seed(7)\nprint(random.random())", SBX_END_OK, "0.32383276483316237\n");
        expect(two, "import random\nrandom.seed(7)\nprint(random.random())", SBX_END_OK, "0.32383276483316237\n");
        sbx_guest_free(one);
        sbx_guest_free(two);
}

/* ---- saved states ---- */

static void test_a_saved_state_goes_on(void **state) {
        _cleanup_buffer_ struct sbx_buffer saved = SBX_BUFFER(0), again = SBX_BUFFER(0);
        struct sbx_guest_process *guest, *first, *second;

        need(SBX_BACKEND_SAVE);
        guest = start("conformance-save");
        expect(guest, BEGIN, SBX_END_OK, "");
        saved = save(guest);
        expect(guest, GO_ON, SBX_END_OK, WENT_ON); /* saving changes nothing */
        sbx_guest_free(guest);
        first = restore(&saved);
        second = restore(&saved);
        expect(first, GO_ON, SBX_END_OK, WENT_ON);
        expect(second, GO_ON, SBX_END_OK, WENT_ON);
        again = save(first);
        sbx_guest_free(first);
        sbx_guest_free(second);
        first = restore(&again);
        expect(first, "print(next(half), more(), log.readline().strip())", SBX_END_OK, "6 3 three\n");
        sbx_guest_free(first);
}

static void test_a_saved_state_is_as_large_as_what_changed(void **state) {
        _cleanup_buffer_ struct sbx_buffer fresh = SBX_BUFFER(0), large = SBX_BUFFER(0);
        struct sbx_guest_process *guest;

        need(SBX_BACKEND_SAVE);
        guest = start("conformance-size");
        expect(guest, "x = 1", SBX_END_OK, "");
        fresh = save(guest);
        assert_true(fresh.size < 4 << 20);
        expect(guest, "import os\ndata = os.urandom(16 << 20)\ntotal = sum(data)", SBX_END_OK, "");
        large = save(guest);
        assert_true(large.size > 16 << 20 && large.size < 64 << 20);
        sbx_guest_free(guest);
        guest = restore(&large);
        expect(guest, "print(sum(data) == total, len(data))", SBX_END_OK, "True 16777216\n");
        sbx_guest_free(guest);
}

static void test_a_state_has_a_maximum(void **state) {
        _cleanup_buffer_ struct sbx_buffer small = SBX_BUFFER(1000);
        struct sbx_call call = patience();
        struct sbx_guest_process *guest;
        struct sbx_error err = {0};

        need(SBX_BACKEND_SAVE);
        guest = start("conformance-maximum");
        expect(guest, "x = 1", SBX_END_OK, "");
        assert_true(sbx_guest_save(guest, &call, &small, &err) < 0);
        assert_true(err.message[0] != '\0');
        expect(guest, "print(x)", SBX_END_OK, "1\n");
        sbx_guest_free(guest);
}

/* A state that holds more than its new session may is refused, or has no room to grow; it is never given more. */
static void test_a_restored_state_has_the_new_limits(void **state) {
        struct sbx_guest_spec small = spec("conformance-small-restored");
        _cleanup_buffer_ struct sbx_buffer saved = SBX_BUFFER(0);
        struct sbx_guest_process *guest, *restored = NULL;
        struct sbx_call call = patience();
        struct sbx_error err = {0};

        need(SBX_BACKEND_SAVE);
        guest = start("conformance-large-state");
        expect(guest, "data = bytearray(96 << 20)", SBX_END_OK, "");
        saved = save(guest);
        sbx_guest_free(guest);
        small.limits.memory_bytes = 32 << 20;
        if (sbx_guest_restore(suite.backend, &small, sbx_buffer_bytes(&saved), &call, &restored, &err) < 0) {
                assert_true(err.message[0] != '\0');
                return;
        }
        expect(restored, "more = bytearray(64 << 20)", SBX_END_MEMORY, NULL);
        sbx_guest_free(restored);
}

struct group snapshots_group(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_states_are_refused_where_declared),
                cmocka_unit_test(test_states_of_the_dead),
                cmocka_unit_test(test_a_fork_goes_on),
                cmocka_unit_test(test_forks_share_nothing),
                cmocka_unit_test(test_a_fork_is_a_whole_session),
                cmocka_unit_test(test_interrupts_and_ends_of_a_fork_are_its_own),
                cmocka_unit_test(test_a_fork_has_limits_of_its_own),
                cmocka_unit_test(test_many_forks),
                cmocka_unit_test(test_a_waiting_copy_takes_over),
                cmocka_unit_test(test_copies_of_copies),
                cmocka_unit_test(test_a_copy_is_used_more_than_once),
                cmocka_unit_test(test_copies_end_in_any_order),
                cmocka_unit_test(test_ends_of_a_copy_are_its_own),
                cmocka_unit_test(test_a_waiting_copy_has_the_limits_it_was_given),
                cmocka_unit_test(test_what_can_not_be_copied_is_told),
                cmocka_unit_test(test_chance_differs),
                cmocka_unit_test(test_a_seed_that_was_set_is_kept_by_nobody_else),
                cmocka_unit_test(test_a_saved_state_goes_on),
                cmocka_unit_test(test_a_saved_state_is_as_large_as_what_changed),
                cmocka_unit_test(test_a_state_has_a_maximum),
                cmocka_unit_test(test_a_restored_state_has_the_new_limits),
        };

        return (struct group){tests, sizeof(tests) / sizeof(tests[0])};
}

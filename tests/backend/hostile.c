/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance: code that crashes, floods, forges frames and multiplies. Each ends as it may; a guest that says that its
 * state was kept has it; one that stands beside notices nothing. */
#include "suite.h"

#define END(name) (1u << SBX_END_##name)
#define ANY_END (~0u)
/* Speaks for the worker, past it. */
#define CHANNEL                                                                                                        \
        "import gc, os, struct, sys, time\n"                                                                           \
        "def wait(): time.sleep(1000)\n"                                                                               \
        "class channel: read_fd = write_fd = 4\n"                                                                      \
        "if sys.platform != 'wasi': channel = next(o for o in gc.get_objects() if type(o).__name__ == 'Channel')\n"    \
        "def say(data):\n"                                                                                             \
        "    while data: data = data[os.write(channel.write_fd, data):]\n"                                             \
        "def send(kind, payload): say(struct.pack('<IB', len(payload), kind) + payload)\n"                             \
        "def both(head, blob=b''): return struct.pack('<I', len(head)) + head + blob\n"

/* What no feature bit tells: signals between processes and descriptors that can all be closed; or the opposite. */
#define POSIX (1u << 30)
#define WASI (1u << 31)

struct hostile {
        const char *name, *code;
        unsigned ends;       /* END(...) that are right */
        int state;           /* enum sbx_state, or ANY_STATE */
        unsigned timeout_ms; /* 0: PATIENCE_MS */
        uint32_t needs;      /* what the guest must have: SBX_BACKEND_* bits and those above */
};

static const struct hostile programs[] = {
        /* frames */
        {"frame_beyond_its_cap", CHANNEL "say(struct.pack('<IB', 0xFFFFFFFF, 0x86))\nwait()", END(LOST), SBX_STATE_LOST,
         0, 0},
        {"frame_of_no_type", CHANNEL "send(0x7f, b'{}')\nwait()", END(LOST), SBX_STATE_LOST, 0, 0},
        {"frame_of_a_host", CHANNEL "send(0x02, both(b'{}'))\nwait()", END(LOST), SBX_STATE_LOST, 0, 0},
        {"ready_once_more", CHANNEL "send(0x81, b'{\"protocol\": 1}')\nwait()", END(LOST), SBX_STATE_LOST, 0, 0},
        {"result_that_is_no_json", CHANNEL "send(0x86, both(b'{'))\nwait()", END(LOST), SBX_STATE_LOST, 0, 0},
        {"result_of_deep_json", CHANNEL "send(0x86, both(b'[' * 100000))\nwait()", END(LOST), SBX_STATE_LOST, 0, 0},
        {"result_without_members", CHANNEL "send(0x86, both(b'{}'))\nwait()", END(LOST), SBX_STATE_LOST, 0, 0},
        {"result_whose_json_is_longer_than_its_frame", CHANNEL "send(0x86, struct.pack('<I', 1 << 20))\nwait()",
         END(LOST), SBX_STATE_LOST, 0, 0},
        {"stale_results_without_end", CHANNEL "while True: send(0x86, both(b'{\"id\": 0, \"end\": \"ok\"}'))",
         END(LOST), SBX_STATE_LOST, 0, 0},
        {"result_of_its_own", CHANNEL "[send(0x86, both(b'{\"id\": %d, \"end\": \"ok\"}' % i)) for i in range(1, 9)]",
         ANY_END, ANY_STATE, 3000, 0},
        {"result_with_a_million_names",
         CHANNEL "send(0x86, both(b'{\"id\": 2, \"end\": \"ok\", \"names\": [' + b'\"x\",' * 999999 + b'\"x\"]}'))\n"
                 "wait()",
         END(LOST), SBX_STATE_LOST, 0, 0},
        {"display_of_no_mime_type",
         CHANNEL "send(0x84, both(b'{\"mime\": \"a\\\\nb\", \"metadata\": 1}', b'x'))\nwait()",
         END(LOST) | END(TIMEOUT), ANY_STATE, 2000, 0},
        {"displays_without_end",
         CHANNEL "while True: send(0x84, both(b'{\"mime\": \"text/plain\", \"metadata\": {}}', b'x' * 65536))",
         END(TIMEOUT) | END(LOST), ANY_STATE, 1000, 0},
        {"calls_that_wait_for_no_answer",
         CHANNEL "while True: send(0x85, both(b'{\"call\": 1, \"name\": \"x\"}', b'{}'))", END(LOST) | END(TIMEOUT),
         SBX_STATE_LOST, 3000, 0},
        {"half_a_frame", CHANNEL "say(b'\\x00\\x10\\x00\\x00\\x86half')\nwait()", END(TIMEOUT) | END(LOST), ANY_STATE,
         1000, 0},
        {"frames_after_the_result",
         CHANNEL "import threading, time\n"
                 "def late():\n    time.sleep(0.1)\n    send(0x86, both(b'{\"id\": 0, \"end\": \"ok\"}'))\n"
                 "threading.Thread(target=late).start()",
         END(OK), SBX_STATE_KEPT, 0, SBX_BACKEND_THREADS},
        {"reads_the_hosts_frames",
         CHANNEL "import threading\nthreading.Thread(target=os.read, args=(channel.read_fd, 1 << 16), "
                 "daemon=True).start()",
         END(OK), ANY_STATE, 0, SBX_BACKEND_THREADS},
        {"rubbish_on_every_stream",
         "import os, stat, sys, time\nfor fd in range(3, 1024):\n    try:\n        kind = os.fstat(fd).st_mode\n"
         "        if stat.S_ISSOCK(kind) or stat.S_ISFIFO(kind) or sys.platform == 'wasi' and fd == 4:\n"
         "            if sys.platform != 'wasi': os.set_blocking(fd, False)\n"
         "            os.write(fd, bytes(range(256)) * 64)\n"
         "    except OSError: pass\ntime.sleep(1000)",
         END(LOST) | END(TIMEOUT), ANY_STATE, 3000, 0},
        {"every_descriptor_closed", "import os\nos.closerange(0, 65536)", END(LOST) | END(TIMEOUT), SBX_STATE_LOST,
         3000, POSIX},
        {"descriptors_that_stay_open", "import os\nos.closerange(0, 65536)", END(OK), SBX_STATE_KEPT, 0, WASI},
        {"a_thread_that_can_not_be", "import threading\nthreading.Thread(target=print).start()", END(ERROR),
         SBX_STATE_KEPT, 0, WASI},
        /* output */
        {"a_flood_of_output", "import os\nfor _ in range(1024): os.write(1, b'x' * 65536)", END(OK), SBX_STATE_KEPT, 0,
         0},
        {"output_without_end", "import os\nwhile True: os.write(1, b'y' * 65536)", END(TIMEOUT), ANY_STATE, 1000, 0},
        {"output_of_both_streams_without_end",
         "import sys\nwhile True:\n    print('o' * 5000)\n    print('e' * 5000, file=sys.stderr)", END(TIMEOUT),
         ANY_STATE, 1000, 0},
        {"a_huge_repr", "class Loud:\n    def __repr__(self): return 'z' * (1 << 28)\nLoud()",
         END(OK) | END(MEMORY) | END(ERROR), ANY_STATE, 0, 0},
        {"lone_surrogates", "print('a\\ud800b')\nresult = {'\\ud800': '\\udfff'}", END(OK), SBX_STATE_KEPT, 0, 0},
        {"a_message_of_a_million_lines", "raise ValueError('a line\\n' * 10**6)", END(ERROR), SBX_STATE_KEPT, 0, 0},
        /* the interpreter */
        {"a_loop_that_swallows_everything",
         "while True:\n    try:\n        while True: pass\n    except BaseException: pass", END(TIMEOUT), ANY_STATE,
         500, 0}, /* an interrupt may come between its loops */
        {"abort", "import os\nos.abort()", END(KILLED), SBX_STATE_LOST, 0, 0},
        {"a_signal_to_itself", "import os\nos.kill(os.getpid(), 9)", END(OK) | END(KILLED), ANY_STATE, 0, POSIX},
        {"stop_itself", "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)", END(OK) | END(TIMEOUT), ANY_STATE,
         2000, POSIX},
        {"a_repr_that_exits", "import os\nclass Exits:\n    def __repr__(self): os._exit(9)\nExits()", END(LOST),
         SBX_STATE_LOST, 0, 0},
        {"sys_exit", "import sys\nsys.exit(3)", END(ERROR), SBX_STATE_KEPT, 0, 0},
        {"recursion_without_end", "import sys\nsys.setrecursionlimit(10**9)\ndef dive(): return [dive()]\ndive()",
         END(KILLED) | END(ERROR) | END(MEMORY) | END(TIMEOUT), ANY_STATE, 20000, 0},
        {"recursion_beyond_the_stack",
         "import sys\nsys.setrecursionlimit(10**9)\ndef dive(x): return list(map(dive, [x]))\ndive(0)",
         END(KILLED) | END(ERROR) | END(MEMORY), ANY_STATE, 0, 0},
        {"modules_cleared", "import sys\nsys.modules.clear()", END(OK) | END(ERROR), ANY_STATE, 0, 0},
        {"its_own_directory_removed", "import os, tempfile\nos.chdir(tempfile.mkdtemp())\nos.rmdir(os.getcwd())",
         END(OK), SBX_STATE_KEPT, 0, 0},
        /* processes */
        {"a_fork_bomb", "import os\nwhile True: os.fork()", END(ERROR) | END(TIMEOUT) | END(KILLED) | END(LOST),
         ANY_STATE, 2000, SBX_BACKEND_SUBPROCESS},
        {"a_fork_bomb_that_hides",
         "import os\nwhile True:\n    try:\n        if os.fork() == 0: os.setsid()\n    except BaseException: pass",
         END(ERROR) | END(TIMEOUT) | END(KILLED) | END(LOST), ANY_STATE, 2000, SBX_BACKEND_SUBPROCESS},
        {"threads_without_end",
         "import threading\nstop = threading.Event()\nthreading.stack_size(65536)\nwhile True: "
         "threading.Thread(target=stop.wait, daemon=True).start()",
         END(ERROR) | END(TIMEOUT) | END(MEMORY) | END(KILLED), ANY_STATE, 5000, SBX_BACKEND_THREADS},
        {"signals_to_everybody",
         "import os, signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
         "os.kill(-1, signal.SIGTERM) if os.getpid() == 1 "
         "else None",
         END(OK) | END(ERROR), SBX_STATE_KEPT, 0, 0},
        {"a_child_that_speaks_on",
         "import os, time\nif os.fork() == 0:\n    while True:\n        os.write(1, b'child')\n"
         "        time.sleep(0.01)",
         END(OK), SBX_STATE_KEPT, 0, SBX_BACKEND_SUBPROCESS},
};

static struct sbx_guest_process *witness; /* of all of them; there from the first to the last */

static void skip_without(uint32_t needs) {
        const uint32_t missing = needs & ~(POSIX | WASI) & ~suite.ops->features;
        const bool wasi = holds(witness, IS_WASI);

        if ((missing & SBX_BACKEND_SUBPROCESS) != 0)
                skip_because("the backend's guests start no processes");
        if ((missing & SBX_BACKEND_THREADS) != 0)
                skip_because("the backend's guests start no threads");
        if ((needs & POSIX) != 0 && wasi)
                skip_because("the guests' system knows one process and streams that stay open");
        if ((needs & WASI) != 0 && !wasi)
                skip_because("it is about guests in WebAssembly");
}

static void run_hostile(void **state) {
        const struct hostile *hostile = *state;
        struct sbx_guest_process *guest;
        struct sbx_result *result;

        if (witness == NULL) {
                witness = start("conformance-witness");
                expect(witness, "seen = 'unharmed'", SBX_END_OK, "");
        }
        skip_without(hostile->needs);
        guest = start("conformance-hostile");
        expect(guest, "kept = 41", SBX_END_OK, "");
        result =
                execute_until(guest, hostile->code, hostile->timeout_ms != 0 ? hostile->timeout_ms : PATIENCE_MS, NULL);
        if ((hostile->ends & (1u << result->end)) == 0)
                fail_msg("%s ended as %s: %s", hostile->name, sbx_end_name(result->end),
                         result->error_message != NULL ? result->error_message : "");
        if (hostile->state != ANY_STATE && hostile->state != (int)result->state)
                fail_msg("%s: its state was %s", hostile->name, result->state == SBX_STATE_KEPT ? "kept" : "lost");
        assert_true(result->stdout_text.size <= 1 << 20 && result->stderr_text.size <= 1 << 20);
        if (strcmp(hostile->name, "a_flood_of_output") == 0)
                assert_int_equal(result->stdout_text.size + result->stdout_dropped_bytes, 64 << 20);
        assert_true(sbx_guest_alive(guest) == (result->state == SBX_STATE_KEPT));
        if (hostile->state == SBX_STATE_KEPT) {
                struct sbx_result *after = execute_until(guest, "result = kept + 1", PATIENCE_MS, NULL);

                if (after->end != SBX_END_OK || strcmp(after->result_json, "42") != 0)
                        fail_msg("%s: its state is gone: %s", hostile->name,
                                 after->error_message != NULL ? after->error_message : after->result_json);
                sbx_result_free(after);
        }
        sbx_result_free(result);
        sbx_guest_free(guest);
        expect(witness, "print(seen)", SBX_END_OK, "unharmed\n");
}

static int end_witness(void **state) {
        sbx_guest_free(witness);
        witness = NULL;
        return 0;
}

struct group hostile_group(void) {
        static struct CMUnitTest tests[sizeof(programs) / sizeof(programs[0])];
        static char names[sizeof(programs) / sizeof(programs[0])][80];
        const size_t count = sizeof(programs) / sizeof(programs[0]);

        for (size_t i = 0; i < count; i++) {
                union {
                        const struct hostile *constant;
                        void *changeable; /* as cmocka wants it */
                } data = {.constant = &programs[i]};

                snprintf(names[i], sizeof(names[i]), "hostile_%s", programs[i].name);
                tests[i] = (struct CMUnitTest){.name = names[i],
                                               .test_func = run_hostile,
                                               .teardown_func = i == count - 1 ? end_witness : NULL,
                                               .initial_state = data.changeable};
        }
        return (struct group){tests, count};
}

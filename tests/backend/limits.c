/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance: memory, processes, CPU, disk, output: what a guest may have, what is told of what it took. */
#include "suite.h"

#include "guest/process.h"

static struct sbx_limits limits_of(uint64_t memory_bytes, uint32_t pids_max, uint32_t cpu_percent) {
        return (struct sbx_limits){.struct_size = sizeof(struct sbx_limits),
                                   .memory_bytes = memory_bytes,
                                   .pids_max = pids_max,
                                   .cpu_percent = cpu_percent};
}

static void test_usage_counts(void **state) {
        struct sbx_guest_process *guest = start("conformance-usage");
        struct sbx_result *result = execute_until(
                guest, "import time\nend = time.process_time() + 0.2\nwhile time.process_time() < end: pass",
                PATIENCE_MS, NULL);

        assert_int_equal(result->end, SBX_END_OK);
        assert_true(result->cpu_ns >= 150 * SBX_NS_PER_MS);
        assert_true(result->cpu_ns <= 2 * result->duration_ns);
        sbx_result_free(result);
        sbx_guest_free(guest);
}

static void test_memory_peak_is_told(void **state) {
        struct sbx_guest_process *guest = start("conformance-peak");
        struct sbx_result *result = execute_until(guest, "data = b'x' * (101 << 20)\ndel data", PATIENCE_MS, NULL);

        assert_int_equal(result->end, SBX_END_OK);
        if (!layer_applied(guest, "memory"))
                skip_because("this user can't have cgroups here");
        assert_true(result->memory_peak_bytes >= 100 << 20);
        assert_true(result->memory_peak_bytes <= UINT64_C(512) << 20);
        sbx_result_free(result);
        sbx_guest_free(guest);
}

/* Inside, it is a MemoryError: nothing is lost. */
static void test_soft_memory_limit_keeps_state(void **state) {
        struct sbx_guest_process *guest = start("conformance-soft");
        const struct sbx_guest_execution execution = {.memory_bytes = 128 << 20};
        struct sbx_result *result;

        expect(guest, "kept = 1", SBX_END_OK, "");
        result = execute_as(guest, "hoard = []\nwhile True: hoard.append(bytearray(1 << 20))", &execution, NULL);
        assert_int_equal(result->end, SBX_END_MEMORY);
        assert_int_equal(result->state, SBX_STATE_KEPT);
        sbx_result_free(result);
        expect(guest, "print(kept)", SBX_END_OK, "1\n");
        sbx_guest_free(guest);
}

static void test_memory_limit(void **state) {
        struct sbx_guest_process *guest = start("conformance-memory");
        struct sbx_limits limits = limits_of(96 << 20, 0, 0);
        struct sbx_result *result;
        struct sbx_error err = {0};

        if (suite.ops->guest_limit == NULL)
                skip_because("the backend changes no limits");
        must(sbx_guest_limit(guest, &limits, &err), &err);
        result = execute_until(guest, "hoard = []\nwhile True: hoard.append(bytearray(1 << 20))", PATIENCE_MS, NULL);
        assert_int_equal(result->end, SBX_END_MEMORY);
        sbx_result_free(result);
        sbx_guest_free(guest);
}

static void test_memory_limit_at_the_start(void **state) {
        struct sbx_limits limits = limits_of(96 << 20, 0, 0);
        struct sbx_guest_process *guest = start_limited("conformance-small", &limits);
        /* Memory that Python's own limit does not see: pages of a file in memory. */
        struct sbx_result *result = execute_until(
                guest,
                "import os, sys\n"
                "fd = os.open('x', os.O_RDWR | os.O_CREAT) if sys.platform == 'wasi' else os.memfd_create('x')\n"
                "for _ in range(300): os.write(fd, b'x' * (1 << 20))",
                PATIENCE_MS, NULL);

        if (!layer_applied(guest, "memory"))
                skip_because("this user can't have cgroups here");
        assert_true(result->end == SBX_END_MEMORY || result->end == SBX_END_ERROR);
        sbx_result_free(result);
        sbx_guest_free(guest);
}

/* A child that takes too much does not take the session with it, or is told to have. */
static void test_memory_of_children(void **state) {
        struct sbx_limits limits = limits_of(96 << 20, 0, 0);
        struct sbx_guest_process *guest;
        struct sbx_result *result;

        if ((suite.ops->features & SBX_BACKEND_SUBPROCESS) == 0)
                skip_because("the backend's guests start no processes");
        guest = start_limited("conformance-child-memory", &limits);
        result = execute_until(
                guest,
                "import subprocess, sys\np = subprocess.run([sys.executable, '-c', '''import mmap\nm = []\n"
                "while True:\n    m.append(mmap.mmap(-1, 1 << 20))\n    m[-1].write(b'x' * (1 << 20))'''],\n"
                "    stderr=subprocess.DEVNULL)\nprint(p.returncode != 0)",
                PATIENCE_MS, NULL);
        assert_true(result->end == SBX_END_MEMORY || (result->end == SBX_END_OK && result->stdout_text.size == 5));
        sbx_result_free(result);
        sbx_guest_free(guest);
}

/* Limits can be taken back: a guest of the pool gets those of its session. */
static void test_limits_go_up_and_down(void **state) {
        struct sbx_limits small = limits_of(96 << 20, 0, 0), large = limits_of(400 << 20, 0, 0);
        struct sbx_guest_process *guest = start_limited("conformance-grow", &small);
        struct sbx_error err = {0};

        if (suite.ops->guest_limit == NULL)
                skip_because("the backend changes no limits");
        must(sbx_guest_limit(guest, &large, &err), &err);
        expect(guest, "data = b'x' * (200 << 20)\nprint(len(data) >> 20)\ndel data", SBX_END_OK, "200\n");
        must(sbx_guest_limit(guest, &large, &err), &err); /* the same once more */
        sbx_guest_free(guest);
}

static void test_pids_limit(void **state) {
        struct sbx_limits limits = limits_of(0, 24, 0);
        struct sbx_guest_process *guest;

        if ((suite.ops->features & SBX_BACKEND_SUBPROCESS) == 0)
                skip_because("the backend's guests start no processes");
        guest = start_limited("conformance-pids", &limits);
        if (!layer_applied(guest, "pids"))
                skip_because("this user can't have cgroups here");
        expect(guest,
               "import os, signal\npids = []\ntry:\n    for _ in range(100):\n        pid = os.fork()\n"
               "        if pid == 0:\n            signal.pause()\n            os._exit(0)\n        pids.append(pid)\n"
               "except OSError as e:\n    pass\n"
               "print(2 <= len(pids) < 24)\nfor pid in pids:\n    os.kill(pid, 9)\n    os.waitpid(pid, 0)",
               SBX_END_OK, "True\n");
        expect(guest, "print('alive')", SBX_END_OK, "alive\n");
        sbx_guest_free(guest);
}

/* Half of a CPU is at most half of the time, whatever else the machine does. */
static void test_cpu_limit(void **state) {
        struct sbx_limits limits = limits_of(0, 0, 50);
        struct sbx_guest_process *guest = start_limited("conformance-cpus", &limits);
        struct sbx_result *result;

        if (!layer_applied(guest, "cpu")) {
                sbx_guest_free(guest);
                skip_because("no share of processors was limited: the backend can't, or this user can't have cgroups");
        }
        result = execute_until(guest, "import time\nend = time.monotonic() + 1.5\nwhile time.monotonic() < end: pass",
                               PATIENCE_MS, NULL);
        assert_int_equal(result->end, SBX_END_OK);
        assert_true(result->cpu_ns <= result->duration_ns * 7 / 10);
        sbx_result_free(result);
        sbx_guest_free(guest);
}

static void test_disk_is_limited(void **state) {
        struct sbx_guest_process *guest = start("conformance-disk");

        expect(guest,
               "import errno, os, tempfile\ndef fill(place):\n    n = 0\n    try:\n"
               "        with open(place + '/fill', 'wb', buffering=0) as f:\n"
               "            for n in range(400): f.write(b'x' * (1 << 20))\n    except OSError as e:\n"
               "        return e.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)\n    finally:\n"
               "        os.unlink(place + '/fill')\n    return n\n"
               "print(fill(tempfile.gettempdir()), fill(os.getcwd()))",
               SBX_END_OK, "True True\n");
        expect(guest, "open('small', 'w').write('fits')\nprint(open('small').read())", SBX_END_OK, "fits\n");
        sbx_guest_free(guest);
}

static void test_output_caps(void **state) {
        struct sbx_guest_process *guest = start("conformance-caps");
        const struct sbx_guest_execution execution = {.output_max_bytes = 1000, .display_max_bytes = 5000};
        struct sbx_result *result =
                execute_as(guest,
                           "import sys\nsys.stdout.write('x' * 5000)\nsys.stderr.write('y' * 3000)\n"
                           "class Big:\n    def _repr_html_(self): return 'z' * 9000\nBig()",
                           &execution, NULL);

        assert_int_equal(result->end, SBX_END_OK);
        assert_int_equal(result->stdout_text.size, 1000);
        assert_int_equal(result->stdout_dropped_bytes, 4000);
        assert_int_equal(result->stderr_text.size, 1000);
        assert_int_equal(result->stderr_dropped_bytes, 2000);
        assert_int_equal(result->display_count, 0);
        assert_int_equal(result->display_dropped_count, 1);
        sbx_result_free(result);
        sbx_guest_free(guest);
}

static void test_usage_of_a_dead_guest(void **state) {
        struct sbx_guest_process *guest = start("conformance-dead-usage");
        struct sbx_guest_usage usage = {.struct_size = sizeof(usage)};
        struct sbx_result *result = execute_until(guest, "import os\nos._exit(7)", PATIENCE_MS, NULL);
        struct sbx_error err = {0};

        assert_int_equal(result->end, SBX_END_LOST);
        must(suite.ops->guest_usage(suite.backend->state, guest->handle.handle, &usage, &err), &err);
        assert_int_equal(usage.exit_code, 7);
        assert_int_equal(usage.oom_killed, 0);
        sbx_result_free(result);
        sbx_guest_free(guest);
}

struct group limits_group(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_usage_counts),
                cmocka_unit_test(test_memory_peak_is_told),
                cmocka_unit_test(test_soft_memory_limit_keeps_state),
                cmocka_unit_test(test_memory_limit),
                cmocka_unit_test(test_memory_limit_at_the_start),
                cmocka_unit_test(test_memory_of_children),
                cmocka_unit_test(test_limits_go_up_and_down),
                cmocka_unit_test(test_pids_limit),
                cmocka_unit_test(test_cpu_limit),
                cmocka_unit_test(test_disk_is_limited),
                cmocka_unit_test(test_output_caps),
                cmocka_unit_test(test_usage_of_a_dead_guest),
        };

        return (struct group){tests, sizeof(tests) / sizeof(tests[0])};
}

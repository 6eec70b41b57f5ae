/* SPDX-License-Identifier: Apache-2.0 */
/* Instances: calls, traps, memory and its limits, interrupts, clocks, random bytes, and pointers that lie. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine_help.h"

static struct wasm_image image;

static int make_image(void **state) {
        help_image(0, &image);
        return 0;
}

static int drop_image(void **state) {
        image_close(&image);
        return 0;
}

static int begin(void **state) {
        struct session *session = malloc(sizeof(*session));

        help_session(&image, session);
        *state = session;
        return 0;
}

static int end(void **state) {
        help_session_end(*state);
        free(*state);
        return 0;
}

static void begins_where_the_image_was(void **state) {
        struct session *session = *state;

        assert_memory_equal(session->instance->memory + TINY_DATA, TINY_TEXT, strlen(TINY_TEXT));
        assert_memory_equal(session->instance->memory + TINY_PRELOAD, "preload me", 10);
        assert_int_equal(help_run(session, TINY_ADD, 11, 0), WASM_TRAP_NONE);
        assert_int_equal(help_result(session), 111);
        assert_int_equal(help_u32(session, TINY_COUNTER), 111);
}

static void sessions_share_nothing(void **state) {
        struct session *session = *state, other;

        help_session(&image, &other);
        help_run(session, TINY_STORE, TINY_FREE, 42);
        assert_int_equal(other.instance->memory[TINY_FREE], 0);
        assert_int_equal(image.memory[TINY_FREE], 0);
        help_session_end(&other);
        help_session(&image, &other);
        assert_int_equal(other.instance->memory[TINY_FREE], 0);
        help_session_end(&other);
        wasm_signals_install(session->instance);
}

static void the_control_stream_ends_it(void **state) {
        struct session *session = *state;
        uint32_t value = 0;

        shutdown(session->control, SHUT_WR);
        assert_int_equal(wasm_call(session->instance, TINY_CODE->request, &value), WASM_TRAP_NONE);
        assert_int_equal(value, 1);
}

/* ---- traps ---- */

static void traps_with(struct session *session, uint32_t op, uint32_t a, uint32_t b, enum wasm_trap expected) {
        assert_int_equal(help_run(session, op, a, b), expected);
        assert_int_equal(atomic_load(&session->status.trap), expected);
        assert_int_equal(session->host.inside, 0);
}

static void calls_and_refuses_functions(void **state) {
        struct session *session = *state;

        assert_int_equal(help_run(session, TINY_CALL, 1, 21), WASM_TRAP_NONE);
        assert_int_equal(help_result(session), 42);
        traps_with(session, TINY_CALL, 2, 21, WASM_TRAP_INDIRECT_CALL); /* of another type */
}

static void no_function_is_none(void **state) {
        traps_with(*state, TINY_CALL, 0, 0, WASM_TRAP_INDIRECT_CALL);
}

static void beyond_the_table_is_nothing(void **state) {
        traps_with(*state, TINY_CALL, UINT32_MAX, 0, WASM_TRAP_INDIRECT_CALL);
}

static void the_first_byte_beyond_memory(void **state) {
        struct session *session = *state;

        assert_int_equal(help_run(session, TINY_LOAD, TINY_PAGES * WASM_PAGE - 1, 0), WASM_TRAP_NONE);
        traps_with(session, TINY_LOAD, TINY_PAGES * WASM_PAGE, 0, WASM_TRAP_BOUNDS);
}

static void the_farthest_byte(void **state) {
        traps_with(*state, TINY_LOAD, UINT32_MAX, UINT32_MAX, WASM_TRAP_BOUNDS);
}

static void a_store_beyond_memory(void **state) {
        traps_with(*state, TINY_STORE, TINY_PAGES * WASM_PAGE + 12345, 1, WASM_TRAP_BOUNDS);
}

static void native_recursion_ends(void **state) {
        traps_with(*state, TINY_RECURSE, 0, 0, WASM_TRAP_STACK);
}

static void its_own_stack_ends(void **state) {
        traps_with(*state, TINY_RECURSE_FAR, 0, 0, WASM_TRAP_STACK);
}

static void every_trap_has_a_name(void **state) {
        for (int trap = WASM_TRAP_NONE; trap <= WASM_TRAP_EXIT; trap++)
                assert_string_not_equal(wasm_trap_name(trap), "unknown");
        assert_string_equal(wasm_trap_name(99), "unknown");
        traps_with(*state, TINY_TRAP, WASM_TRAP_UNREACHABLE, 0, WASM_TRAP_UNREACHABLE);
}

static void what_trapped_runs_no_more(void **state) {
        struct session *session = *state;
        uint32_t value = 0;

        traps_with(session, TINY_TRAP, WASM_TRAP_INTEGER, 0, WASM_TRAP_INTEGER);
        assert_int_equal(help_run(session, TINY_ADD, 1, 0), WASM_TRAP_INTEGER);
        assert_int_equal(wasm_call_resume(session->instance, 1), WASM_TRAP_INTEGER);
        assert_int_equal(help_u32(session, TINY_COUNTER), 100);
        assert_int_equal(value, 0);
}

static void exit_tells_its_status(void **state) {
        struct session *session = *state;

        traps_with(session, TINY_EXIT, 23, 0, WASM_TRAP_EXIT);
        assert_int_equal(atomic_load(&session->status.exit_code), 23);
}

/* A fault of the engine's own is none of the guest's: the process dies of it. */
static void other_faults_are_seen(void **state) {
        struct session *session = *state;
        pid_t pid = fork();
        int status;

        assert_true(pid >= 0);
        if (pid == 0) {
                void *gone = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

                wasm_signals_install(session->instance);
                session->host.inside = 1;
                *(volatile char *)gone = 1;
                _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) != 0); /* a sanitizer makes it an exit */
}

static void tells_what_is_left_of_the_stack(void **state) {
        struct session *session = *state;

        assert_int_equal(help_run(session, TINY_LEFT, 0, 0), WASM_TRAP_NONE);
        assert_in_range(help_result(session), 60 << 20, 64 << 20);
}

/* ---- memory ---- */

static void grows_up_to_the_limit(void **state) {
        struct session *session = *state;
        const uint32_t most = HELP_MEMORY_LIMIT / WASM_PAGE;

        help_run(session, TINY_GROW, 0, 0);
        assert_int_equal(help_result(session), TINY_PAGES);
        help_run(session, TINY_GROW, most, 0);
        assert_int_equal(help_result(session), TINY_PAGES);
        assert_int_equal(atomic_load(&session->status.memory), HELP_MEMORY_LIMIT);
        assert_int_equal(help_run(session, TINY_STORE, (TINY_PAGES + most) * WASM_PAGE - 1, 5), WASM_TRAP_NONE);
        assert_int_equal(atomic_load(&session->status.memory_refused), 0);
        help_run(session, TINY_GROW, 1, 0);
        assert_int_equal(help_result(session), UINT32_MAX);
        help_run(session, TINY_GROW, UINT32_MAX, 0);
        assert_int_equal(help_result(session), UINT32_MAX);
        assert_int_equal(atomic_load(&session->status.memory_refused), 2);
        assert_int_equal(help_run(session, TINY_LOAD, (TINY_PAGES + most) * WASM_PAGE, 0), WASM_TRAP_BOUNDS);
}

static void new_memory_is_zero(void **state) {
        struct session *session = *state;

        help_run(session, TINY_GROW, 1, 0);
        for (uint32_t i = 0; i < WASM_PAGE; i++)
                assert_int_equal(session->instance->memory[TINY_PAGES * WASM_PAGE + i], 0);
}

static void the_server_can_lower_the_limit(void **state) {
        struct session *session = *state;

        atomic_store(&session->status.memory_max, 2 * WASM_PAGE);
        help_run(session, TINY_GROW, 3, 0);
        assert_int_equal(help_result(session), UINT32_MAX);
        help_run(session, TINY_GROW, 2, 0);
        assert_int_equal(help_result(session), TINY_PAGES);
        atomic_store(&session->status.memory_max, UINT64_MAX); /* not beyond what was configured */
        help_run(session, TINY_GROW, HELP_MEMORY_LIMIT / WASM_PAGE, 0);
        assert_int_equal(help_result(session), UINT32_MAX);
}

static void no_size_reaches_4_gib(void **state) {
        struct session *session = *state;

        session->host.memory_limit = UINT64_MAX;
        help_run(session, TINY_GROW, 65536 - TINY_PAGES, 0);
        assert_int_equal(help_result(session), UINT32_MAX);
        help_run(session, TINY_GROW, 65535 - TINY_PAGES, 0);
        assert_int_equal(help_result(session), TINY_PAGES);
        assert_int_equal(session->instance->size, 65535 * (uint64_t)WASM_PAGE);
        assert_null(wasm_range(session->instance, UINT32_MAX, 1));
}

static void ranges_are_checked(void **state) {
        struct wasm_instance *instance = ((struct session *)*state)->instance;
        uint32_t size = TINY_PAGES * WASM_PAGE;

        assert_ptr_equal(wasm_range(instance, 0, size), instance->memory);
        assert_ptr_equal(wasm_range(instance, size, 0), instance->memory + size);
        assert_null(wasm_range(instance, 0, size + 1));
        assert_null(wasm_range(instance, size, 1));
        assert_null(wasm_range(instance, UINT32_MAX, 0));
        assert_null(wasm_range(instance, 1, UINT64_MAX - 10));
        assert_null(wasm_range(instance, 12, UINT64_MAX - 10));
}

/* In this process's own memory: neither absent nor the file's (Linux, Documentation/admin-guide/mm/pagemap.rst). */
static bool is_private(const uint8_t *page) {
        int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
        uint64_t entry = 0;

        assert_true(fd >= 0);
        assert_int_equal(pread(fd, &entry, sizeof(entry), (off_t)((uintptr_t)page / 4096 * sizeof(entry))),
                         sizeof(entry));
        close(fd);
        return entry >> 63 == 1 && (entry >> 61 & 1) == 0;
}

static void hot_pages_are_made_its_own(void **state) {
        struct session *session = *state;
        const uint8_t *memory = session->instance->memory;

        assert_false(is_private(memory + TINY_FREE));
        wasm_instance_warm(session->instance);
        if (!is_private(memory)) {
                print_message("skipped: this kernel has no MADV_POPULATE_WRITE\n");
                skip();
        }
        for (uint32_t page = 0; page < 3; page++)
                assert_true(is_private(memory + TINY_FREE + page * WASM_HOST_PAGE));
        assert_false(is_private(memory + TINY_FREE + 3 * WASM_HOST_PAGE));
        assert_memory_equal(memory, image.memory, session->instance->size);
}

static void code_and_image_belong_together(void **state) {
        struct wasm_code other = sbx_wasm_code_v1;
        struct wasm_status status = {0};
        struct wasm_host host = {.status = &status};
        struct wasm_instance *instance = NULL;

        other.module_sha256 = "0000000000000000000000000000000000000000000000000000000000000000";
        assert_int_equal(wasm_instance_new(&other, &image, &host, &instance), -EINVAL);
        other = sbx_wasm_code_v1;
        other.global_count = 2;
        assert_int_equal(wasm_instance_new(&other, &image, &host, &instance), -EINVAL);
        other = sbx_wasm_code_v1;
        other.initial_pages = TINY_PAGES + 1;
        assert_int_equal(wasm_instance_new(&other, &image, &host, &instance), -EINVAL);
        assert_null(instance);
}

/* ---- pointers, clocks, random ---- */

static void no_pointer_is_believed(void **state) {
        struct session *session = *state;
        const uint32_t size = TINY_PAGES * WASM_PAGE;
        const uint32_t bad[] = {size, size + 1, UINT32_MAX, UINT32_MAX - 3, 0x80000000};

        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                assert_int_equal(help_run(session, TINY_POINTER, bad[i], 0), WASM_TRAP_NONE);
                assert_int_equal(help_result(session), 0);
        }
}

static void random_bytes_differ(void **state) {
        struct session *session = *state;
        uint8_t *memory = session->instance->memory;

        help_run(session, TINY_RANDOM, TINY_FREE, 1000);
        assert_int_equal(help_result(session), WASI_SUCCESS);
        help_run(session, TINY_RANDOM, TINY_FREE + 1000, 1000);
        assert_memory_not_equal(memory + TINY_FREE, memory + TINY_FREE + 1000, 1000);
        help_run(session, TINY_RANDOM, TINY_FREE, TINY_PAGES * WASM_PAGE);
        assert_int_equal(help_result(session), WASI_EFAULT);
}

static uint64_t clock_of(struct session *session, uint32_t clock) {
        help_run(session, TINY_CLOCK, clock, 0);
        return help_result(session);
}

static void clocks_go_on(void **state) {
        struct session *session = *state;
        uint64_t monotonic = clock_of(session, WASI_CLOCK_MONOTONIC),
                 cpu = clock_of(session, WASI_CLOCK_PROCESS_CPUTIME);

        assert_true(clock_of(session, WASI_CLOCK_REALTIME) > UINT64_C(1700000000) * 1000000000);
        assert_true(monotonic >= UINT64_C(1000000000)); /* where images are */
        assert_true(clock_of(session, WASI_CLOCK_MONOTONIC) > monotonic);
        assert_true(clock_of(session, WASI_CLOCK_THREAD_CPUTIME) >= cpu); /* kernels may count in ticks */
        assert_int_equal(clock_of(session, 4), 0);
}

static void cpu_time_survives_a_fork(void **state) {
        struct session *session = *state;
        uint64_t before = clock_of(session, WASI_CLOCK_PROCESS_CPUTIME) + UINT64_C(5000000000);

        /* A new process begins at zero: as if this one had used five seconds. */
        session->host.cpu_seen_ns = before;
        assert_int_equal(wasm_call_resume(session->instance, 1), WASM_TRAP_NONE);
        assert_int_equal(help_u32(session, TINY_RESUMED), 1);
        assert_true(clock_of(session, WASI_CLOCK_PROCESS_CPUTIME) >= before);
}

/* ---- interrupts ---- */

struct interrupter {
        pthread_t thread, target;
        atomic_bool done;
};

/* Again and again, for the first may come before guest code runs and is dropped then. */
static void *interrupt(void *data) {
        struct interrupter *interrupter = data;

        while (!atomic_load(&interrupter->done)) {
                pthread_kill(interrupter->target, SIGINT);
                usleep(2000);
        }
        return NULL;
}

static void start_interrupting(struct interrupter *interrupter) {
        interrupter->target = pthread_self();
        atomic_init(&interrupter->done, false);
        assert_int_equal(pthread_create(&interrupter->thread, NULL, interrupt, interrupter), 0);
}

static void stop_interrupting(struct interrupter *interrupter) {
        atomic_store(&interrupter->done, true);
        pthread_join(interrupter->thread, NULL);
}

static void an_endless_loop_is_interrupted(void **state) {
        struct session *session = *state;
        struct interrupter interrupter;

        assert_int_equal(image.interrupt_count, 2); /* not what changed on the guest's stack */
        wasm_signals_install(session->instance);
        start_interrupting(&interrupter);
        assert_int_equal(help_run(session, TINY_SPIN, 0, 0), WASM_TRAP_NONE);
        stop_interrupting(&interrupter);
        assert_int_equal(help_result(session), 1);
        assert_int_equal(help_run(session, TINY_ADD, 1, 0), WASM_TRAP_NONE);
        assert_int_equal(help_result(session), 101);
}

static void sleep_and_waits_are_interrupted(void **state) {
        struct session *session = *state;
        struct interrupter interrupter;

        wasm_signals_install(session->instance);
        start_interrupting(&interrupter);
        assert_int_equal(help_run(session, TINY_SLEEP, 1000000000, 0), WASM_TRAP_NONE);
        assert_int_equal(help_result(session), WASI_EINTR);
        assert_int_equal(help_run(session, TINY_WAIT, 4, 0), WASM_TRAP_NONE);
        assert_int_equal(help_result(session), WASI_EINTR);
        stop_interrupting(&interrupter);
}

static void a_request_that_waits_for_more_is_interrupted(void **state) {
        struct session *session = *state;
        struct interrupter interrupter;
        uint32_t value = 0;

        wasm_signals_install(session->instance);
        start_interrupting(&interrupter);
        assert_int_equal(wasm_call(session->instance, TINY_CODE->request, &value), WASM_TRAP_NONE);
        stop_interrupting(&interrupter);
        assert_int_equal(value, 1); /* the tiny guest gives up on any error */
}

static void an_idle_guest_is_not_touched(void **state) {
        struct session *session = *state;

        wasm_signals_install(session->instance);
        raise(SIGINT);
        assert_int_equal(help_u32(session, TINY_PENDING), 0);
        assert_int_equal(help_run(session, TINY_SLEEP, 1, 0), WASM_TRAP_NONE);
        assert_int_equal(help_result(session), WASI_SUCCESS);
}

/* One that the guest has taken notice of does not end its later waits, and one is told once. */
static void an_interrupt_is_told_once(void **state) {
        struct session *session = *state;

        wasm_signals_install(session->instance);
        session->host.inside = 1;
        raise(SIGINT);
        assert_int_equal(help_u32(session, TINY_PENDING), 1);
        assert_int_equal(help_u32(session, TINY_TRIPPED), 1);
        assert_true(wasm_interrupted(session->instance));
        assert_false(wasm_interrupted(session->instance));
        raise(SIGINT);
        memset(session->instance->memory + TINY_PENDING, 0, 4);
        assert_false(wasm_interrupted(session->instance));
        session->host.inside = 0;
}

static void polls_within_its_bounds(void **state) {
        struct session *session = *state;
        const uint32_t at = TINY_FREE;

        assert_int_equal(wasi_poll_oneoff(session->instance, at, at, 0, at), WASI_EINVAL);
        assert_int_equal(wasi_poll_oneoff(session->instance, at, at, 1025, at), WASI_EINVAL);
        assert_int_equal(wasi_poll_oneoff(session->instance, at, at, UINT32_MAX, at), WASI_EINVAL);
        session->instance->memory[at + 8] = 9; /* no such event */
        assert_int_equal(wasi_poll_oneoff(session->instance, at, at + 64, 1, at + 128), WASI_EINVAL);
}

/* More than ppoll would take with the helper's limits; reading waits, writing does not. */
static void polls_one_stream_often(void **state) {
        struct session *session = *state;
        const uint32_t count = 1000, control = 4;
        uint8_t *memory = session->instance->memory + TINY_FREE;

        help_run(session, TINY_GROW, 2, 0);
        for (uint32_t i = 0; i < count; i++) {
                memory[48 * i] = (uint8_t)i;
                memory[48 * i + 8] = i % 2 == 0 ? WASI_EVENT_FD_READ : WASI_EVENT_FD_WRITE;
                memcpy(memory + 48 * i + 16, &control, sizeof(control));
        }
        assert_int_equal(wasi_poll_oneoff(session->instance, TINY_FREE, TINY_FREE + 48 * count, count, TINY_SCRATCH),
                         WASI_SUCCESS);
        assert_int_equal(help_u32(session, TINY_SCRATCH), count / 2);
        for (uint32_t i = 0; i < count / 2; i++) {
                assert_int_equal(memory[48 * count + 32 * i], (uint8_t)(2 * i + 1));
                assert_int_equal(memory[48 * count + 32 * i + 10], WASI_EVENT_FD_WRITE);
        }
}

/* What is written for the first subscription lies upon the second one, which was read before. */
static void events_may_lie_upon_subscriptions(void **state) {
        struct session *session = *state;
        uint8_t *memory = session->instance->memory + TINY_FREE;
        const uint64_t user_data = UINT64_C(0xdeadbeef7fffffff), second = 22;

        memcpy(memory, &user_data, sizeof(user_data));
        memcpy(memory + 48, &second, sizeof(second));
        memory[8] = memory[48 + 8] = WASI_EVENT_CLOCK;
        memory[16] = memory[48 + 16] = WASI_CLOCK_MONOTONIC;
        assert_int_equal(wasi_poll_oneoff(session->instance, TINY_FREE, TINY_FREE + 48 + 16, 2, TINY_FREE + 200),
                         WASI_SUCCESS);
        assert_int_equal(help_u32(session, TINY_FREE + 200), 2);
        assert_memory_equal(memory + 48 + 16, &user_data, sizeof(user_data));
        assert_memory_equal(memory + 48 + 16 + 32, &second, sizeof(second));
}

/* Of a descriptor that is not open, and one that has something to read, at once. */
static void polls_descriptors(void **state) {
        struct session *session = *state;
        uint8_t *memory = session->instance->memory + TINY_FREE;
        uint32_t fds[] = {19, 4};

        for (uint32_t i = 0; i < 2; i++) {
                memory[48 * i] = (uint8_t)(10 + i); /* user data */
                memory[48 * i + 8] = WASI_EVENT_FD_READ;
                memcpy(memory + 48 * i + 16, &fds[i], 4);
        }
        assert_int_equal(write(session->control, "x", 1), 1);
        assert_int_equal(wasi_poll_oneoff(session->instance, TINY_FREE, TINY_FREE + 96, 2, TINY_FREE + 160),
                         WASI_SUCCESS);
        assert_int_equal(help_u32(session, TINY_FREE + 160), 2);
        assert_int_equal(memory[96], 10);
        assert_int_equal(memory[96 + 8], WASI_EBADF);
        assert_int_equal(memory[96 + 32], 11);
        assert_int_equal(memory[96 + 32 + 8], WASI_SUCCESS);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
        const struct CMUnitTest tests[] = {
                TEST(begins_where_the_image_was),
                TEST(sessions_share_nothing),
                TEST(the_control_stream_ends_it),
                TEST(calls_and_refuses_functions),
                TEST(no_function_is_none),
                TEST(beyond_the_table_is_nothing),
                TEST(the_first_byte_beyond_memory),
                TEST(the_farthest_byte),
                TEST(a_store_beyond_memory),
                TEST(native_recursion_ends),
                TEST(its_own_stack_ends),
                TEST(every_trap_has_a_name),
                TEST(what_trapped_runs_no_more),
                TEST(exit_tells_its_status),
                TEST(other_faults_are_seen),
                TEST(tells_what_is_left_of_the_stack),
                TEST(grows_up_to_the_limit),
                TEST(new_memory_is_zero),
                TEST(the_server_can_lower_the_limit),
                TEST(no_size_reaches_4_gib),
                TEST(ranges_are_checked),
                TEST(hot_pages_are_made_its_own),
                TEST(code_and_image_belong_together),
                TEST(no_pointer_is_believed),
                TEST(random_bytes_differ),
                TEST(clocks_go_on),
                TEST(cpu_time_survives_a_fork),
                TEST(an_endless_loop_is_interrupted),
                TEST(sleep_and_waits_are_interrupted),
                TEST(a_request_that_waits_for_more_is_interrupted),
                TEST(an_idle_guest_is_not_touched),
                TEST(an_interrupt_is_told_once),
                TEST(polls_within_its_bounds),
                TEST(polls_one_stream_often),
                TEST(events_may_lie_upon_subscriptions),
                TEST(polls_descriptors),
        };

        return cmocka_run_group_tests(tests, make_image, drop_image);
}

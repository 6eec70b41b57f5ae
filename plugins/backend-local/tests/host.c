/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the plugin without the core: `backend-local-host BUILD_ROOT [NAME=VALUE]... COMMAND [ARGUMENT]...`.
 *
 *      report            the isolation report of a guest
 *      run CODE...       each piece in one and the same guest
 *      each N CODE       the same in N guests, one after another
 *      bench N [PAUSE]   latency of N guests, one after another, PAUSE milliseconds apart
 *      churn N THREADS   N guests by THREADS threads at once
 *      idle N            N guests alive at once, and what memory they take
 *      copies N MIB      N copies of a guest with so much in it, one after another: making one, and going back to it */
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "fake_host.h"

struct run {
        struct fake_host fake;
        int argc;
        char **argv;
};

static int complain(const char *what, int code, const struct sbx_error *err) {
        fprintf(stderr, "%s: %s%s%s%s%s\n", what, err->message[0] != '\0' ? err->message : strerror(-code),
                err->hint[0] != '\0' ? " (" : "", err->hint, err->hint[0] != '\0' ? ")" : "",
                err->code != 0 ? "" : " [no error text]");
        return 1;
}

static int start(struct run *run, struct sbx_guest *guest) {
        struct sbx_error err = {0};
        int r = fake_start(&run->fake, guest, &err);

        return r < 0 ? complain("guest_start", r, &err) : 0;
}

static int command_report(struct run *run) {
        struct sbx_guest guest;
        int r = start(run, &guest);

        if (r == 0)
                printf("%.*s\n", (int)guest.report.size, (const char *)guest.report.data);
        if (r == 0)
                fake_end(&run->fake, &guest);
        return r;
}

static void show_usage(struct run *run, const struct sbx_guest *guest) {
        struct sbx_guest_usage usage = {.struct_size = sizeof(usage)};

        if (run->fake.ops->guest_usage(run->fake.instance, guest->handle, &usage, NULL) == 0)
                printf("usage: cpu %.1f ms, memory %" PRIu64 " peak %" PRIu64 ", pids %u, oom %u, exit %d\n",
                       (double)usage.cpu_ns / 1e6, usage.memory_bytes, usage.memory_peak_bytes, usage.pids,
                       usage.oom_killed, usage.exit_code);
}

static int command_run(struct run *run) {
        struct sbx_guest guest;
        int r = start(run, &guest);

        if (r != 0)
                return r;
        r = fake_greet(&guest);
        for (int i = 0; r == 0 && i < run->argc; i++) {
                struct fake_output *output = calloc(1, sizeof(*output));
                char *result = NULL;

                if (output == NULL)
                        abort();
                r = fake_exec(&guest, run->argv[i], output, &result);
                printf("%s%s\n", output->text, result != NULL ? result : "(no result)");
                free(result);
                free(output);
        }
        if (r < 0) {
                usleep(100000);
                printf("the guest is gone: %s\n", strerror(-r));
        }
        show_usage(run, &guest);
        fake_end(&run->fake, &guest);
        return r < 0;
}

static int command_each(struct run *run) {
        size_t count = run->argc > 1 ? strtoul(run->argv[0], NULL, 10) : 0;
        int r = count == 0 ? 2 : 0;

        for (size_t i = 0; r == 0 && i < count; i++) {
                struct run one = {.argc = run->argc - 1, .argv = run->argv + 1};

                one.fake = run->fake;
                r = command_run(&one);
        }
        return r;
}

static int by_value(const void *a, const void *b) {
        const uint64_t *left = a, *right = b;

        return (*left > *right) - (*left < *right);
}

static void show(const char *what, uint64_t *times, size_t count) {
        qsort(times, count, sizeof(*times), by_value);
        printf("%-34s median %7.0f us   p95 %7.0f us   min %7.0f us\n", what, (double)times[count / 2] / 1e3,
               (double)times[count * 95 / 100] / 1e3, (double)times[0] / 1e3);
}

enum { BENCH_START, BENCH_GREET, BENCH_FIRST, BENCH_WARM, BENCH_END, BENCH_TOTAL, BENCH_COUNT };

static int bench_once(struct run *run, uint64_t *times[BENCH_COUNT], size_t i) {
        uint64_t at[6];
        struct sbx_guest guest;
        int r;

        at[0] = fake_clock_ns();
        r = start(run, &guest);
        if (r != 0)
                return r;
        at[1] = fake_clock_ns();
        r = fake_greet(&guest);
        at[2] = fake_clock_ns();
        if (r == 0)
                r = fake_exec(&guest, "1 + 1", NULL, NULL);
        at[3] = fake_clock_ns();
        if (r == 0)
                r = fake_exec(&guest, "1 + 1", NULL, NULL);
        at[4] = fake_clock_ns();
        fake_end(&run->fake, &guest);
        at[5] = fake_clock_ns();
        for (int step = 0; step < 5; step++)
                times[step][i] = at[step + 1] - at[step];
        times[BENCH_TOTAL][i] = at[3] - at[0];
        return r;
}

static int command_bench(struct run *run) {
        static const char *const names[BENCH_COUNT] = {"guest_start",      "hello -> ready", "first execution",
                                                       "second execution", "kill and close", "start to first result"};
        size_t count = run->argc > 0 ? strtoul(run->argv[0], NULL, 10) : 100;
        unsigned long pause_ms = run->argc > 1 ? strtoul(run->argv[1], NULL, 10) : 0;
        uint64_t *times[BENCH_COUNT];
        int r = 0;

        for (int i = 0; i < BENCH_COUNT; i++)
                times[i] = calloc(count, sizeof(uint64_t));
        for (size_t i = 0; r == 0 && i < count; i++) {
                r = bench_once(run, times, i);
                usleep((useconds_t)pause_ms * 1000);
        }
        for (int i = 0; i < BENCH_COUNT; i++) {
                if (r == 0)
                        show(names[i], times[i], count);
                free(times[i]);
        }
        return r != 0;
}

struct churn {
        struct run *run;
        size_t count;
        int result;
};

static void *churn_thread(void *data) {
        struct churn *churn = data;

        for (size_t i = 0; churn->result == 0 && i < churn->count; i++) {
                struct sbx_guest guest;
                int r = start(churn->run, &guest);

                if (r == 0)
                        r = fake_greet(&guest);
                if (r == 0)
                        r = fake_exec(&guest, "1 + 1", NULL, NULL);
                fake_end(&churn->run->fake, &guest);
                churn->result = r;
        }
        return NULL;
}

static int command_churn(struct run *run) {
        size_t count = run->argc > 0 ? strtoul(run->argv[0], NULL, 10) : 1000;
        size_t threads = run->argc > 1 ? strtoul(run->argv[1], NULL, 10) : 4;
        struct churn churns[64];
        pthread_t ids[64];
        uint64_t begin = fake_clock_ns(), took;
        int r = 0;

        if (threads < 1 || threads > 64)
                return 2;
        for (size_t i = 0; i < threads; i++) {
                churns[i] = (struct churn){.run = run, .count = count / threads};
                if (pthread_create(&ids[i], NULL, churn_thread, &churns[i]) != 0)
                        abort();
        }
        for (size_t i = 0; i < threads; i++) {
                pthread_join(ids[i], NULL);
                r |= churns[i].result != 0;
        }
        took = fake_clock_ns() - begin;
        printf("%zu guests by %zu threads: %.0f a second\n", count, threads, (double)count * 1e9 / (double)took);
        return r;
}

/* Sum of the PSS of all processes whose parent chain doesn't matter here: those that came after the zygote. */
static uint64_t pss_kib(pid_t pid) {
        char path[64], line[256];
        uint64_t kib = 0;
        FILE *file;

        snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
        file = fopen(path, "re");
        while (file != NULL && fgets(line, sizeof(line), file) != NULL)
                if (sscanf(line, "Pss: %" SCNu64, &kib) == 1)
                        break;
        if (file != NULL)
                fclose(file);
        return kib;
}

static int command_idle(struct run *run) {
        size_t count = run->argc > 0 ? strtoul(run->argv[0], NULL, 10) : 300, started = 0;
        struct sbx_guest *guests = calloc(count, sizeof(*guests));
        uint64_t total = 0, most = 0;
        int r = 0;

        for (; r == 0 && guests != NULL && started < count; started++) {
                r = start(run, &guests[started]);
                if (r == 0)
                        r = fake_greet(&guests[started]);
                if (r == 0)
                        r = fake_exec(&guests[started], "x = 1", NULL, NULL);
        }
        for (size_t i = 0; r == 0 && i < started; i++) {
                uint64_t kib = pss_kib(fake_pid_of(&guests[i]));

                total += kib;
                most = kib > most ? kib : most;
        }
        if (r == 0)
                printf("%zu guests alive: PSS %.2f MiB each, at most %.2f MiB\n", count,
                       (double)total / 1024 / (double)count, (double)most / 1024);
        for (size_t i = 0; i < started; i++)
                fake_end(&run->fake, &guests[i]);
        free(guests);
        return r != 0;
}

enum { COPY_FORK, COPY_NEXT, COPY_BACK, COPY_COUNT };

/* A copy, what the next execution of the guest takes, and what it takes to be in the copy instead. */
static int copy_once(struct run *run, struct sbx_guest *guest, uint64_t *times[COPY_COUNT], size_t i) {
        struct sbx_error err = {0};
        struct sbx_guest copy;
        uint64_t at[5];
        int r;

        at[0] = fake_clock_ns();
        r = fake_fork(&run->fake, guest, true, &copy, &err);
        at[1] = fake_clock_ns();
        if (r < 0)
                return complain("guest_fork", r, &err);
        r = fake_exec(guest, "i += 1", NULL, NULL);
        at[2] = fake_clock_ns();
        run->fake.ops->guest_kill(run->fake.instance, guest->handle);
        if (r == 0)
                r = fake_exec(&copy, "i -= 1", NULL, NULL);
        at[3] = fake_clock_ns();
        fake_end(&run->fake, guest);
        *guest = copy;
        for (int step = 0; step < COPY_COUNT; step++)
                times[step][i] = at[step + 1] - at[step];
        return r;
}

static int command_copies(struct run *run) {
        static const char *const names[COPY_COUNT] = {"guest_fork", "next execution", "kill, first execution of copy"};
        size_t count = run->argc > 0 ? strtoul(run->argv[0], NULL, 10) : 100;
        uint64_t *times[COPY_COUNT];
        struct sbx_guest guest;
        char code[256];
        int r = start(run, &guest);

        for (int i = 0; i < COPY_COUNT; i++)
                times[i] = calloc(count, sizeof(uint64_t));
        snprintf(code, sizeof(code), "i = 0\ndata = [bytes([n %% 256]) * 4000 for n in range(%s << 8)]",
                 run->argc > 1 ? run->argv[1] : "20");
        if (r == 0)
                r = fake_greet(&guest);
        if (r == 0)
                r = fake_exec(&guest, code, NULL, NULL);
        for (size_t i = 0; r == 0 && i < count; i++)
                r = copy_once(run, &guest, times, i);
        for (int i = 0; i < COPY_COUNT; i++) {
                if (r == 0)
                        show(names[i], times[i], count);
                free(times[i]);
        }
        if (r == 0)
                show_usage(run, &guest);
        fake_end(&run->fake, &guest);
        return r != 0;
}

static int dispatch(struct run *run, const char *command) {
        static const struct {
                const char *name;
                int (*run)(struct run *run);
        } commands[] = {{"report", command_report}, {"run", command_run},     {"each", command_each},
                        {"bench", command_bench},   {"churn", command_churn}, {"idle", command_idle},
                        {"copies", command_copies}};

        for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
                if (strcmp(commands[i].name, command) == 0)
                        return commands[i].run(run);
        fprintf(stderr, "no command \"%s\"\n", command);
        return 2;
}

int main(int argc, char **argv) {
        struct run run = {.argc = 0};
        struct sbx_error err = {0};
        int settings = 0, r;

        while (argc > 2 + settings && strchr(argv[2 + settings], '=') != NULL)
                settings++;
        if (argc < 3 + settings) {
                fprintf(stderr, "usage: %s BUILD_ROOT [NAME=VALUE]... report|run|each|bench|churn|idle|copies ...\n",
                        argv[0]);
                return 2;
        }
        run.fake.state.verbose = getenv("VERBOSE") != NULL;
        r = fake_open(&run.fake, argv[1], argv + 2, (size_t)settings, &err);
        if (r == 0)
                r = run.fake.plugin->start(run.fake.instance, NULL, &err);
        if (r < 0)
                r = complain("start", r, &err);
        else {
                run.argc = argc - 3 - settings;
                run.argv = argv + 3 + settings;
                r = dispatch(&run, argv[2 + settings]);
                run.fake.plugin->stop(run.fake.instance);
        }
        fake_close(&run.fake);
        return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Measures sessions at the embedding API, and prints one JSON object:
 *
 *      bench_api [--rounds N] [--sustain N] [--idle N]
 *
 *      fresh_pool       a fresh session to its first result, when the pool has one ready
 *      fresh_no_pool    the same with pool = 0
 *      warm             an execution in a session that is there
 *      fresh_per_second sustained by two threads over `--sustain` sessions (default 3000; 0: left out), and how much
 *                       this process and the sandbox's own processes grew meanwhile (rss_growth_kib)
 *      idle_pss_kib     memory of one idle session, proportional set size, with `--idle` alive (default 100; 0: left
 * out)
 */
#include <dirent.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <snipara-sandbox/runtime.h>

#define ROUNDS_MAX 100000u
#define CODE "1 + 1"
#define BETWEEN_MS 15 /* from one fresh session to the next: the last one has gone, the pool is full */

static void fail(const char *what, const struct sbx_error *err) {
        fprintf(stderr, "bench_api: %s: %s\n%s\n", what, err->message, err->hint);
        exit(1);
}

/* The number that `text` begins with; 0: it does not begin with one. */
static unsigned long number_at(const char *text) {
        unsigned long value = 0;

        while (*text == ' ' || *text == '\t')
                text++;
        for (; *text >= '0' && *text <= '9'; text++)
                value = value * 10 + (unsigned long)(*text - '0');
        return value;
}

static uint64_t now_ns(void) {
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static void pause_ms(long ms) {
        nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static struct sbx_runtime *open_runtime(const char *pool) {
        const char *const settings[] = {pool, "max_sessions=4096", NULL};
        struct sbx_runtime_options options = {.struct_size = sizeof(options), .settings = settings};
        struct sbx_runtime *runtime = NULL;
        struct sbx_error err = {0};

        if (sbx_runtime_open(&options, &runtime, &err) < 0)
                fail("open", &err);
        return runtime;
}

/* Runs CODE and returns how long it took. */
static uint64_t execute(struct sbx_runtime *runtime, const char *session_id) {
        struct sbx_execution execution = {
                .struct_size = sizeof(execution), .code = {CODE, sizeof(CODE) - 1}, .session_id = session_id};
        struct sbx_result *result = NULL;
        struct sbx_error err = {0};
        uint64_t begin = now_ns(), took;

        if (sbx_runtime_execute(runtime, &execution, NULL, &result, &err) < 0)
                fail("execute", &err);
        took = now_ns() - begin;
        if (result->end != SBX_END_OK || result->value == NULL || strcmp(result->value, "2") != 0) {
                fprintf(stderr, "bench_api: ended as %s: %s\n", sbx_end_name(result->end),
                        result->error_message != NULL ? result->error_message : "");
                exit(1);
        }
        sbx_result_free(result);
        return took;
}

/* ---- latencies ---- */

static int compare(const void *left, const void *right) {
        uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

        return a < b ? -1 : a > b;
}

static void print_times(const char *name, uint64_t *times, size_t count) {
        qsort(times, count, sizeof(*times), compare);
        printf("\"%s\":{\"median_us\":%.1f,\"min_us\":%.1f,\"p99_us\":%.1f,\"runs\":%zu},", name,
               (double)times[count / 2] / 1e3, (double)times[0] / 1e3, (double)times[count * 99 / 100] / 1e3, count);
}

static void measure(const char *name, struct sbx_runtime *runtime, const char *session_id, size_t rounds, long pause) {
        uint64_t *times = calloc(rounds, sizeof(*times));

        if (times == NULL)
                exit(1);
        for (size_t i = 0; i < 10; i++) { /* the first ones warm caches, and fill the pool */
                execute(runtime, session_id);
                pause_ms(pause);
        }
        for (size_t i = 0; i < rounds; i++) {
                times[i] = execute(runtime, session_id);
                if (pause > 0)
                        pause_ms(pause);
        }
        print_times(name, times, rounds);
        free(times);
}

/* ---- memory, of this process and those that it started ---- */

static unsigned long read_field(const char *path, const char *field) {
        unsigned long value = 0;
        char line[256];
        FILE *file = fopen(path, "re");

        while (file != NULL && fgets(line, sizeof(line), file) != NULL)
                if (strncmp(line, field, strlen(field)) == 0) {
                        value = number_at(line + strlen(field));
                        break;
                }
        if (file != NULL)
                fclose(file);
        return value;
}

/* Whether `pid` is this process or below it. A process that ends meanwhile is none of ours any more. */
static bool is_ours(unsigned long pid) {
        char path[64];

        for (unsigned depth = 0; depth < 16 && pid > 1; depth++) {
                if (pid == (unsigned long)getpid())
                        return true;
                snprintf(path, sizeof(path), "/proc/%lu/status", pid);
                pid = read_field(path, "PPid:");
        }
        return false;
}

/* The sum of a field of a file of /proc/PID over our processes, this one and those below it. */
static unsigned long sum_field(const char *name, const char *field) {
        unsigned long sum = 0;
        struct dirent *entry;
        DIR *proc = opendir("/proc");

        while (proc != NULL && (entry = readdir(proc)) != NULL) {
                unsigned long pid = number_at(entry->d_name);
                char path[300];

                if (pid == 0 || !is_ours(pid))
                        continue;
                snprintf(path, sizeof(path), "/proc/%lu/%s", pid, name);
                sum += read_field(path, field);
        }
        if (proc != NULL)
                closedir(proc);
        return sum;
}

static void measure_idle(struct sbx_runtime *runtime, size_t sessions) {
        unsigned long before = sum_field("smaps_rollup", "Pss:"), after;
        char id[32];

        for (size_t i = 0; i < sessions; i++) {
                snprintf(id, sizeof(id), "idle-%zu", i);
                execute(runtime, id);
        }
        after = sum_field("smaps_rollup", "Pss:");
        printf("\"idle_sessions\":%zu,\"idle_pss_kib\":%.0f,", sessions, (double)(after - before) / (double)sessions);
}

/* ---- throughput ---- */

struct worker {
        struct sbx_runtime *runtime;
        size_t sessions;
        pthread_t thread;
};

static void *work(void *data) {
        struct worker *worker = data;

        for (size_t i = 0; i < worker->sessions; i++)
                execute(worker->runtime, "");
        return NULL;
}

static void run_workers(struct sbx_runtime *runtime, size_t sessions) {
        struct worker workers[2];

        for (size_t i = 0; i < 2; i++) {
                workers[i] = (struct worker){.runtime = runtime, .sessions = sessions / 2};
                if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
                        exit(1);
        }
        for (size_t i = 0; i < 2; i++)
                pthread_join(workers[i].thread, NULL);
}

static void measure_sustained(struct sbx_runtime *runtime, size_t sessions) {
        unsigned long before, after;
        uint64_t begin;
        double seconds;

        run_workers(runtime, 200);
        pause_ms(200); /* the pool is full again, the dead are gone */
        before = sum_field("status", "VmRSS:");
        begin = now_ns();
        run_workers(runtime, sessions);
        seconds = (double)(now_ns() - begin) / 1e9;
        pause_ms(200);
        after = sum_field("status", "VmRSS:");
        printf("\"sustained_sessions\":%zu,\"fresh_per_second\":%.1f,\"rss_kib\":%lu,\"rss_growth_kib\":%ld,", sessions,
               (double)sessions / seconds, after, (long)after - (long)before);
}

int main(int argc, char **argv) {
        size_t rounds = 200, sustain = 3000, idle = 100;
        struct sbx_runtime *runtime;

        for (int i = 1; i + 1 < argc; i += 2) {
                size_t number = number_at(argv[i + 1]);

                if (strcmp(argv[i], "--rounds") == 0 && number > 0 && number <= ROUNDS_MAX)
                        rounds = number;
                else if (strcmp(argv[i], "--sustain") == 0)
                        sustain = number;
                else if (strcmp(argv[i], "--idle") == 0 && number <= 4000)
                        idle = number;
                else {
                        fprintf(stderr, "usage: bench_api [--rounds N] [--sustain N] [--idle N]\n");
                        return 2;
                }
        }
        printf("{");
        runtime = open_runtime("local.pool=4");
        measure("fresh_pool", runtime, "", rounds, BETWEEN_MS);
        measure("warm", runtime, "warm", rounds * 10, 0);
        if (sustain > 0)
                measure_sustained(runtime, sustain);
        if (idle > 0)
                measure_idle(runtime, idle);
        sbx_runtime_free(runtime);
        runtime = open_runtime("local.pool=0");
        measure("fresh_no_pool", runtime, "", rounds, BETWEEN_MS);
        sbx_runtime_free(runtime);
        printf("\"version\":\"%s\"}\n", sbx_version());
        return 0;
}

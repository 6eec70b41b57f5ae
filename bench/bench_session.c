/* SPDX-License-Identifier: Apache-2.0 */
/* Executes what it is told to at the embedding API, and says how long each execution took: for harnesses that measure
 * this program and others in turn.
 *
 *      bench_session CONFIGURATION
 *
 * Reads lines "COUNT SESSION RUNTIME CODE" from standard input (SESSION "-": a fresh one each time, gone afterwards),
 * and answers each with a line: the nanoseconds of each execution; or "error: ...". Every execution must print "1". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <snipara-sandbox/runtime.h>

#define COUNT_MAX 1000000u

static uint64_t now_ns(void) {
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* Prints the error on the one line that it may have. */
static void print_error(const char *message) {
        printf("error: ");
        for (; message != NULL && *message != '\0'; message++)
                putchar((unsigned char)*message < ' ' ? ' ' : *message);
        putchar('\n');
}

static bool execute(struct sbx_runtime *runtime, const char *session, const char *language, const char *code) {
        struct sbx_execution execution = {.struct_size = sizeof(execution),
                                          .code = {code, strlen(code)},
                                          .session_id = strcmp(session, "-") == 0 ? "" : session,
                                          .runtime = language};
        struct sbx_result *result = NULL;
        struct sbx_error err = {0};
        uint64_t begin = now_ns(), took;
        bool good;

        if (sbx_runtime_execute(runtime, &execution, NULL, &result, &err) < 0) {
                print_error(err.message);
                return false;
        }
        took = now_ns() - begin;
        good = result->end == SBX_END_OK && result->stdout_text.size == 2 &&
               memcmp(result->stdout_text.data, "1\n", 2) == 0;
        if (good)
                printf("%llu ", (unsigned long long)took);
        else
                print_error(result->error_message != NULL ? result->error_message : "it printed something else");
        sbx_result_free(result);
        return good;
}

/* "COUNT SESSION RUNTIME CODE" */
static bool obey(struct sbx_runtime *runtime, char *line) {
        const char *count_text = strsep(&line, " "), *session = strsep(&line, " "), *language = strsep(&line, " ");
        size_t count = 0;

        for (; *count_text >= '0' && *count_text <= '9' && count <= COUNT_MAX; count_text++)
                count = count * 10 + (size_t)(*count_text - '0');
        if (*count_text != '\0' || count == 0 || count > COUNT_MAX || line == NULL) {
                print_error("expected: COUNT SESSION RUNTIME CODE");
                return false;
        }
        for (size_t i = 0; i < count; i++)
                if (!execute(runtime, session, language, line))
                        return false;
        putchar('\n');
        return true;
}

int main(int argc, char **argv) {
        struct sbx_runtime_options options = {.struct_size = sizeof(options)};
        struct sbx_runtime *runtime = NULL;
        struct sbx_error err = {0};
        char *line = NULL;
        size_t size = 0;
        ssize_t length;

        if (argc != 2) {
                fprintf(stderr, "usage: bench_session CONFIGURATION\n");
                return 2;
        }
        options.config_path = argv[1];
        if (sbx_runtime_open(&options, &runtime, &err) < 0) {
                fprintf(stderr, "bench_session: %s\n%s\n", err.message, err.hint);
                return 1;
        }
        while ((length = getline(&line, &size, stdin)) > 0) {
                if (line[length - 1] == '\n')
                        line[length - 1] = '\0';
                obey(runtime, line);
                fflush(stdout);
        }
        free(line);
        sbx_runtime_free(runtime);
        return 0;
}

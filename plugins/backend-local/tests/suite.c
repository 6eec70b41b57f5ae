/* SPDX-License-Identifier: Apache-2.0 */
#include "suite.h"

#include <dirent.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>

bool check(struct suite *suite, bool good, const char *format, ...) {
        va_list args;

        suite->count++;
        suite->failed += !good;
        printf("%s %d - ", good ? "ok" : "not ok", suite->count);
        if (suite->of != NULL)
                printf("%s: ", suite->of);
        va_start(args, format);
        vprintf(format, args);
        va_end(args);
        printf("\n");
        fflush(stdout);
        return good;
}

void skip(struct suite *suite, const char *what, const char *why) {
        suite->count++;
        printf("ok %d - %s%s%s # SKIP %s\n", suite->count, suite->of != NULL ? suite->of : "",
               suite->of != NULL ? ": " : "", what, why);
}

int count_fds(void) {
        DIR *directory = opendir("/proc/self/fd");
        int count = 0;

        while (directory != NULL && readdir(directory) != NULL)
                count++;
        if (directory != NULL)
                closedir(directory);
        return count;
}

bool open_suite(struct suite *suite, char **settings, size_t count) {
        struct sbx_error err = {0};
        int r;

        suite->fake = (struct fake_host){.library = NULL};
        r = fake_open(&suite->fake, suite->root, settings, count, &err);
        if (r == 0)
                r = suite->fake.plugin->start(suite->fake.instance, NULL, &err);
        return check(suite, r == 0, "the backend starts %s", err.message);
}

void close_suite(struct suite *suite) {
        suite->fake.plugin->stop(suite->fake.instance);
        fake_close(&suite->fake);
}

bool begin(struct suite *suite, struct sbx_guest *guest) {
        struct sbx_error err = {0};

        if (fake_start(&suite->fake, guest, &err) == 0 && fake_greet(guest) == 0)
                return true;
        return check(suite, false, "a guest starts: %s (%s)", err.message, err.hint);
}

bool freeze(struct suite *suite, const struct sbx_guest *guest, struct sbx_guest *copy) {
        struct sbx_error err = {0};

        return fake_fork(&suite->fake, guest, true, copy, &err) == 0 ||
               check(suite, false, "a guest is copied: %s", err.message);
}

bool branch(struct suite *suite, const struct sbx_guest *guest, struct sbx_guest *copy) {
        struct sbx_error err = {0};

        return fake_fork(&suite->fake, guest, false, copy, &err) == 0 ||
               check(suite, false, "a guest is branched: %s", err.message);
}

bool says(const struct sbx_guest *guest, const char *code, const char *wanted) {
        struct fake_output *output = calloc(1, sizeof(*output));
        bool good = output != NULL && fake_exec(guest, code, output, NULL) == 0 &&
                    (wanted == NULL || strcmp(output->text, wanted) == 0);

        if (!good && output != NULL)
                printf("# printed \"%s\"\n", output->text);
        free(output);
        return good;
}

void end(struct suite *suite, struct sbx_guest *guest) {
        fake_end(&suite->fake, guest);
}

bool is_dead(const struct sbx_guest *guest, int timeout_ms) {
        struct pollfd death = {guest->exit_fd, POLLIN, 0};

        return poll(&death, 1, timeout_ms) == 1;
}

struct sbx_guest_usage usage_of(struct suite *suite, const struct sbx_guest *guest) {
        struct sbx_guest_usage usage = {.struct_size = sizeof(usage)};

        suite->fake.ops->guest_usage(suite->fake.instance, guest->handle, &usage, NULL);
        return usage;
}

bool is_counted(const struct sbx_guest *guest, const char *layer) {
        char text[64];

        snprintf(text, sizeof(text), "\"name\":\"%s\",\"state\":\"applied\"", layer);
        return memmem(guest->report.data, guest->report.size, text, strlen(text)) != NULL;
}

pid_t zygote_of(const struct sbx_guest *guest) {
        char path[64], line[512];
        int zygote = 0;
        FILE *file;

        snprintf(path, sizeof(path), "/proc/%d/stat", (int)fake_pid_of(guest));
        file = fopen(path, "re");
        if (file != NULL && fgets(line, sizeof(line), file) != NULL && strrchr(line, ')') != NULL)
                (void)sscanf(strrchr(line, ')') + 1, " %*c %d", &zygote);
        if (file != NULL)
                fclose(file);
        return zygote;
}

int run_suite(int argc, char **argv, bool (*may_run)(struct suite *), suite_test *const *tests, size_t count) {
        char cgroup[] = "cgroup=auto";
        char *settings[] = {cgroup};
        struct suite suite = {.root = argc > 1 ? argv[1] : NULL};

        if (suite.root == NULL) {
                fprintf(stderr, "usage: %s BUILD_ROOT\n", argv[0]);
                return 2;
        }
        printf("TAP version 13\n");
        if (open_suite(&suite, settings, 1)) {
                if (may_run == NULL || may_run(&suite))
                        for (size_t i = 0; i < count; i++)
                                tests[i](&suite);
                close_suite(&suite);
        }
        printf("1..%d\n", suite.count);
        return suite.failed != 0;
}

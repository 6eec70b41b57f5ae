/* SPDX-License-Identifier: Apache-2.0 */
/* Drives guests of a backend for tests in Python, loaded through the program's own registry and spoken to as the core
 * does it, without the sessions above it.
 *
 *      drive-guests INSTANCE [NAME=VALUE ...]
 *
 * Reads commands from standard input, one JSON object a line, and answers each with one line; drive.py beside it is the
 * other end. Guests are told apart by numbers; "took_ns" is how long a command took. A failure is {"errno", "message",
 * "hint"}. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "guest/guest.h"
#include "guest/process.h"
#include "guests/driver.h"

#define LINE_MAX_BYTES ((size_t)20 << 20)
#define ORIGIN "drive-guests"

struct driver driver;

static int set_up(const char *instance, const char *const *settings, struct sbx_error *err) {
        struct sbx_runtime_options options = {.struct_size = sizeof(options), .settings = settings};
        struct sbx_call call = {.struct_size = sizeof(call), .cancel_fd = -1};
        int r;

        driver.logger.level = SBX_LOG_WARNING;
        call.deadline_ns = sbx_clock_deadline_ms(PATIENCE_MS);
        r = sbx_config_load(&options, &driver.logger, &driver.config, err);
        if (r == 0)
                r = sbx_directories_find(&driver.directories, err);
        if (r == 0)
                r = sbx_registry_new(driver.config, &driver.logger, &driver.directories, NULL, &driver.registry, err);
        if (r == 0)
                r = sbx_registry_get(driver.registry, instance, SBX_PLUGIN_BACKEND, &call, &driver.backend, err);
        return r;
}

static void tear_down(void) {
        for (size_t i = 0; i < driver.count; i++)
                sbx_guest_free(driver.guests[i]);
        free(driver.guests);
        sbx_registry_free(driver.registry);
        sbx_directories_free(&driver.directories);
        sbx_config_free(driver.config);
}

int driver_keep(struct sbx_guest_process *guest, json_t *answer, struct sbx_error *err) {
        struct sbx_guest_process **grown =
                reallocarray(driver.guests, driver.count + 1, sizeof(struct sbx_guest_process *));

        if (grown == NULL) {
                sbx_guest_free(guest);
                return SBX_NOMEM(err, ORIGIN);
        }
        driver.guests = grown;
        driver.guests[driver.count++] = guest;
        return json_object_set_new(answer, "guest", json_integer((json_int_t)driver.count - 1)) < 0
                       ? SBX_NOMEM(err, ORIGIN)
                       : 0;
}

int driver_guest(const json_t *command, struct sbx_guest_process ***ret_place, struct sbx_error *err) {
        int64_t number = -1;
        int r = sbx_json_get_int(command, "", "guest", SBX_JSON_REQUIRED, 0, INT32_MAX, &number, err);

        if (r < 0)
                return r;
        if ((size_t)number >= driver.count || driver.guests[number] == NULL)
                return sbx_error_set(err, -ESRCH, ORIGIN, NULL, "there is no guest %lld", (long long)number);
        *ret_place = &driver.guests[number];
        return 0;
}

static const struct {
        const char *name;
        int (*run)(const json_t *command, const struct sbx_call *call, json_t *answer, struct sbx_error *err);
} commands[] = {
        {"start", driver_start}, {"execute", driver_execute}, {"write", driver_write},     {"read", driver_read},
        {"fork", driver_fork},   {"save", driver_save},       {"restore", driver_restore}, {"limit", driver_limit},
        {"usage", driver_usage}, {"end", driver_end},
};

static int dispatch(const json_t *command, json_t *answer, struct sbx_error *err) {
        struct sbx_call call = {.struct_size = sizeof(call), .cancel_fd = -1};
        const char *name = NULL;
        int r = sbx_json_get_string(command, "", "do", SBX_JSON_REQUIRED, &name, err);

        if (r < 0)
                return r;
        call.deadline_ns = sbx_clock_deadline_ms(PATIENCE_MS);
        for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
                if (strcmp(commands[i].name, name) == 0)
                        return commands[i].run(command, &call, answer, err);
        return sbx_error_set(err, -EINVAL, ORIGIN, NULL, "there is no command %s", name);
}

static int answer_line(struct sbx_bytes line) {
        _cleanup_json_ json_t *command = NULL, *answer = json_object();
        struct sbx_error err = {0};
        uint64_t begin;
        int r = answer != NULL ? sbx_json_parse(line, LINE_MAX_BYTES, "command", &command, &err) : -ENOMEM;

        begin = sbx_clock_ns();
        if (r == 0)
                r = dispatch(command, answer, &err);
        if (r == 0 && json_object_set_new(answer, "took_ns", json_integer((json_int_t)(sbx_clock_ns() - begin))) < 0)
                r = -ENOMEM;
        if (r < 0) {
                json_decref(answer);
                answer = json_pack("{s:s,s:s,s:s}", "errno", strerrorname_np(-r), "message", err.message, "hint",
                                   err.hint);
        }
        if (answer == NULL || json_dumpf(answer, stdout, JSON_COMPACT) < 0)
                return -EIO;
        fputc('\n', stdout);
        return fflush(stdout) == 0 ? 0 : -EIO;
}

int main(int argc, char **argv) {
        _cleanup_free_ char *line = NULL;
        struct sbx_error err = {0};
        size_t capacity = 0;
        ssize_t size;
        int r;

        if (argc < 2) {
                fprintf(stderr, "usage: drive-guests INSTANCE [NAME=VALUE ...]\n");
                return 2;
        }
        r = set_up(argv[1], (const char *const *)argv + 2, &err);
        if (r < 0)
                fprintf(stderr, "%s\n%s\n", err.message, err.hint);
        else
                puts("{\"ready\":true}");
        while (r == 0 && fflush(stdout) == 0 && (size = getline(&line, &capacity, stdin)) > 0)
                r = answer_line((struct sbx_bytes){line, (size_t)size});
        tear_down();
        return r < 0 ? 1 : 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of guests and their copies share: TAP, a backend that is started, guests that run code. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "fake_host.h"

struct suite {
        const char *root; /* build directory */
        int count, failed;
        const char *of; /* what the tests that now run are of, told with each; NULL: nothing */
        struct fake_host fake;
};

/* One line of TAP; returns `good`. */
SBX_PRINTF(3, 4) bool check(struct suite *suite, bool good, const char *format, ...);
void skip(struct suite *suite, const char *what, const char *why);

/* A started backend with these settings ("name=value"). */
bool open_suite(struct suite *suite, char **settings, size_t count);
void close_suite(struct suite *suite);

/* A guest that was greeted; a copy of one that waits; one that runs beside it. False: the check that failed is told. */
bool begin(struct suite *suite, struct sbx_guest *guest);
bool freeze(struct suite *suite, const struct sbx_guest *guest, struct sbx_guest *copy);
bool branch(struct suite *suite, const struct sbx_guest *guest, struct sbx_guest *copy);
void end(struct suite *suite, struct sbx_guest *guest);
/* Runs code; whether what it printed is `wanted` (NULL: anything). */
bool says(const struct sbx_guest *guest, const char *code, const char *wanted);

bool is_dead(const struct sbx_guest *guest, int timeout_ms);
struct sbx_guest_usage usage_of(struct suite *suite, const struct sbx_guest *guest);
/* Does the isolation report say that this layer is applied? */
bool is_counted(const struct sbx_guest *guest, const char *layer);
int count_fds(void);
/* The zygote that a guest, which was never copied, comes from; 0: unknown. */
pid_t zygote_of(const struct sbx_guest *guest);

/* What main returns: `argv` is a build directory. `may_run`: NULL, or whether this machine has what they need. */
typedef void suite_test(struct suite *suite);
int run_suite(int argc, char **argv, bool (*may_run)(struct suite *), suite_test *const *tests, size_t count);

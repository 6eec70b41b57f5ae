/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the conformance suite share: the backend under test, guests of it, and code that runs in them. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json.h"
#include "guest/guest.h"
#include "guest/pool.h"

#define GRACE_NS (2 * SBX_NS_PER_S)
#define PATIENCE_MS 60000 /* bounds what would hang; nothing is expected to take as long */
#define ANY_STATE (-1)

struct suite {
        struct sbx_logger logger;
        struct sbx_directories directories;
        struct sbx_config *config;
        struct sbx_registry *registry;
        const struct sbx_instance *backend;
        const struct sbx_backend_ops *ops;
};
extern struct suite suite;

/* Groups of tests; main runs all. */
struct group {
        const struct CMUnitTest *tests;
        size_t count;
};
struct group state_group(void);
struct group ends_group(void);
struct group hostile_group(void); /* made of tables; freed by the end of the program */
struct group limits_group(void);
struct group files_group(void);
struct group runtimes_group(void);
struct group snapshots_group(void);
struct group portable_group(void);
struct group crafted_group(void);

/* Ends the test as skipped, and says why. */
#define skip_because(...)                                                                                              \
        do {                                                                                                           \
                print_reason(__func__, __VA_ARGS__);                                                                   \
                skip();                                                                                                \
        } while (0)
SBX_PRINTF(2, 3) void print_reason(const char *test, const char *format, ...);

struct sbx_call patience(void);
void must(int r, const struct sbx_error *err);
struct sbx_guest_spec spec(const char *label);
struct sbx_guest_process *start(const char *label);
struct sbx_guest_process *start_limited(const char *label, const struct sbx_limits *limits);
struct sbx_result *execute_until(struct sbx_guest_process *guest, const char *code, uint64_t timeout_ms,
                                 const struct sbx_call *call);
struct sbx_result *execute_as(struct sbx_guest_process *guest, const char *code,
                              const struct sbx_guest_execution *wanted, const struct sbx_call *call);
/* Runs code that must end so, and print exactly this (NULL: anything). */
void expect(struct sbx_guest_process *guest, const char *code, enum sbx_end end, const char *output);
/* Does this expression hold in the guest? For what differs between the systems that guests see. */
bool holds(struct sbx_guest_process *guest, const char *expression);
/* WebAssembly: no users, no permissions, no named pipes, no /proc. */
#define IS_WASI "__import__('sys').platform == 'wasi'"
/* Was the layer applied, by the guest's report? */
bool layer_applied(const struct sbx_guest_process *guest, const char *name);
/* Gives the guest a variable `mark`, to be put into command lines; and how many processes of this machine have it. */
void give_mark(struct sbx_guest_process *guest);
size_t marked_processes(void);

/* SPDX-License-Identifier: Apache-2.0 */
/* A minimal host for this plugin: options from a list of "name=value", directories from the build tree, log lines on
 * standard error. And the guest protocol's two simplest requests, so that a test needs nothing of the core. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include <snipara-sandbox/backend.h>

#define FAKE_SETTINGS_MAX 32

struct sbx_host_state {
        const struct sbx_option *table;
        char *names[FAKE_SETTINGS_MAX];
        char *values[FAKE_SETTINGS_MAX];
        char *items[FAKE_SETTINGS_MAX][64]; /* of a list, split */
        size_t item_counts[FAKE_SETTINGS_MAX];
        size_t count;
        const char *root; /* build directory */
        char directories[4][4096];
        bool verbose;
};

struct fake_host {
        struct sbx_host_state state;
        struct sbx_host host;
        void *library;
        const struct sbx_plugin *plugin;
        const struct sbx_backend_ops *ops;
        void *instance;
};

/* Loads the plugin from `root`, and opens (not starts) an instance with `settings` ("name=value"). */
int fake_open(struct fake_host *fake, const char *root, char **settings, size_t count, struct sbx_error *err);
void fake_close(struct fake_host *fake);

int fake_start(struct fake_host *fake, struct sbx_guest *guest, struct sbx_error *err);
/* A copy that waits (SBX_GUEST_FROZEN), or one that may run beside its original. */
int fake_fork(struct fake_host *fake, const struct sbx_guest *guest, bool frozen, struct sbx_guest *copy,
              struct sbx_error *err);
void fake_end(struct fake_host *fake, struct sbx_guest *guest);

/* hello -> ready. */
int fake_greet(const struct sbx_guest *guest);
/* Runs code; `*ret_result` is the result's JSON, to be freed. Standard output and error go to `output` (bytes beyond
 * its size are dropped), which may be NULL. -EPIPE: the guest died. */
struct fake_output {
        char text[1 << 16];
        size_t size;
};
int fake_exec(const struct sbx_guest *guest, const char *code, struct fake_output *output, char **ret_result);

/* The process that a guest is now, as this one sees it; 0: it is gone. */
pid_t fake_pid_of(const struct sbx_guest *guest);

uint64_t fake_clock_ns(void);

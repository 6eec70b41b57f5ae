/* SPDX-License-Identifier: Apache-2.0 */
/* A backend for tests that isolates nothing: a guest is a child process with a socket pair and two pipes. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include <snipara-sandbox/backend.h>

#include "plugin/registry.h"

struct plain_backend {
        const char *const *argv; /* NULL: the real Python worker */
        bool framed;             /* no pipes: the worker frames its output */
        bool deaf;               /* guest_interrupt does nothing */
        bool oom;                /* guest_usage says that the memory limit killed something, once the guest is dead */
        atomic_int fail;         /* so many starts fail */
        bool needs_owner;        /* none is started for nobody */
        atomic_int started, closed, interrupts, limited;
        atomic_int measured; /* guest_usage calls: two for each execution */
        struct sbx_backend_ops ops;
        struct sbx_instance instance;
};

/* Fills in `instance`. */
void plain_backend_init(struct plain_backend *backend);
/* Process id of the guest, for tests that kill it. */
int plain_backend_last_pid(void);

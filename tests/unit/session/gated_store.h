/* SPDX-License-Identifier: Apache-2.0 */
/* A store in memory for tests, as an instance that a registry would hand out: any of its operations can be made to
 * fail, or to wait. Thread-safe. */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "plugin/registry.h"
#include "session/memory_store.h"

enum gated_store_operation {
        GATE_PUT,
        GATE_GET,
        GATE_LIST,
        GATE_REMOVE,
        GATE_COMMIT,
        GATE_TAKE,
        GATE_RENEW,
        GATE_RELEASE,
        GATE_COLLECT,
        GATE_LOOK,
        GATE_OPERATIONS
};

struct gated_store {
        struct sbx_instance instance; /* what a registry answers with */
        struct sbx_module module;
        struct sbx_store_ops ops;
        struct sbx_memory_store *memory;
        pthread_mutex_t lock;
        pthread_cond_t changed;
        struct gated_operation {
                unsigned calls;   /* so far */
                int error;        /* 0: it works */
                unsigned spared;  /* calls that still work */
                bool after;       /* what fails is done nevertheless, as where an answer is lost */
                bool hold;        /* it waits */
                unsigned waiting; /* calls that do */
        } operations[GATE_OPERATIONS];
};

void gated_store_open(struct gated_store *store);
void gated_store_close(struct gated_store *store);
/* After `spared` more calls it fails, until gated_store_heal(). */
void gated_store_fail(struct gated_store *store, enum gated_store_operation operation, unsigned spared, int error);
/* The same, but the operation is done. */
void gated_store_lose_answer(struct gated_store *store, enum gated_store_operation operation, int error);
void gated_store_heal(struct gated_store *store);
unsigned gated_store_calls(struct gated_store *store, enum gated_store_operation operation);
/* Calls wait until gated_store_let_go(), whatever their deadlines are. */
void gated_store_hold(struct gated_store *store, enum gated_store_operation operation);
void gated_store_wait_held(struct gated_store *store, enum gated_store_operation operation, unsigned calls);
void gated_store_let_go(struct gated_store *store, enum gated_store_operation operation);

/* The first blob whose name ends with `suffix`: its name, the caller's; NULL: none does. */
char *gated_store_find(struct gated_store *store, const char *suffix);
size_t gated_store_count(struct gated_store *store);
/* Reads and writes past everything above. */
struct sbx_buffer;
void gated_store_read(struct gated_store *store, const char *name, struct sbx_buffer *out);
void gated_store_write(struct gated_store *store, const char *name, struct sbx_bytes bytes);
void gated_store_remove(struct gated_store *store, const char *name);

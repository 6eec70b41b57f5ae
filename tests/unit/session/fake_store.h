/* SPDX-License-Identifier: Apache-2.0 */
/* A store in memory for tests, as an instance that a registry would hand out: any of its operations can be made to
 * fail, or to wait. Thread-safe. */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "plugin/registry.h"
#include "session/memory_store.h"

enum fake_store_operation {
        FAKE_PUT,
        FAKE_GET,
        FAKE_LIST,
        FAKE_REMOVE,
        FAKE_COMMIT,
        FAKE_TAKE,
        FAKE_RENEW,
        FAKE_RELEASE,
        FAKE_COLLECT,
        FAKE_LOOK,
        FAKE_OPERATIONS
};

struct fake_store {
        struct sbx_instance instance; /* what a registry answers with */
        struct sbx_module module;
        struct sbx_store_ops ops;
        struct sbx_memory_store *memory;
        pthread_mutex_t lock;
        pthread_cond_t changed;
        struct fake_operation {
                unsigned calls;   /* so far */
                int error;        /* 0: it works */
                unsigned spared;  /* calls that still work */
                bool after;       /* what fails is done nevertheless, as where an answer is lost */
                bool hold;        /* it waits */
                unsigned waiting; /* calls that do */
        } operations[FAKE_OPERATIONS];
};

void fake_store_open(struct fake_store *store);
void fake_store_close(struct fake_store *store);
/* After `spared` more calls it fails, until fake_store_heal(). */
void fake_store_fail(struct fake_store *store, enum fake_store_operation operation, unsigned spared, int error);
/* The same, but the operation is done. */
void fake_store_lose_answer(struct fake_store *store, enum fake_store_operation operation, int error);
void fake_store_heal(struct fake_store *store);
unsigned fake_store_calls(struct fake_store *store, enum fake_store_operation operation);
/* Calls wait until fake_store_let_go(), whatever their deadlines are. */
void fake_store_hold(struct fake_store *store, enum fake_store_operation operation);
void fake_store_wait_held(struct fake_store *store, enum fake_store_operation operation, unsigned calls);
void fake_store_let_go(struct fake_store *store, enum fake_store_operation operation);

/* The first blob whose name ends with `suffix`: its name, the caller's; NULL: none does. */
char *fake_store_find(struct fake_store *store, const char *suffix);
size_t fake_store_count(struct fake_store *store);
/* Reads and writes past everything above. */
struct sbx_buffer;
void fake_store_read(struct fake_store *store, const char *name, struct sbx_buffer *out);
void fake_store_write(struct fake_store *store, const char *name, struct sbx_bytes bytes);
void fake_store_remove(struct fake_store *store, const char *name);

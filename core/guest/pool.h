/* SPDX-License-Identifier: Apache-2.0 */
/* Guests made ready ahead of demand: started, greeted, and warmed by a throw-away execution, so that a new session
 * begins at once with pages of its own. One thread refills. Thread-safe. */
#pragma once

#include "base/metrics.h"
#include "guest/guest.h"

struct sbx_pool;

/* What its guests are; copied. `version` NULL: the backend's default. */
struct sbx_pool_runtime {
        const char *family, *version;
};

/* `size` 0: no thread, every take starts a guest (and does not warm it: it is about to run its one execution). */
int sbx_pool_new(const struct sbx_instance *backend, const struct sbx_pool_runtime *runtime,
                 const struct sbx_logger *logger, unsigned size, struct sbx_pool **ret_pool, struct sbx_error *err);
void sbx_pool_free(struct sbx_pool *pool); /* ends the thread and the guests that nobody took */
/* A ready guest for `spec`: one from the pool when its runtime is the pool's (limits are then set on it), else a
 * fresh one. Dead pool guests are never handed out. */
int sbx_pool_take(struct sbx_pool *pool, const struct sbx_guest_spec *spec, const struct sbx_call *call,
                  struct sbx_guest_process **ret_guest, struct sbx_error *err);
/* Throws those that are ready away: one of them turned out to be dead, and what ended it may have ended them all. */
void sbx_pool_discard(struct sbx_pool *pool);
/* Before the first take; NULL: nobody measures. */
void sbx_pool_measure(struct sbx_pool *pool, struct sbx_metrics *metrics);
/* Begins to refill before the first take; returns at once. */
void sbx_pool_warm(struct sbx_pool *pool);
/* 0: a guest is there, or one has been and the last start did not fail; -EAGAIN: none was so far; else why the last
 * start failed. An empty pool that is being refilled stays ready: a take starts a guest of its own. Never waits. */
int sbx_pool_ready(struct sbx_pool *pool, struct sbx_error *err);
void sbx_pool_figures(struct sbx_pool *pool, unsigned *ret_ready, unsigned *ret_size);

/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of a runtime, for core/cli: the parts that sbx_runtime_open put together. */
#pragma once

#include <snipara-sandbox/runtime.h>

#include "agent/agent.h"
#include "base/buffer.h"
#include "base/metrics.h"
#include "base/thread.h"
#include "catalog/catalog.h"
#include "config/config.h"
#include "plugin/registry.h"
#include "session/session.h"
#include "tools/tools.h"
#include "trajectory/trajectory.h"

/* Built-in plugin entries that are connected when they are first needed. */
struct sbx_runtime_connected {
        pthread_mutex_t lock;
        bool sinks, sources; /* protected by `lock` */
};

/* Whether plugins may still ask for what is made of the sessions. */
struct sbx_runtime_gate {
        pthread_rwlock_t lock;
        bool closed; /* protected by `lock` */
};

struct sbx_runtime {
        struct sbx_logger logger;
        struct sbx_directories directories;
        struct sbx_config *config;
        struct sbx_tools *tools;
        struct sbx_catalog *catalog;
        struct sbx_tool_services services; /* for the registry's plugins */
        struct sbx_registry *registry;
        struct sbx_trajectory *trajectory;
        struct sbx_sessions *sessions;
        struct sbx_runs *runs;
        struct sbx_runtime_connected connected;
        struct sbx_runtime_gate gate;
        struct sbx_metrics metrics; /* all parts count here */
        uint64_t opened_at_s;       /* UNIX time */
};

/* ---- metrics.c ---- */

/* All figures in the Prometheus text format, version 0.0.4 (docs/metrics.md). Thread-safe. -ENOMEM, -EFBIG. */
int sbx_runtime_metrics(struct sbx_runtime *runtime, struct sbx_buffer *out, struct sbx_error *err);

/* The buffer's bytes for the caller of the API. */
int sbx_runtime_steal_bytes(struct sbx_buffer *buffer, struct sbx_bytes *ret_bytes, struct sbx_error *err);

/* ---- services.c ---- */

/* What plugins get, before any is opened. */
void sbx_runtime_fill_services(struct sbx_runtime *runtime);
/* From now on they are told that the runtime is shutting down. Waits for those that are asking. */
void sbx_runtime_close_services(struct sbx_runtime *runtime);
/* The built-in parts of the catalog, and what feeds it. */
int sbx_runtime_open_catalog(struct sbx_runtime *runtime, struct sbx_error *err);

/* ---- connect.c ---- */

/* Sinks and context sources that the configuration mentions, and whatever is critical: when the runtime is opened. */
int sbx_runtime_connect_configured(struct sbx_runtime *runtime, struct sbx_error *err);
/* The built-in context sources: before tools are listed or called. The built-in sinks: before a run. Each once; what
 * can't be had is passed over, and told in the log. */
void sbx_runtime_connect_sources(struct sbx_runtime *runtime);
void sbx_runtime_connect_sinks(struct sbx_runtime *runtime);

/* A caller's struct sbx_call, of whatever size, as this library knows it: in `copy`. NULL stays NULL. */
const struct sbx_call *sbx_runtime_call(const struct sbx_call *call, struct sbx_call *copy);

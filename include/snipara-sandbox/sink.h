/* SPDX-License-Identifier: Apache-2.0 */
/* Sink plugins: store trajectory events. A sink that fails never fails a run; the core reports it and goes on. */
#ifndef SNIPARA_SANDBOX_SINK_H
#define SNIPARA_SANDBOX_SINK_H

#include <snipara-sandbox/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sbx_sink_ops {
        uint32_t struct_size;
        uint32_t reserved;
        /* One event, in at most 32 MiB: a JSON object with at least "trajectory_id", "event", "timestamp" (RFC 3339, UTC).
         * docs/trajectory.md lists them. Called by one thread at a time for each instance. */
        int (*event)(void *instance, struct sbx_bytes json, struct sbx_error *err);
        /* Makes all that was accepted durable. May be NULL. */
        int (*flush)(void *instance, struct sbx_error *err);
};

#ifdef __cplusplus
}
#endif
#endif

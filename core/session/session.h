/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: named, stateful interpreters with limits and a time to live. Thread-safe; executions of one session wait
 * for each other in order, those of different sessions run in parallel. */
#pragma once

#include <stdbool.h>

#include <jansson.h>
#include <snipara-sandbox/runtime.h>

#include "config/config.h"
#include "guest/guest.h"
#include "plugin/registry.h"

/* Named limits; the table is in profile.c, values as in snipara-sandbox 2.2.7. */
struct sbx_profile {
        const char *name;
        uint64_t timeout_ms;
        uint64_t memory_bytes;
        const char *description;
};
/* -ENOENT with the known names in the error. NULL name: "default". */
int sbx_profile_find(const char *name, const struct sbx_profile **ret_profile, struct sbx_error *err);
const struct sbx_profile *sbx_profile_at(size_t index); /* NULL past the end */

#define SBX_SESSION_DEFAULT "default"
#define SBX_SESSION_ID_MAX 128 /* bytes of [A-Za-z0-9_.:@-] */
#define SBX_TIMEOUT_MAX_MS 600000u
#define SBX_CODE_MAX_BYTES (16u << 20)

struct sbx_sessions;

/* Settings it reads: environment, session_ttl (30 min), max_sessions, max_output_bytes, interrupt_grace, ... */
int sbx_sessions_new(const struct sbx_config *config, struct sbx_registry *registry, const struct sbx_logger *logger,
                     struct sbx_sessions **ret_sessions, struct sbx_error *err);
/* Kills every guest. No other call may be under way. */
void sbx_sessions_free(struct sbx_sessions *sessions);
const struct sbx_config *sbx_sessions_config(const struct sbx_sessions *sessions);

/* As sbx_runtime_execute. A dead guest's session starts clean, and the next result says so in `notice`. -ESTALE: the
 * session expired; the next call with its id starts a clean one. -ECANCELED, -ETIMEDOUT: the call gave up while another
 * execution of the session ran. */
int sbx_sessions_execute(struct sbx_sessions *sessions, const struct sbx_execution *execution,
                         const struct sbx_call *call, struct sbx_result **ret_result, struct sbx_error *err);

/* The same, and code may call back; `calls` NULL: it may not. */
int sbx_sessions_execute_with(struct sbx_sessions *sessions, const struct sbx_execution *execution,
                              const struct sbx_code_calls *calls, const struct sbx_call *call,
                              struct sbx_result **ret_result, struct sbx_error *err);

/* Sessions belong to their principal; another's is -ENOENT. NULL id: "default". get/set/clear start the session if it
 * does not exist, as the original does. */
int sbx_sessions_get(struct sbx_sessions *sessions, const char *principal, const char *id, const struct sbx_call *call,
                     json_t **ret_variables, struct sbx_error *err);
int sbx_sessions_set(struct sbx_sessions *sessions, const char *principal, const char *id, const char *name,
                     const json_t *value, const struct sbx_call *call, char **ret_repr, struct sbx_error *err);
int sbx_sessions_clear(struct sbx_sessions *sessions, const char *principal, const char *id,
                       const struct sbx_call *call, struct sbx_error *err);
int sbx_sessions_report(struct sbx_sessions *sessions, const char *principal, const char *id,
                        const struct sbx_call *call, struct sbx_bytes *ret_json, struct sbx_error *err);
/* Ends it, also while it executes: that execution ends as `cancelled`, at the latest after interrupt_grace, without
 * this call waiting for it; those that wait for the session give up. "default" is reset, whether it exists or not.
 * -ENOENT. */
int sbx_sessions_destroy(struct sbx_sessions *sessions, const char *principal, const char *id, struct sbx_error *err);
/* Every session of the principal, "default" too; as sbx_sessions_destroy does it. */
void sbx_sessions_destroy_all(struct sbx_sessions *sessions, const char *principal);
/* [{"id","environment","isolation","created_at","idle_seconds","age_seconds","context_keys","busy","executions"}],
 * sorted by id, "default" first and always there. Never waits for a running execution. */
int sbx_sessions_list(struct sbx_sessions *sessions, const char *principal, json_t **ret_list, struct sbx_error *err);

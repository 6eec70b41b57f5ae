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

/* -EINVAL: it is too long, or has other characters. */
int sbx_session_check_id(const char *id, struct sbx_error *err);

/* Settings it reads: environment, session_ttl (30 min), max_sessions, max_output_bytes, interrupt_grace, ... */
int sbx_sessions_new(const struct sbx_config *config, struct sbx_registry *registry, const struct sbx_logger *logger,
                     struct sbx_sessions **ret_sessions, struct sbx_error *err);
/* Kills every guest. No other call may be under way. */
void sbx_sessions_free(struct sbx_sessions *sessions);
const struct sbx_config *sbx_sessions_config(const struct sbx_sessions *sessions);

/* As sbx_runtime_execute. A dead guest's session goes on with its newest checkpoint, or starts clean where it has none;
 * so does one that is stored, or expired. The next result says so in `notice`. -ESTALE: the session expired with what
 * was not stored; the next call with its id goes on without. -EBUSY: another server has it. -ECANCELED, -ETIMEDOUT: the
 * call gave up while another execution of the session ran. */
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
 * this call waiting for it; those that wait for the session give up. What is stored of it goes before this returns, or
 * with that execution; no list has it any more. "default" is reset, whether it exists or not. -ENOENT. */
int sbx_sessions_destroy(struct sbx_sessions *sessions, const char *principal, const char *id, struct sbx_error *err);
/* Every session of the principal, "default" and stored ones too; as sbx_sessions_destroy does it. */
void sbx_sessions_destroy_all(struct sbx_sessions *sessions, const char *principal);
/* The same, and what is stored stays: they go on when they are asked for. */
void sbx_sessions_suspend_all(struct sbx_sessions *sessions, const char *principal);
/* [{"id","environment","language","isolation","created_at","idle_seconds","age_seconds","context_keys","busy","executions"}],
 * sorted by id, "default" first and always there. Never waits for a running execution. */
int sbx_sessions_list(struct sbx_sessions *sessions, const char *principal, json_t **ret_list, struct sbx_error *err);

/* ---- files of a session's workspace, through its guest; the session is started if it does not exist ---- */

#define SBX_SESSION_FILE_MAX ((size_t)32 << 20) /* bytes read or written at once */

/* Paths are resolved inside the guest, relative to the workspace. Each waits for the session's turn. -ENOENT, -EISDIR,
 * -EACCES, -EFBIG, ... as the guest says; -EINVAL for a path that can't be one. */
int sbx_sessions_file_read(struct sbx_sessions *sessions, const char *principal, const char *id, const char *path,
                           size_t max_bytes, const struct sbx_call *call, struct sbx_buffer *out,
                           struct sbx_error *err);
int sbx_sessions_file_write(struct sbx_sessions *sessions, const char *principal, const char *id, const char *path,
                            struct sbx_bytes content, const struct sbx_call *call, struct sbx_error *err);
/* [{path, size, mode, mtime_ms, type}] of what is below a directory, at any depth, sorted by path; "" is the workspace.
 * `type` is "file", "directory", "link", or "other" (also what has a name that is not UTF-8, so that nobody can ask for
 * it). `*ret_truncated` (may be NULL): there is more, at most 10,000 are told. */
int sbx_sessions_file_list(struct sbx_sessions *sessions, const char *principal, const char *id, const char *path,
                           const struct sbx_call *call, json_t **ret_list, bool *ret_truncated, struct sbx_error *err);
/* The same two for who only looks: no session is made or started. -ENOENT: there is none whose interpreter runs.
 * Listing does not wait for the turn (-EAGAIN) and is no use of the session: it expires as if nobody had looked. */
int sbx_sessions_file_read_running(struct sbx_sessions *sessions, const char *principal, const char *id,
                                   const char *path, size_t max_bytes, const struct sbx_call *call,
                                   struct sbx_buffer *out, struct sbx_error *err);
int sbx_sessions_file_list_idle(struct sbx_sessions *sessions, const char *principal, const char *id, const char *path,
                                const struct sbx_call *call, json_t **ret_list, bool *ret_truncated,
                                struct sbx_error *err);

/* ---- artifacts: what executions made that is too much for their result (artifacts.c) ----
 * Kept by the host, with the session: at most SBX_ARTIFACTS_MAX of at most SBX_ARTIFACT_BYTES_MAX together, and of
 * SBX_ARTIFACT_BYTES_OF_ALL in all sessions; the oldest of the same session go first. They end with the session. */

#define SBX_ARTIFACTS_MAX 64u
#define SBX_ARTIFACT_BYTES_MAX ((size_t)32 << 20)
#define SBX_ARTIFACT_BYTES_OF_ALL ((size_t)256 << 20)
#define SBX_ARTIFACT_NAME_SIZE 64

/* `name` of the new artifact: "`prefix`-N`suffix`", N counting up in the session ("plot-3.png"); both have at most
 * 16 of A-Za-z0-9_.- each. -EFBIG; -ENOSPC: the other sessions have it all; -ENOENT: no such session (any more). */
int sbx_sessions_artifact_add(struct sbx_sessions *sessions, const char *principal, const char *id, const char *prefix,
                              const char *suffix, const char *mime_type, struct sbx_bytes content,
                              char ret_name[SBX_ARTIFACT_NAME_SIZE], struct sbx_error *err);
/* [{name, mime_type, size}], oldest first; never waits. -ENOENT: no such session. */
int sbx_sessions_artifact_list(struct sbx_sessions *sessions, const char *principal, const char *id, json_t **ret_list,
                               struct sbx_error *err);
/* `*ret_mime_type` is the caller's. -ENOENT. */
int sbx_sessions_artifact_read(struct sbx_sessions *sessions, const char *principal, const char *id, const char *name,
                               struct sbx_buffer *out, char **ret_mime_type, struct sbx_error *err);

/* ---- the tree of a session's states (branches.c); docs/sessions.md ---- */

/* Each waits for the session's turn. `*ret` is what sbx_checkpoint_json makes (tree.h), with members of its own:
 * checkpoint: "mechanism" and "unsaved" ([{"name", "type", "reason"}]). rollback: "missing" (what did not come back),
 * "took_ms". fork: "session_id" of the new session, "missing", "took_ms".
 * -ENOENT: no such session, no such checkpoint (the error names some); -EBUSY: another server has the session. */
int sbx_sessions_checkpoint(struct sbx_sessions *sessions, const char *principal, const char *id, const char *label,
                            const struct sbx_call *call, json_t **ret, struct sbx_error *err);
/* An array of them, oldest first. */
int sbx_sessions_checkpoints(struct sbx_sessions *sessions, const char *principal, const char *id,
                             const struct sbx_call *call, json_t **ret, struct sbx_error *err);
/* `checkpoint`: an id or a label; NULL: the newest. What the session was before is lost unless it has a checkpoint. */
int sbx_sessions_rollback(struct sbx_sessions *sessions, const char *principal, const char *id, const char *checkpoint,
                          const struct sbx_call *call, json_t **ret, struct sbx_error *err);
/* `checkpoint` NULL: as it is now. `new_id` NULL: one is made up. -EEXIST. */
int sbx_sessions_fork(struct sbx_sessions *sessions, const char *principal, const char *id, const char *checkpoint,
                      const char *new_id, const struct sbx_call *call, json_t **ret, struct sbx_error *err);
/* The stored sessions (vault.h), those that run here too, with "running": bool. */
int sbx_sessions_stored(struct sbx_sessions *sessions, const char *principal, const struct sbx_call *call, json_t **ret,
                        struct sbx_error *err);
int sbx_sessions_export(struct sbx_sessions *sessions, const char *principal, const char *id, const char *checkpoint,
                        int fd, const struct sbx_call *call, struct sbx_error *err);
int sbx_sessions_import(struct sbx_sessions *sessions, const char *principal, const char *id, int fd,
                        const struct sbx_call *call, json_t **ret, struct sbx_error *err);
int sbx_sessions_collect(struct sbx_sessions *sessions, const char *principal, uint64_t idle_ms,
                         const struct sbx_call *call, json_t **ret, struct sbx_error *err);

/* ---- news, readiness, figures ---- */

/* Called when the state of a session may have changed what its resources give (an execution ended, a file was written,
 * it ended): `uri_prefix` is "repl://SESSION/". `list_changed`: and which there are; told once each time that somebody
 * has listed the artifacts of a session. By the thread that did it; must not block. To be set before the first call. */
struct sbx_session_observer {
        void *data;
        void (*changed)(void *data, const char *principal, const char *uri_prefix, bool list_changed);
};
void sbx_sessions_observe(struct sbx_sessions *sessions, const struct sbx_session_observer *observer);

/* Starts the configured environment and fills its pool on a thread of the sessions', so that the first execution finds
 * a guest; returns at once. Idempotent. */
void sbx_sessions_warm(struct sbx_sessions *sessions);
/* 0: the configured environment runs and starts guests; -EAGAIN: not yet; else why guests can't be started. A pool that
 * others have just emptied does not count: starting one more guest takes a moment. Never waits. */
int sbx_sessions_ready(struct sbx_sessions *sessions, struct sbx_error *err);
/* Figures that stand now, not those that grow. */
struct sbx_session_figures {
        size_t sessions, busy, principals, pool_ready, pool_size;
        size_t artifact_bytes;
};
void sbx_sessions_figures(struct sbx_sessions *sessions, struct sbx_session_figures *ret_figures);
/* Before the first call; outlives the sessions. */
struct sbx_metrics;
void sbx_sessions_measure(struct sbx_sessions *sessions, struct sbx_metrics *metrics);

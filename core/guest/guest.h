/* SPDX-License-Identifier: Apache-2.0 */
/* The host side of the guest protocol (docs/guest-protocol.md): starts a guest through a backend, runs one request at a
 * time in it, and tells how it ended. All that a guest sends is hostile. One thread at a time for each guest. */
#pragma once

#include <stdbool.h>

#include <jansson.h>
#include <snipara-sandbox/backend.h>
#include <snipara-sandbox/runtime.h>

#include "base/buffer.h"
#include "base/log.h"
#include "plugin/registry.h"

struct sbx_guest_process;

/* Starts a guest and shakes hands: hello -> ready. `backend` outlives the guest. */
int sbx_guest_start(const struct sbx_instance *backend, const struct sbx_logger *logger,
                    const struct sbx_guest_spec *spec, const struct sbx_call *call,
                    struct sbx_guest_process **ret_guest, struct sbx_error *err);
void sbx_guest_free(struct sbx_guest_process *guest); /* kills it; NULL is fine */
/* Kills it with all that it has started, and returns when that is dead: before a copy of it takes its place, say. */
void sbx_guest_end(struct sbx_guest_process *guest);

/* States, for backends whose features say so; else -ENOTSUP. The guest must be idle, and goes on as it was.
 * fork: another guest with the same state. save: the state as bytes (-EFBIG: too many); `ret_state` is empty, its
 * maximum bounds them. restore: a guest with a state that was saved, maybe by another process; -EXDEV when it belongs
 * to another image, -EINVAL when it is none. */
int sbx_guest_fork(struct sbx_guest_process *guest, const struct sbx_guest_spec *spec, const struct sbx_call *call,
                   struct sbx_guest_process **ret_guest, struct sbx_error *err);
int sbx_guest_save(struct sbx_guest_process *guest, const struct sbx_call *call, struct sbx_buffer *ret_state,
                   struct sbx_error *err);
int sbx_guest_restore(const struct sbx_instance *backend, const struct sbx_guest_spec *spec, struct sbx_bytes state,
                      const struct sbx_call *call, struct sbx_guest_process **ret_guest, struct sbx_error *err);

/* A portable state, by the guest's worker (docs/guest-protocol.md, "Portable states"). save: `part` gets each part as a
 * whole, in order, and may take the buffer over (leaving an empty one with the same maximum, or zeroes); a negative
 * answer ends it, and the guest goes on. `max_bytes` bounds all parts together. `*ret_told` is the guest's own account,
 * bounded:
 * {"variables", "names", "unsaved", "files", "digest", "unchanged": bool}. -EFBIG, -ETIMEDOUT, -ENOMEM: more than may
 * be, and the guest goes on unless sbx_guest_alive says otherwise. restore: into a guest that has run nothing;
 * `*ret_told`:
 * {"variables", "names", "missing"}; -EBADMSG, -EPROTONOSUPPORT: the parts are no state, or one of a newer worker, and
 * the guest is as it was; after any other error it should be ended. -ENOTSUP: this worker can't. */
#define SBX_GUEST_PARTS_MAX 4096u
struct sbx_guest_portable {
        uint64_t max_bytes;
        uint64_t max_ms;          /* that the worker should spend at most; 0: as long as the call */
        const char *known_digest; /* equal to what there is: no parts, and "unchanged"; NULL: none */
        void *data;
        int (*part)(void *data, struct sbx_buffer *part);
};
bool sbx_guest_portable(const struct sbx_guest_process *guest); /* Can this worker do it? */
int sbx_guest_save_portable(struct sbx_guest_process *guest, const struct sbx_guest_portable *request,
                            const struct sbx_call *call, json_t **ret_told, struct sbx_error *err);
int sbx_guest_restore_portable(struct sbx_guest_process *guest, const struct sbx_bytes *parts, size_t count,
                               const struct sbx_call *call, json_t **ret_told, struct sbx_error *err);

bool sbx_guest_alive(const struct sbx_guest_process *guest);
/* JSON object text of the isolation report; lives as long as the guest. */
struct sbx_bytes sbx_guest_report(const struct sbx_guest_process *guest);
/* "isolation" member of the report. */
const char *sbx_guest_isolation(const struct sbx_guest_process *guest);
/* From `ready`: {"runtime","version",...}; borrowed. */
const json_t *sbx_guest_info(const struct sbx_guest_process *guest);
/* Names of the session's variables as of the last result: a JSON array of strings, at most 200; borrowed. */
const json_t *sbx_guest_names(const struct sbx_guest_process *guest);
int sbx_guest_limit(struct sbx_guest_process *guest, const struct sbx_limits *limits, struct sbx_error *err);

/* Answers calls that code makes back to the host while it runs (a tool_call frame; docs/guest-protocol.md says what
 * names, arguments and results mean). By the thread that executes, one call at a time; the guest waits, and the time
 * does not count as the execution's own. `name` is UTF-8 of 1 to 128 bytes; `arguments` are bytes of any kind, at most
 * 18 MiB. `call` ends with the execution's cancellation, the session's end, and the caller's deadline, but not with the
 * execution's own. 0 and one JSON value in `ret_result`; or negative, and the code gets the error's message as an
 * exception. */
struct sbx_code_calls {
        void *data;
        int (*answer)(void *data, const char *name, struct sbx_bytes arguments, const struct sbx_call *call,
                      struct sbx_buffer *ret_result, struct sbx_error *err);
};

struct sbx_guest_execution {
        struct sbx_bytes code; /* any bytes: what is not UTF-8 comes back as an `error` end */
        const char *filename;
        uint64_t deadline_ns;     /* 0: none; then `timeout` */
        uint64_t cpu_limit_ns;    /* 0: none; then `timeout` */
        uint64_t memory_bytes;    /* soft limit inside the guest: MemoryError instead of a kill; 0: none */
        uint64_t grace_ns;        /* from the interrupt to the kill */
        size_t output_max_bytes;  /* of stdout and of stderr each; what is beyond is counted and dropped */
        size_t display_max_bytes; /* of all display frames together */
        const struct sbx_output_events *events;
        const char *session_id, *notice;         /* copied into the result; NULL: stays NULL there */
        const struct sbx_code_calls *code_calls; /* NULL: calls back to the host fail */
};
/* Runs code to its end, whatever that is. 0 and a result; negative only when the request could not be sent at all
 * (-ESRCH: the guest was dead before). After an end of `killed`, `lost`, or a kill after the grace period, the guest is
 * dead (sbx_guest_alive). `call->cancel_fd` gives `cancelled`; `call->deadline_ns` counts as the execution's own if it
 * is earlier. */
int sbx_guest_execute(struct sbx_guest_process *guest, const struct sbx_guest_execution *execution,
                      const struct sbx_call *call, struct sbx_result **ret_result, struct sbx_error *err);

/* Variables. `get`: an object {name: {"type": "int", "repr": "1", "json": 1 (if it can be)}}, bounded; NULL names:
 * all. The call is interrupted at its deadline and the guest killed if that does not help (-ETIMEDOUT). */
int sbx_guest_get(struct sbx_guest_process *guest, const json_t *names, const struct sbx_call *call, json_t **ret,
                  struct sbx_error *err);
int sbx_guest_set(struct sbx_guest_process *guest, const char *name, const json_t *value, const struct sbx_call *call,
                  char **ret_repr, struct sbx_error *err);
int sbx_guest_clear(struct sbx_guest_process *guest, const struct sbx_call *call, struct sbx_error *err);

/* Files, through the guest: paths are resolved inside, relative to its workspace. -ENOENT, -EISDIR, -EACCES, ... as the
 * guest says; -EIO for what it does not name. */
int sbx_guest_file_read(struct sbx_guest_process *guest, const char *path, size_t max_bytes,
                        const struct sbx_call *call, struct sbx_buffer *out, struct sbx_error *err);
int sbx_guest_file_write(struct sbx_guest_process *guest, const char *path, struct sbx_bytes content,
                         const struct sbx_call *call, struct sbx_error *err);
/* What is below a directory: [{"path", "size", "mode", "mtime_ms", "type"}], at most 10,000; `*ret_truncated` (may be
 * NULL): there is more. */
int sbx_guest_file_list(struct sbx_guest_process *guest, const char *path, const struct sbx_call *call, json_t **ret,
                        bool *ret_truncated, struct sbx_error *err);

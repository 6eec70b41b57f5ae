/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of a guest process, for the files of core/guest alone. */
#pragma once

#include "guest/frame.h"
#include "guest/guest.h"

#define SBX_GUEST_ORIGIN "guest"
#define SBX_GUEST_PROTOCOL 1
#define SBX_GUEST_GRACE_NS (2 * UINT64_C(1000000000)) /* of requests other than exec */

struct sbx_guest_process {
        const struct sbx_instance *backend;
        const struct sbx_backend_ops *ops;
        struct sbx_guest handle;  /* descriptors are -1 once closed */
        struct sbx_buffer input;  /* what came on the control stream and is not decoded yet */
        struct sbx_buffer report; /* our copy: the backend's lives until guest_close only */
        char *isolation;
        json_t *info, *names; /* replaced, never changed: others may hold references */
        int64_t last_id;
        bool started, dead;
};

/* A guest of the backend that has not been started. */
struct sbx_guest_process *sbx_guest_new(const struct sbx_instance *backend); /* NULL: -ENOMEM */
/* It is what the backend has started: takes it over. */
int sbx_guest_adopt(struct sbx_guest_process *guest, const struct sbx_guest *started, struct sbx_error *err);
/* Shakes hands: hello -> ready. */
int sbx_guest_greet(struct sbx_guest_process *guest, const struct sbx_guest_spec *spec, const struct sbx_call *call,
                    struct sbx_error *err);
#define SBX_GUEST_NONE                                                                                                 \
        { .struct_size = sizeof(struct sbx_guest), .control_fd = -1, .stdout_fd = -1, .stderr_fd = -1, .exit_fd = -1 }
void sbx_guest_cleanup(struct sbx_guest_process **guest);
#define _cleanup_guest_ __attribute__((cleanup(sbx_guest_cleanup)))

/* Kills it if need be, and remembers that it is dead. */
void sbx_guest_kill(struct sbx_guest_process *guest);
/* As the backend tells; zeroes when it can't. */
void sbx_guest_usage(const struct sbx_guest_process *guest, struct sbx_guest_usage *ret_usage);
/* Takes the names that a result brings, if it does. -EPROTO for what is no list of at most 200 strings. */
int sbx_guest_take_names(struct sbx_guest_process *guest, const json_t *result, struct sbx_error *err);

/* -EINVAL for a name or path that JSON can't carry; `what` names it in the error. */
int sbx_guest_check_text(const char *what, const char *text, struct sbx_error *err);

/* How a guest ended that is dead or does not keep to the protocol. */
struct sbx_guest_death {
        bool oom;
        int32_t exit_code; /* as in struct sbx_guest_usage; INT32_MIN: it was alive, and was killed for what it did */
};
/* Waits a moment for a guest that closed its stream to be dead, asks how it ended, and makes sure that it is. */
void sbx_guest_bury(struct sbx_guest_process *guest, const struct sbx_guest_usage *before,
                    struct sbx_guest_usage *ret_usage, struct sbx_guest_death *ret_death);

/* A request without an execution: sends it, and returns its result's JSON; its blob goes to `ret_blob` if that is not
 * NULL (whose maximum bounds it). An `error` end is -EIO with the guest's message in `err`, or the errno
 * that the guest names; -ETIMEDOUT, -ECANCELED,
 * -ESRCH (the guest is dead), -EPROTO (it is now). */
int sbx_guest_request(struct sbx_guest_process *guest, uint8_t type, json_t *request, struct sbx_bytes blob,
                      const struct sbx_call *call, json_t **ret_answer, struct sbx_buffer *ret_blob,
                      struct sbx_error *err);

/* What surrounds a request. */
struct sbx_guest_dialog {
        void *data;
        /* Frames that go out before it, borrowed until the next call: 1 and one of them, 0 when there are no more. */
        int (*give)(void *data, struct sbx_bytes *ret_head, struct sbx_bytes *ret_blob, struct sbx_error *err);
        /* A `state` frame that came before the result. 0, or negative: the guest broke the protocol. */
        int (*take)(void *data, const struct sbx_frame *frame, struct sbx_error *err);
        uint64_t deadline_ns; /* of its own, if that is earlier than the call's; 0: none */
};
/* The same with a dialog (NULL: none). */
int sbx_guest_ask(struct sbx_guest_process *guest, uint8_t type, json_t *request, struct sbx_bytes blob,
                  const struct sbx_guest_dialog *dialog, const struct sbx_call *call, json_t **ret_answer,
                  struct sbx_buffer *ret_blob, struct sbx_error *err);

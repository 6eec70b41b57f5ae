/* SPDX-License-Identifier: Apache-2.0 */
/* A session's state outside of its guest: taken from a guest, kept as parts, given to a new guest. */
#pragma once

#include "base/buffer.h"
#include "guest/guest.h"
#include "session/tree.h"

#define SBX_STATE_PARTS_MAX 4096u
#define SBX_STATE_BYTES_MAX ((size_t)1 << 30)

/* `about`: {"runtime": "python", "version": "3.11.2", "variables": n, "names": [at most 200],
 * "unsaved": [{"name", "type", "reason"}] (at most 200), "files": {"count", "bytes"}, "digest" (portable: equal states
 * have equal ones)}; said by the guest and shown to people, bounded. */
struct sbx_session_state {
        enum sbx_mechanism mechanism;
        json_t *about;
        struct sbx_buffer *parts;
        size_t part_count;
};

/* What every state tells of a guest, without asking it: `about` without what a worker adds. NULL: no memory. */
json_t *sbx_state_about(const struct sbx_guest_process *guest);

void sbx_state_clear(struct sbx_session_state *state);
#define _cleanup_state_ __attribute__((cleanup(sbx_state_clear)))
uint64_t sbx_state_bytes(const struct sbx_session_state *state);

/* What a state may cost. */
struct sbx_state_budget {
        uint64_t bytes_max;
        uint64_t time_ms;         /* 0: as long as the call */
        const char *known_digest; /* of the newest portable one; NULL: none */
};

/* By the best way that the guest's backend has: byte-exact, else portable. The guest is idle and goes on as it was; one
 * that does not come back is dead afterwards. 1: nothing has changed since `known_digest`, `*ret_state` is empty.
 * -EFBIG, -ETIMEDOUT: the budget; -ENOTSUP: neither the backend nor the guest's worker can. */
int sbx_state_take(struct sbx_guest_process *guest, const struct sbx_state_budget *budget, const struct sbx_call *call,
                   struct sbx_session_state *ret_state, struct sbx_error *err);

/* A guest with this state. `start` makes a fresh one (from a pool, for a portable state). `*ret_missing`: a JSON array
 * of
 * {"name", "type", "reason"} that did not come back, those that were not saved among them. -EXDEV: it belongs to
 * another image of the backend; -EINVAL, -EPROTONOSUPPORT: it is none, or of a newer version. */
struct sbx_state_start {
        void *data;
        int (*start)(void *data, const struct sbx_call *call, struct sbx_guest_process **ret_guest,
                     struct sbx_error *err);
};
int sbx_state_give(const struct sbx_instance *backend, const struct sbx_guest_spec *spec,
                   const struct sbx_session_state *state, const struct sbx_state_start *start,
                   const struct sbx_call *call, struct sbx_guest_process **ret_guest, json_t **ret_missing,
                   struct sbx_error *err);

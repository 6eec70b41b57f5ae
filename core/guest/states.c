/* SPDX-License-Identifier: Apache-2.0 */
/* States of guests: forked, saved as bytes, restored from them, by backends that can. */
#include "guest/process.h"

#include "base/cleanup.h"
#include "base/error.h"

static int refuse(const struct sbx_instance *backend, const char *what, struct sbx_error *err) {
        return sbx_error_set(err, -ENOTSUP, SBX_GUEST_ORIGIN, NULL, "backend '%s' can't %s a session's state",
                             backend->name, what);
}

static int refuse_dead(struct sbx_error *err) {
        return sbx_error_set(err, -ESRCH, SBX_GUEST_ORIGIN, NULL, "the guest is dead");
}

/* What a copy would answer to `hello` is known. Copies of JSON: it may be used by another thread. */
static int know_the_same(struct sbx_guest_process *copy, const struct sbx_guest_process *guest, struct sbx_error *err) {
        json_decref(copy->names);
        copy->names = json_deep_copy(guest->names);
        copy->info = json_deep_copy(guest->info);
        return copy->info != NULL && copy->names != NULL ? 0 : SBX_NOMEM(err, SBX_GUEST_ORIGIN);
}

int sbx_guest_fork(struct sbx_guest_process *guest, const struct sbx_guest_spec *spec, const struct sbx_call *call,
                   struct sbx_guest_process **ret_guest, struct sbx_error *err) {
        const struct sbx_instance *backend = guest->backend;
        _cleanup_guest_ struct sbx_guest_process *copy = NULL;
        struct sbx_guest started = SBX_GUEST_NONE;
        int r;

        if ((guest->ops->features & SBX_BACKEND_FORK) == 0)
                return refuse(backend, "fork", err);
        if (!sbx_guest_alive(guest))
                return refuse_dead(err);
        copy = sbx_guest_new(backend);
        if (copy == NULL)
                return SBX_NOMEM(err, SBX_GUEST_ORIGIN);
        r = guest->ops->guest_fork(backend->state, guest->handle.handle, spec, call, &started, err);
        if (r == 0)
                r = sbx_guest_adopt(copy, &started, err);
        if (r == 0)
                r = know_the_same(copy, guest, err);
        if (r < 0)
                return r;
        *ret_guest = steal_pointer(copy);
        return 0;
}

int sbx_guest_save(struct sbx_guest_process *guest, const struct sbx_call *call, struct sbx_buffer *ret_state,
                   struct sbx_error *err) {
        struct sbx_output *output = NULL;
        int r;

        if ((guest->ops->features & SBX_BACKEND_SAVE) == 0)
                return refuse(guest->backend, "save", err);
        if (!sbx_guest_alive(guest))
                return refuse_dead(err);
        if (sbx_output_new(ret_state->max, &output) < 0)
                return SBX_NOMEM(err, SBX_GUEST_ORIGIN);
        r = guest->ops->guest_save(guest->backend->state, guest->handle.handle, call, output, err);
        if (r == 0)
                sbx_output_move(output, ret_state);
        sbx_output_free(output);
        return r;
}

int sbx_guest_restore(const struct sbx_instance *backend, const struct sbx_guest_spec *spec, struct sbx_bytes state,
                      const struct sbx_call *call, struct sbx_guest_process **ret_guest, struct sbx_error *err) {
        _cleanup_guest_ struct sbx_guest_process *guest = sbx_guest_new(backend);
        struct sbx_guest started = SBX_GUEST_NONE;
        int r;

        if (guest == NULL)
                return SBX_NOMEM(err, SBX_GUEST_ORIGIN);
        if ((guest->ops->features & SBX_BACKEND_SAVE) == 0)
                return refuse(backend, "restore", err);
        r = guest->ops->guest_restore(backend->state, spec, state, call, &started, err);
        if (r == 0)
                r = sbx_guest_adopt(guest, &started, err);
        if (r == 0)
                r = sbx_guest_greet(guest, spec, call, err);
        if (r < 0)
                return r;
        *ret_guest = steal_pointer(guest);
        return 0;
}

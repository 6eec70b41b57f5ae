/* SPDX-License-Identifier: Apache-2.0 */
/* Guests that begin as another one is, and run beside it: in a jail of their own, from an image that the other one's
 * process writes of itself. The image of a guest that nobody has asked for anything since serves again. */
#include <stdio.h>

#include "guest_copy.h"
#include "guest_start.h"
#include "process_image.h"
#include "util.h"

#define IMAGE_ROOM (UINT64_C(64) << 20)           /* beyond what is resident now: what was swapped out, lists */
#define SLOWEST_BYTES_PER_MS (UINT64_C(16) << 10) /* a thirtieth of what an idle machine writes */
#define PATIENCE_MAX_MS 60000

/* Until the family's limits are set anew an image has room that the guest does not need. */
static void set_limits(struct family *family) {
        pthread_mutex_lock(&family->lock);
        (void)family_limit_locked(family, NULL);
        pthread_mutex_unlock(&family->lock);
}

/* A large one takes its time to be written, and nobody's haste may cost the session its life. */
static int patience_for(const struct process_image *image) {
        uint64_t more_ms = image->bytes / SLOWEST_BYTES_PER_MS;

        return GUEST_COPY_PATIENCE_MS + (more_ms < PATIENCE_MAX_MS ? (int)more_ms : PATIENCE_MAX_MS);
}

/* Asks for one that is written into `fresh`. 1: the last one is as good. */
static int ask(struct local_guest *guest, struct process_image *fresh, const struct sbx_call *call,
               struct sbx_error *err) {
        const int fds[GUEST_COPY_FDS] = {fresh->fd, fresh->fd, fresh->fd, fresh->fd, fresh->fd};
        struct copy_answer answer;
        char more[96];
        int r;

        snprintf(more, sizeof(more), ",\"image\":%llu,\"next\":%llu",
                 guest->image != NULL ? (unsigned long long)guest->image->number : 0ull,
                 (unsigned long long)fresh->number);
        r = guest_copy_ask(guest, fds, more, patience_for(fresh), call, &answer, err);
        if (r < 0)
                return r;
        if (answer.kind == GUEST_COPY_SAME && guest->image != NULL)
                return 1;
        if (answer.kind != GUEST_COPY_DONE)
                return guest_copy_refused(&answer, err);
        return process_image_seal(guest->family->local, fresh, answer.bytes, err);
}

/* The guest's image as it is now is guest->image. */
static int renew_image(struct local_guest *guest, const struct sbx_call *call, struct sbx_error *err) {
        struct family *family = guest->family;
        struct process_image *fresh = NULL;
        int r = process_image_new(family, guest_copy_memory(guest, true) + IMAGE_ROOM, &fresh, err);

        if (r < 0)
                return r;
        set_limits(family);
        r = ask(guest, fresh, call, err);
        if (r == 0) {
                process_image_unref(family->local, guest->image);
                guest->image = fresh;
        } else
                process_image_unref(family->local, fresh);
        set_limits(family);
        return r < 0 ? r : 0;
}

/* It waits, as a copy does, until its first request. */
static int meet(const struct streams *streams, const struct sbx_call *call, struct sbx_error *err) {
        struct copy_answer answer;
        int r = guest_copy_await(streams->ours[STREAM_COPIES], GUEST_COPY_PATIENCE_MS, call, &answer);

        if (r < 0)
                return sbx_error_set(err, r, LOCAL_ORIGIN, NULL, "a branch of the session's process did not answer: %s",
                                     r == -ECANCELED ? "the call was cancelled" : strerror(-r));
        return answer.kind == GUEST_COPY_DONE ? 0 : guest_copy_refused(&answer, err);
}

static int begin(struct local_guest *branch, const struct sbx_guest_spec *spec, const struct sbx_call *call,
                 struct sbx_guest *ret_guest, struct sbx_error *err) {
        __attribute__((cleanup(streams_close))) struct streams streams = NO_STREAMS;
        int r = local_guest_lock_down(branch, LOCAL_PYTHON, spec, &streams, call, err);

        if (r == 0)
                r = meet(&streams, call, err);
        return r == 0 ? streams_hand_over(&streams, branch, true, ret_guest, err) : r;
}

int local_guest_branch(struct local_guest *guest, const struct sbx_guest_spec *spec, const struct sbx_call *call,
                       struct sbx_guest *ret_guest, struct sbx_error *err) {
        struct local *local = guest->family->local;
        struct local_guest *branch;
        int r;

        if (!local->memory_counted) /* who keeps a descriptor of an image would have as much memory for nothing */
                return sbx_error_set(err, -ENOTSUP, LOCAL_ORIGIN, NULL,
                                     "sessions are branched where a cgroup counts their memory");
        r = renew_image(guest, call, err);
        if (r < 0)
                return r;
        branch = family_new(local);
        if (branch == NULL)
                return sbx_error_set(err, -ENOMEM, LOCAL_ORIGIN, NULL, "out of memory");
        branch->waits = true;
        branch->family->origin = process_image_ref(local, guest->image);
        branch->family->zygote =
                zygote_ref(guest->family->zygote); /* no other has things where the image expects them */
        r = begin(branch, spec, call, ret_guest, err);
        if (r < 0)
                local_guest_close(local, branch);
        return r;
}

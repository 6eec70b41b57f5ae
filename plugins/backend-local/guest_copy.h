/* SPDX-License-Identifier: Apache-2.0 */
/* What the server and the process of a guest say to each other when it is to be copied, or written into an image. The
 * messages are protocol.h's. All of it by whoever has the guest to itself. */
#pragma once

#include "family.h"

struct copy_answer {
        enum guest_copy_answer kind;
        pid_t pid, inner_pid; /* as the kernel says; as the guest says */
        uint64_t bytes;
        char text[GUEST_COPY_TEXT_MAX + 1];
};

/* From here on the answers of the guest are the caller's, until guest_copy_end. -ENOTSUP, -ESRCH. */
int guest_copy_begin(struct local_guest *guest, struct sbx_error *err);
void guest_copy_end(struct local_guest *guest);

#define GUEST_COPY_PATIENCE_MS 2000 /* whatever the call's deadline: a guest that is late is ended */

/* Sends the descriptors and the frame, with `more` ("" or members with a leading comma), and waits for the answer: for
 * `patience_ms`, whatever becomes of the call, and after that no longer than the call. A guest that does not keep to the
 * protocol is ended. */
int guest_copy_ask(struct local_guest *guest, const int fds[GUEST_COPY_FDS], const char *more, int patience_ms,
                   const struct sbx_call *call, struct copy_answer *ret, struct sbx_error *err);
/* The next answer on a socket of copies: 0, -ESRCH when the process is gone, -ETIMEDOUT, -ECANCELED. */
int guest_copy_await(int socket_fd, int patience_ms, const struct sbx_call *call, struct copy_answer *ret);
/* The guest is no longer what this side takes it for: it is ended. Returns `code`. */
int guest_copy_give_up(struct local_guest *guest, int code, struct sbx_error *err);
/* What a process says instead of having done it. */
int guest_copy_refused(const struct copy_answer *answer, struct sbx_error *err);

/* Resident memory of its process: what is its own, or with what is of files, too. 0: unknown. */
uint64_t guest_copy_memory(const struct local_guest *guest, bool with_files);

#define GUEST_COPY_FILES_BYTES (UINT64_C(64) << 20) /* what it may keep of files, at most */

/* ---- guest_branch.c */

/* A guest that runs beside the other one, from what that is now. */
int local_guest_branch(struct local_guest *guest, const struct sbx_guest_spec *spec, const struct sbx_call *call,
                       struct sbx_guest *ret_guest, struct sbx_error *err);

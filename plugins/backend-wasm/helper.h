/* SPDX-License-Identifier: Apache-2.0 */
/* The server's side of a zygote: a helper process that has mapped one image and forks the guests of it. Any thread. */
#pragma once

#include "backend.h"
#include "helper/protocol.h"

/* The running helper of an image, started if need be, ready to serve; a reference, to be given back with helper_unref.
 * -ECANCELED also when the backend was stopped. */
int helper_get(struct backend *backend, struct guest_image *image, const struct sbx_call *call,
               struct helper **ret_helper, struct sbx_error *err);
/* Starts one, unless one runs, and does not wait until it is ready. */
int helper_launch(struct backend *backend, struct guest_image *image, const struct sbx_call *call,
                  struct sbx_error *err);
struct helper *helper_ref(struct helper *helper);
void helper_unref(struct helper *helper); /* NULL is fine */
/* No image has a helper any more, and none gets one until start. Returns when all of them, and with them all guests,
 * are dead. */
void helpers_shut_down(struct backend *backend);

/* SPAWN, ADOPT. `fds`: as protocol.h says; they stay the caller's. -EPIPE: the helper is dead, and no guest came of it.
 */
int helper_spawn(struct helper *helper, const struct zygote_message *request, const int *fds, size_t fd_count,
                 const struct sbx_call *call, int *ret_pidfd, struct sbx_error *err);
/* A guest may make one process, its copy, until the request that adopts it. -ESRCH: it is dead. */
int helper_permit(struct helper *helper, uint64_t id, struct sbx_error *err);
/* How a dead guest ended: 0..255, -signal, INT32_MIN when unknown; and what it used of the processor, if that is known.
 */
int helper_exit_code(struct helper *helper, uint64_t id, uint64_t *cpu_ns);
/* Of a dead guest: the helper need not remember it any more. */
void helper_release(struct helper *helper, uint64_t id);
/* The isolation report's layers that the helper has found to hold: elements of a JSON array, without its brackets. */
const char *helper_layers(const struct helper *helper);

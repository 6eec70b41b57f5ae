/* SPDX-License-Identifier: Apache-2.0 */
/* The worker on its way into a container: over standard input, so that nothing is mounted or copied. What is started is
 * the runtime's interpreter with a few fixed lines (argv); they read u32 LE size and that many bytes of JSON
 * {"entry": "sbx_guest.worker", "files": {"sbx_guest/frames.py": "..."}} from fd 0, load the files as modules, and call
 * the entry with SBX_CONTROL_FD = "0,1". */
#ifndef DOCKER_PAYLOAD_H
#define DOCKER_PAYLOAD_H

#include "docker.h"

struct payload {
        const char *const *argv; /* NULL-terminated; constant */
        struct sbx_bytes bytes;  /* read from the "guests" directory once; lives as long as the payloads */
        /* Fixed programs of the same interpreter for scopes with several workers in a container. `keeper` (argument:
         * seconds) is process 1: it buries orphans, kills those whose worker is gone, and ends when no worker was there
         * for so long. `killer` (arguments: signal, marks): for 2 signals the worker with SBX_MARK=mark in its
         * environment, for 9 kills every process with the mark and all descendants, until none is left (exit code 0). A
         * mark that ends with '*' stands for all that begin so. */
        const char *const *keeper, *const *killer;
        /* Writes its standard input into that of a worker that keeps its own (SBX_KEEP_INPUT); NULL: none does. */
        const char *const *pump;
};

struct payloads;
int payloads_new(const struct sbx_host *host, struct payloads **ret_payloads, struct sbx_error *err);
void payloads_free(struct payloads *payloads);
int payload_get(struct payloads *payloads, enum docker_family family, const struct payload **ret_payload,
                struct sbx_error *err);

#endif

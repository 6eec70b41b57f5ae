/* SPDX-License-Identifier: Apache-2.0 */
/* Which values of Host and Origin are allowed: the guard against web pages that reach for a server of the same machine,
 * directly (Origin) or by a name of theirs that resolves to it (Host; "DNS rebinding"). Each is checked alone. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct hs_guard {
        char **hosts;   /* lower case, without port; NULL-terminated */
        char **origins; /* lower case; NULL-terminated */
};

/* `listen` is an address without port. -EINVAL: one of the values is none, `ret_bad` is it. -ENOMEM. */
int hs_guard_init(struct hs_guard *guard, const char *listen, const char *const *hosts, const char *const *origins,
                  const char **ret_bad);
void hs_guard_clear(struct hs_guard *guard);

/* `host` as the header has it; a port is ignored. `local` is the address that the client reached, or NULL. -EINVAL: no
 * host at all (400); -EACCES: not allowed. */
int hs_guard_host(const struct hs_guard *guard, const char *host, const char *local);
/* -EACCES. Allowed are http and https of a loopback name or address, any port, and what was set. */
int hs_guard_origin(const struct hs_guard *guard, const char *origin);

/* "localhost", 127.0.0.0/8 or ::1 (in brackets), exactly. */
bool hs_is_loopback_host(const char *host, size_t size);

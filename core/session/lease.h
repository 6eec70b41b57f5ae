/* SPDX-License-Identifier: Apache-2.0 */
/* Who holds a lease: how servers call themselves, and whether one on this machine is dead. Pure but for what they ask
 * the kernel; any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define SBX_LEASE_HOLDER_SIZE 256

#define SBX_LEASE_TTL_MS 30000u
#define SBX_LEASE_RENEW_MS 10000u
#define SBX_LEASE_AGAIN_MS 2000u /* after a renewal that failed */

/* "<boot>.<pid namespace>/<pid>/<start>.<number> PROGRAM on HOST": `start` is that of the process, in ticks of the
 * kernel; each call counts `number` up, so that two runtimes of one process are two holders. */
void sbx_lease_holder(char ret_holder[SBX_LEASE_HOLDER_SIZE]);
/* A process of this machine and of this pid namespace that no longer runs. What can't be known is taken to live. */
bool sbx_lease_holder_gone(const char *holder);
/* For people: "PROGRAM (process 123) on HOST"; whatever else it is, without control characters. */
void sbx_lease_holder_show(const char *holder, char *ret_text, size_t size);

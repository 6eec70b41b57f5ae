/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/* The jail of a process that has no server: what bakes and tries images. As a session's, but without namespaces. 0, or
 * a negative errno and why, on one line; then the process must end. */
int helper_lock(char *message, size_t size);

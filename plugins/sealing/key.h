/* SPDX-License-Identifier: Apache-2.0 */
/* The file with a store's secret key. */
#pragma once

#include "sealing.h"

/* 32 bytes, or 64 hexadecimal digits and a newline; a regular file that nobody but its owner can read, and whose owner
 * is this user or root. */
int sealing_key_read(const char *path, const char *origin, uint8_t ret_key[SEALING_KEY_SIZE], struct sbx_error *err);

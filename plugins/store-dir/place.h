/* SPDX-License-Identifier: Apache-2.0 */
/* Where the store is, if nobody says otherwise. */
#pragma once

#include <snipara-sandbox/plugin.h>

#include "util.h"

/* The option `directory`, else sessions/<name of the project's directory>-<8 digits of its path's hash> in the user's
 * state directory: sessions of two projects never meet. The caller frees it. */
int place_find(const struct sbx_host *host, char **ret_path, struct sbx_error *err);

/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines to one receiver. A logger is passed, never global. Any thread. Secrets never go in. */
#pragma once

#include <snipara-sandbox/plugin.h>

struct sbx_logger {
        void (*write)(void *data, int level, const char *message); /* NULL: standard error */
        void *data;
        int level; /* the most verbose level that is written: enum sbx_log_level */
};
/* `message` is one line; control characters of it are shown escaped, so that a log can't be forged. */
void sbx_log(const struct sbx_logger *logger, int level, const char *format, ...) SBX_PRINTF(3, 4);
int sbx_log_level_from_name(const char *name, int *ret_level); /* "error", "warning", "info", "debug", any case */

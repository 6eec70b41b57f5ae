/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines with a format. Never a secret: nothing that came from a credential or an answer is logged. */
#pragma once

#include <snipara-sandbox/plugin.h>

SBX_PRINTF(3, 4)
static inline void snipara_log(const struct sbx_host *host, int level, const char *format, ...) {
        char line[SBX_ERROR_MESSAGE_MAX + SBX_ERROR_HINT_MAX];
        va_list args;

        va_start(args, format);
        if (vsnprintf(line, sizeof(line), format, args) < 0)
                line[0] = '\0';
        va_end(args);
        sbx_error_trim_(line, sizeof(line));
        host->log(host->self, level, line);
}

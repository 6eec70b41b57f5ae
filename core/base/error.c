/* SPDX-License-Identifier: Apache-2.0 */
/* Adding context to errors, and errno in words. */
#include "base/error.h"

void sbx_error_wrap(struct sbx_error *err, const char *format, ...) {
        char inner[SBX_ERROR_MESSAGE_MAX];
        va_list args;
        size_t used;
        int length;

        if (err == NULL || err->code == 0)
                return;
        memcpy(inner, err->message, sizeof(inner));
        inner[sizeof(inner) - 1] = '\0';
        va_start(args, format);
        length = vsnprintf(err->message, sizeof(err->message), format, args);
        va_end(args);
        used = length < 0 ? 0 : (size_t)length;
        if (used > 0 && used + 2 < sizeof(err->message)) {
                memcpy(err->message + used, ": ", 2);
                used += 2;
        }
        if (used < sizeof(err->message)) {
                memcpy(err->message + used, inner, sizeof(err->message) - used);
                err->message[sizeof(err->message) - 1] = '\0';
        }
        sbx_error_trim_(err->message, sizeof(err->message));
}

const char *sbx_errno_text(int code, char *text, size_t size) {
        char scratch[96];
        const char *found;

        if (size == 0)
                return "";
        /* The GNU variant: it may answer with a constant string instead of filling the scratch buffer. */
        found = strerror_r(code < 0 ? -code : code, scratch, sizeof(scratch));
        snprintf(text, size, "%s", found);
        return text;
}

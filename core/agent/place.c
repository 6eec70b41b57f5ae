/* SPDX-License-Identifier: Apache-2.0 */
/* Places of a run: their keys, and the call that bounds what is done there. */
#include <poll.h>

#include "agent/run.h"
#include "base/error.h"

int sbx_key_make(char ret_key[SBX_JOURNAL_KEY_MAX], struct sbx_error *err, const char *base, const char *format, ...) {
        char rest[SBX_JOURNAL_KEY_MAX];
        va_list args;
        int length;

        va_start(args, format);
        length = vsnprintf(rest, sizeof(rest), format, args);
        va_end(args);
        if (length < 0 || strlen(base) + (size_t)length >= SBX_JOURNAL_KEY_MAX)
                return sbx_error_set(err, -ENAMETOOLONG, SBX_AGENT_ORIGIN, NULL,
                                     "the run is nested too deeply for its journal, at %.64s...", base);
        memmove(ret_key, base, strlen(base) + 1);
        memcpy(ret_key + strlen(ret_key), rest, (size_t)length + 1);
        return 0;
}

const struct sbx_call *sbx_place_call(const struct sbx_place *place) {
        return place->call != NULL ? place->call : place->run->call;
}

int sbx_call_ended(const struct sbx_call *call) {
        struct pollfd cancel = {.fd = call != NULL ? call->cancel_fd : -1, .events = POLLIN};

        if (call == NULL)
                return 0;
        if (cancel.fd >= 0 && poll(&cancel, 1, 0) > 0)
                return -ECANCELED;
        return call->deadline_ns != 0 && sbx_clock_ns() >= call->deadline_ns ? -ETIMEDOUT : 0;
}

int sbx_place_ended(const struct sbx_place *place) {
        return sbx_call_ended(sbx_place_call(place));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Server-sent events, as the HTML standard has them: what stands around a message, and the headers of a stream. */
#include "http_private.h"

const struct hs_header http_sse_headers[] = {
        {"Content-Type", "text/event-stream"},
        {"Cache-Control", "no-cache, no-transform"},
        {"X-Accel-Buffering", "no"}, /* nginx: pass each event on at once */
        {NULL, NULL},
};

size_t http_sse_begin(char *text, size_t capacity, const char *id) {
        int size = id != NULL ? snprintf(text, capacity, "event: message\nid: %s\ndata: ", id)
                              : snprintf(text, capacity, "event: message\ndata: ");

        return size > 0 && (size_t)size < capacity ? (size_t)size : 0;
}

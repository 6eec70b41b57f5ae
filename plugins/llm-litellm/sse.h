/* SPDX-License-Identifier: Apache-2.0 */
/* Server-sent events (WHATWG HTML, 9.2.6), from bytes that come in pieces of any size. One thread. */
#pragma once

#include "text.h"

#define LLM_SSE_EVENT_MAX ((size_t)8 << 20) /* bytes of one event */

struct llm_sse {
        /* Called for each event that has data. `name` is "" if the event has none. `data` is the parser's own: it may
         * be changed, and lives until the call returns. A negative answer ends the parsing with it. */
        int (*event)(void *user, const char *name, struct llm_text *data);
        void *user;
        struct llm_text line, data; /* as far as they have come */
        char name[64];
        bool begun;    /* the first line, where a byte order mark may stand, is over */
        bool after_cr; /* a line feed that comes next belongs to the end of line before it */
        bool has_data;
};
void llm_sse_init(struct llm_sse *sse, int (*event)(void *user, const char *name, struct llm_text *data), void *user);
void llm_sse_free(struct llm_sse *sse);
/* -EFBIG: a line or an event is too long; -ENOMEM; what `event` answered. */
int llm_sse_feed(struct llm_sse *sse, struct sbx_bytes piece);
/* The end of the stream: an event that lacks only its empty line counts, half a line does not. */
int llm_sse_finish(struct llm_sse *sse);

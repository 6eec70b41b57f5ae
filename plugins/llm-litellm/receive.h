/* SPDX-License-Identifier: Apache-2.0 */
/* One answer as it comes in, streamed or whole. One thread. */
#pragma once

#include "complete.h"
#include "sse.h"

struct llm_receiver {
        const struct llm_dialect *dialect;
        const struct llm_route *route;
        struct sbx_http_response response;
        struct llm_stream stream;
        struct llm_sse sse;
        struct llm_text whole; /* an answer that came whole though a stream was asked for */
        bool streams, looked;
        bool finished; /* [DONE] */
};
/* `max_bytes`: of the answer. -ENOMEM. */
int llm_receiver_init(struct llm_receiver *receiver, const struct llm_dialect *dialect, const struct llm_route *route,
                      const struct sbx_provider_events *events, bool wants_json, size_t max_bytes);
void llm_receiver_clear(struct llm_receiver *receiver);
#define _cleanup_receiver_ __attribute__((cleanup(llm_receiver_clear)))

/* For struct sbx_http_request; `data` is the receiver. */
int llm_receiver_piece(void *data, struct sbx_bytes piece);
/* After the last byte of a 2xx answer: whether it is whole. 0; -EBADMSG: it can't be read; -ECONNRESET: it breaks off;
 * -EREMOTEIO: the server reported an error within it (stream.error); -ENOMEM, -EFBIG. */
int llm_receiver_finish(struct llm_receiver *receiver);
/* The connection broke, but the model had said that it is done: some servers do not end their streams properly. */
bool llm_receiver_is_whole(const struct llm_receiver *receiver);

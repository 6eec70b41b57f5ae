/* SPDX-License-Identifier: Apache-2.0 */
/* Reading an answer: events of a stream one by one, or a body at once. */
#include "receive.h"

#include "errors.h"
#include "util.h"

void llm_stream_tell(struct llm_stream *stream, struct sbx_bytes chunk) {
        if (stream->events == NULL || stream->events->delta == NULL)
                return;
        stream->told = true;
        stream->events->delta(stream->events->data, chunk);
}

static int take_event(void *data, const char *name, struct llm_text *text) {
        struct llm_receiver *receiver = data;
        _cleanup_text_ struct llm_text again = LLM_TEXT(SIZE_MAX / 4);
        _cleanup_json_ json_t *event = NULL;
        struct sbx_bytes raw;
        bool repaired;
        int r;

        if (receiver->finished)
                return 0;
        if (text->size == 6 && memcmp(text->data, "[DONE]", 6) == 0) {
                receiver->finished = true;
                return 0;
        }
        if (text->size == 0)
                return 0;
        llm_mask_key(text->data, text->size, receiver->route->key);
        r = llm_json_parse(llm_text_bytes(text), &event, &repaired);
        if (r < 0)
                return r;
        raw = llm_text_bytes(text);
        if (repaired) {
                if (llm_json_encode(event, &again) < 0)
                        return -ENOMEM;
                raw = llm_text_bytes(&again);
        }
        return receiver->dialect->event(&receiver->stream, event, raw);
}

int llm_receiver_init(struct llm_receiver *receiver, const struct llm_dialect *dialect, const struct llm_route *route,
                      const struct sbx_provider_events *events, bool wants_json, size_t max_bytes) {
        *receiver = (struct llm_receiver){.dialect = dialect, .route = route, .whole = LLM_TEXT(max_bytes)};
        receiver->stream =
                (struct llm_stream){.events = events, .route = route, .wants_json = wants_json, .answer_block = -1};
        llm_sse_init(&receiver->sse, take_event, receiver);
        return llm_answer_new(max_bytes, &receiver->stream.answer);
}

void llm_receiver_clear(struct llm_receiver *receiver) {
        llm_answer_free(receiver->stream.answer);
        json_decref(receiver->stream.error);
        llm_sse_free(&receiver->sse);
        llm_text_free(&receiver->whole);
        sbx_http_response_clear(&receiver->response);
        *receiver = (struct llm_receiver){0};
}

/* Servers that do not stream answer in one piece, whatever was asked for; what does not say what it is, is a stream. */
int llm_receiver_piece(void *data, struct sbx_bytes piece) {
        struct llm_receiver *receiver = data;

        if (!receiver->looked) {
                const char *type = receiver->response.content_type;

                receiver->looked = true;
                receiver->streams = strstr(type, "json") == NULL && strstr(type, "html") == NULL;
        }
        if (!receiver->streams)
                return llm_text_append(&receiver->whole, piece.data, piece.size);
        return llm_sse_feed(&receiver->sse, piece);
}

static int finish_stream(struct llm_receiver *receiver) {
        struct llm_answer *answer = receiver->stream.answer;
        int r = llm_sse_finish(&receiver->sse);

        if (r < 0)
                return r;
        /* Anthropic's streams end with message_stop; OpenAI's with [DONE], which some servers leave out. */
        if (answer->ended || receiver->finished || answer->finish != NULL)
                return answer->has_content || answer->call_count > 0 || answer->finish != NULL ? 0 : -EBADMSG;
        return -ECONNRESET;
}

static int finish_whole(struct llm_receiver *receiver, char *body, size_t size) {
        _cleanup_json_ json_t *json = NULL;
        const json_t *error;
        int r;

        if (size > 0)
                llm_mask_key(body, size, receiver->route->key);
        r = llm_json_parse((struct sbx_bytes){body, size}, &json, NULL);
        if (r < 0)
                return r;
        error = json_object_get(json, "error");
        /* OpenRouter reports what went wrong behind it with a status of 200. */
        if (json_is_object(error) && json_object_get(json, "choices") == NULL) {
                receiver->stream.error = steal_pointer(json);
                return -EREMOTEIO;
        }
        return receiver->dialect->decode(json, receiver->stream.wants_json, receiver->stream.answer);
}

int llm_receiver_finish(struct llm_receiver *receiver) {
        if (receiver->streams)
                return finish_stream(receiver);
        if (receiver->looked)
                return finish_whole(receiver, receiver->whole.data, receiver->whole.size);
        return finish_whole(receiver, receiver->response.body, receiver->response.body_size);
}

bool llm_receiver_is_whole(const struct llm_receiver *receiver) {
        const struct llm_answer *answer = receiver->stream.answer;

        return receiver->streams && (answer->ended || receiver->finished || answer->finish != NULL);
}

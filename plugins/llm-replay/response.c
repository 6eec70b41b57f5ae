/* SPDX-License-Identifier: Apache-2.0 */
/* Responses and chunks in the shape of the OpenAI chat-completions API. */
#include "response.h"

#include <string.h>
#include <time.h>

#include "util.h"

#define PIECE_MIN 24u   /* bytes of text in a chunk */
#define PIECES_MAX 512u /* of one text */

/* What response and chunks have in common. */
static json_t *envelope(const struct replay_entry *entry, const char *requested_model, const char *object) {
        const char *model = entry->model != NULL ? entry->model : requested_model;

        return json_pack("{s:s+, s:s, s:I, s:s}", "id", "replay-", entry->call_id != NULL ? entry->call_id : "",
                         "object", object, "created", (json_int_t)time(NULL), "model",
                         model != NULL ? model : "replay");
}

/* What is recorded is used by several threads at once, so it is copied, not referred to. */
json_t *replay_response(const struct replay_entry *entry, const char *requested_model) {
        _cleanup_json_ json_t *response = envelope(entry, requested_model, "chat.completion");
        _cleanup_json_ json_t *message =
                json_pack("{s:s, s:o}", "role", "assistant", "content", json_deep_copy(entry->content));

        if (response == NULL || message == NULL ||
            (json_array_size(entry->calls) > 0 &&
             json_object_set_new(message, "tool_calls", json_deep_copy(entry->calls)) < 0) ||
            json_object_set_new(response, "choices",
                                json_pack("[{s:i, s:O, s:s}]", "index", 0, "message", message, "finish_reason",
                                          entry->finish_reason)) < 0 ||
            json_object_set_new(response, "usage", json_deep_copy(entry->usage)) < 0)
                return NULL;
        return json_incref(response);
}

/* ---- streaming ---- */

struct stream {
        const struct sbx_provider_events *events;
        json_t *envelope;
};

static int send_chunk(const struct stream *stream) {
        _cleanup_free_ char *text = json_dumps(stream->envelope, JSON_COMPACT);

        if (text == NULL)
                return -ENOMEM;
        stream->events->delta(stream->events->data, (struct sbx_bytes){text, strlen(text)});
        return 0;
}

/* Takes the reference of `delta`; `finish_reason` may be NULL. */
static int send_delta(const struct stream *stream, json_t *delta, const char *finish_reason) {
        json_t *choices = json_pack("[{s:i, s:o, s:s?}]", "index", 0, "delta", delta, "finish_reason", finish_reason);

        return json_object_set_new(stream->envelope, "choices", choices) < 0 ? -ENOMEM : send_chunk(stream);
}

static int send_text(const struct stream *stream, const json_t *content) {
        const char *text = json_string_value(content);
        size_t size = json_string_length(content), piece = size / PIECES_MAX;
        int r = 0;

        if (piece < PIECE_MIN)
                piece = PIECE_MIN;
        for (size_t at = 0, end; r == 0 && at < size; at = end) {
                end = size - at > piece ? at + piece : size;
                while (end < size && ((unsigned char)text[end] & 0xC0) == 0x80)
                        end++;
                r = send_delta(stream, json_pack("{s:s%}", "content", text + at, end - at), NULL);
        }
        return r;
}

static int send_calls(const struct stream *stream, const json_t *calls) {
        json_t *call;
        size_t i;
        int r = 0;

        json_array_foreach (calls, i, call) {
                _cleanup_json_ json_t *piece = json_deep_copy(call);

                if (piece == NULL || json_object_set_new(piece, "index", json_integer((json_int_t)i)) < 0)
                        return -ENOMEM;
                r = send_delta(stream, json_pack("{s:[O]}", "tool_calls", piece), NULL);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int send_usage(const struct stream *stream, const json_t *usage) {
        return json_object_set_new(stream->envelope, "choices", json_array()) < 0 ||
                               json_object_set_new(stream->envelope, "usage", json_deep_copy(usage)) < 0
                       ? -ENOMEM
                       : send_chunk(stream);
}

int replay_stream(const struct replay_entry *entry, const char *requested_model,
                  const struct sbx_provider_events *events) {
        struct stream stream = {.events = events,
                                .envelope = envelope(entry, requested_model, "chat.completion.chunk")};
        int r = stream.envelope != NULL ? send_delta(&stream, json_pack("{s:s}", "role", "assistant"), NULL) : -ENOMEM;

        if (r == 0)
                r = send_text(&stream, entry->content);
        if (r == 0)
                r = send_calls(&stream, entry->calls);
        if (r == 0)
                r = send_delta(&stream, json_object(), entry->finish_reason);
        if (r == 0)
                r = send_usage(&stream, entry->usage);
        json_decref(stream.envelope);
        return r;
}

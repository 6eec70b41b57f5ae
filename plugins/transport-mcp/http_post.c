/* SPDX-License-Identifier: Apache-2.0 */
/* POST: which era a message belongs to, whether its headers fit it, and whose session it is for; then it goes to its
 * connection. */
#include "http_private.h"

static const struct sbx_bytes nothing = {NULL, 0};

static const struct hs_header allow_post[] = {{"Allow", "POST"}, {NULL, NULL}};

/* What is known of the message before a connection sees it. */
struct post {
        struct mcp_http *http;
        struct hs_exchange *hs;
        json_t *document; /* owned until a connection takes it */
        struct mcp_message message;
        bool is_batch, modern;
};

static void refuse(struct post *post, unsigned status, int code, const char *message, const char *hint) {
        http_refuse(post->hs, status, code, &post->message.id, message, hint, nothing, NULL);
}

static bool has_modern_header(const struct hs_exchange *hs) {
        const char *version = hs_header(hs, "MCP-Protocol-Version");

        return version != NULL && mcp_is_modern(mcp_revision_find(version));
}

static bool claims_version(const json_t *root) {
        return json_object_get(json_object_get(json_object_get(root, "params"), "_meta"), MCP_META_VERSION) != NULL;
}

/* ---- reading ---- */

/* False: refused. */
static bool read_document(struct post *post) {
        struct mcp_fault fault = {0};
        int r;

        if (!http_is_json(hs_header(post->hs, "Content-Type"))) {
                refuse(post, 415, MCP_INVALID_REQUEST, "Content-Type must be application/json", NULL);
                return false;
        }
        r = mcp_jsonrpc_parse(hs_body(post->hs), &post->document, &post->message.id, &fault);
        if (r < 0)
                refuse(post, r == -ENOMEM ? 500 : 400, fault.code, fault.message, NULL);
        return r == 0;
}

static bool read_message(struct post *post) {
        struct mcp_fault fault = {0};

        if (mcp_message_decode(json_incref(post->document), &post->message, &fault) == 0)
                return true;
        refuse(post, fault.code == MCP_INTERNAL_ERROR ? 500 : 400, fault.code, fault.message, NULL);
        return false;
}

/* Modern when the message or its version header says so. Without either, and without a session, by its method: there
 * are some that only the modern revisions have. */
static bool is_modern(const struct post *post) {
        const struct mcp_message *message = &post->message;

        if (has_modern_header(post->hs))
                return true;
        if (message->kind == MCP_RESPONSE)
                return false;
        return claims_version(message->root) ||
               (message->kind == MCP_REQUEST && hs_header(post->hs, "MCP-Protocol-Version") == NULL &&
                hs_header(post->hs, "Mcp-Session-Id") == NULL && mcp_meta_is_modern(message));
}

/* ---- serving ---- */

static struct http_manner manner_of(const struct post *post) {
        const char *accept = hs_header(post->hs, "Accept");
        bool stream = http_accepts(accept, "text/event-stream"), json = http_accepts(accept, "application/json");

        return (struct http_manner){
                .method = http_method_index(post->is_batch                 ? "batch"
                                            : post->message.method != NULL ? post->message.method
                                                                           : ""),
                .is_post = true,
                .takes_stream = stream,
                .takes_json = json || !stream,
        };
}

static bool wants_progress(const struct post *post) {
        return json_object_get(json_object_get(post->message.params, "_meta"), "progressToken") != NULL;
}

/* Hands the message over. The last holder to go answers what has no answer. */
static void serve(struct post *post, struct http_exchange *exchange, struct mcp_connection *connection) {
        json_t *document = post->document;
        bool prompt_stream = exchange->session != NULL && exchange->manner.takes_stream && wants_progress(post) &&
                             mcp_connection_revision(connection) >= MCP_2025_11_25,
             unanswered;

        post->document = NULL;
        mcp_connection_receive_document(connection, document, &exchange->channel);
        pthread_mutex_lock(exchange->lock);
        /* Who asked for progress has an id to come back with from the beginning. */
        if (prompt_stream && exchange->phase == HTTP_WAITING)
                http_exchange_begin_stream(exchange, MCP_2025_11_25);
        unanswered = exchange->phase != HTTP_ENDED;
        pthread_mutex_unlock(exchange->lock);
        if (unanswered)
                http_exchange_watch(exchange);
        http_exchange_release(exchange);
}

static void refuse_new(struct post *post, int r) {
        if (r == -ECANCELED)
                refuse(post, 503, MCP_INTERNAL_ERROR, "the server ends", NULL);
        else
                refuse(post, 500, MCP_INTERNAL_ERROR, "out of memory", NULL);
}

/* ---- modern ---- */

static void serve_modern(struct post *post) {
        _cleanup_text_ struct mcp_text data = MCP_TEXT(16384);
        struct http_manner manner = manner_of(post);
        struct mcp_connection *connection = NULL;
        struct http_exchange *exchange = NULL;
        struct mcp_fault fault = {0};
        int r;

        http_count(&post->http->figures.requests[HTTP_MODERN]);
        if (post->message.kind == MCP_RESPONSE) {
                refuse(post, 400, MCP_INVALID_REQUEST, "this revision knows no requests that a client answers", NULL);
                return;
        }
        if (http_check_modern(post->http, post->hs, &post->message, &fault, &data) < 0) {
                http_refuse(post->hs, fault.code == MCP_INTERNAL_ERROR ? 500 : 400, fault.code, &post->message.id,
                            fault.message, NULL, mcp_text_bytes(&data), NULL);
                return;
        }
        manner.listens = strcmp(post->message.method, "subscriptions/listen") == 0;
        manner.takes_stream = manner.takes_stream || manner.listens;
        r = mcp_connection_new(post->http->server, MCP_CONNECTION_REQUEST, hs_principal(post->hs), &connection, NULL);
        if (r == 0)
                r = http_exchange_new(post->http, post->hs, NULL, connection, &manner, &exchange);
        if (r < 0) {
                mcp_connection_free(connection);
                refuse_new(post, r);
                return;
        }
        serve(post, exchange, connection);
}

/* ---- legacy ---- */

/* True: the revision that the header names, if any, is one that sessions have. */
static bool check_version(struct post *post) {
        const char *version = hs_header(post->hs, "MCP-Protocol-Version");

        if (version == NULL || mcp_revision_find(version) != MCP_REVISION_NONE)
                return true;
        refuse(post, 400, MCP_INVALID_REQUEST, "MCP-Protocol-Version names a revision that is not spoken here",
               "Known are 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25 and 2026-07-28");
        return false;
}

static bool check_accept(struct post *post) {
        const char *accept = hs_header(post->hs, "Accept");

        if (accept != NULL && http_accepts(accept, "application/json") && http_accepts(accept, "text/event-stream"))
                return true;
        refuse(post, 406, MCP_INVALID_REQUEST, "Accept must have application/json and text/event-stream", NULL);
        return false;
}

static void begin_session(struct post *post) {
        struct http_manner manner = manner_of(post);
        struct http_session *session = NULL;
        struct http_exchange *exchange = NULL;
        struct sbx_error err = {0};
        int r = http_session_new(post->http, hs_principal(post->hs), &session, &err);

        if (r < 0) {
                refuse(post, r == -ENOMEM ? 500 : 503, MCP_INTERNAL_ERROR, err.message, err.hint);
                return;
        }
        manner.begins_session = true;
        r = http_exchange_new(post->http, post->hs, session, NULL, &manner, &exchange);
        if (r < 0) {
                refuse_new(post, r);
                http_session_close(session);
        } else {
                serve(post, exchange, session->connection);
        }
        http_session_unref(session);
}

static void continue_session(struct post *post, const char *id) {
        struct http_session *session = http_session_find(post->http, id, hs_principal(post->hs));
        struct http_manner manner = manner_of(post);
        struct http_exchange *exchange = NULL;
        int r;

        if (session == NULL) {
                refuse(post, 404, MCP_INVALID_REQUEST, "there is no such session", "Begin a new one with initialize");
                return;
        }
        r = http_exchange_new(post->http, post->hs, session, NULL, &manner, &exchange);
        if (r < 0)
                refuse_new(post, r);
        else
                serve(post, exchange, session->connection);
        http_session_unref(session);
}

static bool is_initialize(const json_t *message) {
        const char *method = json_string_value(json_object_get(message, "method"));

        return method != NULL && strcmp(method, "initialize") == 0;
}

static void serve_legacy(struct post *post) {
        const char *id = hs_header(post->hs, "Mcp-Session-Id");

        http_count(&post->http->figures.requests[HTTP_LEGACY]);
        if (!check_accept(post))
                return;
        if (!post->is_batch && post->message.kind == MCP_REQUEST && is_initialize(post->document))
                begin_session(post);
        else if (!check_version(post))
                return;
        else if (id == NULL)
                refuse(post, 400, MCP_INVALID_REQUEST, "the header Mcp-Session-Id is missing",
                       "Begin with initialize, and send the id that its response has");
        else
                continue_session(post, id);
}

/* Batches are of one legacy revision alone, which knows no modern message. */
static bool check_batch(struct post *post) {
        const char *why = has_modern_header(post->hs) ? "this revision knows no batches" : NULL;
        const json_t *message;
        size_t index;

        json_array_foreach (post->document, index, message) {
                if (claims_version(message))
                        why = "a message of this revision can't be in a batch";
                else if (is_initialize(message))
                        why = "initialize can't be in a batch";
        }
        if (why != NULL)
                refuse(post, 400, MCP_INVALID_REQUEST, why, "Send one message at a time");
        return why == NULL;
}

static void handle_post(struct mcp_http *http, struct hs_exchange *hs) {
        struct post post = {.http = http, .hs = hs};

        if (read_document(&post)) {
                post.is_batch = json_is_array(post.document);
                if (post.is_batch ? check_batch(&post) : read_message(&post)) {
                        post.modern = !post.is_batch && is_modern(&post);
                        if (post.modern)
                                serve_modern(&post);
                        else
                                serve_legacy(&post);
                }
        }
        json_decref(post.document);
        mcp_message_free(&post.message);
}

void http_handle(void *data, struct hs_exchange *hs) {
        struct mcp_http *http = data;

        if (strcmp(hs_method(hs), "POST") == 0)
                handle_post(http, hs);
        else if (has_modern_header(hs))
                http_refuse(hs, 405, MCP_INVALID_REQUEST, NULL, "this revision knows POST alone", NULL, nothing,
                            allow_post);
        else if (strcmp(hs_method(hs), "GET") == 0)
                http_get(http, hs);
        else
                http_delete(http, hs);
}

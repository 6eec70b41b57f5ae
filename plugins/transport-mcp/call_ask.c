/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to the client: what is asked and what was answered already, in all eras; and how a legacy client is asked,
 * by requests of our own on the call's channel. */
#include "call_private.h"

#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define QUESTION_BYTES_MAX (64u << 20)
#define QUESTIONS_ON_CONNECTION_MAX 64u
#define ID_PREFIX "snipara-sandbox/"
#define ROUNDS_MAX 32 /* how often a client may be asked for the same */

static void json_drop(json_t **json) {
        json_decref(*json);
}
#define _cleanup_json_ __attribute__((cleanup(json_drop)))

/* ---- waiting ------------------------------------------------------------------------------------------- */

static int sleep_ms(uint64_t now_ns, uint64_t until_ns) {
        uint64_t ms = (until_ns - now_ns) / 1000000 + 1;

        return ms < INT_MAX ? (int)ms : INT_MAX;
}

int mcp_call_sleep(struct mcp_call *call, const struct sbx_call *limits, uint64_t until_ns) {
        const struct sbx_host *host = mcp_call_host(call);
        struct pollfd fds[2] = {{.fd = call->wake_fd, .events = POLLIN},
                                {.fd = limits != NULL ? limits->cancel_fd : -1, .events = POLLIN}};
        uint64_t now, woken;

        if (limits != NULL && limits->deadline_ns != 0 && limits->deadline_ns < until_ns)
                until_ns = limits->deadline_ns;
        for (;;) {
                now = host->clock_ns(host->self);
                if (now >= until_ns)
                        return -ETIMEDOUT;
                if (poll(fds, 2, sleep_ms(now, until_ns)) < 0 && errno != EINTR)
                        return -errno;
                if (read(call->wake_fd, &woken, sizeof(woken)) > 0) /* it does not block */
                        return 0;
                if (fds[1].revents != 0)
                        return -ECANCELED;
        }
}

static uint64_t input_until(const struct mcp_call *call) {
        const struct mcp_settings *settings = mcp_server_settings(call->server);

        return settings->host->clock_ns(settings->host->self) + settings->input_timeout_ms * 1000000;
}

/* ---- legacy: requests of the server -------------------------------------------------------------------- */

/* Of the thread that asks; listed, under the connection's lock, until the response is there. */
struct mcp_question {
        struct mcp_question *next;
        struct mcp_call *call;
        const char *key;
        const json_t *request;
        json_t *response; /* a copy of the message; NULL: none, or no memory */
        bool listed, sent;
        char id[48]; /* a string: the client's own ids are of another kind, or begin otherwise */
};

/* The caller holds the lock. */
static void unlist(struct mcp_connection *connection, struct mcp_question *question) {
        struct mcp_question **at = &connection->questions;

        while (*at != question)
                at = &(*at)->next;
        *at = question->next;
        question->listed = false;
}

static int list_questions(struct mcp_connection *connection, struct mcp_question *questions, size_t count) {
        size_t listed = 0;
        int r = 0;

        pthread_mutex_lock(&connection->lock);
        for (struct mcp_question *question = connection->questions; question != NULL; question = question->next)
                listed++;
        if (listed + count > QUESTIONS_ON_CONNECTION_MAX)
                r = -EBUSY;
        for (size_t i = 0; r == 0 && i < count; i++) {
                snprintf(questions[i].id, sizeof(questions[i].id), ID_PREFIX "%llu",
                         (unsigned long long)++connection->questions_asked);
                questions[i].next = connection->questions;
                questions[i].listed = true;
                connection->questions = &questions[i];
        }
        pthread_mutex_unlock(&connection->lock);
        return r;
}

static size_t count_open(struct mcp_connection *connection, const struct mcp_question *questions, size_t count) {
        size_t open = 0;

        pthread_mutex_lock(&connection->lock);
        for (size_t i = 0; i < count; i++)
                open += questions[i].listed;
        pthread_mutex_unlock(&connection->lock);
        return open;
}

static void send_text(const struct mcp_exchange *exchange, enum mcp_outgoing_kind kind, const struct mcp_text *text) {
        const struct sbx_bytes part = mcp_text_bytes(text);
        const struct mcp_outgoing message = {
                .kind = kind, .revision = exchange->target.revision, .parts = &part, .count = 1};

        exchange->target.channel->send(exchange->target.channel->data, &message);
}

static int send_question(const struct mcp_exchange *exchange, struct mcp_question *question) {
        _cleanup_text_ struct mcp_text text = MCP_TEXT(QUESTION_BYTES_MAX);
        const json_t *params = json_object_get(question->request, "params");

        mcp_text_append_literal(&text, "{\"jsonrpc\":\"2.0\",\"id\":\"");
        mcp_text_append_literal(&text, question->id);
        mcp_text_append_literal(&text, "\",\"method\":");
        mcp_text_append_json(&text, json_object_get(question->request, "method"));
        if (params != NULL) {
                mcp_text_append_literal(&text, ",\"params\":");
                mcp_text_append_json(&text, params);
        }
        mcp_text_append_literal(&text, "}");
        if (text.error != 0)
                return text.error;
        question->sent = true;
        send_text(exchange, MCP_OUT_REQUEST, &text);
        return 0;
}

static void send_withdrawal(const struct mcp_exchange *exchange, const struct mcp_question *question) {
        _cleanup_text_ struct mcp_text text = MCP_TEXT(1024);

        mcp_text_append_literal(&text, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{"
                                       "\"requestId\":\"");
        mcp_text_append_literal(&text, question->id);
        mcp_text_append_literal(&text, "\",\"reason\":\"the call that asked has ended\"}}");
        if (text.error == 0)
                send_text(exchange, MCP_OUT_NOTIFICATION, &text);
}

/* From here on nothing of the connection knows the questions. */
static void withdraw(const struct mcp_exchange *exchange, struct mcp_question *questions, size_t count) {
        struct mcp_connection *connection = exchange->connection;
        bool open[MCP_QUESTIONS_MAX];

        pthread_mutex_lock(&connection->lock);
        for (size_t i = 0; i < count; i++) {
                open[i] = questions[i].listed;
                if (open[i])
                        unlist(connection, &questions[i]);
        }
        pthread_mutex_unlock(&connection->lock);
        for (size_t i = 0; i < count; i++) {
                if (open[i] && questions[i].sent)
                        send_withdrawal(exchange, &questions[i]);
                json_decref(questions[i].response);
        }
}

void mcp_call_respond(struct mcp_connection *connection, const struct mcp_message *message) {
        const char *id = json_string_value(json_object_get(message->root, "id"));
        struct mcp_question *question;
        json_t *response;

        if (id == NULL || strncmp(id, ID_PREFIX, strlen(ID_PREFIX)) != 0)
                return;
        response = json_deep_copy(message->root);
        pthread_mutex_lock(&connection->lock);
        for (question = connection->questions; question != NULL && strcmp(question->id, id) != 0;)
                question = question->next;
        if (question != NULL) {
                question->response = response;
                response = NULL;
                unlist(connection, question);
                mcp_call_wake(question->call);
        }
        pthread_mutex_unlock(&connection->lock);
        json_decref(response);
}

static bool is_cancelled(struct mcp_call *call) {
        bool cancelled;

        pthread_mutex_lock(&call->lock);
        cancelled = call->cancelled;
        pthread_mutex_unlock(&call->lock);
        return cancelled;
}

static int await_responses(struct mcp_call *call, const struct mcp_exchange *exchange,
                           const struct mcp_question *questions, size_t count, const struct sbx_call *limits) {
        uint64_t until_ns = input_until(call);
        int r;

        while (count_open(exchange->connection, questions, count) > 0) {
                r = mcp_call_sleep(call, limits, until_ns);
                if (r < 0)
                        return r;
                if (is_cancelled(call))
                        return -ECANCELED;
        }
        return 0;
}

/* Takes an answer over, or says why not. */
static int take_response(struct mcp_call *call, const struct mcp_question *question, struct sbx_error *err) {
        const char *method = json_string_value(json_object_get(question->request, "method"));
        const json_t *error = json_object_get(question->response, "error");
        const char *message = json_string_value(json_object_get(error, "message"));
        json_t *answers = json_pack("{s:O?}", question->key, json_object_get(question->response, "result"));
        int r;

        if (answers == NULL)
                return sbx_error_set(err, -ENOMEM, "transport-mcp", NULL, "no memory for the client's answer");
        pthread_mutex_lock(&call->lock);
        r = mcp_call_supply(call, answers);
        if (r == 0 && json_object_get(call->pending, question->key) != NULL)
                r = -EACCES;
        pthread_mutex_unlock(&call->lock);
        json_decref(answers);
        if (r == -EACCES && error != NULL)
                return sbx_error_set(err, r, "transport-mcp", NULL, "the client refused \"%s\": %.512s (code %lld)",
                                     method, message != NULL ? message : "it does not say why",
                                     (long long)json_integer_value(json_object_get(error, "code")));
        return r < 0 ? sbx_error_set(err, r, "transport-mcp", NULL, "the client's answer to \"%s\" makes no sense",
                                     method)
                     : 0;
}

static int ask_questions(struct mcp_call *call, const struct mcp_exchange *exchange, struct mcp_question *questions,
                         size_t count, const struct sbx_call *limits, struct sbx_error *err) {
        int r = list_questions(exchange->connection, questions, count);

        if (r < 0)
                return sbx_error_set(err, r, "transport-mcp", "Answer some of them.",
                                     "the client has too many questions to answer (at most %u)",
                                     QUESTIONS_ON_CONNECTION_MAX);
        for (size_t i = 0; r == 0 && i < count; i++)
                r = send_question(exchange, &questions[i]);
        if (r == 0)
                r = await_responses(call, exchange, questions, count, limits);
        for (size_t i = 0; r == 0 && i < count; i++)
                r = take_response(call, &questions[i], err);
        withdraw(exchange, questions, count);
        return r;
}

int mcp_call_question(struct mcp_call *call, const struct sbx_call *limits, struct sbx_error *err) {
        struct mcp_question questions[MCP_QUESTIONS_MAX];
        struct mcp_exchange *exchange = mcp_call_exchange(call);
        _cleanup_json_ json_t *asked = NULL;
        const char *key;
        json_t *request;
        size_t count = 0;
        int r;

        if (exchange == NULL)
                return -ECANCELED;
        asked = json_copy(call->pending); /* answers take members out of it; nobody else looks at a legacy call's */
        if (asked == NULL) {
                mcp_exchange_unref(exchange);
                return -ENOMEM;
        }
        json_object_foreach (asked, key, request) {
                questions[count++] = (struct mcp_question){.call = call, .key = key, .request = request};
        }
        r = ask_questions(call, exchange, questions, count, limits, err);
        mcp_exchange_unref(exchange);
        return r;
}

/* ---- all eras ------------------------------------------------------------------------------------------ */

static int decode_questions(struct sbx_bytes requests, json_t **ret_questions, struct sbx_error *err) {
        _cleanup_json_ json_t *questions = json_loadb(requests.data, requests.size, JSON_REJECT_DUPLICATES, NULL);
        const char *key;
        json_t *request;
        uint32_t bits;

        if (!json_is_object(questions) || json_object_size(questions) == 0 ||
            json_object_size(questions) > MCP_QUESTIONS_MAX)
                return sbx_error_set(err, -EINVAL, "transport-mcp", NULL,
                                     "what a client is asked must be a JSON object of 1 to %u requests",
                                     MCP_QUESTIONS_MAX);
        json_object_foreach (questions, key, request) {
                if (mcp_question_needs(request, &bits) == -EINVAL)
                        return sbx_error_set(err, -EINVAL, "transport-mcp", NULL,
                                             "the request \"%.64s\" to the client must have a method and params", key);
        }
        *ret_questions = questions;
        questions = NULL;
        return 0;
}

static int check_capabilities(struct mcp_call *call, json_t *questions, struct sbx_error *err) {
        const char *key, *lacks = NULL;
        uint32_t bits = 0;
        json_t *request;

        pthread_mutex_lock(&call->lock);
        json_object_foreach (questions, key, request) {
                if (mcp_question_needs(request, &bits) == 0 && (bits & ~call->capabilities) == 0)
                        continue;
                call->lacking |= bits & ~call->capabilities;
                lacks = json_string_value(json_object_get(request, "method"));
        }
        pthread_mutex_unlock(&call->lock);
        return lacks == NULL ? 0
                             : sbx_error_set(err, -ENOTSUP, "transport-mcp", "Use a client that can, or do without.",
                                             "the client has not declared that it can answer \"%.64s\"", lacks);
}

int mcp_call_supply(struct mcp_call *call, const json_t *responses) {
        const char *key;
        json_t *request;
        void *next;

        if (call->answers == NULL && (call->answers = json_object()) == NULL)
                return -ENOMEM;
        json_object_foreach_safe (call->pending, next, key, request) {
                json_t *response = json_object_get(responses, key);

                if (!mcp_answer_fits(request, response))
                        continue;
                if (responses != call->answers && json_object_set_new(call->answers, key, json_deep_copy(response)) < 0)
                        return -ENOMEM;
                json_object_del(call->pending, key);
        }
        return 0;
}

/* What is not answered yet becomes pending. */
static int begin(struct mcp_call *call, json_t *questions) {
        int r = 0;

        pthread_mutex_lock(&call->lock);
        if (call->wake_fd < 0 && (call->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0)
                r = -errno;
        if (r == 0) {
                call->pending = json_deep_copy(questions);
                r = call->pending != NULL ? mcp_call_supply(call, call->answers) : -ENOMEM;
        }
        pthread_mutex_unlock(&call->lock);
        return r;
}

static void end(struct mcp_call *call) {
        pthread_mutex_lock(&call->lock);
        json_decref(call->pending);
        call->pending = NULL;
        pthread_mutex_unlock(&call->lock);
}

/* 1: all is there. */
static int look(struct mcp_call *call, enum mcp_revision *ret_revision, bool *ret_task) {
        int r = 0;

        pthread_mutex_lock(&call->lock);
        *ret_task = call->record != NULL;
        *ret_revision = call->exchange != NULL ? call->exchange->target.revision : MCP_REVISION_NONE;
        if (json_object_size(call->pending) == 0)
                r = 1;
        else if (call->cancelled || (call->record == NULL && call->exchange == NULL))
                r = -ECANCELED;
        pthread_mutex_unlock(&call->lock);
        return r;
}

static int ask_once(struct mcp_call *call, enum mcp_revision revision, bool task, const struct sbx_call *limits,
                    struct sbx_error *err) {
        if (task)
                return mcp_task_wait_input(call, limits);
        if (!mcp_is_modern(revision))
                return mcp_call_question(call, limits, err);
        if (!call->how->may_ask)
                return sbx_error_set(err, -ENOTSUP, "transport-mcp", NULL,
                                     "a client can't be asked for input by the method that it called");
        return mcp_call_wait_input(call, limits);
}

static int obtain(struct mcp_call *call, const struct sbx_call *limits, struct sbx_error *err) {
        enum mcp_revision revision;
        bool task;
        int r;

        for (int round = 0; round < ROUNDS_MAX; round++) {
                r = look(call, &revision, &task);
                if (r != 0)
                        return r < 0 ? r : 0;
                r = mcp_waiting_admit(call, err);
                if (r < 0)
                        return r;
                r = ask_once(call, revision, task, limits, err);
                mcp_waiting_dismiss(call);
                if (r < 0)
                        return r;
        }
        return sbx_error_set(err, -EACCES, "transport-mcp", NULL,
                             "the client's answers make no sense, again and again");
}

static int collect(struct mcp_call *call, json_t *questions, struct sbx_output *ret_responses, struct sbx_error *err) {
        _cleanup_text_ struct mcp_text text = MCP_TEXT(MCP_RESULT_BYTES_MAX);
        const struct sbx_host *host = mcp_call_host(call);
        const char *key;
        json_t *request;
        int r;

        json_object_foreach (questions, key, request) {
                mcp_text_append_literal(&text, text.size == 0 ? "{" : ",");
                mcp_text_append_string(&text, key, strlen(key));
                mcp_text_append_literal(&text, ":");
                mcp_text_append_json(&text, json_object_get(call->answers, key));
        }
        r = mcp_text_append_literal(&text, "}");
        if (r == 0)
                r = host->output_append(host->self, ret_responses, text.data, text.size);
        return r < 0 ? sbx_error_set(err, r, "transport-mcp", NULL, "the client's answers are too large") : 0;
}

int mcp_call_ask(void *data, struct sbx_bytes requests, const struct sbx_call *limits, struct sbx_output *ret_responses,
                 struct sbx_error *err) {
        _cleanup_json_ json_t *questions = NULL;
        struct mcp_call *call = data;
        int r = decode_questions(requests, &questions, err);

        if (r == 0)
                r = check_capabilities(call, questions, err);
        if (r == 0)
                r = begin(call, questions);
        if (r == 0)
                r = obtain(call, limits, err);
        if (r == 0)
                r = collect(call, questions, ret_responses, err);
        end(call);
        if (r == -ETIMEDOUT)
                return sbx_error_set(err, r, "transport-mcp", NULL, "the client did not answer in time");
        if (r == -ECANCELED)
                return sbx_error_set(err, r, "transport-mcp", NULL, "the client is gone, or has cancelled its request");
        return r < 0 ? sbx_error_set(err, r, "transport-mcp", NULL, "the client could not be asked") : 0;
}

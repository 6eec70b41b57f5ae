/* SPDX-License-Identifier: Apache-2.0 */
/* Multi-round-trip requests of modern clients: a call that needs input waits here, attached to no request, until
 * another request brings the input and the signed state that names the call: its random id, the round, the expiry, and
 * a hash of method, name and arguments, signed for the principal.
 *
 * Whoever takes a call off the list (a request with its state, the expiry, the end of the server) has it, so a state is
 * good once, and nothing is run twice. */
#include "call_private.h"

#include <stdlib.h>

#define STATE_PURPOSE "input"
#define STATE_BYTES_MAX 4096u /* of the token; ours are shorter */
#define PAYLOAD_BYTES_MAX 256u
#define WAITING_TOTAL_MAX 48u /* of all principals: a host has 64 threads, and some are to work */
#define ANSWER_BYTES_MAX (64u << 20)
#define ATTACHING_NS (60ull * 1000000000u)

struct mcp_waiting {
        struct mcp_server *server;
        pthread_mutex_t lock; /* protects what follows; no other lock is taken under it */
        pthread_cond_t left;
        struct mcp_call *calls;  /* those that wait for a request, by waiting_next */
        struct mcp_call *askers; /* those that ask, in whatever way, by asking_next */
        size_t alive;            /* calls that are there at all, but for tasks */
        bool stopping;
};

/* ---- the calls that there are --------------------------------------------------------------------------- */

int mcp_waiting_new(struct mcp_server *server, struct mcp_waiting **ret_waiting, struct sbx_error *err) {
        struct mcp_waiting *waiting = malloc(sizeof(*waiting));

        if (waiting == NULL)
                return sbx_error_set(err, -ENOMEM, "transport-mcp", NULL, "no memory for the server's calls");
        *waiting = (struct mcp_waiting){.server = server};
        pthread_mutex_init(&waiting->lock, NULL);
        pthread_cond_init(&waiting->left, NULL);
        *ret_waiting = waiting;
        return 0;
}

void mcp_waiting_free(struct mcp_waiting *waiting) {
        if (waiting == NULL)
                return;
        pthread_cond_destroy(&waiting->left);
        pthread_mutex_destroy(&waiting->lock);
        free(waiting);
}

void mcp_waiting_join(struct mcp_waiting *waiting) {
        pthread_mutex_lock(&waiting->lock);
        waiting->alive++;
        pthread_mutex_unlock(&waiting->lock);
}

void mcp_waiting_left(struct mcp_waiting *waiting) {
        pthread_mutex_lock(&waiting->lock);
        waiting->alive--;
        pthread_cond_broadcast(&waiting->left);
        pthread_mutex_unlock(&waiting->lock);
}

/* The caller holds the lock. */
static void remove_call(struct mcp_waiting *waiting, struct mcp_call *call) {
        struct mcp_call **at = &waiting->calls;

        while (*at != call)
                at = &(*at)->waiting_next;
        *at = call->waiting_next;
        call->waiting = false;
}

void mcp_waiting_stop(struct mcp_waiting *waiting) {
        struct mcp_call *call;

        pthread_mutex_lock(&waiting->lock);
        waiting->stopping = true;
        while ((call = waiting->calls) != NULL) {
                remove_call(waiting, call);
                mcp_call_ref(call);
                pthread_mutex_unlock(&waiting->lock);
                mcp_call_end(call);
                mcp_call_unref(call);
                pthread_mutex_lock(&waiting->lock);
        }
        while (waiting->alive > 0)
                pthread_cond_wait(&waiting->left, &waiting->lock);
        pthread_mutex_unlock(&waiting->lock);
}

/* ---- waiting ------------------------------------------------------------------------------------------- */

static size_t count_askers(const struct mcp_waiting *waiting, const char *principal, size_t *ret_total) {
        size_t count = 0, total = 0;

        for (const struct mcp_call *call = waiting->askers; call != NULL; call = call->asking_next, total++)
                count += strcmp(call->principal, principal) == 0;
        *ret_total = total;
        return count;
}

int mcp_waiting_admit(struct mcp_call *call, struct sbx_error *err) {
        struct mcp_waiting *waiting = mcp_server_waiting(call->server);
        size_t waiting_max = mcp_server_settings(call->server)->waiting_max, total;
        int r = 0;

        pthread_mutex_lock(&waiting->lock);
        if (count_askers(waiting, call->principal, &total) >= waiting_max || total >= WAITING_TOTAL_MAX) {
                r = sbx_error_set(err, -EBUSY, "transport-mcp", "Answer some of them, or wait until they expire.",
                                  "too many calls wait for input of this client (at most %zu)", waiting_max);
        } else {
                call->asking_next = waiting->askers;
                waiting->askers = call;
        }
        pthread_mutex_unlock(&waiting->lock);
        return r;
}

void mcp_waiting_dismiss(struct mcp_call *call) {
        struct mcp_waiting *waiting = mcp_server_waiting(call->server);
        struct mcp_call **at = &waiting->askers;

        pthread_mutex_lock(&waiting->lock);
        while (*at != call)
                at = &(*at)->asking_next;
        *at = call->asking_next;
        pthread_mutex_unlock(&waiting->lock);
}

static int enter(struct mcp_waiting *waiting, struct mcp_call *call) {
        const struct mcp_settings *settings = mcp_server_settings(waiting->server);
        uint64_t now = settings->host->clock_ns(settings->host->self);
        int r = 0;

        pthread_mutex_lock(&waiting->lock);
        if (waiting->stopping) {
                r = -ECANCELED;
        } else {
                if (call->round++ == 0)
                        mcp_random_id(call->waiting_id);
                call->waiting_until_ns = now + settings->input_timeout_ms * 1000000;
                call->waiting_next = waiting->calls;
                call->waiting = true;
                waiting->calls = call;
        }
        pthread_mutex_unlock(&waiting->lock);
        return r;
}

/* False: another has taken it. */
static bool leave(struct mcp_waiting *waiting, struct mcp_call *call) {
        bool left;

        pthread_mutex_lock(&waiting->lock);
        left = call->waiting;
        if (left)
                remove_call(waiting, call);
        pthread_mutex_unlock(&waiting->lock);
        return left;
}

static struct sbx_bytes write_payload(const struct mcp_call *call, const char *digest,
                                      char payload[PAYLOAD_BYTES_MAX]) {
        int size = snprintf(payload, PAYLOAD_BYTES_MAX, "%s %llu %llu %s", call->waiting_id,
                            (unsigned long long)call->round, (unsigned long long)call->waiting_until_ns, digest);

        return (struct sbx_bytes){payload, (size_t)size};
}

/* InputRequiredResult: what is pending, and the state. The caller is the thread that asks. */
static int write_result(struct mcp_call *call, struct mcp_text *text) {
        char payload[PAYLOAD_BYTES_MAX], *token;
        int r = mcp_sign(call->server, STATE_PURPOSE, call->principal, write_payload(call, call->digest, payload),
                         &token);

        if (r < 0)
                return r;
        mcp_text_append_literal(text, "{\"resultType\":\"input_required\",\"inputRequests\":");
        pthread_mutex_lock(&call->lock);
        mcp_text_append_json(text, call->pending);
        pthread_mutex_unlock(&call->lock);
        mcp_text_append_literal(text, ",\"requestState\":\"");
        mcp_text_append_literal(text, token); /* base64 */
        mcp_text_append_literal(text, "\"}");
        free(token);
        return text->error;
}

/* Whether a request has been attached; -ECANCELED: the call is to end. */
static int look(struct mcp_call *call) {
        int r;

        pthread_mutex_lock(&call->lock);
        r = call->cancelled ? -ECANCELED : call->exchange != NULL;
        pthread_mutex_unlock(&call->lock);
        return r;
}

static int await_retry(struct mcp_call *call, const struct sbx_call *limits) {
        struct mcp_waiting *waiting = mcp_server_waiting(call->server);
        uint64_t until_ns = call->waiting_until_ns;
        int r;

        for (;;) {
                r = mcp_call_sleep(call, limits, until_ns);
                if (r == 0)
                        r = look(call);
                if (r > 0)
                        return 0;
                if (r == -ETIMEDOUT && until_ns == call->waiting_until_ns && !leave(waiting, call)) {
                        /* In time, though only just: a request has taken the call and is about to attach itself. */
                        until_ns += ATTACHING_NS;
                        continue;
                }
                if (r < 0) {
                        (void)leave(waiting, call);
                        mcp_call_end(call); /* nobody could be told what comes of it */
                        return r;
                }
        }
}

int mcp_call_wait_input(struct mcp_call *call, const struct sbx_call *limits) {
        _cleanup_text_ struct mcp_text text = MCP_TEXT(ANSWER_BYTES_MAX);
        struct mcp_waiting *waiting = mcp_server_waiting(call->server);
        struct mcp_exchange *exchange = NULL;
        int r = enter(waiting, call);

        if (r < 0)
                return r;
        r = write_result(call, &text);
        if (r == 0) {
                exchange = mcp_call_detach(call);
                r = exchange != NULL ? 0 : -ECANCELED;
        }
        if (r < 0) {
                (void)leave(waiting, call); /* nobody knows this round's state */
                return r;
        }
        mcp_reply_result(&exchange->target, &exchange->id, mcp_text_bytes(&text));
        mcp_exchange_unref(exchange);
        return await_retry(call, limits);
}

/* ---- the request that brings the input ------------------------------------------------------------------ */

/* Takes the call off the list that waits under exactly this state; with a reference. NULL: none does. The hash in the
 * state must be that of the request, too. */
static struct mcp_call *take(const struct mcp_connection *connection, const char *digest, struct sbx_bytes payload) {
        struct mcp_waiting *waiting = mcp_server_waiting(mcp_connection_server(connection));
        const struct sbx_host *host = mcp_server_settings(waiting->server)->host;
        uint64_t now = host->clock_ns(host->self);
        char expected[PAYLOAD_BYTES_MAX];
        struct mcp_call *call;

        pthread_mutex_lock(&waiting->lock);
        for (call = waiting->calls; call != NULL; call = call->waiting_next) {
                struct sbx_bytes own = write_payload(call, digest, expected);

                if (own.size == payload.size && memcmp(own.data, payload.data, own.size) == 0)
                        break;
        }
        if (call != NULL && now < call->waiting_until_ns && strcmp(call->digest, digest) == 0) {
                remove_call(waiting, call);
                mcp_call_ref(call);
        } else {
                call = NULL;
        }
        pthread_mutex_unlock(&waiting->lock);
        return call;
}

/* From here on the call answers `exchange`, whose reference it takes; false: it has ended meanwhile. */
static bool attach(struct mcp_call *call, struct mcp_exchange *exchange, const json_t *responses) {
        bool attached, listed = mcp_exchange_attach(exchange, call);

        pthread_mutex_lock(&call->lock);
        attached = !call->cancelled && !call->ended;
        if (attached) {
                call->exchange = exchange;
                call->capabilities = exchange->capabilities;
                (void)mcp_call_supply(call, responses); /* without memory they stay pending, and are asked for again */
                mcp_call_wake(call);
        }
        pthread_mutex_unlock(&call->lock);
        if (!listed)
                mcp_call_end(call);
        return attached;
}

static int check_state(const struct mcp_connection *connection, const json_t *state, char **ret_payload,
                       size_t *ret_size) {
        const char *token = json_string_value(state);

        if (token == NULL || json_string_length(state) > STATE_BYTES_MAX || strlen(token) != json_string_length(state))
                return -EINVAL;
        return mcp_verify(mcp_connection_server(connection), STATE_PURPOSE, mcp_connection_principal(connection), token,
                          ret_payload, ret_size);
}

static void refuse_state(const struct mcp_target *target, const struct mcp_id *id) {
        mcp_reply_error(target, id, MCP_INVALID_PARAMS,
                        "params.requestState is not one that a call of this method, name and arguments waits under: it "
                        "was changed, was used before, or has expired",
                        "Send the request again without requestState, to begin anew");
}

static void retry(struct mcp_connection *connection, const struct mcp_message *message, const struct mcp_wish *wish,
                  const struct mcp_target *target, const char *digest, struct sbx_bytes payload,
                  const json_t *responses) {
        struct mcp_exchange *exchange = NULL;
        struct mcp_call *call;
        struct sbx_error err = {0};
        int r = mcp_exchange_new(connection, message, wish->meta, target, NULL, &exchange, &err);

        if (r < 0) {
                mcp_call_refuse(message, target, r, &err);
                return;
        }
        call = take(connection, digest, payload);
        if (call == NULL || !attach(call, exchange, responses)) {
                if (mcp_exchange_claim(exchange))
                        refuse_state(target, &message->id);
                mcp_exchange_unref(exchange);
        }
        if (call != NULL)
                mcp_call_unref(call);
}

void mcp_call_retry(struct mcp_connection *connection, const struct mcp_message *message, const struct mcp_wish *wish,
                    const struct mcp_target *target, const char *digest, const json_t *state, const json_t *responses) {
        char *payload = NULL;
        size_t size = 0;
        int r = check_state(connection, state, &payload, &size);

        if (r == -ENOMEM)
                mcp_reply_error(target, &message->id, MCP_INTERNAL_ERROR, "out of memory", NULL);
        else if (r < 0)
                refuse_state(target, &message->id);
        else
                retry(connection, message, wish, target, digest, (struct sbx_bytes){payload, size}, responses);
        free(payload);
}

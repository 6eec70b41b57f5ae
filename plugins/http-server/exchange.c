/* SPDX-License-Identifier: Apache-2.0 */
/* One request and its response: who holds it, what it was, and who wants to know when its client has gone. */
#include "internal.h"

/* Somebody may hold a body for longer than the server lives. */
struct hs_budget *hs_budget_new(size_t max) {
        struct hs_budget *budget = calloc(1, sizeof(*budget));

        if (budget != NULL) {
                budget->max = max;
                atomic_init(&budget->references, 1);
        }
        return budget;
}

static struct hs_budget *ref_budget(struct hs_budget *budget) {
        atomic_fetch_add(&budget->references, 1);
        return budget;
}

int hs_budget_take(struct hs_budget *budget, size_t bytes) {
        if (atomic_fetch_add(&budget->used, bytes) <= budget->max - bytes && bytes <= budget->max)
                return 0;
        atomic_fetch_sub(&budget->used, bytes);
        return -ENOBUFS;
}

void hs_budget_give_back(struct hs_budget *budget, size_t bytes) {
        if (budget == NULL)
                return;
        atomic_fetch_sub(&budget->used, bytes);
        if (atomic_fetch_sub(&budget->references, 1) == 1)
                free(budget);
}

struct hs_exchange *hs_exchange_new(struct hs_connection *connection) {
        struct hs_exchange *exchange = calloc(1, sizeof(*exchange));

        if (exchange == NULL)
                return NULL;
        pthread_mutex_init(&exchange->lock, NULL);
        pthread_cond_init(&exchange->quiet, NULL);
        exchange->references = 1; /* the connection's */
        exchange->connection = connection;
        exchange->server = connection->server;
        exchange->budget = ref_budget(connection->server->budget);
        memcpy(exchange->address, connection->address, sizeof(exchange->address));
        hs_rate_key(&connection->peer, exchange->rate_key);
        return exchange;
}

static void destroy(struct hs_exchange *exchange) {
        if (exchange->response != NULL)
                MHD_destroy_response(exchange->response);
        hs_target_free(&exchange->target);
        hs_head_free(&exchange->head);
        hs_budget_give_back(exchange->budget, exchange->body_capacity);
        free(exchange->body);
        free(exchange->challenge);
        free(exchange->stream);
        pthread_cond_destroy(&exchange->quiet);
        pthread_mutex_destroy(&exchange->lock);
        free(exchange);
}

void hs_exchange_free_part(struct hs_exchange *exchange) {
        bool last;

        pthread_mutex_lock(&exchange->lock);
        last = --exchange->references == 0;
        pthread_mutex_unlock(&exchange->lock);
        if (last)
                destroy(exchange);
}

struct hs_exchange *hs_ref(struct hs_exchange *exchange) {
        pthread_mutex_lock(&exchange->lock);
        exchange->references++;
        exchange->holders++;
        pthread_mutex_unlock(&exchange->lock);
        return exchange;
}

void hs_unref(struct hs_exchange *exchange) {
        static const char nobody[] = "{\"error\":{\"message\":\"the server has no answer\",\"hint\":\"See its log.\"}}";
        static const struct hs_header json[] = {{"Content-Type", "application/json"}, {NULL, NULL}};
        bool forgotten, unended;

        if (exchange == NULL)
                return;
        pthread_mutex_lock(&exchange->lock);
        exchange->holders--;
        forgotten = exchange->holders == 0 && !exchange->answered;
        unended = exchange->holders == 0 && exchange->streaming && !exchange->ended;
        pthread_mutex_unlock(&exchange->lock);
        /* Nobody else could answer any more. */
        if (forgotten)
                hs_respond(exchange, MHD_HTTP_INTERNAL_SERVER_ERROR, json,
                           (struct sbx_bytes){nobody, sizeof(nobody) - 1});
        if (unended)
                hs_end(exchange);
        hs_exchange_free_part(exchange);
}

const char *hs_method(const struct hs_exchange *exchange) {
        return exchange->head.method;
}

const char *hs_path(const struct hs_exchange *exchange) {
        return exchange->target.path;
}

const char *hs_query(const struct hs_exchange *exchange, const char *name) {
        return hs_target_query(&exchange->target, name);
}

const char *hs_header(const struct hs_exchange *exchange, const char *name) {
        return hs_head_get(&exchange->head, name);
}

struct sbx_bytes hs_body(const struct hs_exchange *exchange) {
        return (struct sbx_bytes){.data = exchange->body != NULL ? exchange->body : "", .size = exchange->body_size};
}

const char *hs_principal(const struct hs_exchange *exchange) {
        return exchange->principal;
}

const char *hs_address(const struct hs_exchange *exchange) {
        return exchange->address;
}

/* The lock is held: the response has not ended, so that it is worth knowing. */
static bool is_open(const struct hs_exchange *exchange) {
        return !exchange->answered || (exchange->streaming && !exchange->ended);
}

/* The lock is held, and let go while it is told. */
static void tell(struct hs_exchange *exchange) {
        void (*gone)(void *data) = exchange->gone;
        void *data = exchange->gone_data;

        if (gone == NULL || exchange->gone_called || !is_open(exchange))
                return;
        exchange->gone_called = exchange->gone_running = true;
        exchange->gone_thread = pthread_self();
        pthread_mutex_unlock(&exchange->lock);
        gone(data);
        pthread_mutex_lock(&exchange->lock);
        exchange->gone_running = false;
        pthread_cond_broadcast(&exchange->quiet);
}

void hs_exchange_gone(struct hs_exchange *exchange) {
        pthread_mutex_lock(&exchange->lock);
        exchange->references++;
        exchange->is_gone = true;
        tell(exchange);
        if (exchange->streaming) {
                exchange->abort = true; /* nobody reads it */
                if (exchange->suspended)
                        hs_post(exchange);
        }
        pthread_mutex_unlock(&exchange->lock);
        hs_exchange_free_part(exchange);
}

void hs_exchange_over(struct hs_exchange *exchange) {
        struct MHD_Response *response;

        hs_exchange_gone(exchange);
        pthread_mutex_lock(&exchange->lock);
        exchange->went_early = is_open(exchange);
        exchange->connection = NULL;
        exchange->ended = exchange->answered = true;
        response = exchange->response;
        exchange->response = NULL;
        pthread_mutex_unlock(&exchange->lock);
        if (response != NULL)
                MHD_destroy_response(response);
        hs_exchange_free_part(exchange);
}

void hs_on_gone(struct hs_exchange *exchange, void (*gone)(void *data), void *data) {
        bool at_once = false;

        pthread_mutex_lock(&exchange->lock);
        while (exchange->gone_running && !pthread_equal(exchange->gone_thread, pthread_self()))
                pthread_cond_wait(&exchange->quiet, &exchange->lock);
        exchange->gone = gone;
        exchange->gone_data = data;
        if (gone != NULL && exchange->is_gone && !exchange->gone_called) {
                if (exchange->connection != NULL) {
                        exchange->gone_due = true;
                        hs_post(exchange);
                } else {
                        at_once = exchange->gone_called = exchange->went_early; /* there may be no server any more */
                }
        }
        pthread_mutex_unlock(&exchange->lock);
        if (at_once)
                gone(data);
}

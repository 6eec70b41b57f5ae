/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that does what nobody waits for: it frees what is dead, keeps silent streams alive, and ends sessions that
 * nobody uses. */
#include <stdlib.h>
#include <time.h>

#include "http_private.h"

/* Between two looks at what is dead: one for many requests, so that answering one wakes nobody. */
#define BURY_NS 10000000L

static void bury(struct mcp_http *http) {
        struct http_exchange *exchange;
        struct http_session *session;

        pthread_mutex_lock(&http->lock);
        exchange = http->dead_exchanges;
        http->dead_exchanges = NULL;
        session = http->dead_sessions;
        http->dead_sessions = NULL;
        pthread_mutex_unlock(&http->lock);
        while (exchange != NULL) {
                struct http_exchange *next = exchange->next;

                http_exchange_free(exchange);
                exchange = next;
        }
        while (session != NULL) {
                struct http_session *next = session->next;

                http_session_free(session);
                session = next;
        }
}

/* References of all exchanges, so that they can be looked at one by one without the lock. The caller frees. */
static struct http_exchange **take_all(struct mcp_http *http, size_t *ret_count) {
        struct http_exchange **all;
        size_t count = 0;

        pthread_mutex_lock(&http->lock);
        all = http->exchanges_alive > 0 ? malloc(http->exchanges_alive * sizeof(struct http_exchange *)) : NULL;
        for (struct http_exchange *at = http->exchanges; all != NULL && at != NULL; at = at->next)
                if (http_exchange_try_ref(at))
                        all[count++] = at;
        pthread_mutex_unlock(&http->lock);
        *ret_count = count;
        return all;
}

void http_each_exchange(struct mcp_http *http, void (*visit)(struct http_exchange *exchange, uint64_t now_ns)) {
        size_t count;
        struct http_exchange **all = take_all(http, &count);
        uint64_t now_ns = http_now_ns(http);

        for (size_t i = 0; i < count; i++) {
                visit(all[i], now_ns);
                http_exchange_unref(all[i]);
        }
        free(all);
}

static uint64_t tick_ns(const struct mcp_http *http) {
        uint64_t quarter_ms = http->settings->keep_alive_ms / 4;

        return (quarter_ms > 1000 ? 1000 : quarter_ms > 10 ? quarter_ms : 10) * UINT64_C(1000000);
}

/* Waits until something is dead, the keeper is to end, or `until_ns`. True: to end. */
static bool rest(struct mcp_http *http, uint64_t until_ns) {
        const struct timespec until = {.tv_sec = (time_t)(until_ns / HTTP_SECOND_NS),
                                       .tv_nsec = (long)(until_ns % HTTP_SECOND_NS)};
        bool stop;

        pthread_mutex_lock(&http->lock);
        while (!http->keeper_stop && http->dead_exchanges == NULL && http->dead_sessions == NULL)
                if (pthread_cond_clockwait(&http->changed, &http->lock, CLOCK_MONOTONIC, &until) != 0)
                        break;
        stop = http->keeper_stop;
        pthread_mutex_unlock(&http->lock);
        return stop;
}

static void *keep(void *data) {
        const struct timespec pause = {.tv_nsec = BURY_NS};
        struct mcp_http *http = data;
        struct timespec now;
        uint64_t next_ns = 0, now_ns;

        for (;;) {
                clock_gettime(CLOCK_MONOTONIC, &now);
                now_ns = (uint64_t)now.tv_sec * HTTP_SECOND_NS + (uint64_t)now.tv_nsec;
                if (now_ns >= next_ns) {
                        http_each_exchange(http, http_exchange_tick);
                        http_sessions_tick(http, http_now_ns(http));
                        next_ns = now_ns + tick_ns(http);
                }
                if (rest(http, next_ns))
                        break;
                nanosleep(&pause, NULL);
                bury(http);
        }
        bury(http);
        return NULL;
}

int http_keeper_start(struct mcp_http *http, struct sbx_error *err) {
        int r = pthread_create(&http->keeper, NULL, keep, http);

        return r == 0 ? 0 : sbx_error_set(err, -r, "transport-mcp", NULL, "can't start a thread: %s", strerror(r));
}

void http_keeper_stop(struct mcp_http *http) {
        pthread_mutex_lock(&http->lock);
        http->keeper_stop = true;
        pthread_cond_broadcast(&http->changed);
        pthread_mutex_unlock(&http->lock);
        pthread_join(http->keeper, NULL);
}

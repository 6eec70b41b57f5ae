/* SPDX-License-Identifier: Apache-2.0 */
/* All who want to hear of changes, and the thread that tells them.
 *
 * The host and tasks tell of changes from threads that must not wait for a client; so they only note them, and one
 * thread, begun with the first subscriber, sends. What comes faster than a client reads is told once. */
#include "subscriber.h"

#include <signal.h>
#include <stdlib.h>

#include "connection_private.h"
#include "server_private.h"

#define NEWS_BYTES_MAX (512u << 20) /* a task's state may hold its result */

struct mcp_subscriptions {
        struct mcp_server *server;
        pthread_mutex_t lock; /* protects what follows, and all subscribers; a connection's may be taken under it */
        pthread_cond_t news;  /* the queue has something, or it is over */
        struct mcp_subscriber *first;
        struct mcp_subscriber *queue, **queue_end;
        size_t listeners;
        bool running, stopping;
        pthread_t thread;
};

int mcp_subscriptions_new(struct mcp_server *server, struct mcp_subscriptions **ret_subscriptions,
                          struct sbx_error *err) {
        struct mcp_subscriptions *subscriptions = malloc(sizeof(*subscriptions));

        if (subscriptions == NULL)
                return sbx_error_set(err, -ENOMEM, "transport-mcp", NULL, "no memory for subscriptions");
        *subscriptions = (struct mcp_subscriptions){.server = server};
        subscriptions->queue_end = &subscriptions->queue;
        pthread_mutex_init(&subscriptions->lock, NULL);
        pthread_cond_init(&subscriptions->news, NULL);
        *ret_subscriptions = subscriptions;
        return 0;
}

void mcp_subscriptions_free(struct mcp_subscriptions *subscriptions) {
        if (subscriptions == NULL)
                return;
        pthread_cond_destroy(&subscriptions->news);
        pthread_mutex_destroy(&subscriptions->lock);
        free(subscriptions);
}

static struct mcp_subscriptions *subscriptions_of(const struct mcp_connection *connection) {
        return mcp_server_subscriptions(connection->server);
}

/* ---- under the lock ------------------------------------------------------------------------------------ */

/* Drops a reference; whoever has none left goes to `dead`, to be buried without the lock. */
static void unref(struct mcp_subscriber *subscriber, struct mcp_subscriber **dead) {
        if (--subscriber->refs > 0)
                return;
        subscriber->queue_next = *dead;
        *dead = subscriber;
}

static void enqueue(struct mcp_subscriptions *subscriptions, struct mcp_subscriber *subscriber) {
        if (subscriber->queued || !subscriber->acknowledged || !subscriber->listed || subscriptions->stopping)
                return;
        subscriber->queued = true;
        subscriber->refs++;
        subscriber->queue_next = NULL;
        *subscriptions->queue_end = subscriber;
        subscriptions->queue_end = &subscriber->queue_next;
        pthread_cond_signal(&subscriptions->news);
}

/* With the queue's reference. */
static struct mcp_subscriber *dequeue(struct mcp_subscriptions *subscriptions) {
        struct mcp_subscriber *subscriber = subscriptions->queue;

        subscriptions->queue = subscriber->queue_next;
        if (subscriptions->queue == NULL)
                subscriptions->queue_end = &subscriptions->queue;
        subscriber->queued = false;
        return subscriber;
}

/* Off the list, for good; the list's reference is the caller's. */
static void unlist(struct mcp_subscriptions *subscriptions, struct mcp_subscriber *subscriber) {
        if (subscriber->next != NULL)
                subscriber->next->previous = subscriber->previous;
        if (subscriber->previous != NULL)
                subscriber->previous->next = subscriber->next;
        else
                subscriptions->first = subscriber->next;
        subscriber->listed = false;
        if (subscriber->id.size > 0)
                subscriptions->listeners--;
}

static struct mcp_subscriber *find(struct mcp_subscriptions *subscriptions, const struct mcp_connection *connection,
                                   const struct mcp_id *id) {
        for (struct mcp_subscriber *i = subscriptions->first; i != NULL; i = i->next)
                if (i->connection == connection && (id != NULL ? mcp_id_equal(&i->id, id) : i->id.size == 0))
                        return i;
        return NULL;
}

/* Without the lock: channels have locks of their own. The connections may be gone when this returns. */
static void bury(struct mcp_subscriber *dead) {
        while (dead != NULL) {
                struct mcp_connection *connection = dead->connection;
                struct mcp_subscriber *next = dead->queue_next;

                mcp_subscriber_free(dead);
                pthread_mutex_lock(&connection->lock);
                connection->subscribers_alive--;
                pthread_cond_broadcast(&connection->ended);
                pthread_mutex_unlock(&connection->lock);
                dead = next;
        }
}

/* Takes the lock for it. */
static void release(struct mcp_subscriptions *subscriptions, struct mcp_subscriber *subscriber) {
        struct mcp_subscriber *dead = NULL;

        pthread_mutex_lock(&subscriptions->lock);
        unref(subscriber, &dead);
        pthread_mutex_unlock(&subscriptions->lock);
        bury(dead);
}

/* ---- the thread ---------------------------------------------------------------------------------------- */

static void send_news(struct mcp_subscriber *subscriber, const char *method, const struct mcp_text *params) {
        enum mcp_revision revision = subscriber->target.revision;
        struct mcp_channel *channel;

        if (subscriber->id.size > 0) {
                mcp_send_notification(subscriber->target.channel, revision, method, mcp_text_bytes(params));
                return;
        }
        channel = mcp_connection_channel(subscriber->connection);
        if (channel == NULL) /* a legacy client that listens to nothing at the moment */
                return;
        mcp_send_notification(channel, mcp_connection_revision(subscriber->connection), method, mcp_text_bytes(params));
        mcp_channel_unref(channel);
}

/* One message of one subscriber; the others have their turn before its next. Gives the lock up meanwhile. */
static void tell_one(struct mcp_subscriptions *subscriptions) {
        struct mcp_subscriber *subscriber = dequeue(subscriptions);
        _cleanup_text_ struct mcp_text params = MCP_TEXT(NEWS_BYTES_MAX);
        const char *method = subscriber->listed ? mcp_subscriber_take(subscriber, &params) : NULL;

        if (method != NULL)
                enqueue(subscriptions, subscriber);
        pthread_mutex_unlock(&subscriptions->lock);
        if (method != NULL && params.error == 0)
                send_news(subscriber, method, &params);
        release(subscriptions, subscriber);
        pthread_mutex_lock(&subscriptions->lock);
}

static void *tell(void *data) {
        struct mcp_subscriptions *subscriptions = data;
        struct mcp_subscriber *dead = NULL;

        pthread_mutex_lock(&subscriptions->lock);
        while (!subscriptions->stopping) {
                if (subscriptions->queue != NULL)
                        tell_one(subscriptions);
                else
                        pthread_cond_wait(&subscriptions->news, &subscriptions->lock);
        }
        while (subscriptions->queue != NULL)
                unref(dequeue(subscriptions), &dead);
        pthread_mutex_unlock(&subscriptions->lock);
        bury(dead);
        return NULL;
}

/* Under the lock. Signals are the program's affair. */
static int run_thread(struct mcp_subscriptions *subscriptions) {
        sigset_t all, before;
        int r;

        if (subscriptions->running)
                return 0;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        r = pthread_create(&subscriptions->thread, NULL, tell, subscriptions);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        subscriptions->running = r == 0;
        return -r;
}

/* ---- coming and going ---------------------------------------------------------------------------------- */

static size_t listeners_of(const struct mcp_subscriptions *subscriptions, const char *principal) {
        size_t count = 0;

        for (const struct mcp_subscriber *i = subscriptions->first; i != NULL; i = i->next)
                if (i->id.size > 0 && strcmp(i->connection->principal, principal) == 0)
                        count++;
        return count;
}

static int check_room(struct mcp_subscriptions *subscriptions, const struct mcp_subscriber *subscriber,
                      struct sbx_error *err) {
        const struct mcp_connection *connection = subscriber->connection;

        if (subscriptions->stopping || connection->closing)
                return sbx_error_set(err, -ECANCELED, "transport-mcp", NULL, "the server is about to end");
        if (subscriber->id.size == 0)
                return 0;
        if (find(subscriptions, connection, &subscriber->id) != NULL)
                return sbx_error_set(err, -EEXIST, "transport-mcp", NULL,
                                     "a request with this id is under way already");
        if (subscriptions->listeners >= MCP_LISTENERS_MAX ||
            listeners_of(subscriptions, connection->principal) >= MCP_LISTENERS_OF_PRINCIPAL_MAX)
                return sbx_error_set(err, -EBUSY, "transport-mcp", "End some, or ask for more with one",
                                     "too many subscriptions");
        return 0;
}

/* Puts a new one on the list, which takes the reference; else the subscriber stays the caller's. Under both locks, so
 * that a connection that closes finds all of its own. */
static int insert(struct mcp_subscriptions *subscriptions, struct mcp_subscriber *subscriber, struct sbx_error *err) {
        struct mcp_connection *connection = subscriber->connection;
        int r = run_thread(subscriptions);

        if (r < 0)
                return sbx_error_set(err, r, "transport-mcp", NULL, "no thread for subscriptions: %s", strerror(-r));
        pthread_mutex_lock(&connection->lock);
        r = check_room(subscriptions, subscriber, err);
        if (r == 0)
                connection->subscribers_alive++;
        pthread_mutex_unlock(&connection->lock);
        if (r < 0)
                return r;
        subscriber->next = subscriptions->first;
        if (subscriber->next != NULL)
                subscriber->next->previous = subscriber;
        subscriptions->first = subscriber;
        subscriber->listed = true;
        if (subscriber->id.size > 0)
                subscriptions->listeners++;
        return 0;
}

/* Of a legacy connection, made when it is not there yet. Under the lock. */
static int get_legacy(struct mcp_subscriptions *subscriptions, struct mcp_connection *connection,
                      struct mcp_subscriber **ret_subscriber, struct sbx_error *err) {
        struct mcp_subscriber *subscriber = find(subscriptions, connection, NULL);
        int r;

        if (subscriber == NULL) {
                if (mcp_subscriber_new(connection, NULL, NULL, &subscriber) < 0)
                        return sbx_error_set(err, -ENOMEM, "transport-mcp", NULL, "no memory for a subscription");
                r = insert(subscriptions, subscriber, err);
                if (r < 0) {
                        mcp_subscriber_free(subscriber);
                        return r;
                }
        }
        *ret_subscriber = subscriber;
        return 0;
}

void mcp_subscriptions_join(struct mcp_connection *connection) {
        struct mcp_subscriptions *subscriptions = subscriptions_of(connection);
        const struct sbx_host *host = mcp_server_settings(connection->server)->host;
        struct mcp_subscriber *subscriber;
        struct sbx_error err = {0};
        int r;

        pthread_mutex_lock(&subscriptions->lock);
        r = get_legacy(subscriptions, connection, &subscriber, &err);
        pthread_mutex_unlock(&subscriptions->lock);
        if (r < 0 && r != -ECANCELED)
                host->log(host->self, SBX_LOG_WARNING, err.message);
}

int mcp_subscriptions_add(struct mcp_connection *connection, const char *uri, struct sbx_error *err) {
        struct mcp_subscriptions *subscriptions = subscriptions_of(connection);
        struct mcp_subscriber *subscriber;
        int r;

        pthread_mutex_lock(&subscriptions->lock);
        r = get_legacy(subscriptions, connection, &subscriber, err);
        if (r == 0)
                r = mcp_subscriber_add(subscriber, uri, false);
        pthread_mutex_unlock(&subscriptions->lock);
        if (r == -EBUSY)
                sbx_error_set(err, r, "transport-mcp", "Unsubscribe from some",
                              "too many subscriptions: at most 256, 64 KiB of URIs together");
        else if (r < 0)
                sbx_error_set(err, r, "transport-mcp", NULL, "no memory for a subscription");
        return r;
}

void mcp_subscriptions_remove(struct mcp_connection *connection, const char *uri) {
        struct mcp_subscriptions *subscriptions = subscriptions_of(connection);
        struct mcp_subscriber *subscriber;

        pthread_mutex_lock(&subscriptions->lock);
        subscriber = find(subscriptions, connection, NULL);
        if (subscriber != NULL)
                mcp_subscriber_remove(subscriber, uri);
        pthread_mutex_unlock(&subscriptions->lock);
}

bool mcp_subscriptions_cancel(struct mcp_connection *connection, const struct mcp_id *id) {
        struct mcp_subscriptions *subscriptions = subscriptions_of(connection);
        struct mcp_subscriber *subscriber, *dead = NULL;

        pthread_mutex_lock(&subscriptions->lock);
        subscriber = find(subscriptions, connection, id);
        if (subscriber != NULL) {
                unlist(subscriptions, subscriber);
                unref(subscriber, &dead);
        }
        pthread_mutex_unlock(&subscriptions->lock);
        bury(dead);
        return subscriber != NULL;
}

void mcp_subscriptions_leave(struct mcp_connection *connection) {
        struct mcp_subscriptions *subscriptions = subscriptions_of(connection);
        struct mcp_subscriber *next, *dead = NULL;

        pthread_mutex_lock(&subscriptions->lock);
        for (struct mcp_subscriber *i = subscriptions->first; i != NULL; i = next) {
                next = i->next;
                if (i->connection != connection)
                        continue;
                unlist(subscriptions, i);
                unref(i, &dead);
        }
        pthread_mutex_unlock(&subscriptions->lock);
        bury(dead);
}

/* ---- subscriptions/listen ------------------------------------------------------------------------------ */

static void send_end(const struct mcp_subscriber *subscriber) {
        _cleanup_text_ struct mcp_text result = MCP_TEXT(2 * MCP_ID_BYTES_MAX * 8);

        mcp_text_append_literal(&result, "{");
        mcp_subscriber_encode_meta(subscriber, &result);
        mcp_text_append_literal(&result, "}");
        if (result.error == 0)
                mcp_reply_result(&subscriber->target, &subscriber->id, mcp_text_bytes(&result));
        else
                mcp_reply_error(&subscriber->target, &subscriber->id, MCP_INTERNAL_ERROR, "the server ends", NULL);
}

/* The first message of a subscription; what changes before it is out is told behind it. Takes the caller's reference.
 */
static void acknowledge(struct mcp_subscriptions *subscriptions, struct mcp_subscriber *subscriber,
                        const struct mcp_text *agreed) {
        bool ended;

        mcp_send_notification(subscriber->target.channel, subscriber->target.revision,
                              "notifications/subscriptions/acknowledged", mcp_text_bytes(agreed));
        pthread_mutex_lock(&subscriptions->lock);
        subscriber->acknowledged = true;
        ended = !subscriber->listed && subscriptions->stopping;
        enqueue(subscriptions, subscriber);
        pthread_mutex_unlock(&subscriptions->lock);
        if (ended)
                send_end(subscriber);
        release(subscriptions, subscriber);
}

static int code_of(int problem) {
        return problem == -EEXIST ? MCP_INVALID_REQUEST : problem == -EBUSY ? MCP_BUSY : MCP_INTERNAL_ERROR;
}

void mcp_subscriptions_listen(struct mcp_connection *connection, const struct mcp_message *message,
                              const struct mcp_meta *meta, const struct mcp_target *target) {
        struct mcp_subscriptions *subscriptions = subscriptions_of(connection);
        _cleanup_text_ struct mcp_text agreed = MCP_TEXT(16 * MCP_SUBSCRIPTION_BYTES_MAX);
        struct mcp_subscriber *subscriber = NULL;
        struct sbx_error err = {0};
        const char *problem;
        int r;

        if (mcp_subscriber_new(connection, &message->id, target, &subscriber) < 0) {
                mcp_reply_error(target, &message->id, MCP_INTERNAL_ERROR, "out of memory", NULL);
                return;
        }
        problem = mcp_subscriber_decode(subscriber, json_object_get(message->params, "notifications"),
                                        (meta->capabilities & SBX_CLIENT_TASKS) != 0);
        mcp_subscriber_encode_agreed(subscriber, &agreed);
        if (problem != NULL || agreed.error != 0) {
                mcp_subscriber_free(subscriber);
                mcp_reply_error(target, &message->id, problem != NULL ? MCP_INVALID_PARAMS : MCP_INTERNAL_ERROR,
                                problem != NULL ? problem : "out of memory", NULL);
                return;
        }
        pthread_mutex_lock(&subscriptions->lock);
        r = insert(subscriptions, subscriber, &err);
        if (r == 0)
                subscriber->refs++;
        pthread_mutex_unlock(&subscriptions->lock);
        if (r == 0) {
                acknowledge(subscriptions, subscriber, &agreed);
        } else {
                mcp_subscriber_free(subscriber);
                mcp_reply_error(target, &message->id, code_of(r), err.message, err.hint);
        }
}

/* ---- changes ------------------------------------------------------------------------------------------- */

void mcp_subscriptions_change(struct mcp_subscriptions *subscriptions, const struct sbx_change *change) {
        pthread_mutex_lock(&subscriptions->lock);
        for (struct mcp_subscriber *i = subscriptions->first; i != NULL; i = i->next)
                if (mcp_subscriber_note(i, change))
                        enqueue(subscriptions, i);
        pthread_mutex_unlock(&subscriptions->lock);
}

void mcp_subscriptions_task(struct mcp_subscriptions *subscriptions, const char *principal, const char *task_id,
                            struct sbx_bytes task) {
        pthread_mutex_lock(&subscriptions->lock);
        for (struct mcp_subscriber *i = subscriptions->first; i != NULL; i = i->next)
                if (strcmp(i->connection->principal, principal) == 0 && mcp_subscriber_note_task(i, task_id, task))
                        enqueue(subscriptions, i);
        pthread_mutex_unlock(&subscriptions->lock);
}

/* ---- the end ------------------------------------------------------------------------------------------- */

/* Takes one off the list, with its reference; NULL: none is left. `ret_told`: it gets its end here, not from the thread
 * that is about to acknowledge it. */
static struct mcp_subscriber *take_any(struct mcp_subscriptions *subscriptions, bool *ret_told) {
        struct mcp_subscriber *subscriber;

        pthread_mutex_lock(&subscriptions->lock);
        subscriber = subscriptions->first;
        if (subscriber != NULL) {
                unlist(subscriptions, subscriber);
                *ret_told = subscriber->id.size > 0 && subscriber->acknowledged;
        }
        pthread_mutex_unlock(&subscriptions->lock);
        return subscriber;
}

void mcp_subscriptions_stop(struct mcp_subscriptions *subscriptions) {
        struct mcp_subscriber *subscriber;
        bool join, told;

        pthread_mutex_lock(&subscriptions->lock);
        subscriptions->stopping = true;
        join = subscriptions->running;
        subscriptions->running = false;
        pthread_cond_signal(&subscriptions->news);
        pthread_mutex_unlock(&subscriptions->lock);
        if (join)
                pthread_join(subscriptions->thread, NULL);
        while ((subscriber = take_any(subscriptions, &told)) != NULL) {
                if (told)
                        send_end(subscriber);
                release(subscriptions, subscriber);
        }
}

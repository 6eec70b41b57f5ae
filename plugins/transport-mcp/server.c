/* SPDX-License-Identifier: Apache-2.0 */
/* One server: makes its parts, hears of changes for them, and ends them in order. */
#include <stdlib.h>

#include "server_private.h"

struct mcp_server {
        const struct mcp_settings *settings;
        struct mcp_key key;
        struct mcp_lists *lists;
        struct mcp_waiting *waiting;
        struct mcp_tasks *tasks;
        struct mcp_subscriptions *subscriptions;
        struct sbx_watch *watch;
        bool stopped;
};

static void on_change(void *data, const struct sbx_change *change) {
        struct mcp_server *server = data;

        mcp_lists_forget(server->lists, change->kind);
        mcp_subscriptions_change(server->subscriptions, change);
}

static int make_parts(struct mcp_server *server, struct sbx_error *err) {
        const struct sbx_host *host = server->settings->host;
        int r = mcp_key_new(&server->key, err);

        if (r == 0)
                r = mcp_lists_new(server, &server->lists, err);
        if (r == 0)
                r = mcp_subscriptions_new(server, &server->subscriptions, err);
        if (r == 0)
                r = mcp_waiting_new(server, &server->waiting, err);
        if (r == 0)
                r = mcp_tasks_new(server, &server->tasks, err);
        if (r == 0)
                r = host->watch(host->self, on_change, server, &server->watch, err);
        return r;
}

int mcp_server_new(const struct mcp_settings *settings, struct mcp_server **ret_server, struct sbx_error *err) {
        struct mcp_server *server = malloc(sizeof(*server));
        int r;

        if (server == NULL)
                return sbx_error_set(err, -ENOMEM, "transport-mcp", NULL, "no memory for a server");
        *server = (struct mcp_server){.settings = settings};
        r = make_parts(server, err);
        if (r < 0) {
                mcp_server_stop(server);
                mcp_server_free(server);
                return r;
        }
        *ret_server = server;
        return 0;
}

void mcp_server_stop(struct mcp_server *server) {
        const struct sbx_host *host = server->settings->host;

        if (server->stopped)
                return;
        server->stopped = true;
        host->unwatch(host->self, server->watch);
        server->watch = NULL;
        /* Calls tell of themselves until they end: subscriptions go last. */
        if (server->waiting != NULL)
                mcp_waiting_stop(server->waiting);
        if (server->tasks != NULL)
                mcp_tasks_stop(server->tasks);
        if (server->subscriptions != NULL)
                mcp_subscriptions_stop(server->subscriptions);
}

void mcp_server_free(struct mcp_server *server) {
        if (server == NULL)
                return;
        mcp_tasks_free(server->tasks);
        mcp_waiting_free(server->waiting);
        mcp_subscriptions_free(server->subscriptions);
        mcp_lists_free(server->lists);
        explicit_bzero(&server->key, sizeof(server->key));
        free(server);
}

const struct mcp_settings *mcp_server_settings(const struct mcp_server *server) {
        return server->settings;
}

const struct mcp_key *mcp_server_key(const struct mcp_server *server) {
        return &server->key;
}

struct mcp_lists *mcp_server_lists(struct mcp_server *server) {
        return server->lists;
}

struct mcp_waiting *mcp_server_waiting(struct mcp_server *server) {
        return server->waiting;
}

struct mcp_tasks *mcp_server_tasks(struct mcp_server *server) {
        return server->tasks;
}

struct mcp_subscriptions *mcp_server_subscriptions(struct mcp_server *server) {
        return server->subscriptions;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The set of tools that demand a task, built when it is first asked for and after each change. */
#include "task_tools.h"

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define LIST_BYTES_MAX (16u << 20)

struct mcp_task_tools {
        const struct sbx_host *host;
        struct sbx_watch *watch;
        atomic_bool stale;
        pthread_mutex_t lock; /* protects `names`, and is held while the host lists */
        json_t *names;        /* {name: true}; NULL: not listed yet */
};

static void on_change(void *data, const struct sbx_change *change) {
        struct mcp_task_tools *tools = data;

        if (change->kind == SBX_CHANGE_TOOLS)
                atomic_store(&tools->stale, true);
}

int mcp_task_tools_new(const struct sbx_host *host, struct mcp_task_tools **ret_tools, struct sbx_error *err) {
        struct mcp_task_tools *tools = malloc(sizeof(*tools));
        int r;

        if (tools == NULL)
                return sbx_error_set(err, -ENOMEM, "transport-mcp", NULL, "no memory for the server's tasks");
        *tools = (struct mcp_task_tools){.host = host};
        atomic_init(&tools->stale, true);
        r = host->watch(host->self, on_change, tools, &tools->watch, err);
        if (r < 0) {
                free(tools);
                return r;
        }
        pthread_mutex_init(&tools->lock, NULL);
        *ret_tools = tools;
        return 0;
}

void mcp_task_tools_free(struct mcp_task_tools *tools) {
        if (tools == NULL)
                return;
        tools->host->unwatch(tools->host->self, tools->watch);
        pthread_mutex_destroy(&tools->lock);
        json_decref(tools->names);
        free(tools);
}

static json_t *pick(const json_t *list) {
        json_t *names = json_object();
        const json_t *tool;
        size_t index;

        json_array_foreach (list, index, tool) {
                const char *name = json_string_value(json_object_get(tool, "name"));
                const char *support =
                        json_string_value(json_object_get(json_object_get(tool, "execution"), "taskSupport"));

                if (name != NULL && support != NULL && strcmp(support, "required") == 0 &&
                    json_object_set_new(names, name, json_true()) < 0) {
                        json_decref(names);
                        return NULL;
                }
        }
        return names;
}

/* NULL: the host can't say. */
static json_t *list_names(const struct sbx_host *host) {
        struct sbx_output *output = NULL;
        json_t *list = NULL, *names = NULL;
        struct sbx_bytes text;

        if (host->output_new(host->self, LIST_BYTES_MAX, &output) < 0)
                return NULL;
        if (host->list(host->self, SBX_LIST_TOOLS, output, NULL) == 0) {
                text = host->output_bytes(host->self, output);
                list = json_loadb(text.data, text.size, JSON_ALLOW_NUL, NULL);
        }
        host->output_free(host->self, output);
        if (list != NULL)
                names = pick(list);
        json_decref(list);
        return names;
}

/* The caller holds the lock. */
static void refresh(struct mcp_task_tools *tools) {
        json_t *names;

        if (!atomic_exchange(&tools->stale, false)) /* before the list is asked for: a change meanwhile counts */
                return;
        names = list_names(tools->host);
        if (names == NULL) {
                atomic_store(&tools->stale, true);
                return;
        }
        json_decref(tools->names);
        tools->names = names;
}

bool mcp_task_tools_require(struct mcp_task_tools *tools, const char *name) {
        bool required;

        pthread_mutex_lock(&tools->lock);
        refresh(tools);
        required = json_object_get(tools->names, name) != NULL;
        pthread_mutex_unlock(&tools->lock);
        return required;
}

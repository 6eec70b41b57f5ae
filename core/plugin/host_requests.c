/* SPDX-License-Identifier: Apache-2.0 */
/* The services of struct sbx_host that reach beyond the plugin: tools and other requests, lists, news, figures. What a
 * plugin hands over is checked and brought to this host's layout here. Any thread. */
#include "plugin/internal.h"

#include "base/error.h"

/* What a struct of ABI 1.2, or the events of 1.0, have at least: a later host takes them as well. */
#define SIZE_THROUGH(type, member) (offsetof(struct type, member) + sizeof(((struct type *)NULL)->member))

static const struct sbx_tool_services *services(const struct sbx_host_state *self) {
        static const struct sbx_tool_services none;

        return self->setup.tools != NULL ? self->setup.tools : &none;
}

static int not_here(const struct sbx_host_state *self, const char *what, struct sbx_error *err) {
        return sbx_error_set(err, -ENOTSUP, SBX_PLUGIN_ORIGIN,
                             "Ask for it after start(), in a program that opened a whole runtime.",
                             "%s: there are no %s here", self->setup.instance_name, what);
}

static int refuse(const struct sbx_host_state *self, const char *needs, struct sbx_error *err) {
        return sbx_error_set(err, -EINVAL, SBX_PLUGIN_ORIGIN, NULL, "%s: %s", self->setup.instance_name, needs);
}

/* ---- requests -------------------------------------------------------------------------------------------- */

static bool is_kind(uint32_t kind) {
        return kind >= SBX_REQUEST_TOOL && kind <= SBX_REQUEST_COMPLETION;
}

/* A list and a completion are asked of all; the rest is something with a name. */
static bool needs_name(uint32_t kind) {
        return kind != SBX_REQUEST_RESOURCES && kind != SBX_REQUEST_COMPLETION;
}

static int submit(const struct sbx_host_state *self, const struct sbx_request *request, const struct sbx_client *client,
                  const struct sbx_request_done *done, struct sbx_tool_task **ret_task, struct sbx_error *err) {
        struct sbx_request copy = *request;

        if (services(self)->submit == NULL)
                return not_here(self, "tools to call", err);
        if (!is_kind(copy.kind))
                return refuse(self, "a request needs a kind, as in request.h", err);
        if (copy.name == NULL && needs_name(copy.kind))
                return refuse(self, "a request needs the name of what it asks for", err);
        if (copy.arguments.data == NULL && copy.arguments.size > 0)
                return refuse(self, "a request says that it has arguments, but gives none", err);
        if (done->done == NULL || ret_task == NULL)
                return refuse(self, "a request needs a done() and a place for the task", err);
        if (copy.principal == NULL)
                copy.principal = "";
        return services(self)->submit(services(self)->data, &copy, client, done, ret_task, err);
}

int sbx_host_request_submit(struct sbx_host_state *self, const struct sbx_request *request,
                            const struct sbx_client *client, const struct sbx_request_done *done,
                            struct sbx_tool_task **ret_task, struct sbx_error *err) {
        struct sbx_client own_client;
        struct sbx_request own;
        int r;

        if (request == NULL || done == NULL)
                return refuse(self, "request_submit() needs a request and a done()", err);
        r = sbx_struct_size_check(request, SIZE_THROUGH(sbx_request, principal), "struct sbx_request", err);
        if (r == 0 && client != NULL)
                r = sbx_struct_size_check(client, SIZE_THROUGH(sbx_client, close_stream), "struct sbx_client", err);
        if (r < 0)
                return r;
        sbx_struct_copy(&own, sizeof(own), request);
        if (client != NULL)
                sbx_struct_copy(&own_client, sizeof(own_client), client);
        return submit(self, &own, client != NULL ? &own_client : NULL, done, ret_task, err);
}

/* The older way to call a tool: a request whose client hears of progress, and can't be asked. */
int sbx_host_tool_submit(struct sbx_host_state *self, const char *name, struct sbx_bytes arguments,
                         const char *principal, const struct sbx_tool_events *events, struct sbx_tool_task **ret_task,
                         struct sbx_error *err) {
        struct sbx_request request = {.struct_size = sizeof(request),
                                      .kind = SBX_REQUEST_TOOL,
                                      .name = name,
                                      .arguments = arguments,
                                      .principal = principal};
        struct sbx_client client = {.struct_size = sizeof(client)};
        struct sbx_request_done done = {0};
        struct sbx_tool_events copy;
        int r;

        if (events == NULL)
                return refuse(self, "tool_submit() needs events", err);
        r = sbx_struct_size_check(events, SIZE_THROUGH(sbx_tool_events, done), "struct sbx_tool_events", err);
        if (r < 0)
                return r;
        sbx_struct_copy(&copy, sizeof(copy), events);
        client.data = done.data = copy.data;
        client.progress = copy.progress;
        done.done = copy.done;
        return submit(self, &request, &client, &done, ret_task, err);
}

void sbx_host_tool_cancel(struct sbx_host_state *self, struct sbx_tool_task *task) {
        if (services(self)->cancel != NULL && task != NULL)
                services(self)->cancel(services(self)->data, task);
}

void sbx_host_tool_release(struct sbx_host_state *self, struct sbx_tool_task *task) {
        if (services(self)->release != NULL && task != NULL)
                services(self)->release(services(self)->data, task);
}

/* ---- lists ----------------------------------------------------------------------------------------------- */

int sbx_host_tool_list(struct sbx_host_state *self, struct sbx_output *ret_json, struct sbx_error *err) {
        if (services(self)->list == NULL)
                return not_here(self, "tools to call", err);
        return services(self)->list(services(self)->data, ret_json, err);
}

int sbx_host_list(struct sbx_host_state *self, int list, struct sbx_output *ret_json, struct sbx_error *err) {
        const struct sbx_runtime_services *runtime = &services(self)->runtime;

        if (list == SBX_LIST_TOOLS)
                return sbx_host_tool_list(self, ret_json, err);
        if (list != SBX_LIST_PROMPTS && list != SBX_LIST_TEMPLATES)
                return refuse(self, "list() needs a list, as in request.h", err);
        if (runtime->list == NULL)
                return not_here(self, "lists to ask for", err);
        return runtime->list(runtime->data, list, ret_json, err);
}

/* ---- news ------------------------------------------------------------------------------------------------ */

static bool makes_sense(const struct sbx_change *change) {
        if (change->kind == SBX_CHANGE_RESOURCE)
                return change->uri != NULL;
        return change->kind >= SBX_CHANGE_TOOLS && change->kind <= SBX_CHANGE_RESOURCES;
}

void sbx_host_changed(struct sbx_host_state *self, const struct sbx_change *change) {
        const struct sbx_runtime_services *runtime = &services(self)->runtime;
        struct sbx_error problem = {0};
        struct sbx_change copy;

        if (runtime->changed == NULL)
                return; /* nobody is there who could hear of it */
        if (change == NULL ||
            sbx_struct_size_check(change, SIZE_THROUGH(sbx_change, principal), "struct sbx_change", &problem) < 0) {
                sbx_log(self->setup.logger, SBX_LOG_ERROR, "%s: news that can't be read: %s", self->setup.instance_name,
                        change != NULL ? problem.message : "none are given");
                return;
        }
        sbx_struct_copy(&copy, sizeof(copy), change);
        if (makes_sense(&copy))
                runtime->changed(runtime->data, self->setup.instance_name, &copy);
        else
                sbx_log(self->setup.logger, SBX_LOG_ERROR, "%s: news of the unknown kind %u, or without their URI",
                        self->setup.instance_name, copy.kind);
}

int sbx_host_watch(struct sbx_host_state *self, void (*changed)(void *data, const struct sbx_change *change),
                   void *data, struct sbx_watch **ret_watch, struct sbx_error *err) {
        const struct sbx_runtime_services *runtime = &services(self)->runtime;

        if (runtime->watch == NULL)
                return not_here(self, "news to watch", err);
        if (changed == NULL || ret_watch == NULL)
                return refuse(self, "watch() needs a function and a place for the watch", err);
        return runtime->watch(runtime->data, changed, data, ret_watch, err);
}

void sbx_host_unwatch(struct sbx_host_state *self, struct sbx_watch *watch) {
        const struct sbx_runtime_services *runtime = &services(self)->runtime;

        if (runtime->unwatch != NULL && watch != NULL)
                runtime->unwatch(runtime->data, watch);
}

/* ---- figures --------------------------------------------------------------------------------------------- */

int sbx_host_metrics(struct sbx_host_state *self, struct sbx_output *ret_text, struct sbx_error *err) {
        const struct sbx_runtime_services *runtime = &services(self)->runtime;

        return runtime->metrics != NULL ? runtime->metrics(runtime->data, ret_text, err)
                                        : not_here(self, "figures", err);
}

int sbx_host_ready(struct sbx_host_state *self, struct sbx_error *err) {
        const struct sbx_runtime_services *runtime = &services(self)->runtime;

        return runtime->ready != NULL ? runtime->ready(runtime->data, err) : not_here(self, "guests to be ready", err);
}

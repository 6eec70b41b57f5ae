/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of a runtime offer to each other and to plugins: requests that are no tool calls, lists, news,
 * figures.
 */
#include "runtime/runtime.h"

#include "base/cleanup.h"
#include "base/error.h"

#define ORIGIN "runtime"
#define TEXT_MAX_BYTES ((size_t)64 << 20)

/* ---- the gate: plugins may ask until they are closed, and some parts end before them ---- */

static struct sbx_runtime *enter(struct sbx_runtime *runtime, struct sbx_error *err) {
        pthread_rwlock_rdlock(&runtime->gate.lock);
        if (!runtime->gate.closed)
                return runtime;
        pthread_rwlock_unlock(&runtime->gate.lock);
        sbx_error_set(err, -ESHUTDOWN, ORIGIN, NULL, "the runtime is shutting down");
        return NULL;
}

static void leave(struct sbx_runtime **runtime) {
        if (*runtime != NULL)
                pthread_rwlock_unlock(&(*runtime)->gate.lock);
}
#define _cleanup_leave_ __attribute__((cleanup(leave)))

void sbx_runtime_close_services(struct sbx_runtime *runtime) {
        pthread_rwlock_wrlock(&runtime->gate.lock);
        runtime->gate.closed = true;
        pthread_rwlock_unlock(&runtime->gate.lock);
}

/* ---- for plugins ---- */

static int hand_out(const struct sbx_buffer *text, const char *what, struct sbx_output *ret, struct sbx_error *err) {
        int r = sbx_output_append(ret, text->data, text->size);

        return r < 0 ? sbx_error_set(err, r, ORIGIN, NULL, "%s: %s", what, SBX_ERRNO_TEXT(r)) : 0;
}

static int service_list(void *data, int list, struct sbx_output *ret_json, struct sbx_error *err) {
        _cleanup_leave_ struct sbx_runtime *runtime = enter(data, err);
        _cleanup_buffer_ struct sbx_buffer json = SBX_BUFFER(TEXT_MAX_BYTES);
        int r;

        if (runtime == NULL)
                return -ESHUTDOWN;
        r = sbx_catalog_list(runtime->catalog, list, &json, err);
        return r < 0 ? r : hand_out(&json, "the list", ret_json, err);
}

/* The registry of tools first: who hears of the change and asks for the list gets the new one. */
static void service_changed(void *data, const char *instance, const struct sbx_change *change) {
        struct sbx_runtime *runtime = data;

        if (change->kind == SBX_CHANGE_TOOLS)
                sbx_tools_source_changed(runtime->tools, instance);
        sbx_catalog_changed(runtime->catalog, change);
}

static int service_watch(void *data, void (*changed)(void *watcher, const struct sbx_change *change), void *watcher,
                         struct sbx_watch **ret_watch, struct sbx_error *err) {
        return sbx_catalog_watch(((struct sbx_runtime *)data)->catalog, changed, watcher, ret_watch, err);
}

static void service_unwatch(void *data, struct sbx_watch *watch) {
        sbx_catalog_unwatch(watch);
}

static int service_metrics(void *data, struct sbx_output *ret_text, struct sbx_error *err) {
        _cleanup_leave_ struct sbx_runtime *runtime = enter(data, err);
        _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(TEXT_MAX_BYTES);
        int r;

        if (runtime == NULL)
                return -ESHUTDOWN;
        r = sbx_runtime_metrics(runtime, &text, err);
        return r < 0 ? r : hand_out(&text, "the figures", ret_text, err);
}

static int service_ready(void *data, struct sbx_error *err) {
        _cleanup_leave_ struct sbx_runtime *runtime = enter(data, err);

        return runtime != NULL ? sbx_sessions_ready(runtime->sessions, err) : -ESHUTDOWN;
}

void sbx_runtime_fill_services(struct sbx_runtime *runtime) {
        sbx_tools_services(runtime->tools, &runtime->services);
        runtime->services.runtime = (struct sbx_runtime_services){
                .data = runtime,
                .list = service_list,
                .changed = service_changed,
                .watch = service_watch,
                .unwatch = service_unwatch,
                .metrics = service_metrics,
                .ready = service_ready,
        };
}

/* ---- between the parts ---- */

static int answer_request(void *data, const struct sbx_request *request, const struct sbx_client *client,
                          const struct sbx_call *call, struct sbx_buffer *out_json, struct sbx_error *err) {
        return sbx_catalog_request(data, request, client, call, out_json, err);
}

static void session_changed(void *data, const char *principal, const char *uri_prefix, bool list_changed) {
        struct sbx_change change = {
                .struct_size = sizeof(change), .kind = SBX_CHANGE_RESOURCE, .uri = uri_prefix, .principal = principal};

        sbx_catalog_changed(data, &change);
        if (!list_changed)
                return;
        change.kind = SBX_CHANGE_RESOURCES;
        change.uri = NULL;
        sbx_catalog_changed(data, &change);
}

int sbx_runtime_open_catalog(struct sbx_runtime *runtime, struct sbx_error *err) {
        const struct sbx_tool_requests requests = {.data = runtime->catalog, .answer = answer_request};
        const struct sbx_session_observer observer = {.data = runtime->catalog, .changed = session_changed};

        int r = sbx_catalog_add_sessions(runtime->catalog, runtime->sessions, err);

        if (r == 0)
                r = sbx_catalog_add_prompts(runtime->catalog, runtime->sessions, err);
        if (r < 0)
                return r;
        sbx_tools_set_requests(runtime->tools, &requests);
        sbx_sessions_observe(runtime->sessions, &observer);
        return 0;
}

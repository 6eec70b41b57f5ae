/* SPDX-License-Identifier: Apache-2.0 */
/* The tool services of struct sbx_host: what transports and agents call. */
#include "tools/task.h"

#include <sys/eventfd.h>

#include "base/cleanup.h"
#include "base/error.h"

#define ORIGIN SBX_TOOLS_ORIGIN
#define LIST_MAX_BYTES ((size_t)1 << 20)
#define LANE_MAX_BYTES 4096u

static int list_tools(void *data, struct sbx_output *ret_json, struct sbx_error *err) {
        _cleanup_buffer_ struct sbx_buffer json = SBX_BUFFER(LIST_MAX_BYTES);
        int r = sbx_tools_list(data, &json, err);

        if (r < 0)
                return r;
        r = sbx_output_append(ret_json, json.data, json.size);
        return r < 0 ? sbx_error_set(err, r, ORIGIN, NULL, "the list of tools: %s", SBX_ERRNO_TEXT(r)) : 0;
}

/* ---- submitting ---- */

static const char *lane_value(const struct sbx_tool_entry *entry, const json_t *arguments) {
        const json_t *value = json_object_get(arguments, entry->tool.lane), *property;

        if (json_is_string(value) && json_string_length(value) > 0)
                return json_string_value(value);
        property = json_object_get(json_object_get(entry->schema, "properties"), entry->tool.lane);
        value = json_object_get(property, "default");
        return json_is_string(value) ? json_string_value(value) : "";
}

int sbx_tool_task_set_lane(struct sbx_tool_task *task, const char *argument, const char *value) {
        _cleanup_buffer_ struct sbx_buffer lane = SBX_BUFFER(LANE_MAX_BYTES);

        /* A value too long for a lane is too long for the tool as well, which will say so. */
        if (sbx_buffer_printf(&lane, "%s=%s\n%s", argument, value, task->principal) == -EFBIG)
                return 0;
        task->lane_hash = 0;
        for (size_t i = 0; i < lane.size; i++)
                task->lane_hash = task->lane_hash * 31 + (unsigned char)lane.data[i];
        task->lane = sbx_buffer_steal(&lane);
        return task->lane != NULL ? 0 : -ENOMEM;
}

static int set_lane(struct sbx_tool_task *task) {
        const char *argument = task->entry->tool.lane;

        if (argument == NULL)
                return 0;
        return sbx_tool_task_set_lane(task, argument, lane_value(task->entry, task->arguments));
}

static void report_progress(void *data, double progress, double total, const char *message) {
        const struct sbx_tool_task *task = data;

        task->client.progress(task->client.data, progress, total, message);
}

/* Somebody that could do more than look on. */
static bool is_somebody(const struct sbx_client *client) {
        return client->ask != NULL || client->log != NULL || client->become_task != NULL ||
               client->close_stream != NULL;
}

/* Before it is queued: who asked for progress hears of a call that waits, too. */
static void begin_beat(struct sbx_tool_task *task) {
        bool heartbeat = task->entry == NULL || (task->entry->tool.flags & SBX_TOOL_HEARTBEAT) != 0;

        task->call = (struct sbx_call){.struct_size = sizeof(task->call), .cancel_fd = task->cancel_fd};
        task->told = (struct sbx_tool_context){.principal = task->principal,
                                               .call = &task->call,
                                               .progress = task->client.progress != NULL ? report_progress : NULL,
                                               .progress_data = task,
                                               .client = is_somebody(&task->client) ? &task->client : NULL};
        if (task->refused == 0)
                sbx_beat_begin(&task->tools->beats, &task->beat, &task->told, heartbeat, &task->context);
}

static int prepare_call(struct sbx_tool_task *task, const struct sbx_request *request, struct sbx_error *err) {
        task->refused = sbx_tools_resolve(task->tools, request->name, SBX_CALLER_CLIENT, &task->entry, &task->problem);
        if (task->refused == 0)
                task->refused = sbx_tools_parse(request->arguments, &task->arguments, &task->problem);
        return task->refused == 0 && set_lane(task) < 0 ? SBX_NOMEM(err, ORIGIN) : 0;
}

static int fill_task(struct sbx_tool_task *task, const struct sbx_request *request, const struct sbx_client *client,
                     const struct sbx_request_done *done, struct sbx_error *err) {
        task->kind = request->kind;
        task->done = *done;
        if (client != NULL)
                task->client = *client;
        task->principal = strdup(request->principal);
        task->name = request->name != NULL ? strdup(request->name) : NULL;
        if (task->principal == NULL || (request->name != NULL && task->name == NULL))
                return SBX_NOMEM(err, ORIGIN);
        task->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (task->cancel_fd < 0)
                return sbx_error_set(err, -errno, ORIGIN, "Raise the limit of open files (ulimit -n).",
                                     "can't make a call cancellable: %s", SBX_ERRNO_TEXT(errno));
        return request->kind == SBX_REQUEST_TOOL ? prepare_call(task, request, err)
                                                 : sbx_tool_task_prepare_request(task, request->arguments, err);
}

static void release_task(void *data, struct sbx_tool_task *task) {
        if (task != NULL)
                sbx_tool_task_unref(task);
}

static int submit_task(void *data, const struct sbx_request *request, const struct sbx_client *client,
                       const struct sbx_request_done *done, struct sbx_tool_task **ret_task, struct sbx_error *err) {
        struct sbx_tool_task *task = calloc(1, sizeof(*task));
        int r;

        if (task == NULL)
                return SBX_NOMEM(err, ORIGIN);
        task->tools = data;
        task->cancel_fd = -1;
        task->references = 1;
        r = fill_task(task, request, client, done, err);
        if (r == 0) {
                struct sbx_tool_task *before = *ret_task;

                /* Both are set first: `done` may be called, and may look at them, before this returns. */
                task->references = 2;
                *ret_task = task;
                begin_beat(task);
                r = sbx_tool_task_queue(task, err);
                if (r < 0) {
                        sbx_beat_end(&task->beat);
                        *ret_task = before;
                        task->references = 1;
                }
        }
        if (r < 0)
                sbx_tool_task_unref(task);
        return r;
}

static void cancel_task(void *data, struct sbx_tool_task *task) {
        sbx_tool_task_cancel(task);
}

void sbx_tools_services(struct sbx_tools *tools, struct sbx_tool_services *ret_services) {
        *ret_services = (struct sbx_tool_services){
                .data = tools,
                .list = list_tools,
                .submit = submit_task,
                .cancel = cancel_task,
                .release = release_task,
        };
}

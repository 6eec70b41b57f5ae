/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that are no tool calls, answered on the threads of the tools. */
#include "tools/task.h"

#include "base/error.h"
#include "session/uri.h"

#define ORIGIN SBX_TOOLS_ORIGIN

void sbx_tools_set_requests(struct sbx_tools *tools, const struct sbx_tool_requests *requests) {
        tools->requests = *requests;
}

/* Who reads a file of a session waits for its turn: in the queue, where that takes no thread, as for the tools of that
 * session. */
static int set_lane(struct sbx_tool_task *task) {
        struct sbx_session_address address;

        if (task->kind != SBX_REQUEST_READ || sbx_session_uri_parse(task->name, &address, NULL) < 0 ||
            address.area != SBX_AREA_FILES)
                return 0;
        return sbx_tool_task_set_lane(task, "session_id", address.id);
}

int sbx_tool_task_prepare_request(struct sbx_tool_task *task, struct sbx_bytes arguments, struct sbx_error *err) {
        if (arguments.size > SBX_TOOL_REQUEST_MAX) {
                task->refused = sbx_error_set(&task->problem, -EINVAL, ORIGIN, NULL,
                                              "arguments: %zu bytes; at most %zu are taken", arguments.size,
                                              SBX_TOOL_REQUEST_MAX);
                return 0;
        }
        if (task->tools->requests.answer == NULL) {
                task->refused = sbx_error_set(&task->problem, -ENOENT, ORIGIN, NULL, "there is nothing but tools here");
                return 0;
        }
        task->request_arguments = malloc(arguments.size + 1);
        if (task->request_arguments == NULL)
                return SBX_NOMEM(err, ORIGIN);
        if (arguments.size > 0)
                memcpy(task->request_arguments, arguments.data, arguments.size);
        task->request_arguments_size = arguments.size;
        return set_lane(task) < 0 ? SBX_NOMEM(err, ORIGIN) : 0;
}

int sbx_tool_task_answer(struct sbx_tool_task *task, struct sbx_buffer *out_json, struct sbx_error *err) {
        const struct sbx_tool_requests *requests = &task->tools->requests;
        const struct sbx_request request = {
                .struct_size = sizeof(request),
                .kind = task->kind,
                .name = task->name,
                .arguments = {task->request_arguments, task->request_arguments_size},
                .principal = task->principal,
        };
        struct sbx_tool_client client;
        int r;

        sbx_tool_client_init(&client, task->tools->logger, &task->context, false);
        r = requests->answer(requests->data, &request, &client.client, &task->call, out_json, err);
        return r < 0 ? sbx_error_set(err, r, ORIGIN, NULL, "the request failed: %s", SBX_ERRNO_TEXT(r)) : 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Tools that take long, and become tasks where the client knows these (SEP-2663). */
#include "fixtures.h"

/* A client that does not know tasks waits for the result. */
static void become_task(const struct fixture_call *call) {
        if ((call->client->capabilities & SBX_CLIENT_TASKS) != 0 && call->client->become_task != NULL)
                call->client->become_task(call->client->data);
}

static int slow_compute(const struct fixture_call *call, json_t **ret_result) {
        double seconds = json_number_value(json_object_get(call->arguments, "seconds"));
        int r;

        become_task(call);
        r = fixture_wait(call, (unsigned)(seconds * 1000));
        return r < 0 ? r
                     : fixture_text(call, ret_result, "%s: done after %g s", fixture_argument(call, "label", "compute"),
                                    seconds);
}

static int failing_job(const struct fixture_call *call, json_t **ret_result) {
        int r;

        become_task(call);
        r = fixture_wait(call, 1000);
        return r < 0 ? r : fixture_failure(call, ret_result, "The job failed, as it always does.");
}

static int protocol_error_job(const struct fixture_call *call, json_t **ret_result) {
        int r;

        become_task(call);
        r = fixture_wait(call, 200);
        return r < 0 ? r
                     : sbx_error_set(call->err, -EPROTO, FIXTURES_ORIGIN, NULL,
                                     "the job broke down: this is an error of the protocol");
}

/* clang-format off */
static const char confirm_form[] = FIXTURE_JSON({
        "type": "object", "properties": {"confirm": {"type": "boolean"}}, "required": ["confirm"]});
static const char name_form[] = FIXTURE_JSON({
        "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
/* clang-format on */

static int confirm_delete(const struct fixture_call *call, json_t **ret_result) {
        const char *filename = fixture_argument(call, "filename", "file.txt");
        json_t *responses = NULL;
        const json_t *confirm;
        int r;

        become_task(call);
        r = fixture_ask(call, json_pack("{s:o}", "confirm", fixture_elicitation("Delete the file?", confirm_form)),
                        &responses);
        if (r < 0)
                return r;
        confirm = json_object_get(json_object_get(json_object_get(responses, "confirm"), "content"), "confirm");
        r = fixture_text(call, ret_result, json_is_true(confirm) ? "Deleted %s." : "Kept %s.", filename);
        json_decref(responses);
        return r;
}

static int multi_input(const struct fixture_call *call, json_t **ret_result) {
        json_t *responses = NULL;
        const char *name;
        int r;

        become_task(call);
        r = fixture_ask(call,
                        json_pack("{s:o, s:o}", "name", fixture_elicitation("What is your name?", name_form), "confirm",
                                  fixture_elicitation("Shall it be done?", confirm_form)),
                        &responses);
        if (r < 0)
                return r;
        name = fixture_form_text(responses, "name", "name");
        r = fixture_text(call, ret_result, "Both questions were answered, by %s.", name != NULL ? name : "nobody");
        json_decref(responses);
        return r;
}

/* Asks first, while the client waits, and becomes a task then. */
static int ask_then_task(const struct fixture_call *call, json_t **ret_result) {
        json_t *responses = NULL;
        const char *name;
        int r = fixture_ask(call, json_pack("{s:o}", "user_name", fixture_elicitation("What is your name?", name_form)),
                            &responses);

        if (r < 0)
                return r;
        become_task(call);
        name = fixture_form_text(responses, "user_name", "name");
        r = fixture_wait(call, 200);
        if (r == 0)
                r = fixture_text(call, ret_result, "The task is done, %s.", name != NULL ? name : "nobody");
        json_decref(responses);
        return r;
}

/* clang-format off */
static const struct fixture tools[] = {
        {"confirm_delete", FIXTURE_JSON({
                "description": "Pretends to delete a file, after asking the user.",
                "execution": {"taskSupport": "optional"},
                "inputSchema": {"type": "object", "properties": {"filename": {"type": "string"}},
                                "required": ["filename"], "additionalProperties": false}}), confirm_delete},
        {"failing_job", FIXTURE_JSON({
                "description": "Fails after a second.", "execution": {"taskSupport": "required"}}), failing_job},
        {"multi_input", FIXTURE_JSON({
                "description": "Asks the user two questions at once.", "execution": {"taskSupport": "optional"}}),
         multi_input},
        {"protocol_error_job", FIXTURE_JSON({
                "description": "Ends with an error of the protocol.", "execution": {"taskSupport": "optional"}}),
         protocol_error_job},
        {"slow_compute", FIXTURE_JSON({
                "description": "Sleeps, then answers.",
                "execution": {"taskSupport": "optional"},
                "inputSchema": {"type": "object", "properties": {
                        "seconds": {"type": "number", "minimum": 0, "maximum": 300}, "label": {"type": "string"}},
                        "required": ["seconds"], "additionalProperties": false}}), slow_compute},
        {"test_tool_with_task", FIXTURE_JSON({
                "description": "Asks the user for a name, then becomes a task.",
                "execution": {"taskSupport": "required"}}), ask_then_task},
};
/* clang-format on */

const struct fixture_table fixture_tools_tasks = {tools, FIXTURE_COUNT(tools)};

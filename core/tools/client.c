/* SPDX-License-Identifier: Apache-2.0 */
/* The client that a tool sees: a way to whoever asked, on which everything is checked before it goes out. */
#include "tools/state.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"

#define ORIGIN SBX_TOOLS_ORIGIN
#define ASK_MAX_BYTES ((size_t)1 << 20)
#define ASK_MAX 16u
#define ASK_KEY_MAX 128u
#define METHOD_MAX 128u
#define LOG_MAX_BYTES ((size_t)64 << 10)

/* Who could be asked: the rest is told, and needs no answer. */
#define ASKED                                                                                                          \
        (SBX_CLIENT_SAMPLING | SBX_CLIENT_SAMPLING_TOOLS | SBX_CLIENT_ELICITATION | SBX_CLIENT_ELICITATION_URL |       \
         SBX_CLIENT_ROOTS)

/* ---- telling ---- */

static void tell_progress(void *data, double progress, double total, const char *message) {
        const struct sbx_tool_context *context = ((struct sbx_tool_client *)data)->context;

        if (context->progress != NULL)
                context->progress(context->progress_data, progress, total, message);
}

/* RFC 5424, section 6.2.1, as the protocol spells them. */
static bool is_level(const char *level) {
        static const char *const levels[] = {"debug", "info",     "notice", "warning",
                                             "error", "critical", "alert",  "emergency"};

        for (size_t i = 0; level != NULL && i < sizeof(levels) / sizeof(levels[0]); i++)
                if (strcmp(levels[i], level) == 0)
                        return true;
        return false;
}

static void tell_log(void *data, const char *level, const char *logger, struct sbx_bytes value) {
        const struct sbx_tool_client *client = data;
        _cleanup_json_ json_t *parsed = NULL;
        struct sbx_error problem = {0};

        if (client->own == NULL || client->own->log == NULL)
                return;
        if (!is_level(level))
                sbx_log(client->logger, SBX_LOG_WARNING,
                        "a line for the log of a client is dropped: '%.32s' is no level", level != NULL ? level : "");
        else if (sbx_json_parse_any(value, LOG_MAX_BYTES, "value", &parsed, &problem) < 0)
                sbx_log(client->logger, SBX_LOG_WARNING, "a line for the log of a client is dropped: %s",
                        problem.message);
        else
                client->own->log(client->own->data, level, logger, value);
}

static void close_stream(void *data, uint32_t retry_ms) {
        const struct sbx_tool_client *client = data;

        if (client->own != NULL && client->own->close_stream != NULL)
                client->own->close_stream(client->own->data, retry_ms);
}

static int become_task(void *data) {
        struct sbx_tool_client *client = data;

        if (!client->may_become_task || client->own == NULL || client->own->become_task == NULL)
                return 0;
        if (client->is_task < 0)
                client->is_task = client->own->become_task(client->own->data) == 1;
        return client->is_task;
}

/* ---- asking ---- */

static int check_request(const char *key, const json_t *request, struct sbx_error *err) {
        const json_t *method = json_object_get(request, "method");

        if (key[0] == '\0' || strlen(key) > ASK_KEY_MAX)
                return sbx_error_set(err, -EINVAL, ORIGIN, NULL,
                                     "a request to the client must have a key of 1 to %u bytes", ASK_KEY_MAX);
        if (json_string_length(method) == 0 || json_string_length(method) > METHOD_MAX ||
            !json_is_object(json_object_get(request, "params")))
                return sbx_error_set(err, -EINVAL, ORIGIN, NULL,
                                     "the request '%s' to the client must be {\"method\", \"params\"}", key);
        return 0;
}

static int check_requests(struct sbx_bytes requests, struct sbx_error *err) {
        _cleanup_json_ json_t *parsed = NULL;
        json_t *request;
        const char *key;
        int r = sbx_json_parse(requests, ASK_MAX_BYTES, "requests", &parsed, err);

        if (r < 0)
                return r == -ENOMEM ? r : -EINVAL;
        if (!json_is_object(parsed) || json_object_size(parsed) == 0 || json_object_size(parsed) > ASK_MAX)
                return sbx_error_set(err, -EINVAL, ORIGIN, NULL,
                                     "a client is asked 1 to %u requests at once, an object of them", ASK_MAX);
        json_object_foreach (parsed, key, request) {
                r = check_request(key, request, err);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int ask(void *data, struct sbx_bytes requests, const struct sbx_call *call, struct sbx_output *ret_responses,
               struct sbx_error *err) {
        static const struct sbx_call no_limit = {.struct_size = sizeof(no_limit), .cancel_fd = -1};
        struct sbx_tool_client *client = data;
        int r = check_requests(requests, err);

        if (r < 0)
                return r;
        if (call == NULL)
                call = client->context->call != NULL ? client->context->call : &no_limit;
        if (client->own == NULL || client->own->ask == NULL)
                r = sbx_error_set(err, -ENOTSUP, ORIGIN, NULL, "the client can't be asked anything");
        else
                r = client->own->ask(client->own->data, requests, call, ret_responses, err);
        if (r == -ENOTSUP)
                __atomic_store_n(&client->refused, true, __ATOMIC_RELEASE);
        return r;
}

void sbx_tool_client_init(struct sbx_tool_client *client, const struct sbx_logger *logger,
                          const struct sbx_tool_context *context, bool may_become_task) {
        const struct sbx_client *own = context->client;

        *client = (struct sbx_tool_client){
                .own = own, .context = context, .logger = logger, .may_become_task = may_become_task, .is_task = -1};
        client->client = (struct sbx_client){.struct_size = sizeof(client->client),
                                             .capabilities = own != NULL ? own->capabilities : 0,
                                             .data = client,
                                             .progress = tell_progress,
                                             .log = tell_log,
                                             .ask = ask,
                                             .become_task = become_task,
                                             .close_stream = close_stream};
        if (own == NULL || own->ask == NULL)
                client->client.capabilities &= ~ASKED;
        if (own == NULL || own->become_task == NULL || !may_become_task)
                client->client.capabilities &= ~SBX_CLIENT_TASKS;
}

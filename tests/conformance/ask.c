/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to the client, and what it answered. */
#include <stdlib.h>

#include "fixtures.h"

#define RESPONSES_MAX_BYTES ((size_t)1 << 20)

/* The bytes of `output` as an object. */
static int parse_responses(const struct fixture_call *call, const struct sbx_output *output, json_t **ret_responses) {
        const struct sbx_host *host = call->fixtures->host;
        struct sbx_bytes bytes = host->output_bytes(host->self, output);
        json_error_t problem;
        json_t *responses = json_loadb(bytes.data, bytes.size, JSON_REJECT_DUPLICATES, &problem);

        if (!json_is_object(responses)) {
                json_decref(responses);
                return sbx_error_set(call->err, -EBADMSG, FIXTURES_ORIGIN, NULL,
                                     "%s: what the client answered is not a JSON object", call->name);
        }
        *ret_responses = responses;
        return 0;
}

static int ask_client(const struct fixture_call *call, struct sbx_bytes requests, json_t **ret_responses) {
        const struct sbx_host *host = call->fixtures->host;
        const struct sbx_client *client = call->client;
        struct sbx_output *output = NULL;
        int r;

        if (client->ask == NULL)
                return sbx_error_set(call->err, -ENOTSUP, FIXTURES_ORIGIN, NULL, "%s: there is no client to ask",
                                     call->name);
        r = host->output_new(host->self, RESPONSES_MAX_BYTES, &output);
        if (r < 0)
                return fixture_nomem(call->err);
        r = client->ask(client->data, requests, call->call, output, call->err);
        if (r == 0)
                r = parse_responses(call, output, ret_responses);
        host->output_free(host->self, output);
        return r;
}

int fixture_ask(const struct fixture_call *call, json_t *requests, json_t **ret_responses) {
        char *text = requests != NULL ? json_dumps(requests, JSON_COMPACT) : NULL;
        int r;

        json_decref(requests);
        if (text == NULL)
                return fixture_nomem(call->err);
        r = ask_client(call, (struct sbx_bytes){text, strlen(text)}, ret_responses);
        free(text);
        return r;
}

json_t *fixture_elicitation(const char *message, const char *schema) {
        return json_pack("{s:s, s:{s:s, s:o}}", "method", "elicitation/create", "params", "message", message,
                         "requestedSchema", json_loads(schema, 0, NULL));
}

json_t *fixture_sampling(const char *text, int max_tokens) {
        return json_pack("{s:s, s:{s:[{s:s, s:{s:s, s:s}}], s:i}}", "method", "sampling/createMessage", "params",
                         "messages", "role", "user", "content", "type", "text", "text", text, "maxTokens", max_tokens);
}

json_t *fixture_roots(void) {
        return json_pack("{s:s, s:{}}", "method", "roots/list", "params");
}

const char *fixture_form_text(const json_t *responses, const char *key, const char *field) {
        const json_t *response = json_object_get(responses, key);
        const char *action = json_string_value(json_object_get(response, "action"));

        if (action == NULL || strcmp(action, "accept") != 0)
                return NULL;
        return json_string_value(json_object_get(json_object_get(response, "content"), field));
}

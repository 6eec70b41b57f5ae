/* SPDX-License-Identifier: Apache-2.0 */
/* The three things that a client can be asked, and the check of its answers
 * (https://modelcontextprotocol.io/specification/2026-07-28/schema: CreateMessageResult, ElicitResult,
 * ListRootsResult, and the restricted JSON Schema of a form). */
#include "answers.h"

#include <snipara-sandbox/request.h>

#include "form.h"

bool mcp_answers_too_many(const json_t *responses) {
        return responses != NULL && json_object_size(responses) > 0 &&
               (json_object_size(responses) > MCP_ANSWERS_MAX ||
                json_dumpb(responses, NULL, 0, JSON_COMPACT) > MCP_ANSWERS_BYTES_MAX);
}

static bool is_string(const json_t *value, const char *text) {
        return json_is_string(value) && strcmp(json_string_value(value), text) == 0;
}

/* ---- sampling/createMessage ---------------------------------------------------------------------------- */

static uint32_t sampling_needs(const json_t *params) {
        if (json_object_get(params, "tools") != NULL || json_object_get(params, "toolChoice") != NULL)
                return SBX_CLIENT_SAMPLING | SBX_CLIENT_SAMPLING_TOOLS;
        return SBX_CLIENT_SAMPLING;
}

static bool is_block(const json_t *block) {
        return json_is_object(block) && json_is_string(json_object_get(block, "type"));
}

static bool sampling_fits(const json_t *params, const json_t *result) {
        const json_t *role = json_object_get(result, "role"), *content = json_object_get(result, "content");
        const json_t *block;
        size_t index;

        if (!json_is_string(json_object_get(result, "model")) ||
            !(is_string(role, "assistant") || is_string(role, "user")))
                return false;
        if (!json_is_array(content))
                return is_block(content);
        json_array_foreach (content, index, block) {
                if (!is_block(block))
                        return false;
        }
        return true;
}

/* ---- elicitation/create -------------------------------------------------------------------------------- */

static bool is_url_mode(const json_t *params) {
        return is_string(json_object_get(params, "mode"), "url");
}

static uint32_t elicitation_needs(const json_t *params) {
        return is_url_mode(params) ? SBX_CLIENT_ELICITATION_URL : SBX_CLIENT_ELICITATION;
}

static bool elicitation_fits(const json_t *params, const json_t *result) {
        const json_t *action = json_object_get(result, "action");

        if (is_string(action, "decline") || is_string(action, "cancel"))
                return true;
        return is_string(action, "accept") &&
               (is_url_mode(params) ||
                mcp_form_fits(json_object_get(params, "requestedSchema"), json_object_get(result, "content")));
}

/* ---- roots/list ---------------------------------------------------------------------------------------- */

static uint32_t roots_needs(const json_t *params) {
        return SBX_CLIENT_ROOTS;
}

static bool roots_fits(const json_t *params, const json_t *result) {
        const json_t *roots = json_object_get(result, "roots"), *root;
        size_t index;

        json_array_foreach (roots, index, root) {
                if (!json_is_string(json_object_get(root, "uri")))
                        return false;
        }
        return json_is_array(roots);
}

/* ---- the table ----------------------------------------------------------------------------------------- */

static const struct question {
        const char *method;
        uint32_t (*needs)(const json_t *params);
        bool (*fits)(const json_t *params, const json_t *result);
} questions[] = {
        {"sampling/createMessage", sampling_needs, sampling_fits},
        {"elicitation/create", elicitation_needs, elicitation_fits},
        {"roots/list", roots_needs, roots_fits},
};

static const struct question *find_question(const json_t *request) {
        for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++)
                if (is_string(json_object_get(request, "method"), questions[i].method))
                        return &questions[i];
        return NULL;
}

int mcp_question_needs(const json_t *request, uint32_t *ret_bits) {
        const json_t *params = json_object_get(request, "params");
        const struct question *question = find_question(request);

        if (!json_is_string(json_object_get(request, "method")) || (params != NULL && !json_is_object(params)))
                return -EINVAL;
        if (question == NULL)
                return -ENOTSUP;
        *ret_bits = question->needs(params);
        return 0;
}

bool mcp_answer_fits(const json_t *request, const json_t *response) {
        const struct question *question = find_question(request);

        return question != NULL && json_is_object(response) &&
               question->fits(json_object_get(request, "params"), response);
}

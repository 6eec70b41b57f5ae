/* SPDX-License-Identifier: Apache-2.0 */
/* Completion: a few values for arguments of the prompts and for the template's id. */
#include "fixtures.h"

static const struct {
        const char *of, *argument; /* name of a prompt, or the template */
        const char *values[4];
} known[] = {
        {"test_prompt_with_arguments", "arg1", {"paris", "park", "party"}},
        {"test_prompt_with_arguments", "arg2", {"london", "lisbon"}},
        {"test_prompt_with_embedded_resource", "resourceUri", {"test://static-text", FIXTURE_WATCHED_URI}},
        {"test://template/{id}/data", "id", {"1", "12", "123"}},
};

static int add_values(json_t *values, size_t index, const char *begin) {
        for (size_t i = 0; i < FIXTURE_COUNT(known[index].values) && known[index].values[i] != NULL; i++)
                if (strncmp(known[index].values[i], begin, strlen(begin)) == 0 &&
                    json_array_append_new(values, json_string(known[index].values[i])) < 0)
                        return -ENOMEM;
        return 0;
}

int fixture_complete(const struct fixture_call *call, json_t **ret_result) {
        const json_t *ref = json_object_get(call->arguments, "ref");
        const json_t *argument = json_object_get(call->arguments, "argument");
        const char *name = json_string_value(json_object_get(ref, "name"));
        const char *uri = json_string_value(json_object_get(ref, "uri"));
        const char *of = name != NULL ? name : uri;
        const char *which = json_string_value(json_object_get(argument, "name"));
        const char *begin = json_string_value(json_object_get(argument, "value"));
        json_t *values = json_array(), *result;
        int r = values == NULL ? -ENOMEM : 0;

        for (size_t i = 0; r == 0 && of != NULL && which != NULL && i < FIXTURE_COUNT(known); i++)
                if (strcmp(known[i].of, of) == 0 && strcmp(known[i].argument, which) == 0)
                        r = add_values(values, i, begin != NULL ? begin : "");
        if (r < 0) {
                json_decref(values);
                return fixture_nomem(call->err);
        }
        result = json_pack("{s:{s:i, s:b, s:o}}", "completion", "total", (int)json_array_size(values), "hasMore", 0,
                           "values", values);
        if (result == NULL)
                return fixture_nomem(call->err);
        *ret_result = result;
        return 0;
}

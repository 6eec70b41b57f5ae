/* SPDX-License-Identifier: Apache-2.0 */
/* Completions of the built-in parts. */
#include "catalog/complete.h"

#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "session/session.h"

#define ORIGIN "catalog"

void sbx_catalog_values_clear(struct sbx_catalog_values *completion) {
        json_decref(completion->values);
        *completion = (struct sbx_catalog_values){0};
}

int sbx_catalog_values_offer(struct sbx_catalog_values *completion, const char *value, const char *prefix) {
        if (strncmp(value, prefix, strlen(prefix)) != 0)
                return 0;
        if (completion->values == NULL)
                completion->values = json_array();
        if (completion->values == NULL)
                return -ENOMEM;
        if (++completion->total > SBX_COMPLETION_VALUES_MAX)
                return 0;
        return json_array_append_new(completion->values, json_string(value)) < 0 ? -ENOMEM : 0;
}

int sbx_catalog_values_result(const struct sbx_catalog_values *completion, json_t **ret_result, struct sbx_error *err) {
        json_t *values = completion->values != NULL ? json_incref(completion->values) : json_array();

        *ret_result =
                json_pack("{s:{s:o, s:I, s:b}}", "completion", "values", values, "total", (json_int_t)completion->total,
                          "hasMore", (int)(completion->total > SBX_COMPLETION_VALUES_MAX));
        return *ret_result != NULL ? 0 : SBX_NOMEM(err, ORIGIN);
}

int sbx_complete_sessions(struct sbx_sessions *sessions, const char *principal, const char *prefix,
                          struct sbx_catalog_values *completion, struct sbx_error *err) {
        _cleanup_json_ json_t *list = NULL;
        json_t *session;
        size_t index;
        int r = sbx_sessions_list(sessions, principal, &list, err);

        if (r < 0)
                return r;
        json_array_foreach (list, index, session)
                if (sbx_catalog_values_offer(completion, json_string_value(json_object_get(session, "id")), prefix) < 0)
                        return SBX_NOMEM(err, ORIGIN);
        return 0;
}

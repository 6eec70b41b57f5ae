/* SPDX-License-Identifier: Apache-2.0 */
/* What parts answered: checked, and cut to what the protocol allows, before a client gets it. */
#include "catalog/state.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "tools/shape.h"

#define ORIGIN SBX_CATALOG_ORIGIN
#define CONTENTS_MAX 1024u
#define MESSAGES_MAX 256u
#define VALUES_MAX 100u /* MCP: completion/complete */
#define VALUE_MAX 8192u

int sbx_answer_check_contents(const json_t *result, struct sbx_error *err) {
        const json_t *contents = json_object_get(result, "contents");
        json_t *item;
        size_t index;

        if (!json_is_array(contents) || json_array_size(contents) == 0 || json_array_size(contents) > CONTENTS_MAX)
                return sbx_error_set(err, -EBADMSG, ORIGIN, SBX_CATALOG_AUTHOR,
                                     "its contents must be an array of 1 to %u", CONTENTS_MAX);
        json_array_foreach ((json_t *)contents, index, item) {
                int r = sbx_shape_contents(item, "contents", err);

                if (r < 0)
                        return r;
        }
        return 0;
}

static int check_message(const json_t *message, struct sbx_error *err) {
        const char *role = json_string_value(json_object_get(message, "role"));

        if (role == NULL || (strcmp(role, "user") != 0 && strcmp(role, "assistant") != 0))
                return sbx_error_set(err, -EBADMSG, ORIGIN, SBX_CATALOG_AUTHOR,
                                     "a message of a prompt is of the user or the assistant");
        return sbx_shape_block(json_object_get(message, "content"), "message of a prompt", err);
}

int sbx_answer_check_prompt(const json_t *result, struct sbx_error *err) {
        const json_t *messages = json_object_get(result, "messages");
        json_t *message;
        size_t index;
        int r = sbx_shape_text(result, "prompt", "description", SBX_CATALOG_TEXT_MAX, true, err);

        if (r < 0)
                return r;
        if (!json_is_array(messages) || json_array_size(messages) > MESSAGES_MAX)
                return sbx_error_set(err, -EBADMSG, ORIGIN, SBX_CATALOG_AUTHOR,
                                     "its messages must be an array of at most %u", MESSAGES_MAX);
        json_array_foreach ((json_t *)messages, index, message) {
                r = check_message(message, err);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* ---- completions ---- */

int sbx_answer_no_completion(json_t **ret_result, struct sbx_error *err) {
        json_t *result = json_pack("{s:{s:[], s:i, s:b}}", "completion", "values", "total", 0, "hasMore", 0);

        if (result == NULL)
                return SBX_NOMEM(err, ORIGIN);
        *ret_result = result;
        return 0;
}

static int check_values(const json_t *values, struct sbx_error *err) {
        json_t *value;
        size_t index;

        json_array_foreach ((json_t *)values, index, value) {
                if (json_is_string(value) && json_string_length(value) <= VALUE_MAX)
                        continue;
                return sbx_error_set(err, -EBADMSG, ORIGIN, SBX_CATALOG_AUTHOR,
                                     "values[%zu] of a completion is no text of at most %u bytes", index, VALUE_MAX);
        }
        return 0;
}

/* `total` and `hasMore` must not contradict the values; who left them out gets them. */
static int fix_counts(json_t *completion, size_t count, bool cut, struct sbx_error *err) {
        const json_t *total = json_object_get(completion, "total"), *more = json_object_get(completion, "hasMore");
        bool has_more =
                cut || json_is_true(more) || (json_is_integer(total) && json_integer_value(total) > (json_int_t)count);

        if (total != NULL && (!json_is_integer(total) || json_integer_value(total) < (json_int_t)count))
                json_object_del(completion, "total");
        else if (total == NULL && !has_more &&
                 json_object_set_new(completion, "total", json_integer((json_int_t)count)) < 0)
                return SBX_NOMEM(err, ORIGIN);
        return json_object_set_new(completion, "hasMore", json_boolean(has_more)) < 0 ? SBX_NOMEM(err, ORIGIN) : 0;
}

int sbx_answer_fix_completion(json_t *result, struct sbx_error *err) {
        json_t *completion = json_object_get(result, "completion"), *values = json_object_get(completion, "values");
        bool cut = false;
        int r;

        if (!json_is_array(values))
                return sbx_error_set(err, -EBADMSG, ORIGIN, SBX_CATALOG_AUTHOR, "a completion without values");
        if (json_array_size(values) > VALUES_MAX) {
                size_t all = json_array_size(values);

                if (json_object_get(completion, "total") == NULL &&
                    json_object_set_new(completion, "total", json_integer((json_int_t)all)) < 0)
                        return SBX_NOMEM(err, ORIGIN);
                while (all > VALUES_MAX)
                        json_array_remove(values, --all);
                cut = true;
        }
        r = check_values(values, err);
        return r < 0 ? r : fix_counts(completion, json_array_size(values), cut, err);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments against a JSON Schema: one schema and one value, and how long that may take. */
#include "tools/schema.h"

#include "base/error.h"
#include "base/json.h"
#include "tools/state.h"

#define ORIGIN SBX_TOOLS_ORIGIN
#define DEPTH_MAX 128u /* schemas within schemas, $refs included; a document nests 64 deep at most */
/* A little more than the values that arguments may have: what is checked once each always gets through. */
#define STEPS_MAX (4 * (size_t)SBX_JSON_VALUES_MAX)

bool sbx_schema_is_schema(const json_t *value) {
        return json_is_object(value) || json_is_boolean(value);
}

int sbx_schema_give_up(const struct sbx_schema_place *at, int r) {
        if (r == -E2BIG)
                return sbx_error_set(at->err, r, ORIGIN, "Send fewer values at once.",
                                     "%s: checking it against the tool's schema takes too long", at->path);
        if (r == -ELOOP)
                return sbx_error_set(at->err, r, ORIGIN, "Tell the author of the tool.",
                                     "%s: the tool's schema has references that lead nowhere", at->path);
        return sbx_error_set(at->err, r, ORIGIN, NULL, "%s: can't be checked: %s", at->path, SBX_ERRNO_TEXT(r));
}

int sbx_schema_spend(const struct sbx_schema_place *at, size_t steps) {
        struct sbx_schema_run *run = at->run;

        if (steps > run->steps_left) {
                run->steps_left = 0;
                return sbx_schema_give_up(at, -E2BIG);
        }
        run->steps_left -= steps;
        return 0;
}

static int apply_ref(const json_t *schema, json_t *value, const struct sbx_schema_place *at, json_t **ret_replacement) {
        const char *ref = json_string_value(json_object_get(schema, "$ref"));
        const json_t *target = NULL;
        int r;

        if (ref == NULL)
                return 0;
        r = sbx_schema_resolve(ref, at, &target);
        return r < 0 ? r : sbx_schema_apply_one(target, value, at, ret_replacement);
}

static int apply_object(const json_t *schema, json_t *value, const struct sbx_schema_place *at,
                        json_t **ret_replacement) {
        const char *type = json_string_value(json_object_get(schema, "type"));
        int r = apply_ref(schema, value, at, ret_replacement);

        if (r == 0)
                r = sbx_schema_check_value(schema, value, at);
        if (r == 0 && json_is_object(value))
                r = sbx_schema_check_members(schema, value, at);
        if (r == 0 && json_is_array(value))
                r = sbx_schema_check_items(schema, value, at);
        /* After the members: nulls that stand for nothing are gone by now. */
        if (r == 0)
                r = sbx_schema_check_logic(schema, value, at, ret_replacement);
        if (r == 0 && !at->trial && *ret_replacement == NULL && type != NULL && strcmp(type, "integer") == 0 &&
            sbx_schema_is_integral(value)) {
                *ret_replacement = json_integer((json_int_t)json_real_value(value));
                return *ret_replacement != NULL ? 0 : SBX_NOMEM(at->err, ORIGIN);
        }
        return r;
}

int sbx_schema_apply_one(const json_t *schema, json_t *value, const struct sbx_schema_place *at,
                         json_t **ret_replacement) {
        struct sbx_schema_run *run = at->run;
        int r = sbx_schema_spend(at, 1);

        if (r < 0)
                return r;
        if (json_is_false(schema))
                return sbx_error_set(at->err, -EINVAL, ORIGIN, NULL, "%s: nothing is allowed here", at->path);
        if (!json_is_object(schema))
                return 0;
        if (run->depth == DEPTH_MAX)
                return sbx_error_set(at->err, -ELOOP, ORIGIN, "Tell the author of the tool.",
                                     "%s: the tool's schema goes deeper than %u levels here", at->path, DEPTH_MAX);
        run->depth++;
        r = apply_object(schema, value, at, ret_replacement);
        run->depth--;
        return r;
}

int sbx_schema_apply(const json_t *schema, json_t *arguments, struct sbx_error *err) {
        struct sbx_schema_run run = {.root = schema, .steps_left = STEPS_MAX};
        const struct sbx_schema_place at = {.run = &run, .path = "arguments", .err = err};
        json_t *replacement = NULL; /* arguments are an object: nothing takes its place */
        int r = sbx_schema_apply_one(schema, arguments, &at, &replacement);

        json_decref(replacement);
        return r < 0 ? r : sbx_schema_fill(schema, arguments, &at);
}

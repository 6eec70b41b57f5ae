/* SPDX-License-Identifier: Apache-2.0 */
/* JSON Schema: schemas that are put together from others. */
#include "tools/schema.h"

#include "base/error.h"

#define ORIGIN "tools"
#define REASONS_MAX 3u /* that are told when no alternative fits */
#define REASON_MAX 160

/* Whether a schema fits, and nothing else: 1, 0, or what ends the check. `err` may be NULL. */
static int try(const json_t *schema, json_t *value, const struct sbx_schema_place *at, struct sbx_error *err) {
        struct sbx_schema_place below = *at;
        json_t *unused = NULL;
        int r;

        below.trial = true;
        below.err = err;
        r = sbx_schema_apply_one(schema, value, &below, &unused);
        if (r == 0)
                return 1;
        return sbx_schema_misfit(r) ? 0 : sbx_schema_give_up(at, r);
}

static int check_all(const json_t *schema, json_t *value, const struct sbx_schema_place *at, json_t **ret_replacement) {
        const json_t *all = json_object_get(schema, "allOf"), *part;
        size_t index;

        json_array_foreach (all, index, part) {
                int r = sbx_schema_apply_one(part, value, at, ret_replacement);

                if (r < 0)
                        return r;
        }
        return 0;
}

/* The alternatives' own reasons, so that whoever called knows what would do. */
static int none_fits(const json_t *alternatives, json_t *value, const struct sbx_schema_place *at) {
        char reasons[REASONS_MAX * (REASON_MAX + 16)] = "";
        const json_t *part;
        size_t index, used = 0;

        json_array_foreach (alternatives, index, part) {
                struct sbx_error problem = {0};
                int r;

                if (index == REASONS_MAX || at->err == NULL)
                        break;
                r = try(part, value, at, &problem);
                if (r < 0)
                        return r;
                if (used < sizeof(reasons))
                        used += (size_t)snprintf(reasons + used, sizeof(reasons) - used, "%s(%zu) %.*s",
                                                 index > 0 ? "; " : "", index + 1, REASON_MAX, problem.message);
        }
        return sbx_error_set(at->err, -EINVAL, ORIGIN, NULL, "%s: none of %zu alternatives fits: %s", at->path,
                             json_array_size(alternatives), reasons);
}

/* How many fit; no more are tried than decide. */
static int count_fitting(const json_t *alternatives, json_t *value, size_t enough, const struct sbx_schema_place *at,
                         size_t *ret_count) {
        const json_t *part;
        size_t index;

        *ret_count = 0;
        json_array_foreach (alternatives, index, part) {
                int r = *ret_count < enough ? try(part, value, at, NULL) : 0;

                if (r < 0)
                        return r;
                *ret_count += (size_t)r;
        }
        return 0;
}

static int check_any(const json_t *schema, json_t *value, const struct sbx_schema_place *at) {
        const json_t *any = json_object_get(schema, "anyOf");
        size_t fitting = 0;
        int r;

        if (json_array_size(any) == 0)
                return 0;
        r = count_fitting(any, value, 1, at, &fitting);
        return r < 0 || fitting > 0 ? r : none_fits(any, value, at);
}

static int check_one(const json_t *schema, json_t *value, const struct sbx_schema_place *at) {
        const json_t *one = json_object_get(schema, "oneOf");
        size_t fitting = 0;
        int r;

        if (json_array_size(one) == 0)
                return 0;
        r = count_fitting(one, value, 2, at, &fitting);
        if (r < 0 || fitting == 1)
                return r;
        if (fitting == 0)
                return none_fits(one, value, at);
        return sbx_error_set(at->err, -EINVAL, ORIGIN, NULL,
                             "%s: fits more than one of %zu alternatives, of which "
                             "exactly one must fit",
                             at->path, json_array_size(one));
}

static int check_not(const json_t *schema, json_t *value, const struct sbx_schema_place *at) {
        const json_t *refused = json_object_get(schema, "not");
        int r = sbx_schema_is_schema(refused) ? try(refused, value, at, NULL) : 0;

        if (r <= 0)
                return r;
        return sbx_error_set(at->err, -EINVAL, ORIGIN, NULL, "%s: is of a kind that is not allowed here", at->path);
}

static int check_condition(const json_t *schema, json_t *value, const struct sbx_schema_place *at,
                           json_t **ret_replacement) {
        const json_t *condition = json_object_get(schema, "if"), *then;
        int r;

        if (!sbx_schema_is_schema(condition))
                return 0;
        r = try(condition, value, at, NULL);
        if (r < 0)
                return r;
        then = json_object_get(schema, r == 1 ? "then" : "else");
        return sbx_schema_is_schema(then) ? sbx_schema_apply_one(then, value, at, ret_replacement) : 0;
}

int sbx_schema_check_logic(const json_t *schema, json_t *value, const struct sbx_schema_place *at,
                           json_t **ret_replacement) {
        int r = check_all(schema, value, at, ret_replacement);

        if (r == 0)
                r = check_any(schema, value, at);
        if (r == 0)
                r = check_one(schema, value, at);
        if (r == 0)
                r = check_not(schema, value, at);
        return r < 0 ? r : check_condition(schema, value, at, ret_replacement);
}

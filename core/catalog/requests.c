/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to the catalog: who answers them, and what of it goes out. */
#include "catalog/state.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "base/nearest.h"
#include "tools/shape.h"

#define ORIGIN SBX_CATALOG_ORIGIN
#define ARGUMENTS_MAX_BYTES ((size_t)1 << 20)

/* One request on its way through the parts. */
struct asking {
        struct sbx_catalog *catalog;
        const struct sbx_request *request;
        json_t *arguments;
        const struct sbx_client *client;
        const struct sbx_call *call;
};

/* -ENOENT also when the part answers nothing at all. */
static int ask_part(const struct asking *asking, const struct sbx_catalog_entry *entry, json_t **ret_result,
                    struct sbx_error *err) {
        const struct sbx_catalog_part *part = &entry->part;
        _cleanup_json_ json_t *result = NULL;
        int r;

        if (part->request == NULL)
                return -ENOENT;
        r = part->request(part->data, asking->request, asking->arguments, asking->client, asking->call, &result, err);
        if (r < 0)
                return r;
        if (!json_is_object(result))
                return sbx_error_set(err, -EBADMSG, ORIGIN, SBX_CATALOG_AUTHOR, "%s: its answer is no JSON object",
                                     part->name);
        *ret_result = steal_pointer(result);
        return 0;
}

/* The first that does not say -ENOENT answers; when all do, the first one's words stay. */
static int ask_all(const struct asking *asking, const struct sbx_catalog_entry **ret_entry, json_t **ret_result,
                   struct sbx_error *err) {
        const struct sbx_catalog_entry *entries[SBX_CATALOG_PARTS_MAX];
        size_t count = sbx_catalog_entries(asking->catalog, entries);
        struct sbx_error first = {0};

        for (size_t i = 0; i < count; i++) {
                struct sbx_error problem = {0};
                int r = ask_part(asking, entries[i], ret_result, &problem);

                *ret_entry = entries[i];
                if (r == 0)
                        return 0;
                if (r != -ENOENT)
                        return problem.code != 0
                                       ? sbx_error_set(err, r, problem.origin, problem.hint, "%s", problem.message)
                                       : r;
                if (first.code == 0)
                        first = problem;
        }
        if (first.code != 0)
                sbx_error_set(err, -ENOENT, first.origin, first.hint, "%s", first.message);
        return -ENOENT;
}

/* ---- resources ---- */

static int list_resources(const struct asking *asking, json_t **ret_result, struct sbx_error *err) {
        const struct sbx_catalog_entry *entries[SBX_CATALOG_PARTS_MAX];
        size_t count = sbx_catalog_entries(asking->catalog, entries);
        _cleanup_items_ struct sbx_items items = {.kind = SBX_ITEMS_RESOURCES};
        json_t *list = NULL;

        for (size_t i = 0; i < count; i++) {
                _cleanup_json_ json_t *result = NULL;
                struct sbx_error problem = {0};
                int r = ask_part(asking, entries[i], &result, &problem);

                if (r == 0)
                        r = sbx_items_add(&items, entries[i], json_object_get(result, "resources"),
                                          asking->catalog->logger, &problem);
                if (r == -ENOMEM || r == -ECANCELED)
                        return sbx_error_set(err, r, ORIGIN, NULL, "the resources: %s", SBX_ERRNO_TEXT(r));
                if (r < 0 && r != -ENOENT) {
                        sbx_error_set(&problem, r, ORIGIN, NULL, "%s", SBX_ERRNO_TEXT(r));
                        sbx_log(asking->catalog->logger, SBX_LOG_WARNING, "%s: its resources are left out: %s",
                                entries[i]->part.name, problem.message);
                }
        }
        sbx_items_sort(&items, asking->catalog->logger);
        if (sbx_items_json(&items, &list, err) < 0)
                return -ENOMEM;
        *ret_result = json_pack("{s:o}", "resources", list);
        return *ret_result != NULL ? 0 : SBX_NOMEM(err, ORIGIN);
}

static int read_resource(const struct asking *asking, json_t **ret_result, struct sbx_error *err) {
        const char *uri = asking->request->name;
        const struct sbx_catalog_entry *entry = NULL;
        int r;

        if (uri == NULL || strlen(uri) > SBX_SHAPE_URI_MAX || !sbx_shape_is_uri(uri))
                return sbx_error_set(err, -EINVAL, ORIGIN, NULL, "'%.80s' is no URI", uri != NULL ? uri : "");
        r = ask_all(asking, &entry, ret_result, err);
        if (r == -ENOENT)
                return sbx_error_set(err, r, ORIGIN, NULL, "there is no resource '%.200s'", uri);
        if (r == 0)
                r = sbx_answer_check_contents(*ret_result, err);
        if (r == -EBADMSG)
                sbx_error_wrap(err, "%s: reading '%.200s'", entry->part.name, uri);
        return r;
}

/* ---- prompts ---- */

static int unknown_prompt(const struct sbx_kept *prompts, const char *name, struct sbx_error *err) {
        struct sbx_nearest nearest = SBX_NEAREST(name);

        for (size_t i = 0; i < prompts->items.count; i++)
                sbx_nearest_offer(&nearest, prompts->items.items[i].key);
        if (nearest.best != NULL)
                return sbx_error_set(err, -ENOENT, ORIGIN, NULL, "unknown prompt '%.80s'; did you mean '%.80s'?", name,
                                     nearest.best);
        return sbx_error_set(err, -ENOENT, ORIGIN, NULL, "unknown prompt '%.80s'", name);
}

static const json_t *find_argument(const json_t *declared, const char *name) {
        json_t *argument;
        size_t index;

        json_array_foreach ((json_t *)declared, index, argument) {
                if (strcmp(json_string_value(json_object_get(argument, "name")), name) == 0)
                        return argument;
        }
        return NULL;
}

static int check_arguments(const json_t *prompt, const json_t *arguments, struct sbx_error *err) {
        const json_t *declared = json_object_get(prompt, "arguments");
        const char *key;
        json_t *value;
        size_t index;

        json_object_foreach ((json_t *)arguments, key, value) {
                if (find_argument(declared, key) == NULL)
                        return sbx_error_set(err, -EINVAL, ORIGIN, NULL, "arguments.%.64s: unknown argument", key);
                if (!json_is_string(value))
                        return sbx_error_set(err, -EINVAL, ORIGIN, NULL, "arguments.%.64s: must be a text", key);
        }
        json_array_foreach ((json_t *)declared, index, value) {
                key = json_string_value(json_object_get(value, "name"));
                if (json_is_true(json_object_get(value, "required")) && json_object_get(arguments, key) == NULL)
                        return sbx_error_set(err, -EINVAL, ORIGIN, NULL, "arguments.%.64s: required, but missing", key);
        }
        return 0;
}

static int get_prompt(const struct asking *asking, json_t **ret_result, struct sbx_error *err) {
        const char *name = asking->request->name;
        _cleanup_kept_ struct sbx_kept *prompts = NULL;
        const struct sbx_item *prompt;
        int r;

        if (name == NULL)
                return sbx_error_set(err, -EINVAL, ORIGIN, NULL, "a prompt needs a name");
        r = sbx_catalog_keep(asking->catalog, SBX_ITEMS_PROMPTS, &prompts, err);
        if (r < 0)
                return r;
        prompt = sbx_items_find(&prompts->items, name);
        if (prompt == NULL)
                return unknown_prompt(prompts, name, err);
        r = check_arguments(prompt->value, asking->arguments, err);
        if (r == 0)
                r = ask_part(asking, prompt->owner, ret_result, err);
        if (r == -ENOENT)
                return sbx_error_set(err, r, ORIGIN, NULL, "the prompt '%.80s' is gone", name);
        if (r == 0)
                r = sbx_answer_check_prompt(*ret_result, err);
        if (r == -EBADMSG)
                sbx_error_wrap(err, "%s: prompt '%.80s'", prompt->owner->part.name, name);
        return r;
}

/* ---- completions ---- */

/* Whose the prompt or the template is. NULL: a URI, which any part may know, or nobody's. */
static int find_owner(const struct asking *asking, bool is_prompt, const char *key,
                      const struct sbx_catalog_entry **ret_owner, struct sbx_error *err) {
        _cleanup_kept_ struct sbx_kept *kept = NULL;
        const struct sbx_item *item;
        int r = sbx_catalog_keep(asking->catalog, is_prompt ? SBX_ITEMS_PROMPTS : SBX_ITEMS_TEMPLATES, &kept, err);

        if (r < 0)
                return r;
        item = sbx_items_find(&kept->items, key);
        *ret_owner = item != NULL ? item->owner : NULL;
        return 0;
}

static int decode_ref(const json_t *arguments, bool *ret_is_prompt, const char **ret_key, struct sbx_error *err) {
        const json_t *ref = json_object_get(arguments, "ref"), *argument = json_object_get(arguments, "argument"),
                     *context = json_object_get(arguments, "context");
        const char *type = NULL, *name = NULL, *value = NULL;
        int r;

        if (!json_is_object(ref) || !json_is_object(argument) || (context != NULL && !json_is_object(context)))
                return sbx_error_set(err, -EINVAL, ORIGIN, NULL,
                                     "ref and argument must be objects, and context as well if there is one");
        r = sbx_json_get_string(ref, "ref", "type", SBX_JSON_REQUIRED, &type, err);
        if (r == 0)
                r = sbx_json_get_string(argument, "argument", "name", SBX_JSON_REQUIRED, &name, err);
        if (r == 0)
                r = sbx_json_get_string(argument, "argument", "value", SBX_JSON_REQUIRED, &value, err);
        if (r < 0)
                return r == -ENOMEM ? r : -EINVAL;
        *ret_is_prompt = strcmp(type, "ref/prompt") == 0;
        if (!*ret_is_prompt && strcmp(type, "ref/resource") != 0)
                return sbx_error_set(err, -EINVAL, ORIGIN, NULL,
                                     "ref.type: must be ref/prompt or ref/resource, not '%.40s'", type);
        r = sbx_json_get_string(ref, "ref", *ret_is_prompt ? "name" : "uri", SBX_JSON_REQUIRED, ret_key, err);
        return r == 0 || r == -ENOMEM ? r : -EINVAL;
}

/* What nobody knows has no values: a client asks while its user types. */
static int complete(const struct asking *asking, json_t **ret_result, struct sbx_error *err) {
        const struct sbx_catalog_entry *owner = NULL;
        struct sbx_error problem = {0};
        const char *key = NULL;
        bool is_prompt = false;
        int r = decode_ref(asking->arguments, &is_prompt, &key, err);

        if (r == 0)
                r = find_owner(asking, is_prompt, key, &owner, err);
        if (r < 0)
                return r;
        if (owner != NULL)
                r = ask_part(asking, owner, ret_result, &problem);
        else
                r = is_prompt ? -ENOENT : ask_all(asking, &owner, ret_result, &problem);
        if (r == -ENOENT)
                return sbx_answer_no_completion(ret_result, err);
        if (r == 0)
                r = sbx_answer_fix_completion(*ret_result, &problem);
        if (r < 0) {
                sbx_error_set(&problem, r, ORIGIN, NULL, "%s", SBX_ERRNO_TEXT(r));
                return sbx_error_set(err, r, problem.origin, problem.hint, "%s: completing '%.200s': %s",
                                     owner->part.name, key, problem.message);
        }
        return 0;
}

/* ---- any ---- */

static int parse_arguments(struct sbx_bytes bytes, json_t **ret_arguments, struct sbx_error *err) {
        int r = 0;

        if (bytes.size == 0)
                *ret_arguments = json_object();
        else
                r = sbx_json_parse(bytes, ARGUMENTS_MAX_BYTES, "arguments", ret_arguments, err);
        if (r < 0)
                return r == -ENOMEM ? r : -EINVAL;
        if (*ret_arguments == NULL)
                return SBX_NOMEM(err, ORIGIN);
        if (!json_is_object(*ret_arguments))
                return sbx_error_set(err, -EINVAL, ORIGIN, NULL, "arguments: must be a JSON object");
        return 0;
}

static int answer(const struct asking *asking, json_t **ret_result, struct sbx_error *err) {
        switch (asking->request->kind) {
        case SBX_REQUEST_RESOURCES:
                return list_resources(asking, ret_result, err);
        case SBX_REQUEST_READ:
                return read_resource(asking, ret_result, err);
        case SBX_REQUEST_PROMPT:
                return get_prompt(asking, ret_result, err);
        case SBX_REQUEST_COMPLETION:
                return complete(asking, ret_result, err);
        default:
                return sbx_error_set(err, -EINVAL, ORIGIN, NULL, "the catalog answers no request of the kind %u",
                                     asking->request->kind);
        }
}

int sbx_catalog_request(struct sbx_catalog *catalog, const struct sbx_request *request, const struct sbx_client *client,
                        const struct sbx_call *call, struct sbx_buffer *out_json, struct sbx_error *err) {
        _cleanup_json_ json_t *arguments = NULL, *result = NULL;
        int r = parse_arguments(request->arguments, &arguments, err);

        if (r == 0)
                r = answer(&(struct asking){catalog, request, arguments, client, call}, &result, err);
        if (r < 0)
                return r;
        r = sbx_json_encode(result, out_json);
        return r < 0 ? sbx_error_set(err, r, ORIGIN, NULL, "the answer: %s", SBX_ERRNO_TEXT(r)) : 0;
}

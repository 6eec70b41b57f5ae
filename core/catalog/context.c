/* SPDX-License-Identifier: Apache-2.0 */
/* A context source plugin as a part of the catalog. */
#include "catalog/state.h"

#include <snipara-sandbox/context.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"

#define ORIGIN SBX_CATALOG_ORIGIN

static void output_cleanup(struct sbx_output **output) {
        sbx_output_free(*output);
}
#define _cleanup_output_ __attribute__((cleanup(output_cleanup)))

/* What the plugin wrote, if it is JSON. */
static int parse(const struct sbx_instance *source, const struct sbx_output *output, size_t max_bytes, json_t **ret,
                 struct sbx_error *err) {
        int r = sbx_json_parse(sbx_output_bytes(output), max_bytes, "answer", ret, err);

        if (r < 0 && r != -ENOMEM) {
                sbx_error_wrap(err, "%s", source->name);
                return -EBADMSG;
        }
        return r;
}

static int ask_list(const struct sbx_instance *source,
                    int (*list)(void *instance, struct sbx_output *ret_json, struct sbx_error *err), json_t **ret_list,
                    struct sbx_error *err) {
        _cleanup_output_ struct sbx_output *output = NULL;
        int r;

        if (list == NULL)
                return 0;
        r = sbx_output_new(SBX_CATALOG_LIST_MAX, &output);
        if (r < 0)
                return SBX_NOMEM(err, ORIGIN);
        r = list(source->state, output, err);
        return r < 0 ? r : parse(source, output, SBX_CATALOG_LIST_MAX, ret_list, err);
}

static int source_prompts(void *data, json_t **ret_list, struct sbx_error *err) {
        const struct sbx_instance *source = data;

        return ask_list(source, ((const struct sbx_context_ops *)source->ops)->prompts, ret_list, err);
}

static int source_templates(void *data, json_t **ret_list, struct sbx_error *err) {
        const struct sbx_instance *source = data;

        return ask_list(source, ((const struct sbx_context_ops *)source->ops)->templates, ret_list, err);
}

static int source_request(void *data, const struct sbx_request *request, json_t *arguments,
                          const struct sbx_client *client, const struct sbx_call *call, json_t **ret_result,
                          struct sbx_error *err) {
        const struct sbx_instance *source = data;
        const struct sbx_context_ops *ops = source->ops;
        struct sbx_request own = *request;
        _cleanup_output_ struct sbx_output *output = NULL;
        int r = sbx_output_new(SBX_CATALOG_ANSWER_MAX, &output);

        if (r < 0)
                return SBX_NOMEM(err, ORIGIN);
        if (own.arguments.size == 0)
                own.arguments = (struct sbx_bytes){"{}", 2};
        r = ops->request(source->state, &own, client, call, output, err);
        return r < 0 ? r : parse(source, output, SBX_CATALOG_ANSWER_MAX, ret_result, err);
}

int sbx_catalog_add_context(struct sbx_catalog *catalog, const struct sbx_instance *source, struct sbx_error *err) {
        const struct sbx_context_ops *ops = source->ops;
        const struct sbx_catalog_part part = {
                .name = source->name,
                .data = (void *)source,
                .prompts = source_prompts,
                .templates = source_templates,
                .request = source_request,
        };

        return ops->request != NULL ? sbx_catalog_add(catalog, &part, err) : 0;
}

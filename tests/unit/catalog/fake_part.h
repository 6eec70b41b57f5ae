/* SPDX-License-Identifier: Apache-2.0 */
/* A part of the catalog whose lists and answers are texts, with single quotes for double ones. Include once. */
#pragma once

#include "../test.h"

#include <stdlib.h>

#include "base/buffer.h"
#include "base/json.h"
#include "catalog/catalog.h"

struct fake_part {
        const char *name, *prompts, *templates;
        const char *answers[SBX_REQUEST_COMPLETION + 1]; /* by kind; NULL: -ENOENT */
        int status;                                      /* not 0: every request ends like that */
        int list_status;
        unsigned listed, asked; /* atomic */
        char last[256];         /* name, principal and arguments of the last request; tests with one thread only */
        void (*in_list)(void *data);
        void *in_list_data;
};

static inline json_t *fake_json(const char *quoted) {
        _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(64 << 20);
        struct sbx_error err = {0};
        json_t *value = NULL;

        if (sbx_buffer_append_text(&text, quoted) < 0)
                return NULL;
        for (size_t i = 0; i < text.size; i++)
                if (text.data[i] == '\'')
                        text.data[i] = '"';
        if (sbx_json_parse_any(sbx_buffer_bytes(&text), 64 << 20, "test", &value, &err) < 0)
                fail_msg("%s: %s", quoted, err.message);
        return value;
}

static inline int fake_list(struct fake_part *part, const char *text, json_t **ret_list, struct sbx_error *err) {
        __atomic_add_fetch(&part->listed, 1, __ATOMIC_RELAXED);
        if (part->in_list != NULL)
                part->in_list(part->in_list_data);
        if (part->list_status < 0)
                return sbx_error_set(err, part->list_status, "fake", NULL, "the fake part is out of order");
        if (text != NULL)
                *ret_list = fake_json(text);
        return 0;
}

static inline int fake_prompts(void *data, json_t **ret_list, struct sbx_error *err) {
        return fake_list(data, ((struct fake_part *)data)->prompts, ret_list, err);
}

static inline int fake_templates(void *data, json_t **ret_list, struct sbx_error *err) {
        return fake_list(data, ((struct fake_part *)data)->templates, ret_list, err);
}

static inline int fake_request(void *data, const struct sbx_request *request, json_t *arguments,
                               const struct sbx_client *client, const struct sbx_call *call, json_t **ret_result,
                               struct sbx_error *err) {
        struct fake_part *part = data;
        char *text = json_dumps(arguments, JSON_COMPACT);

        assert_non_null(client);
        __atomic_add_fetch(&part->asked, 1, __ATOMIC_RELAXED);
        snprintf(part->last, sizeof(part->last), "%s %s %s", request->name != NULL ? request->name : "-",
                 request->principal, text);
        free(text);
        if (part->status < 0)
                return sbx_error_set(err, part->status, "fake", NULL, "%s says no", part->name);
        if (part->answers[request->kind] == NULL)
                return -ENOENT;
        *ret_result = fake_json(part->answers[request->kind]);
        return 0;
}

static inline void fake_add(struct sbx_catalog *catalog, struct fake_part *part) {
        const struct sbx_catalog_part added = {part->name, part, fake_prompts, fake_templates, fake_request};
        struct sbx_error err = {0};

        assert_int_equal(sbx_catalog_add(catalog, &added, &err), 0);
}

/* ---- what the catalog logs and says ---- */

static struct {
        char lines[4096];
        unsigned count;
} fake_log;

static inline void fake_log_write(void *data, int level, const char *message) {
        size_t used = strlen(fake_log.lines);

        fake_log.count++;
        snprintf(fake_log.lines + used, sizeof(fake_log.lines) - used, "%s\n", message);
}

static inline struct sbx_catalog *fake_catalog(void) {
        static const struct sbx_logger logger = {.write = fake_log_write, .level = SBX_LOG_WARNING};
        struct sbx_catalog *catalog = NULL;

        fake_log.lines[0] = '\0';
        fake_log.count = 0;
        assert_int_equal(sbx_catalog_new(&logger, &catalog, NULL), 0);
        return catalog;
}

/* The list as JSON text, with single quotes; valid until the next call. */
static inline const char *fake_listed(struct sbx_catalog *catalog, int list) {
        static char text[1 << 16];
        _cleanup_buffer_ struct sbx_buffer json = SBX_BUFFER(sizeof(text) - 1);
        struct sbx_error err = {0};

        if (sbx_catalog_list(catalog, list, &json, &err) < 0)
                fail_msg("the list: %s", err.message);
        snprintf(text, sizeof(text), "%s", json.data);
        for (char *at = text; *at != '\0'; at++)
                if (*at == '"')
                        *at = '\'';
        return text;
}

/* The answer in the same way; with the status in front if it is not 0: "-2: there is no resource". */
static inline const char *fake_ask(struct sbx_catalog *catalog, uint32_t kind, const char *name,
                                   const char *arguments) {
        static char text[1 << 16];
        static const struct sbx_client client = {.struct_size = sizeof(client)};
        static const struct sbx_call call = {.struct_size = sizeof(call), .cancel_fd = -1};
        _cleanup_buffer_ struct sbx_buffer json = SBX_BUFFER(64 << 20), quoted = SBX_BUFFER(1 << 20);
        struct sbx_request request = {
                .struct_size = sizeof(request), .kind = kind, .name = name, .principal = "token:me"};
        struct sbx_error err = {0};
        int r;

        assert_int_equal(sbx_buffer_append_text(&quoted, arguments != NULL ? arguments : ""), 0);
        for (size_t i = 0; i < quoted.size; i++)
                if (quoted.data[i] == '\'')
                        quoted.data[i] = '"';
        request.arguments = sbx_buffer_bytes(&quoted);
        r = sbx_catalog_request(catalog, &request, &client, &call, &json, &err);
        if (r < 0) {
                assert_int_equal(json.size, 0);
                snprintf(text, sizeof(text), "%d: %s", r, err.message);
        } else {
                snprintf(text, sizeof(text), "%s", json.data);
        }
        for (char *at = text; *at != '\0'; at++)
                if (*at == '"')
                        *at = '\'';
        return text;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The isolation report as JSON: {"backend","isolation","layers":[{"name","state","detail"}]}. */
#include "local.h"
#include "util.h"

#define REPORT_JSON_MAX (64u << 10)

static void append(struct report_builder *builder, const char *data, size_t size) {
        if (builder->error < 0)
                return;
        if (builder->size + size + 1 > builder->capacity) {
                size_t capacity = (builder->size + size + 1) * 2;
                char *larger = capacity > REPORT_JSON_MAX ? NULL : realloc(builder->text, capacity);

                if (larger == NULL) {
                        builder->error = -ENOMEM;
                        return;
                }
                builder->text = larger;
                builder->capacity = capacity;
        }
        memcpy(builder->text + builder->size, data, size);
        builder->size += size;
        builder->text[builder->size] = '\0';
}

static void append_text(struct report_builder *builder, const char *text) {
        append(builder, text, strlen(text));
}

/* A JSON string. Bytes beyond ASCII (of a path) become '?': they need not be UTF-8. */
static void append_string(struct report_builder *builder, const char *text) {
        append(builder, "\"", 1);
        for (; *text != '\0'; text++) {
                unsigned char c = (unsigned char)*text;

                if (c == '"' || c == '\\')
                        append(builder, "\\", 1);
                append(builder, c < 0x20 || c >= 0x7f ? "?" : text, 1);
        }
        append(builder, "\"", 1);
}

void report_begin(struct report_builder *builder, const char *isolation) {
        *builder = (struct report_builder){.text = NULL};
        append_text(builder, "{\"backend\":\"local\",\"isolation\":");
        append_string(builder, isolation);
        append_text(builder, ",\"layers\":[");
}

void report_layer(struct report_builder *builder, const char *name, const char *state, const char *detail) {
        append_text(builder, builder->layers++ > 0 ? ",{\"name\":" : "{\"name\":");
        append_string(builder, name);
        append_text(builder, ",\"state\":");
        append_string(builder, state);
        append_text(builder, ",\"detail\":");
        append_string(builder, detail);
        append_text(builder, "}");
}

static int parse_failure(char *line, struct sbx_error *err) {
        char *code = strsep(&line, "\t"), *message = strsep(&line, "\t"), *hint = line;
        long value = code != NULL ? strtol(code, NULL, 10) : 0; /* of our own making, right or zero */

        return sbx_error_set(err, value < 0 && value > -4096 ? (int)value : -EIO, LOCAL_ORIGIN, hint, "%s",
                             message != NULL ? message : "a guest could not lock itself down");
}

int report_parse(struct report_builder *builder, char *lines, struct sbx_error *err) {
        char *line;

        while ((line = strsep(&lines, "\n")) != NULL) {
                char *name = strsep(&line, "\t"), *state;

                if (line == NULL && strcmp(name, "ready") == 0)
                        return 0;
                if (line == NULL)
                        break;
                if (strcmp(name, "failed") == 0)
                        return parse_failure(line, err);
                state = strsep(&line, "\t");
                report_layer(builder, name, state, line != NULL ? line : "");
        }
        return sbx_error_set(err, -EIO, LOCAL_ORIGIN, "run `snipara-sandbox doctor`",
                             "a guest died while it locked itself down");
}

char *report_end(struct report_builder *builder) {
        append_text(builder, "]}");
        if (builder->error < 0) {
                free(builder->text);
                builder->text = NULL;
        }
        return steal_pointer(builder->text);
}

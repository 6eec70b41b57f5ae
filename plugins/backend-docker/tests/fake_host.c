/* SPDX-License-Identifier: Apache-2.0 */
/* The services of fake_host.h. What is not in the list has the default of the plugin's table. */
#include <stdlib.h>

#include "fake_host.h"
#include "options.h"

static const char *find(struct sbx_host_state *self, const char *name) {
        size_t size = strlen(name);

        for (const char *const *value = self->values; *value != NULL; value++)
                if (strncmp(*value, name, size) == 0 && (*value)[size] == '=')
                        return *value + size + 1;
        return NULL;
}

static const char *option_text(struct sbx_host_state *self, const char *name) {
        char key[80];
        const char *set;

        snprintf(key, sizeof(key), "option.%s", name);
        set = find(self, key);
        for (const struct sbx_option *option = docker_option_table; set == NULL && option->name != NULL; option++)
                if (strcmp(option->name, name) == 0)
                        return option->default_value;
        return set;
}

static int option_bool(struct sbx_host_state *self, const char *name) {
        const char *text = option_text(self, name);

        return text != NULL && strcmp(text, "true") == 0;
}

/* "512m", "30s", "1h", "250": as far as the table's defaults need it. */
static int64_t option_int(struct sbx_host_state *self, const char *name) {
        static const struct {
                const char *unit;
                int64_t factor;
        } units[] = {{"k", 1 << 10}, {"m", 1 << 20}, {"g", 1 << 30}, {"ms", 1},
                     {"s", 1000},    {"h", 3600000}, {"min", 60000}, {"", 1}};
        const char *text = option_text(self, name);
        char *end;
        int64_t value;

        if (text == NULL)
                return 0;
        value = strtoll(text, &end, 10);
        if (strcmp(name, "build_timeout") == 0 && strcmp(end, "m") == 0)
                return value * 60000;
        for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
                if (strcmp(end, units[i].unit) == 0)
                        return value * units[i].factor;
        return -1;
}

static double option_float(struct sbx_host_state *self, const char *name) {
        const char *text = option_text(self, name);

        return text != NULL ? strtod(text, NULL) : 0;
}

static size_t option_count(struct sbx_host_state *self, const char *name) {
        const char *text = option_text(self, name);
        size_t count = 0;

        while (text != NULL && count < FAKE_ITEMS_MAX) {
                const char *end = strchr(text, '|');
                int length = end != NULL ? (int)(end - text) : (int)strlen(text);

                snprintf(self->items[count++], sizeof(self->items[0]), "%.*s", length, text);
                text = end != NULL ? end + 1 : NULL;
        }
        return count;
}

static const char *option_item(struct sbx_host_state *self, const char *name, size_t index) {
        return index < option_count(self, name) ? self->items[index] : NULL;
}

static const char *directory(struct sbx_host_state *self, const char *name) {
        char key[80];

        snprintf(key, sizeof(key), "directory.%s", name);
        return find(self, key);
}

void fake_host_init(struct sbx_host *host, struct sbx_host_state *state, const char *const *values) {
        *state = (struct sbx_host_state){.values = values};
        *host = (struct sbx_host){.struct_size = sizeof(*host),
                                  .self = state,
                                  .version = "1",
                                  .option_bool = option_bool,
                                  .option_int = option_int,
                                  .option_float = option_float,
                                  .option_string = option_text,
                                  .option_count = option_count,
                                  .option_item = option_item,
                                  .directory = directory,
                                  .setting = find,
                                  .environment = find};
}

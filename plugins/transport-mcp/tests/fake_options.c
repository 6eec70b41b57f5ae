/* SPDX-License-Identifier: Apache-2.0 */
/* Options of a plugin for the fake host: "NAME=VALUE" lines, else the defaults of the plugin's own table. */
#include <assert.h>
#include <stdlib.h>

#include "fake_host.h"

static const struct sbx_option *find_option(const struct sbx_host_state *self, const char *name) {
        for (const struct sbx_option *option = self->options; option != NULL && option->name != NULL; option++)
                if (strcmp(option->name, name) == 0)
                        return option;
        fprintf(stderr, "fake host: the plugin's table has no option \"%s\"\n", name);
        abort();
}

/* As a user would write it; NULL: unset. */
static const char *option_value(const struct sbx_host_state *self, const char *name) {
        const struct sbx_option *option = find_option(self, name);
        size_t length = strlen(name);

        for (const char *const *line = self->settings; line != NULL && *line != NULL; line++)
                if (strncmp(*line, name, length) == 0 && (*line)[length] == '=')
                        return *line + length + 1;
        return option->default_value;
}

/* The factor behind a number: of bytes, or of milliseconds. */
static int64_t unit_of(uint32_t type, const char *unit) {
        if (type == SBX_OPTION_SIZE)
                return *unit == 'k' ? 1 << 10 : *unit == 'm' ? 1 << 20 : *unit == 'g' ? 1 << 30 : 1;
        if (type == SBX_OPTION_DURATION)
                return strcmp(unit, "ms") == 0 ? 1 : *unit == 'm' ? 60000 : *unit == 'h' ? 3600000 : 1000;
        return 1;
}

static int64_t fake_option_int(struct sbx_host_state *self, const char *name) {
        const char *value = option_value(self, name);
        int64_t number = 0;

        assert(value != NULL);
        for (; *value >= '0' && *value <= '9'; value++)
                number = number * 10 + (*value - '0');
        return number * unit_of(find_option(self, name)->type, value);
}

static int fake_option_bool(struct sbx_host_state *self, const char *name) {
        const char *value = option_value(self, name);

        return value != NULL && strcmp(value, "true") == 0;
}

static const char *fake_option_string(struct sbx_host_state *self, const char *name) {
        return option_value(self, name);
}

static size_t fake_option_count(struct sbx_host_state *self, const char *name) {
        const char *value = option_value(self, name);
        size_t count = value != NULL && *value != '\0' ? 1 : 0;

        for (; value != NULL && *value != '\0'; value++)
                count += *value == ',';
        return count;
}

/* Tests set one item at most. */
static const char *fake_option_item(struct sbx_host_state *self, const char *name, size_t index) {
        const char *value = option_value(self, name);

        assert(fake_option_count(self, name) == 1 && index == 0);
        return value;
}

void fake_options_install(struct sbx_host *services) {
        services->option_bool = fake_option_bool;
        services->option_int = fake_option_int;
        services->option_string = fake_option_string;
        services->option_count = fake_option_count;
        services->option_item = fake_option_item;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The services that give settings, options and variables, out of a list. */
#include <stdlib.h>

#include "test.h"

static const char *find(struct sbx_host_state *self, const char *name) {
        size_t size = strlen(name);

        for (const char *const *value = self->values; *value != NULL; value++)
                if (strncmp(*value, name, size) == 0 && (*value)[size] == '=')
                        return *value + size + 1;
        return NULL;
}

static const char *option_text(struct sbx_host_state *self, const char *name) {
        char key[80];

        snprintf(key, sizeof(key), "option.%s", name);
        return find(self, key);
}

static int option_bool(struct sbx_host_state *self, const char *name) {
        return option_text(self, name) != NULL && strcmp(option_text(self, name), "true") == 0;
}

static int64_t option_int(struct sbx_host_state *self, const char *name) {
        return option_text(self, name) != NULL ? strtoll(option_text(self, name), NULL, 10) : 0;
}

void fake_host_init(struct sbx_host *host, struct sbx_host_state *state, const char *const *values) {
        *state = (struct sbx_host_state){values};
        *host = (struct sbx_host){.struct_size = sizeof(*host),
                                  .self = state,
                                  .version = "1",
                                  .option_bool = option_bool,
                                  .option_int = option_int,
                                  .option_string = option_text,
                                  .setting = find,
                                  .environment = find};
}

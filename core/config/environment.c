/* SPDX-License-Identifier: Apache-2.0 */
/* Variables: what the process's environment says, and how options are named there. */
#include <ctype.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "config/internal.h"

static void variable_clear(struct sbx_variable *variable) {
        free(variable->name);
        free(variable->value);
        free(variable->origin);
        *variable = (struct sbx_variable){0};
}

void sbx_variables_free(struct sbx_variables *variables) {
        for (size_t i = 0; i < variables->count; i++)
                variable_clear(&variables->items[i]);
        free(variables->items);
        free(variables->directory);
        *variables = (struct sbx_variables){0};
}

static struct sbx_variable *find_slot(const struct sbx_variables *variables, const char *name) {
        for (size_t i = 0; i < variables->count; i++)
                if (strcmp(variables->items[i].name, name) == 0)
                        return &variables->items[i];
        return NULL;
}

const struct sbx_variable *sbx_variables_find(const struct sbx_variables *variables, const char *name) {
        const struct sbx_variable *found = find_slot(variables, name);

        return found != NULL && found->value[0] != '\0' ? found : NULL;
}

int sbx_variables_put(struct sbx_variables *variables, const char *name, const char *value, const char *origin) {
        struct sbx_variable fresh = {strdup(name), strdup(value), strdup(origin)};
        struct sbx_variable *slot = find_slot(variables, name);

        if (slot == NULL && variables->count == variables->capacity) {
                size_t capacity = variables->capacity > 0 ? variables->capacity * 2 : 16;
                struct sbx_variable *grown = reallocarray(variables->items, capacity, sizeof(*grown));

                if (grown != NULL) {
                        variables->items = grown;
                        variables->capacity = capacity;
                }
        }
        if (fresh.name == NULL || fresh.value == NULL || fresh.origin == NULL ||
            (slot == NULL && variables->count == variables->capacity)) {
                variable_clear(&fresh);
                return -ENOMEM;
        }
        if (slot == NULL)
                slot = &variables->items[variables->count++];
        else
                variable_clear(slot);
        *slot = fresh;
        return 0;
}

int sbx_environment_copy(const char *directory, struct sbx_variables *ret_variables) {
        _cleanup_(sbx_variables_free) struct sbx_variables variables = {.directory = strdup(directory)};

        if (variables.directory == NULL)
                return -ENOMEM;
        for (char **entry = environ; entry != NULL && *entry != NULL; entry++) {
                const char *equals = strchr(*entry, '=');
                _cleanup_free_ char *name = NULL, *origin = NULL;

                if (equals == NULL || (strncmp(*entry, "SNIPARA_", 8) != 0 && strncmp(*entry, "RLM_", 4) != 0))
                        continue;
                name = strndup(*entry, (size_t)(equals - *entry));
                if (name == NULL || sbx_text_format(&origin, "environment %s", name) < 0 ||
                    sbx_variables_put(&variables, name, equals + 1, origin) < 0)
                        return -ENOMEM;
        }
        *ret_variables = variables;
        variables = (struct sbx_variables){0};
        return 0;
}

/* ---- names of options ---- */

void sbx_option_variables_free(struct sbx_option_variables *variables) {
        for (size_t i = 0; i < SBX_OPTION_VARIABLES_MAX; i++)
                free(variables->names[i]);
        *variables = (struct sbx_option_variables){0};
}

static void shout(char *text) {
        for (; *text != '\0'; text++)
                *text = isalnum((unsigned char)*text) ? (char)toupper((unsigned char)*text) : '_';
}

static int add_name(struct sbx_option_variables *variables, const char *prefix, const char *entry, const char *option) {
        size_t count = 0;
        int r;

        while (variables->names[count] != NULL)
                count++;
        r = sbx_text_format(&variables->names[count], "%s%s%s%s", prefix, entry != NULL ? entry : "",
                            entry != NULL ? "_" : "", option);
        if (r < 0)
                return r;
        shout(variables->names[count]);
        return 0;
}

int sbx_option_variables(const char *entry, const char *option, struct sbx_option_variables *ret) {
        const struct sbx_option_alias *alias = entry == NULL ? sbx_core_alias(option) : NULL;
        struct sbx_option_variables variables = {0};
        int r = 0;

        if (alias != NULL && alias->before != NULL)
                r = add_name(&variables, "", NULL, alias->before);
        if (r == 0)
                r = add_name(&variables, "SNIPARA_SANDBOX_", entry, option);
        if (r == 0)
                r = add_name(&variables, "RLM_", entry, option);
        if (r == 0 && alias != NULL && alias->after != NULL)
                r = add_name(&variables, "", NULL, alias->after);
        if (r < 0) {
                sbx_option_variables_free(&variables);
                return r;
        }
        *ret = variables;
        return 0;
}

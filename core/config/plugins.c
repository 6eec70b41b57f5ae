/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of `plugins`: merged by name, with the keys that are the core's own; their options against a plugin's table.
 */
#include <ctype.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/number.h"
#include "config/internal.h"

#define NAME_LENGTH_MAX 63

static const char *const own_keys[] = {"name", "plugin", "path", "enabled", "critical", NULL};

static bool is_own_key(const char *name) {
        for (const char *const *key = own_keys; *key != NULL; key++)
                if (strcmp(*key, name) == 0)
                        return true;
        return false;
}

static bool name_valid(const char *name) {
        size_t length = strlen(name);

        if (length == 0 || length > NAME_LENGTH_MAX || !isalnum((unsigned char)name[0]))
                return false;
        for (size_t i = 0; i < length; i++)
                if (!isalnum((unsigned char)name[i]) && name[i] != '-' && name[i] != '_')
                        return false;
        return true;
}

static void entry_free(struct sbx_entry *entry) {
        if (entry == NULL)
                return;
        free(entry->name);
        free(entry->plugin);
        free(entry->path);
        free(entry->origin);
        sbx_raws_free(&entry->files);
        sbx_raws_free(&entry->flags);
        free(entry);
}
SBX_DEFINE_CLEANUP(struct sbx_entry *, entry_free, cleanup_entry)

void sbx_entries_free(struct sbx_config *config) {
        for (size_t i = 0; i < config->entry_count; i++)
                entry_free(config->entries[i]);
        free(config->entries);
        config->entries = NULL;
        config->entry_count = config->entry_capacity = 0;
}

struct sbx_entry *sbx_entry_find(const struct sbx_config *config, const char *name) {
        for (size_t i = 0; i < config->entry_count; i++)
                if (strcmp(config->entries[i]->name, name) == 0)
                        return config->entries[i];
        return NULL;
}

static int replace_text(char **place, const char *text) {
        char *copy = strdup(text);

        if (copy == NULL)
                return -ENOMEM;
        free(*place);
        *place = copy;
        return 0;
}

static int add_entry(struct sbx_config *config, const char *name, struct sbx_entry **ret, struct sbx_error *err) {
        _cleanup_(cleanup_entry) struct sbx_entry *entry = NULL;

        if (config->entry_count == SBX_CONFIG_ENTRIES_MAX)
                return sbx_error_set(err, -E2BIG, SBX_CONFIG_ORIGIN, NULL, "more than %d entries of `plugins`",
                                     SBX_CONFIG_ENTRIES_MAX);
        if (config->entry_count == config->entry_capacity) {
                size_t capacity = config->entry_capacity > 0 ? config->entry_capacity * 2 : 8;
                struct sbx_entry **grown = reallocarray(config->entries, capacity, sizeof(struct sbx_entry *));

                if (grown == NULL)
                        return SBX_NOMEM(err, SBX_CONFIG_ORIGIN);
                config->entries = grown;
                config->entry_capacity = capacity;
        }
        entry = calloc(1, sizeof(*entry));
        if (entry == NULL || replace_text(&entry->name, name) < 0 || replace_text(&entry->origin, "default") < 0)
                return SBX_NOMEM(err, SBX_CONFIG_ORIGIN);
        entry->enabled = true;
        *ret = config->entries[config->entry_count++] = steal_pointer(entry);
        return 0;
}

int sbx_entry_need(struct sbx_config *config, const char *name, const char *origin, struct sbx_entry **ret,
                   struct sbx_error *err) {
        struct sbx_entry *entry = sbx_entry_find(config, name);

        if (!name_valid(name))
                return sbx_error_set(
                        err, -EINVAL, SBX_CONFIG_ORIGIN,
                        "Names begin with a letter or digit and hold letters, digits, - and _; at most 63.",
                        "%s: \"%.64s\" can't be the name of a plugin entry", origin, name);
        if (entry == NULL) {
                int r = add_entry(config, name, &entry, err);

                if (r < 0)
                        return r;
        }
        if (replace_text(&entry->origin, origin) < 0)
                return SBX_NOMEM(err, SBX_CONFIG_ORIGIN);
        *ret = entry;
        return 0;
}

/* ---- the core's own keys ---- */

static int wrong_key(const struct sbx_entry *entry, const struct sbx_raw *raw, const char *wanted, const char *hint,
                     struct sbx_error *err) {
        return sbx_error_set(err, -EINVAL, SBX_CONFIG_ORIGIN, hint, "%s: plugin entry `%s`: `%s` must be %s",
                             raw->origin, entry->name, raw->name, wanted);
}

static int set_switch(const struct sbx_entry *entry, const struct sbx_raw *raw, bool *place, struct sbx_error *err) {
        if (raw->type == SBX_RAW_BOOL)
                *place = raw->boolean;
        else if (raw->type != SBX_RAW_TEXT || sbx_number_bool(raw->text, place) < 0)
                return wrong_key(entry, raw, "true or false", NULL, err);
        return 0;
}

static int set_plugin(struct sbx_entry *entry, const struct sbx_raw *raw, struct sbx_error *err) {
        bool is_path = strcmp(raw->name, "path") == 0;
        const char *text = raw->text != NULL ? raw->text : "";

        if ((raw->type != SBX_RAW_STRING && raw->type != SBX_RAW_TEXT) || text[0] == '\0' ||
            (is_path && text[0] != '/'))
                return wrong_key(entry, raw,
                                 is_path ? "the absolute path of a .so file, in quotes" : "a plugin's name, in quotes",
                                 "`snipara-sandbox plugins list` shows what is installed.", err);
        if (text[0] != '/' && strchr(text, '/') != NULL)
                return wrong_key(entry, raw, "a plugin's name or an absolute path",
                                 "A relative path would depend on where the program is started.", err);
        if (is_path)
                return replace_text(&entry->path, text) < 0 ? SBX_NOMEM(err, SBX_CONFIG_ORIGIN) : 0;
        if (entry->plugin != NULL && strcmp(entry->plugin, text) == 0)
                return 0;
        if (replace_text(&entry->plugin, text) < 0)
                return SBX_NOMEM(err, SBX_CONFIG_ORIGIN);
        free(entry->path);
        entry->path = NULL;
        sbx_raws_free(&entry->files);
        return 0;
}

int sbx_entry_set(struct sbx_entry *entry, struct sbx_raws *raws, struct sbx_raw *raw, struct sbx_error *err) {
        int r;

        if (!is_own_key(raw->name)) {
                r = sbx_raws_put(raws, raw);
                return r < 0 ? SBX_NOMEM(err, SBX_CONFIG_ORIGIN) : 0;
        }
        if (strcmp(raw->name, "enabled") == 0)
                r = set_switch(entry, raw, &entry->enabled, err);
        else if (strcmp(raw->name, "critical") == 0)
                r = set_switch(entry, raw, &entry->critical, err);
        else if (strcmp(raw->name, "name") == 0)
                r = wrong_key(entry, raw, "left as it is", "An entry is known by its name.", err);
        else
                r = set_plugin(entry, raw, err);
        if (r == 0)
                sbx_raw_clear(raw);
        return r;
}

int sbx_entries_built_in(struct sbx_config *config, struct sbx_error *err) {
        static const struct {
                const char *name, *plugin, *option, *value;
        } bundle[] = {
                {"local", "backend-local", NULL, NULL},     {"mcp", "transport-mcp", NULL, NULL},
                {"litellm", "llm-litellm", NULL, NULL},     {"jsonl", "sink-jsonl", "events", "runs"},
                {"snipara", "context-snipara", NULL, NULL}, {"files", "context-files", NULL, NULL},
                {"docker", "backend-docker", NULL, NULL},   {"wasm", "backend-wasm", NULL, NULL},
                {"store", "store-dir", NULL, NULL},
        };

        for (size_t i = 0; i < sizeof(bundle) / sizeof(bundle[0]); i++) {
                struct sbx_entry *entry = NULL;
                struct sbx_raw raw = {0};
                int r = add_entry(config, bundle[i].name, &entry, err);

                if (r < 0)
                        return r;
                if (replace_text(&entry->plugin, bundle[i].plugin) < 0)
                        return SBX_NOMEM(err, SBX_CONFIG_ORIGIN);
                if (bundle[i].option != NULL &&
                    (sbx_raw_from_text(bundle[i].option, bundle[i].value, "default", "/", &raw) < 0 ||
                     sbx_raws_put(&entry->files, &raw) < 0)) {
                        sbx_raw_clear(&raw);
                        return SBX_NOMEM(err, SBX_CONFIG_ORIGIN);
                }
                entry->shown.built_in = true;
        }
        return 0;
}

/* ---- when all layers are read ---- */

/* SNIPARA_SANDBOX_MCP_ENABLED and its like. */
static int apply_variable(struct sbx_entry *entry, const struct sbx_variables *variables, const char *key,
                          struct sbx_error *err) {
        struct sbx_option_variables names = {0};
        const struct sbx_variable *found = NULL;
        struct sbx_raw raw = {0};
        int r = sbx_option_variables(entry->name, key, &names);

        for (size_t i = 0; r == 0 && found == NULL && names.names[i] != NULL; i++)
                found = sbx_variables_find(variables, names.names[i]);
        if (found != NULL)
                r = sbx_raw_from_text(key, found->value, found->origin, "/", &raw);
        if (r < 0)
                r = SBX_NOMEM(err, SBX_CONFIG_ORIGIN);
        else if (found != NULL)
                r = sbx_entry_set(entry, &entry->flags, &raw, err);
        sbx_raw_clear(&raw);
        sbx_option_variables_free(&names);
        return r;
}

int sbx_entries_apply_variables(struct sbx_config *config, struct sbx_error *err) {
        static const char *const switches[] = {"enabled", "critical"};

        for (size_t i = 0; i < config->entry_count; i++)
                for (size_t k = 0; k < sizeof(switches) / sizeof(switches[0]); k++) {
                        int r = apply_variable(config->entries[i], &config->dotenv, switches[k], err);

                        if (r == 0)
                                r = apply_variable(config->entries[i], &config->environment, switches[k], err);
                        if (r < 0)
                                return r;
                }
        return 0;
}

int sbx_entries_finish(struct sbx_config *config, struct sbx_error *err) {
        for (size_t i = 0; i < config->entry_count; i++) {
                struct sbx_entry *entry = config->entries[i];

                if (entry->plugin == NULL && entry->path == NULL)
                        return sbx_error_set(err, -EINVAL, SBX_CONFIG_ORIGIN,
                                             "Add plugin = \"backend-local\"; or another that `snipara-sandbox plugins "
                                             "list` shows.",
                                             "%s: plugin entry `%s` does not say which plugin it is", entry->origin,
                                             entry->name);
                entry->shown.name = entry->name;
                entry->shown.plugin = entry->path != NULL ? entry->path : entry->plugin;
                entry->shown.enabled = entry->enabled;
                entry->shown.critical = entry->critical;
                entry->shown.origin = entry->origin;
        }
        return 0;
}

size_t sbx_config_plugin_count(const struct sbx_config *config) {
        return config->entry_count;
}

const struct sbx_plugin_entry *sbx_config_plugin(const struct sbx_config *config, size_t index) {
        return index < config->entry_count ? &config->entries[index]->shown : NULL;
}

const struct sbx_plugin_entry *sbx_config_plugin_find(const struct sbx_config *config, const char *name) {
        struct sbx_entry *entry = sbx_entry_find(config, name);

        return entry != NULL ? &entry->shown : NULL;
}

/* ---- options of an entry ---- */

static int refuse_unknown(const struct sbx_entry *entry, const struct sbx_option *table, const struct sbx_raw *raw,
                          struct sbx_error *err) {
        struct sbx_nearest nearest = SBX_NEAREST(raw->name);
        _cleanup_free_ char *hint = NULL;
        const char *plugin = entry->plugin != NULL ? entry->plugin : entry->path;
        int r;

        for (const char *const *key = own_keys; *key != NULL; key++)
                sbx_nearest_offer(&nearest, *key);
        for (; table->name != NULL; table++)
                sbx_nearest_offer(&nearest, table->name);
        if (nearest.best != NULL)
                r = sbx_text_format(&hint, "Did you mean `%s`? `snipara-sandbox plugins info %s` lists the options.",
                                    nearest.best, plugin);
        else
                r = sbx_text_format(&hint, "`snipara-sandbox plugins info %s` lists the options.", plugin);
        return sbx_error_set(err, -EINVAL, SBX_CONFIG_ORIGIN, r == 0 ? hint : NULL,
                             "%s: unknown option `%s` of plugin entry `%s`", raw->origin, raw->name, entry->name);
}

static int check_known(const struct sbx_entry *entry, const struct sbx_option *table, const struct sbx_raws *raws,
                       struct sbx_error *err) {
        for (size_t i = 0; i < raws->count; i++)
                if (sbx_option_find(table, raws->items[i].name) == NULL)
                        return refuse_unknown(entry, table, &raws->items[i], err);
        return 0;
}

static struct sbx_layers layers_of(const struct sbx_config *config, const struct sbx_entry *entry) {
        return (struct sbx_layers){
                .entry = entry->name,
                .flags = &entry->flags,
                .environment = &config->environment,
                .dotenv = &config->dotenv,
                .files = &entry->files,
                .directory = config->project,
        };
}

static int find_entry(const struct sbx_config *config, const char *name, const struct sbx_entry **ret_entry,
                      struct sbx_error *err) {
        *ret_entry = sbx_entry_find(config, name);
        return *ret_entry != NULL
                       ? 0
                       : sbx_error_set(err, -ENOENT, SBX_CONFIG_ORIGIN, NULL, "no plugin entry is named `%s`", name);
}

int sbx_config_plugin_settings(const struct sbx_config *config, const char *name, const struct sbx_option *table,
                               struct sbx_settings *ret_settings, struct sbx_error *err) {
        static const struct sbx_option no_options[] = {{.name = NULL}};
        const struct sbx_entry *entry = NULL;
        struct sbx_layers layers;
        int r = find_entry(config, name, &entry, err);

        if (r < 0)
                return r;
        if (table == NULL)
                table = no_options;
        layers = layers_of(config, entry);
        r = check_known(entry, table, &entry->files, err);
        if (r == 0)
                r = check_known(entry, table, &entry->flags, err);
        if (r == 0)
                r = sbx_settings_resolve(table, &layers, ret_settings, err);
        return r;
}

int sbx_config_plugin_glance(const struct sbx_config *config, const char *name, const struct sbx_option *table,
                             struct sbx_settings *ret_settings, struct sbx_error *err) {
        const struct sbx_entry *entry = NULL;
        struct sbx_layers layers;
        int r = find_entry(config, name, &entry, err);

        if (r < 0)
                return r;
        layers = layers_of(config, entry);
        return sbx_settings_resolve(table, &layers, ret_settings, err);
}

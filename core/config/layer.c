/* SPDX-License-Identifier: Apache-2.0 */
/* One configuration file: libconfig's tree into raw values with their lines, merged over what lower layers said. */
#include <libconfig.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "config/internal.h"

struct file {
        struct sbx_config *config;
        const char *path, *directory;
        struct sbx_error *err;
};

static int no_memory(const struct file *file) {
        return SBX_NOMEM(file->err, SBX_CONFIG_ORIGIN);
}

static int read_strings(const config_setting_t *setting, struct sbx_raw *raw) {
        int count = config_setting_length(setting);

        raw->type = SBX_RAW_LIST;
        raw->list = calloc(1, sizeof(*raw->list));
        if (raw->list == NULL)
                return -ENOMEM;
        for (int i = 0; i < count; i++) {
                const char *text = config_setting_get_string_elem(setting, i);
                int r;

                if (text == NULL) {
                        raw->type = SBX_RAW_MIXED;
                        return 0;
                }
                r = sbx_strings_append(&raw->list, text, strlen(text));
                if (r < 0)
                        return r;
        }
        return 0;
}

static int read_value(const config_setting_t *setting, struct sbx_raw *raw) {
        const char *text;

        switch (config_setting_type(setting)) {
        case CONFIG_TYPE_BOOL:
                raw->type = SBX_RAW_BOOL;
                raw->boolean = config_setting_get_bool(setting) != 0;
                return 0;
        case CONFIG_TYPE_INT:
                raw->type = SBX_RAW_INT;
                raw->integer = config_setting_get_int(setting);
                return 0;
        case CONFIG_TYPE_INT64:
                raw->type = SBX_RAW_INT;
                raw->integer = config_setting_get_int64(setting);
                return 0;
        case CONFIG_TYPE_FLOAT:
                raw->type = SBX_RAW_REAL;
                raw->real = config_setting_get_float(setting);
                return 0;
        case CONFIG_TYPE_STRING:
                raw->type = SBX_RAW_STRING;
                text = config_setting_get_string(setting);
                raw->text = strdup(text != NULL ? text : "");
                return raw->text != NULL ? 0 : -ENOMEM;
        case CONFIG_TYPE_ARRAY:
        case CONFIG_TYPE_LIST:
                return read_strings(setting, raw);
        default:
                raw->type = SBX_RAW_GROUP;
                return 0;
        }
}

static int read_raw(const struct file *file, const config_setting_t *setting, const char *name, struct sbx_raw *ret) {
        struct sbx_raw raw = {.name = strdup(name), .directory = strdup(file->directory)};
        int r = raw.name != NULL && raw.directory != NULL ? 0 : -ENOMEM;

        if (r == 0)
                r = sbx_text_format(&raw.origin, "%s:%u", file->path, (unsigned)config_setting_source_line(setting));
        if (r == 0)
                r = read_value(setting, &raw);
        if (r < 0) {
                sbx_raw_clear(&raw);
                return no_memory(file);
        }
        *ret = raw;
        return 0;
}

/* ---- the core's own settings ---- */

static int refuse_unknown(const struct file *file, const config_setting_t *setting, const char *name) {
        struct sbx_nearest nearest = SBX_NEAREST(name);
        char hint[SBX_ERROR_HINT_MAX];

        sbx_nearest_offer(&nearest, "plugins");
        for (const struct sbx_option *option = sbx_core_options; option->name != NULL; option++)
                sbx_nearest_offer(&nearest, option->name);
        if (nearest.best != NULL)
                snprintf(hint, sizeof(hint), "Did you mean `%s`? `snipara-sandbox config show` lists all settings.",
                         nearest.best);
        else
                snprintf(hint, sizeof(hint),
                         "`snipara-sandbox config show` lists all settings; options of a plugin belong "
                         "into its entry of `plugins`.");
        return sbx_error_set(file->err, -EINVAL, SBX_CONFIG_ORIGIN, hint, "%s:%u: unknown setting `%s`", file->path,
                             (unsigned)config_setting_source_line(setting), name);
}

static int merge_core(const struct file *file, const config_setting_t *setting) {
        const char *name = config_setting_name(setting);
        struct sbx_raw raw = {0};
        int r;

        if (sbx_option_find(sbx_core_options, name) == NULL)
                return refuse_unknown(file, setting, name);
        r = read_raw(file, setting, name, &raw);
        if (r < 0)
                return r;
        r = sbx_raws_put(&file->config->core, &raw);
        if (r < 0) {
                sbx_raw_clear(&raw);
                return no_memory(file);
        }
        return 0;
}

/* ---- plugin entries ---- */

static int merge_option(const struct file *file, const config_setting_t *setting, const char *name,
                        struct sbx_entry *entry) {
        struct sbx_raw raw = {0};
        int r = read_raw(file, setting, name, &raw);

        if (r < 0)
                return r;
        r = sbx_entry_set(entry, &entry->files, &raw, file->err);
        sbx_raw_clear(&raw);
        return r;
}

/* The members of a group; members of groups in it under dotted names. */
static int merge_members(const struct file *file, const config_setting_t *group, const char *prefix,
                         struct sbx_entry *entry) {
        int count = config_setting_length(group), r = 0;

        for (int i = 0; r == 0 && i < count; i++) {
                const config_setting_t *member = config_setting_get_elem(group, (unsigned)i);
                const char *name = config_setting_name(member);
                _cleanup_free_ char *dotted = NULL;

                if (prefix == NULL && (strcmp(name, "name") == 0 || strcmp(name, "plugin") == 0))
                        continue; /* merge_entry has them */
                if (sbx_text_format(&dotted, "%s%s%s", prefix != NULL ? prefix : "", prefix != NULL ? "." : "", name) <
                    0)
                        return no_memory(file);
                if (config_setting_type(member) == CONFIG_TYPE_GROUP)
                        r = merge_members(file, member, dotted, entry);
                else
                        r = merge_option(file, member, dotted, entry);
        }
        return r;
}

/* `plugin` goes first: an entry that names another plugin starts anew, without the options of the former. */
static int merge_entry(const struct file *file, const config_setting_t *group) {
        unsigned line = (unsigned)config_setting_source_line(group);
        const config_setting_t *plugin;
        struct sbx_entry *entry = NULL;
        _cleanup_free_ char *origin = NULL;
        const char *name = NULL;
        int r;

        if (config_setting_type(group) != CONFIG_TYPE_GROUP)
                return sbx_error_set(file->err, -EINVAL, SBX_CONFIG_ORIGIN,
                                     "Write { name = \"local\"; plugin = "
                                     "\"backend-local\"; }",
                                     "%s:%u: an entry of `plugins` must be a group", file->path, line);
        if (!config_setting_lookup_string(group, "name", &name))
                return sbx_error_set(file->err, -EINVAL, SBX_CONFIG_ORIGIN, "Add name = \"NAME\";",
                                     "%s:%u: an entry of `plugins` needs a `name`, in quotes", file->path, line);
        if (sbx_text_format(&origin, "%s:%u", file->path, line) < 0)
                return no_memory(file);
        r = sbx_entry_need(file->config, name, origin, &entry, file->err);
        if (r < 0)
                return r;
        entry->shown.built_in = false;
        plugin = config_setting_get_member(group, "plugin");
        if (plugin != NULL)
                r = merge_option(file, plugin, "plugin", entry);
        return r == 0 ? merge_members(file, group, NULL, entry) : r;
}

static int merge_plugins(const struct file *file, const config_setting_t *list) {
        int count, r = 0;

        if (config_setting_type(list) != CONFIG_TYPE_LIST)
                return sbx_error_set(file->err, -EINVAL, SBX_CONFIG_ORIGIN,
                                     "Write plugins = ( { name = \"local\"; plugin = \"backend-local\"; } );",
                                     "%s:%u: `plugins` must be a list of groups, in round brackets", file->path,
                                     (unsigned)config_setting_source_line(list));
        count = config_setting_length(list);
        for (int i = 0; r == 0 && i < count; i++)
                r = merge_entry(file, config_setting_get_elem(list, (unsigned)i));
        return r;
}

/* ---- the file ---- */

static int merge_root(const struct file *file, const config_t *parsed) {
        const config_setting_t *root = config_root_setting(parsed);
        int count = config_setting_length(root), r = 0;

        for (int i = 0; r == 0 && i < count; i++) {
                const config_setting_t *setting = config_setting_get_elem(root, (unsigned)i);

                if (strcmp(config_setting_name(setting), "plugins") == 0)
                        r = merge_plugins(file, setting);
                else
                        r = merge_core(file, setting);
        }
        return r;
}

int sbx_config_merge(struct sbx_config *config, const char *path, const char *directory, struct sbx_bytes text,
                     struct sbx_error *err) {
        /* Twice the size: every number may get a suffix. */
        _cleanup_buffer_ struct sbx_buffer prepared = SBX_BUFFER(2 * (size_t)SBX_CONFIG_FILE_MAX);
        struct file file = {.config = config, .path = path, .directory = directory, .err = err};
        config_t parsed;
        int r = sbx_grammar_prepare(path, text, &prepared, err);

        if (r < 0 || prepared.size == 0)
                return r;
        config_init(&parsed);
        if (config_read_string(&parsed, prepared.data) == CONFIG_TRUE)
                r = merge_root(&file, &parsed);
        else
                r = sbx_error_set(err, -EINVAL, SBX_CONFIG_ORIGIN, "docs/configuration.md has examples.", "%s:%d: %s",
                                  path, config_error_line(&parsed), config_error_text(&parsed));
        config_destroy(&parsed);
        return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of core/config share among themselves; other modules include config/config.h. */
#pragma once

#include "base/buffer.h"
#include "base/nearest.h"
#include "config/config.h"

#define SBX_CONFIG_ORIGIN "config"
#define SBX_CONFIG_FILE_MAX (1u << 20) /* bytes of one configuration or .env file */
#define SBX_CONFIG_DEPTH_MAX 8         /* levels of groups and lists */
#define SBX_CONFIG_SNIPPETS_MAX 256    /* files in one conf.d */
#define SBX_CONFIG_ENTRIES_MAX 256     /* entries of `plugins` */

/* ---- raw.c: values as a layer wrote them, before anyone knows what they should be -------------------------- */

enum sbx_raw_type {
        SBX_RAW_BOOL,
        SBX_RAW_INT,
        SBX_RAW_REAL,
        SBX_RAW_STRING, /* of a file */
        SBX_RAW_LIST,   /* of strings */
        SBX_RAW_TEXT,   /* of the environment or a flag: may stand for any type */
        SBX_RAW_GROUP,  /* a group or a list of groups where none belongs */
        SBX_RAW_MIXED,  /* a list with something else than strings in it */
};

struct sbx_raw {
        enum sbx_raw_type type;
        bool boolean;
        int64_t integer;
        double real;
        char *name; /* members of groups with dots: "http.listen" */
        char *text;
        char **list; /* NULL-terminated */
        char *origin;
        char *directory; /* relative paths start here */
};
struct sbx_raws {
        struct sbx_raw *items;
        size_t count, capacity;
};
void sbx_raw_clear(struct sbx_raw *raw);
void sbx_raws_free(struct sbx_raws *raws);
/* Takes over what `raw` holds, in place of an earlier value of that name. On -ENOMEM `raw` stays the caller's. */
int sbx_raws_put(struct sbx_raws *raws, struct sbx_raw *raw);
const struct sbx_raw *sbx_raws_find(const struct sbx_raws *raws, const char *name);
/* A SBX_RAW_TEXT value; each string is copied. */
int sbx_raw_from_text(const char *name, const char *text, const char *origin, const char *directory,
                      struct sbx_raw *ret);
void sbx_strings_free(char **strings);
int sbx_strings_append(char ***strings, const char *text, size_t size); /* keeps it NULL-terminated */
/* asprintf() with -ENOMEM. */
int sbx_text_format(char **ret, const char *format, ...) SBX_PRINTF(2, 3);

/* ---- grammar.c ------------------------------------------------------------------------------------------- */

/* Prepares the text of a file for libconfig. Refuses bad syntax (-EINVAL), @include, NUL and invalid UTF-8, deep
 * nesting, and integers that do not fit 64 bits; marks those beyond 32 bits with "L", which libconfig 1.5 would cut
 * without a word. */
int sbx_grammar_prepare(const char *path, struct sbx_bytes text, struct sbx_buffer *out, struct sbx_error *err);

/* ---- variables: dotenv.c, environment.c -------------------------------------------------------------------- */

struct sbx_variable {
        char *name, *value, *origin;
};
struct sbx_variables {
        struct sbx_variable *items;
        size_t count, capacity;
        char *directory; /* relative paths start here */
};
void sbx_variables_free(struct sbx_variables *variables);
/* Copies all three; a later one of the same name wins. */
int sbx_variables_put(struct sbx_variables *variables, const char *name, const char *value, const char *origin);
/* NULL: unset, or empty, which counts as unset. */
const struct sbx_variable *sbx_variables_find(const struct sbx_variables *variables, const char *name);

/* Reads the .env nearest to `directory`, up to the directory that holds .git. A file that can't be trusted or read is
 * reported to the logger and passed over: it belongs to other programs as well. `*ret_path` is NULL when none was
 * read. */
int sbx_dotenv_load(const char *directory, const struct sbx_logger *logger, struct sbx_variables *ret_variables,
                    char **ret_path, struct sbx_error *err);
/* Adds what `text` assigns; `path` is for origins and warnings. */
int sbx_dotenv_parse(const char *path, const char *text, const struct sbx_logger *logger,
                     struct sbx_variables *variables);
/* The variables of the process that can mean something to us: SNIPARA_*, RLM_*. */
int sbx_environment_copy(const char *directory, struct sbx_variables *ret_variables);
/* "SNIPARA_SANDBOX_" and "RLM_" names of an option; `entry` is NULL for the core's own. Most binding first. */
#define SBX_OPTION_VARIABLES_MAX 4
struct sbx_option_variables {
        char *names[SBX_OPTION_VARIABLES_MAX + 1]; /* NULL-terminated */
};
int sbx_option_variables(const char *entry, const char *option, struct sbx_option_variables *ret);
void sbx_option_variables_free(struct sbx_option_variables *variables);

/* ---- files.c --------------------------------------------------------------------------------------------- */

enum sbx_trust {
        SBX_TRUST_NAMED, /* the user named the file: not world-writable */
        SBX_TRUST_FOUND, /* it was searched for: and not owned by a stranger */
};
/* Opens, checks and reads a file. -ENOENT: there is none (no error is set). */
int sbx_config_read_file(int dir_fd, const char *name, const char *path, enum sbx_trust trust, struct sbx_buffer *out,
                         struct sbx_error *err);
/* Where to look; a NULL is passed over. */
struct sbx_config_places {
        const char *file;                    /* instead of all the rest */
        const char *system, *user, *project; /* directories */
};
int sbx_config_read_layers(struct sbx_config *config, const struct sbx_config_places *places,
                           const struct sbx_logger *logger, struct sbx_error *err);

/* ---- layer.c --------------------------------------------------------------------------------------------- */

/* Merges one file's text into the configuration. */
int sbx_config_merge(struct sbx_config *config, const char *path, const char *directory, struct sbx_bytes text,
                     struct sbx_error *err);

/* ---- settings.c ------------------------------------------------------------------------------------------ */

/* Where the values of a set of options come from, most binding first. Any may be NULL. */
struct sbx_layers {
        const char *entry; /* plugin entry, for names of variables; NULL: the core's own */
        const struct sbx_raws *flags;
        const struct sbx_variables *environment, *dotenv;
        const struct sbx_raws *files;
        const char *directory; /* of defaults that are relative paths */
};
int sbx_value_parse(const char *entry, const struct sbx_option *option, const struct sbx_raw *raw,
                    struct sbx_value *ret, struct sbx_error *err);
int sbx_settings_resolve(const struct sbx_option *table, const struct sbx_layers *layers,
                         struct sbx_settings *ret_settings, struct sbx_error *err);

/* ---- options.c ------------------------------------------------------------------------------------------- */

extern const struct sbx_option sbx_core_options[];
const struct sbx_option *sbx_option_find(const struct sbx_option *table, const char *name);
/* Names of variables that an option of the core has beside its regular two, before and after them; may be NULL. */
struct sbx_option_alias {
        const char *option, *before, *after;
};
const struct sbx_option_alias *sbx_core_alias(const char *option);
/* Rules between settings, and those that a range can't say. */
int sbx_core_check(const struct sbx_settings *core, struct sbx_error *err);

/* ---- plugins.c ------------------------------------------------------------------------------------------- */

struct sbx_entry {
        struct sbx_plugin_entry shown;
        char *name, *plugin, *path, *origin;
        bool enabled, critical;
        struct sbx_raws files, flags; /* the plugin's own options */
};
/* The entry of that name, made if need be. -EINVAL: not a name. */
int sbx_entry_need(struct sbx_config *config, const char *name, const char *origin, struct sbx_entry **ret,
                   struct sbx_error *err);
struct sbx_entry *sbx_entry_find(const struct sbx_config *config, const char *name);
/* Applies one option of an entry: the core's own keys at once, others to `raws`. Takes over `raw` when it returns 0. */
int sbx_entry_set(struct sbx_entry *entry, struct sbx_raws *raws, struct sbx_raw *raw, struct sbx_error *err);
int sbx_entries_built_in(struct sbx_config *config, struct sbx_error *err);
/* What variables say of the core's own keys. */
int sbx_entries_apply_variables(struct sbx_config *config, struct sbx_error *err);
/* After all layers: every entry has a plugin; fills in what is shown. */
int sbx_entries_finish(struct sbx_config *config, struct sbx_error *err);
void sbx_entries_free(struct sbx_config *config);

/* ---- config.c -------------------------------------------------------------------------------------------- */

struct sbx_config {
        struct sbx_raws core, flags; /* the core's own settings */
        struct sbx_variables environment, dotenv;
        struct sbx_entry **entries; /* each allocated: pointers to `shown` stay good */
        size_t entry_count, entry_capacity;
        struct sbx_settings settings;
        char **files;            /* NULL-terminated */
        char *project, *working; /* absolute directories */
        bool ignores_environment;
};
/* Like sbx_config_load, with another place for the system's configuration. */
int sbx_config_load_from(const char *system_directory, const struct sbx_runtime_options *options,
                         const struct sbx_logger *logger, struct sbx_config **ret_config, struct sbx_error *err);

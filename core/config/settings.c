/* SPDX-License-Identifier: Apache-2.0 */
/* Typed values: what a layer wrote, checked against an option; the most binding layer for each option. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "base/number.h"
#include "config/internal.h"

static void value_clear(struct sbx_value *value) {
        free((char *)value->string);
        sbx_strings_free(value->strings);
        free((char *)value->origin);
        *value = (struct sbx_value){0};
}

void sbx_settings_free(struct sbx_settings *settings) {
        if (settings == NULL)
                return;
        for (size_t i = 0; settings->values != NULL && i < settings->count; i++)
                value_clear(&settings->values[i]);
        free(settings->values);
        *settings = (struct sbx_settings){0};
}

const struct sbx_value *sbx_settings_get(const struct sbx_settings *settings, const char *name) {
        for (size_t i = 0; i < settings->count; i++)
                if (strcmp(settings->table[i].name, name) == 0)
                        return &settings->values[i];
        return NULL;
}

/* ---- messages ---- */

static bool is_secret(const struct sbx_option *option) {
        return (option->flags & SBX_OPTION_SECRET) != 0;
}

static const char *expected(uint32_t type) {
        switch (type) {
        case SBX_OPTION_BOOL:
                return "true or false";
        case SBX_OPTION_INT:
                return "a whole number";
        case SBX_OPTION_SIZE:
                return "a size: bytes as a number, or \"64k\", \"512m\", \"2g\"";
        case SBX_OPTION_DURATION:
                return "a duration: seconds as a number, or \"250ms\", \"30s\", \"5m\", \"1h\"";
        case SBX_OPTION_FLOAT:
                return "a number";
        case SBX_OPTION_STRINGS:
                return "a list of texts: [ \"one\", \"two\" ]";
        default:
                return "a text in double quotes";
        }
}

/* An option as a flag names it: "max_depth", "local.pool". */
#define SUBJECT "`%s%s%s`"
#define SUBJECT_ARGS(entry, option) (entry) != NULL ? (entry) : "", (entry) != NULL ? "." : "", (option)->name

/* What was written instead, for a message: short, and nothing of a secret. */
static int show_given(const struct sbx_option *option, const struct sbx_raw *raw, struct sbx_buffer *out) {
        if (is_secret(option))
                return sbx_buffer_append_text(out, "what it is");
        switch (raw->type) {
        case SBX_RAW_BOOL:
                return sbx_buffer_append_text(out, raw->boolean ? "true" : "false");
        case SBX_RAW_INT:
                return sbx_buffer_printf(out, "%" PRId64, raw->integer);
        case SBX_RAW_REAL:
                return sbx_buffer_printf(out, "%g", raw->real);
        case SBX_RAW_STRING:
        case SBX_RAW_TEXT:
                return sbx_buffer_printf(out, "\"%.64s\"%s", raw->text, strlen(raw->text) > 64 ? "..." : "");
        case SBX_RAW_LIST:
                return sbx_buffer_append_text(out, "a list");
        case SBX_RAW_GROUP:
                return sbx_buffer_append_text(out, "a group");
        default:
                return sbx_buffer_append_text(out, "a list of other things");
        }
}

/* "FILE:LINE: `NAME` must be WANTED, not GIVEN" */
static int refuse(const char *entry, const struct sbx_option *option, const struct sbx_raw *raw, const char *wanted,
                  struct sbx_error *err) {
        _cleanup_buffer_ struct sbx_buffer given = SBX_BUFFER(512);

        if (show_given(option, raw, &given) < 0)
                return SBX_NOMEM(err, SBX_CONFIG_ORIGIN);
        return sbx_error_set(err, -EINVAL, SBX_CONFIG_ORIGIN, option->help, "%s: " SUBJECT " must be %s, not %s",
                             raw->origin, SUBJECT_ARGS(entry, option), wanted, given.data);
}

static bool is_bounded(const struct sbx_option *option) {
        return option->minimum != 0 || option->maximum != 0;
}

/* A limit as one would write it: 1m and not 1048576. */
static int show_number(const struct sbx_option *option, int64_t number, struct sbx_buffer *out) {
        struct sbx_value value = {.type = option->type, .set = true, .integer = number};
        struct sbx_option plain = {.type = option->type};

        if (option->type != SBX_OPTION_SIZE && option->type != SBX_OPTION_DURATION)
                return sbx_buffer_printf(out, "%" PRId64, number);
        return sbx_value_show(&plain, &value, out);
}

static int refuse_range(const char *entry, const struct sbx_option *option, const struct sbx_raw *raw,
                        struct sbx_error *err) {
        _cleanup_buffer_ struct sbx_buffer range = SBX_BUFFER(512);
        int r;

        if (!is_bounded(option) && option->type == SBX_OPTION_FLOAT)
                return refuse(entry, option, raw, "a finite number", err);
        r = sbx_buffer_append_text(&range, "from ");
        if (r == 0)
                r = show_number(option, is_bounded(option) ? option->minimum : 0, &range);
        if (r == 0)
                r = sbx_buffer_append_text(&range, " to ");
        if (r == 0)
                r = show_number(option, is_bounded(option) ? option->maximum : INT64_MAX, &range);
        if (r == 0 && option->unit != NULL && option->type != SBX_OPTION_SIZE)
                r = sbx_buffer_printf(&range, " %.64s", option->unit);
        return r < 0 ? SBX_NOMEM(err, SBX_CONFIG_ORIGIN) : refuse(entry, option, raw, range.data, err);
}

static int refuse_choice(const char *entry, const struct sbx_option *option, const struct sbx_raw *raw,
                         struct sbx_error *err) {
        _cleanup_buffer_ struct sbx_buffer wanted = SBX_BUFFER(4096);
        int r = sbx_buffer_append_text(&wanted, "one of ");

        for (const char *word = option->choices; r == 0 && word != NULL && *word != '\0'; word++)
                r = *word == '|' ? sbx_buffer_append_text(&wanted, ", ") : sbx_buffer_append(&wanted, word, 1);
        return r < 0 ? SBX_NOMEM(err, SBX_CONFIG_ORIGIN) : refuse(entry, option, raw, wanted.data, err);
}

/* ---- one value of each type ---- */

static int parse_bool(const struct sbx_raw *raw, struct sbx_value *value) {
        if (raw->type == SBX_RAW_TEXT)
                return sbx_number_bool(raw->text, &value->boolean);
        value->boolean = raw->boolean;
        return raw->type == SBX_RAW_BOOL ? 0 : -EINVAL;
}

/* INT, SIZE, DURATION. -EINVAL: another type. -ERANGE */
static int parse_integer(const struct sbx_option *option, const struct sbx_raw *raw, struct sbx_value *value) {
        bool text = raw->type == SBX_RAW_TEXT || (raw->type == SBX_RAW_STRING && option->type != SBX_OPTION_INT);
        int r = 0;

        if (text && option->type == SBX_OPTION_INT)
                r = sbx_number_int(raw->text, &value->integer);
        else if (text && option->type == SBX_OPTION_SIZE)
                r = sbx_number_size(raw->text, &value->integer);
        else if (text)
                r = sbx_number_duration(raw->text, &value->integer);
        else if (raw->type == SBX_RAW_INT && option->type != SBX_OPTION_DURATION)
                value->integer = raw->integer;
        else if (raw->type == SBX_RAW_INT)
                r = __builtin_mul_overflow(raw->integer, 1000, &value->integer) ? -ERANGE : 0;
        else if (raw->type == SBX_RAW_REAL && option->type == SBX_OPTION_DURATION && raw->real >= 0 && raw->real < 1e12)
                value->integer = (int64_t)(raw->real * 1000);
        else
                r = -EINVAL;
        if (r == 0 && option->type != SBX_OPTION_INT && value->integer < 0)
                r = -ERANGE;
        if (r == 0 && is_bounded(option) && (value->integer < option->minimum || value->integer > option->maximum))
                r = -ERANGE;
        return r;
}

static int parse_float(const struct sbx_option *option, const struct sbx_raw *raw, struct sbx_value *value) {
        int r = 0;

        if (raw->type == SBX_RAW_TEXT)
                r = sbx_number_float(raw->text, &value->real);
        else if (raw->type == SBX_RAW_INT)
                value->real = (double)raw->integer;
        else if (raw->type == SBX_RAW_REAL)
                value->real = raw->real;
        else
                r = -EINVAL;
        if (r == 0 && !isfinite(value->real))
                r = -ERANGE;
        if (r == 0 && is_bounded(option) &&
            (value->real < (double)option->minimum || value->real > (double)option->maximum))
                r = -ERANGE;
        return r;
}

static int parse_string(const struct sbx_raw *raw, struct sbx_value *value) {
        if (raw->type != SBX_RAW_STRING && raw->type != SBX_RAW_TEXT)
                return -EINVAL;
        value->string = strdup(raw->text);
        return value->string != NULL ? 0 : -ENOMEM;
}

static int parse_path(const struct sbx_raw *raw, struct sbx_value *value) {
        const char *path = raw->text, *directory = raw->directory;
        char *absolute = NULL;
        int r;

        if ((raw->type != SBX_RAW_STRING && raw->type != SBX_RAW_TEXT) || path[0] == '\0')
                return -EINVAL;
        if (path[0] == '/')
                return parse_string(raw, value);
        while (path[0] == '.' && path[1] == '/')
                for (path += 2; path[0] == '/';)
                        path++;
        if (strcmp(path, ".") == 0)
                path = "";
        r = sbx_text_format(&absolute, "%s%s%s", directory, path[0] == '\0' || strcmp(directory, "/") == 0 ? "" : "/",
                            path);
        if (r == 0)
                value->string = absolute;
        return r;
}

/* The word as the option's table spells it, so that others compare with strcmp(). -ENOENT: none of the choices. */
static int parse_choice(const struct sbx_option *option, const struct sbx_raw *raw, struct sbx_value *value) {
        const char *word = option->choices != NULL ? option->choices : "";

        if (raw->type != SBX_RAW_STRING && raw->type != SBX_RAW_TEXT)
                return -EINVAL;
        for (;;) {
                size_t length = strcspn(word, "|");

                if (length == strlen(raw->text) && strncasecmp(word, raw->text, length) == 0) {
                        value->string = strndup(word, length);
                        return value->string != NULL ? 0 : -ENOMEM;
                }
                if (word[length] == '\0')
                        break;
                word += length + 1;
        }
        return -ENOENT;
}

static int parse_json_strings(const char *text, char ***strings) {
        _cleanup_json_ json_t *array = NULL;
        int r = sbx_json_parse((struct sbx_bytes){text, strlen(text)}, SBX_CONFIG_FILE_MAX, "list", &array, NULL);

        if (r < 0)
                return r == -ENOMEM ? r : -EINVAL;
        for (size_t i = 0; r == 0 && i < json_array_size(array); i++) {
                const json_t *item = json_array_get(array, i);

                if (!json_is_string(item) || strlen(json_string_value(item)) != json_string_length(item))
                        return -EINVAL;
                r = sbx_strings_append(strings, json_string_value(item), json_string_length(item));
        }
        return r;
}

/* "a, b": blanks around items do not count, nor do empty items. */
static int parse_comma_strings(const char *text, char ***strings) {
        int r = 0;

        while (r == 0 && *text != '\0') {
                size_t length = strcspn(text, ","), start = strspn(text, " \t,"), size = length;

                if (start < length) {
                        while (text[size - 1] == ' ' || text[size - 1] == '\t')
                                size--;
                        r = sbx_strings_append(strings, text + start, size - start);
                }
                text += length + (text[length] == ',');
        }
        return r;
}

static int parse_strings(const struct sbx_raw *raw, struct sbx_value *value) {
        int r = 0;

        if (raw->type == SBX_RAW_TEXT && raw->text[strspn(raw->text, " \t")] == '[')
                return parse_json_strings(raw->text, &value->strings);
        if (raw->type == SBX_RAW_TEXT)
                return parse_comma_strings(raw->text, &value->strings);
        if (raw->type != SBX_RAW_LIST)
                return -EINVAL;
        for (char **item = raw->list; r == 0 && *item != NULL; item++)
                r = sbx_strings_append(&value->strings, *item, strlen(*item));
        return r;
}

static int parse_typed(const struct sbx_option *option, const struct sbx_raw *raw, struct sbx_value *value) {
        switch (option->type) {
        case SBX_OPTION_BOOL:
                return parse_bool(raw, value);
        case SBX_OPTION_INT:
        case SBX_OPTION_SIZE:
        case SBX_OPTION_DURATION:
                return parse_integer(option, raw, value);
        case SBX_OPTION_FLOAT:
                return parse_float(option, raw, value);
        case SBX_OPTION_ENUM:
                return parse_choice(option, raw, value);
        case SBX_OPTION_STRINGS:
                return parse_strings(raw, value);
        case SBX_OPTION_PATH:
                return parse_path(raw, value);
        case SBX_OPTION_STRING:
                return parse_string(raw, value);
        default:
                return -ENOTSUP;
        }
}

/* A list is never NULL, so that a caller can loop over it. */
static int finish_value(struct sbx_value *value, const char *origin) {
        if (value->type == SBX_OPTION_STRINGS && value->strings == NULL)
                value->strings = calloc(1, sizeof(*value->strings));
        value->origin = strdup(origin);
        return value->origin != NULL && (value->type != SBX_OPTION_STRINGS || value->strings != NULL) ? 0 : -ENOMEM;
}

int sbx_value_parse(const char *entry, const struct sbx_option *option, const struct sbx_raw *raw,
                    struct sbx_value *ret, struct sbx_error *err) {
        struct sbx_value value = {.type = option->type, .set = true};
        int r = parse_typed(option, raw, &value);

        if (r == 0)
                r = finish_value(&value, raw->origin);
        if (r == 0) {
                *ret = value;
                return 0;
        }
        value_clear(&value);
        switch (r) {
        case -EINVAL:
                return refuse(entry, option, raw, expected(option->type), err);
        case -ERANGE:
                return refuse_range(entry, option, raw, err);
        case -ENOENT:
                return refuse_choice(entry, option, raw, err);
        case -ENOTSUP:
                return sbx_error_set(err, -EINVAL, SBX_CONFIG_ORIGIN, "The plugin is broken: tell those who made it.",
                                     "option " SUBJECT " has the unknown type %u", SUBJECT_ARGS(entry, option),
                                     option->type);
        default:
                return SBX_NOMEM(err, SBX_CONFIG_ORIGIN);
        }
}

/* ---- the most binding layer ---- */

static const struct sbx_variable *find_variable(const struct sbx_variables *variables,
                                                const struct sbx_option_variables *names) {
        const struct sbx_variable *found = NULL;

        for (size_t i = 0; variables != NULL && found == NULL && names->names[i] != NULL; i++)
                found = sbx_variables_find(variables, names->names[i]);
        return found;
}

static int parse_variable(const char *entry, const struct sbx_option *option, const struct sbx_variable *variable,
                          const char *directory, struct sbx_value *ret, struct sbx_error *err) {
        /* Borrowed for the time of the call. */
        struct sbx_raw raw = {
                .type = SBX_RAW_TEXT,
                .text = variable->value,
                .origin = variable->origin,
                .directory = (char *)directory,
        };

        return sbx_value_parse(entry, option, &raw, ret, err);
}

static int parse_default(const struct sbx_option *option, const struct sbx_layers *layers, struct sbx_value *ret,
                         struct sbx_error *err) {
        struct sbx_variable variable = {.value = (char *)option->default_value, .origin = (char *)"default"};
        struct sbx_value unset = {.type = option->type};

        if (option->default_value != NULL)
                return parse_variable(layers->entry, option, &variable, layers->directory, ret, err);
        if (finish_value(&unset, "default") < 0) {
                value_clear(&unset);
                return SBX_NOMEM(err, SBX_CONFIG_ORIGIN);
        }
        *ret = unset;
        return 0;
}

static int resolve_option(const struct sbx_option *option, const struct sbx_layers *layers, struct sbx_value *ret,
                          struct sbx_error *err) {
        const struct sbx_raw *raw = sbx_raws_find(layers->flags, option->name);
        struct sbx_option_variables names = {0};
        const struct sbx_variable *variable = NULL;
        const struct sbx_variables *from = layers->environment;

        if (raw != NULL)
                return sbx_value_parse(layers->entry, option, raw, ret, err);
        if (sbx_option_variables(layers->entry, option->name, &names) < 0)
                return SBX_NOMEM(err, SBX_CONFIG_ORIGIN);
        variable = find_variable(from, &names);
        if (variable == NULL) {
                from = layers->dotenv;
                variable = find_variable(from, &names);
        }
        sbx_option_variables_free(&names);
        if (variable != NULL)
                return parse_variable(layers->entry, option, variable, from->directory, ret, err);
        raw = sbx_raws_find(layers->files, option->name);
        if (raw != NULL)
                return sbx_value_parse(layers->entry, option, raw, ret, err);
        if ((option->flags & SBX_OPTION_REQUIRED) != 0)
                return sbx_error_set(err, -EINVAL, SBX_CONFIG_ORIGIN, option->help, SUBJECT " must be set",
                                     SUBJECT_ARGS(layers->entry, option));
        return parse_default(option, layers, ret, err);
}

int sbx_settings_resolve(const struct sbx_option *table, const struct sbx_layers *layers,
                         struct sbx_settings *ret_settings, struct sbx_error *err) {
        _cleanup_(sbx_settings_free) struct sbx_settings settings = {.table = table};
        size_t count = 0;

        while (table[count].name != NULL)
                count++;
        settings.values = calloc(count > 0 ? count : 1, sizeof(*settings.values));
        if (settings.values == NULL)
                return SBX_NOMEM(err, SBX_CONFIG_ORIGIN);
        settings.count = count;
        for (size_t i = 0; i < count; i++) {
                int r = resolve_option(&table[i], layers, &settings.values[i], err);

                if (r < 0)
                        return r;
        }
        *ret_settings = settings;
        settings = (struct sbx_settings){0};
        return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a plugin's option table makes sense, so that the configuration can rely on it. */
#include "plugin/internal.h"

#include "base/error.h"
#include "base/number.h"

#define NAME_MAX_BYTES 63

/* Words between dots, each a lower-case letter followed by letters, digits and underscores: they become keys of a
 * configuration file and, in capitals, names of environment variables. */
static bool name_valid(const char *name) {
        bool start = true;
        size_t length = strnlen(name, NAME_MAX_BYTES + 1);

        if (length == 0 || length > NAME_MAX_BYTES)
                return false;
        for (const char *p = name; *p != '\0'; p++) {
                bool letter = *p >= 'a' && *p <= 'z';

                if (start ? !letter : !letter && !(*p >= '0' && *p <= '9') && *p != '_' && *p != '.')
                        return false;
                start = *p == '.';
        }
        return !start;
}

/* True if both can't stand in one file: the same name, or one is a group of the other ("http" and "http.listen"). */
static bool names_collide(const char *a, const char *b) {
        size_t length_a = strlen(a), length_b = strlen(b);
        size_t shorter = length_a < length_b ? length_a : length_b;

        if (strncmp(a, b, shorter) != 0)
                return false;
        return length_a == length_b || (length_a > length_b ? a : b)[shorter] == '.';
}

static bool in_choices(const char *choices, const char *word, size_t length) {
        while (*choices != '\0') {
                size_t size = strcspn(choices, "|");

                if (size == length && memcmp(choices, word, length) == 0)
                        return true;
                choices += size + (choices[size] == '|');
        }
        return false;
}

static bool choices_valid(const char *choices) {
        if (choices == NULL || *choices == '\0')
                return false;
        for (;;) {
                size_t size = strcspn(choices, "|");

                if (size == 0 || strspn(choices, "abcdefghijklmnopqrstuvwxyz0123456789_-.") != size)
                        return false;
                if (choices[size] == '\0')
                        return true;
                choices += size + 1;
        }
}

/* The default of a number, in the unit that `minimum` and `maximum` have. */
static int parse_default(const struct sbx_option *option, double *ret_value) {
        int64_t number = 0;
        bool boolean;
        int r;

        switch (option->type) {
        case SBX_OPTION_BOOL:
                r = sbx_number_bool(option->default_value, &boolean);
                break;
        case SBX_OPTION_INT:
                r = sbx_number_int(option->default_value, &number);
                break;
        case SBX_OPTION_SIZE:
                r = sbx_number_size(option->default_value, &number);
                break;
        case SBX_OPTION_DURATION:
                r = sbx_number_duration(option->default_value, &number);
                break;
        case SBX_OPTION_FLOAT:
                return sbx_number_float(option->default_value, ret_value);
        default:
                return 0;
        }
        *ret_value = (double)number;
        return r;
}

/* What is wrong with the default value, or NULL. */
static const char *default_problem(const struct sbx_option *option) {
        bool bounded = option->minimum != 0 || option->maximum != 0;
        double value = (double)option->minimum;

        if (option->default_value == NULL)
                return NULL;
        if ((option->flags & SBX_OPTION_REQUIRED) != 0)
                return "is required and has a default; it can only be one of them";
        if (option->type == SBX_OPTION_ENUM)
                return in_choices(option->choices, option->default_value, strlen(option->default_value))
                               ? NULL
                               : "has a default that is not among its choices";
        if (parse_default(option, &value) < 0)
                return "has a default that is not a value of its type";
        if (option->type != SBX_OPTION_BOOL && bounded &&
            (value < (double)option->minimum || value > (double)option->maximum))
                return "has a default outside of its minimum and maximum";
        return NULL;
}

static const char *option_problem(const struct sbx_option *option) {
        if (!name_valid(option->name))
                return "has a bad name: lower-case words with digits and '_', joined by dots, at most 63 bytes";
        if (option->type < SBX_OPTION_BOOL || option->type > SBX_OPTION_PATH)
                return "has a type that this program does not know";
        if ((option->flags & ~(SBX_OPTION_SECRET | SBX_OPTION_REQUIRED)) != 0)
                return "has flags that this program does not know";
        if (option->help == NULL || *option->help == '\0')
                return "has no help";
        if (option->type == SBX_OPTION_ENUM && !choices_valid(option->choices))
                return "is an enum without usable choices: words separated by '|'";
        if (option->type != SBX_OPTION_ENUM && option->choices != NULL)
                return "has choices, but is not an enum";
        if (option->minimum > option->maximum)
                return "has a minimum above its maximum";
        return default_problem(option);
}

static bool is_reserved(const char *name, const struct sbx_kind *kind) {
        static const char *const reserved[] = {"name", "plugin", "enabled", "critical", "path"};

        for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++)
                if (names_collide(name, reserved[i]))
                        return true;
        for (const struct sbx_option *option = kind->core_options; option->name != NULL; option++)
                if (names_collide(name, option->name))
                        return true;
        return false;
}

int sbx_options_check(const struct sbx_module *module, const struct sbx_kind *kind, struct sbx_error *err) {
        const struct sbx_option *table = module->plugin.options;
        static const char hint[] = "Correct the option table of the plugin; <snipara-sandbox/plugin.h> has its rules.";

        for (const struct sbx_option *option = table; option->name != NULL; option++) {
                const char *problem = option_problem(option);

                if (problem == NULL && is_reserved(option->name, kind))
                        problem = "has a name that the core uses itself in entries of this kind";
                if (problem != NULL)
                        return sbx_error_set(err, -EINVAL, SBX_PLUGIN_ORIGIN, hint, "option %zu (\"%.64s\") of %s %s",
                                             (size_t)(option - table) + 1, option->name, module->path, problem);
                for (const struct sbx_option *other = table; other < option; other++)
                        if (names_collide(other->name, option->name))
                                return sbx_error_set(err, -EINVAL, SBX_PLUGIN_ORIGIN, hint,
                                                     "options %zu (\"%s\") and %zu (\"%s\") of %s can't stand in one "
                                                     "file",
                                                     (size_t)(other - table) + 1, other->name,
                                                     (size_t)(option - table) + 1, option->name, module->path);
        }
        return 0;
}

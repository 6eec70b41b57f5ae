/* SPDX-License-Identifier: Apache-2.0 */
/* Values for people, as one would write them in a configuration file. */
#include <inttypes.h>

#include "base/json.h"
#include "config/internal.h"

struct unit {
        int64_t factor;
        const char *suffix;
};

/* In the largest unit that leaves a whole number. */
static int show_scaled(int64_t value, const struct unit *units, struct sbx_buffer *out) {
        while (value % units->factor != 0)
                units++;
        return sbx_buffer_printf(out, "\"%" PRId64 "%s\"", value / units->factor, units->suffix);
}

static int show_size(int64_t bytes, struct sbx_buffer *out) {
        static const struct unit units[] = {{INT64_C(1) << 30, "g"}, {1 << 20, "m"}, {1 << 10, "k"}, {1, ""}};

        if (bytes == 0 || bytes % 1024 != 0)
                return sbx_buffer_printf(out, "%" PRId64, bytes);
        return show_scaled(bytes, units, out);
}

static int show_duration(int64_t milliseconds, struct sbx_buffer *out) {
        static const struct unit units[] = {{86400000, "d"}, {3600000, "h"}, {60000, "m"}, {1000, "s"}, {1, "ms"}};

        if (milliseconds == 0)
                return sbx_buffer_append_text(out, "0");
        return show_scaled(milliseconds, units, out);
}

/* JSON's escapes are libconfig's too, for what a configuration file can hold. */
static int show_text(const char *text, struct sbx_buffer *out) {
        _cleanup_json_ json_t *string = sbx_json_text((struct sbx_bytes){text, strlen(text)});

        return string != NULL ? sbx_json_encode(string, out) : -ENOMEM;
}

static int show_strings(char *const *strings, struct sbx_buffer *out) {
        int r = sbx_buffer_append_text(out, "[");

        for (size_t i = 0; r == 0 && strings[i] != NULL; i++) {
                r = sbx_buffer_append_text(out, i > 0 ? ", " : " ");
                if (r == 0)
                        r = show_text(strings[i], out);
        }
        return r == 0 ? sbx_buffer_append_text(out, " ]") : r;
}

static int show_real(double value, struct sbx_buffer *out) {
        _cleanup_json_ json_t *real = json_real(value);

        return real != NULL ? sbx_json_encode(real, out) : -ENOMEM;
}

int sbx_value_show(const struct sbx_option *option, const struct sbx_value *value, struct sbx_buffer *out) {
        if (!value->set)
                return sbx_buffer_append_text(out, "(unset)");
        if ((option->flags & SBX_OPTION_SECRET) != 0)
                return sbx_buffer_append_text(out, "\"********\"");
        switch (value->type) {
        case SBX_OPTION_BOOL:
                return sbx_buffer_append_text(out, value->boolean ? "true" : "false");
        case SBX_OPTION_INT:
                return sbx_buffer_printf(out, "%" PRId64, value->integer);
        case SBX_OPTION_SIZE:
                return show_size(value->integer, out);
        case SBX_OPTION_DURATION:
                return show_duration(value->integer, out);
        case SBX_OPTION_FLOAT:
                return show_real(value->real, out);
        case SBX_OPTION_STRINGS:
                return show_strings(value->strings, out);
        default:
                return show_text(value->string, out);
        }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Names of runtimes: aliases, and the version at the end of a known language. */
#include "session/runtimes.h"

#include "session/state.h"

#include "base/error.h"

static const char *const families[] = {"python", "node", "bash"};

static const char *without_alias(const char *text) {
        static const char *const aliases[][2] = {
                {"py", "python"},   {"python3", "python"}, {"js", "node"},    {"javascript", "node"},
                {"nodejs", "node"}, {"sh", "bash"},        {"shell", "bash"},
        };

        for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++)
                if (strcmp(aliases[i][0], text) == 0)
                        return aliases[i][1];
        return text;
}

static bool is_version(const char *text) {
        size_t digits = strspn(text, "0123456789");

        return digits > 0 && (text[digits] == '\0' || (text[digits] == '.' && is_version(text + digits + 1)));
}

int sbx_runtime_name_parse(const char *text, struct sbx_runtime_name *ret_name, struct sbx_error *err) {
        static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
        struct sbx_runtime_name name = {0};
        size_t length;

        text = without_alias(text != NULL ? text : SBX_RUNTIME_DEFAULT);
        length = strlen(text);
        if (length == 0 || length >= sizeof(name.text) || strspn(text, allowed) != length)
                return sbx_error_set(
                        err, -EINVAL, SBX_SESSION_ORIGIN,
                        "Use python, node or bash, with a version if need be (python3.12), or a name of the "
                        "configuration.",
                        "language: \"%.64s\" can't be the name of one", text);
        memcpy(name.text, text, length);
        memcpy(name.family, text, length);
        for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
                size_t size = strlen(families[i]);

                if (strncmp(text, families[i], size) != 0 || !is_version(text + size))
                        continue;
                name.family[size] = '\0';
                memcpy(name.version, text + size, length - size);
        }
        *ret_name = name;
        return 0;
}

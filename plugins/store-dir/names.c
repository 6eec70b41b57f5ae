/* SPDX-License-Identifier: Apache-2.0 */
/* Checks names before they come anywhere near a path. */
#include "names.h"

static bool allowed(char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
               c == '-';
}

/* Whether the component that begins here is empty or only dots that mean a directory. */
static bool bad_component(const char *component) {
        size_t size = strcspn(component, "/");

        return size == 0 || (size == 1 && component[0] == '.') || (size == 2 && memcmp(component, "..", 2) == 0);
}

static bool valid(const char *name) {
        size_t size = name != NULL ? strnlen(name, NAME_MAX_BYTES + 1) : 0;

        if (size == 0 || size > NAME_MAX_BYTES || bad_component(name))
                return false;
        for (size_t i = 0; i < size; i++) {
                if (name[i] == '/' ? bad_component(name + i + 1) : !allowed(name[i]))
                        return false;
        }
        return true;
}

int name_check(const char *name, const char *what, struct sbx_error *err) {
        if (valid(name))
                return 0;
        return sbx_error_set(err, -EINVAL, DIR_ORIGIN,
                             "Names are 1 to 255 of A-Z a-z 0-9 _ . - and /, without empty, "
                             "\".\" or \"..\" components.",
                             "not a name of a %s", what);
}

int name_split(const char *name, struct name *ret_name, struct sbx_error *err) {
        int r = name_check(name, "blob", err);
        const char *slash;

        if (r < 0)
                return r;
        slash = strrchr(name, '/');
        snprintf(ret_name->directory, sizeof(ret_name->directory), "%.*s", slash != NULL ? (int)(slash - name) : 0,
                 name);
        snprintf(ret_name->leaf, sizeof(ret_name->leaf), "%s", slash != NULL ? slash + 1 : name);
        return 0;
}

void name_encode(const char *name, char ret_file[NAME_MAX_BYTES + 1]) {
        snprintf(ret_file, NAME_MAX_BYTES + 1, "%s", name[0] != '\0' ? name : ",");
        for (char *c = ret_file; *c != '\0'; c++)
                if (*c == '/')
                        *c = ',';
}

bool name_decode(const char *file, char ret_name[NAME_MAX_BYTES + 1]) {
        if (strlen(file) > NAME_MAX_BYTES || strchr(file, '/') != NULL)
                return false;
        snprintf(ret_name, NAME_MAX_BYTES + 1, "%s", strcmp(file, ",") != 0 ? file : "");
        for (char *c = ret_name; *c != '\0'; c++)
                if (*c == ',')
                        *c = '/';
        return ret_name[0] == '\0' || valid(ret_name);
}

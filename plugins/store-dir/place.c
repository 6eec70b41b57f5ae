/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the default place of a store. */
#include "place.h"

#include <limits.h>
#include <sodium.h>

#define NAME_PART_MAX 48u /* of the project's name: for people */

/* The last component of the path, of harmless characters. */
static void name_part(const char *path, char ret_name[NAME_PART_MAX + 1]) {
        const char *slash = strrchr(path, '/'), *name = slash != NULL && slash[1] != '\0' ? slash + 1 : "root";
        size_t size = 0;

        for (; name[size] != '\0' && size < NAME_PART_MAX; size++) {
                char c = name[size];
                bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                             c == '-' || (c == '.' && size > 0);

                ret_name[size] = plain ? c : '_';
        }
        ret_name[size] = '\0';
}

/* The ABI lets a host be older than the plugin: it knows no projects then. */
static const char *project_directory(const struct sbx_host *host) {
        const char *path = host->abi_minor >= 1 ? host->directory(host->self, "project") : NULL;

        return path != NULL ? path : ".";
}

int place_find(const struct sbx_host *host, char **ret_path, struct sbx_error *err) {
        const char *path = host->option_string(host->self, "directory"), *state;
        char real[PATH_MAX], name[NAME_PART_MAX + 1], hex[9];
        uint8_t hash[16];

        if (path != NULL && path[0] != '\0') {
                *ret_path = strdup(path);
                return *ret_path == NULL ? no_memory(err) : 0;
        }
        state = host->directory(host->self, "state");
        if (state == NULL)
                return sbx_error_set(err, -ENOENT, DIR_ORIGIN,
                                     "Set the option `directory` of the store, or XDG_STATE_HOME.",
                                     "there is no state directory for a store");
        if (realpath(project_directory(host), real) == NULL)
                return sbx_error_set(err, -errno, DIR_ORIGIN, "Set the option `directory` of the store.",
                                     "can't find out where the project is: %m");
        if (sodium_init() < 0)
                return sbx_error_set(err, -EIO, DIR_ORIGIN, NULL, "libsodium can't be used");
        crypto_generichash(hash, sizeof(hash), (const uint8_t *)real, strlen(real), NULL, 0);
        sodium_bin2hex(hex, sizeof(hex), hash, 4);
        name_part(real, name);
        if (asprintf(ret_path, "%s/sessions/%s-%s", state, name, hex) < 0)
                return no_memory(err);
        return 0;
}

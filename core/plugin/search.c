/* SPDX-License-Identifier: Apache-2.0 */
/* Where plugins lie: from a name in the configuration to a file, and the list of what is installed. */
#include "plugin/internal.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/error.h"

#define SUFFIX ".so"

char *sbx_plugin_file_name(const char *path) {
        const char *slash = strrchr(path, '/');
        const char *base = slash != NULL ? slash + 1 : path;
        size_t length = strlen(base);

        if (length > strlen(SUFFIX) && strcmp(base + length - strlen(SUFFIX), SUFFIX) == 0)
                length -= strlen(SUFFIX);
        return strndup(base, length);
}

int sbx_plugin_path(const struct sbx_directories *directories, const char *plugin, char **ret_path,
                    struct sbx_error *err) {
        char *path = NULL;
        int r;

        if (plugin[0] == '/')
                r = asprintf(&path, "%s", plugin);
        else if (!sbx_plugin_name_valid(plugin))
                return sbx_error_set(err, -EINVAL, SBX_PLUGIN_ORIGIN,
                                     "Give the name of an installed plugin (snipara-sandbox plugins list), or the "
                                     "absolute path of a .so file.",
                                     "\"%.200s\" is neither a plugin name nor an absolute path", plugin);
        else if (directories->build_tree)
                r = asprintf(&path, "%s/%s/%s" SUFFIX, directories->plugins, plugin, plugin);
        else
                r = asprintf(&path, "%s/%s" SUFFIX, directories->plugins, plugin);
        if (r < 0)
                return SBX_NOMEM(err, SBX_PLUGIN_ORIGIN);
        *ret_path = path;
        return 0;
}

/* What `entry` of the plugin directory is called as a plugin, or NULL when it is something else. Whether its file is
 * fit to be loaded is for the loader to say: a broken plugin shall be listed with what is wrong. */
static char *entry_plugin(const struct sbx_directories *directories, int dir_fd, const char *entry) {
        size_t length = strlen(entry);
        _cleanup_free_ char *inner = NULL;

        if (entry[0] == '.')
                return NULL;
        if (!directories->build_tree)
                return length > strlen(SUFFIX) && strcmp(entry + length - strlen(SUFFIX), SUFFIX) == 0
                               ? strndup(entry, length - strlen(SUFFIX))
                               : NULL;
        if (asprintf(&inner, "%s/%s" SUFFIX, entry, entry) < 0) {
                inner = NULL;
                return NULL;
        }
        return faccessat(dir_fd, inner, F_OK, 0) == 0 ? strdup(entry) : NULL;
}

void sbx_plugin_list_free(char **paths) {
        for (char **path = paths; path != NULL && *path != NULL; path++)
                free(*path);
        free(paths);
}
SBX_DEFINE_CLEANUP(char **, sbx_plugin_list_free, cleanup_list)

static int compare_paths(const void *a, const void *b) {
        return strcmp(*(char *const *)a, *(char *const *)b);
}

static int read_entries(const struct sbx_directories *directories, DIR *dir, char ***paths, size_t *count,
                        struct sbx_error *err) {
        struct dirent *entry;

        while (errno = 0, (entry = readdir(dir)) != NULL) {
                _cleanup_free_ char *name = entry_plugin(directories, dirfd(dir), entry->d_name);
                char **grown, *path = NULL;
                int length;

                if (name == NULL)
                        continue;
                grown = reallocarray(*paths, *count + 2, sizeof(**paths));
                if (grown == NULL)
                        return SBX_NOMEM(err, SBX_PLUGIN_ORIGIN);
                *paths = grown;
                grown[*count] = NULL;
                if (directories->build_tree)
                        length = asprintf(&path, "%s/%s/%s" SUFFIX, directories->plugins, name, name);
                else
                        length = asprintf(&path, "%s/%s" SUFFIX, directories->plugins, name);
                if (length < 0)
                        return SBX_NOMEM(err, SBX_PLUGIN_ORIGIN);
                grown[(*count)++] = path;
                grown[*count] = NULL;
        }
        if (errno != 0)
                return sbx_error_set(err, -errno, SBX_PLUGIN_ORIGIN, NULL, "can't list %s: %s", directories->plugins,
                                     SBX_ERRNO_TEXT(-errno));
        return 0;
}

int sbx_plugin_list(const struct sbx_directories *directories, char ***ret_paths, struct sbx_error *err) {
        _cleanup_(cleanup_list) char **paths = calloc(1, sizeof(*paths));
        _cleanup_closedir_ DIR *dir = NULL;
        size_t count = 0;
        int r = 0;

        if (paths == NULL)
                return SBX_NOMEM(err, SBX_PLUGIN_ORIGIN);
        dir = opendir(directories->plugins); /* O_CLOEXEC by itself */
        if (dir != NULL)
                r = read_entries(directories, dir, &paths, &count, err);
        else if (errno != ENOENT)
                r = sbx_error_set(err, -errno, SBX_PLUGIN_ORIGIN, "Check its permissions with: ls -ld",
                                  "can't open the plugin directory %s: %s", directories->plugins,
                                  SBX_ERRNO_TEXT(-errno));
        if (r < 0)
                return r;
        qsort(paths, count, sizeof(*paths), compare_paths);
        *ret_paths = steal_pointer(paths);
        return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Trajectories by their ids: ID.jsonl in log_dir. */
#include "find.h"

#include <dirent.h>
#include <stdbool.h>

#include "util.h"

#define ID_MAX 64u
#define ID_MIN 4u
#define FILES_MAX 1000000u /* that are looked at */
#define SUFFIX ".jsonl"

/* Hexadecimal digits and dashes: it becomes part of a path. */
static bool is_id(const char *text) {
        size_t size = strlen(text);

        return size >= ID_MIN && size <= ID_MAX && text[strspn(text, "0123456789abcdefABCDEF-")] == '\0';
}

static bool matches(const char *name, const char *id) {
        size_t size = strlen(name), tail = strlen(SUFFIX);

        return size > tail && strcmp(name + size - tail, SUFFIX) == 0 && strncasecmp(name, id, strlen(id)) == 0 &&
               strspn(name, "0123456789abcdefABCDEF-") == size - tail;
}

/* The one name that begins so. */
static int search(DIR *directory, const char *path, const char *id, char **ret_name, struct sbx_error *err) {
        const struct dirent *file;
        unsigned count = 0;

        while ((file = readdir(directory)) != NULL && count++ < FILES_MAX) {
                if (!matches(file->d_name, id))
                        continue;
                if (*ret_name != NULL)
                        return sbx_error_set(err, -EEXIST, REPLAY_ORIGIN, "Give more of the id.",
                                             "several trajectories in %s begin with %s", path, id);
                *ret_name = strdup(file->d_name);
                if (*ret_name == NULL)
                        return sbx_error_set(err, -ENOMEM, REPLAY_ORIGIN, NULL, "no memory for a file's name");
        }
        if (*ret_name == NULL)
                return sbx_error_set(err, -ENOENT, REPLAY_ORIGIN,
                                     "`snipara-sandbox logs` lists the trajectories that are there.",
                                     "no trajectory in %s begins with %s", path, id);
        return 0;
}

static int log_directory(const struct sbx_host *host, char **ret_path, struct sbx_error *err) {
        const char *path = host->setting(host->self, "log_dir");
        const char *project = host->directory(host->self, "project");
        int size;

        if (path == NULL)
                path = "logs";
        if (path[0] == '/' || project == NULL)
                size = asprintf(ret_path, "%s", path);
        else
                size = asprintf(ret_path, "%s/%s", project, path);
        if (size < 0) {
                *ret_path = NULL;
                return sbx_error_set(err, -ENOMEM, REPLAY_ORIGIN, NULL, "no memory for a path");
        }
        return 0;
}

int replay_find_file(const struct sbx_host *host, const char *id, char **ret_path, struct sbx_error *err) {
        _cleanup_free_ char *path = NULL, *name = NULL;
        DIR *directory;
        int r;

        if (!is_id(id))
                return sbx_error_set(err, -EINVAL, REPLAY_ORIGIN, "`snipara-sandbox logs` lists the ids of runs.",
                                     "`trajectory` is not the id of a run, nor the beginning of one");
        r = log_directory(host, &path, err);
        if (r < 0)
                return r;
        directory = opendir(path);
        if (directory == NULL)
                return sbx_error_set(err, -errno, REPLAY_ORIGIN,
                                     "Set log_dir to where the run was recorded, or set `file`.",
                                     "the directory %s can't be read: %s", path, strerrordesc_np(errno));
        r = search(directory, path, id, &name, err);
        closedir(directory);
        if (r == 0 && asprintf(ret_path, "%s/%s", path, name) < 0) {
                *ret_path = NULL;
                r = sbx_error_set(err, -ENOMEM, REPLAY_ORIGIN, NULL, "no memory for a path");
        }
        return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Where trajectories are, and which one an id means. */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "cli/logs.h"
#include "cli/output.h"
#include "cli/runtime.h"

#define ORIGIN "logs"
#define SUFFIX ".jsonl"
#define UNIQUE_MIN 8u
#define PREFIX_MIN 4u
#define CANDIDATES_MAX 5u

/* ---- the directory ---- */

/* What the entry of sink-jsonl says, else the setting that it goes by. */
static const char *configured_path(struct sbx_cli_parts *parts) {
        for (size_t i = 0; i < sbx_config_plugin_count(parts->config); i++) {
                const struct sbx_plugin_entry *entry = sbx_config_plugin(parts->config, i);
                const struct sbx_instance *instance = NULL;
                const struct sbx_value *value = NULL;
                struct sbx_error ignored = {0};

                /* Without the plugin there may be files all the same: of an earlier installation, or of 2.2.7. */
                if (entry->enabled && strcmp(entry->plugin, "sink-jsonl") == 0 &&
                    sbx_registry_open(parts->registry, entry->name, &instance, &ignored) == 0)
                        value = sbx_settings_get(instance->settings, "directory");
                if (value != NULL && value->set)
                        return value->string;
        }
        return sbx_config_string(parts->config, "log_dir");
}

static int find_path(struct sbx_cli *cli, const char *path, char **ret_path) {
        _cleanup_parts_ struct sbx_cli_parts parts = {0};
        struct sbx_error err = {0};
        int r;

        if (path == NULL) {
                r = sbx_cli_parts_open(cli, &parts, &err);
                if (r < 0)
                        return sbx_cli_fail(cli, r, &err);
                path = configured_path(&parts);
        }
        *ret_path = strdup(path != NULL ? path : "./logs");
        return *ret_path != NULL ? SBX_CLI_OK : sbx_cli_out_of_memory(cli);
}

int sbx_logs_directory_open(struct sbx_cli *cli, const char *path, struct sbx_logs_directory *ret_directory) {
        int r = find_path(cli, path, &ret_directory->path);

        if (r != SBX_CLI_OK)
                return r;
        ret_directory->fd = open(ret_directory->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (ret_directory->fd < 0 && errno != ENOENT) {
                sbx_cli_error(cli, "set log_dir, or give the directory with --dir", "can't open %s: %s",
                              ret_directory->path, strerror(errno));
                return SBX_CLI_USAGE;
        }
        return SBX_CLI_OK;
}

void sbx_logs_directory_close(struct sbx_logs_directory *directory) {
        free(directory->path);
        if (directory->fd >= 0)
                close(directory->fd);
        *directory = (struct sbx_logs_directory){.fd = -1};
}

/* ---- names ---- */

static bool is_id(const char *text, size_t size) {
        for (size_t i = 0; i < size; i++)
                if ((text[i] < 'a' || text[i] > 'z') && (text[i] < 'A' || text[i] > 'Z') &&
                    (text[i] < '0' || text[i] > '9') && text[i] != '-')
                        return false;
        return size > 0 && size <= SBX_LOGS_ID_MAX;
}

static int add_name(struct sbx_logs_names *names, const char *id, size_t size, const struct timespec *modified) {
        struct sbx_logs_name *name;

        if (names->count == names->capacity) {
                size_t capacity = names->capacity > 0 ? names->capacity * 2 : 256;
                struct sbx_logs_name *items = reallocarray(names->items, capacity, sizeof(*items));

                if (items == NULL)
                        return -ENOMEM;
                names->items = items;
                names->capacity = capacity;
        }
        name = &names->items[names->count++];
        *name = (struct sbx_logs_name){.modified = *modified};
        memcpy(name->id, id, size);
        return 0;
}

static int read_names(DIR *dir, struct sbx_logs_names *names) {
        const struct dirent *entry;

        while ((errno = 0, entry = readdir(dir)) != NULL) {
                size_t size = strlen(entry->d_name), suffix = strlen(SUFFIX);
                struct stat st;

                if (size <= suffix || strcmp(entry->d_name + size - suffix, SUFFIX) != 0 ||
                    !is_id(entry->d_name, size - suffix) ||
                    fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
                        continue;
                if (add_name(names, entry->d_name, size - suffix, &st.st_mtim) < 0)
                        return -ENOMEM;
        }
        return -errno;
}

static int by_id(const void *left, const void *right) {
        const struct sbx_logs_name *one = left, *other = right;

        return strcmp(one->id, other->id);
}

/* The first character in which they differ, counted from 1. */
static unsigned differ_at(const char *one, const char *other) {
        unsigned i = 0;

        while (one[i] != '\0' && one[i] == other[i])
                i++;
        return i + 1;
}

static void find_unique(struct sbx_logs_names *names) {
        for (size_t i = 0; i < names->count; i++) {
                struct sbx_logs_name *name = &names->items[i];
                unsigned size = (unsigned)strlen(name->id), unique = UNIQUE_MIN;

                if (i > 0 && differ_at(name->id, names->items[i - 1].id) > unique)
                        unique = differ_at(name->id, names->items[i - 1].id);
                if (i + 1 < names->count && differ_at(name->id, names->items[i + 1].id) > unique)
                        unique = differ_at(name->id, names->items[i + 1].id);
                name->unique = unique < size ? unique : size;
        }
}

int sbx_logs_names_read(const struct sbx_logs_directory *directory, struct sbx_logs_names *ret_names,
                        struct sbx_error *err) {
        _cleanup_closedir_ DIR *dir = NULL;
        int fd, r;

        if (directory->fd < 0)
                return 0;
        fd = openat(directory->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        dir = fd >= 0 ? fdopendir(fd) : NULL;
        if (dir == NULL) {
                r = -errno;
                if (fd >= 0)
                        close(fd);
        } else {
                r = read_names(dir, ret_names);
        }
        if (r < 0)
                return sbx_error_set(err, r, ORIGIN, NULL, "can't read %s: %s", directory->path, SBX_ERRNO_TEXT(r));
        if (ret_names->count > 1)
                qsort(ret_names->items, ret_names->count, sizeof(ret_names->items[0]), by_id);
        find_unique(ret_names);
        return 0;
}

void sbx_logs_names_free(struct sbx_logs_names *names) {
        free(names->items);
        *names = (struct sbx_logs_names){0};
}

/* ---- one of them ---- */

int sbx_logs_file_open(const struct sbx_logs_directory *directory, const char *id, int *ret_fd, struct sbx_error *err) {
        char name[SBX_LOGS_ID_MAX + sizeof(SUFFIX)];
        struct stat st;
        int fd;

        snprintf(name, sizeof(name), "%s" SUFFIX, id);
        fd = openat(directory->fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (fd < 0)
                return sbx_error_set(err, -errno, ORIGIN, NULL, "can't open %s/%s: %s", directory->path, name,
                                     SBX_ERRNO_TEXT(errno));
        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
                close(fd);
                return sbx_error_set(err, -EINVAL, ORIGIN, NULL, "%s/%s is not a regular file", directory->path, name);
        }
        *ret_fd = fd;
        return 0;
}

/* The only one that begins with `text`. */
static const struct sbx_logs_name *choose(const struct sbx_cli *cli, const struct sbx_logs_directory *directory,
                                          const struct sbx_logs_names *names, const char *text, int *ret_exit) {
        _cleanup_buffer_ struct sbx_buffer candidates = SBX_BUFFER(1024);
        const struct sbx_logs_name *found = NULL;
        size_t size = strlen(text), count = 0;

        for (size_t i = 0; i < names->count; i++) {
                if (strcmp(names->items[i].id, text) == 0)
                        return &names->items[i];
                if (strncmp(names->items[i].id, text, size) != 0)
                        continue;
                found = &names->items[i];
                if (count++ < CANDIDATES_MAX)
                        (void)sbx_buffer_printf(&candidates, "%s%s", count > 1 ? ", " : "it may be ", found->id);
        }
        if (count == 1 && size >= PREFIX_MIN)
                return found;
        *ret_exit = count > 0 ? SBX_CLI_USAGE : SBX_CLI_FAILED;
        if (count == 1)
                sbx_cli_error(cli, candidates.data, "%s is too short: give %u characters of the id at least", text,
                              PREFIX_MIN);
        else if (count > 1)
                sbx_cli_error(cli, candidates.data, "%zu trajectories begin with %s", count, text);
        else
                sbx_cli_error(cli, "'logs' lists them; --dir looks elsewhere", "Trajectory not found: %s (in %s)", text,
                              directory->path);
        return NULL;
}

int sbx_logs_find(const struct sbx_cli *cli, const struct sbx_logs_directory *directory, const char *text,
                  char ret_id[SBX_LOGS_ID_MAX + 1], int *ret_fd) {
        _cleanup_logs_names_ struct sbx_logs_names names = {0};
        const struct sbx_logs_name *name;
        struct sbx_error err = {0};
        int r, result = SBX_CLI_FAILED;

        if (!is_id(text, strlen(text))) {
                sbx_cli_error(cli, "'logs' lists them", "%s is no id of a trajectory", text);
                return SBX_CLI_USAGE;
        }
        r = sbx_logs_names_read(directory, &names, &err);
        if (r < 0)
                return sbx_cli_fail(cli, r, &err);
        name = choose(cli, directory, &names, text, &result);
        if (name == NULL)
                return result;
        r = sbx_logs_file_open(directory, name->id, ret_fd, &err);
        if (r < 0)
                return sbx_cli_fail(cli, r, &err);
        snprintf(ret_id, SBX_LOGS_ID_MAX + 1, "%s", name->id);
        return SBX_CLI_OK;
}

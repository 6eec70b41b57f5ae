/* SPDX-License-Identifier: Apache-2.0 */
/* The options of an instance: the table, and reading it; where the database is. */
#include "options.h"

#include <sha256.h>
#include <stdio.h>
#include <sys/stat.h>

#define OPTION(kind, option_name, value, ...)                                                                          \
        {                                                                                                              \
                .struct_size = sizeof(struct sbx_option), .type = SBX_OPTION_##kind, .name = (option_name),            \
                .default_value = (value), __VA_ARGS__                                                                  \
        }

const struct sbx_option files_option_table[] = {
        OPTION(PATH, "database", NULL,
               .help = "The database file; unset: one for each project in the state directory, below context-files/."),
        OPTION(STRINGS, "exclude", "",
               .help = "More files to leave out, as in a .gitignore; \"!\" takes a built-in pattern back. Letter case "
                       "does "
                       "not matter."),
        OPTION(SIZE, "max_file_size", "1m", .minimum = 1024, .maximum = 8 << 20, .help = "Longer files are left out."),
        OPTION(SIZE, "max_total_size", "256m", .minimum = 65536, .maximum = INT64_C(16) << 30,
               .help = "Most text that is indexed; files beyond it are left out, and answers say so."),
        OPTION(INT, "max_files", "50000", .unit = "files", .minimum = 1, .maximum = 1000000,
               .help = "Most files that are indexed; those beyond it are left out, and answers say so."),
        OPTION(DURATION, "refresh", "2s", .minimum = 0, .maximum = 86400000,
               .help = "How old the last look at the project may be before a call looks again."),
        OPTION(DURATION, "wait", "15s", .minimum = 0, .maximum = 600000,
               .help = "How long a call waits for indexing before it answers from what is indexed."),
        OPTION(INT, "max_memories", "10000", .unit = "memories", .minimum = 1, .maximum = 1000000,
               .help = "Most memories that are kept."),
        {.struct_size = sizeof(struct sbx_option)},
};

/* STATE/context-files/<SHA-256 of the project's path>.db */
static int default_database(const struct sbx_host *host, const char *project, char **ret_path, struct sbx_error *err) {
        const char *state = host->directory(host->self, "state");
        char digest[SHA256_DIGEST_STRING_LENGTH];
        char *path;

        if (state == NULL)
                return sbx_error_set(err, -ENOENT, FILES_ORIGIN, "Set XDG_STATE_HOME or HOME, or set `database`.",
                                     "there is no state directory for the index");
        SHA256Data((const uint8_t *)project, strlen(project), digest);
        if (asprintf(&path, "%s/context-files/%s.db", state, digest) < 0)
                return files_nomem(err);
        *ret_path = path;
        return 0;
}

/* The directory without links, so that SQLite is given a path in which nothing moves; the file keeps its name. */
static int resolve_database(const char *path, char **ret_path, struct sbx_error *err) {
        const char *slash = strrchr(path, '/');
        _cleanup_free_ char *directory = strndup(path, slash > path ? (size_t)(slash - path) : 1), *real = NULL;
        char *joined;

        if (directory == NULL)
                return files_nomem(err);
        real = realpath(directory, NULL);
        if (real == NULL)
                return sbx_error_set(err, -errno, FILES_ORIGIN,
                                     "Make the directory, or set `database` to another path.",
                                     "can't use %s for the index: %s", directory, strerrordesc_np(errno));
        if (asprintf(&joined, "%s/%s", strcmp(real, "/") == 0 ? "" : real, slash + 1) < 0)
                return files_nomem(err);
        *ret_path = joined;
        return 0;
}

/* Trajectories repeat prompts, results and what was retrieved: found again, they would feed on themselves. NULL: the
 * logs are not below the project; or out of memory, which `*ret_failed` says. */
static char *log_pattern(const struct sbx_host *host, bool *ret_failed) {
        const char *directory = host->setting(host->self, "log_dir");
        const char *project = host->directory(host->self, "project");
        size_t length = strlen(project), size = 0;
        char *pattern;

        *ret_failed = false;
        if (directory == NULL || strncmp(directory, project, length) != 0 || directory[length] != '/')
                return NULL;
        pattern = malloc(2 * strlen(directory) + 2);
        *ret_failed = pattern == NULL;
        for (const char *at = directory + length; pattern != NULL && *at != '\0'; at++) {
                if (strchr("*?[]\\!# ", *at) != NULL)
                        pattern[size++] = '\\';
                pattern[size++] = *at;
        }
        if (pattern != NULL)
                memcpy(pattern + size, "/", 2);
        return pattern;
}

static int read_exclude(const struct sbx_host *host, struct files_options *options, struct sbx_error *err) {
        size_t count = host->option_count(host->self, "exclude");
        bool failed;

        options->exclude = calloc(count + 2, sizeof(*options->exclude));
        options->logs = log_pattern(host, &failed);
        if (options->exclude == NULL || failed)
                return files_nomem(err);
        if (options->logs != NULL)
                options->exclude[options->exclude_count++] = options->logs;
        for (size_t i = 0; i < count; i++) /* behind it: a "!" can take it back */
                options->exclude[options->exclude_count++] = host->option_item(host->self, "exclude", i);
        return 0;
}

static int read_project(const struct sbx_host *host, struct files_options *options, struct sbx_error *err) {
        const char *directory = host->directory(host->self, "project");

        if (directory == NULL)
                return sbx_error_set(err, -ENOENT, FILES_ORIGIN, NULL, "the host names no project directory");
        options->project = realpath(directory, NULL);
        if (options->project == NULL)
                return sbx_error_set(err, -errno, FILES_ORIGIN, "Start in the project's directory.",
                                     "can't use the project directory %s: %s", directory, strerrordesc_np(errno));
        return 0;
}

static uint64_t read_number(const struct sbx_host *host, const char *name) {
        return (uint64_t)host->option_int(host->self, name);
}

int options_read(const struct sbx_host *host, struct files_options *ret_options, struct sbx_error *err) {
        const char *database = host->option_string(host->self, "database");
        const char *memory = host->setting(host->self, "memory_enabled");
        struct files_options options = {
                .host = host,
                .file_bytes_max = read_number(host, "max_file_size"),
                .total_bytes_max = read_number(host, "max_total_size"),
                .files_max = read_number(host, "max_files"),
                .refresh_ns = read_number(host, "refresh") * NS_PER_MS,
                .wait_ns = read_number(host, "wait") * NS_PER_MS,
                .memories_max = read_number(host, "max_memories"),
                .memory = memory != NULL && strcmp(memory, "true") == 0,
        };
        int r = read_project(host, &options, err);

        if (r == 0)
                r = read_exclude(host, &options, err);
        if (r == 0)
                r = database != NULL ? resolve_database(database, &options.database, err)
                                     : default_database(host, options.project, &options.database, err);
        if (r < 0) {
                options_free(&options);
                return r;
        }
        *ret_options = options;
        return 0;
}

int options_make_directory(const struct files_options *options, struct sbx_error *err) {
        const struct sbx_host *host = options->host;
        _cleanup_free_ char *directory = NULL;
        struct stat st;

        if (host->option_string(host->self, "database") != NULL)
                return 0;
        directory = strndup(options->database, (size_t)(strrchr(options->database, '/') - options->database));
        if (directory == NULL)
                return files_nomem(err);
        if ((mkdir(directory, 0700) < 0 && errno != EEXIST) || lstat(directory, &st) < 0)
                return sbx_error_set(err, -errno, FILES_ORIGIN, "Make it by hand, or set `database`.",
                                     "can't make the directory %s: %s", directory, strerrordesc_np(errno));
        if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 022) != 0)
                return sbx_error_set(err, -EPERM, FILES_ORIGIN,
                                     "Move it away; one that only you can write is made in its place.",
                                     "%s is not a directory of this user's alone (owner %u, mode %03o)", directory,
                                     st.st_uid, st.st_mode & 07777);
        return 0;
}

void options_free(struct files_options *options) {
        free(options->project);
        free(options->database);
        free(options->exclude);
        free(options->logs);
        *options = (struct files_options){0};
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The option table, and what must hold between options. */
#include "options.h"

#include <sys/stat.h>

#include "util.h"

#define MIB (INT64_C(1) << 20)
#define GIB (INT64_C(1) << 30)

#define OPTION(type_, name_, ...)                                                                                      \
        { .struct_size = sizeof(struct sbx_option), .type = (type_), .name = (name_), __VA_ARGS__ }

const struct sbx_option local_option_table[] = {
        OPTION(SBX_OPTION_ENUM, "isolation", .default_value = "namespaces", .choices = "namespaces|landlock|none",
               .help = "How guests are kept in: every layer (namespaces), Landlock, seccomp and limits without "
                       "namespaces (landlock), or limits alone (none). What can't be had is an error, never left out."),
        OPTION(SBX_OPTION_PATH, "python",
               .help = "The interpreter: any CPython from 3.9, that of a virtual environment too. Unset: python3 of "
                       "/usr/bin, /usr/local/bin or /bin."),
        OPTION(SBX_OPTION_PATH, "node",
               .help = "Node from 18, for sessions of it. Unset: node of /usr/bin or /usr/local/bin, if there is one."),
        OPTION(SBX_OPTION_STRINGS, "preload",
               .default_value = "json,re,math,random,collections,itertools,functools,datetime",
               .help = "Modules that are imported before any session starts, so that importing them costs nothing."),
        OPTION(SBX_OPTION_STRINGS, "read_only_paths",
               .help = "Directories and files of this machine that guests may read and execute, besides /usr and the "
                       "interpreter."),
        OPTION(SBX_OPTION_ENUM, "workspace", .default_value = "none", .choices = "none|ro|rw",
               .help = "What /workspace is: an empty directory of each guest (none), or workspace_path, to be read "
                       "(ro) "
                       "or changed (rw) by all of them."),
        OPTION(SBX_OPTION_PATH, "workspace_path", .help = "The directory for workspace = \"ro\" or \"rw\"."),
        OPTION(SBX_OPTION_SIZE, "tmp_size", .default_value = "64m", .minimum = MIB, .maximum = 64 * GIB,
               .unit = "bytes", .help = "Size of each guest's /tmp, and of its /dev/shm."),
        OPTION(SBX_OPTION_SIZE, "workspace_size", .default_value = "256m", .minimum = MIB, .maximum = 64 * GIB,
               .unit = "bytes", .help = "Size of each guest's own /workspace (workspace = \"none\")."),
        OPTION(SBX_OPTION_SIZE, "memory", .default_value = "512m", .minimum = 16 * MIB, .maximum = 1024 * GIB,
               .unit = "bytes",
               .help = "Memory of a guest, all its processes and files in memory together, unless a "
                       "profile says otherwise."),
        OPTION(SBX_OPTION_SIZE, "memory_max", .default_value = "4g", .minimum = 16 * MIB, .maximum = 1024 * GIB,
               .unit = "bytes", .help = "The most memory that any profile may give to a guest."),
        OPTION(SBX_OPTION_INT, "pids", .default_value = "128", .minimum = 4, .maximum = 32768,
               .unit = "processes and threads", .help = "How many processes and threads a guest may have."),
        OPTION(SBX_OPTION_INT, "cpu_percent", .default_value = "100", .minimum = 0, .maximum = 100000,
               .unit = "percent of one CPU", .help = "CPU share of a guest; 0 is no limit."),
        OPTION(SBX_OPTION_ENUM, "cgroup", .default_value = "required", .choices = "required|auto|off",
               .help = "Whether control groups must limit memory, processes and CPU (required), do as far as they can "
                       "(auto), or are not used (off). Without them resource limits of each process are the wall."),
        OPTION(SBX_OPTION_PATH, "cgroup_base",
               .help = "A directory of cgroup v2 that was delegated to this user. Unset: this process's own cgroup."),
        OPTION(SBX_OPTION_INT, "user", .default_value = "65534", .minimum = 1, .maximum = 4294967294,
               .help = "The uid and gid that guests have outside, when the server runs as root."),
        {0},
};

static const char **copy_list(const struct sbx_host *host, const char *name) {
        size_t count = host->option_count(host->self, name);
        const char **list = calloc(count + 1, sizeof(*list));

        for (size_t i = 0; list != NULL && i < count; i++)
                list[i] = host->option_item(host->self, name, i);
        return list;
}

static int word_index(const char *word, const char *const *words) {
        for (int i = 0; words[i] != NULL; i++)
                if (word != NULL && strcmp(words[i], word) == 0)
                        return i;
        return 0;
}

static bool has_dots(const char *path) {
        for (const char *at = path; (at = strchr(at, '/')) != NULL;) {
                size_t length = strcspn(++at, "/");

                if ((length == 1 && at[0] == '.') || (length == 2 && at[0] == '.' && at[1] == '.'))
                        return true;
        }
        return false;
}

static int check_read_only(const char *path, struct sbx_error *err) {
        /* Whole trees that are the jail's own, or would open the host's. */
        static const char *const whole[] = {"/", "/tmp", "/dev", "/dev/shm", "/workspace", "/run", "/var/run", NULL};
        static const char *const below[] = {"/proc", "/sys", "/dev", "/run/sbx"};
        struct stat st;

        if (path[0] != '/' || has_dots(path))
                return sbx_error_set(err, -EINVAL, LOCAL_ORIGIN, "write it out, beginning with /, without . and ..",
                                     "read_only_paths: \"%s\" is no absolute path", path);
        for (size_t i = 0; whole[i] != NULL; i++)
                if (strcmp(path, whole[i]) == 0)
                        return sbx_error_set(err, -EINVAL, LOCAL_ORIGIN, "name what is needed of it",
                                             "read_only_paths: %s can't be shown to guests", path);
        for (size_t i = 0; i < sizeof(below) / sizeof(below[0]); i++) {
                size_t length = strlen(below[i]);

                if (strncmp(path, below[i], length) == 0 && (path[length] == '/' || path[length] == '\0'))
                        return sbx_error_set(err, -EINVAL, LOCAL_ORIGIN, "leave it out",
                                             "read_only_paths: nothing of %s can be shown to guests", below[i]);
        }
        if (stat(path, &st) < 0)
                return sbx_error_set(err, -errno, LOCAL_ORIGIN, "leave it out, or create it", "read_only_paths: %s: %s",
                                     path, strerror(errno));
        if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
                return sbx_error_set(err, -EINVAL, LOCAL_ORIGIN,
                                     "a socket or a device would let guests reach what is behind it",
                                     "read_only_paths: %s is neither a directory nor a file", path);
        return 0;
}

static int check_workspace(const struct local_options *options, struct sbx_error *err) {
        struct stat st;

        if (options->workspace == JAIL_WORKSPACE_NONE)
                return 0;
        if (options->workspace_path == NULL)
                return sbx_error_set(err, -EINVAL, LOCAL_ORIGIN, "set workspace_path = \"/some/directory\"",
                                     "workspace is \"ro\" or \"rw\", but there is no workspace_path");
        if (stat(options->workspace_path, &st) < 0 || !S_ISDIR(st.st_mode))
                return sbx_error_set(err, -ENOENT, LOCAL_ORIGIN, "create it, or name another",
                                     "workspace_path: %s is no directory", options->workspace_path);
        if (strcmp(options->workspace_path, "/") == 0)
                return sbx_error_set(err, -EINVAL, LOCAL_ORIGIN, "name one directory",
                                     "workspace_path: the whole machine can't be shown to guests");
        return 0;
}

static int check(const struct local_options *options, struct sbx_error *err) {
        int r = check_workspace(options, err);

        for (size_t i = 0; r == 0 && options->read_only[i] != NULL; i++)
                r = check_read_only(options->read_only[i], err);
        for (size_t i = 0; r == 0 && options->preload[i] != NULL; i++)
                if (options->preload[i][0] == '\0' || strchr(options->preload[i], ',') != NULL)
                        r = sbx_error_set(err, -EINVAL, LOCAL_ORIGIN, "one module in each string",
                                          "preload: \"%s\" is no module", options->preload[i]);
        if (r == 0 && options->memory_bytes > options->memory_max_bytes)
                r = sbx_error_set(err, -EINVAL, LOCAL_ORIGIN, "raise memory_max, or lower memory",
                                  "memory is more than memory_max");
        return r;
}

int local_options_read(const struct sbx_host *host, struct local_options *ret, struct sbx_error *err) {
        static const char *const isolations[] = {"", "namespaces", "landlock", "none", NULL};
        static const char *const workspaces[] = {"none", "ro", "rw", NULL};
        struct sbx_host_state *self = host->self;
        struct local_options options = {
                .isolation_name = host->option_string(self, "isolation"),
                .python = host->option_string(self, "python"),
                .node = host->option_string(self, "node"),
                .workspace_path = host->option_string(self, "workspace_path"),
                .tmp_bytes = (uint64_t)host->option_int(self, "tmp_size"),
                .workspace_bytes = (uint64_t)host->option_int(self, "workspace_size"),
                .memory_bytes = (uint64_t)host->option_int(self, "memory"),
                .memory_max_bytes = (uint64_t)host->option_int(self, "memory_max"),
                .pids_max = (uint32_t)host->option_int(self, "pids"),
                .cpu_percent = (uint32_t)host->option_int(self, "cpu_percent"),
                .cgroup = host->option_string(self, "cgroup"),
                .cgroup_base = host->option_string(self, "cgroup_base"),
                .user = (uid_t)host->option_int(self, "user"),
        };
        int r;

        options.isolation = (enum jail_isolation)word_index(options.isolation_name, isolations);
        options.workspace = (enum jail_workspace)word_index(host->option_string(self, "workspace"), workspaces);
        options.preload = copy_list(host, "preload");
        options.read_only = copy_list(host, "read_only_paths");
        if (options.preload == NULL || options.read_only == NULL)
                r = sbx_error_set(err, -ENOMEM, LOCAL_ORIGIN, NULL, "out of memory");
        else if (options.isolation == 0)
                r = sbx_error_set(err, -EINVAL, LOCAL_ORIGIN, "one of namespaces, landlock, none", "unknown isolation");
        else
                r = check(&options, err);
        if (r < 0) {
                local_options_free(&options);
                return r;
        }
        *ret = options;
        return 0;
}

void local_options_free(struct local_options *options) {
        free(options->preload);
        free(options->read_only);
        options->preload = options->read_only = NULL;
}

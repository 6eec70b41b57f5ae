/* SPDX-License-Identifier: Apache-2.0 */
/* The option table, options out of it and out of the program's own settings, and what must hold between them. */
#include "options.h"

#include <ctype.h>
#include <locale.h>

#include "options_internal.h"
#include "util.h"

#define MIB (INT64_C(1) << 20)
#define GIB (INT64_C(1) << 30)
#define DEFAULT_MEMORY (512 * MIB)
#define ID_MAX 4294967294u /* the largest uid that is one */

#define OPTION(type_, name_, help_, ...)                                                                               \
        {                                                                                                              \
                .struct_size = sizeof(struct sbx_option), .type = SBX_OPTION_##type_, .name = name_, .help = help_,    \
                __VA_ARGS__                                                                                            \
        }

/* What has no default here is taken from the program's docker_* settings, see below. */
const struct sbx_option docker_option_table[] = {
        /* the engine */
        OPTION(STRING, "engine",
               "Where the engine is: auto, unix:///path, or tcp://host:port. Unset: DOCKER_HOST or CONTAINER_HOST, else "
               "auto, which looks for the sockets of Docker and Podman."),
        OPTION(PATH, "tls.ca",
               "Certificates (PEM) that the engine's is checked against. Unset: DOCKER_CERT_PATH/ca.pem."),
        OPTION(PATH, "tls.certificate", "Certificate (PEM) shown to the engine. Unset: DOCKER_CERT_PATH/cert.pem."),
        OPTION(PATH, "tls.key", "Its key (PEM). Unset: DOCKER_CERT_PATH/key.pem."),
        OPTION(DURATION, "timeout", "Longest wait for the engine's answer to a request that takes no time by itself.",
               .default_value = "30s", .minimum = 100, .maximum = 600000),
        OPTION(DURATION, "reconnect",
               "How long sessions that have nothing under way wait for an engine that went away. 0: not at all.",
               .default_value = "15s", .minimum = 0, .maximum = 600000),

        /* images */
        OPTION(STRING, "image", "Image of the runtimes python and bash. Unset: docker_image (python:3.11-slim)."),
        OPTION(STRINGS, "runtimes",
               "More runtimes, or other images for those that there are: \"python3.12=registry/image:tag\", or "
               "\"name:family=image\" with the family python, node or bash."),
        OPTION(ENUM, "pull", "When images are pulled.", .default_value = "missing", .choices = "missing|always|never"),
        OPTION(PATH, "registry_config",
               "Docker's config.json with credentials of registries. Unset: that of DOCKER_CONFIG or ~/.docker."),
        OPTION(ENUM, "workspace_setup",
               "What is installed into an image made for the project. Unset: docker_workspace_setup (none).",
               .choices = "none|package|tests-only|dev"),
        OPTION(STRING, "workspace_install_command",
               "Command that installs into that image, instead of what workspace_setup means."),
        OPTION(STRINGS, "workspace_install_extras",
               "Requirement specifiers to install on top of it (\"requests>=2.31\")."),
        OPTION(DURATION, "build_timeout", "Longest time that making such an image, or pulling one, may take.",
               .default_value = "30m", .minimum = 1000, .maximum = 86400000),

        /* isolation */
        OPTION(STRING, "network",
               "none, or the name of one of the engine's networks. Unset: as docker_network_disabled says (none)."),
        OPTION(STRING, "runtime",
               "OCI runtime of containers, by the engine's name for it: runsc, kata. Unset: the "
               "engine's own."),
        OPTION(PATH, "seccomp", "Seccomp profile (JSON) instead of the engine's."),
        OPTION(ENUM, "userns",
               "User namespace of containers: auto (Podman), or host to use none where the engine has them. Unset: as "
               "the engine is configured.",
               .choices = "auto|host"),
        OPTION(STRING, "user", "uid, or uid:gid, of code; owner: those of a writable workspace.",
               .default_value = "65534:65534"),
        OPTION(BOOL, "read_only", "Whether the image's files are read-only to code.", .default_value = "true"),
        OPTION(ENUM, "init",
               "An init program of the engine as process 1. auto: where the worker does not do that by itself (Node).",
               .default_value = "auto", .choices = "auto|yes|no"),
        OPTION(SIZE, "memory",
               "Memory of a container, files in memory included, unless a profile says otherwise. Unset: docker_memory "
               "(512m).",
               .minimum = 6 * MIB, .maximum = 1024 * GIB, .unit = "bytes"),
        OPTION(SIZE, "memory_max", "The most memory that any profile may give to a container.", .default_value = "4g",
               .minimum = 6 * MIB, .maximum = 1024 * GIB, .unit = "bytes"),
        OPTION(FLOAT, "cpus", "CPUs of a container. Unset or 0: docker_cpus (1.0).", .unit = "CPUs", .minimum = 0,
               .maximum = 1024),
        OPTION(INT, "pids", "How many processes and threads a container may have.", .default_value = "128",
               .unit = "processes and threads", .minimum = 8, .maximum = 32768),
        OPTION(SIZE, "shm", "Size of /dev/shm.", .default_value = "64m", .minimum = MIB, .maximum = 64 * GIB,
               .unit = "bytes"),
        OPTION(SIZE, "tmp_size", "Size of /tmp.", .default_value = "64m", .minimum = MIB, .maximum = 64 * GIB,
               .unit = "bytes"),
        OPTION(SIZE, "workspace_size", "Size of the workspace when it is the container's own (workspace = \"none\").",
               .default_value = "256m", .minimum = MIB, .maximum = 64 * GIB, .unit = "bytes"),
        OPTION(SIZE, "disk",
               "Limit of what is written into a container whose files are not read-only, where the engine's storage "
               "driver has one. 0: none.",
               .default_value = "0", .minimum = 0, .maximum = 1024 * GIB, .unit = "bytes"),
        OPTION(STRINGS, "environment", "\"NAME=value\" that code sees in its environment. Nothing of the host's is."),

        /* the workspace */
        OPTION(ENUM, "workspace",
               "What the workspace is: an empty directory of each container (none), or workspace_path, to be read (ro) "
               "or changed (rw). Unset: ro, or none if docker_mount_workspace is false.",
               .choices = "none|ro|rw"),
        OPTION(PATH, "workspace_path",
               "The directory for ro and rw, on the engine's host. Unset: docker_workspace_path, else the project."),
        OPTION(STRING, "workspace_target", "Where code finds the workspace; it starts there.",
               .default_value = "/workspace"),

        /* lifetime */
        OPTION(ENUM, "scope",
               "Who shares a container: nobody (session), all sessions of one owner (agent), or all sessions (shared).",
               .default_value = "session", .choices = "session|agent|shared"),
        OPTION(DURATION, "ttl", "How long a container of scope agent or shared lives on without a session.",
               .default_value = "1h", .minimum = 1000, .maximum = 2592000000),
        {.struct_size = sizeof(struct sbx_option)},
};

static const char *text_or_null(const char *text) {
        return text != NULL && text[0] != '\0' ? text : NULL;
}

static const char *option_text(const struct sbx_host *host, const char *name) {
        return text_or_null(host->option_string(host->self, name));
}

static const char *setting_text(const struct sbx_host *host, const char *name) {
        return text_or_null(host->setting(host->self, name));
}

static const char *own_or_setting(const struct sbx_host *host, const char *name, const char *setting) {
        const char *own = option_text(host, name);

        return own != NULL ? own : setting_text(host, setting);
}

static int word_index(const char *word, const char *const *words) {
        for (int i = 0; word != NULL && words[i] != NULL; i++)
                if (strcmp(words[i], word) == 0)
                        return i;
        return 0;
}

static int bad(struct sbx_error *err, const char *name, const char *value, const char *hint) {
        return sbx_error_set(err, -EINVAL, DOCKER_OPTIONS_ORIGIN, hint, "%s: \"%s\" can't be used", name, value);
}

/* Decimal digits alone, as uids and the program's own settings are written. */
static bool read_number(const char *text, size_t length, uint64_t maximum, uint64_t *ret) {
        uint64_t value = 0;

        for (size_t i = 0; i < length; i++) {
                unsigned digit = (unsigned)(text[i] - '0');

                if (text[i] < '0' || text[i] > '9' || value > (maximum - digit) / 10)
                        return false;
                value = value * 10 + digit;
        }
        *ret = value;
        return length > 0;
}

/* The program writes numbers with a point, and the process may have another locale. */
static int read_cpus(const struct sbx_host *host, double *ret_cpus, struct sbx_error *err) {
        double own = host->option_float(host->self, "cpus"), value;
        const char *text = setting_text(host, "docker_cpus");
        locale_t plain;
        char *end;

        *ret_cpus = own > 0 ? own : 1;
        if (own > 0 || text == NULL)
                return 0;
        plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
        if (plain == (locale_t)0)
                return sbx_error_set(err, -ENOMEM, DOCKER_OPTIONS_ORIGIN, NULL, "out of memory");
        value = strtod_l(text, &end, plain);
        freelocale(plain);
        if (end == text || *end != '\0' || !(value >= 0 && value <= 1024))
                return bad(err, "docker_cpus", text, "Set it to a number from 0 to 1024.");
        *ret_cpus = value;
        return 0;
}

static int read_memory(const struct sbx_host *host, struct docker_options *options, struct sbx_error *err) {
        const char *text = setting_text(host, "docker_memory");

        options->memory_max_bytes = (uint64_t)host->option_int(host->self, "memory_max");
        options->memory_bytes = (uint64_t)host->option_int(host->self, "memory");
        if (options->memory_bytes == 0 && text == NULL)
                options->memory_bytes = DEFAULT_MEMORY;
        else if (options->memory_bytes == 0 &&
                 !read_number(text, strlen(text), UINT64_C(1) << 50, &options->memory_bytes))
                return bad(err, "docker_memory", text, "Set it to a size: docker_memory = \"512m\".");
        if (options->memory_bytes > options->memory_max_bytes)
                return sbx_error_set(err, -EINVAL, DOCKER_OPTIONS_ORIGIN, "Raise memory_max, or lower memory.",
                                     "memory is more than memory_max");
        return 0;
}

/* Names of networks as engines take them; never "host" or "container:...", which are no isolation at all. */
static int read_network(const struct sbx_host *host, struct docker_options *options, struct sbx_error *err) {
        const char *name = option_text(host, "network"), *disabled = setting_text(host, "docker_network_disabled");

        if (name == NULL)
                name = disabled != NULL && strcmp(disabled, "false") == 0 ? "bridge" : "none";
        if (strcmp(name, "host") == 0)
                return sbx_error_set(err, -EINVAL, DOCKER_OPTIONS_ORIGIN,
                                     "Use \"none\", or a network made with `docker network create`.",
                                     "network: \"host\" would give code every service of the engine's machine");
        if (!docker_word_ok(name, "_.-"))
                return bad(err, "network", name, "Use \"none\", or a network made with `docker network create`.");
        options->network = name;
        return 0;
}

static int read_user(const struct sbx_host *host, struct docker_options *options, struct sbx_error *err) {
        const char *user = option_text(host, "user"), *colon;
        uint64_t uid, gid = 1;

        options->user = user != NULL ? user : "65534:65534";
        if (strcmp(options->user, "owner") == 0) {
                if (options->workspace == DOCKER_WORKSPACE_NONE)
                        return sbx_error_set(err, -EINVAL, DOCKER_OPTIONS_ORIGIN,
                                             "Set workspace = \"rw\", or user to a uid.",
                                             "user is \"owner\", but there is no workspace that has one");
                return 0;
        }
        colon = strchr(options->user, ':');
        if (!read_number(options->user, colon != NULL ? (size_t)(colon - options->user) : strlen(options->user), ID_MAX,
                         &uid) ||
            (colon != NULL && !read_number(colon + 1, strlen(colon + 1), ID_MAX, &gid)) || uid == 0 || gid == 0)
                return bad(err, "user", options->user, "Set it to uid:gid, neither of them 0: user = \"65534:65534\".");
        return 0;
}

static bool target_ok(const char *path) {
        static const char *const taken[] = {"/", "/tmp", "/dev", "/proc", "/sys", "/etc", "/usr", "/bin", "/lib"};

        if (path[0] != '/' || strlen(path) > 255 || strstr(path, "//") != NULL)
                return false;
        for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
                if (strcmp(path, taken[i]) == 0)
                        return false;
        for (const char *at = path; *at != '\0'; at++) {
                if (!isalnum((unsigned char)*at) && strchr("/._-", *at) == NULL)
                        return false;
                if (at[0] == '/' && at[1] == '.')
                        return false; /* "..", and what is hidden */
        }
        return path[strlen(path) - 1] != '/' && strncmp(path, "/proc/", 6) != 0 && strncmp(path, "/sys/", 5) != 0 &&
               strncmp(path, "/dev/", 5) != 0;
}

static int read_workspace(const struct sbx_host *host, struct docker_options *options, struct sbx_error *err) {
        static const char *const kinds[] = {"none", "ro", "rw", NULL};
        const char *kind = option_text(host, "workspace"), *mount = setting_text(host, "docker_mount_workspace");

        if (kind == NULL)
                kind = mount != NULL && strcmp(mount, "false") == 0 ? "none" : "ro";
        options->workspace = (enum docker_workspace)word_index(kind, kinds);
        options->workspace_path = own_or_setting(host, "workspace_path", "docker_workspace_path");
        if (options->workspace_path != NULL && options->workspace_path[0] != '/')
                return bad(err, "workspace_path", options->workspace_path, "Write it out, beginning with /.");
        if (options->workspace_path != NULL && strcmp(options->workspace_path, "/") == 0)
                return sbx_error_set(err, -EINVAL, DOCKER_OPTIONS_ORIGIN, "Name one directory.",
                                     "workspace_path: the whole machine can't be shown to code");
        options->workspace_target = option_text(host, "workspace_target");
        if (options->workspace_target == NULL)
                options->workspace_target = "/workspace";
        if (!target_ok(options->workspace_target))
                return bad(err, "workspace_target", options->workspace_target,
                           "Use a directory of its own: workspace_target = \"/workspace\".");
        return 0;
}

static bool variable_ok(const char *text) {
        const char *equals = strchr(text, '=');

        if (equals == NULL || equals == text || isdigit((unsigned char)text[0]) || strncmp(text, "SBX_", 4) == 0)
                return false;
        for (const char *at = text; at < equals; at++)
                if (!isalnum((unsigned char)*at) && *at != '_')
                        return false;
        return strlen(text) <= 32768;
}

static int read_environment(const struct sbx_host *host, struct docker_options *options, struct sbx_error *err) {
        size_t count = host->option_count(host->self, "environment");

        options->environment = calloc(count + 1, sizeof(*options->environment));
        if (options->environment == NULL)
                return sbx_error_set(err, -ENOMEM, DOCKER_OPTIONS_ORIGIN, NULL, "out of memory");
        for (size_t i = 0; i < count; i++) {
                const char *text = host->option_item(host->self, "environment", i);

                /* The value may be somebody's secret: it is not shown. */
                if (text == NULL || !variable_ok(text))
                        return sbx_error_set(err, -EINVAL, DOCKER_OPTIONS_ORIGIN,
                                             "Write \"NAME=value\"; names that begin with SBX_ are taken.",
                                             "environment: string %zu is no variable", i + 1);
                options->environment[i] = strdup(text);
                if (options->environment[i] == NULL)
                        return sbx_error_set(err, -ENOMEM, DOCKER_OPTIONS_ORIGIN, NULL, "out of memory");
                options->environment_count++;
        }
        return 0;
}

static void read_engine(const struct sbx_host *host, struct docker_options *options) {
        options->engine = option_text(host, "engine");
        options->tls_ca = option_text(host, "tls.ca");
        options->tls_certificate = option_text(host, "tls.certificate");
        options->tls_key = option_text(host, "tls.key");
        options->timeout_ms = (uint64_t)host->option_int(host->self, "timeout");
        options->reconnect_ms = (uint64_t)host->option_int(host->self, "reconnect");
}

static void read_image_rules(const struct sbx_host *host, struct docker_options *options) {
        static const char *const setups[] = {"none", "package", "tests-only", "dev", NULL};

        options->pull = option_text(host, "pull");
        options->registry_config = option_text(host, "registry_config");
        options->setup = (enum docker_setup)word_index(
                own_or_setting(host, "workspace_setup", "docker_workspace_setup"), setups);
        options->install_command =
                own_or_setting(host, "workspace_install_command", "docker_workspace_install_command");
        options->build_timeout_ms = (uint64_t)host->option_int(host->self, "build_timeout");
}

static int read_isolation(const struct sbx_host *host, struct docker_options *options, struct sbx_error *err) {
        static const char *const scopes[] = {"session", "agent", "shared", NULL};
        const char *init = option_text(host, "init");

        options->runtime = option_text(host, "runtime");
        options->seccomp = option_text(host, "seccomp");
        options->userns = option_text(host, "userns");
        options->read_only = host->option_bool(host->self, "read_only") != 0;
        options->init_auto = init == NULL || strcmp(init, "auto") == 0;
        options->init = init != NULL && strcmp(init, "yes") == 0;
        options->shm_bytes = (uint64_t)host->option_int(host->self, "shm");
        options->tmp_bytes = (uint64_t)host->option_int(host->self, "tmp_size");
        options->workspace_bytes = (uint64_t)host->option_int(host->self, "workspace_size");
        options->disk_bytes = (uint64_t)host->option_int(host->self, "disk");
        options->pids = (uint32_t)host->option_int(host->self, "pids");
        options->scope = (enum docker_scope)word_index(option_text(host, "scope"), scopes);
        options->ttl_ms = (uint64_t)host->option_int(host->self, "ttl");
        if (options->runtime != NULL && !docker_word_ok(options->runtime, "_.-"))
                return bad(err, "runtime", options->runtime, "Use a name that `docker info` lists under Runtimes.");
        return 0;
}

int docker_options_read(const struct sbx_host *host, struct docker_options *ret_options, struct sbx_error *err) {
        struct docker_options options = {0};
        int r;

        if (host->struct_size < offsetof(struct sbx_host, environment) + sizeof(host->environment) ||
            host->setting == NULL || host->environment == NULL)
                return sbx_error_set(err, -ENOTSUP, DOCKER_OPTIONS_ORIGIN,
                                     "Use the snipara-sandbox that this plugin was built for, or a newer one.",
                                     "the host does not hand out settings");
        read_engine(host, &options);
        read_image_rules(host, &options);
        r = read_isolation(host, &options, err);
        if (r == 0)
                r = read_workspace(host, &options, err);
        if (r == 0)
                r = read_user(host, &options, err);
        if (r == 0)
                r = read_network(host, &options, err);
        if (r == 0)
                r = read_memory(host, &options, err);
        if (r == 0)
                r = read_cpus(host, &options.cpus, err);
        if (r == 0)
                r = read_environment(host, &options, err);
        if (r == 0)
                r = docker_extras_read(host, &options, err);
        if (r == 0)
                r = docker_runtimes_read(host, &options, err);
        if (r < 0) {
                docker_options_free(&options);
                return r;
        }
        *ret_options = options;
        return 0;
}

static void free_list(char **list, size_t count) {
        for (size_t i = 0; i < count; i++)
                free(list[i]);
        free(list);
}

void docker_options_free(struct docker_options *options) {
        for (size_t i = 0; i < options->runtime_count; i++) {
                free(options->runtimes[i].name);
                free(options->runtimes[i].image);
        }
        free(options->runtimes);
        free_list(options->install_extras, options->install_extra_count);
        free_list(options->environment, options->environment_count);
        *options = (struct docker_options){0};
}

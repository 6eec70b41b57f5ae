/* SPDX-License-Identifier: Apache-2.0 */
/* What an engine is told to make: https://docs.docker.com/engine/api/v1.41/#operation/ContainerCreate */
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>

#include "container_internal.h"
#include "payload_programs.h"
#include "util.h"

#define SECCOMP_MAX ((size_t)1 << 20)
#define OPEN_FILES 1024
#define PODMAN_EXTRA_TMPFS "rw,nosuid,nodev,noexec,size=1048576,mode=1777"
#define TMPFS_MAX 32 /* volumes of an image that are covered */

static int nomem(struct sbx_error *err) {
        return sbx_error_set(err, -ENOMEM, DOCKER_ORIGIN, NULL, "out of memory");
}

bool engine_is_podman(const struct engine_info *info) {
        return strcmp(info->name, "podman") == 0;
}

struct container_limits container_limits_of(const struct docker_options *options, const struct sbx_limits *asked) {
        struct container_limits limits = {
                .memory_bytes = asked->memory_bytes != 0 ? asked->memory_bytes : options->memory_bytes,
                .nano_cpus = asked->cpu_percent != 0 ? (int64_t)asked->cpu_percent * 10000000
                                                     : (int64_t)(options->cpus * 1e9),
                .pids = asked->pids_max != 0 ? asked->pids_max : options->pids,
        };

        if (limits.memory_bytes > options->memory_max_bytes)
                limits.memory_bytes = options->memory_max_bytes;
        return limits;
}

const char *container_workspace(const struct docker *docker) {
        if (docker->options.workspace == DOCKER_WORKSPACE_NONE)
                return NULL;
        if (docker->options.workspace_path != NULL)
                return docker->options.workspace_path;
        return docker->host->directory(docker->host->self, "project");
}

bool container_has_init(const struct docker *docker, const struct container_wish *wish) {
        const struct docker_options *options = &docker->options;

        if (!options->init_auto)
                return options->init;
        return wish->runtime->family == DOCKER_NODE && engine_info(docker->engine)->init; /* Node buries nobody */
}

/* ---- the workspace */

/* A socket of the engine inside of it would be the way out. */
static bool holds_engine(const struct docker *docker, const char *path) {
        const char *address = engine_info(docker->engine)->place.address;
        size_t length = strlen(path);

        return strncmp(address, "unix://", 7) == 0 && strncmp(address + 7, path, length) == 0 &&
               (address[7 + length] == '/' || path[length - 1] == '/');
}

static int check_workspace(const struct docker *docker, const char *path, struct stat *ret_st, struct sbx_error *err) {
        if (path == NULL || stat(path, ret_st) < 0 || !S_ISDIR(ret_st->st_mode))
                return sbx_error_set(
                        err, -ENOENT, DOCKER_ORIGIN,
                        "Create it, or name another with workspace_path; without one: workspace = \"none\".",
                        "the workspace %s is no directory", path != NULL ? path : "(the project)");
        if (strcmp(path, "/") == 0 || holds_engine(docker, path))
                return sbx_error_set(err, -EINVAL, DOCKER_ORIGIN,
                                     "Name one directory with workspace_path, or set workspace = \"none\".",
                                     "the workspace %s holds the engine's own socket", path);
        return 0;
}

/* "uid:gid" of code. */
static int user_of(const struct docker *docker, const struct stat *workspace, char *text, size_t size,
                   struct sbx_error *err) {
        const struct engine_info *info = engine_info(docker->engine);

        if (strcmp(docker->options.user, "owner") != 0) {
                snprintf(text, size, "%s", docker->options.user);
                return 0;
        }
        if (workspace->st_uid == 0 || workspace->st_gid == 0)
                return sbx_error_set(err, -EINVAL, DOCKER_ORIGIN,
                                     "Give it to another user (chown), or set user to a uid.",
                                     "the workspace belongs to root, and code never runs as root");
        if (info->rootless && !engine_is_podman(info))
                return sbx_error_set(err, -ENOTSUP, DOCKER_ORIGIN,
                                     "Set user to a uid, and let that write there (chmod).",
                                     "rootless Docker can't run code as the workspace's owner");
        snprintf(text, size, "%u:%u", (unsigned)workspace->st_uid, (unsigned)workspace->st_gid);
        return 0;
}

/* Never Binds: there a path that is missing is created. What is mounted below the directory stays out, because
 * ReadOnly would not hold for it. */
static json_t *mounts_of(const struct docker *docker, const char *workspace) {
        if (workspace == NULL)
                return json_array();
        return json_pack("[{s:s, s:s, s:s, s:b, s:{s:s, s:b}}]", "Type", "bind", "Source", workspace, "Target",
                         docker->options.workspace_target, "ReadOnly", docker->options.workspace != DOCKER_WORKSPACE_RW,
                         "BindOptions", "Propagation", "rprivate", "NonRecursive", 1);
}

/* ---- files in memory */

static int add_tmpfs(json_t *tmpfs, const char *path, const char *mode, uint64_t bytes) {
        char options[96];

        snprintf(options, sizeof(options), "rw,nosuid,nodev,exec,size=%" PRIu64 ",mode=%s", bytes, mode);
        return json_object_set_new(tmpfs, path, json_string(options));
}

/* Docker makes the working directory before it mounts there, and runc then gives the mount that directory's mode, which
 * root alone may write to: so it belongs to the user. */
static int add_workspace(json_t *tmpfs, const struct docker *docker) {
        const struct docker_options *options = &docker->options;
        char text[128];

        if (engine_is_podman(engine_info(docker->engine)))
                return add_tmpfs(tmpfs, options->workspace_target, "1777", options->workspace_bytes);
        snprintf(text, sizeof(text), "rw,nosuid,nodev,exec,size=%" PRIu64 ",mode=0777,uid=%.*s",
                 options->workspace_bytes, (int)strcspn(options->user, ":"), options->user);
        return json_object_set_new(tmpfs, options->workspace_target, json_string(text));
}

static int add_volumes(json_t *tmpfs, const json_t *volumes, uint64_t bytes) {
        const char *path;
        json_t *value;

        if (json_object_size(volumes) > TMPFS_MAX)
                return -E2BIG;
        json_object_foreach ((json_t *)(uintptr_t)volumes, path, value)
                if (path[0] == '/' && json_object_get(tmpfs, path) == NULL && add_tmpfs(tmpfs, path, "1777", bytes) < 0)
                        return -ENOMEM;
        return 0;
}

/* A volume that the image declares would be a directory of the host without a limit: it is covered. */
static json_t *tmpfs_of(const struct docker *docker, const json_t *volumes, const char *workspace) {
        const struct docker_options *options = &docker->options;
        json_t *tmpfs = json_object();
        int r = tmpfs != NULL ? add_tmpfs(tmpfs, "/tmp", "1777", options->tmp_bytes) : -ENOMEM;

        if (r == 0 && workspace == NULL)
                r = add_workspace(tmpfs, docker);
        /* Podman makes these of its own accord in a container that is read-only, without a limit. */
        for (size_t i = 0; r == 0 && engine_is_podman(engine_info(docker->engine)) && options->read_only && i < 2; i++)
                r = json_object_set_new(tmpfs, i == 0 ? "/run" : "/var/tmp", json_string(PODMAN_EXTRA_TMPFS));
        if (r == 0 && volumes != NULL)
                r = add_volumes(tmpfs, volumes, options->tmp_bytes);
        if (r < 0) {
                json_decref(tmpfs);
                return NULL;
        }
        return tmpfs;
}

/* ---- rights */

static int read_seccomp(const char *path, json_t **ret_option, struct sbx_error *err) {
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        _cleanup_free_ char *text = NULL, *compact = NULL;
        _cleanup_json_ json_t *profile = NULL;
        struct stat st;
        ssize_t n;

        if (fd < 0 || fstat(fd, &st) < 0)
                return sbx_error_set(err, -errno, DOCKER_ORIGIN, "Correct the option seccomp, or leave it out.",
                                     "seccomp: can't read %s: %s", path, strerror(errno));
        if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > SECCOMP_MAX)
                return sbx_error_set(err, -EINVAL, DOCKER_ORIGIN, "Correct the option seccomp, or leave it out.",
                                     "seccomp: %s is no profile", path);
        text = malloc((size_t)st.st_size + 1);
        if (text == NULL)
                return nomem(err);
        n = read(fd, text, (size_t)st.st_size);
        profile = n > 0 ? json_loadb(text, (size_t)n, JSON_REJECT_DUPLICATES, NULL) : NULL;
        if (!json_is_object(profile))
                return sbx_error_set(err, -EINVAL, DOCKER_ORIGIN,
                                     "It is JSON as https://docs.docker.com/engine/security/seccomp/ describes it.",
                                     "seccomp: %s is no profile", path);
        compact = json_dumps(profile, JSON_COMPACT);
        *ret_option = compact != NULL ? json_sprintf("seccomp=%s", compact) : NULL;
        return *ret_option != NULL ? 0 : nomem(err);
}

static int security_of(const struct docker *docker, json_t **ret_security, struct sbx_error *err) {
        _cleanup_json_ json_t *security = json_pack("[s]", "no-new-privileges");
        json_t *profile = NULL;
        int r = 0;

        if (docker->options.seccomp != NULL)
                r = read_seccomp(docker->options.seccomp, &profile, err);
        if (r == 0 && (security == NULL || (profile != NULL && json_array_append_new(security, profile) < 0)))
                r = nomem(err);
        if (r < 0)
                return r;
        *ret_security = steal_pointer(security);
        return 0;
}

bool guest_input_is_kept(const struct docker *docker, const struct container_wish *wish) {
        return engine_is_podman(engine_info(docker->engine)) && !wish->keeper && wish->payload->pump != NULL &&
               !container_has_init(docker, wish);
}

/* ---- the environment: of what is known here, and nothing of the host's */

static int add_line(json_t *list, const char *line) {
        return json_array_append_new(list, json_string(line));
}

static json_t *environment_of(const struct docker *docker, const struct container_wish *wish) {
        static const char *const fixed[] = {
                "HOME=/tmp",
                "TMPDIR=/tmp",
                "LANG=C.UTF-8",
                "OPENBLAS_NUM_THREADS=1",
                "OMP_NUM_THREADS=1",
                "MKL_NUM_THREADS=1",
                "PYTHONDONTWRITEBYTECODE=1",
                "PYTHONUSERBASE=/tmp/.local",
        };
        const struct docker_options *options = &docker->options;
        json_t *list = json_array();
        int r = list != NULL ? 0 : -1;

        for (size_t i = 0; r == 0 && i < sizeof(fixed) / sizeof(fixed[0]); i++)
                r = add_line(list, fixed[i]);
        if (r == 0 && options->setup != DOCKER_SETUP_NONE) {
                r = json_array_append_new(list, json_sprintf("PYTHONPATH=%s", options->workspace_target));
                if (r == 0)
                        r = add_line(list, "PYTEST_ADDOPTS=-o cache_dir=/tmp/pytest-cache");
        }
        for (size_t i = 0; r == 0 && i < options->environment_count; i++)
                r = add_line(list, options->environment[i]);
        if (r == 0)
                r = add_line(list, "SBX_CONTROL_FD=0,1");
        if (r == 0 && guest_input_is_kept(docker, wish))
                r = add_line(list, "SBX_KEEP_INPUT=" PAYLOAD_KEPT_INPUT);
        if (r < 0) {
                json_decref(list);
                return NULL;
        }
        return list;
}

/* ---- the whole */

static int set_label(json_t *labels, const char *line) {
        const char *equals = strchr(line, '=');
        _cleanup_free_ char *key = equals != NULL ? strndup(line, (size_t)(equals - line)) : NULL;

        return key != NULL ? json_object_set_new(labels, key, json_string(equals + 1)) : -1;
}

static json_t *labels_of(const char *const *lines) {
        json_t *labels = json_object();

        for (size_t i = 0; labels != NULL && lines != NULL && lines[i] != NULL; i++)
                if (set_label(labels, lines[i]) < 0) {
                        json_decref(labels);
                        return NULL;
                }
        return labels;
}

/* Entry points and commands of the image play no part. */
static json_t *argv_of(const struct docker *docker, const struct container_wish *wish) {
        const char *const *argv = wish->keeper ? wish->payload->keeper : wish->payload->argv;
        json_t *list = json_array();

        for (size_t i = 0; list != NULL && argv[i] != NULL; i++)
                if (json_array_append_new(list, json_string(argv[i])) < 0)
                        goto failed;
        if (wish->keeper &&
            json_array_append_new(list, json_sprintf("%.3f", (double)docker->options.ttl_ms / 1000)) < 0)
                goto failed;
        return list;
failed:
        json_decref(list);
        return NULL;
}

static int set(json_t *object, const char *key, json_t *value) {
        return json_object_set_new(object, key, value);
}

/* Options that an engine takes only if they are wished for. */
static int set_optional(const struct docker *docker, json_t *host, struct sbx_error *err) {
        const struct docker_options *options = &docker->options;
        const struct engine_info *info = engine_info(docker->engine);
        int r = 0;

        if (options->disk_bytes > 0 && !options->read_only && !info->disk_quota)
                return sbx_error_set(
                        err, -ENOTSUP, DOCKER_ORIGIN,
                        "Set disk = 0 and read_only = true, or give the engine overlay2 on xfs with pquota.",
                        "%s's storage driver %s can't limit what containers write", info->name, info->storage_driver);
        if (options->disk_bytes > 0 && !options->read_only)
                r = set(host, "StorageOpt", json_pack("{s:o}", "size", json_sprintf("%" PRIu64, options->disk_bytes)));
        if (r == 0 && options->runtime != NULL)
                r = set(host, "Runtime", json_string(options->runtime));
        if (r == 0 && options->userns != NULL)
                r = set(host, "UsernsMode", json_string(options->userns));
        else if (r == 0 && info->rootless && strcmp(options->user, "owner") == 0)
                r = set(host, "UsernsMode", json_string("keep-id"));
        if (r == 0 && info->cgroup_version == 2)
                r = set(host, "CgroupnsMode", json_string("private"));
        /* Podman adds a limit of processes that it may have no right to set; containers.conf is where its own stand. Of
         * core files one byte: with 0, a program of the host that takes them (core(5)) would still get those of code. */
        if (r == 0 && !engine_is_podman(info))
                r = set(host, "Ulimits",
                        json_pack("[{s:s,s:i,s:i},{s:s,s:i,s:i}]", "Name", "nofile", "Soft", OPEN_FILES, "Hard",
                                  OPEN_FILES, "Name", "core", "Soft", 1, "Hard", 1));
        return r < 0 ? nomem(err) : 0;
}

static int host_config(struct docker *docker, const struct container_wish *wish, const json_t *volumes,
                       const char *workspace, json_t **ret_host, struct sbx_error *err) {
        const struct docker_options *options = &docker->options;
        struct container_limits limits = container_limits_of(options, &wish->limits);
        _cleanup_json_ json_t *host = NULL, *security = NULL;
        int r = security_of(docker, &security, err);

        if (r < 0)
                return r;
        host = json_pack("{s:s, s:b, s:[s], s:O, s:I, s:I, s:I, s:i, s:I, s:o, s:o, s:s, s:b, s:{s:s}, s:{s:s}, s:b}",
                         "NetworkMode", options->network, "ReadonlyRootfs", (int)options->read_only, "CapDrop", "ALL",
                         "SecurityOpt", security, "Memory", (json_int_t)limits.memory_bytes, "MemorySwap",
                         (json_int_t)limits.memory_bytes, "NanoCpus", (json_int_t)limits.nano_cpus, "PidsLimit",
                         (int)limits.pids, "ShmSize", (json_int_t)options->shm_bytes, "Tmpfs",
                         tmpfs_of(docker, volumes, workspace), "Mounts", mounts_of(docker, workspace), "IpcMode",
                         "private", "Init", (int)container_has_init(docker, wish), "LogConfig", "Type", "none",
                         "RestartPolicy", "Name", "no", "AutoRemove", (int)wish->keeper);
        if (host == NULL)
                return nomem(err);
        r = set_optional(docker, host, err);
        if (r == 0)
                *ret_host = steal_pointer(host);
        return r;
}

int container_config(struct docker *docker, const struct container_wish *wish, const json_t *volumes,
                     json_t **ret_config, struct sbx_error *err) {
        const struct docker_options *options = &docker->options;
        const char *workspace = container_workspace(docker);
        struct stat st = {0};
        char user[64];
        json_t *host = NULL;
        int r = options->workspace != DOCKER_WORKSPACE_NONE ? check_workspace(docker, workspace, &st, err) : 0;

        if (r == 0)
                r = user_of(docker, &st, user, sizeof(user), err);
        if (r == 0)
                r = host_config(docker, wish, volumes, workspace, &host, err);
        if (r < 0)
                return r;
        *ret_config = json_pack("{s:s, s:o, s:s, s:s, s:o, s:o, s:b, s:b, s:b, s:b, s:b, s:b, s:b, s:{s:[s]}, s:o}",
                                "Image", wish->image, "Entrypoint", argv_of(docker, wish), "User", user, "WorkingDir",
                                options->workspace_target, "Env", environment_of(docker, wish), "Labels",
                                labels_of(wish->labels), "OpenStdin", !wish->keeper, "StdinOnce", 0, "AttachStdin",
                                !wish->keeper, "AttachStdout", !wish->keeper, "AttachStderr", !wish->keeper, "Tty", 0,
                                "NetworkDisabled", strcmp(options->network, "none") == 0, "Healthcheck", "Test", "NONE",
                                "HostConfig", host);
        return *ret_config != NULL ? 0 : nomem(err);
}

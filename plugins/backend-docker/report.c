/* SPDX-License-Identifier: Apache-2.0 */
/* The isolation report of a container: docs/isolation-report.md. */
#include <inttypes.h>
#include <sys/stat.h>

#include "container_internal.h"
#include "report_seen.h"
#include "util.h"

#define DETAIL_MAX 512

struct report {
        const struct docker *docker;
        const struct engine_info *info;
        const struct container_wish *wish;
        const json_t *inspected, *host; /* HostConfig */
        struct seen seen;
        json_t *layers;
        struct sbx_error *err;
        int error;
};

/* ---- building */

SBX_PRINTF(4, 5)
static void layer(struct report *report, const char *name, const char *state, const char *format, ...) {
        char detail[DETAIL_MAX];
        va_list args;

        va_start(args, format);
        if (vsnprintf(detail, sizeof(detail), format, args) < 0)
                detail[0] = '\0';
        va_end(args);
        if (json_array_append_new(report->layers,
                                  json_pack("{s:s, s:s, s:s}", "name", name, "state", state, "detail", detail)) < 0 &&
            report->error == 0)
                report->error = sbx_error_set(report->err, -ENOMEM, DOCKER_ORIGIN, NULL, "out of memory");
}

/* What was asked for is not there: nothing runs in this container. */
static void missing(struct report *report, const char *name, const char *what, const char *hint) {
        layer(report, name, "absent", "%s", what);
        if (report->error == 0)
                report->error = sbx_error_set(report->err, -ENOTSUP, DOCKER_ORIGIN, hint,
                                              "%s did not apply a layer that was asked for, %s: %s", report->info->name,
                                              name, what);
}

static const char *host_text(const struct report *report, const char *key) {
        const char *text = json_string_value(json_object_get(report->host, key));

        return text != NULL ? text : "";
}

static int64_t host_number(const struct report *report, const char *key) {
        return json_integer_value(json_object_get(report->host, key));
}

static bool list_has(const json_t *list, const char *text, bool prefix) {
        const json_t *item;
        size_t i;

        json_array_foreach (list, i, item) {
                const char *value = json_string_value(item);

                if (value != NULL && (prefix ? strncmp(value, text, strlen(text)) : strcmp(value, text)) == 0)
                        return true;
        }
        return false;
}

static const char *seen_words(const struct report *report) {
        return report->seen.status ? ", seen in /proc" : "";
}

/* ---- layers */

static void add_engine(struct report *report) {
        const struct engine_info *info = report->info;
        const char *wanted = report->docker->options.runtime, *runtime = host_text(report, "Runtime");

        /* Podman says "oci" of whatever is its default. */
        if (runtime[0] == '\0' || strcmp(runtime, "oci") == 0)
                runtime = info->default_runtime;
        layer(report, "engine", "applied", "%s %s at %s%s", info->name, info->version, info->place.address,
              info->rootless ? ", rootless" : "");
        if (wanted != NULL && strcmp(wanted, runtime) != 0)
                missing(report, "container runtime", runtime,
                        "Make it the engine's default runtime, or leave the option `runtime` out.");
        else
                layer(report, "container runtime", "applied", "%s", runtime);
}

static void add_user_namespace(struct report *report) {
        const struct engine_info *info = report->info;
        const char *mode = host_text(report, "UsernsMode"), *wanted = report->docker->options.userns;
        bool own = report->seen.ids ? report->seen.own_user_namespace
                                    : (info->userns || info->rootless) && strcmp(mode, "host") != 0;

        if (own)
                layer(report, "user namespace", "applied", "ids inside are others outside%s",
                      report->seen.ids ? ", seen in /proc" : "");
        else if (wanted != NULL && strcmp(wanted, "auto") == 0)
                missing(report, "user namespace", "ids inside are those outside", "Leave the option `userns` out.");
        else if (wanted != NULL)
                layer(report, "user namespace", "off", "userns = \"host\"");
        else
                layer(report, "user namespace", "absent",
                      "this engine maps no ids; code has an id without rights, and no capabilities");
}

static void add_namespace(struct report *report, const char *name, const char *key) {
        const char *mode = host_text(report, key);

        if (strcmp(mode, "host") == 0 || strncmp(mode, "container:", 10) == 0 || strncmp(mode, "ns:", 3) == 0)
                missing(report, name, mode, "Run `snipara-sandbox doctor`; the engine may be configured to share it.");
        else
                layer(report, name, "applied", "its own");
}

static void add_network(struct report *report) {
        const char *mode = host_text(report, "NetworkMode"), *wanted = report->docker->options.network;

        if (strcmp(mode, wanted) != 0 && !(strcmp(wanted, "bridge") == 0 && strcmp(mode, "default") == 0))
                missing(report, "network namespace", mode, "Run `snipara-sandbox doctor`.");
        else if (strcmp(wanted, "none") == 0)
                layer(report, "network namespace", "applied", "its own; nothing but its loopback");
        else
                layer(report, "network namespace", "applied",
                      "its own, in the engine's network %s: what that reaches, "
                      "code reaches",
                      mode);
}

static void add_namespaces(struct report *report) {
        const char *cgroup = host_text(report, "CgroupnsMode");

        add_user_namespace(report);
        add_namespace(report, "pid namespace", "PidMode");
        layer(report, "mount namespace", "applied", "its own");
        add_network(report);
        add_namespace(report, "ipc namespace", "IpcMode");
        add_namespace(report, "uts namespace", "UTSMode");
        if (strcmp(cgroup, "private") == 0 || (cgroup[0] == '\0' && report->info->cgroup_version == 2))
                layer(report, "cgroup namespace", "applied", "its own");
        else
                layer(report, "cgroup namespace", "absent", "the engine gives none with control groups of version %d",
                      report->info->cgroup_version);
}

/* ---- files */

static void add_tmpfs(struct report *report, const char *name, const char *path, uint64_t bytes) {
        const char *options = json_string_value(json_object_get(json_object_get(report->host, "Tmpfs"), path));
        char size[48];

        snprintf(size, sizeof(size), "size=%" PRIu64, bytes);
        if (options == NULL || strstr(options, size) == NULL)
                missing(report, name, "no file system in memory of the size that was asked for",
                        "Run `snipara-sandbox doctor`.");
        else
                layer(report, name, "applied", "in memory, at most %" PRIu64 " MiB", bytes >> 20);
}

static const json_t *mount_at(const struct report *report, const char *target) {
        const json_t *mounts = json_object_get(report->inspected, "Mounts"), *mount;
        size_t i;

        json_array_foreach (mounts, i, mount) {
                const char *path = json_string_value(json_object_get(mount, "Destination"));

                if (path != NULL && strcmp(path, target) == 0)
                        return mount;
        }
        return NULL;
}

static void add_workspace(struct report *report) {
        const struct docker_options *options = &report->docker->options;
        const json_t *mount = mount_at(report, options->workspace_target);
        const char *source = json_string_value(json_object_get(mount, "Source"));
        bool writable = json_is_true(json_object_get(mount, "RW"));

        if (options->workspace == DOCKER_WORKSPACE_NONE)
                add_tmpfs(report, "workspace", options->workspace_target, options->workspace_bytes);
        else if (source == NULL || (writable && options->workspace == DOCKER_WORKSPACE_RO))
                missing(report, "workspace", source == NULL ? "it is not mounted" : "it can be written to",
                        "Run `snipara-sandbox doctor`.");
        else
                layer(report, "workspace", "applied", "%s at %s, %s", source, options->workspace_target,
                      writable ? "to be read and written" : "read-only");
}

/* Nothing of the host but the workspace. */
static void add_other_mounts(struct report *report) {
        const json_t *mounts = json_object_get(report->inspected, "Mounts"), *mount;
        bool workspace = report->docker->options.workspace != DOCKER_WORKSPACE_NONE;
        size_t i;

        json_array_foreach (mounts, i, mount) {
                const char *type = json_string_value(json_object_get(mount, "Type"));
                const char *path = json_string_value(json_object_get(mount, "Destination"));

                if (type != NULL && strcmp(type, "tmpfs") == 0)
                        continue;
                if (path != NULL && workspace && strcmp(path, report->docker->options.workspace_target) == 0)
                        continue;
                missing(report, "mounts", path != NULL ? path : "one without a place",
                        "Use an image without volumes, and an engine that adds no mounts.");
                return;
        }
}

static void add_files(struct report *report) {
        const struct docker_options *options = &report->docker->options;
        bool read_only = json_is_true(json_object_get(report->host, "ReadonlyRootfs"));

        if (options->read_only && !read_only)
                missing(report, "root", "it can be written to", "Run `snipara-sandbox doctor`.");
        else if (read_only)
                layer(report, "root", "applied", "the image %s, read-only", report->wish->runtime->image);
        else
                layer(report, "root", "off", "the image %s, with a layer to write to", report->wish->runtime->image);
        add_tmpfs(report, "tmp", "/tmp", options->tmp_bytes);
        if ((uint64_t)host_number(report, "ShmSize") != options->shm_bytes)
                missing(report, "shm", "/dev/shm has another size", "Run `snipara-sandbox doctor`.");
        else
                layer(report, "shm", "applied", "in memory, at most %" PRIu64 " MiB", options->shm_bytes >> 20);
        add_workspace(report);
        add_other_mounts(report);
        if (read_only)
                layer(report, "disk", "applied", "nothing of it can be written%s",
                      options->workspace == DOCKER_WORKSPACE_RW ? " but the workspace" : "");
        else if (options->disk_bytes == 0)
                layer(report, "disk", "off", "no limit");
        else if (json_object_get(json_object_get(report->host, "StorageOpt"), "size") == NULL)
                missing(report, "disk", "no limit", "Set read_only = true, or disk = 0.");
        else
                layer(report, "disk", "applied", "at most %" PRIu64 " MiB", options->disk_bytes >> 20);
}

/* ---- rights */

static void add_ids(struct report *report) {
        const char *user = json_string_value(json_object_get(json_object_get(report->inspected, "Config"), "User"));
        bool root = user == NULL || user[0] == '\0' || strcmp(user, "0") == 0 || strncmp(user, "0:", 2) == 0 ||
                    strncmp(user, "root", 4) == 0 || (report->seen.status && report->seen.uid == 0);

        if (root)
                missing(report, "ids", "code would run as root", "Set user = \"65534:65534\".");
        else
                layer(report, "ids", "applied", "%s%s", user, seen_words(report));
}

/* Podman spells "ALL" out, so there the kernel's word is looked for as well. */
static void add_capabilities(struct report *report) {
        const json_t *dropped = json_object_get(report->host, "CapDrop");
        bool told = list_has(dropped, "ALL", false) || (engine_is_podman(report->info) && json_array_size(dropped) > 0);

        if (json_is_true(json_object_get(report->host, "Privileged")) ||
            json_array_size(json_object_get(report->host, "CapAdd")) > 0 || !told ||
            (report->seen.status && !report->seen.no_capabilities))
                missing(report, "capabilities", "not all are dropped", "Run `snipara-sandbox doctor`.");
        else
                layer(report, "capabilities", "applied", "none%s", seen_words(report));
}

static void add_privileges(struct report *report) {
        const json_t *options = json_object_get(report->host, "SecurityOpt");
        bool told = list_has(options, "no-new-privileges", true);

        if (!told || list_has(options, "no-new-privileges=false", false) ||
            list_has(options, "no-new-privileges:false", false) || (report->seen.status && !report->seen.no_new_privs))
                missing(report, "no_new_privs", "it is not set", "Run `snipara-sandbox doctor`.");
        else
                layer(report, "no_new_privs", "applied", "set%s", seen_words(report));
}

static void add_seccomp(struct report *report) {
        static const char hint[] = "Give the engine a seccomp profile (Docker: --seccomp-profile), or set the option "
                                   "seccomp.";
        const json_t *options = json_object_get(report->host, "SecurityOpt");
        const char *own = report->docker->options.seccomp;

        if (list_has(options, "seccomp=unconfined", false) || list_has(options, "seccomp:unconfined", false) ||
            (own == NULL && report->info->seccomp[0] == '\0') || (report->seen.status && report->seen.seccomp != 2))
                missing(report, "seccomp", "no profile is applied", hint);
        else if (own != NULL && !list_has(options, "seccomp=", true) && !engine_is_podman(report->info))
                missing(report, "seccomp", "the profile of the configuration is not applied", hint);
        else
                layer(report, "seccomp", "applied", "%s%s", own != NULL ? own : "the engine's profile",
                      seen_words(report));
}

static void add_apparmor(struct report *report) {
        const char *profile = json_string_value(json_object_get(report->inspected, "AppArmorProfile"));

        if (profile == NULL || profile[0] == '\0' || strcmp(profile, "unconfined") == 0)
                layer(report, "apparmor", "absent", "the engine's machine has none, or applies none");
        else
                layer(report, "apparmor", "applied", "%s", profile);
}

/* ---- limits */

static void add_limits(struct report *report) {
        struct container_limits limits = container_limits_of(&report->docker->options, &report->wish->limits);
        int64_t memory = host_number(report, "Memory"), swap = host_number(report, "MemorySwap");
        int64_t cpus = host_number(report, "NanoCpus");

        if (memory != (int64_t)limits.memory_bytes || (report->info->memory_swap && swap != memory))
                missing(report, "memory",
                        memory != (int64_t)limits.memory_bytes ? "no such limit" : "swap has no limit",
                        "Give the engine's machine the memory control group.");
        else
                layer(report, "memory", "applied", "cgroup v%d, %" PRId64 " MiB%s", report->info->cgroup_version,
                      memory >> 20, report->info->memory_swap ? ", no swap" : "; this kernel does not count swap");
        if (limits.nano_cpus == 0)
                layer(report, "cpu", "off", "no limit");
        else if (cpus != limits.nano_cpus)
                missing(report, "cpu", "no such limit", "Give the engine's machine the cpu control group.");
        else
                layer(report, "cpu", "applied", "%.2f CPUs", (double)cpus / 1e9);
        if (host_number(report, "PidsLimit") != limits.pids)
                missing(report, "pids", "no such limit", "Give the engine's machine the pids control group.");
        else
                layer(report, "pids", "applied", "at most %" PRIu32, limits.pids);
}

static void add_init(struct report *report) {
        if (!container_has_init(report->docker, report->wish))
                layer(report, "init", "off", "the worker is process 1 and buries what is orphaned");
        else if (json_is_true(json_object_get(report->host, "Init")) || engine_is_podman(report->info))
                layer(report, "init", "applied", "the engine's");
        else
                layer(report, "init", "absent", "the engine gives none");
}

static void add_sharing(struct report *report) {
        if (report->wish->keeper)
                layer(report, "container", "off", "%s share it and can see each other: scope = \"%s\"",
                      report->docker->options.scope == DOCKER_SCOPE_AGENT ? "all sessions of one owner"
                                                                          : "all sessions",
                      report->docker->options.scope == DOCKER_SCOPE_AGENT ? "agent" : "shared");
}

int container_report(struct docker *docker, const struct container_wish *wish, const json_t *inspected,
                     char **ret_report, struct sbx_error *err) {
        struct report report = {.docker = docker,
                                .info = engine_info(docker->engine),
                                .wish = wish,
                                .inspected = inspected,
                                .host = json_object_get(inspected, "HostConfig"),
                                .layers = json_array(),
                                .err = err};
        const char *id = json_string_value(json_object_get(inspected, "Id"));
        int64_t pid = json_integer_value(json_object_get(json_object_get(inspected, "State"), "Pid"));
        _cleanup_json_ json_t *whole = NULL;

        if (report.info->local && id != NULL && strlen(id) >= 12 && pid > 0 && pid <= INT32_MAX)
                seen_read(id, (long)pid, &report.seen);
        add_engine(&report);
        add_namespaces(&report);
        add_files(&report);
        add_ids(&report);
        add_capabilities(&report);
        add_privileges(&report);
        add_seccomp(&report);
        add_apparmor(&report);
        add_limits(&report);
        add_init(&report);
        add_sharing(&report);
        whole = json_pack("{s:s, s:s, s:o}", "backend", "docker", "isolation", "container", "layers", report.layers);
        if (report.error < 0)
                return report.error;
        *ret_report = whole != NULL ? json_dumps(whole, JSON_COMPACT) : NULL;
        return *ret_report != NULL ? 0 : sbx_error_set(err, -ENOMEM, DOCKER_ORIGIN, NULL, "out of memory");
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What an engine says of itself: which one it is, the version of the API to speak, what it can isolate with. */
#include "engine_internal.h"

/* The newest that is known to have what is used here as it is used (Docker 29 takes nothing below 1.44). */
#define API_KNOWN_MAX "1.52"

/* "1.41" as 1041; -1: no version. */
static int version_number(const char *text) {
        int parts[2] = {0, 0};

        if (text == NULL)
                return -1;
        for (size_t i = 0; i < 2; i++) {
                size_t digits = 0;

                for (; *text >= '0' && *text <= '9' && digits < 3; text++, digits++)
                        parts[i] = parts[i] * 10 + (*text - '0');
                if (digits == 0 || *text != (i == 0 ? '.' : '\0'))
                        return -1;
                text++;
        }
        return parts[0] * 1000 + parts[1];
}

/* Printable ASCII, whole, or nothing. */
static void copy_word(const json_t *value, char *out, size_t size) {
        const char *text = json_string_value(value);

        out[0] = '\0';
        if (text == NULL || strlen(text) >= size)
                return;
        for (const char *c = text; *c != '\0'; c++)
                if (*c < 0x20 || *c > 0x7E)
                        return;
        memcpy(out, text, strlen(text) + 1);
}

static int no_engine(const struct engine *engine, struct sbx_error *err) {
        return sbx_error_set(err, -EPROTO, ENGINE_ORIGIN,
                             "Check that the address is that of Docker or Podman: snipara-sandbox doctor.",
                             "what answers at %s (%s) is no container engine", engine->info.place.address,
                             engine->info.place.found_by);
}

static int settle_version(struct engine *engine, const char *newest, const char *oldest, struct sbx_error *err) {
        struct engine_info *info = &engine->info;
        int max = version_number(newest), min = version_number(oldest);

        if (max < 0)
                return no_engine(engine, err);
        if (max < version_number(ENGINE_API_MIN))
                return sbx_error_set(err, -EPROTO, ENGINE_ORIGIN,
                                     "Install Docker 20.10 or newer, or Podman 4 or newer.",
                                     "%s %s at %s is too old: it speaks version %s of the Engine API, and %s is needed",
                                     info->name, info->version, info->place.address, newest, ENGINE_API_MIN);
        if (min > version_number(API_KNOWN_MAX))
                return sbx_error_set(err, -EPROTO, ENGINE_ORIGIN, "Install a newer snipara-sandbox.",
                                     "%s %s at %s is too new: it speaks no version of the Engine API before %s",
                                     info->name, info->version, info->place.address, oldest);
        snprintf(info->api_version, sizeof(info->api_version), "%s",
                 min > version_number(ENGINE_API_MAX)   ? oldest
                 : max < version_number(ENGINE_API_MAX) ? newest
                                                        : ENGINE_API_MAX);
        return 0;
}

static bool is_podman(const json_t *answer) {
        const json_t *component;
        size_t i;

        json_array_foreach (json_object_get(answer, "Components"), i, component) {
                const char *name = json_string_value(json_object_get(component, "Name"));

                if (name != NULL && strcmp(name, "Podman Engine") == 0)
                        return true;
        }
        return false;
}

int engine_ask_version(struct engine *engine, const struct sbx_call *call, struct sbx_error *err) {
        const struct engine_request request = {.method = "GET", .path = "/version"};
        struct engine_info *info = &engine->info;
        json_t *answer = NULL;
        char newest[16], oldest[16];
        int r = engine_ask_at(engine, "", &request, call, &answer, err);

        if (r < 0)
                return r;
        engine->version = answer;
        copy_word(json_object_get(answer, "ApiVersion"), newest, sizeof(newest));
        copy_word(json_object_get(answer, "MinAPIVersion"), oldest, sizeof(oldest));
        if (newest[0] == '\0')
                return no_engine(engine, err);
        snprintf(info->name, sizeof(info->name), "%s", is_podman(answer) ? "podman" : "docker");
        copy_word(json_object_get(answer, "Version"), info->version, sizeof(info->version));
        copy_word(json_object_get(answer, "Os"), info->os, sizeof(info->os));
        copy_word(json_object_get(answer, "Arch"), info->architecture, sizeof(info->architecture));
        r = settle_version(engine, newest, oldest, err);
        if (r == 0 && strcmp(info->os, "linux") != 0)
                r = sbx_error_set(err, -ENOTSUP, ENGINE_ORIGIN, "Switch the engine to Linux containers.",
                                  "the engine at %s runs containers of \"%s\", not of Linux", info->place.address,
                                  info->os);
        return r;
}

/* "name=seccomp,profile=default" */
static void take_security(struct engine_info *info, const json_t *options) {
        const json_t *option;
        size_t i;

        json_array_foreach (options, i, option) {
                const char *text = json_string_value(option), *profile;

                if (text == NULL || strncmp(text, "name=", 5) != 0)
                        continue;
                text += 5;
                if (strncmp(text, "seccomp", 7) == 0) {
                        profile = strstr(text, "profile=");
                        snprintf(info->seccomp, sizeof(info->seccomp), "%s", profile != NULL ? profile + 8 : "default");
                } else if (strcmp(text, "rootless") == 0)
                        info->rootless = true;
                else if (strcmp(text, "userns") == 0)
                        info->userns = true;
        }
}

static const char *driver_status(const json_t *answer, const char *name) {
        const json_t *pair;
        size_t i;

        json_array_foreach (json_object_get(answer, "DriverStatus"), i, pair) {
                const char *key = json_string_value(json_array_get(pair, 0));

                if (key != NULL && strcmp(key, name) == 0)
                        return json_string_value(json_array_get(pair, 1));
        }
        return NULL;
}

/* https://docs.docker.com/reference/cli/docker/container/run/#storage-opt : overlay takes a size on xfs alone (with
 * project quotas, which only creating a container finds out). */
static bool takes_size(const json_t *answer, const char *driver) {
        const char *below = driver_status(answer, "Backing Filesystem");

        if (strcmp(driver, "btrfs") == 0 || strcmp(driver, "zfs") == 0 || strcmp(driver, "devicemapper") == 0)
                return true;
        return strncmp(driver, "overlay", 7) == 0 && below != NULL && strcmp(below, "xfs") == 0;
}

/* Docker names docker-init whether or not it is installed; what is installed has a version. Podman names none in its
 * compatible answer, and looks for catatonit when a container asks for it. */
static bool has_init(const struct engine_info *info, const json_t *version, const json_t *answer) {
        const char *name = json_string_value(json_object_get(answer, "InitBinary"));
        const json_t *component;
        size_t i;

        if (strcmp(info->name, "podman") == 0)
                return access("/usr/libexec/podman/catatonit", X_OK) == 0 || access("/usr/bin/catatonit", X_OK) == 0;
        json_array_foreach (json_object_get(version, "Components"), i, component) {
                const char *part = json_string_value(json_object_get(component, "Name"));
                const char *number = json_string_value(json_object_get(component, "Version"));

                if (part != NULL && name != NULL && strcmp(part, name) == 0)
                        return number != NULL && number[0] != '\0' && strcmp(number, "N/A") != 0;
        }
        return false;
}

int engine_ask_info(struct engine *engine, const struct sbx_call *call, struct sbx_error *err) {
        const struct engine_request about = {.method = "GET", .path = "/info"};
        /* Podman takes most of a second to answer it a second time. */
        _cleanup_json_ json_t *answer = NULL, *version = steal_pointer(engine->version);
        struct engine_info *info = &engine->info;
        char cgroup[8];
        int r = engine_ask(engine, &about, call, &answer, err);

        if (r < 0)
                return r;
        if (!json_is_object(answer))
                return no_engine(engine, err);
        copy_word(json_object_get(answer, "Driver"), info->storage_driver, sizeof(info->storage_driver));
        copy_word(json_object_get(answer, "DefaultRuntime"), info->default_runtime, sizeof(info->default_runtime));
        copy_word(json_object_get(answer, "CgroupVersion"), cgroup, sizeof(cgroup));
        info->cgroup_version = strcmp(cgroup, "1") == 0 ? 1 : strcmp(cgroup, "2") == 0 ? 2 : 0;
        take_security(info, json_object_get(answer, "SecurityOptions"));
        info->rootless = info->rootless || json_is_true(json_object_get(answer, "Rootless"));
        info->memory_swap = json_is_true(json_object_get(answer, "SwapLimit"));
        info->pids = json_is_true(json_object_get(answer, "PidsLimit"));
        info->disk_quota = takes_size(answer, info->storage_driver);
        info->init = has_init(info, version, answer);
        return 0;
}

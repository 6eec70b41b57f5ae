/* SPDX-License-Identifier: Apache-2.0 */
/* `doctor` for this backend: what is installed, and whether a whole guest comes up and how fast. */
#include <stdio.h>

#include "cache.h"
#include "guest.h"
#include "images.h"
#include "util.h"

struct probe {
        struct backend *backend;
        const struct sbx_probe_events *events;
        const struct sbx_call *call;
        int first_failure; /* negative errno */
};

static const char *hint_of(const struct sbx_error *err) {
        return err->hint[0] != '\0' ? err->hint : NULL;
}

SBX_PRINTF(5, 6)
static void tell(struct probe *probe, int status, const char *subject, const char *remedy, const char *format, ...) {
        char detail[1536];
        va_list args;

        va_start(args, format);
        if (vsnprintf(detail, sizeof(detail), format, args) < 0)
                detail[0] = '\0';
        va_end(args);
        probe->events->report(probe->events->data, status, subject, detail, remedy);
}

static void fail(struct probe *probe, const char *subject, const struct sbx_error *err) {
        if (probe->first_failure == 0)
                probe->first_failure = err->code;
        tell(probe, SBX_PROBE_FAILED, subject, hint_of(err), "%s", err->message);
}

/* ---- what there is ---- */

static void probe_runtimes(struct probe *probe) {
        for (size_t i = 0; i < RUNTIME_COUNT; i++) {
                struct guest_image *image = NULL;
                struct sbx_error err = {0};

                if (runtime_installed(probe->backend, i, &image, &err) == 0)
                        tell(probe, SBX_PROBE_OK, runtime_name(i), NULL, "version %s, image %.16s in %s",
                             image->version, image->hash_text, image->packed_path);
                else if (i == RUNTIME_PYTHON || err.code != -ENOENT)
                        fail(probe, runtime_name(i), &err);
                else
                        tell(probe, SBX_PROBE_OK, runtime_name(i), NULL, "there is none: no sessions of it");
        }
}

static void probe_cache(struct probe *probe) {
        _cleanup_free_ char *path = NULL;
        _cleanup_close_ int fd = -1;
        struct sbx_error err = {0};

        if (cache_directory_open(probe->backend, &fd, &err) < 0)
                tell(probe, SBX_PROBE_WARNING, "cache of images", hint_of(&err),
                     "%s; the image is unpacked at each start", err.message);
        else if (cache_directory_path(probe->backend, &path) == 0)
                tell(probe, SBX_PROBE_OK, "cache of images", NULL, "%s", path);
}

/* ---- a whole guest ---- */

static void end_guest(struct backend *backend, const struct sbx_guest *guest) {
        const int fds[] = {guest->control_fd, guest->stdout_fd, guest->stderr_fd, guest->exit_fd};

        guest_kill(backend, guest->handle);
        for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
                if (fds[i] >= 0)
                        close(fds[i]);
        guest_close(backend, guest->handle);
}

/* Nobody who serves as himself has ids to change to, and shares of a processor are not this backend's. */
static bool is_missed(const char *name, const char *state) {
        return strcmp(state, "absent") == 0 && strcmp(name, "cpu") != 0 && strcmp(name, "ids") != 0;
}

/* What the jail has here and what it could not have, by the guest's own report. */
static void tell_layers(struct probe *probe, const struct sbx_guest *guest) {
        _cleanup_json_ json_t *report = json_loadb(guest->report.data, guest->report.size, 0, NULL);
        json_t *layers = json_object_get(report, "layers"), *layer;
        size_t i;

        json_array_foreach (layers, i, layer) {
                const char *name = json_string_value(json_object_get(layer, "name")),
                           *state = json_string_value(json_object_get(layer, "state")),
                           *detail = json_string_value(json_object_get(layer, "detail"));
                bool missed = name != NULL && state != NULL && is_missed(name, state);

                if (name != NULL && detail != NULL && state != NULL)
                        tell(probe, missed ? SBX_PROBE_WARNING : SBX_PROBE_OK, name,
                             missed ? "the other layers hold without it; namespaces = \"required\" asks for all" : NULL,
                             "%s: %s", state, detail);
        }
}

static int start_guest(struct probe *probe, struct sbx_guest *ret_guest, struct sbx_error *err) {
        const struct sbx_guest_spec spec = {
                .struct_size = sizeof(spec), .label = "probe", .limits.struct_size = sizeof(spec.limits)};

        *ret_guest = (struct sbx_guest){.struct_size = sizeof(*ret_guest)};
        return guest_start(probe->backend, &spec, probe->call, ret_guest, err);
}

static void probe_guest(struct probe *probe) {
        uint64_t start = monotonic_ns(), first, second;
        struct sbx_error err = {0};
        struct sbx_guest guest;
        int r = backend_start(probe->backend, probe->call, &err);

        if (r == 0)
                r = start_guest(probe, &guest, &err);
        first = monotonic_ns();
        if (r == 0) {
                tell_layers(probe, &guest);
                end_guest(probe->backend, &guest);
                second = monotonic_ns();
                r = start_guest(probe, &guest, &err);
        }
        if (r == 0) {
                tell(probe, SBX_PROBE_OK, "a whole guest", NULL, "the first ready after %.1f ms, another after %.2f ms",
                     (double)(first - start) / 1e6, (double)(monotonic_ns() - second) / 1e6);
                end_guest(probe->backend, &guest);
        } else
                fail(probe, "a whole guest", &err);
        backend_stop(probe->backend);
}

int probe_backend(void *instance, const struct sbx_probe_events *events, const struct sbx_call *call) {
        struct probe probe = {.backend = instance, .events = events, .call = call};

        probe_runtimes(&probe);
        probe_cache(&probe);
        probe_guest(&probe);
        return probe.first_failure;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* `doctor` for this backend: where engines were looked for and which one answers, what it can isolate with, and whether
 * it runs a container. */
#include "probe_internal.h"
#include "util.h"

#define PLACES_MAX 8
#define TRY_MS 10000 /* of the time for all: an engine that hangs must not hide the next one */

void probe_tell(struct probe *probe, enum sbx_probe_status status, const char *subject, const char *remedy,
                const char *detail_format, ...) {
        char detail[SBX_ERROR_MESSAGE_MAX + 256];
        va_list args;

        va_start(args, detail_format);
        if (vsnprintf(detail, sizeof(detail), detail_format, args) < 0)
                detail[0] = '\0';
        va_end(args);
        probe->events->report(probe->events->data, (int)status, subject, detail, remedy);
}

void probe_fail(struct probe *probe, int code, const char *subject, const struct sbx_error *err) {
        if (probe->first_failure == 0)
                probe->first_failure = code;
        probe_tell(probe, SBX_PROBE_FAILED, subject, err->hint[0] != '\0' ? err->hint : NULL, "%s",
                   err->message[0] != '\0' ? err->message : strerror(-code));
}

static int try_place(struct probe *probe, const struct engine_place *place, struct sbx_error *err) {
        struct docker *docker = probe->docker;
        struct sbx_call call = {.struct_size = sizeof(call), .cancel_fd = -1};

        if (probe->call != NULL) {
                call.cancel_fd = probe->call->cancel_fd;
                call.deadline_ns = probe->call->deadline_ns;
        }
        if (call.deadline_ns == 0 || call.deadline_ns > monotonic_ns() + TRY_MS * UINT64_C(1000000))
                call.deadline_ns = monotonic_ns() + TRY_MS * UINT64_C(1000000);
        return engine_place_try(docker->host, &docker->options, place, &call, err);
}

/* The first that answers is used. A place that was looked at and where nothing is does not matter then; one where
 * something does not answer is worth a look. */
static bool probe_places(struct probe *probe) {
        struct engine_place places[PLACES_MAX];
        struct sbx_error reasons[PLACES_MAX] = {0}, err = {0};
        int codes[PLACES_MAX], count, used = -1;

        count = engine_places(probe->docker->host, &probe->docker->options, places, PLACES_MAX, &err);
        if (count < 0) {
                probe_fail(probe, count, "place", &err);
                return false;
        }
        for (int i = 0; i < count; i++) {
                codes[i] = try_place(probe, &places[i], &reasons[i]);
                if (codes[i] == 0 && used < 0)
                        used = i;
        }
        for (int i = 0; i < count; i++) {
                char subject[96];

                snprintf(subject, sizeof(subject), "place: %s", places[i].found_by);
                if (codes[i] == 0)
                        probe_tell(probe, SBX_PROBE_OK, subject, NULL, "%s answers%s", places[i].address,
                                   i == used ? ", and is used" : "; not used, since one before it answers");
                else if (codes[i] == -ENOENT && !places[i].chosen)
                        probe_tell(probe, SBX_PROBE_OK, subject, NULL, "nothing at %s", places[i].address);
                else if (used < 0)
                        probe_fail(probe, codes[i], subject, &reasons[i]);
                else
                        probe_tell(probe, SBX_PROBE_WARNING, subject, reasons[i].hint, "%s", reasons[i].message);
        }
        if (used < 0 && probe->first_failure == 0) {
                sbx_error_set(&err, -ENOENT, DOCKER_ORIGIN, ENGINE_HINT_INSTALL, "no container engine was found");
                probe_fail(probe, -ENOENT, "engine", &err);
        }
        return used >= 0;
}

static void probe_transport(struct probe *probe, const struct engine_info *info) {
        if (info->local || info->place.tls)
                return;
        probe_tell(
                probe, SBX_PROBE_WARNING, "connection",
                "Set tls.ca, tls.certificate and tls.key (or DOCKER_TLS_VERIFY=1 and DOCKER_CERT_PATH), and let the "
                "engine demand them: dockerd --tlsverify",
                "%s has no TLS: who can reach it is root on its machine, and who is in between reads and changes all",
                info->place.address);
}

static void probe_seccomp(struct probe *probe, const struct engine_info *info) {
        const char *own = probe->docker->options.seccomp;

        if (own != NULL)
                probe_tell(probe, SBX_PROBE_OK, "seccomp", NULL, "the profile %s", own);
        else if (info->seccomp[0] == '\0' || strcmp(info->seccomp, "unconfined") == 0)
                probe_tell(
                        probe, SBX_PROBE_WARNING, "seccomp",
                        "Use an engine and a kernel with seccomp, and start the engine without an unconfined profile",
                        "the engine filters no system calls");
        else
                probe_tell(probe, SBX_PROBE_OK, "seccomp", NULL, "the engine's profile: %s", info->seccomp);
}

static void probe_ids(struct probe *probe, const struct engine_info *info) {
        if (info->rootless || info->userns)
                probe_tell(probe, SBX_PROBE_OK, "user namespace", NULL, "%s",
                           info->rootless ? "the engine is rootless" : "the engine maps ids (userns-remap)");
        else
                probe_tell(probe, SBX_PROBE_OK, "user namespace", NULL,
                           "none: ids in containers are those of the engine's machine (code runs as %s, without "
                           "capabilities). Rootless engines, or dockerd --userns-remap, give one",
                           probe->docker->options.user != NULL ? probe->docker->options.user : "its image's user");
}

static void probe_limits(struct probe *probe, const struct engine_info *info) {
        bool memory = info->memory_swap, pids = info->pids;

        if (memory && pids)
                probe_tell(probe, SBX_PROBE_OK, "limits", NULL, "cgroup v%d: memory without swap, processes, cpu",
                           info->cgroup_version);
        else
                probe_tell(probe, SBX_PROBE_WARNING, "limits",
                           memory ? "Boot with cgroup v2, or let systemd delegate the pids controller"
                                  : "Boot with swapaccount=1, or with cgroup v2; or turn swap off",
                           "cgroup v%d: %s", info->cgroup_version,
                           !memory && !pids ? "neither swap nor processes can be limited"
                           : !memory        ? "swap is not counted, so that code can use it beyond its memory"
                                            : "processes can't be limited");
        if (probe->docker->options.disk_bytes > 0 && !probe->docker->options.read_only && !info->disk_quota)
                probe_tell(probe, SBX_PROBE_WARNING, "disk",
                           "Use read_only = true, or a storage driver with quotas (btrfs, zfs, overlay2 on xfs)",
                           "the storage driver %s can't limit what a container writes", info->storage_driver);
}

static void probe_engine(struct probe *probe) {
        const struct engine_info *info = engine_info(probe->docker->engine);

        probe_tell(probe, SBX_PROBE_OK, "engine", NULL, "%s %s (%s/%s), API %s, storage %s, runtime %s", info->name,
                   info->version, info->os, info->architecture, info->api_version, info->storage_driver,
                   probe->docker->options.runtime != NULL ? probe->docker->options.runtime : info->default_runtime);
        probe_transport(probe, info);
        probe_seccomp(probe, info);
        probe_ids(probe, info);
        probe_limits(probe, info);
}

int docker_probe(void *instance, const struct sbx_probe_events *events, const struct sbx_call *call) {
        const struct sbx_plugin *plugin = sbx_plugin_entry_v1();
        struct probe probe = {.docker = instance, .events = events, .call = call};
        struct sbx_error err = {0};
        int r;

        if (!probe_places(&probe))
                return probe.first_failure;
        r = plugin->start(instance, call, &err);
        if (r < 0) {
                probe_fail(&probe, r, "engine", &err);
                return probe.first_failure;
        }
        probe_engine(&probe);
        probe_images(&probe);
        probe_guest(&probe);
        plugin->stop(instance);
        return probe.first_failure;
}

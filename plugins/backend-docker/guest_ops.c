/* SPDX-License-Identifier: Apache-2.0 */
/* The backend's operations on guests that run, and their end. */
#include <signal.h>

#include "guest.h"
#include "owner.h"
#include "scope.h"
#include "util.h"

static int guest_interrupt(void *instance, void *handle, struct sbx_error *err) {
        struct docker_guest *guest = handle;
        int r;

        if (relay_line_dead(guest->line))
                return sbx_error_set(err, -ESRCH, DOCKER_ORIGIN, NULL, "the guest is dead");
        r = guest_errand(guest, ERRAND_INTERRUPT);
        return r < 0 ? sbx_error_set(err, r, DOCKER_ORIGIN, "Raise the limit of threads (ulimit -u).",
                                     "no thread to interrupt the guest: %s", strerror(-r))
                     : 0;
}

/* ---- limits */

/* https://docs.docker.com/engine/api/v1.41/#operation/ContainerUpdate ; Podman has its own:
 * https://docs.podman.io/en/latest/_static/api.html#tag/containers/operation/ContainerUpdateLibpod */
static json_t *update_body(const struct container_limits *limits, bool podman) {
        if (!podman)
                return json_pack("{s:I, s:I, s:I, s:i}", "Memory", (json_int_t)limits->memory_bytes, "MemorySwap",
                                 (json_int_t)limits->memory_bytes, "NanoCpus", (json_int_t)limits->nano_cpus,
                                 "PidsLimit", (int)limits->pids);
        return json_pack("{s:{s:I, s:I}, s:{s:I, s:I}, s:{s:i}}", "memory", "limit", (json_int_t)limits->memory_bytes,
                         "swap", (json_int_t)limits->memory_bytes, "cpu", "quota",
                         (json_int_t)(limits->nano_cpus > 0 ? limits->nano_cpus / 10000 : -1), "period",
                         (json_int_t)100000, "pids", "limit", (int)limits->pids);
}

static int update(struct docker_guest *guest, const struct container_limits *limits, struct sbx_error *err) {
        bool podman = engine_is_podman(engine_info(guest->docker->engine));
        _cleanup_json_ json_t *body = update_body(limits, podman);
        struct sbx_error cause = {0};
        char path[CONTAINER_ID_MAX + 64];
        int r;

        if (body == NULL)
                return sbx_error_set(err, -ENOMEM, DOCKER_ORIGIN, NULL, "out of memory");
        snprintf(path, sizeof(path), "%s/containers/%s/update", podman ? "/libpod" : "", guest->container);
        r = engine_ask(guest->docker->engine, &(struct engine_request){.method = "POST", .path = path, .json = body},
                       NULL, NULL, &cause);
        if (r == 0)
                return 0;
        /* The container is there: it is the request that this engine does not know. */
        if (r == -ENOENT && !relay_line_dead(guest->line))
                return sbx_error_set(err, -ENOTSUP, DOCKER_ORIGIN, "Use Docker, or Podman 4.3 or later.",
                                     "this engine can't change the limits of a running container");
        return sbx_error_set(err, r, DOCKER_ORIGIN, cause.hint, "the limits of a container could not be changed: %s",
                             cause.message);
}

static int guest_limit(void *instance, void *handle, const struct sbx_limits *asked, struct sbx_error *err) {
        struct docker_guest *guest = handle;
        struct container_limits limits, wanted = container_limits_of(&guest->docker->options, asked);
        int r;

        /* Those of a container that others are in as well are its own. */
        if (!guest_has_container(guest))
                return sbx_error_set(err, -ENOTSUP, DOCKER_ORIGIN,
                                     "Use scope = \"session\" for limits of each session.",
                                     "a container that sessions share has limits of its own");
        pthread_mutex_lock(&guest->lock);
        limits = guest->limits;
        pthread_mutex_unlock(&guest->lock);
        if (asked->memory_bytes == 0)
                wanted.memory_bytes = limits.memory_bytes;
        if (asked->cpu_percent == 0)
                wanted.nano_cpus = limits.nano_cpus;
        if (asked->pids_max == 0)
                wanted.pids = limits.pids;
        if (wanted.memory_bytes == limits.memory_bytes && wanted.nano_cpus == limits.nano_cpus &&
            wanted.pids == limits.pids)
                return 0;
        r = update(guest, &wanted, err);
        if (r < 0)
                return r;
        pthread_mutex_lock(&guest->lock);
        guest->limits = wanted;
        pthread_mutex_unlock(&guest->lock);
        return 0;
}

/* ---- ending */

static int end_processes(struct docker_guest *guest, struct sbx_error *err) {
        struct docker *docker = guest->docker;

        if (guest_has_container(guest))
                return container_remove(docker, guest->container, err);
        if (guest->exec[0] == '\0')
                return 0;
        return scope_kill(docker->scopes, guest->container, guest->payload, guest->mark, guest->exec, err);
}

static void guest_kill(void *instance, void *handle) {
        struct docker_guest *guest = handle;
        struct sbx_guest_usage usage = {.struct_size = sizeof(usage)};
        struct sbx_error err = {0};
        DOCKER_LOCKED(&guest->kill_lock);

        if (guest->killed)
                return;
        /* The last that can be read of it, and whether it was dead before. */
        if (guest->usage != NULL && guest->line != NULL)
                docker_guest_usage(guest->docker, guest, &usage, NULL);
        guest_errands_end(guest);
        pthread_mutex_lock(&guest->lock);
        if (!guest->final)
                guest->last.exit_code = -SIGKILL;
        guest->final = true;
        pthread_mutex_unlock(&guest->lock);
        guest->killed = guest->container[0] == '\0' || end_processes(guest, &err) == 0;
        if (guest->line != NULL)
                relay_line_kill(guest->line);
        if (guest->killed)
                return;
        docker_log(guest->docker, SBX_LOG_WARNING, "container %.12s may still be there: %s", guest->container,
                   err.message);
        /* Whoever waits here waited long enough for an engine that does not do it. */
        if (guest_has_container(guest)) {
                owner_forsake(guest->docker->owner, guest->container);
                guest->killed = true;
        }
}

void docker_guest_close(void *instance, void *handle) {
        struct docker_guest *guest = handle;

        guest_kill(instance, guest);
        guest_errands_end(guest);
        relay_line_free(guest->line);
        usage_source_free(guest->usage);
        close_fd(&guest->cancel_fd);
        pthread_mutex_destroy(&guest->kill_lock);
        pthread_mutex_destroy(&guest->lock);
        pthread_cond_destroy(&guest->changed);
        free(guest->report);
        free(guest);
}

const struct sbx_backend_ops docker_ops = {
        .struct_size = sizeof(docker_ops),
        .features = SBX_BACKEND_PREPARE | SBX_BACKEND_NETWORK | SBX_BACKEND_SUBPROCESS | SBX_BACKEND_THREADS,
        .guest_start = docker_guest_start,
        .guest_interrupt = guest_interrupt,
        .guest_limit = guest_limit,
        .guest_kill = guest_kill,
        .guest_usage = docker_guest_usage,
        .guest_close = docker_guest_close,
        .prepare = docker_prepare,
        .images = docker_images,
        .images_prune = docker_images_prune,
};

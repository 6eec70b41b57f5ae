/* SPDX-License-Identifier: Apache-2.0 */
/* backend-docker: descriptor and lifecycle. */
#include <fcntl.h>
#include <sys/random.h>

#include "docker.h"
#include "image.h"
#include "owner.h"
#include "payload.h"
#include "relay.h"
#include "scope.h"
#include "util.h"

static void docker_stop(void *instance);

/* A new one at each start: what an earlier start left is found by the host label and its free lock. */
static int choose_id(struct docker *docker, struct sbx_error *err) {
        unsigned char bytes[(sizeof(docker->id) - 1) / 2];

        if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
                return sbx_error_set(err, -errno, DOCKER_ORIGIN, NULL, "no random numbers: %s", strerror(errno));
        for (size_t i = 0; i < sizeof(bytes); i++)
                snprintf(docker->id + 2 * i, 3, "%02x", bytes[i]);
        return 0;
}

static int open_instance(const struct sbx_host *host, void **ret_instance, struct sbx_error *err) {
        struct docker *docker = calloc(1, sizeof(*docker));
        int r;

        if (docker == NULL)
                return sbx_error_set(err, -ENOMEM, DOCKER_ORIGIN, NULL, "out of memory");
        docker->host = host;
        pthread_mutex_init(&docker->lock, NULL);
        r = docker_options_read(host, &docker->options, err);
        if (r < 0) {
                pthread_mutex_destroy(&docker->lock);
                free(docker);
                return r;
        }
        *ret_instance = docker;
        return 0;
}

/* Containers of an engine elsewhere can't see directories of this machine. */
static int check_workspace(const struct docker *docker, struct sbx_error *err) {
        const struct engine_info *info = engine_info(docker->engine);

        if (info->local || docker->options.workspace == DOCKER_WORKSPACE_NONE)
                return 0;
        return sbx_error_set(
                err, -EINVAL, DOCKER_ORIGIN,
                "Set workspace = \"none\" (docker_mount_workspace = false), and hand files over with the "
                "session's file tools.",
                "the engine at %s may be another machine, so no directory of this one can be the workspace",
                info->place.address);
}

static int docker_start(void *instance, const struct sbx_call *call, struct sbx_error *err) {
        struct docker *docker = instance;
        int r = choose_id(docker, err);

        if (r == 0)
                r = payloads_new(docker->host, &docker->payloads, err);
        if (r == 0)
                r = engine_new(docker->host, &docker->options, call, &docker->engine, err);
        if (r == 0)
                r = check_workspace(docker, err);
        if (r == 0)
                r = relay_new(&docker->relay, err);
        if (r == 0)
                r = owner_new(docker, call, &docker->owner, err);
        if (r == 0)
                r = images_new(docker, &docker->images, err);
        if (r == 0)
                r = scopes_new(docker, &docker->scopes, err);
        if (r < 0)
                docker_stop(docker);
        return r;
}

/* The host has closed all guests. */
static void docker_stop(void *instance) {
        struct docker *docker = instance;

        scopes_free(steal_pointer(docker->scopes));
        images_free(steal_pointer(docker->images));
        owner_free(steal_pointer(docker->owner));
        relay_free(steal_pointer(docker->relay));
        engine_free(steal_pointer(docker->engine));
        payloads_free(steal_pointer(docker->payloads));
}

static void close_instance(void *instance) {
        struct docker *docker = instance;

        docker_stop(docker);
        docker_options_free(&docker->options);
        pthread_mutex_destroy(&docker->lock);
        free(docker);
}

const struct sbx_plugin *sbx_plugin_entry_v1(void) {
        static const struct sbx_plugin plugin = {
                .struct_size = sizeof(plugin),
                .abi_major = SBX_ABI_MAJOR,
                .abi_minor = SBX_ABI_MINOR,
                .kind = SBX_PLUGIN_BACKEND,
                .name = "backend-docker",
                .version = SBX_VERSION,
                .summary = "Guests in containers of Docker or Podman",
                .license = "Apache-2.0",
                .options = docker_option_table,
                .ops = &docker_ops,
                .open = open_instance,
                .start = docker_start,
                .stop = docker_stop,
                .close = close_instance,
                .probe = docker_probe,
        };

        return &plugin;
}

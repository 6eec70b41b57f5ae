/* SPDX-License-Identifier: Apache-2.0 */
/* Options of backend-docker, checked. Those that 2.2.7 had as core settings (docker_image, ...) are taken from there
 * unless the plugin's entry sets its own; options.c has the table and the names. */
#ifndef DOCKER_OPTIONS_H
#define DOCKER_OPTIONS_H

#include <stdbool.h>

#include <snipara-sandbox/plugin.h>

enum docker_scope { DOCKER_SCOPE_SESSION = 0, DOCKER_SCOPE_AGENT, DOCKER_SCOPE_SHARED };
enum docker_workspace { DOCKER_WORKSPACE_NONE = 0, DOCKER_WORKSPACE_RO, DOCKER_WORKSPACE_RW };
enum docker_setup { DOCKER_SETUP_NONE = 0, DOCKER_SETUP_PACKAGE, DOCKER_SETUP_TESTS_ONLY, DOCKER_SETUP_DEV };
enum docker_family { DOCKER_PYTHON = 0, DOCKER_NODE, DOCKER_BASH }; /* which worker a runtime speaks with */

/* One line of the map from runtime to image: "name=image", "name:family=image". */
struct docker_runtime {
        char *name; /* "python", "python3.12", "node20", "bash", "datasci" */
        enum docker_family family;
        char *image;
};

struct docker_options {
        /* the engine */
        const char *engine; /* "auto", or an address: unix:///path, tcp://host:port; NULL: DOCKER_HOST, then auto */
        const char *tls_ca, *tls_certificate, *tls_key; /* NULL: of DOCKER_CERT_PATH */
        uint64_t timeout_ms;                            /* of one request that takes no time: 30 s */
        uint64_t reconnect_ms; /* how long to wait for an engine that went away, until its idle guests are lost */

        /* images */
        struct docker_runtime *runtimes; /* the built-in map with what the configuration adds or replaces */
        size_t runtime_count;
        const char *pull;            /* "missing", "always", "never" */
        const char *registry_config; /* Docker's config.json; NULL: $DOCKER_CONFIG, ~/.docker */
        enum docker_setup setup;
        const char *install_command; /* NULL: what the setup says */
        char **install_extras;       /* requirement specifiers, checked */
        size_t install_extra_count;
        uint64_t build_timeout_ms;

        /* isolation */
        const char *network; /* "none", or a network of the engine */
        const char *runtime; /* OCI runtime: "runsc", "kata"; NULL: the engine's */
        const char *seccomp; /* NULL: the engine's profile; a path of another */
        const char *userns;  /* NULL: the engine's; "auto", "host" */
        const char *user;    /* "65534:65534", or "owner": that of a writable workspace */
        bool read_only, init_auto, init;
        uint64_t memory_bytes, memory_max_bytes, shm_bytes, tmp_bytes, workspace_bytes, disk_bytes; /* disk 0: none */
        double cpus;
        uint32_t pids;
        char **environment; /* "NAME=value" for code; never a secret of the host */
        size_t environment_count;

        /* the workspace */
        enum docker_workspace workspace;
        const char *workspace_path;   /* on the host; NULL: the project */
        const char *workspace_target; /* "/workspace" */

        /* lifetime */
        enum docker_scope scope;
        uint64_t ttl_ms; /* of a container of scope agent or shared with no session */
};

extern const struct sbx_option docker_option_table[];
/* -EINVAL with the option's name. Strings are the host's or the options' own; docker_options_free frees those. */
int docker_options_read(const struct sbx_host *host, struct docker_options *ret_options, struct sbx_error *err);
void docker_options_free(struct docker_options *options);
/* `runtime`, `version` as in struct sbx_guest_spec: "python" with "3.12" is the runtime named "python3.12". -ENOENT
 * with the names that there are. */
int docker_runtime_find(const struct docker_options *options, const char *runtime, const char *version,
                        const struct docker_runtime **ret_runtime, struct sbx_error *err);

#endif

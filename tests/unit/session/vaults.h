/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of vaults share: vaults over a fake store, and short ways to use them. */
#pragma once

#include <stdlib.h>
#include <fcntl.h>
#include <unistd.h>

#include "../test.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/json.h"
#include "gated_store.h"
#include "session/vault_internal.h"

/* The registry of these tests has one store, or a reason why there is none. */
struct sbx_registry {
        struct gated_store *store;
        int error;
        unsigned asked;
};

int sbx_registry_get(struct sbx_registry *registry, const char *name, uint32_t kind, const struct sbx_call *call,
                     const struct sbx_instance **ret_instance, struct sbx_error *err) {
        registry->asked++;
        if (registry->error < 0)
                return sbx_error_set(err, registry->error, "fake", NULL, "the store '%s' does not start", name);
        assert_int_equal(kind, SBX_PLUGIN_STORE);
        *ret_instance = &registry->store->instance;
        return 0;
}

struct desk {
        struct gated_store store;
        struct sbx_registry registry;
        struct sbx_config *config;
        struct sbx_logger logger;
        char log[4096]; /* what was logged since the last look */
        struct sbx_vaults *vaults;
        struct sbx_error err;
};

static void desk_log(void *data, int level, const char *message) {
        struct desk *desk = data;
        size_t used = strlen(desk->log);

        snprintf(desk->log + used, sizeof(desk->log) - used, "%s\n", message);
}

static inline struct sbx_config *desk_config(const char *const *settings) {
        static const char *const none[] = {NULL};
        char path[] = "/tmp/sbx-test-XXXXXX";
        struct sbx_runtime_options options = {.struct_size = sizeof(options),
                                              .flags = SBX_RUNTIME_NO_ENVIRONMENT,
                                              .config_path = path,
                                              .directory = "/",
                                              .settings = settings != NULL ? settings : none};
        struct sbx_logger logger = {.level = SBX_LOG_ERROR};
        struct sbx_config *config = NULL;
        struct sbx_error err = {0};
        int fd = mkstemp(path);

        assert_true(fd >= 0);
        if (sbx_config_load(&options, &logger, &config, &err) < 0)
                fail_msg("no configuration: %s", err.message);
        close(fd);
        unlink(path);
        return config;
}

/* Another server on the desk's store; its vaults are to be freed. */
static inline struct sbx_vaults *desk_server(struct desk *desk) {
        struct sbx_vaults *vaults = NULL;

        assert_int_equal(sbx_vaults_new(desk->config, &desk->registry, &desk->logger, &vaults, &desk->err), 0);
        vaults->store_wait_ms = 0;
        return vaults;
}

static inline void desk_open(struct desk *desk, const char *const *settings) {
        *desk = (struct desk){.logger = {.write = desk_log, .data = desk, .level = SBX_LOG_INFO}};
        gated_store_open(&desk->store);
        desk->registry.store = &desk->store;
        desk->config = desk_config(settings);
        desk->vaults = desk_server(desk);
}

static inline void desk_close(struct desk *desk) {
        sbx_vaults_free(desk->vaults);
        sbx_config_free(desk->config);
        gated_store_close(&desk->store);
}

static inline struct sbx_vault *open_vault(struct desk *desk, const char *id) {
        struct sbx_vault *vault = NULL;

        desk->err = (struct sbx_error){0};
        if (sbx_vault_open(desk->vaults, "", id, true, NULL, &vault, &desk->err) < 0)
                fail_msg("no vault: %s", desk->err.message);
        return vault;
}

/* A state of one part for each text, up to NULL. */
static inline struct sbx_session_state state_of(const char *const *texts) {
        struct sbx_session_state state = {.mechanism = SBX_MECHANISM_PORTABLE};

        state.about = json_pack("{s:s, s:s, s:i, s:[s], s:[{s:s, s:s, s:s}]}", "runtime", "python", "version", "3.11",
                                "variables", 1, "names", "x", "unsaved", "name", "g", "type", "generator", "reason",
                                "it runs");
        for (; texts[state.part_count] != NULL; state.part_count++) {
                state.parts = reallocarray(state.parts, state.part_count + 1, sizeof(*state.parts));
                state.parts[state.part_count] = (struct sbx_buffer)SBX_BUFFER(SBX_STATE_BYTES_MAX);
                assert_int_equal(sbx_buffer_append_text(&state.parts[state.part_count], texts[state.part_count]), 0);
        }
        return state;
}

static inline int add_with(struct desk *desk, struct sbx_vault *vault, const char *text, const char *label,
                           bool automatic, const struct sbx_checkpoint **ret_checkpoint) {
        const char *const texts[] = {text, "shared", NULL};
        const struct sbx_checkpoint given = {.label = (char *)label, .automatic = automatic, .executions = 1};
        _cleanup_state_ struct sbx_session_state state = state_of(texts);

        desk->err = (struct sbx_error){0};
        return sbx_vault_add(vault, &given, &state, automatic, NULL, ret_checkpoint, &desk->err);
}

/* An explicit one; its id lives as long as the vault is not changed. */
static inline const char *add(struct desk *desk, struct sbx_vault *vault, const char *text) {
        const struct sbx_checkpoint *checkpoint = NULL;

        if (add_with(desk, vault, text, NULL, false, &checkpoint) < 0)
                fail_msg("no checkpoint: %s", desk->err.message);
        return checkpoint->id;
}

static inline const char *add_automatic(struct desk *desk, struct sbx_vault *vault, const char *text) {
        const struct sbx_checkpoint *checkpoint = NULL;

        if (add_with(desk, vault, text, NULL, true, &checkpoint) < 0)
                fail_msg("no checkpoint: %s", desk->err.message);
        return checkpoint->id;
}

static inline void assert_holds(struct desk *desk, struct sbx_vault *vault, const char *id, const char *text) {
        _cleanup_state_ struct sbx_session_state state = {0};

        desk->err = (struct sbx_error){0};
        if (sbx_vault_read(vault, id, NULL, &state, &desk->err) < 0)
                fail_msg("checkpoint %s can't be read: %s", id, desk->err.message);
        assert_int_equal(state.part_count, 2);
        assert_string_equal(state.parts[0].data, text);
        assert_string_equal(state.parts[1].data, "shared");
        assert_string_equal(json_string_value(json_object_get(state.about, "runtime")), "python");
}

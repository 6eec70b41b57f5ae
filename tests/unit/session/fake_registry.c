/* SPDX-License-Identifier: Apache-2.0 */
/* The registry and the configuration of tests: two backends of one kind, and a store if the test has one. */
#include "fake_guest_internal.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"

static struct sbx_instance store_instance;
static const struct sbx_option all_options[] = {{.name = "memory_max", .type = SBX_OPTION_SIZE}};
static struct sbx_value values[] = {{.type = SBX_OPTION_SIZE}};
static const struct sbx_option core_options[] = {{.name = "checkpoint", .type = SBX_OPTION_ENUM},
                                                 {.name = "checkpoint_copies", .type = SBX_OPTION_INT},
                                                 {.name = "checkpoint_size", .type = SBX_OPTION_SIZE},
                                                 {.name = "checkpoint_wait", .type = SBX_OPTION_DURATION}};
static struct sbx_value core_values[] = {
        {.type = SBX_OPTION_ENUM}, {.type = SBX_OPTION_INT}, {.type = SBX_OPTION_SIZE}, {.type = SBX_OPTION_DURATION}};
static const struct sbx_settings core_settings = {.table = core_options, .count = 4, .values = core_values};
static const struct sbx_settings settings_of_all = {.table = all_options, .count = 1, .values = values};
static struct sbx_module module = {.plugin = {.name = "backend-local"}};
struct sbx_backend_ops fake_operations = {.struct_size = sizeof(fake_operations)};

void fake_registry_reset(void) {
        store_instance.ops = NULL;
        for (size_t i = 0; i < sizeof(core_values) / sizeof(core_values[0]); i++)
                core_values[i].set = false;
        values[0].set = false;
        module.plugin.name = "backend-local";
        fake_operations.features = 0;
}

void fake_registry_plugin(const char *name) {
        module.plugin.name = name;
}

void fake_registry_can_fork(void) {
        fake_operations.features |= SBX_BACKEND_FORK;
}

void fake_registry_can_save(void) {
        fake_operations.features |= SBX_BACKEND_SAVE;
}

void fake_registry_families(void) {
        fake_operations.features |= SBX_BACKEND_FORK;
        fake.families = true;
}

void fake_registry_checkpoint(const char *policy) {
        core_values[0].set = true;
        core_values[0].string = (char *)(uintptr_t)policy;
}

void fake_registry_copies(int64_t count) {
        core_values[1].set = true;
        core_values[1].integer = count;
}

void fake_registry_checkpoint_wait(int64_t milliseconds) {
        core_values[3].set = true;
        core_values[3].integer = milliseconds;
}

void fake_registry_store(const struct sbx_store_ops *ops, void *state) {
        store_instance =
                (struct sbx_instance){.name = "store", .module = &module, .ops = ops, .state = state, .settings = NULL};
}

void fake_registry_memory_max(int64_t bytes) {
        values[0].set = bytes > 0;
        values[0].integer = bytes;
}

/* ---- the configuration and the registry ---- */

struct sbx_config *fake_config(const char *const *settings) {
        char path[] = "/tmp/sbx-test-XXXXXX";
        struct sbx_runtime_options options = {.struct_size = sizeof(options),
                                              .flags = SBX_RUNTIME_NO_ENVIRONMENT,
                                              .config_path = path,
                                              .directory = "/",
                                              .settings = settings};
        struct sbx_logger logger = {.level = SBX_LOG_ERROR};
        struct sbx_config *config = NULL;
        struct sbx_error err = {0};
        int fd = mkstemp(path);

        if (fd < 0 || sbx_config_load(&options, &logger, &config, &err) < 0) {
                fprintf(stderr, "no configuration: %s\n", err.message);
                abort();
        }
        close(fd);
        unlink(path);
        return config;
}

int sbx_registry_get(struct sbx_registry *registry, const char *name, uint32_t kind, const struct sbx_call *call,
                     const struct sbx_instance **ret_instance, struct sbx_error *err) {
        static struct sbx_instance instances[] = {{.name = "local",
                                                   .module = &module,
                                                   .settings = &settings_of_all,
                                                   .ops = &fake_operations,
                                                   .core_settings = &core_settings},
                                                  {.name = "other",
                                                   .module = &module,
                                                   .settings = &settings_of_all,
                                                   .ops = &fake_operations,
                                                   .core_settings = &core_settings}};

        if (kind == SBX_PLUGIN_STORE && store_instance.ops != NULL) {
                *ret_instance = &store_instance;
                return 0;
        }
        for (size_t i = 0; kind == SBX_PLUGIN_BACKEND && i < sizeof(instances) / sizeof(instances[0]); i++)
                if (strcmp(instances[i].name, name) == 0) {
                        *ret_instance = &instances[i];
                        return 0;
                }
        return sbx_error_set(err, -ENOENT, "fake", "Configured are: local, other.", "there is no %s \"%s\"",
                             kind == SBX_PLUGIN_STORE ? "store" : "backend", name);
}

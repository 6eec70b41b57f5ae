/* SPDX-License-Identifier: Apache-2.0 */
/* The conformance suite for backends: what every backend must do, whatever isolates. Run it on an instance of the
 * configuration: `conformance INSTANCE [NAME=VALUE ...]`. What a backend declares that it can't do is told as skipped.
 * SBX_CONFORMANCE: only tests whose name matches this pattern (cmocka's: * and ?). */
#include "suite.h"

#include "base/cleanup.h"

static int set_up(const char *instance, const char *const *settings, struct sbx_error *err) {
        struct sbx_runtime_options options = {.struct_size = sizeof(options), .settings = settings};
        struct sbx_call call = patience();
        int r;

        suite.logger.level = SBX_LOG_INFO;
        r = sbx_config_load(&options, &suite.logger, &suite.config, err);
        if (r == 0)
                r = sbx_directories_find(&suite.directories, err);
        if (r == 0)
                r = sbx_registry_new(suite.config, &suite.logger, &suite.directories, NULL, &suite.registry, err);
        if (r == 0)
                r = sbx_registry_get(suite.registry, instance, SBX_PLUGIN_BACKEND, &call, &suite.backend, err);
        if (r == 0)
                suite.ops = suite.backend->ops;
        return r;
}

static int run_all(const char *name) {
        const struct group groups[] = {state_group(),     ends_group(),     hostile_group(),
                                       limits_group(),    files_group(),    runtimes_group(),
                                       snapshots_group(), portable_group(), crafted_group()};
        _cleanup_free_ struct CMUnitTest *tests = NULL;
        size_t count = 0, filled = 0;

        for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++)
                count += groups[i].count;
        tests = calloc(count, sizeof(*tests));
        if (tests == NULL)
                return 1;
        for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
                memcpy(tests + filled, groups[i].tests, groups[i].count * sizeof(*tests));
                filled += groups[i].count;
        }
        if (getenv("SBX_CONFORMANCE") != NULL)
                cmocka_set_test_filter(getenv("SBX_CONFORMANCE"));
        return _cmocka_run_group_tests(name, tests, count, NULL, NULL);
}

int main(int argc, char **argv) {
        struct sbx_error err = {0};
        int r;

        if (argc < 2) {
                fprintf(stderr, "usage: conformance INSTANCE [NAME=VALUE ...]\n");
                return 2;
        }
        /* A secret of the host, for a test that looks for it inside. */
        if (setenv("SBX_CONFORMANCE_SECRET", "do not tell", 1) != 0)
                return 1;
        if (set_up(argv[1], (const char *const *)argv + 2, &err) < 0) {
                fprintf(stderr, "%s\n%s\n", err.message, err.hint);
                return 1;
        }
        r = run_all(argv[1]);
        sbx_registry_free(suite.registry);
        sbx_directories_free(&suite.directories);
        sbx_config_free(suite.config);
        return r;
}

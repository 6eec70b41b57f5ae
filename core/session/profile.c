/* SPDX-License-Identifier: Apache-2.0 */
/* The named limits of executions, as in snipara-sandbox 2.2.7. */
#include "session/session.h"

#define ORIGIN "session"
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

static const struct sbx_profile profiles[] = {
        {"quick", 5000, 128 * MIB, "Fast operations: simple math, string manipulation"},
        {"default", 30000, 512 * MIB, "Standard operations: data processing, algorithms"},
        {"analysis", 120000, 2 * GIB, "Heavy computation: large data sets, complex algorithms"},
        {"extended", 300000, 4 * GIB, "Long-running tasks: batch processing, extensive analysis"},
};

const struct sbx_profile *sbx_profile_at(size_t index) {
        return index < sizeof(profiles) / sizeof(profiles[0]) ? &profiles[index] : NULL;
}

int sbx_profile_find(const char *name, const struct sbx_profile **ret_profile, struct sbx_error *err) {
        if (name == NULL)
                name = "default";
        for (size_t i = 0; sbx_profile_at(i) != NULL; i++) {
                if (strcmp(sbx_profile_at(i)->name, name) != 0)
                        continue;
                *ret_profile = sbx_profile_at(i);
                return 0;
        }
        return sbx_error_set(err, -ENOENT, ORIGIN,
                             "Use one of: quick (5 s, 128 MB), default (30 s, 512 MB), analysis "
                             "(120 s, 2 GB), extended (300 s, 4 GB).",
                             "unknown profile '%.64s'; there are quick, default, analysis, extended", name);
}

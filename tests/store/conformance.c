/* SPDX-License-Identifier: Apache-2.0 */
/* The conformance suite for stores: what every store must do, wherever it keeps things. Run it on an instance of the
 * configuration: `store-conformance INSTANCE [NAME=VALUE ...]`. It uses names below conformance/ and leaves them there.
 * SBX_CONFORMANCE: only tests whose name matches this pattern (cmocka's: * and ?). SBX_STORE_KILLS: how many processes
 * are killed in the middle of their work. */
#include "processes.h"
#include "suite.h"

static int run_all(const char *name) {
        const struct group groups[] = {blobs_group(),   commits_group(),   leases_group(),
                                       threads_group(), processes_group(), collect_group()};
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
        const char *task = getenv("SBX_STORE_CHILD");
        int r;

        if (argc < 2) {
                fprintf(stderr, "usage: store-conformance INSTANCE [NAME=VALUE ...]\n");
                return 2;
        }
        if (suite_open(argv) < 0)
                return 1;
        r = task != NULL ? child_main(task) : run_all(argv[1]);
        suite_close();
        return r;
}

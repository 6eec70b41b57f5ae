/* SPDX-License-Identifier: Apache-2.0 */
/* Loads and checks plugin files as the core does, for test_bad_plugins.py: for each path "ok NAME", or the error as
 * lines "error CODE", "message ...", "hint ...". */
#include "plugin/registry.h"

int main(int argc, char **argv) {
        for (int i = 1; i < argc; i++) {
                struct sbx_module *module = NULL;
                struct sbx_error err = {0};

                if (sbx_module_load(argv[i], &module, &err) < 0)
                        printf("error %d\nmessage %s\nhint %s\n", err.code, err.message, err.hint);
                else
                        printf("ok %s\n", module->plugin.name);
                sbx_module_free(module);
        }
        return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* sbx-wasm: the program that runs WebAssembly guests. */
#include <stdio.h>
#include <string.h>

#include "engine/bake.h"
#include "engine/run.h"
#include "lock.h"
#include "zygote.h"

static int usage(void) {
        fprintf(stderr,
                "usage: sbx-wasm zygote   serves a snipara-sandbox server, which starts it (helper/protocol.h)\n"
                "       sbx-wasm bake     makes images: sbx-wasm bake --help\n"
                "       sbx-wasm run      tries one: sbx-wasm run --help\n");
        return 2;
}

int main(int argc, char **argv) {
        const char *mode = argc > 1 ? argv[1] : "";

        if (strcmp(mode, "zygote") == 0 && argc == 2)
                return zygote_main();
        if (strcmp(mode, "bake") == 0)
                return wasm_bake_main(argc - 1, argv + 1, helper_lock);
        if (strcmp(mode, "run") == 0)
                return wasm_run_main(argc - 1, argv + 1, helper_lock);
        return usage();
}

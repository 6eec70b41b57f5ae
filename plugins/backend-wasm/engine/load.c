/* SPDX-License-Identifier: Apache-2.0 */
/* Loads a guest's native code: a shared object with one symbol. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "host.h"

static const char *code_defect(const struct wasm_code *code) {
        if (code->abi != WASM_CODE_ABI || code->struct_size < sizeof(*code))
                return "it was built for another version of the engine: build the guest again";
        if (code->name == NULL || code->module_sha256 == NULL || strlen(code->module_sha256) != 64)
                return "it does not say which module it was made of";
        if (code->global_count == 0 || code->global_count > WASM_GLOBALS_MAX || code->global_values == NULL)
                return "its module has too many globals, or no stack pointer";
        if (code->initial_pages > WASM_PAGES_MAX)
                return "its memory is too large";
        if (code->initialize == NULL || code->start == NULL || code->prepare == NULL || code->request == NULL ||
            code->resume == NULL)
                return "it lacks an export";
        return NULL;
}

int wasm_code_load(const char *path, const struct wasm_code **ret_code, char *message, size_t size) {
        char here[4096];
        const struct wasm_code *code;
        const char *defect;
        void *object;

        if (strchr(path, '/') == NULL) { /* dlopen would look for it in the libraries' places */
                snprintf(here, sizeof(here), "./%s", path);
                path = here;
        }
        /* Everything is bound now: what loads symbols later would need files. */
        object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (object == NULL) {
                snprintf(message, size, "the guest's code can't be loaded: %s", dlerror());
                return -EINVAL;
        }
        code = dlsym(object, WASM_CODE_SYMBOL);
        if (code == NULL) {
                snprintf(message, size, "%s is no guest's code: it has no symbol %s", path, WASM_CODE_SYMBOL);
                dlclose(object);
                return -EINVAL;
        }
        defect = code_defect(code);
        if (defect != NULL) {
                snprintf(message, size, "the guest's code %s can't be used: %s", path, defect);
                dlclose(object);
                return -EINVAL;
        }
        *ret_code = code;
        return 0;
}

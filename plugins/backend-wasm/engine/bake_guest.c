/* SPDX-License-Identifier: Apache-2.0 */
/* The guest's part of a bake: what runs until its memory is what an image holds. Clocks stand still and random numbers
 * are a fixed sequence meanwhile. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "bake_internal.h"

#define MEMORY_MAX ((uint64_t)512 << 20)

static const struct vfs_limits limits = {.bytes = 64 << 20, .entries = 10000, .open_files = 256};

int bake_make_instance(struct bake *bake) {
        const struct wasm_image *image = bake->image_path != NULL ? &bake->image : NULL;
        int r = vfs_new(&bake->tree, &limits, &bake->host.vfs);

        if (r < 0)
                return bake_refuse(bake, "no memory for the guest's files");
        vfs_set_streams(bake->host.vfs, -1, STDERR_FILENO, STDERR_FILENO, -1);
        bake->host.status = &bake->status;
        bake->host.memory_limit = MEMORY_MAX;
        bake->host.baking = true;
        r = wasm_instance_new(bake->code, image, &bake->host, &bake->instance);
        if (r == 0)
                r = wasm_signals_install(bake->instance);
        if (r < 0)
                return bake_refuse(bake, "the guest can't be set up: %s",
                                   r == -EINVAL ? "code and image are not of the same module" : strerror(-r));
        return image != NULL ? 0
                             : wasm_module_load(bake->instance, bake->module, bake->module_size, bake->message,
                                                sizeof(bake->message));
}

static int step(struct bake *bake, const char *name, uint32_t (*function)(struct wasm_instance *instance)) {
        uint32_t value = 0;
        enum wasm_trap trap =
                function != NULL ? wasm_call(bake->instance, function, &value) : wasm_call_initialize(bake->instance);

        if (trap == WASM_TRAP_EXIT)
                return bake_refuse(bake, "the guest ended in its %s with status %u", name, bake->status.exit_code);
        if (trap != WASM_TRAP_NONE)
                return bake_refuse(bake, "the guest trapped in its %s: %s", name, wasm_trap_name(trap));
        if (value != 0)
                return bake_refuse(bake, "the guest's %s failed (%u)", name, value);
        return 0;
}

/* A session begins with empty directories and no descriptors: what refers to others would be lost. */
static int check_files(struct bake *bake) {
        struct vfs_usage fresh_usage, usage;
        struct vfs *fresh;

        if (vfs_new(&bake->tree, &limits, &fresh) < 0)
                return bake_refuse(bake, "no memory for the guest's files");
        vfs_get_usage(fresh, &fresh_usage);
        vfs_free(fresh);
        vfs_get_usage(bake->host.vfs, &usage);
        if (usage.entries != fresh_usage.entries || usage.open_files != fresh_usage.open_files)
                return bake_refuse(bake,
                                   "what was imported left %u files and %u open descriptors behind: a session would "
                                   "not find them",
                                   usage.entries - fresh_usage.entries, usage.open_files - fresh_usage.open_files);
        return 0;
}

int bake_run_guest(struct bake *bake) {
        int r = 0;

        if (bake->image_path == NULL) {
                r = step(bake, "initialization", NULL);
                if (r == 0)
                        r = step(bake, "start", bake->code->start);
        }
        if (r == 0)
                r = step(bake, "preparation", bake->code->prepare);
        if (r == 0)
                r = check_files(bake);
        if (r == 0 && bake->host.interrupt_count == 0)
                r = bake_refuse(bake, "the guest did not show how it is interrupted (interrupt_mark)");
        return r;
}

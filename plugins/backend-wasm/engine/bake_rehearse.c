/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the pages that every session writes to at once: a first execution is rehearsed on the baked memory, what
 * differs is noted, and the memory is put back. Sessions make these pages their own in one go (wasm_instance_warm). */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "bake_internal.h"
#include "frames.h"

#define SOURCE_PATH "usr/lib/sbx/rehearsal" /* in the guest's own language; an image without it has no list */
#define SOURCE_MAX 4096u

static size_t read_source(struct vfs *vfs, char *source) {
        const struct vfs_at at = {.fd = VFS_ROOT_FD, .path = SOURCE_PATH, .size = strlen(SOURCE_PATH)};
        const struct vfs_open_how how = {.read = true};
        size_t size = 0;
        uint32_t fd;

        if (vfs_open(vfs, &at, &how, &fd) != 0)
                return 0;
        if (vfs_read(vfs, fd, source, SOURCE_MAX, &size) != 0)
                size = 0;
        vfs_close(vfs, fd);
        return size;
}

/* Hello and one execution. What the guest answers stays in the socket. */
static int run(struct bake *bake, const char *source, size_t size) {
        struct pollfd fd = {.fd = bake->rehearsal[1], .events = POLLIN};
        enum wasm_trap trap = WASM_TRAP_NONE;
        uint32_t ended = 0;
        int r = frames_send_hello(bake->rehearsal[0]);

        if (r == 0)
                r = frames_send_exec(bake->rehearsal[0], source, size);
        if (r < 0)
                return bake_refuse(bake, "the rehearsal can't be sent: %s", strerror(-r));
        vfs_set_streams(bake->host.vfs, -1, -1, -1, bake->rehearsal[1]);
        while (trap == WASM_TRAP_NONE && ended == 0 && poll(&fd, 1, 0) > 0)
                trap = wasm_call(bake->instance, bake->code->request, &ended);
        if (trap != WASM_TRAP_NONE)
                return bake_refuse(bake, "the guest trapped in the rehearsal: %s", wasm_trap_name(trap));
        return ended != 0 ? bake_refuse(bake, "the guest ended in the rehearsal") : 0;
}

static void note_pages(struct bake *bake, const uint8_t *before, uint64_t size) {
        const uint8_t *memory = bake->instance->memory;

        for (uint32_t page = 0; page < size / WASM_HOST_PAGE; page++) {
                struct wasm_hot_run *last = bake->hot_count > 0 ? &bake->hot[bake->hot_count - 1] : NULL;
                uint64_t at = (uint64_t)page * WASM_HOST_PAGE;

                if (memcmp(before + at, memory + at, WASM_HOST_PAGE) == 0)
                        continue;
                if (last != NULL && last->first + last->count == page)
                        last->count++;
                else if (bake->hot_count < BAKE_HOT_MAX)
                        bake->hot[bake->hot_count++] = (struct wasm_hot_run){page, 1};
        }
}

int bake_rehearse(struct bake *bake) {
        struct wasm_instance *instance = bake->instance;
        uint64_t size = instance->size, globals[WASM_GLOBALS_MAX];
        char source[SOURCE_MAX];
        size_t source_size = read_source(bake->host.vfs, source);
        uint8_t *before;
        int r;

        if (source_size == 0)
                return 0;
        before = malloc(size);
        if (before == NULL)
                return bake_refuse(bake, "no memory for the rehearsal");
        memset(instance->memory, 0, wasm_dead_stack(instance)); /* as it is in the image */
        memcpy(before, instance->memory, size);
        memcpy(globals, instance->globals, sizeof(globals));
        r = run(bake, source, source_size);
        note_pages(bake, before, size);
        memcpy(instance->memory, before, size);
        memcpy(instance->globals, globals, sizeof(globals));
        instance->size = size; /* it may have grown: that is not in the image */
        free(before);
        return r;
}

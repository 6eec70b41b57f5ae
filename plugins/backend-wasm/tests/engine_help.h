/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the engine share: an image of the tiny guest, and sessions of it in this process. */
#pragma once

#include "engine/host.h"
#include "engine/image.h"
#include "engine/snapshot.h"
#include "engine/wasi.h"
#include "tiny_guest.h"

#define HELP_MEMORY_LIMIT ((uint64_t)4 << 20)
#define HELP_MANIFEST "{\"name\": \"tiny\"}"

extern const struct wasm_code sbx_wasm_code_v1;
#define TINY_CODE (&sbx_wasm_code_v1)

struct session {
        struct wasm_status status;
        struct wasm_host host;
        struct wasm_instance *instance;
        int control; /* the server's end */
        int guest_control;
};

/* A tree with /usr/lib/sbx/preload and another file; *ret_data is malloc'ed. */
void help_tree(const char *preload, uint8_t **ret_data, struct vfs_tree *ret_tree);
/* The tiny guest, baked: a memfd of the packed form. `extra` is stored at TINY_FREE beforehand, so that images differ.
 */
int help_bake(uint8_t extra);
/* The same, expanded and opened. */
void help_image(uint8_t extra, struct wasm_image *ret_image);
/* Ready for requests. `image` NULL: not baked, zeroed. */
void help_session(const struct wasm_image *image, struct session *session);
void help_session_end(struct session *session);
/* One command, or several as one request. */
enum wasm_trap help_run(struct session *session, uint32_t op, uint32_t a, uint32_t b);
enum wasm_trap help_request(struct session *session, const struct tiny_command *commands, size_t count);
uint64_t help_result(const struct session *session);
uint32_t help_u32(const struct session *session, uint32_t address);
/* The whole of a file: malloc'ed. */
uint8_t *help_read(int fd, size_t *ret_size);
/* A memfd with these bytes. */
int help_memfd(const void *data, size_t size);

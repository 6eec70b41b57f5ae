/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the restoring of sessions of backend-wasm. The first byte of the input chooses: 0: the rest is a snapshot;
 * else it is what is packed in one, whose header and checksum are made good here, with as many pages of memory more
 * than the image has as the byte says. What is taken must be saved and taken again. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test.h"

#include "engine/snapshot_stream.h"
#include "engine_help.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SIZE_MAX_BYTES ((uint64_t)1 << 30)

static const struct vfs_limits limits = {.bytes = 1 << 20, .entries = 1000, .open_files = 50};
static struct wasm_image image;

static void must(bool holds) {
        if (!holds)
                abort();
}

/* malloc'ed: a snapshot with this body. */
static uint8_t *pack(const uint8_t *body, size_t body_size, unsigned pages, size_t *ret_size) {
        uint8_t header[SNAPSHOT_HEADER_SIZE] = SNAPSHOT_MAGIC, *data;
        uint32_t numbers[] = {SNAPSHOT_VERSION, SNAPSHOT_HEADER_SIZE};
        uint64_t sizes[] = {(uint64_t)(image.memory_pages + pages) * WASM_PAGE, 0};
        int fd = memfd_create("snapshot", MFD_CLOEXEC);
        struct snapshot_writer *writer = NULL;

        must(fd >= 0 && snapshot_writer_new(fd, SNAPSHOT_HEADER_SIZE, SIZE_MAX_BYTES, &writer) == 0);
        must(snapshot_put(writer, body, body_size) == 0 && snapshot_writer_finish(writer) == 0);
        sizes[1] = writer->offset - SNAPSHOT_HEADER_SIZE;
        snapshot_writer_free(writer);
        memcpy(header + 8, numbers, sizeof(numbers));
        memcpy(header + 16, image.hash, sizeof(image.hash));
        memcpy(header + 48, sizes, sizeof(sizes));
        must(pwrite(fd, header, sizeof(header), 0) == sizeof(header));
        data = help_read(fd, ret_size);
        close(fd);
        return data;
}

static void take_again(struct session *session) {
        int fd = memfd_create("again", MFD_CLOEXEC);
        struct session copy;
        char message[200];
        uint64_t size;
        uint8_t *data;
        size_t length;

        must(fd >= 0 && snapshot_save(session->instance, fd, SIZE_MAX_BYTES, &size) == 0);
        data = help_read(fd, &length);
        close(fd);
        help_session(&image, &copy);
        must(snapshot_restore(copy.instance, data, length, &limits, message, sizeof(message)) == 0);
        must(copy.instance->size == session->instance->size);
        help_session_end(&copy);
        free(data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct snapshot_facts facts;
        struct session session;
        char message[200] = "";
        uint8_t *packed = NULL;
        size_t packed_size = 0;
        int r;

        if (size == 0)
                return 0;
        if (image.map == NULL)
                help_image(0, &image);
        if (data[0] == 0) /* a copy, so that reading beyond it is seen */
                packed = memcpy(malloc(size), data + 1, packed_size = size - 1);
        else
                packed = pack(data + 1, size - 1, data[0] % 16, &packed_size);
        (void)snapshot_describe(packed, packed_size, &facts);
        help_session(&image, &session);
        r = snapshot_restore(session.instance, packed, packed_size, &limits, message, sizeof(message));
        must((r == 0) == (message[0] == '\0'));
        if (r == 0)
                take_again(&session);
        help_session_end(&session);
        free(packed);
        return 0;
}

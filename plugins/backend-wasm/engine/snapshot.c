/* SPDX-License-Identifier: Apache-2.0 */
/* Saves and restores sessions. After the header comes one zstd frame of
 *
 *   u32 count and u64 each: globals; u64 monotonic clock, u64 CPU time;
 *   runs of pages: u32 first, u32 count, 4096 bytes each; UINT32_MAX, 0 ends them;
 *   the file system (vfs_save).
 *
 * A page is stored as its difference (exclusive or) from the image's, or from zero beyond it: most of what a session
 * touches are reference counts, and the rest of their pages packs to nothing. What is left of the guest's stack below
 * its pointer is dead and not saved. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "image.h"
#include "snapshot_stream.h"
#include "stack.h"
#include "vfs.h"
#include "wasi.h"

#define PAGE 4096u
#define RUN_MAX 256u /* pages: a piece of work between checks */
#define RUNS_END UINT32_MAX

struct header {
        uint8_t magic[8];
        uint32_t version, header_size;
        uint8_t image_hash[WASM_IMAGE_HASH_SIZE];
        uint64_t memory_size, packed_size;
        uint8_t reserved[64]; /* zero */
};
_Static_assert(sizeof(struct header) == SNAPSHOT_HEADER_SIZE, "what is written");

/* ---- saving ---- */

static const uint8_t *image_page(const struct wasm_instance *instance, uint32_t page) {
        static const uint8_t zero[PAGE];
        uint64_t at = (uint64_t)page * PAGE;

        return at < instance->host->memory_base ? instance->host->image->memory + at : zero;
}

static bool changed(const struct wasm_instance *instance, uint32_t page) {
        return memcmp(instance->memory + (uint64_t)page * PAGE, image_page(instance, page), PAGE) != 0;
}

static void xor_page(uint8_t *to, const uint8_t *from) {
        for (size_t i = 0; i < PAGE; i += sizeof(uint64_t)) {
                uint64_t a, b;

                memcpy(&a, to + i, sizeof(a));
                memcpy(&b, from + i, sizeof(b));
                a ^= b;
                memcpy(to + i, &a, sizeof(a));
        }
}

static int put_run(const struct wasm_instance *instance, struct snapshot_writer *writer, uint32_t first,
                   uint32_t count) {
        int r = snapshot_put_u32(writer, first);

        if (r == 0)
                r = snapshot_put_u32(writer, count);
        for (uint32_t page = first; page < first + count && r == 0; page++) {
                uint8_t difference[PAGE];

                memcpy(difference, instance->memory + (uint64_t)page * PAGE, PAGE);
                xor_page(difference, image_page(instance, page));
                r = snapshot_put(writer, difference, PAGE);
        }
        return r;
}

static int put_memory(const struct wasm_instance *instance, struct snapshot_writer *writer) {
        uint32_t end = (uint32_t)(instance->size / PAGE), page = (uint32_t)(wasm_dead_stack(instance) / PAGE);
        int r = 0;

        while (page < end && r == 0) {
                uint32_t count = 0;

                while (page + count < end && count < RUN_MAX && changed(instance, page + count))
                        count++;
                if (count > 0)
                        r = put_run(instance, writer, page, count);
                page += count > 0 ? count : 1;
        }
        if (r == 0)
                r = snapshot_put_u32(writer, RUNS_END);
        return r < 0 ? r : snapshot_put_u32(writer, 0);
}

static int put_state(struct wasm_instance *instance, struct snapshot_writer *writer) {
        uint32_t count = instance->host->code->global_count;
        int r = snapshot_put_u32(writer, count);

        for (uint32_t i = 0; i < count && r == 0; i++)
                r = snapshot_put_u64(writer, instance->globals[i]);
        if (r == 0)
                r = snapshot_put_u64(writer, wasi_now_ns(instance, WASI_CLOCK_MONOTONIC));
        return r < 0 ? r : snapshot_put_u64(writer, wasi_now_ns(instance, WASI_CLOCK_PROCESS_CPUTIME));
}

/* Last, in the file: what was cut off has no header. */
static int put_header(const struct wasm_instance *instance, int fd, uint64_t size) {
        struct header header = {.version = SNAPSHOT_VERSION,
                                .header_size = SNAPSHOT_HEADER_SIZE,
                                .memory_size = instance->size,
                                .packed_size = size - SNAPSHOT_HEADER_SIZE};

        memcpy(header.magic, SNAPSHOT_MAGIC, sizeof(header.magic));
        memcpy(header.image_hash, instance->host->image->hash, sizeof(header.image_hash));
        return snapshot_write_at(fd, &header, sizeof(header), 0);
}

int snapshot_save(struct wasm_instance *instance, int fd, uint64_t max_bytes, uint64_t *ret_size) {
        struct snapshot_writer *writer;
        int r;

        if (instance->host->image == NULL || instance->host->inside || instance->host->trap != WASM_TRAP_NONE)
                return -EINVAL;
        r = snapshot_writer_new(fd, SNAPSHOT_HEADER_SIZE, max_bytes, &writer);
        if (r < 0)
                return r;
        r = put_state(instance, writer);
        if (r == 0)
                r = put_memory(instance, writer);
        if (r == 0)
                r = vfs_save(instance->host->vfs, writer);
        if (r == 0)
                r = snapshot_writer_finish(writer);
        if (r == 0)
                r = put_header(instance, fd, writer->offset);
        if (r == 0)
                *ret_size = writer->offset;
        snapshot_writer_free(writer);
        return r;
}

/* ---- restoring ---- */

static int read_header(const void *data, size_t size, struct header *ret_header) {
        static const uint8_t zero[sizeof(ret_header->reserved)];

        if (size < sizeof(*ret_header))
                return -EINVAL;
        memcpy(ret_header, data, sizeof(*ret_header));
        if (memcmp(ret_header->magic, SNAPSHOT_MAGIC, sizeof(ret_header->magic)) != 0)
                return -EINVAL;
        if (ret_header->version != SNAPSHOT_VERSION)
                return -EPROTONOSUPPORT;
        if (ret_header->header_size != SNAPSHOT_HEADER_SIZE || memcmp(ret_header->reserved, zero, sizeof(zero)) != 0 ||
            ret_header->packed_size != size - SNAPSHOT_HEADER_SIZE || ret_header->memory_size % WASM_PAGE != 0 ||
            ret_header->memory_size / WASM_PAGE > WASM_PAGES_MAX)
                return -EINVAL;
        return 0;
}

int snapshot_describe(const void *data, size_t size, struct snapshot_facts *ret_facts) {
        struct header header;
        int r = read_header(data, size, &header);

        if (r < 0)
                return r;
        ret_facts->version = header.version;
        memcpy(ret_facts->image_hash, header.image_hash, sizeof(ret_facts->image_hash));
        ret_facts->memory_size = header.memory_size;
        ret_facts->packed_size = header.packed_size;
        return 0;
}

static int get_state(struct wasm_instance *instance, struct snapshot_reader *reader) {
        struct wasm_host *host = instance->host;
        uint64_t monotonic_ns;
        uint32_t count;
        int r = snapshot_get_u32(reader, &count);

        if (r < 0 || count != host->code->global_count)
                return -EINVAL;
        for (uint32_t i = 0; i < count && r == 0; i++)
                r = snapshot_get_u64(reader, &instance->globals[i]);
        if (r == 0)
                r = snapshot_get_u64(reader, &monotonic_ns);
        if (r == 0)
                r = snapshot_get_u64(reader, &host->cpu_seen_ns);
        if (r == 0)
                host->monotonic_offset_ns += monotonic_ns - wasi_now_ns(instance, WASI_CLOCK_MONOTONIC);
        return r;
}

static int get_memory(struct wasm_instance *instance, struct snapshot_reader *reader) {
        uint32_t end = (uint32_t)(instance->size / PAGE), next = 0, first, count;
        int r;

        for (;;) {
                r = snapshot_get_u32(reader, &first);
                if (r == 0)
                        r = snapshot_get_u32(reader, &count);
                if (r < 0)
                        return r;
                if (first == RUNS_END)
                        return count == 0 ? 0 : -EINVAL;
                /* Ascending: no page comes twice. */
                if (first < next || first >= end || count == 0 || count > end - first)
                        return -EINVAL;
                for (next = first; next < first + count; next++) {
                        uint8_t difference[PAGE];

                        r = snapshot_get(reader, difference, PAGE);
                        if (r < 0)
                                return r;
                        xor_page(instance->memory + (uint64_t)next * PAGE, difference);
                }
        }
}

static int get_all(struct wasm_instance *instance, struct snapshot_reader *reader, const struct vfs_limits *limits) {
        struct wasm_host *host = instance->host;
        struct vfs *vfs = NULL;
        int r = get_state(instance, reader);

        if (r == 0)
                r = get_memory(instance, reader);
        if (r == 0)
                r = vfs_load(&host->image->tree, limits, reader, &vfs);
        if (r == 0)
                r = snapshot_reader_finish(reader);
        if (r < 0) {
                vfs_free(vfs);
                return r;
        }
        vfs_free(host->vfs);
        host->vfs = vfs;
        wasi_clocks_resume(instance);
        return 0;
}

static int refuse(int error, char *message, size_t size, const char *text) {
        snprintf(message, size, "the snapshot can't be restored: %s", text);
        return error;
}

static int explain(int error, char *message, size_t size) {
        switch (error) {
        case 0:
                return 0;
        case -ENOMEM:
                return refuse(error, message, size, "it needs more memory than a session may have");
        case -EDQUOT:
                return refuse(error, message, size, "its files are more than a session may have");
        case -EXDEV:
                return refuse(error, message, size, "it is of another image; it needs the one that it was saved with");
        case -EPROTONOSUPPORT:
                return refuse(error, message, size, "it has another version than this program reads");
        default:
                return refuse(-EINVAL, message, size, "it is damaged");
        }
}

int snapshot_restore(struct wasm_instance *instance, const void *data, size_t size, const struct vfs_limits *limits,
                     char *message, size_t message_size) {
        struct wasm_host *host = instance->host;
        struct snapshot_reader *reader;
        struct header header;
        int r = read_header(data, size, &header);

        if (r == 0 && (host->image == NULL || instance->size != host->memory_base))
                r = -EINVAL;
        if (r == 0 && memcmp(header.image_hash, host->image->hash, sizeof(header.image_hash)) != 0)
                r = -EXDEV;
        if (r == 0)
                r = wasm_memory_resize(instance, header.memory_size);
        if (r == 0)
                r = snapshot_reader_new((const uint8_t *)data + SNAPSHOT_HEADER_SIZE, header.packed_size, &reader);
        if (r == 0) {
                r = get_all(instance, reader, limits);
                snapshot_reader_free(reader);
        }
        return explain(r, message, message_size);
}

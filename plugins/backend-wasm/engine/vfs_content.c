/* SPDX-License-Identifier: Apache-2.0 */
/* What files hold: chunks of up to 64 KiB. A chunk is as large as what was written to it, to the next power of two, and
 * a hole takes none; what is really taken is charged to the quota, so a sparse file costs little and nothing is hidden.
 */
#include "vfs_internal.h"

#define CHUNK_LEAST 64u
#define CHUNKS_LEAST 4u

static uint64_t chunk_cost(uint32_t capacity) {
        return sizeof(struct vfs_chunk) + capacity;
}

static void chunk_free(struct vfs *vfs, struct vfs_chunk *chunk) {
        if (chunk == NULL)
                return;
        vfs_discharge(vfs, chunk_cost(chunk->capacity));
        free(chunk);
}

/* Room in the table for chunk `index`. */
static int table_reserve(struct vfs *vfs, struct vfs_content *content, uint64_t index) {
        uint32_t capacity = vfs_power_of_two(CHUNKS_LEAST, index + 1);
        struct vfs_chunk **chunks;
        uint64_t cost;
        int r;

        if (index < content->chunks_capacity)
                return 0;
        cost = (uint64_t)(capacity - content->chunks_capacity) * sizeof(*chunks);
        r = vfs_charge(vfs, cost);
        if (r != 0)
                return r;
        chunks = calloc(capacity, sizeof(*chunks));
        if (chunks == NULL) {
                vfs_discharge(vfs, cost);
                return WASI_ENOMEM;
        }
        if (content->chunks_capacity > 0)
                memcpy(chunks, content->chunks, content->chunks_capacity * sizeof(*chunks));
        free(content->chunks);
        content->chunks = chunks;
        content->chunks_capacity = capacity;
        return 0;
}

/* Chunk `index` with room for `needed` bytes. */
static int chunk_reserve(struct vfs *vfs, struct vfs_content *content, uint64_t index, uint32_t needed) {
        uint32_t capacity = vfs_power_of_two(CHUNK_LEAST, needed);
        struct vfs_chunk *chunk, *old;
        int r = table_reserve(vfs, content, index);

        if (r != 0)
                return r;
        old = content->chunks[index];
        if (old != NULL && old->capacity >= needed)
                return 0;
        r = vfs_charge(vfs, old == NULL ? chunk_cost(capacity) : capacity - old->capacity);
        if (r != 0)
                return r;
        chunk = calloc(1, sizeof(*chunk) + capacity);
        if (chunk == NULL) {
                vfs_discharge(vfs, old == NULL ? chunk_cost(capacity) : capacity - old->capacity);
                return WASI_ENOMEM;
        }
        chunk->capacity = capacity;
        if (old != NULL)
                memcpy(chunk->data, old->data, old->capacity);
        free(old);
        content->chunks[index] = chunk;
        return 0;
}

size_t vfs_content_read(const struct vfs_content *content, uint64_t offset, void *buffer, size_t size) {
        uint8_t *to = buffer;
        size_t done = 0;

        if (offset >= content->size)
                return 0;
        if (size > content->size - offset)
                size = content->size - offset;
        while (done < size) {
                uint64_t index = (offset + done) / VFS_CHUNK_SIZE;
                uint32_t begin = (offset + done) % VFS_CHUNK_SIZE, held = 0;
                const struct vfs_chunk *chunk = index < content->chunks_capacity ? content->chunks[index] : NULL;
                size_t part = VFS_CHUNK_SIZE - begin;

                if (part > size - done)
                        part = size - done;
                if (chunk != NULL && chunk->capacity > begin)
                        held = chunk->capacity - begin < part ? chunk->capacity - begin : (uint32_t)part;
                if (held > 0)
                        memcpy(to + done, chunk->data + begin, held);
                memset(to + done + held, 0, part - held);
                done += part;
        }
        return size;
}

int vfs_content_write(struct vfs *vfs, struct vfs_content *content, uint64_t offset, const void *data, size_t size,
                      size_t *ret_size) {
        const uint8_t *from = data;
        size_t done = 0;
        int r = 0;

        if (size > 0 && offset >= VFS_FILE_SIZE_MAX)
                return WASI_EFBIG;
        if (size > VFS_FILE_SIZE_MAX - offset)
                size = VFS_FILE_SIZE_MAX - offset;
        while (done < size) {
                uint64_t index = (offset + done) / VFS_CHUNK_SIZE;
                uint32_t begin = (offset + done) % VFS_CHUNK_SIZE;
                uint32_t part = VFS_CHUNK_SIZE - begin;

                if (part > size - done)
                        part = (uint32_t)(size - done);
                r = chunk_reserve(vfs, content, index, begin + part);
                if (r != 0)
                        break;
                memcpy(content->chunks[index]->data + begin, from + done, part);
                done += part;
        }
        if (done > 0 && offset + done > content->size)
                content->size = offset + done;
        *ret_size = done;
        return done > 0 ? 0 : r;
}

/* What lies beyond `size` goes, so that it reads as zero when the file grows again. */
static void cut(struct vfs *vfs, struct vfs_content *content, uint64_t size) {
        uint64_t index = size / VFS_CHUNK_SIZE;
        uint32_t begin = size % VFS_CHUNK_SIZE;
        struct vfs_chunk *chunk = index < content->chunks_capacity ? content->chunks[index] : NULL;

        if (begin > 0) {
                if (chunk != NULL && chunk->capacity > begin)
                        memset(chunk->data + begin, 0, chunk->capacity - begin);
                index++;
        }
        for (; index < content->chunks_capacity; index++) {
                chunk_free(vfs, content->chunks[index]);
                content->chunks[index] = NULL;
        }
}

int vfs_content_resize(struct vfs *vfs, struct vfs_content *content, uint64_t size) {
        if (size > VFS_FILE_SIZE_MAX)
                return WASI_EFBIG;
        if (size == 0)
                vfs_content_free(vfs, content);
        else if (size < content->size)
                cut(vfs, content, size);
        content->size = size;
        return 0;
}

int vfs_content_allocate(struct vfs *vfs, struct vfs_content *content, uint64_t offset, uint64_t size) {
        uint64_t end;

        if (__builtin_add_overflow(offset, size, &end) || end > VFS_FILE_SIZE_MAX)
                return WASI_EFBIG;
        for (uint64_t index = offset / VFS_CHUNK_SIZE; index * VFS_CHUNK_SIZE < end; index++) {
                uint64_t needed = end - index * VFS_CHUNK_SIZE;
                int r = chunk_reserve(vfs, content, index, needed < VFS_CHUNK_SIZE ? (uint32_t)needed : VFS_CHUNK_SIZE);

                if (r != 0)
                        return r;
        }
        if (end > content->size)
                content->size = end;
        return 0;
}

int vfs_content_chunk(struct vfs *vfs, struct vfs_content *content, uint64_t index, uint32_t size, uint8_t **ret_data) {
        int r = chunk_reserve(vfs, content, index, size);

        if (r == 0)
                *ret_data = content->chunks[index]->data;
        return r;
}

void vfs_content_free(struct vfs *vfs, struct vfs_content *content) {
        for (uint32_t i = 0; i < content->chunks_capacity; i++)
                chunk_free(vfs, content->chunks[i]);
        vfs_discharge(vfs, (uint64_t)content->chunks_capacity * sizeof(struct vfs_chunk *));
        free(content->chunks);
        *content = (struct vfs_content){0};
}

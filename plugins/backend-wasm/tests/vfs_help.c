/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots in memory, for tests of what the file system writes and reads. */
#include "vfs_help.h"

#include <errno.h>

int snapshot_put(struct snapshot_writer *writer, const void *data, size_t size) {
        if (writer->size + size > writer->capacity) {
                size_t capacity = 2 * (writer->size + size) + 1024;
                uint8_t *grown = malloc(capacity);

                if (grown == NULL)
                        return -ENOMEM;
                if (writer->size > 0)
                        memcpy(grown, writer->data, writer->size);
                free(writer->data);
                writer->data = grown;
                writer->capacity = capacity;
        }
        if (size > 0)
                memcpy(writer->data + writer->size, data, size);
        writer->size += size;
        return 0;
}

int snapshot_put_u32(struct snapshot_writer *writer, uint32_t value) {
        return snapshot_put(writer, &value, sizeof(value));
}

int snapshot_put_u64(struct snapshot_writer *writer, uint64_t value) {
        return snapshot_put(writer, &value, sizeof(value));
}

int snapshot_get(struct snapshot_reader *reader, void *data, size_t size) {
        if (size > reader->size - reader->at)
                return -EINVAL;
        if (size > 0)
                memcpy(data, reader->data + reader->at, size);
        reader->at += size;
        return 0;
}

int snapshot_get_u32(struct snapshot_reader *reader, uint32_t *ret_value) {
        return snapshot_get(reader, ret_value, sizeof(*ret_value));
}

int snapshot_get_u64(struct snapshot_reader *reader, uint64_t *ret_value) {
        return snapshot_get(reader, ret_value, sizeof(*ret_value));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the file of a large blob: without a name until it is whole, so that nothing of it stays behind when the
 * process is killed; where the file system has no such files, under a name in tmp/. */
#include <fcntl.h>

#include "files.h"
#include "object_private.h"

static int open_unnamed(const struct dir_store *store, struct object_writer *writer) {
        writer->fd = openat(store->tmp_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        if (writer->fd >= 0)
                return 0;
        if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)
                return -errno;
        file_random_name(writer->temporary);
        return file_open(store->tmp_fd, writer->temporary, O_RDWR | O_CREAT | O_EXCL, &writer->fd, NULL);
}

int object_writer_open(const struct dir_store *store, const uint8_t *id, const uint8_t *hashes, struct sbx_bytes blob,
                       struct object_writer *ret_writer) {
        int r;

        *ret_writer = (struct object_writer){
                .store = store, .id = id, .hashes = hashes, .blob = blob, .fd = -1, .end = OBJECT_HEAD};
        ret_writer->table = calloc(sealing_chunk_count(blob.size), OBJECT_ENTRY);
        if (ret_writer->table == NULL)
                return -ENOMEM;
        r = open_unnamed(store, ret_writer);
        if (r < 0)
                object_writer_close(ret_writer);
        return r;
}

int object_writer_add(struct object_writer *writer, size_t chunk) {
        size_t offset = chunk * SEALING_CHUNK_MAX, size = writer->blob.size - offset, sealed_size = 0;
        _cleanup_free_ uint8_t *sealed = NULL;
        uint8_t context[OBJECT_CONTEXT], *entry = writer->table + chunk * OBJECT_ENTRY;
        uint64_t at;
        int r;

        size = size < SEALING_CHUNK_MAX ? size : SEALING_CHUNK_MAX;
        sealed = malloc(size + SEALING_OVERHEAD);
        if (sealed == NULL)
                return -ENOMEM;
        r = sealing_seal(&writer->store->sealing, writer->store->level, object_context(writer->id, chunk, context),
                         (struct sbx_bytes){(const uint8_t *)writer->blob.data + offset, size}, sealed, &sealed_size);
        if (r < 0)
                return r;
        at = __atomic_fetch_add(&writer->end, sealed_size, __ATOMIC_RELAXED);
        memcpy(entry, writer->hashes + chunk * SEALING_HASH_SIZE, SEALING_HASH_SIZE);
        store_number(entry + 32, at, 8);
        store_number(entry + 40, sealed_size, 4);
        r = write_at(writer->fd, sealed, sealed_size, at);
        /* The disk begins with it while the next chunks are compressed. */
        if (r == 0 && writer->blob.size > SEALING_CHUNK_MAX)
                (void)sync_file_range(writer->fd, (off_t)at, (off_t)sealed_size, SYNC_FILE_RANGE_WRITE);
        return r;
}

int object_writer_end(struct object_writer *writer) {
        size_t chunks = sealing_chunk_count(writer->blob.size);
        uint8_t head[OBJECT_HEAD] = OBJECT_MAGIC;
        int r = write_at(writer->fd, writer->table, chunks * OBJECT_ENTRY, writer->end);

        store_number(head + 8, chunks, 4);
        store_number(head + 16, writer->blob.size, 8);
        store_number(head + 24, writer->end, 8);
        if (r == 0)
                r = write_at(writer->fd, head, sizeof(head), 0);
        writer->end += chunks * OBJECT_ENTRY; /* the size of the file */
        return r;
}

int object_writer_link(const struct object_writer *writer, int directory_fd, const char *hex) {
        char path[64];

        if (writer->temporary[0] != '\0') {
                if (linkat(writer->store->tmp_fd, writer->temporary, directory_fd, hex, 0) == 0)
                        return 0;
                if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS)
                        return -errno;
                return renameat2(writer->store->tmp_fd, writer->temporary, directory_fd, hex, RENAME_NOREPLACE) < 0
                               ? -errno
                               : 0;
        }
        snprintf(path, sizeof(path), "/proc/self/fd/%d", writer->fd);
        return linkat(AT_FDCWD, path, directory_fd, hex, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
}

void object_writer_close(struct object_writer *writer) {
        if (writer->temporary[0] != '\0' && writer->fd >= 0)
                (void)unlinkat(writer->store->tmp_fd, writer->temporary, 0);
        close_fd(&writer->fd);
        free(writer->table);
        writer->table = NULL;
}

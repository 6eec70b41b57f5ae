/* SPDX-License-Identifier: Apache-2.0 */
/* Digests of parts: each MiB is hashed for itself, large states by several threads. */
#include "session/parts.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/thread.h"

#define THREADS_MAX 4u
#define WORTH_A_THREAD ((size_t)4 << 20) /* bytes; a thread takes some 0.05 ms to start and to end */

struct work {
        const struct sbx_buffer *parts;
        size_t part_count, piece_count;
        unsigned char (*pieces)[SBX_SHA256_SIZE];
        size_t *first; /* piece of each part */
        atomic_size_t next;
};

static size_t pieces_of(size_t size) {
        return size / SBX_PART_PIECE_BYTES + (size % SBX_PART_PIECE_BYTES > 0);
}

/* The last part that begins at or before it, empty ones passed over. */
static size_t part_of_piece(const struct work *work, size_t piece) {
        size_t low = 0, high = work->part_count;

        while (high - low > 1) {
                size_t middle = low + (high - low) / 2;

                if (work->first[middle] <= piece)
                        low = middle;
                else
                        high = middle;
        }
        return low;
}

static void *run(void *data) {
        struct work *work = data;
        size_t piece;

        while ((piece = atomic_fetch_add(&work->next, 1)) < work->piece_count) {
                size_t part = part_of_piece(work, piece);
                size_t offset = (piece - work->first[part]) * SBX_PART_PIECE_BYTES;
                size_t left = work->parts[part].size - offset;

                sbx_sha256_of((struct sbx_bytes){work->parts[part].data + offset,
                                                 left < SBX_PART_PIECE_BYTES ? left : SBX_PART_PIECE_BYTES},
                              work->pieces[piece]);
        }
        return NULL;
}

static unsigned helpers_for(size_t bytes) {
        cpu_set_t cpus;
        size_t most = sched_getaffinity(0, sizeof(cpus), &cpus) == 0 ? (size_t)CPU_COUNT(&cpus) : 1;

        most = most < THREADS_MAX ? most : THREADS_MAX;
        return (unsigned)((bytes / WORTH_A_THREAD < most ? bytes / WORTH_A_THREAD : most - 1));
}

/* This thread works, too; helpers that can't be had are not missed. */
static void share(struct work *work, unsigned helpers) {
        pthread_t threads[THREADS_MAX];
        unsigned started = 0;

        while (started < helpers && sbx_thread_start(&threads[started], "sbx-digest", run, work) == 0)
                started++;
        run(work);
        while (started > 0)
                pthread_join(threads[--started], NULL);
}

int sbx_parts_digest(const struct sbx_buffer *parts, size_t count, unsigned char (*ret_digests)[SBX_SHA256_SIZE],
                     struct sbx_error *err) {
        _cleanup_free_ size_t *first = calloc(count + 1, sizeof(*first));
        _cleanup_free_ unsigned char(*pieces)[SBX_SHA256_SIZE] = NULL;
        struct work work = {.parts = parts, .part_count = count, .first = first};
        size_t bytes = 0;

        if (first == NULL)
                return SBX_NOMEM(err, "sessions");
        for (size_t i = 0; i < count; i++) {
                first[i] = work.piece_count;
                work.piece_count += pieces_of(parts[i].size);
                bytes += parts[i].size;
        }
        first[count] = work.piece_count;
        pieces = calloc(work.piece_count + 1, sizeof(*pieces));
        if (pieces == NULL)
                return SBX_NOMEM(err, "sessions");
        work.pieces = pieces;
        share(&work, helpers_for(bytes));
        for (size_t i = 0; i < count; i++)
                sbx_sha256_of((struct sbx_bytes){pieces + first[i], (first[i + 1] - first[i]) * SBX_SHA256_SIZE},
                              ret_digests[i]);
        return 0;
}

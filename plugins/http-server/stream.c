/* SPDX-License-Identifier: Apache-2.0 */
/* Responses that come in pieces: bytes wait in a buffer that is bounded until libmicrohttpd asks for them. */
#include "internal.h"

#define BLOCK_BYTES 16384u
#define KEEP_BYTES 65536u /* a larger buffer is given back when it has been emptied */

/* libmicrohttpd lets go of the response. */
static void let_go(void *data) {
        hs_exchange_free_part(data);
}

void hs_stream(struct hs_exchange *exchange, unsigned status, const struct hs_header *headers) {
        struct MHD_Response *response;

        pthread_mutex_lock(&exchange->lock);
        if (!exchange->answered && exchange->connection != NULL) {
                exchange->answered = exchange->streaming = true;
                exchange->status = status;
                response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, hs_stream_read, exchange,
                                                             let_go);
                if (response != NULL) {
                        exchange->references++;
                        hs_response_dress(exchange, headers, response);
                }
                exchange->response = response;
                exchange->abort |= response == NULL;
                if (exchange->suspended)
                        hs_post(exchange);
        }
        pthread_mutex_unlock(&exchange->lock);
}

/* Makes room for `more` bytes at stream_end. */
static int make_room(struct hs_exchange *exchange, size_t more) {
        size_t waiting = exchange->stream_end - exchange->stream_begin;
        size_t capacity = exchange->stream_capacity > 0 ? exchange->stream_capacity : 4096;
        char *grown;

        if (exchange->stream_capacity - exchange->stream_end >= more)
                return 0;
        if (exchange->stream_begin > 0) {
                memmove(exchange->stream, exchange->stream + exchange->stream_begin, waiting);
                exchange->stream_begin = 0;
                exchange->stream_end = waiting;
        }
        while (capacity - waiting < more)
                capacity *= 2;
        if (capacity == exchange->stream_capacity)
                return 0;
        grown = realloc(exchange->stream, capacity);
        if (grown == NULL)
                return -ENOBUFS;
        exchange->stream = grown;
        exchange->stream_capacity = capacity;
        return 0;
}

static int append(struct hs_exchange *exchange, const struct sbx_bytes *parts, size_t count) {
        size_t room = exchange->server->limits.stream_max - (exchange->stream_end - exchange->stream_begin);
        size_t total = 0;

        for (size_t i = 0; i < count; i++) {
                if (parts[i].size > room - total)
                        return -ENOBUFS;
                total += parts[i].size;
        }
        if (total == 0)
                return 0;
        if (make_room(exchange, total) < 0)
                return -ENOBUFS;
        for (size_t i = 0; i < count; i++) {
                if (parts[i].size > 0)
                        memcpy(exchange->stream + exchange->stream_end, parts[i].data, parts[i].size);
                exchange->stream_end += parts[i].size;
        }
        hs_count(exchange->server, HS_COUNT_OUT, total);
        if (exchange->suspended)
                hs_post(exchange);
        return 0;
}

int hs_write(struct hs_exchange *exchange, const struct sbx_bytes *parts, size_t count) {
        int r = -EPIPE;

        pthread_mutex_lock(&exchange->lock);
        if (exchange->streaming && !exchange->ended && !exchange->is_gone && !exchange->abort &&
            exchange->connection != NULL)
                r = append(exchange, parts, count);
        pthread_mutex_unlock(&exchange->lock);
        return r;
}

void hs_end(struct hs_exchange *exchange) {
        pthread_mutex_lock(&exchange->lock);
        if (exchange->streaming && !exchange->ended) {
                exchange->ended = true;
                if (exchange->suspended)
                        hs_post(exchange);
        }
        pthread_mutex_unlock(&exchange->lock);
}

ssize_t hs_stream_read(void *data, uint64_t position, char *buffer, size_t size) {
        struct hs_exchange *exchange = data;
        size_t waiting;
        ssize_t r = 0;

        pthread_mutex_lock(&exchange->lock);
        waiting = exchange->stream_end - exchange->stream_begin;
        if (exchange->abort || exchange->connection == NULL || exchange->connection->phase == HS_DOOMED) {
                r = MHD_CONTENT_READER_END_WITH_ERROR;
        } else if (waiting > 0) {
                size_t taken = waiting < size ? waiting : size;

                memcpy(buffer, exchange->stream + exchange->stream_begin, taken);
                exchange->stream_begin += taken;
                r = (ssize_t)taken;
                hs_connection_phase(exchange->connection, HS_WRITING);
        } else if (exchange->ended) {
                r = MHD_CONTENT_READER_END_OF_STREAM;
        } else {
                exchange->suspended = true;
                hs_connection_phase(exchange->connection, HS_WAITING);
                MHD_suspend_connection(exchange->connection->mhd);
        }
        if (exchange->stream_begin == exchange->stream_end) {
                exchange->stream_begin = exchange->stream_end = 0;
                if (exchange->stream_capacity > KEEP_BYTES) {
                        free(exchange->stream);
                        exchange->stream = NULL;
                        exchange->stream_capacity = 0;
                }
        }
        pthread_mutex_unlock(&exchange->lock);
        return r;
}

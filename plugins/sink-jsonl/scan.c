/* SPDX-License-Identifier: Apache-2.0 */
/* Reads an existing file, line by line, with a bounded memory for each line. */
#include "scan.h"

#define CHUNK_SIZE ((size_t)64 << 10)

struct scan {
        struct jsonl_state *state;
        struct jsonl_hash hash; /* of the line so far */
        char *line;             /* its bytes */
        size_t size, capacity;
        uint64_t bytes; /* of the line, also those beyond the maximum */
};

int jsonl_state_init(struct jsonl_state *ret_state, struct sbx_error *err) {
        *ret_state = (struct jsonl_state){.calls = json_object(), .prev = JSONL_CHAIN_START};
        return ret_state->calls != NULL ? 0 : jsonl_no_memory(err);
}

void jsonl_state_clear(struct jsonl_state *state) {
        json_decref(state->calls);
        *state = (struct jsonl_state){0};
}

int jsonl_state_add_call(struct jsonl_state *state, const char *call_id, struct sbx_error *err) {
        if (json_object_size(state->calls) >= JSONL_CALLS_MAX)
                return 0;
        return json_object_set_new(state->calls, call_id, json_true()) < 0 ? jsonl_no_memory(err) : 0;
}

static int note_line(struct jsonl_state *state, struct sbx_bytes text, struct sbx_error *err) {
        _cleanup_json_ json_t *line = NULL;
        const char *call_id, *event;
        json_error_t problem = {.text = ""}; /* jansson leaves its code alone when memory ran out */

        line = json_loadb(text.data, text.size, JSON_ALLOW_NUL, &problem);
        if (line == NULL && jsonl_parse_ran_out(&problem))
                return jsonl_no_memory(err);
        call_id = json_string_value(json_object_get(line, "call_id"));
        event = json_string_value(json_object_get(line, "event"));
        state->ended = call_id == NULL && event != NULL && strcmp(event, "run_ended") == 0;
        if (call_id == NULL) {
                state->started = state->started || (event != NULL && strcmp(event, "run_started") == 0);
                return 0;
        }
        state->event_count++;
        return jsonl_state_add_call(state, call_id, err);
}

static int end_line(struct scan *scan, struct sbx_error *err) {
        struct jsonl_state *state = scan->state;
        int r = 0;

        jsonl_hash_end(&scan->hash, state->prev);
        state->size += scan->bytes + 1;
        state->line_count++;
        if (scan->bytes == scan->size)
                r = note_line(state, (struct sbx_bytes){scan->line, scan->size}, err);
        else
                state->ended = false;
        jsonl_hash_begin(&scan->hash);
        scan->size = 0;
        scan->bytes = 0;
        return r;
}

static int add_bytes(struct scan *scan, struct sbx_bytes bytes, struct sbx_error *err) {
        size_t capacity = scan->capacity > 0 ? scan->capacity : CHUNK_SIZE;
        char *line;

        jsonl_hash_add(&scan->hash, bytes);
        scan->bytes += bytes.size;
        if (scan->bytes > JSONL_LINE_MAX)
                return 0; /* the line is read for its hash alone: `size` stays behind `bytes` */
        while (capacity < scan->size + bytes.size)
                capacity *= 2;
        if (capacity > scan->capacity) {
                line = realloc(scan->line, capacity);
                if (line == NULL)
                        return jsonl_no_memory(err);
                scan->line = line;
                scan->capacity = capacity;
        }
        if (bytes.size > 0)
                memcpy(scan->line + scan->size, bytes.data, bytes.size);
        scan->size += bytes.size;
        return 0;
}

static int add_chunk(struct scan *scan, const char *data, size_t size, struct sbx_error *err) {
        int r = 0;

        while (size > 0 && r == 0) {
                const char *newline = memchr(data, '\n', size);
                size_t part = newline != NULL ? (size_t)(newline - data) : size;

                r = add_bytes(scan, (struct sbx_bytes){data, part}, err);
                if (r == 0 && newline != NULL)
                        r = end_line(scan, err);
                part += newline != NULL;
                data += part;
                size -= part;
        }
        return r;
}

int jsonl_state_read(struct jsonl_state *state, int fd, const char *path, struct sbx_error *err) {
        _cleanup_free_ char *chunk = malloc(CHUNK_SIZE);
        struct scan scan = {.state = state};
        uint64_t offset = 0;
        ssize_t size = 1;
        int r = chunk != NULL ? 0 : jsonl_no_memory(err);

        jsonl_hash_begin(&scan.hash);
        while (r == 0 && size > 0) {
                size = pread(fd, chunk, CHUNK_SIZE, (off_t)offset);
                if (size < 0 && errno == EINTR)
                        size = 1; /* again */
                else if (size < 0)
                        r = jsonl_system_error("read", path, NULL, "Check the disk and the system's log.", err);
                else {
                        r = add_chunk(&scan, chunk, (size_t)size, err);
                        offset += (uint64_t)size;
                }
        }
        free(scan.line);
        return r;
}

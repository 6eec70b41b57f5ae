/* SPDX-License-Identifier: Apache-2.0 */
/* Loading a trajectory: what of it are model calls, in which order, and which prompt they answer. */
#include "recording.h"

#include <string.h>

#include "lines.h"
#include "util.h"

/* What is known while the file is read. */
struct loading {
        struct replay_recording *recording;
        size_t entry_capacity;
        struct replay_node *nodes;
        size_t node_count, node_capacity;
};

static int no_memory(const char *path, struct sbx_error *err) {
        return sbx_error_set(err, -ENOMEM, REPLAY_ORIGIN, NULL, "no memory for the trajectory %s", path);
}

static int grow(void **array, size_t *capacity, size_t count, size_t item_size) {
        size_t larger = *capacity > 0 ? *capacity * 2 : 64;
        void *grown;

        if (count < *capacity)
                return 0;
        grown = reallocarray(*array, larger, item_size);
        if (grown == NULL)
                return -ENOMEM;
        *array = grown;
        *capacity = larger;
        return 0;
}

static int add_node(struct loading *loading, const json_t *event, size_t entry) {
        const char *id = json_string_value(json_object_get(event, "call_id"));
        const char *parent = json_string_value(json_object_get(event, "parent_call_id"));
        struct replay_node node = {.entry = entry};

        if (id == NULL)
                return 0;
        if (grow((void **)&loading->nodes, &loading->node_capacity, loading->node_count, sizeof(node)) < 0)
                return -ENOMEM;
        node.id = strdup(id);
        node.parent = parent != NULL ? strdup(parent) : NULL;
        if (node.id == NULL || (parent != NULL && node.parent == NULL)) {
                free(node.id);
                return -ENOMEM;
        }
        loading->nodes[loading->node_count++] = node;
        return 0;
}

static int add_event(struct loading *loading, const json_t *event, uint64_t line) {
        struct replay_recording *recording = loading->recording;
        struct replay_entry entry;
        int r;

        if (grow((void **)&recording->entries, &loading->entry_capacity, recording->count, sizeof(entry)) < 0)
                return -ENOMEM;
        r = replay_entry_decode(event, &entry);
        if (r < 0)
                return r;
        if (r == 0)
                return add_node(loading, event, REPLAY_NONE);
        entry.line = line;
        recording->entries[recording->count++] = entry;
        return add_node(loading, event, recording->count - 1);
}

static int read_events(struct loading *loading, struct replay_lines *lines, struct sbx_error *err) {
        for (;;) {
                _cleanup_json_ json_t *event = NULL;
                int r = replay_lines_next(lines, &event, err);

                if (r <= 0)
                        return r;
                if (add_event(loading, event, lines->number) < 0)
                        return no_memory(lines->path, err);
        }
}

/* ---- prompts ---- */

static int compare_texts(const json_t *a, const json_t *b) {
        size_t left = json_string_length(a), right = json_string_length(b);
        int order = memcmp(json_string_value(a), json_string_value(b), left < right ? left : right);

        return order != 0 ? order : (left > right) - (left < right);
}

static int compare_prompts(const void *a, const void *b, void *data) {
        const struct replay_entry *entries = data;
        size_t left = *(const size_t *)a, right = *(const size_t *)b;
        int order = compare_texts(entries[left].prompt, entries[right].prompt);

        return order != 0 ? order : (left > right) - (left < right);
}

static int index_prompts(struct replay_recording *recording) {
        size_t begin, end;

        recording->by_prompt = calloc(recording->count, sizeof(size_t));
        if (recording->by_prompt == NULL)
                return -ENOMEM;
        for (size_t i = 0; i < recording->count; i++)
                recording->by_prompt[i] = i;
        qsort_r(recording->by_prompt, recording->count, sizeof(size_t), compare_prompts, recording->entries);
        replay_recording_find(recording, recording->entries[0].prompt, &begin, &end);
        recording->first_is_unique = end - begin == 1;
        return 0;
}

/* The first place whose prompt is not below `prompt`; with `beyond`: the first above it. */
static size_t bound(const struct replay_recording *recording, const json_t *prompt, bool beyond) {
        size_t low = 0, high = recording->count;

        while (low < high) {
                size_t middle = low + (high - low) / 2;
                int order = compare_texts(recording->entries[recording->by_prompt[middle]].prompt, prompt);

                if (order < 0 || (beyond && order == 0))
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

void replay_recording_find(const struct replay_recording *recording, const json_t *prompt, size_t *ret_begin,
                           size_t *ret_end) {
        *ret_begin = bound(recording, prompt, false);
        *ret_end = bound(recording, prompt, true);
}

/* ---- the whole ---- */

void replay_recording_free(struct replay_recording *recording) {
        if (recording == NULL)
                return;
        for (size_t i = 0; i < recording->count; i++)
                replay_entry_clear(&recording->entries[i]);
        free(recording->entries);
        free(recording->by_prompt);
        free(recording->path);
        free(recording);
}

static int load(struct loading *loading, uint64_t max_bytes, struct sbx_error *err) {
        struct replay_recording *recording = loading->recording;
        struct replay_lines lines;
        int r = replay_lines_open(recording->path, max_bytes, &lines, err);

        if (r < 0)
                return r;
        r = read_events(loading, &lines, err);
        replay_lines_close(&lines);
        if (r < 0)
                return r;
        if (recording->count == 0)
                return sbx_error_set(err, -EBADMSG, REPLAY_ORIGIN, "Set `file` to the trajectory of a run.",
                                     "%s holds no call of a model", recording->path);
        if (replay_order(recording, loading->nodes, loading->node_count) < 0 || index_prompts(recording) < 0)
                return no_memory(recording->path, err);
        return 0;
}

int replay_recording_load(const char *path, uint64_t max_bytes, struct replay_recording **ret_recording,
                          struct sbx_error *err) {
        struct loading loading = {.recording = calloc(1, sizeof(struct replay_recording))};
        int r;

        if (loading.recording == NULL)
                return no_memory(path, err);
        loading.recording->path = strdup(path);
        r = loading.recording->path != NULL ? load(&loading, max_bytes, err) : no_memory(path, err);
        for (size_t i = 0; i < loading.node_count; i++) {
                free(loading.nodes[i].id);
                free(loading.nodes[i].parent);
        }
        free(loading.nodes);
        if (r < 0) {
                replay_recording_free(loading.recording);
                return r;
        }
        *ret_recording = loading.recording;
        return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A whole trajectory in memory, and its calls as a tree. */
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/logs.h"
#include "cli/logs_events.h"

#define ORIGIN "logs"

int sbx_logs_load(int fd, json_t **ret_lines, size_t *ret_bad, struct sbx_error *err) {
        _cleanup_logs_reader_ struct sbx_logs_reader reader;
        _cleanup_json_ json_t *lines = json_array();
        struct sbx_logs_line line = {0};
        size_t bad = 0;
        int r;

        sbx_logs_reader_init(&reader, fd);
        while ((r = sbx_logs_reader_next(&reader, &line, err)) > 0) {
                json_t *object = line.too_long ? NULL : sbx_logs_parse(line.text);

                if (object == NULL) {
                        bad++;
                        continue;
                }
                if (json_array_size(lines) == SBX_LOGS_EVENTS_MAX) {
                        json_decref(object);
                        return sbx_error_set(err, -EFBIG, ORIGIN, "Read the file itself.",
                                             "the trajectory has more than %zu events", SBX_LOGS_EVENTS_MAX);
                }
                if (json_array_append_new(lines, object) < 0)
                        return SBX_NOMEM(err, ORIGIN);
        }
        if (r < 0)
                return r;
        *ret_lines = steal_pointer(lines);
        *ret_bad = bad;
        return 0;
}

/* ---- the tree ---- */

/* By the ids of the calls, for finding parents: a hash table of jansson's, from id to index + 1. */
static int index_calls(struct sbx_logs_events *events, json_t *by_id) {
        for (size_t i = 0; i < events->count; i++) {
                const char *id = sbx_logs_text(events->items[i].object, "call_id");

                if (id[0] != '\0' && json_object_get(by_id, id) == NULL &&
                    json_object_set_new(by_id, id, json_integer((json_int_t)i + 1)) < 0)
                        return -ENOMEM;
        }
        return 0;
}

static void append_child(struct sbx_logs_events *events, size_t parent, size_t child) {
        struct sbx_logs_event *above = &events->items[parent];

        if (above->first_child == SBX_LOGS_NONE)
                above->first_child = child;
        else
                events->items[above->last_child].next = child;
        above->last_child = child;
        events->items[child].parent = parent;
}

/* In a hostile file a call may be below itself. Such an edge is left out. */
static bool is_below(const struct sbx_logs_events *events, size_t index, size_t above) {
        for (unsigned depth = 0; index != SBX_LOGS_NONE; index = events->items[index].parent) {
                if (index == above || ++depth > SBX_LOGS_DEPTH_MAX)
                        return true;
        }
        return false;
}

int sbx_logs_events_make(const json_t *lines, struct sbx_logs_events *ret_events) {
        _cleanup_json_ json_t *by_id = json_object();
        struct sbx_logs_events *events = ret_events;
        size_t index;
        json_t *line;

        events->items = calloc(json_array_size(lines) + 1, sizeof(events->items[0]));
        if (events->items == NULL || by_id == NULL)
                return -ENOMEM;
        json_array_foreach (lines, index, line)
                if (!sbx_logs_is_metadata(line))
                        events->items[events->count++] = (struct sbx_logs_event){line, SBX_LOGS_NONE, SBX_LOGS_NONE,
                                                                                 SBX_LOGS_NONE, SBX_LOGS_NONE};
        if (index_calls(events, by_id) < 0)
                return -ENOMEM;
        for (size_t i = 0; i < events->count; i++) {
                const char *id = sbx_logs_text(events->items[i].object, "parent_call_id");
                json_int_t parent = json_integer_value(json_object_get(by_id, id));

                if (parent > 0 && !is_below(events, (size_t)parent - 1, i))
                        append_child(events, (size_t)parent - 1, i);
        }
        return 0;
}

void sbx_logs_events_free(struct sbx_logs_events *events) {
        free(events->items);
        *events = (struct sbx_logs_events){0};
}

const json_t *sbx_logs_header(const json_t *lines) {
        const json_t *first = json_array_get(lines, 0);

        return sbx_logs_is_metadata(first) ? first : NULL;
}

const json_t *sbx_logs_totals(const json_t *lines) {
        const json_t *totals = NULL, *line;
        size_t index;

        json_array_foreach (lines, index, line)
                if (sbx_logs_is_metadata(line) && sbx_logs_is(line, "event", "run_ended"))
                        totals = line;
        if (totals == NULL && json_object_get(sbx_logs_header(lines), "prev") == NULL)
                totals = sbx_logs_header(lines); /* of 2.2.7 */
        return totals;
}

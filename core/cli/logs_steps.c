/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a recorded run. */
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "cli/logs_steps.h"

static int add_step(struct sbx_logs_steps *steps, const struct sbx_logs_step *step) {
        if (steps->count == steps->capacity) {
                size_t capacity = steps->capacity > 0 ? steps->capacity * 2 : 64;
                struct sbx_logs_step *items = reallocarray(steps->items, capacity, sizeof(*items));

                if (items == NULL)
                        return -ENOMEM;
                steps->items = items;
                steps->capacity = capacity;
        }
        steps->items[steps->count++] = *step;
        return 0;
}

void sbx_logs_steps_free(struct sbx_logs_steps *steps) {
        free(steps->items);
        *steps = (struct sbx_logs_steps){0};
}

static bool is_execution(const json_t *object) {
        return sbx_logs_is(object, "event", "execution");
}

static bool changes_session(const char *tool) {
        static const char *const names[] = {"set_repl_context", "clear_repl_context", "destroy_session"};

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                if (strcmp(tool, names[i]) == 0)
                        return true;
        return false;
}

static const char *principal_of(const json_t *object, const char *otherwise) {
        const char *principal = sbx_logs_text(object, "principal");

        return principal[0] != '\0' ? principal : otherwise;
}

static int add_execution(struct sbx_logs_steps *steps, const struct sbx_logs_events *events, size_t index,
                         const char *run_id) {
        const json_t *object = events->items[index].object;
        struct sbx_logs_step step = {.kind = is_execution(object) ? SBX_LOGS_EXECUTION : SBX_LOGS_CHECK,
                                     .event = index,
                                     .principal = principal_of(object, run_id)};

        return add_step(steps, &step);
}

/* The next execution below a completion. */
static size_t next_execution(const struct sbx_logs_events *events, size_t child) {
        while (child != SBX_LOGS_NONE && !is_execution(events->items[child].object))
                child = events->items[child].next;
        return child;
}

/* A turn's executions stand before it in the file, its other tool calls in it: both in the order of the turn. */
static int add_turn(struct sbx_logs_steps *steps, const struct sbx_logs_events *events, size_t index,
                    const char *run_id) {
        const struct sbx_logs_event *event = &events->items[index];
        const json_t *calls = json_object_get(event->object, "tool_calls"), *call;
        size_t child = next_execution(events, event->first_child), at;
        const char *principal = run_id;
        int r = 0;

        if (child != SBX_LOGS_NONE)
                principal = principal_of(events->items[child].object, run_id);
        json_array_foreach (calls, at, call) {
                const char *name = sbx_logs_text(call, "name");
                struct sbx_logs_step step = {SBX_LOGS_TOOL, index, call, principal};

                if (r == 0 && changes_session(name))
                        r = add_step(steps, &step);
                /* Of one that was refused there is no event: then the next one's comes too early, which does no harm.
                 */
                if (r == 0 && strncmp(name, "execute", strlen("execute")) == 0 && child != SBX_LOGS_NONE) {
                        r = add_execution(steps, events, child, run_id);
                        child = next_execution(events, events->items[child].next);
                }
        }
        while (r == 0 && child != SBX_LOGS_NONE) {
                r = add_execution(steps, events, child, run_id);
                child = next_execution(events, events->items[child].next);
        }
        return r;
}

int sbx_logs_steps_make(const struct sbx_logs_events *events, const char *run_id, struct sbx_logs_steps *ret_steps) {
        int r = 0;

        for (size_t i = 0; i < events->count && r == 0; i++) {
                const struct sbx_logs_event *event = &events->items[i];
                bool of_turn = event->parent != SBX_LOGS_NONE &&
                               sbx_logs_is(events->items[event->parent].object, "event", "completion");

                if (sbx_logs_is(event->object, "event", "completion"))
                        r = add_turn(ret_steps, events, i, run_id);
                else if (sbx_logs_is(event->object, "event", "check") || (is_execution(event->object) && !of_turn))
                        r = add_execution(ret_steps, events, i, run_id);
        }
        return r;
}

void sbx_logs_outcome_free(struct sbx_logs_outcome *outcome) {
        free(outcome->text);
        *outcome = (struct sbx_logs_outcome){0};
}

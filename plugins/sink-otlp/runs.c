/* SPDX-License-Identifier: Apache-2.0 */
/* Runs that go on, and a set of the last few thousand spans. */
#include "runs.h"

#include <string.h>

#include "util.h"

#define TABLE_SIZE (OTLP_SEEN_MAX * 2)

struct otlp_memory *otlp_memory_new(void) {
        return calloc(1, sizeof(struct otlp_memory));
}

void otlp_memory_free(struct otlp_memory *memory) {
        for (unsigned i = 0; memory != NULL && i < OTLP_RUNS_MAX; i++)
                otlp_run_end(&memory->runs[i]);
        free(memory);
}

/* ---- runs ---- */

struct otlp_run *otlp_run_find(struct otlp_memory *memory, const char *id) {
        for (unsigned i = 0; i < OTLP_RUNS_MAX; i++)
                if (memory->runs[i].id != NULL && strcmp(memory->runs[i].id, id) == 0)
                        return &memory->runs[i];
        return NULL;
}

/* A free place, or that of the oldest run: it was never ended, its process may have been killed. */
static struct otlp_run *find_place(struct otlp_memory *memory) {
        struct otlp_run *oldest = &memory->runs[0];

        for (unsigned i = 0; i < OTLP_RUNS_MAX; i++) {
                if (memory->runs[i].id == NULL)
                        return &memory->runs[i];
                if (memory->runs[i].order < oldest->order)
                        oldest = &memory->runs[i];
        }
        return oldest;
}

static int copy_text(const char *text, char **ret) {
        if (text == NULL)
                return 0;
        *ret = strdup(text);
        return *ret != NULL ? 0 : -ENOMEM;
}

struct otlp_run *otlp_run_begin(struct otlp_memory *memory, const char *id, const char *model, const char *provider,
                                uint64_t start_ns, json_t *attributes) {
        struct otlp_run *run = otlp_run_find(memory, id);

        if (run == NULL)
                run = find_place(memory);
        otlp_run_end(run);
        *run = (struct otlp_run){.start_ns = start_ns, .order = ++memory->runs_begun, .attributes = attributes};
        if (attributes == NULL || copy_text(id, &run->id) < 0 || copy_text(model, &run->model) < 0 ||
            copy_text(provider, &run->provider) < 0) {
                otlp_run_end(run);
                return NULL;
        }
        return run;
}

void otlp_run_end(struct otlp_run *run) {
        if (run == NULL)
                return;
        free(run->id);
        free(run->model);
        free(run->provider);
        json_decref(run->attributes);
        *run = (struct otlp_run){0};
}

/* ---- what was told ---- */

static unsigned slot_of(uint64_t hash) {
        return (unsigned)(hash % TABLE_SIZE);
}

/* Removes by moving back what was put off because of it, so that no gap hides an entry. */
static void forget(uint64_t *table, uint64_t hash) {
        unsigned gap = slot_of(hash);

        while (table[gap] != hash)
                gap = (gap + 1) % TABLE_SIZE;
        for (unsigned i = (gap + 1) % TABLE_SIZE; table[i] != 0; i = (i + 1) % TABLE_SIZE) {
                unsigned home = slot_of(table[i]);

                /* It may move to the gap unless its home lies between the gap (exclusive) and itself. */
                if ((i + TABLE_SIZE - home) % TABLE_SIZE >= (i + TABLE_SIZE - gap) % TABLE_SIZE) {
                        table[gap] = table[i];
                        gap = i;
                }
        }
        table[gap] = 0;
}

bool otlp_seen(struct otlp_memory *memory, uint64_t hash) {
        unsigned slot = slot_of(hash);
        uint64_t *oldest = &memory->seen[memory->next_seen];

        for (; memory->table[slot] != 0; slot = (slot + 1) % TABLE_SIZE)
                if (memory->table[slot] == hash)
                        return true;
        if (*oldest != 0) {
                forget(memory->table, *oldest);
                for (slot = slot_of(hash); memory->table[slot] != 0;)
                        slot = (slot + 1) % TABLE_SIZE;
        }
        memory->table[slot] = hash;
        *oldest = hash;
        memory->next_seen = (memory->next_seen + 1) % OTLP_SEEN_MAX;
        return false;
}

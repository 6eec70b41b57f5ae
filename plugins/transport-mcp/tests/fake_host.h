/* SPDX-License-Identifier: Apache-2.0 */
/* A host for tests: records tool calls, which the test ends itself, on any thread and in any order. */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include <snipara-sandbox/plugin.h>

#define FAKE_TASKS_MAX 256

struct sbx_tool_task {
        char *name, *arguments, *principal;
        struct sbx_tool_events events;
        int cancelled; /* how often */
        bool ended, released;
};

struct sbx_host_state {
        struct sbx_host services;
        pthread_mutex_t lock; /* protects what follows */
        struct sbx_tool_task tasks[FAKE_TASKS_MAX];
        size_t task_count;
        const char *tools;  /* what tool_list gives; NULL: it fails */
        int submit_status;  /* not 0: tool_submit fails with it */
        bool end_in_submit; /* `done` comes before tool_submit returns */
        bool end_on_cancel; /* `done` comes from within tool_cancel */
        uint64_t now_ns;    /* what the clock shows; 0: the real one */
        size_t live_outputs;
};

/* A tool list of one tool, as the core would give it. */
extern const char fake_tools[];

void fake_host_init(struct sbx_host_state *fake);
/* Asserts that every task was released and every output freed. */
void fake_host_check(struct sbx_host_state *fake);
void fake_host_free(struct sbx_host_state *fake);

size_t fake_host_task_count(struct sbx_host_state *fake);
/* Ends a task: with a result, or, when `status` is not 0, with an error of that text. */
void fake_host_end(struct sbx_host_state *fake, size_t task, int status, const char *text);
void fake_host_progress(struct sbx_host_state *fake, size_t task, double progress, double total, const char *message);

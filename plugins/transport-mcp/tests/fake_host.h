/* SPDX-License-Identifier: Apache-2.0 */
/* A host for tests: records requests, which the test ends itself, on any thread and in any order, or lets a script
 * answer, each on a thread of its own. */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include <snipara-sandbox/plugin.h>

#define FAKE_TASKS_MAX 256
#define FAKE_WATCHES_MAX 8

struct sbx_tool_task {
        uint32_t kind; /* enum sbx_request_kind */
        char *name, *arguments, *principal;
        bool has_client;
        struct sbx_client client;
        struct sbx_request_done done;
        int cancel_fd; /* readable once it was cancelled */
        int cancelled; /* how often */
        bool ended, released;
        bool scripted; /* a thread of its own was started */
        pthread_t thread;
};

struct sbx_watch {
        void (*changed)(void *data, const struct sbx_change *change);
        void *data;
};

struct sbx_host_state {
        struct sbx_host services;
        pthread_mutex_t lock; /* protects what follows */
        struct sbx_tool_task tasks[FAKE_TASKS_MAX];
        size_t task_count;
        size_t live_outputs;
        size_t list_calls;          /* how often a list was asked for */
        pthread_mutex_t watch_lock; /* protects `watches`, and is held while they are called */
        struct sbx_watch watches[FAKE_WATCHES_MAX];

        /* Set by the test before anything runs. */
        const char *tools, *prompts, *templates; /* what `list` gives; NULL: it fails */
        const char *state_directory;             /* what directory("state") gives */
        const struct sbx_option *options;        /* the plugin's table: its defaults are what option_* give */
        const char *const *settings;             /* "NAME=VALUE" lines that win over the defaults; NULL-terminated */
        const char *metrics;                     /* what `metrics` gives */
        int ready_status;                        /* what `ready` says */
        int submit_status;                       /* not 0: request_submit fails with it */
        int watch_status;                        /* not 0: watch fails with it */
        bool end_in_submit;                      /* `done` comes before request_submit returns ... */
        const char *submit_result;               /* ... with this result */
        bool end_on_cancel;                      /* `done` comes from within tool_cancel */
        uint64_t now_ns;                         /* what the clock shows; 0: the real one */
        /* Answers a request, on a thread of its own that fake_host_free joins: it must call fake_host_end. */
        void (*script)(struct sbx_host_state *fake, size_t task);
        void *script_data;
};

/* A tool list of one tool, as the core would give it. */
extern const char fake_tools[];

void fake_host_init(struct sbx_host_state *fake);
/* Asserts that every task was released, every output freed and every watch ended. */
void fake_host_check(struct sbx_host_state *fake);
void fake_host_free(struct sbx_host_state *fake);

/* fake_options.c: the services that give options, from `options` and `settings`. */
void fake_options_install(struct sbx_host *services);

size_t fake_host_task_count(struct sbx_host_state *fake);
/* Waits until that many requests were submitted, or 10 s are over: then it aborts. */
void fake_host_await_tasks(struct sbx_host_state *fake, size_t count);
/* ... until this one was cancelled. */
void fake_host_await_cancel(struct sbx_host_state *fake, size_t task);

/* Ends a task: with a result, or, when `status` is not 0, with an error of that text. */
void fake_host_end(struct sbx_host_state *fake, size_t task, int status, const char *text);

/* What a request's client is told and asked; as the members of struct sbx_client. */
void fake_host_progress(struct sbx_host_state *fake, size_t task, double progress, double total, const char *message);
void fake_host_log(struct sbx_host_state *fake, size_t task, const char *level, const char *logger, const char *value);
/* Blocks; the caller frees `ret_responses`. It is cancelled with the task; `timeout_ms` 0: no deadline. */
int fake_host_ask(struct sbx_host_state *fake, size_t task, const char *requests, uint64_t timeout_ms,
                  char **ret_responses, struct sbx_error *err);
int fake_host_become_task(struct sbx_host_state *fake, size_t task);
void fake_host_close_stream(struct sbx_host_state *fake, size_t task, uint32_t retry_ms);

/* Tells everybody who watches. */
void fake_host_changed(struct sbx_host_state *fake, uint32_t kind, const char *uri, const char *principal);

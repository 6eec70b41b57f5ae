/* SPDX-License-Identifier: Apache-2.0 */
/* A run for tests: real budgets, journal, tools and trajectory; a provider that answers from a script, and tools that
 * do what their arguments say.
 *
 * The tool "execute_python" takes "code" of lines: "call NAME ARGUMENTS" calls back, and what came of it is its output;
 * "flood NAME COUNT" calls back so often. Others: "echo" (read-only) answers its text, "write" counts its calls,
 * "image" answers a picture, "meet" waits until two of them run, "big" answers 100,000 characters, "fail" fails. */
#pragma once

#include <pthread.h>
#include <stdlib.h>

#include <snipara-sandbox/provider.h>

#include "../test.h"
#include "agent/response.h"
#include "agent/run.h"
#include "base/cleanup.h"
#include "base/json.h"

struct fake_run;

struct fake_provider {
        /* Answers the call; `request` is its object. NULL: the script's next line, the last one again and again. */
        json_t *(*answer)(struct fake_run *fake, const json_t *request, unsigned number);
        const char *const *script; /* responses as JSON; "!CODE" fails with that errno */
        unsigned lines;
        unsigned meet; /* each call waits until so many are under way; 0: none waits */

        pthread_mutex_t lock; /* protects what follows */
        pthread_cond_t changed;
        unsigned calls, running, most;
        json_t *requests; /* all of them */
        bool met;
};

struct fake_run {
        struct sbx_config *config;
        struct sbx_logger logger;
        struct sbx_tools *tools;
        struct sbx_sessions *sessions;
        struct sbx_trajectory *trajectory;
        struct sbx_runs_parts parts;
        struct fake_provider provider;
        struct sbx_provider_ops ops;
        struct sbx_instance instance;
        struct sbx_run_watch watch;
        struct sbx_call call;
        struct sbx_run run;
        struct sbx_place place;
        char directory[32]; /* of the journal; "": in memory */
        int cancel[2];      /* a pipe */
        struct sbx_error err;
        json_t *told; /* events that the watch was told */
        struct sbx_buffer text;
        unsigned writes, meeting; /* atomic */
        bool met;                 /* atomic */
        bool cancel_in_write;
};

/* "name=value", NULL-terminated; may be NULL. */
void fake_run_open(struct fake_run *fake, const char *const *settings);
void fake_run_close(struct fake_run *fake);
/* The run's next life: a new struct sbx_run over the journal of the last one. Only when fake_run_on_disk was called. */
void fake_run_on_disk(struct fake_run *fake);
void fake_run_again(struct fake_run *fake);
void fake_run_cancel(struct fake_run *fake);
/* The answers of the model, in order: BYTES of JSON each. */
void fake_run_script(struct fake_run *fake, const char *const *lines, unsigned count);
#define SCRIPT(fake, ...)                                                                                              \
        do {                                                                                                           \
                static const char *const lines_[] = {__VA_ARGS__};                                                     \
                fake_run_script((fake), lines_, sizeof(lines_) / sizeof(lines_[0]));                                   \
        } while (0)
/* Completes "question" at the run's place; fails the test when it could not. */
struct sbx_completion fake_run_complete(struct fake_run *fake);
/* The n-th request's last message of the role: its content. */
const char *fake_run_content(struct fake_run *fake, unsigned request, size_t message);
/* How many events of that name the run has told. */
unsigned fake_run_events(const struct fake_run *fake, const char *name);
const json_t *fake_run_event(const struct fake_run *fake, const char *name, unsigned number);

#define USAGE(in, out) "\"usage\":{\"prompt_tokens\":" #in ",\"completion_tokens\":" #out ",\"cost_usd\":0.01}"
#define TEXT(text)                                                                                                     \
        "{\"choices\":[{\"message\":{\"role\":\"assistant\",\"content\":\"" text                                       \
        "\"},\"finish_reason\":\"stop\"}]," USAGE(10, 5) "}"
#define CALL(id, name, arguments)                                                                                      \
        "{\"id\":\"" id "\",\"type\":\"function\",\"function\":{\"name\":\"" name "\",\"arguments\":\"" arguments "\"" \
                                                                                                                  "}}"
#define CALLS(calls)                                                                                                   \
        "{\"choices\":[{\"message\":{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[" calls                   \
        "]},\"finish_reason\":\"tool_calls\"}]," USAGE(10, 5) "}"
#define ECHO(id, text) CALL(id, "echo", "{\\\"text\\\":\\\"" text "\\\"}")
#define CODE(id, code) CALL(id, "execute_python", "{\\\"code\\\":\\\"" code "\\\"}")

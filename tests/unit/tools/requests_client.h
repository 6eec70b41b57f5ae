/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of requests share: a client that notes what it hears, and tools that talk to it. */
#pragma once

#include "../test.h"

#include <pthread.h>
#include <stdlib.h>

#include <snipara-sandbox/context.h>

#include "base/json.h"
#include "tools/content.h"
#include "tools/tools.h"

struct client {
        struct sbx_tools *tools;
        struct sbx_tool_services services;
        struct sbx_client way;
        struct sbx_tool_task *task;
        const char *answer; /* of ask */
        int ask_status;
        int task_answer;
        bool waits; /* ask waits until it is cancelled */

        pthread_mutex_t lock; /* protects what follows */
        pthread_cond_t changed;
        bool asking, done;
        int status;
        unsigned progresses, tasks, closes;
        double last_progress;
        bool fell;
        char asked[256], logged[256], text[512];
};

#define ONE "{\"q\":{\"method\":\"elicitation/create\",\"params\":{}}}"
#define ANY "{\"type\":\"object\"}"

void client_progress(void *data, double progress, double total, const char *message);
void client_log(void *data, const char *level, const char *logger, struct sbx_bytes value);
int run_fail(const struct sbx_tool_context *context, json_t *arguments, json_t **ret_result, struct sbx_error *err);
void client_open(struct client *client);
void client_close(struct client *client);
void submit(struct client *client, uint32_t kind, const char *name, const char *arguments);
void finish(struct client *client);
/* The text of the result, or of the error; `*ret_status` may be NULL: then it must be 0. */
const char *request(struct client *client, uint32_t kind, const char *name, const char *arguments, int *ret_status);

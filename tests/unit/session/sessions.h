/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of sessions share: a table over fake guests, and short ways to use it. */
#pragma once

#include <pthread.h>
#include <stdlib.h>

#include "../test.h"
#include "base/clock.h"
#include "base/json.h"
#include "fake_guest.h"
#include "session/session.h"

struct table {
        struct sbx_config *config;
        struct sbx_logger logger;
        struct sbx_sessions *sessions;
        struct sbx_error err;
        struct sbx_result *result; /* of the last run() */
};

static inline void table_open(struct table *table, const char *const *settings) {
        static const char *const none[] = {NULL};

        fake_guest_reset();
        *table = (struct table){.logger = {.level = SBX_LOG_ERROR}};
        table->config = fake_config(settings != NULL ? settings : none);
        assert_int_equal(sbx_sessions_new(table->config, NULL, &table->logger, &table->sessions, &table->err), 0);
}

/* Nothing may be left of any guest. */
static inline void table_close(struct table *table) {
        struct fake_guest_counts counts;

        sbx_result_free(table->result);
        sbx_sessions_free(table->sessions);
        sbx_config_free(table->config);
        counts = fake_guest_counts();
        assert_int_equal(counts.started, counts.freed);
}

static inline struct sbx_execution execution_of(const char *id, const char *code) {
        return (struct sbx_execution){
                .struct_size = sizeof(struct sbx_execution), .code = {code, strlen(code)}, .session_id = id};
}

/* The result is the table's until the next one. */
static inline int run_with(struct table *table, const struct sbx_execution *execution, const struct sbx_call *call) {
        sbx_result_free(table->result);
        table->result = NULL;
        table->err = (struct sbx_error){0};
        return sbx_sessions_execute(table->sessions, execution, call, &table->result, &table->err);
}

static inline int run(struct table *table, const char *id, const char *code) {
        struct sbx_execution execution = execution_of(id, code);

        return run_with(table, &execution, NULL);
}

static inline json_t *list_of(struct table *table, const char *principal) {
        json_t *list = NULL;

        assert_int_equal(sbx_sessions_list(table->sessions, principal, &list, &table->err), 0);
        return list;
}

/* An execution on a thread of its own. */
struct runner {
        struct table *table;
        struct sbx_execution execution;
        struct sbx_call call;
        pthread_t thread;
        struct sbx_result *result;
        struct sbx_error err;
        int r;
        unsigned order; /* in which it ended */
        unsigned *counter;
};

static void *runner_run(void *data) {
        struct runner *runner = data;

        runner->r = sbx_sessions_execute(runner->table->sessions, &runner->execution, &runner->call, &runner->result,
                                         &runner->err);
        if (runner->counter != NULL)
                runner->order = __atomic_add_fetch(runner->counter, 1, __ATOMIC_SEQ_CST);
        return NULL;
}

static inline void runner_start(struct runner *runner, struct table *table, const char *id, const char *code) {
        runner->table = table;
        runner->execution = execution_of(id, code);
        if (runner->call.struct_size == 0)
                runner->call = (struct sbx_call){.struct_size = sizeof(struct sbx_call), .cancel_fd = -1};
        assert_int_equal(pthread_create(&runner->thread, NULL, runner_run, runner), 0);
}

static inline void runner_join(struct runner *runner) {
        assert_int_equal(pthread_join(runner->thread, NULL), 0);
}

static inline void runner_free(struct runner *runner) {
        sbx_result_free(runner->result);
        runner->result = NULL;
}

static inline void pause_ms(unsigned ms) {
        nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000}, NULL);
}

/* Until the session shows as busy: its execution has begun. */
static inline void wait_until_busy(struct table *table, const char *id) {
        for (unsigned i = 0; i < 2000; i++) {
                _cleanup_json_ json_t *list = list_of(table, "");
                json_t *entry;
                size_t index;

                json_array_foreach(list, index, entry) {
                        if (strcmp(json_string_value(json_object_get(entry, "id")), id) == 0 &&
                            json_is_true(json_object_get(entry, "busy")))
                                return;
                }
                pause_ms(1);
        }
        fail_msg("session %s did not become busy", id);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Everything around the runs of a test: sessions that interpret a few words, a provider that answers from a script, the
 * real tools, trajectory and journals.
 *
 * "Code" is words with semicolons between them; its output is a line for each `show`. A session has a number n, and
 * texts.
 *      add X           n = n + X
 *      show            prints n
 *      call NAME JSON  calls back (until the end of the line), prints the answer
 *      final           calls FINAL with n
 *      expect TEXT     raises unless the text `answer` is that one
 *      expect-n X      raises unless n is X
 *      length NAME     prints the length of that text
 *      crash           the guest dies: n and the texts are lost
 *      drift           prints how often it was executed, in all sessions
 *      block           waits until the call ends */
#pragma once

#include <pthread.h>
#include <stdlib.h>

#include <snipara-sandbox/provider.h>

#include "../plugin/scratch.h"
#include "agent/runs.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"

struct world {
        struct sbx_logger logger;
        struct sbx_config *config;
        struct sbx_tools *tools;
        struct sbx_trajectory *trajectory;
        struct sbx_runs *runs;
        struct sbx_error err;
        int cancel[2];
        struct sbx_call call;
        struct sbx_run_watch watch;
        json_t *told;          /* events of the watch; protected by the run's lock */
        bool with_context;     /* there is a tool snipara_context_query */
        const char *state;     /* directory of state; NULL: none */
        unsigned side_effects; /* calls of the tools "touch" and "note", which only adds; atomic */
};

/* "name=value" settings, NULL-terminated, or NULL. The provider's count of calls begins anew. */
void world_open(struct world *world, const char *const *settings);
void world_close(struct world *world);
/* Answers of the model, by the number of the call of the whole run: found by how many answers the journal has, so a
 * resumed run gets the same ones. `script` ends with NULL. A line "!CODE" fails with that errno, "block" waits until
 * the call ends. */
void world_script(const char *const *script);
void world_unavailable(int code);       /* what the provider says of whether it could be asked; 0: it could */
unsigned world_calls(void);             /* of the provider since world_script */
json_t *world_request(unsigned number); /* the messages of that call; a reference */
unsigned world_sessions(void);          /* that exist now */
/* Which of the provider's answers comes next. */
void world_answered(unsigned count);
/* Until the provider is blocked in that many calls. */
void world_wait_blocked(unsigned count);

/* Runs to the end; the test fails when that can't begin. */
json_t *world_run(struct world *world, const struct sbx_run_request *request);
unsigned world_told(const struct world *world, const char *event);

#define AS_TEXT(text) "{\"content\": \"" text "\"}"
#define AS_FINAL(text) "{\"tools\": [[\"FINAL\", {\"answer\": \"" text "\"}]]}"
#define AS_CODE(code) "{\"tools\": [[\"execute_python\", {\"code\": \"" code "\"}]]}"
#define AS_TOOL(name, arguments) "{\"tools\": [[\"" name "\", " arguments "]]}"

/* ---- fake_states.c: what is stored of the sessions of runs; for all worlds, until world_states_off ---- */

struct world_session {
        char principal[160], id[64];
        int64_t n;
        json_t *texts;
};
/* NULL: there is none, and `make` is false. */
struct world_session *world_session(const char *principal, const char *id, bool make);

/* From now on a run's sessions make a checkpoint after each execution. `keep`: they are not removed with a run that has
 * ended, as if its process had been killed before. */
void world_states_on(bool keep);
void world_states_off(void);               /* and all are removed */
void world_states_lose(void); /* all are removed */
void world_states_mark(void); /* the store as it is now; and back to that */
void world_states_back(void);
void world_states_damage(unsigned newest); /* so many of the newest ones of each session */
unsigned world_states(void);
/* After an execution: what its result says of the checkpoint; NULL: none was made. */
const char *world_states_add(const struct world_session *session);
void world_states_remove(const char *principal, const char *id); /* `id` NULL: all of the principal's */
/* Since the last call: executions, and how often a session was rolled back. */
unsigned world_executions(void);
unsigned world_rollbacks(void);
void world_executed(void);

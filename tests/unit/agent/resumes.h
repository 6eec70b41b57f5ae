/* SPDX-License-Identifier: Apache-2.0 */
/* Runs that are cut off at any record of their journal, and go on: one world, and one run's id, for a test program. */
#pragma once

#include "fake_world.h"

#define ID "1b4e28ba-2fa1-41d2-883f-0016d3cca427"

extern struct world world;
int resumes_setup(void **state); /* a world with a directory of state, which is not open; and its end */
int resumes_teardown(void **state);

struct sbx_run_request agent(const char *task);
struct sbx_run_request completion(const char *prompt);
const char *text_in(const json_t *object, const char *member); /* "(none)": it has none */
json_int_t number_in(const json_t *object, const char *member);
/* Runs it; the result is the caller's. */
json_t *assert_ends(const struct sbx_run_request *request, const char *end, const char *source);

char *read_journal(size_t *ret_size); /* to be freed */
void write_journal(const char *bytes, size_t size);
unsigned count_in(const char *bytes, size_t size, const char *part);
/* What happens to the store before each resumption; NULL: nothing. */
extern void (*before_resume)(void);
/* Runs `script` once, and then again from every record on: always the same result. */
void assert_resumes(const struct sbx_run_request *request, const char *const *script, const char *answer,
                    unsigned cuts_min);

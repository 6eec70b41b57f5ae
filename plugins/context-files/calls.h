/* SPDX-License-Identifier: Apache-2.0 */
/* The tools: what each is given, and the functions that answer. */
#pragma once

#include <jansson.h>
#include <snipara-sandbox/plugin.h>

#include "database.h"
#include "options.h"
#include "refresh.h"

#define BYTES_PER_TOKEN 4u

/* An instance. */
struct files {
        struct files_options options;
        struct database *database;
        struct refresh *refresh;
};

/* One call of a tool. */
struct tool_call {
        struct files *files;
        struct connection *connection; /* the call's own */
        const json_t *arguments;       /* an object */
        const struct sbx_call *call;
        struct freshness freshness;
};

/* Each answers with a JSON object. Any thread. */
typedef int tool_function(struct tool_call *call, json_t **ret_answer, struct sbx_error *err);
tool_function tool_context_query, tool_search, tool_sections, tool_read;
tool_function tool_remember, tool_recall, tool_memories, tool_forget;

/* Takes an argument object and gives a result object {"content": [...], "isError": false}. */
int files_call(struct files *files, const char *tool, struct sbx_bytes arguments, const struct sbx_call *call,
               struct sbx_output *ret_result, struct sbx_error *err);
/* The array of definitions. */
int files_tools(const struct files *files, struct sbx_output *ret_json, struct sbx_error *err);

/* ---- arguments (the schema was checked; what is out of range all the same is brought into it) ---- */

static inline struct sbx_bytes argument_text(const struct tool_call *call, const char *key) {
        const json_t *value = json_object_get(call->arguments, key);

        return json_is_string(value) ? (struct sbx_bytes){json_string_value(value), json_string_length(value)}
                                     : (struct sbx_bytes){NULL, 0};
}
static inline int64_t argument_int(const struct tool_call *call, const char *key, int64_t otherwise, int64_t minimum,
                                   int64_t maximum) {
        const json_t *value = json_object_get(call->arguments, key);
        int64_t number = json_is_integer(value) ? json_integer_value(value) : otherwise;

        return number < minimum ? minimum : number > maximum ? maximum : number;
}
static inline bool argument_bool(const struct tool_call *call, const char *key, bool otherwise) {
        const json_t *value = json_object_get(call->arguments, key);

        return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

/* ---- answers ---- */

static inline void cleanup_json(json_t **value) {
        json_decref(*value);
}
#define _cleanup_json_ _cleanup_(cleanup_json)

/* A JSON string of a column, repaired if the database holds something else than UTF-8. */
json_t *column_json(sqlite3_stmt *statement, int column);
/* Says whether the answer comes from all of the project. -ENOMEM. */
int answer_freshness(const struct tool_call *call, json_t *answer);

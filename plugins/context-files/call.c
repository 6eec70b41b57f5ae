/* SPDX-License-Identifier: Apache-2.0 */
/* Calling a tool: arguments in, a fresh index, a connection, the result out; once more if the database was damaged. */
#include "calls.h"

#include "utf8.h"

#define ARGUMENTS_MAX ((size_t)1 << 20)

static const struct {
        const char *name;
        tool_function *function;
        bool memory;         /* is a memory tool: has nothing to do with files */
        const char *without; /* an argument that makes the index unnecessary; may be NULL */
} functions[] = {
        {"snipara_context_query", tool_context_query, false, NULL},
        {"snipara_search", tool_search, false, NULL},
        {"snipara_sections", tool_sections, false, NULL},
        {"snipara_read", tool_read, false, "file"},
        {"snipara_remember", tool_remember, true, NULL},
        {"snipara_recall", tool_recall, true, NULL},
        {"snipara_memories", tool_memories, true, NULL},
        {"snipara_forget", tool_forget, true, NULL},
};
#define FUNCTION_COUNT (sizeof(functions) / sizeof(functions[0]))

json_t *column_json(sqlite3_stmt *statement, int column) {
        const void *text = sqlite3_column_text(statement, column);

        return utf8_json(text, (size_t)sqlite3_column_bytes(statement, column));
}

int answer_freshness(const struct tool_call *call, json_t *answer) {
        if (json_object_set_new(answer, "partial", json_boolean(call->freshness.partial)) < 0)
                return -ENOMEM;
        if (call->freshness.stale && json_object_set_new(answer, "stale", json_true()) < 0)
                return -ENOMEM;
        return call->freshness.partial && call->freshness.reason[0] != '\0' &&
                               json_object_set_new(answer, "partial_reason",
                                                   utf8_json(call->freshness.reason, strlen(call->freshness.reason))) <
                                       0
                       ? -ENOMEM
                       : 0;
}

static int find_function(const struct files *files, const char *tool, size_t *ret_index, struct sbx_error *err) {
        for (size_t i = 0; i < FUNCTION_COUNT; i++) {
                if (strcmp(functions[i].name, tool) != 0 || (functions[i].memory && !files->options.memory))
                        continue;
                *ret_index = i;
                return 0;
        }
        return sbx_error_set(err, -ENOENT, FILES_ORIGIN, NULL, "there is no tool %s here", tool);
}

static int parse_arguments(struct sbx_bytes arguments, json_t **ret, struct sbx_error *err) {
        json_error_t problem = {0};
        json_t *parsed;

        if (arguments.size == 0)
                parsed = json_object();
        else if (arguments.size > ARGUMENTS_MAX)
                return sbx_error_set(err, -EFBIG, FILES_ORIGIN, NULL, "the arguments have more than %zu bytes",
                                     ARGUMENTS_MAX);
        else
                parsed = json_loadb(arguments.data, arguments.size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &problem);
        /* Without memory jansson says so, or nothing at all. */
        if (parsed == NULL &&
            (arguments.size == 0 || json_error_code(&problem) == json_error_out_of_memory || problem.text[0] == '\0'))
                return files_nomem(err);
        if (!json_is_object(parsed)) {
                json_decref(parsed);
                return sbx_error_set(err, -EINVAL, FILES_ORIGIN, NULL, "the arguments are not a JSON object");
        }
        *ret = parsed;
        return 0;
}

static bool needs_index(const struct tool_call *call, size_t function) {
        const char *without = functions[function].without;

        return !functions[function].memory && (without == NULL || argument_text(call, without).data == NULL);
}

static int attempt(struct tool_call *call, size_t function, json_t **ret_answer, struct sbx_error *err) {
        struct files *files = call->files;
        uint64_t device = 0, inode = 0;
        int r = 0;

        call->connection = NULL;
        if (needs_index(call, function))
                r = refresh_wait(files->refresh, call->call, &call->freshness, err);
        if (r < 0)
                return r;
        database_identity(files->database, &device, &inode);
        r = database_take(files->database, call->call, &call->connection, err);
        if (r == 0) {
                device = call->connection->device;
                inode = call->connection->inode;
                r = functions[function].function(call, ret_answer, err);
                if (r == -ENOMEM)
                        files_nomem(err);
                database_give(call->connection);
        }
        if (r != -EUCLEAN)
                return r;
        refresh_forget(files->refresh);
        if (err != NULL)
                *err = (struct sbx_error){0};
        r = database_replace(files->database, device, inode, err);
        return r < 0 ? r : -EUCLEAN;
}

static int append_result(const struct files *files, const json_t *answer, struct sbx_output *ret_result,
                         struct sbx_error *err) {
        _cleanup_free_ char *text = json_dumps(answer, JSON_COMPACT), *result = NULL;
        _cleanup_json_ json_t *object = NULL;
        int r;

        if (text != NULL)
                object = json_pack("{s:[{s:s,s:s}],s:b}", "content", "type", "text", "text", text, "isError", 0);
        result = object != NULL ? json_dumps(object, JSON_COMPACT) : NULL;
        if (result == NULL)
                return files_nomem(err);
        r = files->options.host->output_append(files->options.host->self, ret_result, result, strlen(result));
        return r == 0 ? 0 : sbx_error_set(err, r, FILES_ORIGIN, "Ask for less.", "the answer is too large");
}

int files_call(struct files *files, const char *tool, struct sbx_bytes arguments, const struct sbx_call *call,
               struct sbx_output *ret_result, struct sbx_error *err) {
        _cleanup_json_ json_t *parsed = NULL, *answer = NULL;
        struct tool_call state = {.files = files, .call = call};
        size_t function = 0;
        int r = find_function(files, tool, &function, err);

        if (r == 0)
                r = parse_arguments(arguments, &parsed, err);
        if (r < 0)
                return r;
        state.arguments = parsed;
        r = -EUCLEAN;
        for (unsigned i = 0; r == -EUCLEAN && i < 2; i++)
                r = attempt(&state, function, &answer, err);
        if (r == -EUCLEAN)
                return sbx_error_set(err, -EIO, FILES_ORIGIN, "Check the disk, or set `database` to a path elsewhere.",
                                     "the index %s is damaged again", files->options.database);
        return r < 0 ? r : append_result(files, answer, ret_result, err);
}

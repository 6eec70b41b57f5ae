/* SPDX-License-Identifier: Apache-2.0 */
/* file_read and file_list: their definitions, what they may reach, and the shape of their results. */
#include "tools/files.h"

#include <poll.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "tools/content.h"

#define ORIGIN SBX_FILES_ORIGIN
#define RESULT_MAX ((size_t)32 << 20)

/* ---- definitions ---- */

static const char file_read_schema[] =
        "{\"type\":\"object\",\"properties\":{"
        "\"path\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":4096,\"description\":\"Path to the file to "
        "read\"},"
        "\"start_line\":{\"type\":\"integer\",\"default\":1,"
        "\"description\":\"Line number to start reading from (1-indexed)\"},"
        "\"end_line\":{\"type\":\"integer\",\"description\":\"Optional line number to stop reading at (inclusive)\"},"
        "\"max_lines\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":1000000,\"default\":100,"
        "\"description\":\"Maximum number of lines to return\"}},"
        "\"required\":[\"path\"],\"additionalProperties\":false}";

static const char file_list_schema[] =
        "{\"type\":\"object\",\"properties\":{"
        "\"path\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":4096,\"default\":\".\","
        "\"description\":\"Directory path to list\"},"
        "\"pattern\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":256,\"default\":\"*\","
        "\"description\":\"Glob pattern to filter files (e.g., '*.py', '*.md')\"},"
        "\"recursive\":{\"type\":\"boolean\",\"default\":false,\"description\":\"Search subdirectories recursively\"},"
        "\"max_results\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":10000,\"default\":100,"
        "\"description\":\"Maximum number of files to return\"}},"
        "\"additionalProperties\":false}";

#define READS "{\"readOnlyHint\":true,\"openWorldHint\":false}"

static const struct sbx_tool file_tools[] = {
        {.name = "file_read",
         .title = "Read a file",
         .description =
                 "Read the contents of a text file of the project. Returns the content along with line numbers and "
                 "file metadata as JSON: content, path, start_line, end_line, total_lines, truncated. Use "
                 "start_line and end_line to read specific portions of large files.",
         .input_schema = file_read_schema,
         .annotations = READS,
         .run = sbx_builtin_file_read,
         .free_data = sbx_files_free,
         .flags = SBX_TOOL_HOST},
        {.name = "file_list",
         .title = "List files",
         .description =
                 "List files in a directory of the project with optional glob pattern filtering. Use "
                 "recursive=true to search subdirectories. Returns file paths, names, sizes, and whether each is "
                 "a directory, as JSON: files, count, truncated, directory.",
         .input_schema = file_list_schema,
         .annotations = READS,
         .run = sbx_builtin_file_list,
         .free_data = sbx_files_free,
         .flags = SBX_TOOL_HOST},
};

int sbx_files_add_tools(struct sbx_tools *tools, const struct sbx_config *config, struct sbx_error *err) {
        for (size_t i = 0; i < sizeof(file_tools) / sizeof(file_tools[0]); i++) {
                struct sbx_tool tool = file_tools[i];
                struct sbx_files *files = NULL;
                int r = sbx_files_new(config, &files, err);

                tool.data = files;
                if (r == 0)
                        r = sbx_tools_add(tools, &tool, err);
                if (r < 0) {
                        sbx_files_free(files);
                        return r;
                }
        }
        /* Its name in snipara-sandbox, which models know. To clients it means the tool for a session's files. */
        return sbx_tools_alias(tools, "list_files", "file_list", err);
}

/* ---- what they may reach ---- */

void sbx_files_free(void *data) {
        struct sbx_files *files = data;

        if (files == NULL)
                return;
        for (size_t i = 0; i < files->count; i++)
                free(files->roots[i]);
        free(files->roots);
        free(files->directory);
        free(files);
}

/* Goes through the same as a caller's path, so that their texts can be compared: itself is all that is allowed. */
static int add_root(struct sbx_files *files, const char *path, struct sbx_error *err) {
        char everything[] = "/", *roots[] = {everything};
        const struct sbx_files any = {.directory = files->directory, .roots = roots, .count = 1};
        struct sbx_file_place place = {0};
        int r = sbx_files_locate(&any, path, &place, err);

        if (r < 0) {
                sbx_error_wrap(err, "allowed_paths");
                return r;
        }
        files->roots[files->count++] = steal_pointer(place.path);
        return 0;
}

int sbx_files_new(const struct sbx_config *config, struct sbx_files **ret_files, struct sbx_error *err) {
        const struct sbx_value *allowed = sbx_settings_get(sbx_config_core(config), "allowed_paths");
        char *const *paths = allowed != NULL && allowed->set ? allowed->strings : NULL;
        const char *directory = sbx_config_directory(config);
        struct sbx_files *files = calloc(1, sizeof(*files));
        size_t count = 0;
        int r = 0;

        while (paths != NULL && paths[count] != NULL)
                count++;
        if (files != NULL) {
                files->config = config;
                files->directory = strdup(directory != NULL ? directory : "/");
                files->roots = calloc(count + 1, sizeof(*files->roots));
        }
        if (files == NULL || files->directory == NULL || files->roots == NULL) {
                sbx_files_free(files);
                return SBX_NOMEM(err, ORIGIN);
        }
        if (count == 0 && directory != NULL)
                r = add_root(files, directory, err);
        for (size_t i = 0; i < count && r == 0; i++)
                r = add_root(files, paths[i], err);
        if (r < 0) {
                sbx_files_free(files);
                return r;
        }
        *ret_files = files;
        return 0;
}

/* ---- results ---- */

static int add_json_text(json_t *result, const json_t *report) {
        _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(RESULT_MAX);
        int r = sbx_json_encode(report, &text);

        return r < 0 ? r : sbx_content_add_text(result, sbx_buffer_bytes(&text));
}

int sbx_files_result(const struct sbx_tool_context *context, json_t *report, const char *summary, json_t **ret_result,
                     struct sbx_error *err) {
        _cleanup_json_ json_t *owned = report, *result = sbx_content_new(false);
        int r;

        if (owned == NULL || result == NULL)
                return SBX_NOMEM(err, ORIGIN);
        if (context->caller == SBX_CALLER_CODE) { /* once: as text it would be JSON inside of JSON, twice as large */
                r = sbx_content_add_text(result, (struct sbx_bytes){summary, strlen(summary)});
                if (r == 0)
                        r = json_object_set(result, "structuredContent", owned);
        } else {
                r = add_json_text(result, owned);
        }
        if (r < 0)
                return SBX_NOMEM(err, ORIGIN);
        *ret_result = steal_pointer(result);
        return 0;
}

int sbx_files_failure(const struct sbx_error *problem, const char *member, json_t *empty, json_t **ret_result,
                      struct sbx_error *err) {
        _cleanup_json_ json_t *result = sbx_content_error(problem), *owned = empty;
        json_t *report =
                json_pack("{s:o, s:O}", "error",
                          sbx_json_text((struct sbx_bytes){problem->message, strlen(problem->message)}), member, owned);

        if (result == NULL || report == NULL || json_object_set_new(result, "structuredContent", report) < 0)
                return SBX_NOMEM(err, ORIGIN);
        *ret_result = steal_pointer(result);
        return 0;
}

int sbx_files_may_go_on(const struct sbx_call *call, struct sbx_error *err) {
        struct pollfd cancel = {.fd = call != NULL ? call->cancel_fd : -1, .events = POLLIN};

        if (call == NULL)
                return 0;
        if (cancel.fd >= 0 && poll(&cancel, 1, 0) > 0)
                return sbx_error_set(err, -ECANCELED, ORIGIN, NULL, "the call was cancelled");
        if (call->deadline_ns != 0 && sbx_clock_ns() >= call->deadline_ns)
                return sbx_error_set(err, -ETIMEDOUT, ORIGIN, "Give a smaller directory or file.",
                                     "the call took longer than it may");
        return 0;
}

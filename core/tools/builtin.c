/* SPDX-License-Identifier: Apache-2.0 */
/* The built-in tools: names, arguments, defaults and texts as in snipara-sandbox 2.2.7, and `execute` as in snekbox. */
#include "tools/builtin.h"

#include "base/error.h"
#include "base/json.h"
#include "tools/content.h"
#include "tools/files.h"

#define ORIGIN "tools"

#define SESSION_ID                                                                                                     \
        "\"session_id\":{\"type\":\"string\",\"maxLength\":128,\"default\":\"default\","                               \
        "\"description\":\"Session ID (default: 'default')\"}"

/* The contract is in its first 500 characters: some clients show no more. %s: what the setting session_ttl means. */
#define EXECUTE_PYTHON_DESCRIPTION                                                                                     \
        "Run Python in a sandboxed, stateful session. Variables, imports and functions persist between calls with "    \
        "the same session_id (default: 'default'), also after an error or a time-out; a session %s. Profiles: quick "  \
        "(5 s, 128 MB), default (30 s, 512 MB), analysis (120 s, 2 GB), extended (300 s, 4 GB); timeout overrides "    \
        "the seconds (1 to 300). No network and no files of the host, unless the operator allows them; a private "     \
        "/tmp. matplotlib figures come back as images.\n\nReturns what was printed, the value of a last expression, "  \
        "and 'result = <value>' when the code assigns result. Top-level await works; input() does not. Long output "   \
        "is cut in its middle at about 30,000 characters. An exception is an error result with its traceback. When "   \
        "the code exceeds its time it is interrupted and the variables stay; when it has to be killed, or crashes, "   \
        "the error says that they are lost, and the session starts clean. Calls of one session run one after "         \
        "another, those of different sessions in parallel."

static const char execute_python_schema[] =
        "{\"type\":\"object\",\"properties\":{"
        "\"code\":{\"type\":\"string\",\"description\":\"Python code to execute\"},"
        "\"timeout\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":300,"
        "\"description\":\"Timeout in seconds (overrides profile). Max: 300\"},"
        "\"profile\":{\"type\":\"string\",\"enum\":[\"quick\",\"default\",\"analysis\",\"extended\"],"
        "\"default\":\"default\","
        "\"description\":\"Execution profile: quick (5s), default (30s), analysis (120s), extended (300s)\"},"
        "\"session_id\":{\"type\":\"string\",\"maxLength\":128,\"default\":\"default\","
        "\"description\":\"Session ID for isolated context (default: 'default')\"}},"
        "\"required\":[\"code\"],\"additionalProperties\":false}";

static const char only_session_schema[] =
        "{\"type\":\"object\",\"properties\":{" SESSION_ID "},\"additionalProperties\":false}";

static const char set_context_schema[] =
        "{\"type\":\"object\",\"properties\":{"
        "\"key\":{\"type\":\"string\",\"maxLength\":1024,\"description\":\"Variable name\"},"
        "\"value\":{\"type\":\"string\","
        "\"description\":\"JSON-encoded value to store; what is not JSON is stored as a string\"}," SESSION_ID "},"
        "\"required\":[\"key\",\"value\"],\"additionalProperties\":false}";

static const char destroy_session_schema[] =
        "{\"type\":\"object\",\"properties\":{\"session_id\":{\"type\":\"string\","
        "\"description\":\"Session ID to destroy\"}},\"required\":[\"session_id\"],\"additionalProperties\":false}";

static const char execute_schema[] = "{\"type\":\"object\",\"properties\":{"
                                     "\"code\":{\"type\":\"string\",\"description\":\"Python code to execute\"}},"
                                     "\"required\":[\"code\"],\"additionalProperties\":false}";

static const char no_arguments_schema[] = "{\"type\":\"object\",\"properties\":{},\"additionalProperties\":false}";

#define READS "{\"readOnlyHint\":true,\"openWorldHint\":false}"
#define RUNS "{\"readOnlyHint\":false,\"destructiveHint\":true,\"idempotentHint\":false,\"openWorldHint\":false}"
#define WRITES "{\"readOnlyHint\":false,\"destructiveHint\":false,\"idempotentHint\":true,\"openWorldHint\":false}"
#define DESTROYS "{\"readOnlyHint\":false,\"destructiveHint\":true,\"idempotentHint\":true,\"openWorldHint\":false}"

static const struct sbx_tool builtin_tools[] = {
        {.name = "execute_python", /* its description depends on the configuration */
         .title = "Execute Python",
         .input_schema = execute_python_schema,
         .annotations = RUNS,
         .run = sbx_builtin_execute_python,
         .lane = "session_id",
         .flags = SBX_TOOL_HEARTBEAT | SBX_TOOL_EXECUTES | SBX_TOOL_SESSION},
        {.name = "get_repl_context",
         .title = "Get session variables",
         .description =
                 "Get the current REPL context. Returns all variables stored in the persistent execution context from "
                 "previous execute_python calls of the session, as JSON where possible.",
         .input_schema = only_session_schema,
         .annotations = READS,
         .run = sbx_builtin_get_context,
         .lane = "session_id",
         .flags = SBX_TOOL_SESSION},
        {.name = "set_repl_context",
         .title = "Set a session variable",
         .description =
                 "Set a variable in the REPL context. The variable will persist across multiple execute_python calls "
                 "of the session. Value should be JSON-encoded; what is not JSON is stored as a string.",
         .input_schema = set_context_schema,
         .annotations = WRITES,
         .run = sbx_builtin_set_context,
         .lane = "session_id",
         .flags = SBX_TOOL_SESSION},
        {.name = "clear_repl_context",
         .title = "Clear session variables",
         .description = "Clear all variables from the REPL context and reset to clean state.",
         .input_schema = only_session_schema,
         .annotations = DESTROYS,
         .run = sbx_builtin_clear_context,
         .lane = "session_id",
         .flags = SBX_TOOL_SESSION},
        {.name = "list_sessions",
         .title = "List sessions",
         .description =
                 "List all active REPL sessions with metadata including idle time, age, and stored variable names. "
                 "Never waits for a running execution.",
         .input_schema = no_arguments_schema,
         .annotations = READS,
         .run = sbx_builtin_list_sessions,
         .flags = SBX_TOOL_QUICK | SBX_TOOL_CLIENT},
        {.name = "destroy_session",
         .title = "Destroy a session",
         .description =
                 "Destroy a REPL session and free its resources. The 'default' session is reset instead of destroyed. "
                 "Code that runs in it is cancelled.",
         .input_schema = destroy_session_schema,
         .annotations = DESTROYS,
         .run = sbx_builtin_destroy_session,
         .flags = SBX_TOOL_QUICK | SBX_TOOL_CLIENT},
        {.name = "execute",
         .title = "Execute a Python script",
         .description =
                 "Executes Python code in a sandboxed environment: a fresh one for each call, without any state, with "
                 "at most 6 seconds and 128 MB. Returns what the code printed; a traceback comes at its end. Use "
                 "execute_python to keep variables between calls.",
         .input_schema = execute_schema,
         .annotations = RUNS,
         .run = sbx_builtin_execute,
         .flags = SBX_TOOL_HEARTBEAT | SBX_TOOL_CLIENT},
};

/* "ends after 30 idle minutes" */
static void describe_ttl(const struct sbx_config *config, char *text, size_t size) {
        int64_t ttl_ms = sbx_config_int(config, "session_ttl");

        if (ttl_ms == 0)
                snprintf(text, size, "stays until it is destroyed");
        else if (ttl_ms % 60000 == 0)
                snprintf(text, size, "ends after %lld idle minutes", (long long)(ttl_ms / 60000));
        else
                snprintf(text, size, "ends after %.3g idle seconds", (double)ttl_ms / 1000);
}

int sbx_tools_add_builtin(struct sbx_tools *tools, struct sbx_sessions *sessions, const struct sbx_config *config,
                          struct sbx_error *err) {
        _cleanup_buffer_ struct sbx_buffer description = SBX_BUFFER(4096);
        char ttl[64];

        describe_ttl(config, ttl, sizeof(ttl));
        if (sbx_buffer_printf(&description, EXECUTE_PYTHON_DESCRIPTION, ttl) < 0)
                return SBX_NOMEM(err, ORIGIN);
        for (size_t i = 0; i < sizeof(builtin_tools) / sizeof(builtin_tools[0]); i++) {
                struct sbx_tool tool = builtin_tools[i];
                int r;

                tool.data = sessions;
                if (tool.description == NULL)
                        tool.description = description.data;
                r = sbx_tools_add(tools, &tool, err);
                if (r < 0)
                        return r;
        }
        return sbx_files_add_tools(tools, config, err);
}

int sbx_builtin_session_id(json_t *arguments, const char **ret_id, struct sbx_error *err) {
        int r = sbx_json_get_string(arguments, "arguments", "session_id", SBX_JSON_REQUIRED, ret_id, err);

        /* A fresh session has the empty id inside; to a client it means what it always meant. */
        if (r == 0 && (*ret_id)[0] == '\0')
                *ret_id = SBX_SESSION_DEFAULT;
        return r;
}

int sbx_builtin_text(bool is_error, const char *text, json_t **ret_result, struct sbx_error *err) {
        json_t *result = sbx_content_text(is_error, text);

        if (result == NULL)
                return SBX_NOMEM(err, ORIGIN);
        *ret_result = result;
        return 0;
}

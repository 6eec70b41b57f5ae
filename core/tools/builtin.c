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

/* The contract is in its first 500 characters: some clients show no more. %s: how long a session stays. */
#define EXECUTE_PYTHON_DESCRIPTION                                                                                     \
        "Run Python in a sandboxed, stateful session. Variables, imports, functions and files persist between calls "  \
        "with the same session_id (default: 'default'), also after an error or a time-out; %s. Profiles: "             \
        "quick (5 s, 128 MB), default (30 s, 512 MB), analysis (120 s, 2 GB), extended (300 s, 4 GB); timeout "        \
        "overrides the seconds (1 to 300). No network and no files of the host, unless the operator allows them. "     \
        "matplotlib figures come back as images.\n\nReturns what was printed, the value of a last expression, and "    \
        "'result = <value>' when the code assigns result. Top-level await works; input() does not. Long output is "    \
        "cut in its middle at about 30,000 characters; the whole, and every image, can be read as resources of the "   \
        "session, to which the result links. The working directory is the session's workspace: upload_file puts "      \
        "files there, download_file and list_files read them. An exception is an error result with its traceback. "    \
        "When the code exceeds its time it is interrupted and the variables stay; when it has to be killed, or "       \
        "crashes, the error says whether they are lost, or which checkpoint the session goes on from. Calls of one "   \
        "session run one after another, those of different sessions in parallel."

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

/* Sessions of other languages than Python have a default of their own: a session keeps the language it began with. */
#define TIMEOUT_AND_PROFILE                                                                                            \
        "\"timeout\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":300,"                                             \
        "\"description\":\"Timeout in seconds (overrides profile). Max: 300\"},"                                       \
        "\"profile\":{\"type\":\"string\",\"enum\":[\"quick\",\"default\",\"analysis\",\"extended\"],"                 \
        "\"default\":\"default\","                                                                                     \
        "\"description\":\"Execution profile: quick (5s), default (30s), analysis (120s), extended (300s)\"},"

static const char execute_code_schema[] =
        "{\"type\":\"object\",\"properties\":{"
        "\"language\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":64,\"default\":\"python\","
        "\"description\":\"python, node (JavaScript) or bash, with a version where there are several (python3.12, node20), "
        "or a runtime that the operator has named\"},"
        "\"code\":{\"type\":\"string\",\"description\":\"Code to execute\"}," TIMEOUT_AND_PROFILE
        "\"session_id\":{\"type\":\"string\",\"maxLength\":128,"
        "\"description\":\"Session ID for isolated context (default: 'default' for python, 'default-LANGUAGE' for "
        "others)\"}},"
        "\"required\":[\"code\"],\"additionalProperties\":false}";

static const char execute_bash_schema[] =
        "{\"type\":\"object\",\"properties\":{"
        "\"command\":{\"type\":\"string\",\"description\":\"Bash commands to execute\"}," TIMEOUT_AND_PROFILE
        "\"session_id\":{\"type\":\"string\",\"maxLength\":128,\"default\":\"default-bash\","
        "\"description\":\"Session ID for isolated context (default: 'default-bash')\"}},"
        "\"required\":[\"command\"],\"additionalProperties\":false}";

static const char only_session_schema[] =
        "{\"type\":\"object\",\"properties\":{" SESSION_ID "},\"additionalProperties\":false}";

static const char set_context_schema[] =
        "{\"type\":\"object\",\"properties\":{"
        "\"key\":{\"type\":\"string\",\"maxLength\":1024,\"description\":\"Variable name\"},"
        "\"value\":{\"type\":\"string\","
        "\"description\":\"JSON-encoded value to store; what is not JSON is stored as a string\"}," SESSION_ID "},"
        "\"required\":[\"key\",\"value\"],\"additionalProperties\":false}";

#define WORKSPACE_PATH                                                                                                 \
        "\"path\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":1024,"                                            \
        "\"description\":\"Path relative to the session's workspace, e.g. data/table.csv\"}"

static const char upload_file_schema[] =
        "{\"type\":\"object\",\"properties\":{" WORKSPACE_PATH ","
        "\"content\":{\"type\":\"string\",\"description\":\"The content, if it is text\"},"
        "\"content_base64\":{\"type\":\"string\","
        "\"description\":\"The content in base64, whatever it is; instead of content\"}," SESSION_ID "},"
        "\"required\":[\"path\"],\"additionalProperties\":false}";

static const char download_file_schema[] = "{\"type\":\"object\",\"properties\":{" WORKSPACE_PATH "," SESSION_ID "},"
                                           "\"required\":[\"path\"],\"additionalProperties\":false}";

static const char list_files_schema[] =
        "{\"type\":\"object\",\"properties\":{"
        "\"path\":{\"type\":\"string\",\"maxLength\":1024,\"default\":\"\","
        "\"description\":\"Directory relative to the session's workspace (default: the workspace)\"}," SESSION_ID "},"
        "\"additionalProperties\":false}";

static const char destroy_session_schema[] =
        "{\"type\":\"object\",\"properties\":{\"session_id\":{\"type\":\"string\","
        "\"description\":\"Session ID to destroy\"}},\"required\":[\"session_id\"],\"additionalProperties\":false}";

/* A session of which there are states: it has a name, so there is no default that could be meant by mistake. */
#define NAMED_SESSION                                                                                                  \
        "\"session_id\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":128,\"description\":\"Session ID\"}"
#define CHECKPOINT "\"checkpoint\":{\"type\":\"string\",\"maxLength\":200,"

static const char checkpoint_session_schema[] =
        "{\"type\":\"object\",\"properties\":{" NAMED_SESSION ","
        "\"label\":{\"type\":\"string\",\"maxLength\":200,"
        "\"description\":\"What to call it; rollback_session and fork_session take it in place of the ID\"}},"
        "\"required\":[\"session_id\"],\"additionalProperties\":false}";

static const char list_checkpoints_schema[] = "{\"type\":\"object\",\"properties\":{" NAMED_SESSION "},"
                                              "\"required\":[\"session_id\"],\"additionalProperties\":false}";

static const char rollback_session_schema[] =
        "{\"type\":\"object\",\"properties\":{" NAMED_SESSION "," CHECKPOINT
        "\"description\":\"ID (c7) or label of the checkpoint to go back to\"}},"
        "\"required\":[\"session_id\",\"checkpoint\"],\"additionalProperties\":false}";

static const char fork_session_schema[] =
        "{\"type\":\"object\",\"properties\":{" NAMED_SESSION "," CHECKPOINT
        "\"description\":\"ID (c7) or label of a checkpoint to begin from (default: the session as it is now)\"},"
        "\"new_session_id\":{\"type\":\"string\",\"maxLength\":128,"
        "\"description\":\"ID of the new session (default: one is made up)\"}},"
        "\"required\":[\"session_id\"],\"additionalProperties\":false}";

static const char execute_schema[] = "{\"type\":\"object\",\"properties\":{"
                                     "\"code\":{\"type\":\"string\",\"description\":\"Python code to execute\"}},"
                                     "\"required\":[\"code\"],\"additionalProperties\":false}";

static const char no_arguments_schema[] = "{\"type\":\"object\",\"properties\":{},\"additionalProperties\":false}";

/* Lucid little pictures, drawn on 24 by 24. */
#define ICON(path)                                                                                                     \
        "[{\"src\":\"data:image/svg+xml,%3Csvg%20xmlns='http://www.w3.org/2000/svg'%20viewBox='0%200%2024%2024'"       \
        "%20fill='none'%20stroke='%23777'%20stroke-width='2'%3E%3Cpath%20d='" path                                     \
        "'/%3E%3C/svg%3E\",\"mimeType\":\"image/svg+xml\",\"sizes\":[\"any\"]}]"
#define ICON_RUN ICON("M7%204v16l13-8z")
#define ICON_VARIABLES                                                                                                 \
        ICON("M9%204c-4%200-2%208-5%208c3%200%201%208%205%208M15%204c4%200%202%208%205%208c-3%200-1%208-5%208")
#define ICON_SESSIONS ICON("M4%205h16v5H4zM4%2014h16v5H4z")
#define ICON_STATES ICON("M6%203v18M6%2012h6a4%204%200%200%200%204-4V5M13%208l3-4%203%204")
#define ICON_FILES ICON("M6%203h8l4%204v14H6zM14%203v4h4")

#define READS "{\"readOnlyHint\":true,\"openWorldHint\":false}"
#define RUNS(open)                                                                                                     \
        "{\"readOnlyHint\":false,\"destructiveHint\":true,\"idempotentHint\":false,\"openWorldHint\":" open "}"
#define WRITES "{\"readOnlyHint\":false,\"destructiveHint\":false,\"idempotentHint\":true,\"openWorldHint\":false}"
#define ADDS "{\"readOnlyHint\":false,\"destructiveHint\":false,\"idempotentHint\":false,\"openWorldHint\":false}"
#define OVERWRITES DESTROYS
#define DESTROYS "{\"readOnlyHint\":false,\"destructiveHint\":true,\"idempotentHint\":true,\"openWorldHint\":false}"

/* What has no annotations executes code: theirs depend on the configuration. */
static const struct sbx_tool builtin_tools[] = {
        {.name = "execute_python", /* its description depends on the configuration */
         .title = "Execute Python",
         .icons = ICON_RUN,
         .input_schema = execute_python_schema,
         .run = sbx_builtin_execute_python,
         .lane = "session_id",
         .flags = SBX_TOOL_HEARTBEAT | SBX_TOOL_EXECUTES | SBX_TOOL_SESSION},
        {.name = "execute_code",
         .title = "Execute code",
         .icons = ICON_RUN,
         .description =
                 "Run code of a language in a sandboxed, stateful session: what execute_python does, for python, node "
                 "(JavaScript) and bash, as far as the environment has them. Variables, functions, the working directory "
                 "and files persist between calls with the same session_id, also after an error or a time-out. A session "
                 "keeps the language that it began with. Returns what was printed, and the value of a last expression "
                 "where the language has such a thing.",
         .input_schema = execute_code_schema,
         .run = sbx_builtin_execute_code,
         .lane = "session_id",
         .flags = SBX_TOOL_HEARTBEAT | SBX_TOOL_EXECUTES | SBX_TOOL_SESSION},
        {.name = "execute_bash",
         .title = "Execute Bash",
         .icons = ICON_RUN,
         .description =
                 "Run Bash commands in a sandboxed shell that stays: variables, functions, the working directory and "
                 "files persist between calls with the same session_id, also after a command that failed, `exit`, or a "
                 "time-out. Standard input is empty. Returns what was printed; a last exit status that is not 0 is an "
                 "error result that names it.",
         .input_schema = execute_bash_schema,
         .run = sbx_builtin_execute_bash,
         .lane = "session_id",
         .flags = SBX_TOOL_HEARTBEAT | SBX_TOOL_EXECUTES | SBX_TOOL_SESSION},
        {.name = "get_repl_context",
         .title = "Get session variables",
         .icons = ICON_VARIABLES,
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
         .icons = ICON_VARIABLES,
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
         .icons = ICON_VARIABLES,
         .description = "Clear all variables from the REPL context and reset to clean state.",
         .input_schema = only_session_schema,
         .annotations = DESTROYS,
         .run = sbx_builtin_clear_context,
         .lane = "session_id",
         .flags = SBX_TOOL_SESSION},
        {.name = "list_sessions",
         .title = "List sessions",
         .icons = ICON_SESSIONS,
         .description =
                 "List all active REPL sessions with metadata including idle time, age, and stored variable names, and "
                 "the stored ones, which go on where they were when they are used. Never waits for a running "
                 "execution.",
         .input_schema = no_arguments_schema,
         .annotations = READS,
         .run = sbx_builtin_list_sessions,
         .flags = SBX_TOOL_QUICK | SBX_TOOL_CLIENT},
        {.name = "destroy_session",
         .title = "Destroy a session",
         .icons = ICON_SESSIONS,
         .description =
                 "Destroy a REPL session and free its resources, with its checkpoints and whatever is stored of it. "
                 "The 'default' session is reset instead of destroyed. Code that runs in it is cancelled.",
         .input_schema = destroy_session_schema,
         .annotations = DESTROYS,
         .run = sbx_builtin_destroy_session,
         .flags = SBX_TOOL_QUICK | SBX_TOOL_CLIENT},
        {.name = "checkpoint_session",
         .title = "Checkpoint a session",
         .icons = ICON_STATES,
         .description =
                 "Keep the state of a session as it is now (variables, functions, imports, files) as a checkpoint, to "
                 "go back to with rollback_session or to branch from with fork_session. Returns its ID, how it was kept "
                 "(byte-exact, frozen process or portable), and by name what could not be kept. Sessions also make "
                 "checkpoints by themselves after executions; those go first when there are many.",
         .input_schema = checkpoint_session_schema,
         .annotations = ADDS,
         .run = sbx_builtin_checkpoint_session,
         .lane = "session_id",
         .flags = SBX_TOOL_HEARTBEAT | SBX_TOOL_CLIENT | SBX_TOOL_SESSION},
        {.name = "list_checkpoints",
         .title = "List checkpoints",
         .icons = ICON_STATES,
         .description =
                 "List the checkpoints of a session, oldest first: ID, label, the one it was made from, time, size, how "
                 "it was kept and what it holds. The session goes on from the one that is marked.",
         .input_schema = list_checkpoints_schema,
         .annotations = READS,
         .run = sbx_builtin_list_checkpoints,
         .lane = "session_id",
         .flags = SBX_TOOL_HEARTBEAT | SBX_TOOL_CLIENT | SBX_TOOL_SESSION},
        {.name = "rollback_session",
         .title = "Roll back a session",
         .icons = ICON_STATES,
         .description =
                 "Return a session to one of its checkpoints: its variables, functions, imports and files are as they "
                 "were then, and no code runs again. What it was before is lost unless a checkpoint has it. Says by name "
                 "what did not come back.",
         .input_schema = rollback_session_schema,
         .annotations = DESTROYS,
         .run = sbx_builtin_rollback_session,
         .lane = "session_id",
         .flags = SBX_TOOL_HEARTBEAT | SBX_TOOL_CLIENT | SBX_TOOL_SESSION},
        {.name = "fork_session",
         .title = "Fork a session",
         .icons = ICON_STATES,
         .description =
                 "Make a new session that begins as another one is now, or was at one of its checkpoints, to try "
                 "something without touching the first. From then on both are sessions of their own. Returns the new "
                 "session's ID.",
         .input_schema = fork_session_schema,
         .annotations = ADDS,
         .run = sbx_builtin_fork_session,
         .lane = "session_id",
         .flags = SBX_TOOL_HEARTBEAT | SBX_TOOL_CLIENT | SBX_TOOL_SESSION},
        {.name = "execute",
         .title = "Execute a Python script",
         .icons = ICON_RUN,
         .description =
                 "Executes Python code in a sandboxed environment: a fresh one for each call, without any state, with "
                 "at most 6 seconds and 128 MB. Returns what the code printed; a traceback comes at its end. Use "
                 "execute_python to keep variables between calls.",
         .input_schema = execute_schema,
         .run = sbx_builtin_execute,
         .flags = SBX_TOOL_HEARTBEAT | SBX_TOOL_CLIENT},
        {.name = "upload_file",
         .title = "Upload a file",
         .icons = ICON_FILES,
         .description =
                 "Write a file into the workspace of a session, where its code finds it by the same relative path. "
                 "Give content for text, or content_base64 for anything; at most 32 MiB. Directories that lead to it "
                 "are made, a file that is there is replaced.",
         .input_schema = upload_file_schema,
         .annotations = OVERWRITES,
         .run = sbx_builtin_upload_file,
         .lane = "session_id",
         .flags = SBX_TOOL_HEARTBEAT | SBX_TOOL_CLIENT | SBX_TOOL_SESSION},
        {.name = "download_file",
         .title = "Download a file",
         .icons = ICON_FILES,
         .description =
                 "Read a file from the workspace of a session: text of up to 30,000 characters as text, a PNG, JPEG, "
                 "GIF or WebP image of up to 500 kB as an image, anything else as an attached resource of up to 8 "
                 "MiB. Larger files can be read in parts with execute_python.",
         .input_schema = download_file_schema,
         .annotations = READS,
         .run = sbx_builtin_download_file,
         .lane = "session_id",
         .flags = SBX_TOOL_HEARTBEAT | SBX_TOOL_CLIENT | SBX_TOOL_SESSION},
        {.name = "list_files",
         .title = "List files",
         .icons = ICON_FILES,
         .description =
                 "List what is in the workspace of a session, or below one of its directories, as JSON: path, type, "
                 "size and time of the last change. Long lists are truncated, and say so.",
         .input_schema = list_files_schema,
         .annotations = READS,
         .run = sbx_builtin_list_files,
         .lane = "session_id",
         .flags = SBX_TOOL_HEARTBEAT | SBX_TOOL_CLIENT | SBX_TOOL_SESSION},
};

/* Is an option of an entry set to `text`? Unset: `otherwise`. */
static bool option_is(const struct sbx_config *config, const char *entry, const char *option, const char *text,
                      bool otherwise) {
        const struct sbx_option table[] = {{.struct_size = sizeof(table[0]), .type = SBX_OPTION_STRING, .name = option},
                                           {.name = NULL}};
        struct sbx_settings settings = {0};
        const struct sbx_value *value;
        bool is = otherwise;

        if (sbx_config_plugin_glance(config, entry, table, &settings, NULL) < 0)
                return false;
        value = sbx_settings_get(&settings, option);
        if (value != NULL && value->set)
                is = strcmp(value->string, text) == 0;
        sbx_settings_free(&settings);
        return is;
}

static bool has_no_network(const struct sbx_config *config, const struct sbx_plugin_entry *entry) {
        if (strcmp(entry->plugin, "backend-local") == 0)
                return !option_is(config, entry->name, "isolation", "none", false);
        return strcmp(entry->plugin, "backend-docker") == 0 &&
               option_is(config, entry->name, "network", "none", sbx_config_bool(config, "docker_network_disabled"));
}

/* Whether code can reach the network, as far as the configuration tells. */
static const char *run_annotations(const struct sbx_config *config) {
        const char *environment = sbx_config_string(config, "environment");
        const struct sbx_plugin_entry *entry =
                sbx_config_plugin_find(config, environment != NULL ? environment : "local");

        return entry != NULL && has_no_network(config, entry) ? RUNS("false") : RUNS("true");
}

/* "a session ends after 30 idle minutes" */
static void describe_stay(const struct sbx_config *config, char *text, size_t size) {
        const char *store = sbx_config_string(config, "store");
        int64_t ttl_ms = sbx_config_int(config, "session_ttl");

        if (store != NULL && store[0] != '\0')
                snprintf(text, size, "other sessions are stored, and go on in a new server");
        else if (ttl_ms == 0)
                snprintf(text, size, "a session stays until it is destroyed");
        else if (ttl_ms % 60000 == 0)
                snprintf(text, size, "a session ends after %lld idle minutes", (long long)(ttl_ms / 60000));
        else
                snprintf(text, size, "a session ends after %.3g idle seconds", (double)ttl_ms / 1000);
}

int sbx_tools_add_builtin(struct sbx_tools *tools, struct sbx_sessions *sessions, const struct sbx_config *config,
                          struct sbx_error *err) {
        _cleanup_buffer_ struct sbx_buffer description = SBX_BUFFER(4096);
        char stay[96];

        describe_stay(config, stay, sizeof(stay));
        if (sbx_buffer_printf(&description, EXECUTE_PYTHON_DESCRIPTION, stay) < 0)
                return SBX_NOMEM(err, ORIGIN);
        for (size_t i = 0; i < sizeof(builtin_tools) / sizeof(builtin_tools[0]); i++) {
                struct sbx_tool tool = builtin_tools[i];
                int r;

                tool.data = sessions;
                if (tool.description == NULL)
                        tool.description = description.data;
                if (tool.annotations == NULL)
                        tool.annotations = run_annotations(config);
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

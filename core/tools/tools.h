/* SPDX-License-Identifier: Apache-2.0 */
/* The tool registry: the one list of named operations that transports, the agent and in-sandbox code call, and the
 * threads that run them. Thread-safe. */
#pragma once

#include <jansson.h>

#include "plugin/registry.h"
#include "session/session.h"

struct sbx_tools;

/* Who calls: what each may see and call differs (see SBX_TOOL_* and the settings client_tools, model_tools and
 * code_tools). */
enum sbx_tool_caller {
        SBX_CALLER_CLIENT = 0, /* of a transport, or a program that embeds the runtime */
        SBX_CALLER_MODEL = 1,  /* of a run */
        SBX_CALLER_CODE = 2,   /* in a session of a run */
        SBX_CALLER_RUN = 3,    /* the program itself, for a run: what a model could call if model_tools named all */
};

struct sbx_tool_context {
        void *data; /* of the definition */
        const char *principal;
        enum sbx_tool_caller caller;
        void *run; /* of core/agent: the place in a run that the call comes from; NULL: not of a run */
        const struct sbx_code_calls *code_calls; /* for code that the call executes; may be NULL */
        const struct sbx_call *call;
        /* May be NULL. What does not rise is not passed on. SBX_PROGRESS_ELAPSED: the seconds since the call came. */
        void (*progress)(void *progress_data, double progress, double total, const char *message);
        void *progress_data;
        const char *environment;         /* where code that the call executes runs; NULL: as configured */
        const struct sbx_client *client; /* who asked, to be asked back; NULL: nobody that could be */
};
#define SBX_PROGRESS_ELAPSED (-1.0)

#define SBX_TOOL_QUICK (1u << 0)     /* never waits: it may use a thread that is kept free for such tools */
#define SBX_TOOL_HEARTBEAT (1u << 1) /* may take long: progress is reported every 2 seconds while it waits and runs */
#define SBX_TOOL_RUN (1u << 2)       /* means something in a run only: never for clients */
#define SBX_TOOL_HOST (1u << 3)      /* looks outside of the sandbox: for clients only if client_tools names it */
#define SBX_TOOL_SESSION (1u << 4)   /* takes a session's turn: never for code, which has that turn */
#define SBX_TOOL_CLIENT (1u << 5)    /* for clients alone */
#define SBX_TOOL_EXECUTES (1u << 6)  /* executes code: of a client's, sbx_tools_set_code says what it may call back */
#define SBX_TOOL_ALWAYS (1u << 7)    /* whatever model_tools and code_tools say */
#define SBX_TOOL_FOREIGN (1u << 8)   /* of a plugin: whatever JSON Schema it likes, also at the root */
#define SBX_TOOL_PROTOCOL (1u << 9)  /* it answers requests (request.h): its -EPROTO is no result, but the end */

/* A tool. `input_schema` is a JSON Schema text: root type object, as docs/tools.md says; `annotations` a JSON object
 * text (NULL: none). `run` gets arguments that fit the schema (defaults filled in) and returns a result object
 * {"content": [...], "isError": bool}; a negative return becomes an isError result with the error's text, except for
 * clients -ENOTSUP after sbx_client.ask has said so, and -EPROTO with SBX_TOOL_PROTOCOL: those end the call. */
struct sbx_tool {
        const char *name, *title, *description, *input_schema, *annotations;
        int (*run)(const struct sbx_tool_context *context, json_t *arguments, json_t **ret_result,
                   struct sbx_error *err);
        void *data;
        void (*free_data)(void *data); /* called when the registry is freed, if it took the tool; may be NULL */
        /* A string argument. Submitted calls of one principal whose tools name the same lane argument, and that give it
         * the same value (or none), run one after another in the order of submission, and take no thread while they
         * wait. NULL: the calls run in parallel. */
        const char *lane;
        unsigned flags;    /* SBX_TOOL_* bits */
        const char *icons; /* a JSON array text, as in MCP; NULL: none */
        /* "optional", "required": it may become a task (sbx_client.become_task); NULL: never */
        const char *task_support;
        const char *meta; /* a JSON object text, "_meta" of the listing; NULL: none */
};

/* One call that has ended and is not of a run, for who keeps a record. Everything is borrowed. */
struct sbx_tool_record {
        const char *tool, *principal;
        const json_t *arguments; /* as the client sent them */
        const json_t *result;    /* NULL: it ended without one, by `status` */
        int status;              /* 0, or the negative errno that the call ended with */
        uint64_t duration_ns;
};
struct sbx_tool_observer {
        void *data;
        bool (*active)(void *data); /* asked at the begin of each call; false: no record is made of it */
        void (*called)(void *data, const struct sbx_tool_record *record); /* by the thread that ran the call */
};

int sbx_tools_new(const struct sbx_logger *logger, struct sbx_tools **ret_tools, struct sbx_error *err);
/* Cancels what was submitted, and waits for it; what is submitted later is refused with -ESHUTDOWN. Idempotent. */
void sbx_tools_stop(struct sbx_tools *tools);
/* Stops, and frees. No call may be under way on another thread, and every task has been released. */
void sbx_tools_free(struct sbx_tools *tools);
/* Before the first call; copied. */
void sbx_tools_observe(struct sbx_tools *tools, const struct sbx_tool_observer *observer);
/* Counts calls, errors and refusals there, which outlives the registry. Before the first call. */
struct sbx_metrics;
void sbx_tools_measure(struct sbx_tools *tools, struct sbx_metrics *metrics);
/* What code that clients execute may call back to: asked at the begin of each such call; `*ret_calls` may stay NULL,
 * then it may not. `end` gets what begin() put into `ret_run`. */
struct sbx_tool_code {
        void *data;
        int (*begin)(void *data, const char *principal, const struct sbx_call *call, void **ret_run,
                     const struct sbx_code_calls **ret_calls, struct sbx_error *err);
        void (*end)(void *data, void *run);
};
/* Before the first call; copied. */
void sbx_tools_set_code(struct sbx_tools *tools, const struct sbx_tool_code *code);
/* Copies the definition. -EEXIST, -EINVAL (name not 1-64 of [A-Za-z0-9_.-], bad schema, description over 2 KB). */
int sbx_tools_add(struct sbx_tools *tools, const struct sbx_tool *tool, struct sbx_error *err);
/* Another name that calls the same tool. It is not listed. A tool of that name comes first, but only for the kinds of
 * callers that its flags let have it; -EEXIST: for none would the alias be left. -ENOENT. */
int sbx_tools_alias(struct sbx_tools *tools, const char *alias, const char *name, struct sbx_error *err);
/* Which tools a kind of caller may use beyond what their flags say: names, or the beginning of names and a `*`. Before
 * the first call; copied. Clients: which SBX_TOOL_HOST ones they get too; models and code: which of all they get. */
int sbx_tools_allow(struct sbx_tools *tools, enum sbx_tool_caller caller, const char *const *patterns,
                    struct sbx_error *err);
/* What the caller may call: a JSON array of {name, title, description, inputSchema, annotations, icons, execution,
 * _meta}; the last three, and the title, where there are some. */
int sbx_tools_list_for(struct sbx_tools *tools, enum sbx_tool_caller caller, json_t **ret_list, struct sbx_error *err);
/* The same for clients, encoded. */
int sbx_tools_list(struct sbx_tools *tools, struct sbx_buffer *out_json, struct sbx_error *err);
/* 0, or -ENOENT (no such tool) or -EACCES (not for this caller), with what may be called instead. */
int sbx_tools_check(struct sbx_tools *tools, const char *name, enum sbx_tool_caller caller, struct sbx_error *err);
/* Runs on the caller's thread. -ENOENT: unknown tool (the error suggests the nearest name); -EACCES: not for the
 * context's caller. */
int sbx_tools_call(struct sbx_tools *tools, const char *name, struct sbx_bytes arguments,
                   const struct sbx_tool_context *context, struct sbx_buffer *out_json, struct sbx_error *err);
/* Requests that are no tool calls (core/catalog): answered on the same threads as tools. Before the first call; copied.
 */
struct sbx_tool_requests {
        void *data;
        int (*answer)(void *data, const struct sbx_request *request, const struct sbx_client *client,
                      const struct sbx_call *call, struct sbx_buffer *out_json, struct sbx_error *err);
};
void sbx_tools_set_requests(struct sbx_tools *tools, const struct sbx_tool_requests *requests);
/* The services that plugins get in struct sbx_host. submit queues a call for the threads of the pool: at most 64,
 * started when needed and ended after 10 idle seconds; at most 1024 calls wait, then it answers -EBUSY. */
void sbx_tools_services(struct sbx_tools *tools, struct sbx_tool_services *ret_services);

/* Checks `arguments` against a JSON Schema (2020-12; schema.h says what of it) and fills defaults in. The error names the
 * path, the reason, and what is allowed. */
int sbx_schema_apply(const json_t *schema, json_t *arguments, struct sbx_error *err);

/* The tools of a context source. `source` outlives the registry. A tool's definition may have "_meta":
 * {"snipara-sandbox/aliases": [names], "snipara-sandbox/host": true for SBX_TOOL_HOST}. -EEXIST: it names a tool that
 * is there already. With `only_missing` such a tool is passed over: the built-in sources, of which the first that has
 * something to offer wins. */
int sbx_tools_add_context(struct sbx_tools *tools, const struct sbx_instance *source, bool only_missing,
                          struct sbx_error *err);
/* A source of that name has said that its tools changed: it is asked again before the next list, or the next call of an
 * unknown tool, and what is new is added. Any thread; never waits. */
void sbx_tools_source_changed(struct sbx_tools *tools, const char *source);

/* What a call of a tool that executes code would execute: `ret_code` is borrowed (NULL: its arguments have none),
 * `*ret_language` NULL for Python. False: the tool executes no code. */
bool sbx_tools_code_of(const char *name, const json_t *arguments, json_t **ret_code, const char **ret_language);

/* Registers execute_python, execute_code, execute_bash, get_repl_context, set_repl_context, clear_repl_context,
 * list_sessions, destroy_session and execute, upload_file, download_file and list_files; file_read and file_list,
 * within allowed_paths. `sessions` lives until sbx_tools_stop has returned. */
int sbx_tools_add_builtin(struct sbx_tools *tools, struct sbx_sessions *sessions, const struct sbx_config *config,
                          struct sbx_error *err);

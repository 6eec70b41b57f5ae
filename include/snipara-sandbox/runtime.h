/* SPDX-License-Identifier: Apache-2.0 */
/* The embedding API: open a runtime, execute code in sessions, call tools, serve a transport.
 *
 *      struct sbx_runtime *rt = NULL;
 *      struct sbx_error err = {0};
 *      struct sbx_execution ex = {.struct_size = sizeof(ex), .code = {"print(1)", 8}};
 *      struct sbx_result *res = NULL;
 *
 *      if (sbx_runtime_open(NULL, &rt, &err) < 0 || sbx_runtime_execute(rt, &ex, NULL, &res, &err) < 0)
 *              fprintf(stderr, "%s\n%s\n", err.message, err.hint);
 *      sbx_result_free(res);
 *      sbx_runtime_free(rt);
 *
 * The library keeps no globals, installs no signal handler and never exits the process. Every function may be
 * called by any thread; executions of different sessions run in parallel, those of one session one after another.
 * Link with `pkg-config --libs snipara-sandbox`.
 */
#ifndef SNIPARA_SANDBOX_RUNTIME_H
#define SNIPARA_SANDBOX_RUNTIME_H

#include <stdbool.h>

#include <snipara-sandbox/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SBX_API __attribute__((visibility("default")))
#else
#define SBX_API
#endif

struct sbx_runtime;

/* How to open a runtime. NULL, or a member left 0, means the default. Borrowed until sbx_runtime_open returns. */
struct sbx_runtime_options {
        uint32_t struct_size;
        uint32_t flags;          /* SBX_RUNTIME_* bits */
        const char *config_path; /* one file instead of the search; NULL: search (docs/configuration.md) */
        const char *directory;   /* project directory: snipara-sandbox.cfg, .env; NULL: the working directory */
        /* "name=value" settings that win over files and environment, as flags on a command line do; may be NULL.
         * Ends with NULL. */
        const char *const *settings;
        /* Receives log lines; NULL: standard error. Called by any thread. */
        void (*log)(void *data, int level, const char *message);
        void *log_data;
};
#define SBX_RUNTIME_NO_ENVIRONMENT (1u << 0) /* ignore environment variables and .env */

SBX_API int sbx_runtime_open(const struct sbx_runtime_options *options, struct sbx_runtime **ret_runtime,
                             struct sbx_error *err);
/* Ends every session and plugin; when it returns nothing of the runtime is left. NULL is fine. No other call on
 * the runtime may be under way. */
SBX_API void sbx_runtime_free(struct sbx_runtime *runtime);

/* How an execution ended: exactly one of these. */
enum sbx_end {
        SBX_END_OK = 0,
        SBX_END_ERROR = 1,     /* an exception, told in error_type / error_message / traceback */
        SBX_END_TIMEOUT = 2,   /* wall-clock or CPU-time limit */
        SBX_END_MEMORY = 3,    /* memory limit */
        SBX_END_CANCELLED = 4, /* the caller asked */
        SBX_END_KILLED = 5,    /* a signal, a native crash among them */
        SBX_END_LOST = 6,      /* the guest ended without a result: os._exit, closed descriptors, broken protocol */
};
SBX_API const char *sbx_end_name(enum sbx_end end); /* "ok", "error", ... */

/* What became of the session's variables. */
enum sbx_state { SBX_STATE_KEPT = 0, SBX_STATE_ROLLED_BACK = 1, SBX_STATE_LOST = 2 };
SBX_API const char *sbx_state_name(enum sbx_state state); /* "kept", "rolled_back", "lost" */

/* Output while it comes; each may be NULL. Called by the thread that executes. */
struct sbx_output_events {
        uint32_t struct_size;
        uint32_t reserved;
        void *data;
        void (*output)(void *data, int fd, struct sbx_bytes bytes); /* fd 1 or 2; raw bytes of the guest */
};

struct sbx_execution {
        uint32_t struct_size;
        uint32_t reserved;
        struct sbx_bytes code;   /* UTF-8 source, at most 16 MiB */
        const char *session_id;  /* NULL: "default"; "" : a fresh session for this execution alone */
        const char *environment; /* name of a backend instance; NULL: the configured one */
        const char *profile;     /* "quick", "default", "analysis", "extended"; NULL: "default" */
        const char *principal;   /* who asks; NULL: "" */
        const char *filename;    /* shown in tracebacks; NULL: "<execution>" */
        uint64_t timeout_ms;     /* 0: the profile's; at most 600,000 */
        const struct sbx_output_events *events; /* NULL: output comes in the result alone */
        /* Since 1.3. Language of a session: "python", "node", "bash", with a version ("python3.12", "node20"), or a name
         * that the backend's configuration gives; NULL: the session's own, "python" for a new one. A session keeps the
         * one that it began with: -EINVAL for another. */
        const char *runtime;
};

/* A piece of rich output: MIME type and data, base64 for types that are not text. */
struct sbx_display {
        const char *mime_type;
        struct sbx_bytes data;
};

/* What came of an execution. Owned by the caller, freed whole with sbx_result_free. Text is repaired UTF-8. */
struct sbx_result {
        uint32_t struct_size;
        uint32_t display_count;
        enum sbx_end end;
        enum sbx_state state;
        struct sbx_bytes stdout_text; /* NUL-terminated beyond size; capped, see *_dropped */
        struct sbx_bytes stderr_text;
        const char *value;         /* repr of the last expression; NULL: none */
        const char *result;        /* repr of `result` if the code assigned it; NULL: not */
        const char *result_json;   /* the same as JSON if it can be; NULL: not */
        const char *error_type;    /* "ValueError"; NULL unless an exception ended the code */
        const char *error_message; /* one line for a person: always set unless end is ok */
        const char *traceback;     /* the user's frames; NULL: none */
        const char *notice;        /* what the caller must know of the session's state; NULL: nothing */
        const char *session_id;
        const char *isolation; /* "namespaces", "landlock", "none", ... as in the report */
        const struct sbx_display *displays;
        uint64_t duration_ns, cpu_ns, memory_peak_bytes;
        uint64_t stdout_dropped_bytes, stderr_dropped_bytes, display_dropped_count;
        /* Since 1.4. What kind of notice `notice` is: "restarted" (variables are gone), "rolled_back" (the session went on
         * with a checkpoint after its interpreter was ended), "resumed" (it goes on from what another process, or this
         * one before it was idle, has stored); NULL: there is none. */
        const char *notice_kind;
        /* The checkpoint after this execution, a JSON object: {"id": "c7" or null, "mechanism": "byte-exact" | "portable",
         * "durable": bool, "bytes": n, "took_ms": x, "unsaved": [{"name", "type", "reason"}], "reason": why there is none}.
         * NULL: the session makes none by itself. docs/sessions.md. */
        const char *checkpoint;
};
SBX_API void sbx_result_free(struct sbx_result *result);

/* Runs one piece of code. 0 however the code ended: the result tells. Negative when it could not be run at all:
 * -EINVAL (arguments), -ENOENT (environment, profile), -EBUSY (too many sessions), -ENOTSUP (the isolation can't be
 * had here), -ECANCELED (before it began). `call` may be NULL. */
SBX_API int sbx_runtime_execute(struct sbx_runtime *runtime, const struct sbx_execution *execution,
                                const struct sbx_call *call, struct sbx_result **ret_result, struct sbx_error *err);

/* Calls a tool of the registry. `*ret_json` is the tool result (see sbx_tool_events.done), to be freed with
 * sbx_bytes_free. */
SBX_API int sbx_runtime_tool_call(struct sbx_runtime *runtime, const char *name, struct sbx_bytes arguments,
                                  const struct sbx_call *call, struct sbx_bytes *ret_json, struct sbx_error *err);
SBX_API int sbx_runtime_tool_list(struct sbx_runtime *runtime, struct sbx_bytes *ret_json, struct sbx_error *err);

/* The isolation report of a session's guest (JSON), starting the session if need be. */
SBX_API int sbx_runtime_report(struct sbx_runtime *runtime, const char *session_id, const struct sbx_call *call,
                               struct sbx_bytes *ret_json, struct sbx_error *err);

/* ---- runs (since 1.1): a model that plans, calls tools and executes code; docs/runs.md ---- */

/* What goes on in a run; each may be NULL. Called by one thread at a time, not always the one that called. */
struct sbx_run_events {
        uint32_t struct_size;
        uint32_t reserved;
        void *data;
        void (*text)(void *data, unsigned depth, struct sbx_bytes text); /* of the model, as it streams */
        void (*event)(void *data, struct sbx_bytes json);                /* docs/runs.md lists them */
};

/* A file's text, or any other, for code in the run's session; it does not enter the model's context by itself. */
struct sbx_run_text {
        const char *name; /* of the variable */
        struct sbx_bytes text;
};

#define SBX_RUN_AUTONOMOUS (1u << 0)      /* an agent: goes on until it calls FINAL */
#define SBX_RUN_NO_SUB_CALLS (1u << 1)    /* neither tools nor code may ask the model */
#define SBX_RUN_NO_AUTO_CONTEXT (1u << 2) /* an agent's first iteration gets no retrieved context */
#define SBX_RUN_WITH_EVENTS (1u << 3)     /* the result holds the trajectory */

/* NULL or 0: as configured. Borrowed until sbx_runtime_run returns. */
struct sbx_run_options {
        uint32_t struct_size;
        uint32_t flags; /* SBX_RUN_* bits */
        const char *prompt;
        const char *system;
        const char *provider, *model, *environment, *principal;
        const char *check;           /* Python that validates the answer, in the variable `answer` */
        const char *response_format; /* as in the chat-completions API */
        const char *resume_id;       /* go on with this run: its id, or the beginning of it */
        const struct sbx_run_text *texts;
        size_t text_count;
        uint32_t max_depth, max_subcalls, tool_budget, max_iterations, sub_calls_per_turn, reserved;
        uint64_t token_budget, timeout_ms;
        double cost_limit_usd; /* 0: as configured */
        const struct sbx_run_events *events;
};

/* 0 however the run ended: `*ret_json` tells (docs/runs.md), to be freed with sbx_bytes_free. -EINVAL, -ENOENT (provider,
 * run to resume), -EBUSY (another process goes on with it), -EALREADY (it has ended; its result is set all the same). */
SBX_API int sbx_runtime_run(struct sbx_runtime *runtime, const struct sbx_run_options *options,
                            const struct sbx_call *call, struct sbx_bytes *ret_json, struct sbx_error *err);

/* Serves the transport instance `name` ("mcp") until the peer goes or `call` is cancelled. */
SBX_API int sbx_runtime_serve(struct sbx_runtime *runtime, const char *name, int input_fd, int output_fd,
                              const struct sbx_call *call, struct sbx_error *err);

SBX_API void sbx_bytes_free(struct sbx_bytes *bytes);
SBX_API const char *sbx_version(void);

#ifdef __cplusplus
}
#endif
#endif

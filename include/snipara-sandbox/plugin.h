/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin ABI: descriptor, lifecycle, options, host services.
 *
 * A plugin is a shared object with one exported symbol, `sbx_plugin_entry_v1`. The host calls it once after
 * loading (dlopen RTLD_NOW | RTLD_LOCAL) and gets a constant descriptor. Then, for each instance that the
 * configuration names:
 *
 *      open(host, &instance)   read options, allocate; no thread, no child process, no network yet
 *      start(instance, call)   bring it up: processes, sockets; may be called again after stop
 *      ... operations of the kind ...
 *      stop(instance)          bring it down: when it returns nothing of the instance runs any more
 *      close(instance)         free everything; `instance` may be half-built, never NULL
 *
 * When open fails nothing more is called for the instance. When start fails the plugin has undone what it began: stop
 * is not called; close is, or start again. docs/plugin-abi.md has every function with its errors.
 *
 * Two instances of one plugin work side by side: all state hangs off `instance`. The lifecycle functions of one
 * instance are called by one thread at a time; each kind's header says what may run in parallel.
 *
 * Minimal plugin: see examples/plugin-template in the sources.
 */
#ifndef SNIPARA_SANDBOX_PLUGIN_H
#define SNIPARA_SANDBOX_PLUGIN_H

#include <snipara-sandbox/request.h>
#include <snipara-sandbox/types.h>

#ifdef __cplusplus
extern "C" {
#endif

enum sbx_plugin_kind {
        SBX_PLUGIN_BACKEND = 1,   /* ops: struct sbx_backend_ops   (backend.h)   */
        SBX_PLUGIN_PROVIDER = 2,  /* ops: struct sbx_provider_ops  (provider.h)  */
        SBX_PLUGIN_CONTEXT = 3,   /* ops: struct sbx_context_ops   (context.h)   */
        SBX_PLUGIN_SINK = 4,      /* ops: struct sbx_sink_ops      (sink.h)      */
        SBX_PLUGIN_TRANSPORT = 5, /* ops: struct sbx_transport_ops (transport.h) */
        SBX_PLUGIN_STORE = 6,     /* ops: struct sbx_store_ops     (store.h)     */
};

/* ---- options ------------------------------------------------------------------------------------------- */

enum sbx_option_type {
        SBX_OPTION_BOOL = 1,
        SBX_OPTION_INT = 2,      /* int64; `minimum` and `maximum` apply; unit in `unit` */
        SBX_OPTION_SIZE = 3,     /* bytes; a number, or "64k", "512m", "2g" (powers of 1024) */
        SBX_OPTION_DURATION = 4, /* milliseconds; a number of seconds, or "250ms", "30s", "5m", "1h" */
        SBX_OPTION_FLOAT = 5,
        SBX_OPTION_STRING = 6,
        SBX_OPTION_ENUM = 7,    /* one of the words in `choices`, separated by '|' */
        SBX_OPTION_STRINGS = 8, /* a list of strings; `default_value` holds them separated by ',' */
        SBX_OPTION_PATH = 9,    /* made absolute against the directory of the file that set it */
};

#define SBX_OPTION_SECRET (1u << 0)   /* never shown, logged or put in an error */
#define SBX_OPTION_REQUIRED (1u << 1) /* no default: the configuration must set it */

/* One option of a plugin. The table ends with an entry whose `name` is NULL. The host parses, validates, refuses
 * unknown keys with file and line, and prints `plugins info NAME` from it. Options of a nested group are named
 * with a dot: "http.listen". `minimum`/`maximum` are in the type's unit; both 0 means unbounded. */
struct sbx_option {
        uint32_t struct_size;
        uint32_t type;  /* enum sbx_option_type */
        uint32_t flags; /* SBX_OPTION_* bits */
        uint32_t reserved;
        const char *name;
        const char *default_value; /* as a user would write it; NULL: unset */
        const char *choices;       /* ENUM only */
        const char *unit;          /* for people: "bytes", "percent of one CPU"; may be NULL */
        const char *help;          /* one sentence */
        int64_t minimum, maximum;
};

/* ---- host services ------------------------------------------------------------------------------------- */

enum sbx_log_level { SBX_LOG_ERROR = 1, SBX_LOG_WARNING = 2, SBX_LOG_INFO = 3, SBX_LOG_DEBUG = 4 };

/* Content and outcome of one tool call, as JSON bytes: see the comment on sbx_host.tool_submit. */
struct sbx_tool_events {
        uint32_t struct_size;
        uint32_t reserved;
        void *data;
        /* `progress` counts up; `message` may be NULL. Called from a thread of the core, never after `done`. */
        void (*progress)(void *data, double progress, double total, const char *message);
        /* Called exactly once, from a thread of the core. `result` is a JSON object:
         * {"content": [blocks], "isError": bool, "_meta": {...}}, the blocks as in MCP (text, image, resource_link).
         * `status` is 0, -ENOENT (no such tool), -EINVAL (arguments are not a JSON object), -ECANCELED; when it is
         * not 0, `result` is empty and `err` says why. */
        void (*done)(void *data, int status, struct sbx_bytes result, const struct sbx_error *err);
};

struct sbx_tool_task; /* a submitted tool call; belongs to the caller until tool_release */

/* Services of the host, valid from open() until close() returns. `self` is the first argument of every function.
 * Any thread may call any of them, except where said. */
struct sbx_host {
        uint32_t struct_size;
        uint32_t abi_major, abi_minor;
        uint32_t reserved;
        struct sbx_host_state *self;
        const char *instance_name; /* as the configuration names it */
        const char *version;       /* of the host program, "2.2.7" style */

        void (*log)(struct sbx_host_state *self, int level, const char *message);

        /* Options, already validated; the name must be in the plugin's table. A string lives until close(). */
        int (*option_bool)(struct sbx_host_state *self, const char *name);
        int64_t (*option_int)(struct sbx_host_state *self, const char *name); /* INT, SIZE (bytes), DURATION (ms) */
        double (*option_float)(struct sbx_host_state *self, const char *name);
        const char *(*option_string)(struct sbx_host_state *self, const char *name); /* NULL when unset */
        size_t (*option_count)(struct sbx_host_state *self, const char *name);       /* STRINGS */
        const char *(*option_item)(struct sbx_host_state *self, const char *name, size_t index);

        uint64_t (*clock_ns)(struct sbx_host_state *self); /* CLOCK_MONOTONIC */

        /* -EFBIG when the output would pass its maximum, -ENOMEM. */
        int (*output_append)(struct sbx_host_state *self, struct sbx_output *output, const void *data, size_t size);

        /* Directories of the installation: "libexec" (helper programs), "guests" (guest workers), "plugins",
         * "state" (writable, created 0700 on first use), "runtime" (writable, per boot), "project" (what the program
         * works on; since ABI 1.1), "data" (read-only files that the plugin installed; since ABI 1.1). Lives until
         * close(). NULL: unknown name, or it can't be made (the log says why). */
        const char *(*directory)(struct sbx_host_state *self, const char *name);

        /* The tool registry: what transports, agents and guests call.
         * tool_list: a JSON array of {name, title, description, inputSchema, annotations}, always in the same
         * order. tool_submit: queues a call of `name` with the JSON object `arguments`; `events` is copied.
         * `principal` names who asks ("" for the local user); sessions belong to it. tool_cancel asks the call
         * to end; `done` still comes. tool_release frees the task; it may be called from `done`. */
        int (*tool_list)(struct sbx_host_state *self, struct sbx_output *ret_json, struct sbx_error *err);
        int (*tool_submit)(struct sbx_host_state *self, const char *name, struct sbx_bytes arguments,
                           const char *principal, const struct sbx_tool_events *events, struct sbx_tool_task **ret_task,
                           struct sbx_error *err);
        void (*tool_cancel)(struct sbx_host_state *self, struct sbx_tool_task *task);
        void (*tool_release)(struct sbx_host_state *self, struct sbx_tool_task *task);

        /* An output of the plugin's own, for the services that fill one (tool_list). -ENOMEM. output_bytes: what was
         * appended so far, valid until the next append or output_free; NULL is fine for output_free. One thread at a
         * time for each output. */
        int (*output_new)(struct sbx_host_state *self, size_t max_bytes, struct sbx_output **ret_output);
        struct sbx_bytes (*output_bytes)(struct sbx_host_state *self, const struct sbx_output *output);
        void (*output_free)(struct sbx_host_state *self, struct sbx_output *output);

        /* Since ABI 1.1.
         * setting: a setting of the core that concerns plugins of this kind, as text ("30", "true"); NULL: unset, or
         * not for this kind (docs/plugin-abi.md lists them; secrets among them: never log or hand them on).
         * environment: a variable of the process's environment, else of the project's .env; NULL: in neither, empty, or
         * the program was told to ignore both. Both live until close(). */
        const char *(*setting)(struct sbx_host_state *self, const char *name);
        const char *(*environment)(struct sbx_host_state *self, const char *name);

        /* Since ABI 1.2; see request.h.
         * list: what can be asked for (enum sbx_list). request_submit: queues a request; `client` (NULL: nobody to talk
         * to) and `done` are copied; the task is cancelled and released with tool_cancel and tool_release. */
        int (*list)(struct sbx_host_state *self, int list, struct sbx_output *ret_json, struct sbx_error *err);
        int (*request_submit)(struct sbx_host_state *self, const struct sbx_request *request,
                              const struct sbx_client *client, const struct sbx_request_done *done,
                              struct sbx_tool_task **ret_task, struct sbx_error *err);
        /* Tells that something changed: for context sources, whose lists are asked anew, and for transports' own use.
         * watch: `changed` is called for each change from then on, by any thread, and must not block; unwatch returns
         * when no call of it is under way. NULL is fine for unwatch. */
        void (*changed)(struct sbx_host_state *self, const struct sbx_change *change);
        int (*watch)(struct sbx_host_state *self, void (*changed)(void *data, const struct sbx_change *change),
                     void *data, struct sbx_watch **ret_watch, struct sbx_error *err);
        void (*unwatch)(struct sbx_host_state *self, struct sbx_watch *watch);
        /* Figures of the core in the Prometheus text format, version 0.0.4 (docs/metrics.md). ready: 0 when code can be
         * executed without waiting for a start; -EAGAIN: not yet; else why it can't (as sbx_backend_ops.guest_start).
         */
        int (*metrics)(struct sbx_host_state *self, struct sbx_output *ret_text, struct sbx_error *err);
        int (*ready)(struct sbx_host_state *self, struct sbx_error *err);
};

/* ---- descriptor ---------------------------------------------------------------------------------------- */

/* One line of what probe() found out by doing. */
enum sbx_probe_status { SBX_PROBE_OK = 0, SBX_PROBE_WARNING = 1, SBX_PROBE_FAILED = 2 };
struct sbx_probe_events {
        uint32_t struct_size;
        uint32_t reserved;
        void *data;
        /* `subject`: what was tried ("user namespace"); `detail`: what came of it; `remedy`: what to type, NULL if
         * nothing is wrong. */
        void (*report)(void *data, int status, const char *subject, const char *detail, const char *remedy);
};

struct sbx_plugin {
        uint32_t struct_size;
        uint32_t abi_major, abi_minor; /* SBX_ABI_MAJOR, SBX_ABI_MINOR of the headers it was built with */
        uint32_t kind;                 /* enum sbx_plugin_kind */
        const char *name;              /* "backend-local": the file is name.so; [a-z0-9-], at most 63 bytes */
        const char *version;
        const char *summary; /* one line */
        const char *license; /* SPDX */
        const struct sbx_option *options;
        const void *ops; /* the kind's ops struct */

        int (*open)(const struct sbx_host *host, void **ret_instance, struct sbx_error *err);
        int (*start)(void *instance, const struct sbx_call *call, struct sbx_error *err); /* may be NULL */
        void (*stop)(void *instance);                                                     /* may be NULL */
        void (*close)(void *instance);
        /* A real check for `doctor`, on an opened instance that was not started. May be NULL. 0, or the first
         * failure's negative errno. */
        int (*probe)(void *instance, const struct sbx_probe_events *events, const struct sbx_call *call);
};

/* Never NULL; the same pointer at every call. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const struct sbx_plugin *
sbx_plugin_entry_v1(void);

#define SBX_PLUGIN_ENTRY_SYMBOL "sbx_plugin_entry_v1"

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of clients, and what whoever answers one may ask of that client meanwhile. Since ABI 1.2.
 *
 * A transport submits a request through sbx_host.request_submit, with a `struct sbx_client` of its own: the way back to
 * who asked. The host runs it on one of its threads and, where a plugin answers it (a context source, context.h), hands
 * on a `struct sbx_client` that leads there. So one shape crosses the ABI in both directions, and neither side knows
 * the protocol or the plugin on the other.
 *
 * Who answers just blocks: `ask` returns when the client has answered, whatever that took (a request on an open
 * connection, or a result that says "input required" and a second request that brings the input).
 */
#ifndef SNIPARA_SANDBOX_REQUEST_H
#define SNIPARA_SANDBOX_REQUEST_H

#include <snipara-sandbox/types.h>

#ifdef __cplusplus
extern "C" {
#endif

enum sbx_request_kind {
        /* name: of the tool; arguments: its arguments. Result: {"content": [blocks], "isError": bool, "_meta": {}}, see
         * sbx_tool_events.done. */
        SBX_REQUEST_TOOL = 1,
        /* Result: {"resources": [{uri, name, title, description, mimeType, size, icons, annotations}]}, all of them,
         * sorted by uri. */
        SBX_REQUEST_RESOURCES = 2,
        /* name: the URI. Result: {"contents": [{uri, mimeType, text | blob (base64)}]}, never empty. -ENOENT. */
        SBX_REQUEST_READ = 3,
        /* name: of the prompt; arguments: {name: string}. Result: {"description", "messages": [{role, content}]}.
         * -ENOENT; -EINVAL: an argument is missing or unknown. */
        SBX_REQUEST_PROMPT = 4,
        /* arguments: {"ref": {"type": "ref/prompt", "name"} | {"type": "ref/resource", "uri"}, "argument": {"name",
         * "value"}, "context": {"arguments": {}}}. Result: {"completion": {"values": [at most 100], "total",
         * "hasMore"}}. An unknown prompt, template or argument has no values. */
        SBX_REQUEST_COMPLETION = 5,
};

/* Lists that stand without asking anybody: sbx_host.list. Each a JSON array, always in the same order. */
enum sbx_list {
        SBX_LIST_TOOLS = 1,   /* {name, title, description, inputSchema, annotations, icons, execution, _meta}; a tool
                               * that may become a task has execution.taskSupport "optional" or "required" */
        SBX_LIST_PROMPTS = 2, /* {name, title, description, arguments: [{name, title, description, required}], icons} */
        SBX_LIST_TEMPLATES = 3, /* {uriTemplate (RFC 6570), name, title, description, mimeType, icons} */
};

struct sbx_request {
        uint32_t struct_size;
        uint32_t kind; /* enum sbx_request_kind */
        const char *name;
        struct sbx_bytes arguments; /* a JSON object; empty: {} */
        const char *principal;      /* who asks: "" is the local user; sessions and runs belong to it */
};

/* What the client can do for us: bits of sbx_client.capabilities. */
#define SBX_CLIENT_SAMPLING (1u << 0)        /* "sampling/createMessage": asks a model of its own */
#define SBX_CLIENT_SAMPLING_TOOLS (1u << 1)  /* ... with tools */
#define SBX_CLIENT_ELICITATION (1u << 2)     /* "elicitation/create" with a form: asks its user */
#define SBX_CLIENT_ELICITATION_URL (1u << 3) /* ... by opening an address */
#define SBX_CLIENT_ROOTS (1u << 4)           /* "roots/list" */
#define SBX_CLIENT_TASKS (1u << 5)           /* takes a task in the place of a result */

/* The client of one request. Valid until the request is done; copied by request_submit. Any function may be NULL, then
 * the client takes no part in it. They are called by the thread that answers, one at a time; `progress` also by another
 * thread meanwhile, because long requests have a heartbeat, but never by two at once. */
struct sbx_client {
        uint32_t struct_size;
        uint32_t capabilities; /* SBX_CLIENT_* bits */
        void *data;
        /* `progress` rises; `total` 0: unknown; `message` may be NULL. */
        void (*progress)(void *data, double progress, double total, const char *message);
        /* A line for the client's log: `level` is one of RFC 5424's words ("debug" ... "emergency"), `value` any JSON.
         */
        void (*log)(void *data, const char *level, const char *logger, struct sbx_bytes value);
        /* Asks the client: `requests` is {key: {"method", "params"}}, at most 16; `ret_responses` gets {key: result},
         * one for each. Waits until they are all there. The keys are the caller's, and unique within the request: an
         * answer that the client gave before under the same key is used. -ENOTSUP: the client can't do one of them, or
         * can't be asked any more; -EACCES: it refused (the message says what it said); -ECANCELED; -ETIMEDOUT; -EBUSY:
         * too many requests wait for input. */
        int (*ask)(void *data, struct sbx_bytes requests, const struct sbx_call *call, struct sbx_output *ret_responses,
                   struct sbx_error *err);
        /* This will take long: the client need not wait. 1: from now on the request is a task that the client looks
         * after; 0: it can't be, and the client waits. Tools only; called at most once. */
        int (*become_task)(void *data);
        /* Ends the stream that the answer would come on, without ending the request: the client comes back for it after
         * `retry_ms`. Nothing happens where a client could not do that. */
        void (*close_stream)(void *data, uint32_t retry_ms);
};

/* The end of a request. Called exactly once, from a thread of the host. `status` 0: `result` is the JSON object of its
 * kind. Else `err` says why: -ENOENT (no such tool, resource, prompt), -EINVAL (what was asked makes no sense), -EPROTO
 * (who answers says that it is an error of the protocol, not a result), -ECANCELED, -EBUSY, or what went wrong inside.
 */
struct sbx_request_done {
        void *data;
        void (*done)(void *data, int status, struct sbx_bytes result, const struct sbx_error *err);
};

/* What may have changed: sbx_host.changed tells it, sbx_host.watch hears of it. */
enum sbx_change_kind {
        SBX_CHANGE_TOOLS = 1,     /* the list of tools */
        SBX_CHANGE_PROMPTS = 2,   /* the list of prompts */
        SBX_CHANGE_RESOURCES = 3, /* the list of resources, or of templates */
        SBX_CHANGE_RESOURCE =
                4, /* what reading `uri` gives; one that ends with '/' stands for all that begin with it */
};
struct sbx_change {
        uint32_t struct_size;
        uint32_t kind;         /* enum sbx_change_kind */
        const char *uri;       /* SBX_CHANGE_RESOURCE only */
        const char *principal; /* whom it concerns; NULL: everybody */
};

struct sbx_watch; /* made by sbx_host.watch */

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* A container engine: finding it, asking it, streams to it. Docker's Engine API, which Podman serves as well:
 * https://docs.docker.com/engine/api/v1.41/ . Thread-safe but for engine_new and engine_free. What an engine answers is
 * bounded and checked like anything from outside; it is trusted in one thing: that it isolates as it was told. */
#ifndef DOCKER_ENGINE_H
#define DOCKER_ENGINE_H

#include <stdbool.h>

#include <jansson.h>
#include <snipara-sandbox/plugin.h>

#include "options.h"

#define ENGINE_API_MIN "1.40" /* Docker 19.03; below it an error says which version is needed */
#define ENGINE_API_MAX                                                                                                 \
        "1.41" /* Docker 20.10, Podman 4: what this plugin was written for. An engine whose oldest is newer is asked   \
                  with that */
#define ENGINE_PLACE_MAX 256
#define ENGINE_HINT_INSTALL                                                                                            \
        "Install one and start it (Debian: sudo apt install podman, then systemctl --user start podman.socket; or "    \
        "docker.io), or set the option engine or DOCKER_HOST."

struct engine;

/* Where an engine may be. */
struct engine_place {
        char address[ENGINE_PLACE_MAX]; /* "unix:///run/podman/podman.sock", "tcp://host:2376" */
        char found_by[64];              /* "DOCKER_HOST", "option engine", "rootless Podman", ... */
        bool tls;
        bool chosen; /* by the configuration or the environment; else found by looking */
};
/* Places to try, in order: the option, DOCKER_HOST or CONTAINER_HOST alone if set, else sockets of Docker, rootless
 * Docker, Podman, rootless Podman. At most `max`; returns how many. ssh:// and others: -ENOTSUP. */
int engine_places(const struct sbx_host *host, const struct docker_options *options, struct engine_place *ret_places,
                  size_t max, struct sbx_error *err);
/* Is somebody there? 0, -ENOENT (no socket), -EACCES, -EPERM (a socket that was found, of another user), -ECONNREFUSED,
 * -ETIMEDOUT, -EPROTO (no engine; too old): the error has the place, why, and what to type. */
int engine_place_try(const struct sbx_host *host, const struct docker_options *options,
                     const struct engine_place *place, const struct sbx_call *call, struct sbx_error *err);

/* What the engine says of itself. */
struct engine_info {
        struct engine_place place;
        char name[32];        /* "docker", "podman" */
        char version[64];     /* "20.10.24+dfsg1" */
        char api_version[16]; /* that requests use */
        char os[32], architecture[32];
        char storage_driver[32];
        char default_runtime[64];
        char seccomp[64];       /* of the engine: "default", a profile's name; "": it has none */
        int cgroup_version;     /* 1, 2; 0: unknown */
        bool rootless, userns;  /* the engine maps ids of containers to others */
        bool local;             /* reached over a Unix socket: paths of this host mean the same to it */
        bool disk_quota;        /* the storage driver takes a size for a container's own layer */
        bool init;              /* it has an init program (docker-init, catatonit) */
        bool memory_swap, pids; /* the kernel has what the limits need */
};

/* Finds an engine that answers and negotiates the version. The error names every place tried. */
int engine_new(const struct sbx_host *host, const struct docker_options *options, const struct sbx_call *call,
               struct engine **ret_engine, struct sbx_error *err);
/* The same for who only asks: what it says of itself stays unknown, but for name and versions. `version`: of the API,
 * as somebody settled it before; nothing is asked then, so this does not tell whether an engine is there. NULL: ask. */
int engine_reach(const struct sbx_host *host, const struct docker_options *options, const char *version,
                 const struct sbx_call *call, struct engine **ret_engine, struct sbx_error *err);
void engine_free(struct engine *engine); /* NULL is fine; no request or stream may be left */
const struct engine_info *engine_info(const struct engine *engine);

struct engine_request {
        const char *method;       /* "GET", "POST", "DELETE" */
        const char *path;         /* below the version: "/containers/json?all=1"; already escaped (engine_escape) */
        const json_t *json;       /* body; NULL: none */
        const char *content_type; /* of `body`; NULL with json */
        struct sbx_bytes body;
        const char *header;      /* one more: "X-Registry-Auth: ..."; never in an error or a log */
        uint64_t timeout_ms;     /* 0: the option `timeout`; UINT64_MAX: the call's own deadline alone */
        size_t answer_max_bytes; /* 0: 4 MiB */
        /* NULL: the answer is one JSON value, or nothing. Else called with each JSON value of a stream of them (pull,
         * build) as it comes, by the thread that asks; negative ends the request with that code. */
        int (*item)(void *data, const json_t *item);
        void *data;
};
/* `ret_answer` (may be NULL): the JSON, NULL for none; the caller's. An answer of 4xx or 5xx is an error with the
 * engine's own message: -EINVAL (400), -EACCES (401, 403), -ENOENT (404), -EBUSY (409), -EIO (5xx); 304 is 0. Else
 * -EACCES, -ECONNREFUSED (socket; also when it is not there any more), -ECONNRESET, -ETIMEDOUT, -ECANCELED, -EPROTO,
 * -EFBIG. Every error has a hint. */
int engine_ask(struct engine *engine, const struct engine_request *request, const struct sbx_call *call,
               json_t **ret_answer, struct sbx_error *err);
/* %XX for all but unreserved characters, appended to what `text` holds. Returns -ENAMETOOLONG. */
int engine_escape(char *text, size_t size, const char *part);

/* A hijacked connection (attach, exec start): bytes both ways, non-blocking. Used by one thread at a time. */
struct engine_stream;
int engine_stream_open(struct engine *engine, const char *method, const char *path, const json_t *body,
                       const struct sbx_call *call, struct engine_stream **ret_stream, struct sbx_error *err);
void engine_stream_free(struct engine_stream *stream); /* closes it; NULL is fine */
/* To poll. Bytes may wait inside although it is not readable: right after opening, and whenever it was readable,
 * receive until -EAGAIN. */
int engine_stream_fd(const struct engine_stream *stream);
/* Bytes moved; 0 from receive: the end; -EAGAIN; -ECONNRESET, -EPIPE. After -EAGAIN of send, the next send begins with
 * the same bytes and has at least as many. */
ssize_t engine_stream_send(struct engine_stream *stream, const void *data, size_t size);
ssize_t engine_stream_receive(struct engine_stream *stream, void *data, size_t size);

#endif

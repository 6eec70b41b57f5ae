/* SPDX-License-Identifier: Apache-2.0 */
/* One instance of this plugin, and what its parts offer each other. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <snipara-sandbox/backend.h>

#include "cgroup.h"
#include "interpreter.h"
#include "options.h"
#include "protocol.h"
#include "scratch.h"

struct zygote_process;

#define VERSION_MAX 32 /* "22.11.0" */

struct local {
        struct sbx_host host;
        struct local_options options;
        bool drop; /* the server is root: guests run as options.user */
        uid_t uid; /* of guests, in the server's numbering */
        gid_t gid;

        struct interpreter interpreter;
        struct sbx_cgroup_manager *cgroups; /* from start to stop */
        bool memory_counted, pids_counted;  /* by a cgroup; else resource limits are all there is */
        atomic_ullong next_id;

        pthread_mutex_t versions_lock; /* protects `versions`, and is held while one is asked for */
        char versions[LOCAL_RUNTIME_COUNT][VERSION_MAX];

        pthread_mutex_t images_lock; /* protects `last_image` and what process_image.h says */
        uint64_t last_image;

        pthread_mutex_t lock;          /* protects `zygote` and `started` */
        struct zygote_process *zygote; /* the current one; NULL: to be started at the next request */
        bool started;
};

static inline void local_log(const struct local *local, int level, const char *message) {
        if (local->host.log != NULL)
                local->host.log(local->host.self, level, message);
}

/* ---- plugin.c */

int local_start(void *instance, const struct sbx_call *call, struct sbx_error *err);
void local_stop(void *instance);

/* ---- identity.c */

/* Sets drop, uid and gid. -ENOTSUP. */
int identity_find(struct local *local, struct sbx_error *err);

/* ---- guest.c: the backend's operations; any thread. See backend.h. */

extern const struct sbx_backend_ops local_ops;
int local_guest_start(void *instance, const struct sbx_guest_spec *spec, const struct sbx_call *call,
                      struct sbx_guest *ret_guest, struct sbx_error *err);
void local_guest_kill(void *instance, void *handle);
int local_guest_usage(void *instance, void *handle, struct sbx_guest_usage *ret_usage, struct sbx_error *err);
void local_guest_close(void *instance, void *handle);

/* ---- runtimes.c: what sessions can be of */

/* Which one `runtime` and `version` of a guest's specification mean. -ENOENT: tells which there are. */
int runtime_find(struct local *local, const char *runtime, const char *version, const struct sbx_call *call,
                 enum local_runtime *ret_runtime, struct sbx_error *err);
/* NULL: this machine has none. */
const char *runtime_program(const struct interpreter *interpreter, enum local_runtime runtime);
/* What a program answers to --version, the number alone. -EIO when it does not. */
int runtime_ask_version(const char *program, const struct sbx_call *call, char ret_version[VERSION_MAX]);

/* ---- zygote.c: the server's side of a zygote; any thread */

/* The running zygote, started if need be, ready to serve; a reference, to be given back with zygote_unref. */
int zygote_get(struct local *local, const struct sbx_call *call, struct zygote_process **ret, struct sbx_error *err);
/* Starts one, unless one runs. When it returns its namespaces exist; the interpreter still starts. */
int zygote_launch(struct local *local, const struct sbx_call *call, struct sbx_error *err);
/* The current one ends, and with it all its guests. Returns when it is dead. */
void zygote_shut_down(struct local *local);
struct zygote_process *zygote_ref(struct zygote_process *zygote);
void zygote_unref(struct zygote_process *zygote);

/* `fds`: as protocol.h says; they stay the caller's. -EPIPE: the zygote is dead, and no guest came of it. */
int zygote_spawn(struct zygote_process *zygote, const struct zygote_request *request, const int *fds, int fd_count,
                 const struct sbx_call *call, int *ret_pidfd, struct sbx_error *err);
/* How a dead guest ended: 0..255, -signal, INT32_MIN when unknown. `reap`: also kills what it left behind. */
int zygote_exit_code(struct zygote_process *zygote, uint64_t id, bool reap);
void zygote_release(struct zygote_process *zygote, uint64_t id);

/* ---- limits.c */

/* Looks what the cgroups of a started instance can limit. */
void limits_find(struct local *local);
/* What was asked for, else the configured values; never beyond the configured maximum. */
struct cgroup_limits limits_for_spec(const struct local *local, const struct sbx_limits *asked);
/* Changes those of `limits` that are asked for (not 0): what a cgroup limits, in `limits` alone. -ENOTSUP: without a
 * cgroup, memory can't be raised. */
int limits_change(const struct local *local, pid_t pid, struct cgroup_limits *limits, const struct sbx_limits *asked);

/* ---- wait.c */

/* Until `fd` has one of `events` or `call` ends, `limit_ms` at most (-1: no limit of its own).
 * 0, -ETIMEDOUT, -ECANCELED, -errno. `call` may be NULL. */
int wait_fd(int fd, short events, const struct sbx_call *call, int limit_ms);
/* 0 while the call goes on, -ECANCELED, -ETIMEDOUT. */
int call_state(const struct sbx_call *call);

/* ---- report.c: from the guest's lines to the JSON of the isolation report */

struct report_builder {
        char *text;
        size_t size, capacity;
        int error;
        unsigned layers;
};
void report_begin(struct report_builder *builder, const char *isolation);
void report_layer(struct report_builder *builder, const char *name, const char *state, const char *detail);
/* The lines that a guest sent, in place. 0: it is ready; else why it is not. */
int report_parse(struct report_builder *builder, char *lines, struct sbx_error *err);
/* Ends it. The string is freed with free(). NULL: -ENOMEM. */
char *report_end(struct report_builder *builder);

/* ---- scratch.c; scratch.h has the removal */

int scratch_create(const struct local *local, uint64_t id, char ret_path[ZYGOTE_SCRATCH_MAX], struct sbx_error *err);

/* ---- probe.c */

int probe_local(void *instance, const struct sbx_probe_events *events, const struct sbx_call *call);

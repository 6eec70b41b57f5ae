/* SPDX-License-Identifier: Apache-2.0 */
/* Backend plugins: isolation only.
 *
 * A backend starts a guest (an isolated process or instance that runs one session's interpreter) and hands back
 * descriptors; the core speaks the guest protocol over them (docs/guest-protocol.md). It interrupts, limits,
 * measures and kills guests; it knows nothing of sessions, code or results.
 *
 * Threads: calls on different guests run in parallel; guest_interrupt, guest_kill and guest_usage may run while
 * another thread waits for the same guest's descriptors; guest_close is the last call on a guest and runs alone.
 */
#ifndef SNIPARA_SANDBOX_BACKEND_H
#define SNIPARA_SANDBOX_BACKEND_H

#include <snipara-sandbox/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Limits of a guest. 0 means the backend's configured value. */
struct sbx_limits {
        uint32_t struct_size;
        uint32_t pids_max;     /* processes and threads together */
        uint64_t memory_bytes; /* of all its processes, without swap */
        uint32_t cpu_percent;  /* 100 is one CPU */
        uint32_t reserved;
};

struct sbx_guest_spec {
        uint32_t struct_size;
        uint32_t reserved;
        const char *label;           /* for names of cgroups and containers, and for logs: [A-Za-z0-9_.-] */
        const char *runtime;         /* "python", "node", "bash", or a name of the backend's configuration */
        const char *runtime_version; /* "3.12", "20"; NULL: the backend's default */
        struct sbx_limits limits;
        /* Since ABI 1.3. Whose session it is, for backends that give an owner one guest environment for all of his
         * sessions: UTF-8 of at most 256 bytes, compared byte by byte, never shown to another; "": the local user.
         * NULL: nobody's yet, a guest that is made ahead of demand; a backend that has to know answers -ENODATA, and is
         * asked no more for such. */
        const char *owner;
        /* Since ABI 1.4. */
        uint32_t flags; /* SBX_GUEST_* bits */
        uint32_t reserved_1_4;
};

/* guest_fork: the copy is there to take the place of its original, or of another copy, once that has ended; it is asked
 * for nothing while one of them runs. A backend may make such a copy cheaper. Without it both may run side by side. */
#define SBX_GUEST_FROZEN (1u << 0)

/* A started guest. The host fills `struct_size`; the backend fills the rest. The descriptors belong to the host,
 * which closes them before guest_close. The backend sets O_CLOEXEC on them. */
struct sbx_guest {
        uint32_t struct_size;
        int32_t control_fd; /* a stream of protocol frames, both ways; the host makes it non-blocking */
        int32_t stdout_fd;  /* the guest's fd 1, read by the host; -1: the worker frames its output */
        int32_t stderr_fd;  /* likewise fd 2 */
        int32_t exit_fd;    /* can be polled, readable once the guest is dead (a pidfd, or an epoll of the one that the
                             * guest is at the time); -1: end of file on control_fd tells */
        int32_t reserved;
        void *handle; /* the backend's own */
        /* Isolation report: a JSON object of what was applied, never of what was asked for. The backend owns it;
         * it lives until guest_close. Shape: {"backend","isolation","layers":[{"name","state","detail"}]};
         * docs/isolation-report.md. */
        struct sbx_bytes report;
};

struct sbx_guest_usage {
        uint32_t struct_size;
        uint32_t oom_killed;        /* 1: the memory limit killed a process of the guest since it started */
        uint64_t cpu_ns;            /* user + system, all processes, since start */
        uint64_t memory_peak_bytes; /* since start; 0: unknown */
        uint64_t memory_bytes;      /* now; 0: unknown */
        uint32_t pids;              /* now; 0: unknown */
        int32_t exit_code;          /* of the dead guest: 0..255, -N: killed by signal N, INT32_MIN: alive/unknown */
};

#define SBX_BACKEND_FORK (1u << 0)    /* guest_fork works */
#define SBX_BACKEND_SAVE (1u << 1)    /* guest_save and guest_restore work, byte for byte */
#define SBX_BACKEND_PREPARE (1u << 2) /* prepare works */
#define SBX_BACKEND_NETWORK (1u << 3) /* guests can reach a network as configured */
#define SBX_BACKEND_SUBPROCESS (1u << 4) /* guests can start processes */
#define SBX_BACKEND_THREADS (1u << 5)    /* guests can start threads */

struct sbx_backend_ops {
        uint32_t struct_size;
        uint32_t features; /* SBX_BACKEND_* bits; what is not set is declared unsupported, not an error */

        /* Starts a guest; its worker waits for `hello`. Errors: -ENOTSUP (a required layer can't be had: the error
         * names it), -ENOENT (no such runtime), -EAGAIN (out of resources), -ETIMEDOUT, -ECANCELED. */
        int (*guest_start)(void *instance, const struct sbx_guest_spec *spec, const struct sbx_call *call,
                           struct sbx_guest *ret_guest, struct sbx_error *err);
        /* Asks the running code to stop, as Ctrl-C does; returns at once. -ESRCH: dead already. */
        int (*guest_interrupt)(void *instance, void *handle, struct sbx_error *err);
        /* Changes limits of a running guest; 0 members stay. NULL: the backend can't. */
        int (*guest_limit)(void *instance, void *handle, const struct sbx_limits *limits, struct sbx_error *err);
        /* Kills every process of the guest. Returns when they are dead; idempotent. */
        void (*guest_kill)(void *instance, void *handle);
        int (*guest_usage)(void *instance, void *handle, struct sbx_guest_usage *ret_usage, struct sbx_error *err);
        /* Kills if needed, and removes everything of the guest: mounts, cgroups, files. */
        void (*guest_close)(void *instance, void *handle);

        /* Optional, by feature bit.
         * guest_fork: another guest that has the state of this one, which is idle and goes on as it was: memory, files and
         * all; what one of them does from now on, the other does not see. -EBUSY: this guest can't be copied as it is now
         * (threads, child processes, open sockets: the error says which); it goes on. -ENOTSUP: this backend can make
         * copies with SBX_GUEST_FROZEN alone, and this is none. */
        int (*guest_fork)(void *instance, void *handle, const struct sbx_guest_spec *spec,
                          const struct sbx_call *call, struct sbx_guest *ret_guest, struct sbx_error *err);
        int (*guest_save)(void *instance, void *handle, const struct sbx_call *call, struct sbx_output *ret_state,
                          struct sbx_error *err);
        int (*guest_restore)(void *instance, const struct sbx_guest_spec *spec, struct sbx_bytes state,
                             const struct sbx_call *call, struct sbx_guest *ret_guest, struct sbx_error *err);
        /* Brings all images that guests are made of, pulled or built, and returns when they are there; what is there
         * already costs nothing. Tells its progress. */
        int (*prepare)(void *instance, const struct sbx_call *call, struct sbx_error *err);

        /* Since ABI 1.3; NULL: the backend has no images.
         * images: [{"id", "name", "runtime", "size", "created", "prepared": bool, "in_use": bool}], those that the
         * configuration names (present or not: size null) and those that prepare built. images_prune: removes those
         * that prepare built and that the configuration does not ask for any more, with {"removed": [names], "bytes"}.
         */
        int (*images)(void *instance, const struct sbx_call *call, struct sbx_output *ret_json, struct sbx_error *err);
        int (*images_prune)(void *instance, const struct sbx_call *call, struct sbx_output *ret_json,
                            struct sbx_error *err);
};

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between the server (the plugin) and its helper processes: AF_UNIX SOCK_SEQPACKET, one struct each,
 * descriptors by SCM_RIGHTS, native byte order (both ends are built together).
 *
 * Two kinds of sockets: the zygote's (ZYGOTE_*), and one for each session, its command socket (COMMAND_*), which the
 * session looks at while no request is under way. What a session sends may come from code that has broken out of its
 * sandbox: the server bounds and checks it, and believes it about that session alone. */
#pragma once

#include <stdint.h>

#include <snipara-sandbox/types.h>

/* `sbx-wasm zygote` is the helper program. Its descriptors at its start; 0: /dev/null, 1 and 2: where what it prints by
 * mistake goes. It ends when its socket is closed; whatever ends it ends every session. With namespaces, the process
 * that was started only waits for the zygote, process 1 of the pid namespace; killing either ends all. */
#define HELPER_SOCKET_FD 3
#define HELPER_IMAGE_FD 4  /* expanded image, read-only */
#define HELPER_CODE_FD 5   /* the guest's native code: loaded through /proc/self/fd before anything is given up */
#define HELPER_CONFIG_FD 6 /* memfd: struct helper_config, read from its start */

struct helper_config {
        uint32_t struct_size;
        uint32_t drop; /* 1: become uid, gid first (the server is root) */
        uint32_t uid, gid;
        uint32_t namespaces; /* 0 off, 1 if they can be had, 2 required */
        uint32_t sessions_max;
        uint64_t memory_max; /* bytes of linear memory beyond the image's */
        uint64_t files_max;  /* bytes */
        uint32_t file_entries_max, open_files_max;
        uint64_t snapshot_max; /* bytes */
        uint32_t cpu_seconds;  /* of a session in all: 0 none */
        uint32_t reserved;
};

enum zygote_message_type {
        /* to the zygote; SPAWN may be sent before READY has come */
        ZYGOTE_SPAWN = 1,   /* + control, command, status page [, snapshot to restore]; answer: SPAWNED or FAILED. A
                               session that   restores sends a COMMAND_REPLY with its `id` when it has taken the snapshot
                               in, or has   failed to and ends. */
        ZYGOTE_RELEASE = 2, /* the server is done with a session: it is killed if it lives, and forgotten; no answer */
        ZYGOTE_STATUS = 3,  /* answer: ZYGOTE_EXITED, also of one that lives */
        ZYGOTE_PERMIT = 4,  /* session `id` may make one copy; before COMMAND_FORK. Answer: PERMITTED or FAILED */
        ZYGOTE_ADOPT = 5,   /* the copy that COMMAND_FORK made of session `parent` becomes session `id`; `pid`: the one
                               that the parent told, or 0 if it made none. Answer: as for SPAWN; only a process of the
                               parent's is taken. Ends what PERMIT allowed. Until then the copy dies with its parent. */
        /* to the server */
        ZYGOTE_READY = 16, /* jailed, requests are read. + a memfd: the report's layers but "memory" and "files", which
                              can differ from session to session: a JSON array, read from its start */
        ZYGOTE_SPAWNED = 17, /* + pidfd; `pid` */
        ZYGOTE_FAILED = 18,  /* `code`: negative errno; `text`, `hint`; before READY: the zygote ends */
        ZYGOTE_EXITED = 19,  /* `code`: 0..255, or -signal; INT32_MIN: unknown, or it lives; `cpu_ns` if it is dead */
        ZYGOTE_PERMITTED = 20,
};

/* A session whose guest trapped exits with this and the enum wasm_trap added to it; one that ended itself, with its
 * code. */
#define HELPER_EXIT_TRAP 128

#define SPAWN_FDS 3
#define HELPER_FDS_MAX 8

struct zygote_message {
        uint32_t type;
        int32_t code;
        uint64_t id;     /* of the session; the server counts, and uses none twice */
        uint64_t parent; /* ADOPT */
        uint64_t cpu_ns; /* EXITED: user and system */
        int32_t pid;     /* in the zygote's pid namespace; "Pid" in the pidfd's fdinfo is the server's own number */
        uint32_t reserved;
        char text[512];
        char hint[256];
};

enum command_type {
        COMMAND_FORK = 1,   /* + control, command, status page of the copy `id`; answer: `pid`, for ADOPT */
        COMMAND_SAVE = 2,   /* + an empty memfd to write to; answer: `size` */
        COMMAND_REPLY = 16, /* `id`: the command's; `code`: 0 or negative errno, with `text` */
};

/* A session can't make processes: its RLIMIT_NPROC is 0, but between ZYGOTE_PERMIT and ZYGOTE_ADOPT. */
struct command_message {
        uint32_t type;
        int32_t code;
        uint64_t id;
        uint64_t size;
        int32_t pid;
        uint32_t reserved;
        char text[256];
};

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

/* Descriptors of the helper program at its start. */
#define HELPER_SOCKET_FD 3
#define HELPER_IMAGE_FD 4  /* expanded image, read-only */
#define HELPER_CODE_FD 5   /* the guest's native code: loaded through /proc/self/fd before anything is given up */
#define HELPER_CONFIG_FD 6 /* memfd: struct helper_config */

struct helper_config {
        uint32_t struct_size;
        uint32_t drop;    /* 1: become uid, gid first (the server is root) */
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
        /* to the zygote */
        ZYGOTE_SPAWN = 1,   /* + control, stdout, stderr, command, status page [, snapshot to restore] */
        ZYGOTE_RELEASE = 2, /* the server is done with a dead session; no answer */
        ZYGOTE_STATUS = 3,  /* of a dead session; answer: ZYGOTE_EXITED */
        /* `pid`, as a session said it, is the copy with this `id`: if it is a child of the zygote that has no id yet, the
         * answer is ZYGOTE_SPAWNED, else ZYGOTE_FAILED. */
        ZYGOTE_ADOPT = 4,
        /* to the server */
        ZYGOTE_READY = 16,   /* jailed, requests are read; `text`: the report's layers (JSON array) in a memfd, 1 fd */
        ZYGOTE_SPAWNED = 17, /* + pidfd; `pid` */
        ZYGOTE_FAILED = 18,  /* `code`: negative errno; `text`, `hint` */
        ZYGOTE_EXITED = 19,  /* `code`: 0..255, or -signal; INT32_MIN: unknown */
};

#define SPAWN_FDS 5
#define HELPER_FDS_MAX 8

struct zygote_message {
        uint32_t type;
        int32_t code;
        uint64_t id; /* of the session; the server counts */
        uint64_t memory_max;
        int32_t pid;
        uint32_t reserved;
        char text[512];
        char hint[256];
};

enum command_type {
        COMMAND_FORK = 1, /* + control, stdout, stderr, command, status page of the copy `id`; answer: `pid` */
        COMMAND_SAVE = 2, /* + a memfd to write to; answer: `size` */
        /* `code`: 0 or negative errno; `id`: the command's. A session that was spawned with a snapshot sends one, with its
         * own id, when it has taken it in or failed to. */
        COMMAND_REPLY = 16,
};

/* The copy is a child of the zygote, too (CLONE_PARENT), which gets to know its id by ZYGOTE_ADOPT. */
struct command_message {
        uint32_t type;
        int32_t code;
        uint64_t id;
        uint64_t size;
        int32_t pid;
        uint32_t reserved;
        char text[256];
};

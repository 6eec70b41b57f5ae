/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between the server and the zygote: one AF_UNIX SOCK_SEQPACKET, one struct each, descriptors by SCM_RIGHTS.
 * Both ends are built together; guests never hold either. */
#pragma once

#include <stdint.h>

#include <snipara-sandbox/types.h>

#define ZYGOTE_SOCKET_FD 3 /* in the launcher and the zygote */
#define ZYGOTE_CONFIG_FD 4

enum zygote_request_type {
        ZYGOTE_SPAWN = 1,   /* + control, stdout, stderr, report, then the cgroup entry; answer: SPAWNED or FAILED */
        ZYGOTE_STATUS = 2,  /* answer: STATUS of a guest that is dead */
        ZYGOTE_RELEASE = 3, /* the server is done with a dead guest: reaps it; no answer */
        ZYGOTE_FILTER = 5,  /* + a memfd with the system call filter; first of all, if guests get one; no answer */
        ZYGOTE_REAP = 4,    /* kills what a dead guest left behind (no pid namespace); answer: STATUS */
};

/* What a guest becomes. */
enum local_runtime { LOCAL_PYTHON = 0, LOCAL_NODE = 1, LOCAL_BASH = 2 };
#define LOCAL_RUNTIME_COUNT 3

enum zygote_reply_type {
        ZYGOTE_STARTED = 1, /* from the launcher: + the zygote's pidfd */
        ZYGOTE_READY = 2,   /* modules are imported, requests are read */
        ZYGOTE_SPAWNED = 3, /* + the guest's pidfd */
        ZYGOTE_EXITED = 4,  /* `code`: 0..255, or -signal; INT32_MIN: unknown */
        ZYGOTE_FAILED = 5,  /* `code`: negative errno; `text`, `hint` */
};

#define ZYGOTE_SPAWN_FDS 4
#define ZYGOTE_FDS_MAX 8
#define ZYGOTE_SCRATCH_MAX 256

struct zygote_request {
        uint32_t type;
        uint32_t cgroup_kind; /* enum cgroup_entry_kind of the descriptors after the first ZYGOTE_SPAWN_FDS */
        uint64_t id;
        uint64_t memory_bytes;
        uint32_t pids_max;
        uint32_t cpu_percent;
        uint32_t runtime; /* enum local_runtime */
        uint32_t reserved;
        char scratch[ZYGOTE_SCRATCH_MAX]; /* without a mount namespace: the guest's own directory; else "" */
};

struct zygote_reply {
        uint32_t type;
        int32_t code;
        uint64_t id;
        char text[1024];
        char hint[512];
};

/* reply.c, for the launcher and the zygote. `fd` goes along with the reply; -1: none. A server that is gone misses it. */
void zygote_reply_send(const struct zygote_reply *reply, int fd);
void zygote_reply_failure(uint64_t id, const struct sbx_error *err); /* ZYGOTE_FAILED with the error's texts */

/* The report of a guest comes over a pipe of its own, from the guest before any foreign code runs in it: lines of
 * "name TAB state TAB detail LF"; the last line is "ready" or "failed TAB errno TAB message TAB hint". */
#define REPORT_MAX 8192

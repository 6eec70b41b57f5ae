/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between the server and the zygote: one AF_UNIX SOCK_SEQPACKET, one struct each, descriptors by SCM_RIGHTS.
 * Both ends are built together; guests never hold either. */
#pragma once

#include <stdint.h>

#include <snipara-sandbox/types.h>

#define ZYGOTE_SOCKET_FD 3 /* in the launcher and the zygote */
#define ZYGOTE_CONFIG_FD 4

enum zygote_request_type {
        ZYGOTE_SPAWN = 1, /* + control, stdout, stderr, report, copies, cgroup entry, image; answer: SPAWNED or FAILED */
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

#define ZYGOTE_SPAWN_FDS 5
#define ZYGOTE_FDS_MAX 10
#define ZYGOTE_SCRATCH_MAX 256

struct zygote_request {
        uint32_t type;
        uint32_t cgroup_kind; /* enum cgroup_entry_kind of the descriptors after the first ZYGOTE_SPAWN_FDS */
        uint64_t id;
        uint64_t memory_bytes;
        uint32_t pids_max;
        uint32_t cpu_percent;
        uint32_t runtime; /* enum local_runtime */
        uint32_t has_image; /* 1: the last descriptor is one, and the guest goes on as what it tells */
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

/* ---- copies of a running guest, between the server and the guest's worker

 * A SOCK_SEQPACKET of each process. The server puts a message with descriptors there, GUEST_COPY_FDS of them, and then
 * sends the frame `copy` on the control stream: what is to be copied is idle, and reads that. The answer of the one that
 * is copied comes on its socket, that of the copy on the copy's own. All of it is said by a process that runs foreign
 * code: it can lie about its own session, and about nothing else. */
#define FRAME_COPY 0x0d
/* {"directories": [paths], "max_bytes": n, "max_files": n}: what is kept of files with a copy. */
/* And "image": number, for an image of the process instead of a copy (zygote_image.h), unless it has not changed since it
 * wrote the one of that number; 0: there is none.
 * Of the copy: control, stdout, stderr, copies. And `deaths`, for process 1 when the guest moves off it. With an image the
 * last one is the file for it, and the others but numbers for the streams of the guest that it becomes. */
#define GUEST_COPY_FDS 5

/* An answer: one byte, a pid as the guest sees it (u32, little endian), a size in bytes (u64), then text to the end. */
#define GUEST_COPY_HEADER 13
#define GUEST_COPY_TEXT_MAX 512
enum guest_copy_answer {
        GUEST_COPY_DONE = 'd',    /* of the original: it goes on; size: of the image. Of the copy: it waits; size: of the files
                                   * that it keeps */
        GUEST_COPY_SAME = 's',    /* it is what it was when it wrote the image of that number */
        GUEST_COPY_BUSY = 'b',    /* it can't be copied as it is; text: why */
        GUEST_COPY_FAILED = 'f',  /* text: what */
        GUEST_COPY_THAWED = 't',  /* the copy got its first request, and runs */
};

/* What process 1 of a guest with copies writes to the pipe `deaths`. */
struct zygote_death {
        int32_t pid; /* as the guest sees it */
        int32_t code; /* 0..255, or -signal */
};
#define ZYGOTE_FROZEN_NAME "sbx-frozen" /* of a copy's process, until it runs */
#define ZYGOTE_IMAGE_NAME "sbx-image"   /* of the memfd */

/* SPDX-License-Identifier: Apache-2.0 */
/* The zygote: it has loaded code and image once, and forks a session for each request. One thread in each process. */
#pragma once

#include "engine/image.h"
#include "engine/vfs.h"
#include "jail.h"
#include "messages.h"

#define EXIT_SETUP 125 /* of a session that could not begin */
#define STATUS_SIZE 4096u

/* A session as the zygote knows it. */
struct child {
        uint64_t id, cpu_ns;
        int32_t pid, code;
        bool dead;      /* reaped: `code` and `cpu_ns` are there, the number may be another's */
        bool permitted; /* may make a copy now */
};

/* ---- zygote_children.c */

struct children {
        struct child *list; /* not in forks */
        size_t count, max;
};

int children_new(struct children *children, size_t max); /* -ENOMEM */
/* NULL: no room, or `id` is there already. */
struct child *children_add(struct children *children, uint64_t id, pid_t pid);
struct child *children_find(const struct children *children, uint64_t id); /* NULL: unknown */
/* Takes note of all that died, and ends what they left behind. */
void children_reap(struct children *children);
/* Kills and forgets. */
void children_release(struct children *children, uint64_t id);
/* Session `id` may make processes, until a copy of it is adopted. -ESRCH. */
int children_permit(struct children *children, uint64_t id);
/* Makes process `pid`, which session `parent` made, session `id`. -EPERM: it is none of the parent's. -EEXIST, -EAGAIN.
 */
int children_adopt(struct children *children, uint64_t parent, uint64_t id, pid_t pid);

/* ---- session.c */

struct session {
        const struct jail *jail;
        const struct wasm_code *code;
        struct wasm_instance *instance; /* its host's status page is mapped, a placeholder in the zygote */
        int control_fd, command_fd;
        struct vfs_limits limits;
        bool copied; /* it is a copy that has not been told so: it costs nothing until it is used */
};

/* In a process that the zygote has just cloned: does not return. `fds`: those of ZYGOTE_SPAWN. */
_Noreturn void session_begin(struct session *session, uint64_t id, struct received_fds *fds);
/* Serves requests and commands until the server closes either stream. */
_Noreturn void session_serve(struct session *session);
/* Takes over `fds`, those of a copy or a new session: streams and status page. -errno */
int session_take_streams(struct session *session, struct received_fds *fds);
/* What the server is told of memory and files. */
void session_tell_usage(struct session *session);
_Noreturn void session_end(struct session *session, enum wasm_trap trap);
/* The guest learns that it is a copy, and takes seeds of its own: before anything else runs in it. */
void session_resume(struct session *session);

/* ---- session_commands.c */

/* One message of the command socket. Returns also in the copy that it made. */
void session_command(struct session *session);
void session_reply(struct session *session, uint64_t id, int code, uint64_t size, pid_t pid, const char *text);

/* ---- zygote.c */

int zygote_main(void); /* an exit status */

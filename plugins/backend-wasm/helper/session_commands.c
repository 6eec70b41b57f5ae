/* SPDX-License-Identifier: Apache-2.0 */
/* What the server asks of a session between two requests: a copy, or its state. */
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>

#include "engine/snapshot.h"
#include "util.h"
#include "zygote.h"

void session_reply(struct session *session, uint64_t id, int code, uint64_t size, pid_t pid, const char *text) {
        struct command_message reply = {.type = COMMAND_REPLY, .code = code, .id = id, .size = size, .pid = pid};

        copy_text(reply.text, sizeof(reply.text), text);
        /* A server that is not there any more has closed the control stream as well. */
        (void)helper_send(session->command_fd, &reply, sizeof(reply), -1);
}

static void failed(struct session *session, uint64_t id, int code, const char *doing) {
        char text[128];

        snprintf(text, sizeof(text), "%s: %s", doing, strerror(-code));
        session_reply(session, id, code, 0, 0, text);
}

/* In the copy: of what it has, only its own streams stay. */
static void become_copy(struct session *session, struct received_fds *fds) {
        if (jail_die_with_zygote(session->jail) < 0)
                _exit(EXIT_SETUP);
        close(session->control_fd);
        close(session->command_fd);
        if (session_take_streams(session, fds) < 0)
                _exit(EXIT_SETUP);
        session->copied = true;
        session_tell_usage(session);
}

/* A sibling: the zygote is its parent, too. The page tables are copied, the pages on write. */
static void fork_session(struct session *session, const struct command_message *message, struct received_fds *fds) {
        pid_t pid;

        if (fds->count != SPAWN_FDS) {
                failed(session, message->id, -EINVAL, "a copy has other descriptors");
                return;
        }
        pid = (pid_t)syscall(SYS_clone, CLONE_PARENT, 0, 0, 0, 0);
        if (pid == 0) {
                become_copy(session, fds);
                fds->count = 0;
                return;
        }
        if (pid < 0)
                failed(session, message->id, -errno, "no process can be made");
        else
                session_reply(session, message->id, 0, 0, pid, "");
}

static void save(struct session *session, const struct command_message *message, struct received_fds *fds) {
        uint64_t size = 0;
        int r;

        session_resume(session);
        r = fds->count != 1 ? -EINVAL
                            : snapshot_save(session->instance, fds->fds[0], session->jail->config->snapshot_max, &size);

        if (r < 0)
                failed(session, message->id, r, "the state can't be written");
        else
                session_reply(session, message->id, 0, size, 0, "");
}

void session_command(struct session *session) {
        struct command_message message;
        struct received_fds fds = {.count = 0};
        int r = helper_receive(session->command_fd, &message, sizeof(message), &fds);

        if (r < 0) /* the server is done with it */
                _exit(r == -EPIPE ? 0 : EXIT_SETUP);
        switch (message.type) {
        case COMMAND_FORK:
                fork_session(session, &message, &fds);
                break;
        case COMMAND_SAVE:
                save(session, &message, &fds);
                break;
        default:
                failed(session, message.id, -ENOSYS, "unknown command");
        }
        received_fds_close(&fds);
}

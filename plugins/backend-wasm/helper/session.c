/* SPDX-License-Identifier: Apache-2.0 */
/* A session: takes its streams, locks itself down, and serves the guest protocol by calling the guest whenever the
 * control stream can be read. While it waits no guest code is on any stack: all state is memory, globals and files. */
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>

#include "engine/snapshot.h"
#include "util.h"
#include "zygote.h"

#define HOW_FORKED 1
#define HOW_RESTORED 2

/* As in protocol.h. */
enum { FD_CONTROL, FD_COMMAND, FD_STATUS, FD_SNAPSHOT };

/* Output goes in frames over the control stream: three descriptors fewer for each session in the server. */
static void set_streams(struct session *session) {
        vfs_set_streams(session->instance->host->vfs, -1, -1, -1, session->control_fd);
}

int session_take_streams(struct session *session, struct received_fds *fds) {
        struct wasm_host *host = session->instance->host;

        if (mmap(host->status, STATUS_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fds->fds[FD_STATUS], 0) ==
            MAP_FAILED)
                return -errno;
        close_fd(&fds->fds[FD_STATUS]);
        session->control_fd = fds->fds[FD_CONTROL];
        session->command_fd = fds->fds[FD_COMMAND];
        set_streams(session);
        return 0;
}

void session_tell_usage(struct session *session) {
        struct wasm_host *host = session->instance->host;
        struct vfs_usage usage;

        vfs_get_usage(host->vfs, &usage);
        atomic_store(&host->status->memory, session->instance->size - host->memory_base);
        atomic_store(&host->status->files, usage.bytes);
        atomic_store(&host->status->files_peak, usage.bytes_peak);
}

_Noreturn void session_end(struct session *session, enum wasm_trap trap) {
        struct wasm_status *status = session->instance->host->status;

        atomic_store(&status->trap, (uint32_t)trap);
        if (trap == WASM_TRAP_EXIT)
                _exit((int)(atomic_load(&status->exit_code) & 0xff));
        _exit(trap == WASM_TRAP_NONE ? 0 : HELPER_EXIT_TRAP + (int)trap);
}

void session_resume(struct session *session) {
        enum wasm_trap trap;

        if (!session->copied)
                return;
        session->copied = false;
        trap = wasm_call_resume(session->instance, HOW_FORKED);
        if (trap != WASM_TRAP_NONE)
                session_end(session, trap);
}

static void request(struct session *session) {
        struct wasm_host *host = session->instance->host;
        enum wasm_trap trap;
        uint32_t ended = 0;

        session_resume(session);
        atomic_store(&host->status->memory_refused, 0); /* what was refused before has ended nothing */
        atomic_store(&host->status->executing, 1);
        trap = wasm_call(session->instance, session->code->request, &ended);
        session_tell_usage(session);
        atomic_store(&host->status->executing, 0);
        if (trap != WASM_TRAP_NONE || ended != 0)
                session_end(session, trap);
}

_Noreturn void session_serve(struct session *session) {
        for (;;) {
                struct pollfd fds[2] = {{.fd = session->control_fd, .events = POLLIN},
                                        {.fd = session->command_fd, .events = POLLIN}};

                if (poll(fds, 2, -1) < 0 && errno != EINTR)
                        _exit(EXIT_SETUP);
                if (fds[1].revents != 0)
                        session_command(session);
                else if (fds[0].revents != 0)
                        request(session);
        }
}

/* ---- a new one */

struct snapshot_view {
        const void *data;
        size_t size;
};

/* Mapped before the last filter is there, looked at afterwards. */
static int map_snapshot(struct received_fds *fds, uint64_t max, struct snapshot_view *ret) {
        off_t size;

        if (fds->count <= FD_SNAPSHOT)
                return 0;
        size = lseek(fds->fds[FD_SNAPSHOT], 0, SEEK_END);
        if (size <= 0 || (uint64_t)size > max)
                return size < 0 ? -errno : -EFBIG;
        ret->data = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fds->fds[FD_SNAPSHOT], 0);
        if (ret->data == MAP_FAILED)
                return -errno;
        ret->size = (size_t)size;
        close_fd(&fds->fds[FD_SNAPSHOT]);
        return 0;
}

static void restore(struct session *session, uint64_t id, const struct snapshot_view *snapshot) {
        char message[200] = "";
        enum wasm_trap trap;
        int r = snapshot_restore(session->instance, snapshot->data, snapshot->size, &session->limits, message,
                                 sizeof(message));

        munmap((void *)snapshot->data, snapshot->size);
        if (r < 0) {
                session_reply(session, id, r, 0, 0, message);
                _exit(EXIT_SETUP);
        }
        set_streams(session);
        trap = wasm_call_resume(session->instance, HOW_RESTORED);
        if (trap != WASM_TRAP_NONE) {
                session_reply(session, id, -EINVAL, 0, 0, wasm_trap_name(trap));
                session_end(session, trap);
        }
        session_reply(session, id, 0, 0, 0, "");
}

_Noreturn void session_begin(struct session *session, uint64_t id, struct received_fds *fds) {
        struct snapshot_view snapshot = {0};
        int r = session_take_streams(session, fds);

        if (r == 0)
                r = map_snapshot(fds, session->jail->config->snapshot_max, &snapshot);
        if (r == 0)
                r = jail_lock_session(session->jail);
        if (r < 0) {
                char text[128];

                snprintf(text, sizeof(text), "a session can't begin: %s", strerror(-r));
                session_reply(session, id, r, 0, 0, text);
                _exit(EXIT_SETUP);
        }
        if (snapshot.data != NULL)
                restore(session, id, &snapshot);
        else
                wasm_instance_warm(session->instance);
        session_tell_usage(session);
        session_serve(session);
}

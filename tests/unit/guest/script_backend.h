/* SPDX-License-Identifier: Apache-2.0 */
/* A backend whose guests are bytes: what a guest would send lies in the socket before the host asks for anything. */
#pragma once

#include <fcntl.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#include <snipara-sandbox/backend.h>

#include "plugin/registry.h"

#define SCRIPT_READY "\x40\0\0\0\x81{\"protocol\":1,\"runtime\":\"python\",\"version\":\"3.11.2\",\"padding\":1}"
#define SCRIPT_READY_SIZE 69

struct script_backend {
        struct sbx_bytes stream;
        bool open; /* the guest's end stays open after the bytes: it hangs */
        int peer;  /* its end, -1: closed for writing only when not `open` */
        int killed, closed;
        struct sbx_backend_ops ops;
        struct sbx_instance instance;
};

static inline int script_start(void *state, const struct sbx_guest_spec *spec, const struct sbx_call *call,
                               struct sbx_guest *ret_guest, struct sbx_error *err) {
        static const char report[] = "{\"backend\":\"script\",\"isolation\":\"none\",\"layers\":[]}";
        struct script_backend *script = state;
        const char *data = script->stream.data;
        size_t left = script->stream.size;
        int pair[2], null;

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
                return -errno;
        while (left > 0) {
                ssize_t sent = send(pair[1], data, left, MSG_NOSIGNAL);

                if (sent <= 0)
                        break; /* the socket holds no more: the rest is cut off */
                data += sent;
                left -= (size_t)sent;
        }
        if (!script->open)
                shutdown(pair[1], SHUT_WR);
        null = open("/dev/null", O_RDONLY | O_CLOEXEC);
        ret_guest->control_fd = pair[0];
        ret_guest->stdout_fd = null;
        ret_guest->report = (struct sbx_bytes){report, sizeof(report) - 1};
        ret_guest->handle = script;
        script->peer = pair[1];
        return 0;
}

static inline int script_interrupt(void *state, void *handle, struct sbx_error *err) {
        return 0;
}

static inline void script_kill(void *state, void *handle) {
        struct script_backend *script = state;

        script->killed++;
}

static inline int script_usage(void *state, void *handle, struct sbx_guest_usage *ret_usage, struct sbx_error *err) {
        ret_usage->exit_code = INT32_MIN;
        return 0;
}

static inline void script_close(void *state, void *handle) {
        struct script_backend *script = state;

        close(script->peer);
        script->closed++;
}

static inline void script_backend_init(struct script_backend *script) {
        script->ops = (struct sbx_backend_ops){
                .struct_size = sizeof(script->ops),
                .guest_start = script_start,
                .guest_interrupt = script_interrupt,
                .guest_kill = script_kill,
                .guest_usage = script_usage,
                .guest_close = script_close,
        };
        script->instance = (struct sbx_instance){.name = "script", .state = script, .ops = &script->ops};
}

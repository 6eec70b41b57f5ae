/* SPDX-License-Identifier: Apache-2.0 */
/* Errands of a guest: interrupts, and finding back to a container whose engine went away for a while. */
#include <signal.h>

#include "exec.h"
#include "guest.h"
#include "scope.h"
#include "util.h"

#define RETRY_MS 250
#define ASK_MS 5000 /* of one request while the engine is looked for */

static struct sbx_call call_for(const struct docker_guest *guest, uint64_t deadline_ns) {
        return (struct sbx_call){
                .struct_size = sizeof(struct sbx_call), .cancel_fd = guest->cancel_fd, .deadline_ns = deadline_ns};
}

static bool is_closing(struct docker_guest *guest) {
        DOCKER_LOCKED(&guest->lock);

        return guest->closing;
}

/* ---- interrupts */

static void interrupt(struct docker_guest *guest) {
        struct docker *docker = guest->docker;
        struct sbx_call call = call_for(guest, 0); /* a kill does not wait for it */
        struct sbx_error err = {0};
        int r;

        if (is_closing(guest))
                r = -ESRCH;
        else if (guest_has_container(guest))
                r = container_signal(docker, guest->container, "SIGINT", &call, &err);
        else
                r = scope_signal(docker->scopes, guest->container, guest->payload, guest->mark, SIGINT, &err);
        /* A worker that was interrupted ends every other process, and with them what brings its input. */
        relay_line_renew(guest->line);
        relay_line_hold(guest->line, false);
        if (r < 0 && r != -ESRCH && r != -ECANCELED)
                docker_log(docker, SBX_LOG_WARNING, "code could not be interrupted: %s", err.message);
}

/* ---- an engine that went away */

/* Until the pause is over, or nobody wants the guest any more. */
static void pause_errand(struct docker_guest *guest, uint64_t ms) {
        uint64_t until = monotonic_ns() + ms * UINT64_C(1000000);
        struct timespec at = {.tv_sec = (time_t)(until / UINT64_C(1000000000)),
                              .tv_nsec = (long)(until % UINT64_C(1000000000))};
        DOCKER_LOCKED(&guest->lock);

        while (!guest->closing && monotonic_ns() < until)
                if (pthread_cond_clockwait(&guest->changed, &guest->lock, CLOCK_MONOTONIC, &at) == ETIMEDOUT)
                        break;
}

enum found { FOUND_ALIVE, FOUND_DEAD, FOUND_NOBODY };

static enum found look(struct docker_guest *guest, const struct sbx_call *call, struct sbx_error *err) {
        struct container_state state = {0};

        if (container_inspect(guest->docker, guest->container, call, &state, NULL, err) < 0)
                return FOUND_NOBODY;
        return state.exists && state.running ? FOUND_ALIVE : FOUND_DEAD;
}

/* To a worker whose own input the engine has closed. */
static int open_input(struct docker_guest *guest, const struct sbx_call *call, struct engine_stream **ret_input,
                      struct sbx_error *err) {
        const struct exec_wish wish = {.container = guest->container, .argv = guest->payload->pump, .input = true};
        char id[CONTAINER_ID_MAX];
        int r = exec_create(guest->docker->engine, &wish, call, id, err);

        return r == 0 ? exec_open(guest->docker->engine, id, call, ret_input, err) : r;
}

/* 1: the guest goes on; 0: it is dead; negative: try again. */
static int try_reattach(struct docker_guest *guest, uint64_t deadline_ns, struct sbx_error *err) {
        uint64_t limit = monotonic_ns() + ASK_MS * UINT64_C(1000000);
        struct sbx_call call = call_for(guest, limit < deadline_ns ? limit : deadline_ns);
        struct engine_stream *stream = NULL, *input = NULL;
        int r;

        switch (look(guest, &call, err)) {
        case FOUND_DEAD:
                return 0;
        case FOUND_NOBODY:
                return -EAGAIN;
        default:
                break;
        }
        r = guest_attach(guest, &call, &stream, err);
        if (r == 0 && guest->input_kept)
                r = open_input(guest, &call, &input, err);
        if (r == 0 && relay_line_resume(guest->line, stream, input, NULL) == 0)
                return 1;
        engine_stream_free(stream);
        engine_stream_free(input);
        return r < 0 ? -EAGAIN : 0;
}

static void reattach(struct docker_guest *guest) {
        struct docker *docker = guest->docker;
        uint64_t deadline_ns = monotonic_ns() + docker->options.reconnect_ms * UINT64_C(1000000);
        bool told = false;

        /* A worker that was added to a container has streams that can't be had twice. */
        while (guest_has_container(guest) && !is_closing(guest) && !relay_line_dead(guest->line)) {
                struct sbx_error err = {0};
                int r = try_reattach(guest, deadline_ns, &err);

                if (r == 0 || is_closing(guest))
                        break;
                if (r > 0) {
                        docker_log(docker, told ? SBX_LOG_WARNING : SBX_LOG_INFO,
                                   "the engine's stream to container %.12s broke; attached again, nothing is lost",
                                   guest->container);
                        return;
                }
                if (!told)
                        docker_log(docker, SBX_LOG_WARNING, "lost the engine; its sessions wait for it for %.1f s: %s",
                                   (double)docker->options.reconnect_ms / 1000, err.message);
                told = true;
                if (monotonic_ns() >= deadline_ns) {
                        docker_log(docker, SBX_LOG_ERROR, "the engine did not come back; container %.12s is given up",
                                   guest->container);
                        break;
                }
                pause_errand(guest, RETRY_MS);
        }
        relay_line_kill(guest->line);
}

/* ---- the thread */

static void *errand_thread(void *data) {
        struct docker_guest *guest = data;

        pthread_mutex_lock(&guest->lock);
        while (guest->wanted != 0) {
                unsigned errand = guest->wanted & ERRAND_INTERRUPT ? ERRAND_INTERRUPT : ERRAND_REATTACH;

                pthread_mutex_unlock(&guest->lock);
                if (errand == ERRAND_INTERRUPT)
                        interrupt(guest);
                else
                        reattach(guest);
                pthread_mutex_lock(&guest->lock);
                guest->wanted &= ~errand;
        }
        guest->running = false;
        pthread_cond_broadcast(&guest->changed);
        pthread_mutex_unlock(&guest->lock);
        return NULL;
}

/* Detached: it says itself when it is done. Signals are the program's business. */
static int start_thread(struct docker_guest *guest) {
        sigset_t all, before;
        pthread_attr_t attributes;
        pthread_t thread;
        int r;

        sigfillset(&all);
        pthread_attr_init(&attributes);
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        r = -pthread_create(&thread, &attributes, errand_thread, guest);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        pthread_attr_destroy(&attributes);
        return r;
}

int guest_errand(struct docker_guest *guest, unsigned errand) {
        DOCKER_LOCKED(&guest->lock);
        int r = 0;

        if (guest->closing || (guest->wanted & errand) != 0)
                return 0;
        /* What is sent from now on would be met by an interrupt that was meant for what runs. */
        if (errand == ERRAND_INTERRUPT)
                relay_line_hold(guest->line, true);
        guest->wanted |= errand;
        if (!guest->running) {
                guest->running = true;
                r = start_thread(guest);
        }
        if (r < 0) {
                guest->running = false;
                guest->wanted = 0;
                relay_line_hold(guest->line, false);
        }
        return r;
}

void guest_errands_end(struct docker_guest *guest) {
        const uint64_t one = 1;
        DOCKER_LOCKED(&guest->lock);

        guest->closing = true;
        /* It can only be full, and then it is readable as well. */
        if (write(guest->cancel_fd, &one, sizeof(one)) < 0)
                errno = 0;
        pthread_cond_broadcast(&guest->changed);
        while (guest->running)
                pthread_cond_wait(&guest->changed, &guest->lock);
}

void guest_stream_ended(void *data, bool idle) {
        struct docker_guest *guest = data;

        if (idle && guest_errand(guest, ERRAND_REATTACH) < 0)
                relay_line_kill(guest->line);
}

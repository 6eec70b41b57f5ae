/* SPDX-License-Identifier: Apache-2.0 */
/* Helper processes as the server sees them: who has which, what they are asked, how they end. */
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "helper_internal.h"
#include "messages.h"
#include "report.h"
#include "util.h"

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

#define READY_LIMIT_MS 60000
#define ANSWER_LIMIT_MS 30000 /* a large snapshot to be restored, on a busy machine */
#define END_LIMIT_MS 5000
#define LOG_MAX 4096
#define LAYERS_MAX ((size_t)64 << 10)

struct helper *helper_ref(struct helper *helper) {
        atomic_fetch_add(&helper->references, 1);
        return helper;
}

/* When it returns the helper is dead, and the kernel has ended its guests. */
static void end_process(struct helper *helper) {
        siginfo_t info;

        if (helper->ended)
                return;
        close_fd(&helper->socket); /* it ends by itself */
        if (!helper->ready || wait_fd(helper->pidfd, POLLIN, NULL, END_LIMIT_MS) < 0)
                syscall(SYS_pidfd_send_signal, helper->pidfd, SIGKILL, NULL, 0);
        /* Whether or not the program reaps its children itself. */
        while (waitid((idtype_t)P_PIDFD, (id_t)helper->pidfd, &info, WEXITED) < 0 && errno == EINTR)
                ;
        helper->dead = helper->ended = true;
}

void helper_unref(struct helper *helper) {
        if (helper == NULL || atomic_fetch_sub(&helper->references, 1) > 1)
                return;
        end_process(helper);
        close_fd(&helper->pidfd);
        close_fd(&helper->log);
        pthread_mutex_destroy(&helper->lock);
        free(helper->layers);
        free(helper);
}

const char *helper_layers(const struct helper *helper) {
        return helper->layers;
}

/* ---- coming up ---- */

static int explain_death(struct helper *helper, struct sbx_error *err) {
        char text[LOG_MAX];
        ssize_t n = read(helper->log, text, sizeof(text) - 1);

        text[n > 0 ? n : 0] = '\0';
        text[strcspn(text, "\n")] = '\0';
        return sbx_error_set(err, -EIO, WASM_ORIGIN, "run `snipara-sandbox doctor`",
                             "the program that runs guests ended before it was ready%s%s", text[0] != '\0' ? ": " : "",
                             text);
}

static int answer_failure(struct zygote_message *answer, struct sbx_error *err) {
        answer->text[sizeof(answer->text) - 1] = answer->hint[sizeof(answer->hint) - 1] = '\0';
        return sbx_error_set(err, answer->code < 0 && answer->code > -4096 ? answer->code : -EIO, WASM_ORIGIN,
                             answer->hint, "%s",
                             answer->text[0] != '\0' ? answer->text : "the program that runs guests has failed");
}

static int read_layers(int fd, char **ret_layers, struct sbx_error *err) {
        _cleanup_free_ char *text = malloc(LAYERS_MAX);
        ssize_t n = text != NULL && fd >= 0 ? pread(fd, text, LAYERS_MAX - 1, 0) : -1;

        if (n < 0)
                return sbx_error_set(err, text == NULL ? -ENOMEM : -EIO, WASM_ORIGIN, NULL,
                                     "the jail's report can't be read");
        return report_read_layers((struct sbx_bytes){text, (size_t)n}, ret_layers, err);
}

/* Called with the lock held. */
static int await_ready(struct helper *helper, const struct sbx_call *call, struct sbx_error *err) {
        struct zygote_message answer;
        _cleanup_close_ int fd = -1;
        int r;

        if (helper->ready)
                return 0;
        if (helper->dead)
                return sbx_error_set(err, -EIO, WASM_ORIGIN, "try again", "the program that runs guests has ended");
        r = message_receive(helper->socket, &answer, sizeof(answer), call, READY_LIMIT_MS, &fd);
        if (r == -ETIMEDOUT || r == -ECANCELED)
                return gave_up(r, "waiting for the program that runs guests", err);
        if (r == 0 && answer.type == ZYGOTE_READY)
                r = read_layers(fd, &helper->layers, err);
        else if (r == 0)
                r = answer_failure(&answer, err);
        else if (r == -EPIPE)
                r = explain_death(helper, err);
        else
                r = sbx_error_set(err, r, WASM_ORIGIN, NULL, "the program that runs guests: %s", strerror(-r));
        helper->ready = r == 0;
        helper->dead = r < 0;
        return r;
}

/* Called with helpers_lock held. */
static int launch_locked(struct backend *backend, struct guest_image *image, const struct sbx_call *call,
                         struct sbx_error *err) {
        if (!backend->started)
                return sbx_error_set(err, -ECANCELED, WASM_ORIGIN, NULL, "this backend was stopped");
        if (image->helper != NULL && !image->helper->dead)
                return 0;
        helper_unref(steal_pointer(image->helper));
        return helper_new(backend, image, call, &image->helper, err);
}

int helper_launch(struct backend *backend, struct guest_image *image, const struct sbx_call *call,
                  struct sbx_error *err) {
        int r = lock_for(&backend->helpers_lock, call);

        if (r < 0)
                return gave_up(r, "waiting for the program that runs guests", err);
        r = launch_locked(backend, image, call, err);
        pthread_mutex_unlock(&backend->helpers_lock);
        return r;
}

int helper_get(struct backend *backend, struct guest_image *image, const struct sbx_call *call,
               struct helper **ret_helper, struct sbx_error *err) {
        struct helper *helper = NULL;
        int r = lock_for(&backend->helpers_lock, call);

        if (r < 0)
                return gave_up(r, "waiting for the program that runs guests", err);
        r = launch_locked(backend, image, call, err);
        if (r == 0)
                helper = helper_ref(image->helper);
        pthread_mutex_unlock(&backend->helpers_lock);
        if (r < 0)
                return r;
        r = lock_for(&helper->lock, call);
        if (r == 0) {
                r = await_ready(helper, call, err);
                pthread_mutex_unlock(&helper->lock);
        } else
                gave_up(r, "waiting for the program that runs guests", err);
        if (r < 0) {
                helper_unref(helper);
                return r;
        }
        *ret_helper = helper;
        return 0;
}

void helpers_shut_down(struct backend *backend) {
        struct helper *helper;

        pthread_mutex_lock(&backend->images_lock);
        pthread_mutex_lock(&backend->helpers_lock);
        backend->started = false;
        for (struct guest_image *image = backend->images; image != NULL; image = image->next) {
                helper = steal_pointer(image->helper);
                if (helper == NULL)
                        continue;
                pthread_mutex_lock(&helper->lock);
                end_process(helper);
                pthread_mutex_unlock(&helper->lock);
                helper_unref(helper);
        }
        pthread_mutex_unlock(&backend->helpers_lock);
        pthread_mutex_unlock(&backend->images_lock);
}

/* ---- guests ---- */

static int ask(struct helper *helper, const struct zygote_message *request, const int *fds, size_t fd_count,
               const struct sbx_call *call, struct zygote_message *answer, int *ret_fd) {
        int r = helper->dead ? -EPIPE : message_send(helper->socket, request, sizeof(*request), fds, fd_count);

        while (r == 0) {
                r = message_receive(helper->socket, answer, sizeof(*answer), call, ANSWER_LIMIT_MS, ret_fd);
                /* Another one's is of a guest that somebody gave up waiting for: it ends by itself, its streams are
                 * closed. */
                if (r == 0 && answer->id == request->id)
                        return 0;
                if (r == 0)
                        close_fd(ret_fd);
        }
        if (r == -EPIPE || r == -EBADMSG)
                helper->dead = true;
        return r;
}

int helper_spawn(struct helper *helper, const struct zygote_message *request, const int *fds, size_t fd_count,
                 const struct sbx_call *call, int *ret_pidfd, struct sbx_error *err) {
        struct zygote_message answer;
        _cleanup_close_ int fd = -1;
        int r = lock_for(&helper->lock, call);

        if (r == 0) {
                r = ask(helper, request, fds, fd_count, call, &answer, &fd);
                pthread_mutex_unlock(&helper->lock);
        }
        if (r == -EPIPE)
                return r;
        if (r == -ECANCELED || r == -ETIMEDOUT)
                return gave_up(r, "starting a guest", err);
        if (r < 0)
                return sbx_error_set(err, r, WASM_ORIGIN, NULL, "the program that runs guests did not answer: %s",
                                     strerror(-r));
        if (answer.type != ZYGOTE_SPAWNED || fd < 0)
                return answer_failure(&answer, err);
        *ret_pidfd = steal_fd(&fd);
        return 0;
}

int helper_permit(struct helper *helper, uint64_t id, struct sbx_error *err) {
        struct zygote_message request = {.type = ZYGOTE_PERMIT, .id = id}, answer;
        _cleanup_close_ int fd = -1;
        int r;

        pthread_mutex_lock(&helper->lock);
        r = ask(helper, &request, NULL, 0, NULL, &answer, &fd);
        pthread_mutex_unlock(&helper->lock);
        if (r < 0)
                return sbx_error_set(err, r == -EPIPE ? -ESRCH : r, WASM_ORIGIN, NULL,
                                     "the program that runs guests did not answer: %s", strerror(-r));
        return answer.type == ZYGOTE_PERMITTED ? 0 : answer_failure(&answer, err);
}

int helper_exit_code(struct helper *helper, uint64_t id, uint64_t *cpu_ns) {
        struct zygote_message request = {.type = ZYGOTE_STATUS, .id = id}, answer;
        _cleanup_close_ int fd = -1;
        int r;

        pthread_mutex_lock(&helper->lock);
        r = ask(helper, &request, NULL, 0, NULL, &answer, &fd);
        pthread_mutex_unlock(&helper->lock);
        if (r < 0 || answer.type != ZYGOTE_EXITED || answer.code > 255 || answer.code < -128)
                return INT32_MIN;
        if (answer.cpu_ns > *cpu_ns)
                *cpu_ns = answer.cpu_ns;
        return answer.code;
}

void helper_release(struct helper *helper, uint64_t id) {
        struct zygote_message request = {.type = ZYGOTE_RELEASE, .id = id};

        pthread_mutex_lock(&helper->lock);
        if (!helper->dead && message_send(helper->socket, &request, sizeof(request), NULL, 0) == -EPIPE)
                helper->dead = true;
        pthread_mutex_unlock(&helper->lock);
}

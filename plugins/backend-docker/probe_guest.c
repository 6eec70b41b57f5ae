/* SPDX-License-Identifier: Apache-2.0 */
/* The images that the configuration names, and a container that runs a worker, up to its first word. */
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include "image_internal.h"
#include "probe_internal.h"
#include "util.h"

#define READY_MS 30000
/* docs/guest-protocol.md */
#define FRAME_HEAD 5
#define FRAME_HELLO 0x01
#define FRAME_READY 0x81
#define FRAME_STDOUT 0x82
#define FRAME_STDERR 0x83
#define FRAME_MAX (1u << 20)
#define WORDS_MAX 400 /* of what a worker writes that never gets ready */

/* What a container of the runtime is made of. -ENOENT: it would have to be pulled or prepared first. */
static int look_for(struct docker *docker, const struct docker_runtime *runtime, const struct sbx_call *call,
                    char *name, size_t size, struct sbx_error *err) {
        struct image_facts facts;
        char prepared[PREPARED_NAME_MAX];
        int r;

        snprintf(name, size, "%s", runtime->image);
        r = image_inspect(docker, runtime->image, call, &facts, err);
        if (r < 0 || !image_is_prepared(docker, runtime))
                return r;
        r = prepared_name(docker, facts.id, prepared, sizeof(prepared), err);
        if (r < 0)
                return r;
        snprintf(name, size, "%s", prepared);
        return image_inspect(docker, prepared, call, &facts, err);
}

static void tell_missing(struct probe *probe, const char *subject, const char *image) {
        bool never = probe->docker->options.pull != NULL && strcmp(probe->docker->options.pull, "never") == 0;

        probe_tell(probe, SBX_PROBE_WARNING, subject,
                   never ? "Bring it by hand: docker pull (or podman pull), or docker load -i FILE"
                         : "Bring it now: snipara-sandbox image build",
                   "%s is not there%s", image, never ? "" : ": the first session waits until it is pulled or prepared");
}

/* Of the runtimes' images the default one counts; others are brought when they are asked for. */
void probe_images(struct probe *probe) {
        struct docker *docker = probe->docker;
        size_t missing = 0, count = docker->options.runtime_count;

        for (size_t i = 0; i < count; i++) {
                const struct docker_runtime *runtime = &docker->options.runtimes[i];
                char image[IMAGE_REFERENCE_MAX], subject[96];
                struct sbx_error err = {0};
                int r = look_for(docker, runtime, probe->call, image, sizeof(image), &err);

                snprintf(subject, sizeof(subject), "image: %.64s", runtime->name);
                if (r == 0)
                        probe_tell(probe, SBX_PROBE_OK, subject, NULL, "%s", image);
                else if (r == -ENOENT && strcmp(runtime->name, "python") == 0)
                        tell_missing(probe, subject, image);
                else if (r == -ENOENT)
                        missing++;
                else
                        probe_fail(probe, r, subject, &err);
        }
        if (missing > 0)
                probe_tell(probe, SBX_PROBE_OK, "images", NULL, "of %zu runtimes %zu have no image yet", count,
                           missing);
}

static int wait_ready(int fd, short events, uint64_t deadline_ns, int cancel_fd) {
        struct pollfd fds[] = {{.fd = fd, .events = events}, {.fd = cancel_fd, .events = POLLIN}};
        uint64_t now = monotonic_ns();
        int r = now < deadline_ns ? poll(fds, 2, (int)((deadline_ns - now) / 1000000 + 1)) : 0;

        if (r < 0)
                return errno == EINTR ? 0 : -errno;
        if (fds[1].revents != 0)
                return -ECANCELED;
        return r == 0 ? -ETIMEDOUT : 0;
}

/* All of it, one way or the other. */
static int move_bytes(int fd, void *data, size_t size, bool out, uint64_t deadline_ns, int cancel_fd) {
        unsigned char *bytes = data;

        for (size_t done = 0; done < size;) {
                ssize_t n = out ? send(fd, bytes + done, size - done, MSG_NOSIGNAL)
                                : recv(fd, bytes + done, size - done, 0);
                int r;

                if (n > 0) {
                        done += (size_t)n;
                        continue;
                }
                if (n == 0)
                        return -EPIPE;
                if (errno == EINTR)
                        continue;
                if (errno != EAGAIN)
                        return -errno;
                r = wait_ready(fd, out ? POLLOUT : POLLIN, deadline_ns, cancel_fd);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* The payload of a frame: the first of what it wrote is kept, made printable. */
static int take_words(int fd, size_t size, char *words, uint64_t deadline_ns, int cancel_fd) {
        size_t used = strlen(words);
        int r = 0;

        for (unsigned char c = 0; r == 0 && size > 0; size--) {
                r = move_bytes(fd, &c, 1, false, deadline_ns, cancel_fd);
                if (r == 0 && used + 1 < WORDS_MAX) {
                        words[used++] = (char)(c >= 0x20 && c < 0x7F ? c : ' ');
                        words[used] = '\0';
                }
        }
        return r;
}

/* The head of the answer is enough: the worker is there. */
static int wait_for_ready(int fd, char *words, uint64_t deadline_ns, int cancel_fd) {
        unsigned char head[FRAME_HEAD];

        for (;;) {
                int r = move_bytes(fd, head, sizeof(head), false, deadline_ns, cancel_fd);
                uint32_t size = head[0] | (uint32_t)head[1] << 8 | (uint32_t)head[2] << 16 | (uint32_t)head[3] << 24;

                if (r < 0 || head[4] == FRAME_READY)
                        return r;
                if ((head[4] != FRAME_STDOUT && head[4] != FRAME_STDERR) || size > FRAME_MAX)
                        return -EPROTO;
                r = take_words(fd, size, words, deadline_ns, cancel_fd);
                if (r < 0)
                        return r;
        }
}

static int greet(int fd, const struct sbx_call *call, char words[WORDS_MAX]) {
        static const char hello[] = "{\"protocol\": 1, \"session\": \"probe\", \"framed_output\": true}";
        unsigned char out[FRAME_HEAD + sizeof(hello) - 1] = {sizeof(hello) - 1, 0, 0, 0, FRAME_HELLO};
        uint64_t deadline_ns = monotonic_ns() + READY_MS * UINT64_C(1000000);
        int cancel_fd = call != NULL ? call->cancel_fd : -1, flags = fcntl(fd, F_GETFL), r;

        if (call != NULL && call->deadline_ns != 0 && call->deadline_ns < deadline_ns)
                deadline_ns = call->deadline_ns;
        if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
                return -errno;
        memcpy(out + FRAME_HEAD, hello, sizeof(hello) - 1);
        r = move_bytes(fd, out, sizeof(out), true, deadline_ns, cancel_fd);
        return r < 0 ? r : wait_for_ready(fd, words, deadline_ns, cancel_fd);
}

static void run_guest(struct probe *probe) {
        const struct sbx_guest_spec spec = {.struct_size = sizeof(spec),
                                            .label = "probe",
                                            .runtime = "python",
                                            .limits.struct_size = sizeof(spec.limits)};
        struct sbx_guest guest = {.struct_size = sizeof(guest), .control_fd = -1, .exit_fd = -1};
        struct docker *docker = probe->docker;
        uint64_t start = monotonic_ns();
        char words[WORDS_MAX] = "";
        struct sbx_error err = {0};
        int r = docker_ops.guest_start(docker, &spec, probe->call, &guest, &err);

        if (r < 0) {
                probe_fail(probe, r, "a whole guest", &err);
                return;
        }
        r = greet(guest.control_fd, probe->call, words);
        if (r < 0) {
                sbx_error_set(&err, r, DOCKER_ORIGIN,
                              "Check that the image has what the runtime needs: Python 3.9 or newer",
                              "a container was started, and its worker did not get ready: %s",
                              words[0] != '\0' ? words : strerror(-r));
                probe_fail(probe, r, "a whole guest", &err);
        } else
                probe_tell(probe, SBX_PROBE_OK, "a whole guest", NULL, "a container was ready after %.0f ms",
                           (double)(monotonic_ns() - start) / 1e6);
        docker_ops.guest_kill(docker, guest.handle);
        close_fd(&guest.control_fd);
        close_fd(&guest.exit_fd);
        docker_ops.guest_close(docker, guest.handle);
}

/* A doctor looks, and does not pull hundreds of megabytes. */
void probe_guest(struct probe *probe) {
        struct docker *docker = probe->docker;
        const struct docker_runtime *runtime = NULL;
        char image[IMAGE_REFERENCE_MAX];
        struct sbx_error err = {0};
        int r = docker_runtime_find(&docker->options, "python", NULL, &runtime, &err);

        if (r < 0)
                probe_fail(probe, r, "a whole guest", &err);
        else if (look_for(docker, runtime, probe->call, image, sizeof(image), &err) < 0)
                probe_tell(probe, SBX_PROBE_WARNING, "a whole guest", "Bring the image: snipara-sandbox image build",
                           "not tried without its image, %s", image);
        else
                run_guest(probe);
}

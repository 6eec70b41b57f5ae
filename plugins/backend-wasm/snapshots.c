/* SPDX-License-Identifier: Apache-2.0 */
/* Guests from guests: copies, saved states, and what comes of them. */
#include <fcntl.h>
#include <inttypes.h>
#include <sys/mman.h>

#include "engine/snapshot.h"
#include "guest.h"
#include "messages.h"
#include "util.h"

#define COMMAND_LIMIT_MS 30000
#define CHUNK ((size_t)1 << 20)

/* ---- what a guest answers ---- */

static int refusal(struct command_message *answer, const char *doing, struct sbx_error *err) {
        int code = answer->code < 0 && answer->code > -4096 ? answer->code : -EIO;

        answer->text[sizeof(answer->text) - 1] = '\0';
        for (char *at = answer->text; *at != '\0'; at++)
                if (*at < 0x20 || *at > 0x7e) /* it is a guest's word, shown on terminals */
                        *at = '?';
        return sbx_error_set(err, code, WASM_ORIGIN, NULL, "%s: %s", doing,
                             answer->text[0] != '\0' ? answer->text : strerror(-code));
}

/* The answer to command `id`. An older one, that somebody gave up waiting for, is dropped. */
static int receive_answer(int socket, uint64_t id, const struct sbx_call *call, const char *doing,
                          struct command_message *ret_answer, struct sbx_error *err) {
        uint64_t deadline = monotonic_ns() + (uint64_t)COMMAND_LIMIT_MS * 1000000;

        for (;;) {
                _cleanup_close_ int fd = -1;
                uint64_t now = monotonic_ns();
                int r = now >= deadline ? -ETIMEDOUT
                                        : message_receive(socket, ret_answer, sizeof(*ret_answer), call,
                                                          (int)((deadline - now) / 1000000) + 1, &fd);

                if (r == -ETIMEDOUT || r == -ECANCELED)
                        return gave_up(r, doing, err);
                if (r < 0)
                        return sbx_error_set(err, r == -EPIPE ? -ESRCH : r, WASM_ORIGIN, NULL, "%s: %s", doing,
                                             r == -EPIPE ? "the guest is dead" : strerror(-r));
                if (ret_answer->type == COMMAND_REPLY && ret_answer->id == id)
                        return ret_answer->code == 0 ? 0 : refusal(ret_answer, doing, err);
        }
}

/* Sends a command and waits for its answer; the guest looks at it while no request is under way. */
static int command_locked(struct guest *guest, const struct command_message *request, const int *fds, size_t fd_count,
                          const struct sbx_call *call, const char *doing, struct command_message *ret_answer,
                          struct sbx_error *err) {
        int r = guest_is_dead(guest) ? -EPIPE : message_send(guest->command, request, sizeof(*request), fds, fd_count);

        if (r == 0)
                return receive_answer(guest->command, request->id, call, doing, ret_answer, err);
        return sbx_error_set(err, r == -EPIPE ? -ESRCH : r, WASM_ORIGIN, NULL, "%s: %s", doing,
                             r == -EPIPE ? "the guest is dead" : strerror(-r));
}

static int command(struct guest *guest, const struct command_message *request, const int *fds, size_t fd_count,
                   const struct sbx_call *call, const char *doing, struct command_message *ret_answer,
                   struct sbx_error *err) {
        int r = lock_for(&guest->command_lock, call);

        if (r < 0)
                return gave_up(r, doing, err);
        r = command_locked(guest, request, fds, fd_count, call, doing, ret_answer, err);
        pthread_mutex_unlock(&guest->command_lock);
        return r;
}

int snapshot_await(struct guest *guest, int socket, const struct sbx_call *call, struct sbx_error *err) {
        struct command_message answer;

        return receive_answer(socket, guest->id, call, "taking in a saved state", &answer, err);
}

/* ---- fork ---- */

/* The permission to make a process ends. */
static void forbid_copies(struct guest *parent, uint64_t copy_id) {
        struct zygote_message adoption = {.type = ZYGOTE_ADOPT, .id = copy_id, .parent = parent->id};
        _cleanup_close_ int none = -1;

        (void)helper_spawn(parent->helper, &adoption, NULL, 0, NULL, &none, NULL);
}

/* The copy's process exists when this returns 0, and dies with its parent until it is adopted. */
static int clone_guest(struct guest *parent, const struct guest *copy, const struct guest_streams *streams,
                       const struct sbx_call *call, pid_t *ret_pid, struct sbx_error *err) {
        static const char doing[] = "copying a guest";
        struct command_message request = {.type = COMMAND_FORK, .id = copy->id}, answer = {.type = 0};
        int r = lock_for(&parent->command_lock, call);

        if (r < 0)
                return gave_up(r, doing, err);
        r = helper_permit(parent->helper, parent->id, err);
        if (r == 0) {
                r = command_locked(parent, &request, streams->theirs, GUEST_STREAMS, call, doing, &answer, err);
                /* Of one that does not answer nobody knows what it made of its permission. */
                if (r < 0 && answer.id == copy->id)
                        forbid_copies(parent, copy->id);
                else if (r < 0)
                        guest_kill(parent->backend, parent);
        }
        pthread_mutex_unlock(&parent->command_lock);
        if (r == 0)
                *ret_pid = answer.pid;
        return r;
}

static int fork_guest(struct guest *parent, struct guest *copy, const struct guest_streams *streams,
                      const struct sbx_call *call, struct sbx_error *err) {
        struct zygote_message adoption = {.type = ZYGOTE_ADOPT, .id = copy->id, .parent = parent->id};
        int r = clone_guest(parent, copy, streams, call, &adoption.pid, err);

        if (r < 0)
                return r;
        /* The parent may lie: whether there is such a process, and whose copy it is, is the helper's word. */
        copy->helper = helper_ref(parent->helper);
        r = helper_spawn(copy->helper, &adoption, NULL, 0, NULL, &copy->pidfd, err);
        if (r < 0 && r != -EAGAIN)
                guest_kill(parent->backend, parent);
        return r == -EPIPE ? sbx_error_set(err, -ESRCH, WASM_ORIGIN, NULL, "the program that runs guests has ended")
                           : r;
}

int guest_fork(void *instance, void *handle, const struct sbx_guest_spec *spec, const struct sbx_call *call,
               struct sbx_guest *ret_guest, struct sbx_error *err) {
        _cleanup_(guest_streams_close) struct guest_streams streams = {{-1, -1, -1}, {-1, -1, -1}};
        struct backend *backend = instance;
        struct guest *parent = handle, *copy = guest_new(backend, parent->image);
        uint64_t memory_bytes = guest_memory_limit(backend, &spec->limits);
        int r;

        if (copy == NULL)
                return sbx_error_set(err, -ENOMEM, WASM_ORIGIN, NULL, "out of memory");
        r = guest_streams_open(copy, memory_bytes, &streams, err);
        if (r == 0)
                r = fork_guest(parent, copy, &streams, call, err);
        for (int i = 0; i < GUEST_STREAMS; i++)
                close_fd(&streams.theirs[i]);
        if (r == 0)
                r = guest_hand_over(copy, memory_bytes, &streams, ret_guest, err);
        if (r < 0)
                guest_close(backend, copy);
        return r;
}

/* ---- save ---- */

/* What the guest wrote, into `ret_state`. Read and not mapped: the guest still has it, and may cut it off. */
static int take_state(struct backend *backend, int fd, uint64_t size, struct sbx_output *ret_state,
                      struct sbx_error *err) {
        _cleanup_free_ uint8_t *chunk = malloc(CHUNK);
        struct snapshot_facts facts;

        if (chunk == NULL)
                return sbx_error_set(err, -ENOMEM, WASM_ORIGIN, NULL, "out of memory");
        for (uint64_t done = 0; done < size;) {
                ssize_t n = pread(fd, chunk, (size_t)at_most(size - done, CHUNK), (off_t)done);
                int r;

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0 || (done == 0 && (n < SNAPSHOT_HEADER_SIZE || snapshot_describe(chunk, size, &facts) < 0)))
                        return sbx_error_set(err, -EIO, WASM_ORIGIN, NULL, "the guest has saved no whole state");
                r = backend->host.output_append(backend->host.self, ret_state, chunk, (size_t)n);
                if (r < 0)
                        return sbx_error_set(err, r, WASM_ORIGIN, "raise the limit, or save less state",
                                             "the saved state of %" PRIu64 " bytes is too large: %s", size,
                                             strerror(-r));
                done += (uint64_t)n;
        }
        return 0;
}

int guest_save(void *instance, void *handle, const struct sbx_call *call, struct sbx_output *ret_state,
               struct sbx_error *err) {
        struct backend *backend = instance;
        struct guest *guest = handle;
        _cleanup_close_ int fd = memfd_create("sbx-state", MFD_CLOEXEC);
        struct command_message request = {.type = COMMAND_SAVE, .id = atomic_fetch_add(&backend->next_id, 1) + 1},
                               answer;
        int r;

        if (fd < 0)
                return sbx_error_set(err, errno == EMFILE || errno == ENFILE ? -EAGAIN : -errno, WASM_ORIGIN,
                                     "raise the limit of open files (ulimit -n)", "can't save a guest: %s",
                                     strerror(errno));
        r = command(guest, &request, &fd, 1, call, "saving a guest", &answer, err);
        if (r < 0)
                return r;
        if (answer.size == 0 || answer.size > backend->options.snapshot_max_bytes)
                return sbx_error_set(err, -EFBIG, WASM_ORIGIN, "raise snapshot_max",
                                     "a saved state of %" PRIu64 " bytes is none, or too large", answer.size);
        return take_state(backend, fd, answer.size, ret_state, err);
}

/* ---- restore ---- */

/* A copy that nobody can change while it is read. */
static int make_state_fd(struct sbx_bytes state, int *ret_fd) {
        _cleanup_close_ int fd = memfd_create("sbx-state", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        int r = fd < 0 ? -errno : write_whole(fd, state.data, state.size);

        if (r == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
                r = -errno;
        if (r == 0)
                *ret_fd = steal_fd(&fd);
        return r;
}

static int find_image(struct backend *backend, const struct sbx_guest_spec *spec, struct sbx_bytes state,
                      struct guest_image **ret_image, struct sbx_error *err) {
        struct snapshot_facts facts;
        int r = snapshot_describe(state.data, state.size, &facts);

        if (r == -EPROTONOSUPPORT)
                return sbx_error_set(err, r, WASM_ORIGIN, "restore it with the version that saved it",
                                     "this saved state is of another version");
        if (r < 0)
                return sbx_error_set(err, -EINVAL, WASM_ORIGIN, "only what this backend saved can be restored",
                                     "this is no saved state of a guest");
        if (state.size > backend->options.snapshot_max_bytes)
                return sbx_error_set(err, -EFBIG, WASM_ORIGIN, "raise snapshot_max",
                                     "a saved state of %zu bytes is too large", state.size);
        r = image_for_hash(backend, facts.image_hash, ret_image, err);
        if (r == 0 && !runtime_is((*ret_image)->runtime, spec->runtime))
                r = sbx_error_set(err, -EINVAL, WASM_ORIGIN, NULL, "the saved state is of %s, not of %s",
                                  (*ret_image)->runtime, spec->runtime);
        return r;
}

int guest_restore(void *instance, const struct sbx_guest_spec *spec, struct sbx_bytes state,
                  const struct sbx_call *call, struct sbx_guest *ret_guest, struct sbx_error *err) {
        struct backend *backend = instance;
        struct guest_image *image = NULL;
        _cleanup_close_ int fd = -1;
        int r = find_image(backend, spec, state, &image, err);

        if (r < 0)
                return r;
        r = make_state_fd(state, &fd);
        if (r < 0)
                return sbx_error_set(err, r, WASM_ORIGIN, NULL, "can't hand a saved state on: %s", strerror(-r));
        return guest_start_with(backend, image, spec, fd, call, ret_guest, err);
}

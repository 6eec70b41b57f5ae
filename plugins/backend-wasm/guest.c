/* SPDX-License-Identifier: Apache-2.0 */
/* The backend's operations on guests: start, interrupt, limit, kill, close. */
#include "guest.h"

#include <assert.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "engine/host.h"
#include "report.h"
#include "util.h"

#define DEATH_LIMIT_MS 30000
#define STARTS_MAX 2 /* with another helper, when the first one turns out to be dead */
#define STATUS_SIZE 4096u

#define CORPSE_LIMIT_MS 1000 /* from a process's last closed descriptor to its end */

/* As in protocol.h. Output comes in frames over the control stream, so that thousands of guests need few descriptors.
 */
#define STREAM_CONTROL 0
#define STREAM_COMMAND 1
#define STREAM_STATUS 2

static_assert(SPAWN_FDS == GUEST_STREAMS, "what protocol.h says");
static_assert(sizeof(struct wasm_status) <= STATUS_SIZE, "one page");

/* ---- streams ---- */

void guest_streams_close(struct guest_streams *streams) {
        for (int i = 0; i < GUEST_STREAMS; i++) {
                close_fd(&streams->ours[i]);
                close_fd(&streams->theirs[i]);
        }
}

/* One page that can't be cut off under the server's feet. */
static int make_status(uint64_t memory_bytes, int *ret_fd, struct wasm_status **ret_status) {
        _cleanup_close_ int fd = memfd_create("sbx-status", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        struct wasm_status *status;

        if (fd < 0 || ftruncate(fd, STATUS_SIZE) < 0 ||
            fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
                return -errno;
        status = mmap(NULL, STATUS_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (status == MAP_FAILED)
                return -errno;
        atomic_store(&status->memory_max, memory_bytes);
        *ret_fd = steal_fd(&fd);
        *ret_status = status;
        return 0;
}

int guest_streams_open(struct guest *guest, uint64_t memory_bytes, struct guest_streams *streams,
                       struct sbx_error *err) {
        static const int types[] = {[STREAM_CONTROL] = SOCK_STREAM, [STREAM_COMMAND] = SOCK_SEQPACKET};
        int pair[2], r = 0;

        for (size_t i = 0; r == 0 && i < sizeof(types) / sizeof(types[0]); i++) {
                r = socketpair(AF_UNIX, types[i] | SOCK_CLOEXEC, 0, pair) < 0 ? -errno : 0;
                streams->ours[i] = r == 0 ? pair[0] : -1;
                streams->theirs[i] = r == 0 ? pair[1] : -1;
        }
        if (r == 0)
                r = make_status(memory_bytes, &streams->theirs[STREAM_STATUS], &guest->status);
        if (r < 0)
                return sbx_error_set(err, r == -EMFILE || r == -ENFILE ? -EAGAIN : r, WASM_ORIGIN,
                                     "raise the limit of open files (ulimit -n), or lower max_sessions",
                                     "can't make the streams of a guest: %s", strerror(-r));
        return 0;
}

/* ---- starting ---- */

uint64_t guest_memory_limit(const struct backend *backend, const struct sbx_limits *limits) {
        if (limits->memory_bytes == 0)
                return backend->options.memory_bytes;
        return at_most(limits->memory_bytes, backend->options.memory_max_bytes);
}

struct guest *guest_new(struct backend *backend, const struct guest_image *image) {
        struct guest *guest = calloc(1, sizeof(*guest));

        if (guest == NULL)
                return NULL;
        guest->backend = backend;
        guest->image = image;
        guest->id = atomic_fetch_add(&backend->next_id, 1) + 1;
        guest->pidfd = guest->command = -1;
        guest->exit_code = INT32_MIN;
        pthread_mutex_init(&guest->lock, NULL);
        pthread_mutex_init(&guest->command_lock, NULL);
        return guest;
}

static int spawn(struct guest *guest, struct guest_image *image, const struct zygote_message *request, const int *fds,
                 size_t fd_count, const struct sbx_call *call, struct sbx_error *err) {
        for (int i = 0; i < STARTS_MAX; i++) {
                int r = helper_get(guest->backend, image, call, &guest->helper, err);

                if (r < 0)
                        return r;
                r = helper_spawn(guest->helper, request, fds, fd_count, call, &guest->pidfd, err);
                if (r != -EPIPE)
                        return r;
                backend_log(guest->backend, SBX_LOG_WARNING, "the program that runs guests is gone; starting another");
                helper_unref(steal_pointer(guest->helper));
        }
        return sbx_error_set(err, -EIO, WASM_ORIGIN, "run `snipara-sandbox doctor`",
                             "the program that runs guests dies again and again");
}

int guest_hand_over(struct guest *guest, uint64_t memory_bytes, struct guest_streams *streams,
                    struct sbx_guest *ret_guest, struct sbx_error *err) {
        guest->report = report_make(guest->backend, guest->image, helper_layers(guest->helper), memory_bytes);
        if (guest->report == NULL)
                return sbx_error_set(err, -ENOMEM, WASM_ORIGIN, NULL, "out of memory");
        guest->command = steal_fd(&streams->ours[STREAM_COMMAND]);
        ret_guest->control_fd = steal_fd(&streams->ours[STREAM_CONTROL]);
        ret_guest->stdout_fd = ret_guest->stderr_fd = ret_guest->exit_fd = -1;
        ret_guest->handle = guest;
        ret_guest->report = (struct sbx_bytes){guest->report, strlen(guest->report)};
        return 0;
}

int guest_start_with(struct backend *backend, struct guest_image *image, const struct sbx_guest_spec *spec,
                     int state_fd, const struct sbx_call *call, struct sbx_guest *ret_guest, struct sbx_error *err) {
        _cleanup_(guest_streams_close) struct guest_streams streams = {{-1, -1, -1}, {-1, -1, -1}};
        uint64_t memory_bytes = guest_memory_limit(backend, &spec->limits);
        struct guest *guest = guest_new(backend, image);
        int fds[GUEST_STREAMS + 1], r;
        struct zygote_message request = {.type = ZYGOTE_SPAWN};

        if (guest == NULL)
                return sbx_error_set(err, -ENOMEM, WASM_ORIGIN, NULL, "out of memory");
        request.id = guest->id;
        r = guest_streams_open(guest, memory_bytes, &streams, err);
        memcpy(fds, streams.theirs, sizeof(streams.theirs));
        fds[GUEST_STREAMS] = state_fd;
        if (r == 0)
                r = spawn(guest, image, &request, fds, GUEST_STREAMS + (state_fd >= 0 ? 1 : 0), call, err);
        for (int i = 0; i < GUEST_STREAMS; i++)
                close_fd(&streams.theirs[i]);
        if (r == 0 && state_fd >= 0)
                r = snapshot_await(guest, streams.ours[STREAM_COMMAND], call, err);
        if (r == 0)
                r = guest_hand_over(guest, memory_bytes, &streams, ret_guest, err);
        if (r < 0)
                guest_close(backend, guest);
        return r;
}

int guest_start(void *instance, const struct sbx_guest_spec *spec, const struct sbx_call *call,
                struct sbx_guest *ret_guest, struct sbx_error *err) {
        struct backend *backend = instance;
        struct guest_image *image = NULL;
        int r = call_state(call);

        if (r < 0)
                return gave_up(r, "starting a guest", err);
        r = image_for_runtime(backend, spec->runtime, spec->runtime_version, &image, err);
        return r < 0 ? r : guest_start_with(backend, image, spec, -1, call, ret_guest, err);
}

/* ---- running ---- */

bool guest_is_dead(const struct guest *guest) {
        struct pollfd fds[2] = {{.fd = guest->pidfd, .events = POLLIN}, {.fd = guest->command}};

        if (guest->pidfd < 0)
                return true;
        if (poll(fds, 2, 0) <= 0)
                return false;
        /* The end of its streams is seen a moment before its own. */
        return fds[0].revents != 0 || wait_fd(guest->pidfd, POLLIN, NULL, CORPSE_LIMIT_MS) == 0;
}

static int send_signal(const struct guest *guest, int number) {
        return syscall(SYS_pidfd_send_signal, guest->pidfd, number, NULL, 0) < 0 ? -errno : 0;
}

static int guest_interrupt(void *instance, void *handle, struct sbx_error *err) {
        struct guest *guest = handle;
        int r;

        /* To a dead process that nobody has waited for yet, a signal can be sent. */
        if (guest_is_dead(guest))
                return sbx_error_set(err, -ESRCH, WASM_ORIGIN, NULL, "the guest is dead");
        r = send_signal(guest, SIGINT);
        return r < 0 ? sbx_error_set(err, r, WASM_ORIGIN, NULL, "can't interrupt the guest: %s", strerror(-r)) : 0;
}

/* Memory alone: a guest has one thread in one process, whatever else it is allowed. */
static int guest_limit(void *instance, void *handle, const struct sbx_limits *limits, struct sbx_error *err) {
        struct guest *guest = handle;

        if (guest_is_dead(guest))
                return sbx_error_set(err, -ESRCH, WASM_ORIGIN, NULL, "the guest is dead");
        if (limits->memory_bytes > 0)
                atomic_store(&guest->status->memory_max, guest_memory_limit(guest->backend, limits));
        return 0;
}

/* ---- ending ---- */

void guest_kill(void *instance, void *handle) {
        struct guest *guest = handle;

        if (guest->pidfd < 0)
                return;
        guest_read_cpu(guest);
        send_signal(guest, SIGKILL);
        if (wait_fd(guest->pidfd, POLLIN, NULL, DEATH_LIMIT_MS) < 0)
                backend_log(guest->backend, SBX_LOG_ERROR, "a killed guest does not die");
}

void guest_close(void *instance, void *handle) {
        struct guest *guest = handle;

        if (guest == NULL)
                return;
        guest_kill(instance, guest);
        if (guest->helper != NULL) {
                helper_release(guest->helper, guest->id); /* also of one that nobody waited for in the end */
                helper_unref(guest->helper);
        }
        close_fd(&guest->pidfd);
        close_fd(&guest->command);
        if (guest->status != NULL)
                munmap(guest->status, STATUS_SIZE);
        pthread_mutex_destroy(&guest->lock);
        pthread_mutex_destroy(&guest->command_lock);
        free(guest->report);
        free(guest);
}

const struct sbx_backend_ops backend_ops = {
        .struct_size = sizeof(backend_ops),
        .features = SBX_BACKEND_FORK | SBX_BACKEND_SAVE | SBX_BACKEND_PREPARE,
        .guest_start = guest_start,
        .guest_interrupt = guest_interrupt,
        .guest_limit = guest_limit,
        .guest_kill = guest_kill,
        .guest_usage = guest_usage,
        .guest_close = guest_close,
        .guest_fork = guest_fork,
        .guest_save = guest_save,
        .guest_restore = guest_restore,
        .prepare = images_prepare,
        .images = images_list,
        .images_prune = images_prune,
};

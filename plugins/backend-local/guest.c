/* SPDX-License-Identifier: Apache-2.0 */
/* The backend's operations on guests. */
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "local.h"
#include "syscalls.h"
#include "util.h"

#define REPORT_LIMIT_MS 20000
#define DEATH_LIMIT_MS 30000
#define STARTS_MAX 2 /* with another zygote, when the first one turns out to be dead */

struct local_guest {
        struct local *local;
        struct zygote_process *zygote;
        struct sbx_cgroup *cgroup;
        uint64_t id;
        int pidfd;
        uint64_t memory_bytes; /* limit; changed by guest_limit alone */
        char *report;
        char scratch[ZYGOTE_SCRATCH_MAX]; /* "" with a file tree of its own */

        pthread_mutex_t lock; /* protects what follows */
        bool cleared;         /* killed, and everything that it left too */
        int exit_code;        /* INT32_MIN: not asked for yet */
};

/* Both ends of the streams between server and guest. */
struct streams {
        int ours[ZYGOTE_SPAWN_FDS], theirs[ZYGOTE_SPAWN_FDS]; /* control, stdout, stderr, report */
};

static void close_streams(struct streams *streams) {
        for (int i = 0; i < ZYGOTE_SPAWN_FDS; i++) {
                close_fd(&streams->ours[i]);
                close_fd(&streams->theirs[i]);
        }
}

static int open_streams(struct streams *streams, struct sbx_error *err) {
        int pair[2], r = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair);

        for (int i = 0; r == 0 && i < ZYGOTE_SPAWN_FDS; i++) {
                if (i > 0)
                        r = pipe2(pair, O_CLOEXEC);
                if (r == 0) {
                        streams->ours[i] = pair[0];
                        streams->theirs[i] = pair[1];
                }
        }
        if (r < 0)
                return sbx_error_set(err, errno == EMFILE || errno == ENFILE ? -EAGAIN : -errno, LOCAL_ORIGIN,
                                     "raise the limit of open files (ulimit -n), or lower max_sessions",
                                     "can't make the streams of a guest: %s", strerror(errno));
        return 0;
}

/* ---- starting */

static int spawn(struct local_guest *guest, const struct zygote_request *request, const struct streams *streams,
                 const struct sbx_call *call, struct sbx_error *err) {
        __attribute__((cleanup(cgroup_entry_close))) struct cgroup_entry entry = {.kind = CGROUP_ENTRY_NONE};
        struct zygote_request full = *request;
        int fds[ZYGOTE_FDS_MAX], count = 0, r;

        r = cgroup_entry_open(guest->cgroup, &entry, err);
        if (r < 0)
                return r;
        full.cgroup_kind = entry.kind;
        for (int i = 0; i < ZYGOTE_SPAWN_FDS; i++)
                fds[count++] = streams->theirs[i];
        for (int i = 0; i < entry.count && count < ZYGOTE_FDS_MAX; i++)
                fds[count++] = entry.fds[i];
        return zygote_spawn(guest->zygote, &full, fds, count, call, &guest->pidfd, err);
}

static int spawn_somewhere(struct local_guest *guest, const struct zygote_request *request,
                           const struct streams *streams, const struct sbx_call *call, struct sbx_error *err) {
        for (int i = 0; i < STARTS_MAX; i++) {
                int r = zygote_get(guest->local, call, &guest->zygote, err);

                if (r < 0)
                        return r;
                r = spawn(guest, request, streams, call, err);
                if (r != -EPIPE)
                        return r;
                local_log(guest->local, SBX_LOG_WARNING, "the zygote is gone; starting another");
                zygote_unref(steal_pointer(guest->zygote));
        }
        return sbx_error_set(err, -EIO, LOCAL_ORIGIN, "run `snipara-sandbox doctor`",
                             "the zygote dies again and again");
}

/* All that the guest says before it runs foreign code; it closes the pipe then. */
static int read_report(int fd, char text[REPORT_MAX], const struct sbx_call *call, struct sbx_error *err) {
        size_t size = 0;

        for (;;) {
                ssize_t n;
                int r = wait_fd(fd, POLLIN, call, REPORT_LIMIT_MS);

                if (r < 0)
                        return sbx_error_set(err, r, LOCAL_ORIGIN, NULL, "gave up waiting for a guest to lock down: %s",
                                             r == -ECANCELED ? "the call was cancelled" : strerror(-r));
                n = read(fd, text + size, REPORT_MAX - 1 - size);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return sbx_error_set(err, -errno, LOCAL_ORIGIN, NULL, "a guest's report: %s", strerror(errno));
                size += (size_t)n;
                text[size] = '\0';
                if (n == 0 || size == REPORT_MAX - 1)
                        return 0;
        }
}

static void add_cgroup_layer(void *data, const char *name, const char *state, const char *detail) {
        static const char *const words[][2] = {{"unavailable", "absent"}, {"unlimited", "off"}};

        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
                if (strcmp(state, words[i][0]) == 0)
                        state = words[i][1];
        report_layer(data, name, state, detail);
}

static int make_report(struct local_guest *guest, int fd, const struct cgroup_limits *limits,
                       const struct sbx_call *call, struct sbx_error *err) {
        struct report_builder builder;
        char text[REPORT_MAX];
        int r = read_report(fd, text, call, err);

        if (r < 0)
                return r;
        report_begin(&builder, guest->local->options.isolation_name);
        r = report_parse(&builder, text, err);
        cgroup_describe(guest->local->cgroups, add_cgroup_layer, &builder, limits);
        guest->report = report_end(&builder);
        if (r == 0 && guest->report == NULL)
                r = sbx_error_set(err, -ENOMEM, LOCAL_ORIGIN, NULL, "out of memory");
        return r;
}

static int start(struct local_guest *guest, enum local_runtime runtime, const struct sbx_guest_spec *spec,
                 const struct sbx_call *call, struct sbx_guest *ret_guest, struct sbx_error *err) {
        __attribute__((cleanup(close_streams))) struct streams streams = {{-1, -1, -1, -1}, {-1, -1, -1, -1}};
        struct cgroup_limits limits = limits_for_spec(guest->local, &spec->limits);
        struct zygote_request request = {
                .type = ZYGOTE_SPAWN,
                .id = guest->id,
                .memory_bytes = limits.memory_bytes,
                .pids_max = limits.pids_max,
                .cpu_percent = limits.cpu_percent,
                .runtime = runtime,
        };
        _cleanup_close_ int exit_fd = -1;
        int r = 0;

        guest->memory_bytes = limits.memory_bytes;
        if (guest->local->options.isolation != JAIL_NAMESPACES)
                r = scratch_create(guest->local, guest->id, guest->scratch, err);
        if (r == 0)
                r = cgroup_create(guest->local->cgroups, spec->label, &limits, &guest->cgroup, err);
        if (r == 0)
                r = open_streams(&streams, err);
        memcpy(request.scratch, guest->scratch, sizeof(request.scratch));
        if (r == 0)
                r = spawn_somewhere(guest, &request, &streams, call, err);
        for (int i = 0; i < ZYGOTE_SPAWN_FDS; i++)
                close_fd(&streams.theirs[i]);
        if (r == 0)
                r = make_report(guest, streams.ours[3], &limits, call, err);
        if (r == 0 && (exit_fd = fcntl(guest->pidfd, F_DUPFD_CLOEXEC, 0)) < 0)
                r = sbx_error_set(err, -EAGAIN, LOCAL_ORIGIN, "raise the limit of open files", "descriptors: %s",
                                  strerror(errno));
        if (r < 0)
                return r;
        ret_guest->control_fd = steal_fd(&streams.ours[0]);
        ret_guest->stdout_fd = steal_fd(&streams.ours[1]);
        ret_guest->stderr_fd = steal_fd(&streams.ours[2]);
        ret_guest->exit_fd = steal_fd(&exit_fd);
        ret_guest->handle = guest;
        ret_guest->report = (struct sbx_bytes){guest->report, strlen(guest->report)};
        return 0;
}

int local_guest_start(void *instance, const struct sbx_guest_spec *spec, const struct sbx_call *call,
                      struct sbx_guest *ret_guest, struct sbx_error *err) {
        struct local *local = instance;
        enum local_runtime runtime = LOCAL_PYTHON;
        struct local_guest *guest;
        int r;

        if (local->cgroups == NULL)
                return sbx_error_set(err, -EINVAL, LOCAL_ORIGIN, NULL, "this backend was not started");
        r = runtime_find(local, spec->runtime, spec->runtime_version, call, &runtime, err);
        if (r < 0)
                return r;
        r = call_state(call);
        if (r < 0)
                return sbx_error_set(err, r, LOCAL_ORIGIN, NULL, "no guest was started: %s",
                                     r == -ECANCELED ? "the call was cancelled" : "the call's time is over");
        guest = calloc(1, sizeof(*guest));
        if (guest == NULL)
                return sbx_error_set(err, -ENOMEM, LOCAL_ORIGIN, NULL, "out of memory");
        guest->local = local;
        guest->id = atomic_fetch_add(&local->next_id, 1) + 1;
        guest->pidfd = -1;
        guest->exit_code = INT32_MIN;
        pthread_mutex_init(&guest->lock, NULL);
        r = start(guest, runtime, spec, call, ret_guest, err);
        if (r < 0)
                local_guest_close(local, guest);
        return r;
}

/* ---- running */

static bool is_dead(const struct local_guest *guest) {
        struct pollfd fd = {.fd = guest->pidfd, .events = POLLIN};

        return guest->pidfd < 0 || poll(&fd, 1, 0) > 0;
}

static int guest_interrupt(void *instance, void *handle, struct sbx_error *err) {
        struct local_guest *guest = handle;

        /* To a dead process that nobody has waited for yet, a signal can be sent. */
        if (is_dead(guest))
                return sbx_error_set(err, -ESRCH, LOCAL_ORIGIN, NULL, "the guest is dead");
        if (sys_pidfd_send_signal(guest->pidfd, SIGINT) < 0)
                return sbx_error_set(err, -errno, LOCAL_ORIGIN, NULL, "can't interrupt the guest: %s", strerror(errno));
        return 0;
}

/* The number of the guest's first process, as this process sees it; 0 when it is gone. */
static pid_t pid_of(const struct local_guest *guest) {
        char path[64], text[512], *line;
        _cleanup_close_ int fd = -1;
        ssize_t n;
        int pid = 0;

        snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", guest->pidfd);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
        if (n <= 0)
                return 0;
        text[n] = '\0';
        line = strstr(text, "Pid:");
        return line != NULL && sscanf(line, "Pid: %d", &pid) == 1 && pid > 0 ? pid : 0;
}

static int guest_limit(void *instance, void *handle, const struct sbx_limits *asked, struct sbx_error *err) {
        struct local_guest *guest = handle;
        int r = limits_change(guest->local, guest->cgroup, pid_of(guest), &guest->memory_bytes, asked);

        if (r == -ENOTSUP)
                return sbx_error_set(err, r, LOCAL_ORIGIN, "use a guest that is started with this limit",
                                     "without a cgroup the memory limit of a running guest can't be raised");
        return r < 0 ? sbx_error_set(err, r, LOCAL_ORIGIN, NULL, "can't change the limits: %s", strerror(-r)) : 0;
}

/* Where no cgroup counts: the first process alone, with the children that it waited for. */
static void usage_of_process(const struct local_guest *guest, struct sbx_guest_usage *usage) {
        unsigned long long ticks[4] = {0};
        long threads = 0, pages = 0, tick = sysconf(_SC_CLK_TCK), page = sysconf(_SC_PAGESIZE);
        pid_t pid = pid_of(guest);
        char path[64], text[1024], *end;
        _cleanup_close_ int fd = -1;
        ssize_t n;

        snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
        fd = pid > 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
        if (n <= 0 || tick <= 0 || is_dead(guest))
                return;
        text[n] = '\0';
        end = strrchr(text, ')');
        /* Fields 14 to 17 (times), 20 (threads) and 24 (resident pages) of proc(5). */
        if (end == NULL || sscanf(end + 1,
                                  " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %llu %llu %*d %*d %ld "
                                  "%*d %*u %*u %ld",
                                  &ticks[0], &ticks[1], &ticks[2], &ticks[3], &threads, &pages) != 6)
                return;
        usage->cpu_ns = (ticks[0] + ticks[1] + ticks[2] + ticks[3]) * (UINT64_C(1000000000) / (uint64_t)tick);
        usage->memory_bytes = (uint64_t)pages * (uint64_t)page;
        usage->pids = (uint32_t)threads;
}

static int exit_code_of(struct local_guest *guest) {
        int code;

        pthread_mutex_lock(&guest->lock);
        if (guest->exit_code == INT32_MIN && guest->zygote != NULL && is_dead(guest))
                guest->exit_code = zygote_exit_code(guest->zygote, guest->id, false);
        code = guest->exit_code;
        pthread_mutex_unlock(&guest->lock);
        return code;
}

int local_guest_usage(void *instance, void *handle, struct sbx_guest_usage *ret_usage, struct sbx_error *err) {
        struct local_guest *guest = handle;
        struct sbx_guest_usage usage = {.struct_size = sizeof(usage), .exit_code = INT32_MIN};
        uint32_t size = ret_usage->struct_size < sizeof(usage) ? ret_usage->struct_size : (uint32_t)sizeof(usage);
        int r = 0;

        if (strcmp(cgroup_manager_kind(guest->local->cgroups), "none") == 0)
                usage_of_process(guest, &usage);
        else
                r = cgroup_usage(guest->cgroup, &usage);
        if (r < 0)
                return sbx_error_set(err, r, LOCAL_ORIGIN, NULL, "can't read what the guest used: %s", strerror(-r));
        if (is_dead(guest))
                usage.exit_code = exit_code_of(guest);
        usage.struct_size = ret_usage->struct_size;
        memcpy(ret_usage, &usage, size);
        return 0;
}

/* ---- ending */

void local_guest_kill(void *instance, void *handle) {
        struct local_guest *guest = handle;
        struct local *local = guest->local;

        if (guest->pidfd < 0)
                return;
        sys_pidfd_send_signal(guest->pidfd, SIGKILL);
        /* The first process of a pid namespace is dead only after all others are. */
        if (wait_fd(guest->pidfd, POLLIN, NULL, DEATH_LIMIT_MS) < 0)
                local_log(local, SBX_LOG_ERROR, "a killed guest does not die");
        if (local->options.isolation == JAIL_NAMESPACES)
                return;
        pthread_mutex_lock(&guest->lock);
        if (!guest->cleared) {
                cgroup_kill(guest->cgroup);
                guest->exit_code = zygote_exit_code(guest->zygote, guest->id, true);
                guest->cleared = true;
        }
        pthread_mutex_unlock(&guest->lock);
}

void local_guest_close(void *instance, void *handle) {
        struct local_guest *guest = handle;

        if (guest == NULL)
                return;
        local_guest_kill(instance, guest);
        if (guest->zygote != NULL) {
                zygote_release(guest->zygote, guest->id);
                zygote_unref(guest->zygote);
        }
        cgroup_release(guest->cgroup);
        if (guest->scratch[0] != '\0')
                scratch_remove(guest->scratch);
        close_fd(&guest->pidfd);
        pthread_mutex_destroy(&guest->lock);
        free(guest->report);
        free(guest);
}

const struct sbx_backend_ops local_ops = {
        .struct_size = sizeof(local_ops),
        .features = SBX_BACKEND_SUBPROCESS | SBX_BACKEND_THREADS,
        .guest_start = local_guest_start,
        .guest_interrupt = guest_interrupt,
        .guest_limit = guest_limit,
        .guest_kill = local_guest_kill,
        .guest_usage = local_guest_usage,
        .guest_close = local_guest_close,
};

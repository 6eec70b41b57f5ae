/* SPDX-License-Identifier: Apache-2.0 */
/* The backend's operations on guests. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>

#include "family.h"
#include "guest_start.h"
#include "process_image.h"
#include "syscalls.h"
#include "util.h"

#define REPORT_LIMIT_MS 20000
#define COPIES_MAX 64 /* processes of a guest that are copies which wait: more than the core keeps */
#define STARTS_MAX 2  /* with another zygote, when the first one turns out to be dead */

/* ---- starting */

static int spawn(struct family *family, const struct zygote_request *request, const struct streams *streams,
                 const struct sbx_call *call, struct sbx_error *err) {
        __attribute__((cleanup(cgroup_entry_close))) struct cgroup_entry entry = {.kind = CGROUP_ENTRY_NONE};
        struct zygote_request full = *request;
        int fds[ZYGOTE_FDS_MAX], count = 0, r;

        r = cgroup_entry_open(family->cgroup, &entry, err);
        if (r < 0)
                return r;
        full.cgroup_kind = entry.kind;
        full.has_image = family->origin != NULL;
        for (int i = 0; i < ZYGOTE_SPAWN_FDS; i++)
                fds[count++] = streams->theirs[i];
        for (int i = 0; i < entry.count && count < ZYGOTE_FDS_MAX - 1; i++)
                fds[count++] = entry.fds[i];
        if (family->origin != NULL)
                fds[count++] = family->origin->fd;
        return zygote_spawn(family->zygote, &full, fds, count, call, &family->first_pidfd, err);
}

static int spawn_somewhere(struct family *family, const struct zygote_request *request, const struct streams *streams,
                           const struct sbx_call *call, struct sbx_error *err) {
        if (family->origin != NULL) {
                int r = spawn(family, request, streams, call, err);

                return r != -EPIPE ? r
                                   : sbx_error_set(err, -ENOTSUP, LOCAL_ORIGIN, NULL,
                                                   "the zygote that the session's process comes from is gone");
        }
        for (int i = 0; i < STARTS_MAX; i++) {
                int r = zygote_get(family->local, call, &family->zygote, err);

                if (r < 0)
                        return r;
                r = spawn(family, request, streams, call, err);
                if (r != -EPIPE)
                        return r;
                local_log(family->local, SBX_LOG_WARNING, "the zygote is gone; starting another");
                zygote_unref(steal_pointer(family->zygote));
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

static int make_report(struct family *family, int fd, const struct cgroup_limits *limits, const struct sbx_call *call,
                       struct sbx_error *err) {
        struct report_builder builder;
        char text[REPORT_MAX];
        int r = read_report(fd, text, call, err);

        if (r < 0)
                return r;
        report_begin(&builder, family->local->options.isolation_name);
        r = report_parse(&builder, text, err);
        cgroup_describe(family->local->cgroups, add_cgroup_layer, &builder, limits);
        family->report = report_end(&builder);
        if (r == 0 && family->report == NULL)
                r = sbx_error_set(err, -ENOMEM, LOCAL_ORIGIN, NULL, "out of memory");
        return r;
}

/* What it has beside its processes: a cgroup, without a mount namespace a directory. */
static int make_place(struct family *family, const char *label, const struct cgroup_limits *limits,
                      struct sbx_error *err) {
        int r = 0;

        if (family->local->options.isolation != JAIL_NAMESPACES)
                r = scratch_create(family->local, family->id, family->scratch, err);
        return r == 0 ? cgroup_create(family->local->cgroups, label, limits, &family->cgroup, err) : r;
}

static bool may_be_copied(const struct local *local, enum local_runtime runtime) {
        return local->options.isolation == JAIL_NAMESPACES && runtime == LOCAL_PYTHON;
}

int local_guest_lock_down(struct local_guest *guest, enum local_runtime runtime, const struct sbx_guest_spec *spec,
                          struct streams *streams, const struct sbx_call *call, struct sbx_error *err) {
        struct family *family = guest->family;
        struct local *local = family->local;
        struct cgroup_limits limits = limits_for_spec(local, &spec->limits);
        struct zygote_request request = {
                .type = ZYGOTE_SPAWN,
                .id = family->id,
                .memory_bytes = limits.memory_bytes,
                .pids_max = limits.pids_max,
                .cpu_percent = limits.cpu_percent,
                .runtime = runtime,
        };
        int r = make_place(family, spec->label, &limits, err);

        guest->limits = limits;
        /* The cgroup counts, and knows of copies; the wall behind it leaves room for them. */
        if (may_be_copied(local, runtime) && limits.pids_max > 0 && local->pids_counted)
                request.pids_max += COPIES_MAX;
        memcpy(request.scratch, family->scratch, sizeof(request.scratch));
        if (r == 0)
                r = streams_open(streams, false, err);
        if (r == 0)
                r = spawn_somewhere(family, &request, streams, call, err);
        for (int i = 0; i < STREAM_COUNT; i++)
                close_fd(&streams->theirs[i]);
        return r == 0 ? make_report(family, streams->ours[STREAM_REPORT], &limits, call, err) : r;
}

static int start(struct local_guest *guest, enum local_runtime runtime, const struct sbx_guest_spec *spec,
                 const struct sbx_call *call, struct sbx_guest *ret_guest, struct sbx_error *err) {
        __attribute__((cleanup(streams_close))) struct streams streams = NO_STREAMS;
        int r = local_guest_lock_down(guest, runtime, spec, &streams, call, err);

        return r == 0 ? streams_hand_over(&streams, guest, may_be_copied(guest->family->local, runtime), ret_guest, err)
                      : r;
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
        guest = family_new(local);
        if (guest == NULL)
                return sbx_error_set(err, -ENOMEM, LOCAL_ORIGIN, NULL, "out of memory");
        r = start(guest, runtime, spec, call, ret_guest, err);
        if (r < 0)
                local_guest_close(local, guest);
        return r;
}

/* ---- running */

static int guest_interrupt(void *instance, void *handle, struct sbx_error *err) {
        struct local_guest *guest = handle;

        /* To a dead process that nobody has waited for yet, a signal can be sent. */
        if (family_is_dead(guest))
                return sbx_error_set(err, -ESRCH, LOCAL_ORIGIN, NULL, "the guest is dead");
        if (sys_pidfd_send_signal(family_pidfd(guest), SIGINT) < 0)
                return sbx_error_set(err, -errno, LOCAL_ORIGIN, NULL, "can't interrupt the guest: %s", strerror(errno));
        return 0;
}

static int guest_limit(void *instance, void *handle, const struct sbx_limits *asked, struct sbx_error *err) {
        struct local_guest *guest = handle;
        struct family *family = guest->family;
        struct cgroup_limits before;
        int r;

        pthread_mutex_lock(&family->lock);
        before = guest->limits;
        family_hear_locked(family);
        r = limits_change(family->local, family_pid_of(family_pidfd(guest)), &guest->limits, asked);
        if (r == 0)
                r = family_limit_locked(family, NULL);
        if (r < 0)
                guest->limits = before;
        pthread_mutex_unlock(&family->lock);
        if (r == -ENOTSUP)
                return sbx_error_set(err, r, LOCAL_ORIGIN, "use a guest that is started with this limit",
                                     "without a cgroup the memory limit of a running guest can't be raised");
        return r < 0 ? sbx_error_set(err, r, LOCAL_ORIGIN, NULL, "can't change the limits: %s", strerror(-r)) : 0;
}

/* Where no cgroup counts: the first process alone, with the children that it waited for. */
static void usage_of_process(const struct local_guest *guest, struct sbx_guest_usage *usage) {
        unsigned long long ticks[4] = {0};
        long threads = 0, pages = 0, tick = sysconf(_SC_CLK_TCK), page = sysconf(_SC_PAGESIZE);
        pid_t pid = family_pid_of(family_pidfd(guest));
        char path[64], text[1024], *end;
        _cleanup_close_ int fd = -1;
        ssize_t n;

        snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
        fd = pid > 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
        if (n <= 0 || tick <= 0 || family_is_dead(guest))
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

int local_guest_usage(void *instance, void *handle, struct sbx_guest_usage *ret_usage, struct sbx_error *err) {
        struct local_guest *guest = handle;
        struct sbx_guest_usage usage = {.struct_size = sizeof(usage), .exit_code = INT32_MIN};
        uint32_t size = ret_usage->struct_size < sizeof(usage) ? ret_usage->struct_size : (uint32_t)sizeof(usage);
        int r = 0;

        pthread_mutex_lock(&guest->family->lock);
        family_hear_locked(guest->family);
        pthread_mutex_unlock(&guest->family->lock);
        if (strcmp(cgroup_manager_kind(guest->family->local->cgroups), "none") == 0)
                usage_of_process(guest, &usage);
        else
                r = cgroup_usage(guest->family->cgroup, &usage);
        if (r < 0)
                return sbx_error_set(err, r, LOCAL_ORIGIN, NULL, "can't read what the guest used: %s", strerror(-r));
        if (family_is_dead(guest))
                usage.exit_code = family_exit_code(guest);
        usage.struct_size = ret_usage->struct_size;
        memcpy(ret_usage, &usage, size);
        return 0;
}

/* ---- ending */

void local_guest_kill(void *instance, void *handle) {
        (void)instance;
        family_kill(handle);
}

void local_guest_close(void *instance, void *handle) {
        (void)instance;
        if (handle == NULL)
                return;
        family_kill(handle);
        family_leave(handle);
}

const struct sbx_backend_ops local_ops = {
        .struct_size = sizeof(local_ops),
        .features = SBX_BACKEND_FORK | SBX_BACKEND_SUBPROCESS | SBX_BACKEND_THREADS,
        .guest_start = local_guest_start,
        .guest_interrupt = guest_interrupt,
        .guest_limit = guest_limit,
        .guest_kill = local_guest_kill,
        .guest_usage = local_guest_usage,
        .guest_close = local_guest_close,
        .guest_fork = local_guest_fork,
};

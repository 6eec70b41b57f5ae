/* SPDX-License-Identifier: Apache-2.0 */
/* Families of guests: who is in one, what it may use, how its members end. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>

#include "process_image.h"
#include "syscalls.h"
#include "util.h"

#define DEATH_LIMIT_MS 30000
#define BURIAL_LIMIT_MS 500
#define BURIALS_MAX 100
#define HEARD_MAX 64 /* messages of one guest at a time */
#define RUNNING_SCORE 1000
#define OWN_PROCESSES 2 /* process 1, and one that is being copied */

/* ---- members ---- */

static struct local_guest *new_member(struct family *family) {
        struct local_guest *guest = calloc(1, sizeof(*guest));

        if (guest == NULL)
                return NULL;
        guest->family = family;
        guest->exit_poll = guest->control = guest->copies = -1;
        guest->exit_code = INT32_MIN;
        atomic_init(&guest->pidfd, FIRST_PROCESS);
        return guest;
}

struct local_guest *family_new(struct local *local) {
        struct family *family = calloc(1, sizeof(*family));

        if (family == NULL)
                return NULL;
        family->local = local;
        family->id = atomic_fetch_add(&local->next_id, 1) + 1;
        family->first_pidfd = family->deaths = -1;
        pthread_mutex_init(&family->lock, NULL);
        family->members = new_member(family);
        if (family->members == NULL) {
                pthread_mutex_destroy(&family->lock);
                free(family);
                return NULL;
        }
        return family->members;
}

struct local_guest *family_add(struct family *family) {
        struct local_guest *guest = new_member(family);

        if (guest == NULL)
                return NULL;
        guest->waits = true;
        atomic_store(&guest->pidfd, NO_PROCESS);
        pthread_mutex_lock(&family->lock);
        guest->next = family->members;
        family->members = guest;
        pthread_mutex_unlock(&family->lock);
        return guest;
}

static void free_family(struct family *family) {
        process_images_forget(family);
        process_image_unref(family->local, family->origin);
        if (family->zygote != NULL) {
                zygote_release(family->zygote, family->id);
                zygote_unref(family->zygote);
        }
        cgroup_release(family->cgroup);
        if (family->scratch[0] != '\0')
                scratch_remove(family->scratch);
        close_fd(&family->first_pidfd);
        close_fd(&family->deaths);
        pthread_mutex_destroy(&family->lock);
        free(family->report);
        free(family);
}

void family_leave(struct local_guest *guest) {
        struct family *family = guest->family;
        int pidfd = atomic_load(&guest->pidfd);
        bool last;

        process_image_unref(family->local, guest->image); /* as long as the family is there for certain */
        pthread_mutex_lock(&family->lock);
        for (struct local_guest **at = &family->members; *at != NULL; at = &(*at)->next)
                if (*at == guest) {
                        *at = guest->next;
                        break;
                }
        last = family->members == NULL;
        pthread_mutex_unlock(&family->lock);
        close_fd(&guest->exit_poll);
        close_fd(&guest->control);
        close_fd(&guest->copies);
        close_fd(&pidfd);
        free(guest);
        if (last)
                free_family(family);
}

/* ---- processes ---- */

int family_pidfd(const struct local_guest *guest) {
        int pidfd = atomic_load(&guest->pidfd);

        return pidfd == FIRST_PROCESS ? guest->family->first_pidfd : pidfd;
}

static bool has_ended(int pidfd) {
        struct pollfd fd = {.fd = pidfd, .events = POLLIN};

        return pidfd < 0 || poll(&fd, 1, 0) > 0;
}

bool family_is_dead(const struct local_guest *guest) {
        return has_ended(family_pidfd(guest));
}

pid_t family_pid_of(int pidfd) {
        char path[64], text[512], *line;
        _cleanup_close_ int fd = -1;
        ssize_t n;
        int pid = 0;

        snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", pidfd);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
        if (n <= 0)
                return 0;
        text[n] = '\0';
        line = strstr(text, "Pid:");
        return line != NULL && sscanf(line, "Pid: %d", &pid) == 1 && pid > 0 ? pid : 0;
}

/* A wish: what the kernel refuses changes nothing but who goes first. */
static void set_score(pid_t pid, int score) {
        _cleanup_close_ int fd = -1;
        char path[64], text[16];
        int size = snprintf(text, sizeof(text), "%d", score);

        snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", (int)pid);
        fd = pid > 0 ? open(path, O_WRONLY | O_CLOEXEC) : -1;
        if (fd >= 0)
                (void)write_whole(fd, text, (size_t)size);
}

void family_rank_locked(const struct local_guest *guest) {
        set_score(family_pid_of(family_pidfd(guest)), guest->waits ? guest->family->oom_score : RUNNING_SCORE);
}

/* ---- who runs ---- */

static void hear(struct local_guest *guest) {
        char said;

        for (int i = 0; i < HEARD_MAX && recv(guest->copies, &said, 1, MSG_DONTWAIT) == 1; i++)
                if (said == GUEST_COPY_THAWED && guest->waits) {
                        guest->waits = false;
                        family_rank_locked(guest);
                }
}

void family_hear_locked(struct family *family) {
        for (struct local_guest *at = family->members; at != NULL; at = at->next)
                if (at->copies >= 0 && at->waits && !at->asked)
                        hear(at);
}

struct local_guest *family_runner_locked(const struct family *family, const struct local_guest *other) {
        for (struct local_guest *at = family->members; at != NULL; at = at->next)
                if (at != other && !at->waits && !at->killed && !family_is_dead(at))
                        return at;
        return NULL;
}

/* ---- limits ---- */

/* What is in use can't be taken away: without the one that runs being killed for it, while it is idle. It had as much
 * before, and has less as soon as it uses less. */
static uint64_t at_least_used(const struct family *family, uint64_t bytes) {
        struct sbx_guest_usage usage = {.struct_size = sizeof(usage)};

        if (family->deaths < 0 || cgroup_usage(family->cgroup, &usage) < 0)
                return bytes;
        return usage.memory_bytes > bytes ? usage.memory_bytes : bytes;
}

int family_limit_locked(struct family *family, struct sbx_error *err) {
        const struct local_guest *runner = family_runner_locked(family, NULL);
        struct cgroup_limits limits = {0};
        uint64_t kept_bytes = 0;
        uint32_t waiting = 0;

        if (runner != NULL)
                limits = runner->limits;
        for (const struct local_guest *at = family->members; at != NULL; at = at->next) {
                if (!at->waits || at->killed)
                        continue;
                waiting++;
                kept_bytes += at->kept_bytes;
                if (runner == NULL && at->limits.memory_bytes >= limits.memory_bytes)
                        limits = at->limits;
        }
        if (limits.memory_bytes > 0)
                limits.memory_bytes =
                        at_least_used(family, limits.memory_bytes + kept_bytes + process_images_bytes(family));
        if (limits.pids_max > 0 && (waiting > 0 || family->deaths >= 0))
                limits.pids_max += waiting + OWN_PROCESSES;
        return cgroup_limit(family->cgroup, &limits, err);
}

/* ---- ends ---- */

static void take_deaths(struct family *family) {
        struct zygote_death death;

        while (family->deaths >= 0 && read(family->deaths, &death, sizeof(death)) == sizeof(death))
                for (struct local_guest *at = family->members; at != NULL; at = at->next)
                        if (at->inner_pid == death.pid && at->exit_code == INT32_MIN && family_is_dead(at))
                                at->exit_code = death.code;
}

int family_exit_code(struct local_guest *guest) {
        struct family *family = guest->family;
        int code;

        pthread_mutex_lock(&family->lock);
        if (guest->exit_code == INT32_MIN && family_is_dead(guest)) {
                take_deaths(family);
                /* Process 1 is about to tell; of others, perhaps. */
                for (int i = 0; i < BURIALS_MAX && family->deaths >= 0 && guest->exit_code == INT32_MIN &&
                                wait_fd(family->deaths, POLLIN, NULL, BURIAL_LIMIT_MS) == 0;
                     i++)
                        take_deaths(family);
                if (atomic_load(&guest->pidfd) == FIRST_PROCESS && family->zygote != NULL)
                        guest->exit_code = zygote_exit_code(family->zygote, family->id, false);
        }
        code = guest->exit_code;
        pthread_mutex_unlock(&family->lock);
        return code;
}

static void end_process(const struct family *family, int pidfd) {
        sys_pidfd_send_signal(pidfd, SIGKILL);
        if (wait_fd(pidfd, POLLIN, NULL, DEATH_LIMIT_MS) < 0)
                local_log(family->local, SBX_LOG_ERROR, "a killed guest does not die");
}

/* Without a pid namespace: what the process left behind, too. */
static void clear_locked(struct family *family, struct local_guest *guest) {
        if (family->cleared || family->local->options.isolation == JAIL_NAMESPACES)
                return;
        cgroup_kill(family->cgroup);
        guest->exit_code = zygote_exit_code(family->zygote, family->id, true);
        family->cleared = true;
}

/* The first process of a pid namespace is dead only after all others are. */
static void end_all_locked(struct family *family, struct local_guest *guest) {
        take_deaths(family);
        if (atomic_load(&guest->pidfd) >= 0 && !family_is_dead(guest))
                guest->exit_code = -SIGKILL;
        end_process(family, family->first_pidfd);
        clear_locked(family, guest);
}

/* What waits lives on; what the guest started does not, unless it is already another member that runs. */
static void end_one_locked(struct family *family, struct local_guest *guest) {
        bool ran = !guest->waits;

        if (!family_is_dead(guest)) {
                end_process(family, family_pidfd(guest));
                guest->exit_code = -SIGKILL;
        }
        if (ran) /* who takes its place begins without the blame */
                cgroup_forgive(family->cgroup);
        if (!ran || family_runner_locked(family, guest) != NULL || family_kill_strays(family))
                return;
        local_log(family->local, SBX_LOG_WARNING,
                  "processes of a guest that was killed go on; its copies end with them");
        end_process(family, family->first_pidfd);
}

static bool has_living_locked(const struct family *family, const struct local_guest *other) {
        for (const struct local_guest *at = family->members; at != NULL; at = at->next)
                if (at != other && !at->killed && !family_is_dead(at))
                        return true;
        return false;
}

void family_kill(struct local_guest *guest) {
        struct family *family = guest->family;

        if (family->first_pidfd < 0)
                return;
        pthread_mutex_lock(&family->lock);
        if (!guest->killed) {
                family_hear_locked(family);
                if (has_living_locked(family, guest))
                        end_one_locked(family, guest);
                else
                        end_all_locked(family, guest);
                guest->killed = true;
                if (family->deaths >= 0 && family_limit_locked(family, NULL) < 0)
                        local_log(family->local, SBX_LOG_DEBUG, "a guest uses more memory than it will have now");
        }
        pthread_mutex_unlock(&family->lock);
}

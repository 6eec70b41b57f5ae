/* SPDX-License-Identifier: Apache-2.0 */
/* `doctor` for this backend: finds out by doing what the jail needs, piece by piece, and says what to type where it
 * can't be had: namespaces, filters, cgroup, interpreter, then a whole guest. */
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "probe_internal.h"
#include "util.h"

#define PYTHON_WAIT_MS 10000
#define VERSION_MIN 9 /* CPython 3.9 */

SBX_PRINTF(5, 0)
static void report(struct probe *probe, enum sbx_probe_status status, const char *subject, const char *remedy,
                   const char *format, va_list args) {
        char detail[1536];

        if (vsnprintf(detail, sizeof(detail), format, args) < 0)
                detail[0] = '\0';
        probe->events->report(probe->events->data, (int)status, subject, detail, remedy);
}

void probe_tell(struct probe *probe, enum sbx_probe_status status, const char *subject, const char *remedy,
                const char *detail_format, ...) {
        va_list args;

        va_start(args, detail_format);
        report(probe, status, subject, remedy, detail_format, args);
        va_end(args);
}

void probe_fail(struct probe *probe, int code, const char *subject, const char *remedy, const char *detail_format, ...) {
        va_list args;

        if (probe->first_failure == 0)
                probe->first_failure = code;
        va_start(args, detail_format);
        report(probe, SBX_PROBE_FAILED, subject, remedy, detail_format, args);
        va_end(args);
}

static const char *hint_of(const struct sbx_error *err) {
        return err->hint[0] != '\0' ? err->hint : NULL;
}

/* ---- cgroup */

struct layer_sink {
        struct probe *probe;
        bool wanted; /* cgroup = "required" or "auto" */
};

static void tell_layer(void *data, const char *name, const char *state, const char *detail) {
        struct layer_sink *sink = data;
        bool missing = strcmp(state, "unavailable") == 0 && sink->wanted;
        char subject[48];

        snprintf(subject, sizeof(subject), "cgroup: %s", name);
        probe_tell(sink->probe, missing ? SBX_PROBE_WARNING : SBX_PROBE_OK, subject,
                   missing ? "limits of each process hold instead; see docs/isolation-report.md" : NULL, "%s: %s", state,
                   detail);
}

/* A process is put into a cgroup, limited, measured and killed. */
static void use_cgroup(struct probe *probe, struct sbx_cgroup *cgroup) {
        const struct cgroup_limits limits = {.memory_bytes = 64u << 20, .pids_max = 16, .cpu_percent = 50};
        struct sbx_guest_usage usage = {.struct_size = sizeof(usage)};
        struct sbx_error err = {0};
        pid_t pid = fork();
        int r;

        if (pid == 0) {
                for (;;)
                        pause();
        }
        r = pid < 0 ? -errno : cgroup_attach(cgroup, pid, &err);
        if (r == 0)
                r = cgroup_limit(cgroup, &limits, &err);
        if (r == 0)
                r = cgroup_usage(cgroup, &usage);
        cgroup_kill(cgroup);
        if (pid > 0) {
                kill(pid, SIGKILL);
                while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                        ;
        }
        if (r < 0)
                probe_fail(probe, r, "cgroup: use", hint_of(&err), "%s", err.code != 0 ? err.message : strerror(-r));
        else
                probe_tell(probe, SBX_PROBE_OK, "cgroup: use", NULL, "a process was moved in, limited and killed");
}

static void probe_cgroup(struct probe *probe) {
        const struct local_options *options = probe->options;
        const struct cgroup_limits limits = {options->memory_bytes, options->pids_max, options->cpu_percent};
        struct layer_sink sink = {.probe = probe, .wanted = strcmp(options->cgroup, "off") != 0};
        struct sbx_cgroup_manager *manager = NULL;
        struct sbx_cgroup *cgroup = NULL;
        struct sbx_error err = {0};
        int r = cgroup_manager_new(options->cgroup, options->cgroup_base, &manager, &err);

        if (r < 0) {
                probe_fail(probe, r, "cgroup", hint_of(&err), "%s", err.message);
                return;
        }
        cgroup_describe(manager, tell_layer, &sink, &limits);
        if (strcmp(cgroup_manager_kind(manager), "none") != 0) {
                r = cgroup_create(manager, "probe", &limits, &cgroup, &err);
                if (r < 0)
                        probe_fail(probe, r, "cgroup: use", hint_of(&err), "%s", err.message);
                else
                        use_cgroup(probe, cgroup);
                cgroup_release(cgroup);
        }
        cgroup_manager_free(manager);
}

/* ---- interpreter */

/* Reads until the end of file, `size` bytes, or the time is up; NUL-terminated. */
static void read_answer(int fd, char *text, size_t size) {
        struct pollfd pfd = {.fd = fd, .events = POLLIN};
        size_t used = 0;

        while (used + 1 < size && poll(&pfd, 1, PYTHON_WAIT_MS) > 0) {
                ssize_t n = read(fd, text + used, size - 1 - used);

                if (n <= 0 && !(n < 0 && errno == EINTR))
                        break;
                used += n > 0 ? (size_t)n : 0;
        }
        text[used] = '\0';
        text[strcspn(text, "\n")] = '\0';
}

static int ask_version(const char *python, char *text, size_t size) {
        static const char code[] = "import sys; print('.'.join(map(str, sys.version_info[:3])), sys.implementation.name)";
        char *const argv[] = {(char *)python, "-I", "-S", "-c", (char *)code, NULL};
        char *const environment[] = {NULL};
        posix_spawn_file_actions_t actions;
        int fds[2], r;
        pid_t pid = -1;

        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        r = posix_spawn_file_actions_init(&actions);
        if (r == 0) {
                r = posix_spawn_file_actions_adddup2(&actions, fds[1], STDOUT_FILENO);
                if (r == 0)
                        r = posix_spawn(&pid, python, &actions, NULL, argv, environment);
                posix_spawn_file_actions_destroy(&actions);
        }
        close_fd(&fds[1]);
        if (r == 0) {
                read_answer(fds[0], text, size);
                kill(pid, SIGKILL);
                while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                        ;
        }
        close_fd(&fds[0]);
        return -r;
}

/* The N of "3.N.x"; -1: another version, or no version at all. */
static int minor_version(const char *version) {
        int minor = 0;

        if (strncmp(version, "3.", 2) != 0)
                return -1;
        for (version += 2; *version >= '0' && *version <= '9' && minor < 1000; version++)
                minor = minor * 10 + (*version - '0');
        return *version == '.' ? minor : -1;
}

/* The other languages. One that is not there is no fault. */
static void probe_runtimes(struct probe *probe, const struct interpreter *interpreter) {
        static const struct {
                enum local_runtime runtime;
                const char *name, *remedy;
        } others[] = {{LOCAL_NODE, "node", "Install one (Debian: apt install nodejs), or set the option \"node\""},
                      {LOCAL_BASH, "bash", "Install it again"}};

        for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
                const char *program = runtime_program(interpreter, others[i].runtime);
                char version[VERSION_MAX];

                if (program == NULL)
                        probe_tell(probe, SBX_PROBE_OK, others[i].name, NULL, "there is none: no sessions of it");
                else if (runtime_ask_version(program, probe->call, version) < 0)
                        probe_tell(probe, SBX_PROBE_WARNING, others[i].name, others[i].remedy, "%s does not tell its version",
                                   program);
                else
                        probe_tell(probe, SBX_PROBE_OK, others[i].name, NULL, "%s, %s", program, version);
        }
}

static void probe_interpreter(struct probe *probe) {
        static const char remedy[] = "Install one (Debian: apt install python3), or set the option \"python\" of the "
                                     "backend";
        struct interpreter interpreter = {0};
        struct sbx_error err = {0};
        char version[64] = "";
        int r = interpreter_find(probe->options->python, probe->options->node, probe->options->read_only, &interpreter,
                                 &err);

        if (r < 0) {
                probe_fail(probe, r, "interpreter", hint_of(&err) != NULL ? err.hint : remedy, "%s", err.message);
                return;
        }
        r = ask_version(interpreter.path, version, sizeof(version));
        if (r < 0 || version[0] == '\0')
                probe_fail(probe, r < 0 ? r : -ENOEXEC, "interpreter", remedy, "%s does not run%s%s", interpreter.path,
                           r < 0 ? ": " : "", r < 0 ? strerror(-r) : "");
        else if (minor_version(version) < VERSION_MIN)
                probe_fail(probe, -ENOTSUP, "interpreter", "CPython from 3.9 on is needed", "%s is %s", interpreter.path,
                           version);
        else
                probe_tell(probe, SBX_PROBE_OK, "interpreter", NULL, "%s, %s", interpreter.path, version);
        probe_runtimes(probe, &interpreter);
        interpreter_free(&interpreter);
}

/* ---- a whole guest */

static void end_guest(struct local *local, const struct sbx_guest *guest) {
        const int fds[] = {guest->control_fd, guest->stdout_fd, guest->stderr_fd, guest->exit_fd};

        local_guest_kill(local, guest->handle);
        for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
                if (fds[i] >= 0)
                        close(fds[i]);
        local_guest_close(local, guest->handle);
}

static void probe_guest(struct probe *probe, struct local *local) {
        struct sbx_guest_spec spec = {.struct_size = sizeof(spec),
                                      .label = "probe",
                                      .runtime = "python",
                                      .limits.struct_size = sizeof(spec.limits)};
        struct sbx_guest guest = {.struct_size = sizeof(guest)};
        struct sbx_error err = {0};
        uint64_t start = monotonic_ns(), first, second;
        int r = local_start(local, probe->call, &err);

        if (r == 0)
                r = local_guest_start(local, &spec, probe->call, &guest, &err);
        first = monotonic_ns();
        if (r == 0) {
                end_guest(local, &guest);
                guest = (struct sbx_guest){.struct_size = sizeof(guest)};
                second = monotonic_ns();
                r = local_guest_start(local, &spec, probe->call, &guest, &err);
        }
        if (r == 0) {
                probe_tell(probe, SBX_PROBE_OK, "a whole guest", NULL, "the first ready after %.1f ms, another after %.1f ms",
                           (double)(first - start) / 1e6, (double)(monotonic_ns() - second) / 1e6);
                end_guest(local, &guest);
        } else
                probe_fail(probe, r, "a whole guest", hint_of(&err), "%s", err.message);
        local_stop(local);
}

int probe_local(void *instance, const struct sbx_probe_events *events, const struct sbx_call *call) {
        struct local *local = instance;
        struct probe probe = {.options = &local->options, .events = events, .call = call};

        if (local->options.isolation == JAIL_NAMESPACES)
                probe_namespaces(&probe);
        if (local->options.isolation != JAIL_NONE)
                probe_filters(&probe);
        probe_cgroup(&probe);
        probe_interpreter(&probe);
        probe_guest(&probe, local);
        return probe.first_failure;
}

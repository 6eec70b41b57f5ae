/* SPDX-License-Identifier: Apache-2.0 */
/* What a runtime tells of itself: its counters, what stands now, and what its process takes. docs/metrics.md lists the
 * names; a test compares the two. */
#include "runtime/runtime.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/number.h"

#define P "snipara_sandbox_"

/* Text under a name, and how it is told. Each appends; the first failure stays. */
struct teller {
        struct sbx_buffer *out;
        int r;
};

static void tell(struct teller *teller, const char *name, const char *type, const char *help, uint64_t value) {
        const struct sbx_metric_sample sample = {.value = value};

        if (teller->r == 0)
                teller->r = sbx_metrics_tell(teller->out, name, type, help, &sample, 1);
}

static void tell_counter(struct teller *teller, const char *name, const char *help, const uint64_t *counter) {
        tell(teller, name, "counter", help, sbx_metric_get(counter));
}

static void tell_histogram(struct teller *teller, const char *name, const char *help,
                           const struct sbx_histogram *histogram) {
        if (teller->r == 0)
                teller->r = sbx_metrics_tell_histogram(teller->out, name, help, histogram);
}

/* ---- the program ---- */

static void tell_build(struct teller *teller) {
        const struct sbx_metric_sample sample = {.labels = "version=\"" SBX_VERSION "\"", .value = 1};

        if (teller->r == 0)
                teller->r = sbx_metrics_tell(teller->out, P "build_info", "gauge",
                                             "The version of the program; the value is always 1.", &sample, 1);
}

/* ---- counters ---- */

static void tell_executions(struct teller *teller, const struct sbx_metrics *metrics) {
        struct sbx_metric_sample samples[SBX_METRIC_ENDS];
        char labels[SBX_METRIC_ENDS][32];

        for (unsigned end = 0; end < SBX_METRIC_ENDS; end++) {
                snprintf(labels[end], sizeof(labels[end]), "end=\"%s\"", sbx_end_name((enum sbx_end)end));
                samples[end] = (struct sbx_metric_sample){labels[end], sbx_metric_get(&metrics->executions[end])};
        }
        if (teller->r == 0)
                teller->r = sbx_metrics_tell(teller->out, P "executions_total", "counter",
                                             "Executions that have ended, by how.", samples, SBX_METRIC_ENDS);
        tell_histogram(teller, P "execution_duration_seconds", "Wall clock of executions.",
                       &metrics->execution_seconds);
        tell_counter(teller, P "output_bytes_total", "Bytes of standard output and error that results carried.",
                     &metrics->output_bytes);
        tell_counter(teller, P "output_dropped_bytes_total",
                     "Bytes of output beyond max_output_bytes, which were dropped.", &metrics->output_dropped_bytes);
}

static void tell_sessions(struct teller *teller, const struct sbx_metrics *metrics) {
        tell_counter(teller, P "sessions_started_total", "Sessions that were made.", &metrics->sessions_started);
        tell_counter(teller, P "sessions_ended_total", "Sessions that have ended.", &metrics->sessions_ended);
        tell_counter(teller, P "sessions_refused_total", "Sessions that were not made because a limit was reached.",
                     &metrics->sessions_refused);
        tell_histogram(teller, P "session_start_duration_seconds",
                       "From the wish for a new session to the guest that it runs in.", &metrics->session_seconds);
        tell_counter(teller, P "pool_hits_total", "Guests that were ready when a session needed one.",
                     &metrics->pool_hits);
        tell_counter(teller, P "pool_misses_total", "Guests that had to be started while a session waited.",
                     &metrics->pool_misses);
        tell_counter(teller, P "guests_started_total", "Guests that were started.", &metrics->guests_started);
        tell_counter(teller, P "guest_failures_total", "Guests that could not be started.", &metrics->guest_failures);
}

static void tell_tools(struct teller *teller, const struct sbx_metrics *metrics) {
        const struct sbx_metric_sample files[] = {
                {"direction=\"in\"", sbx_metric_get(&metrics->file_bytes_in)},
                {"direction=\"out\"", sbx_metric_get(&metrics->file_bytes_out)},
        };

        tell_counter(teller, P "tool_calls_total", "Tool calls that were run, of clients, models and code.",
                     &metrics->tool_calls);
        tell_counter(teller, P "tool_errors_total", "Of them, those whose result is an error.", &metrics->tool_errors);
        tell_counter(teller, P "tool_refusals_total",
                     "Tool calls that were not run: no such tool, not for this caller, or too many calls wait.",
                     &metrics->tools_refused);
        if (teller->r == 0)
                teller->r = sbx_metrics_tell(teller->out, P "file_bytes_total", "counter",
                                             "Bytes of files written into workspaces (in) and read from them (out).",
                                             files, 2);
}

/* ---- what stands now ---- */

static void tell_figures(struct teller *teller, struct sbx_sessions *sessions) {
        struct sbx_session_figures figures;

        sbx_sessions_figures(sessions, &figures);
        tell(teller, P "sessions", "gauge", "Sessions that exist.", figures.sessions);
        tell(teller, P "sessions_busy", "gauge", "Sessions in which something runs.", figures.busy);
        tell(teller, P "principals", "gauge", "Principals that have sessions.", figures.principals);
        tell(teller, P "pool_ready", "gauge", "Guests that are ready for a session.", figures.pool_ready);
        tell(teller, P "pool_size", "gauge", "Guests that the pools in use are to keep ready.", figures.pool_size);
        tell(teller, P "artifact_bytes", "gauge", "Bytes of plots and long output that are kept with sessions.",
             figures.artifact_bytes);
}

/* ---- the process ---- */

static bool count_fds(uint64_t *ret_count) {
        DIR *directory = opendir("/proc/self/fd");
        uint64_t count = 0;

        if (directory == NULL)
                return false;
        for (const struct dirent *entry; (entry = readdir(directory)) != NULL;)
                count += entry->d_name[0] != '.';
        closedir(directory);
        *ret_count = count - 1; /* but the one that this took */
        return true;
}

static bool read_resident(uint64_t *ret_bytes) {
        _cleanup_close_ int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
        char text[128], *second, *end;
        int64_t pages;
        ssize_t size = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;

        if (size <= 0)
                return false;
        text[size] = '\0';
        second = strchr(text, ' ');
        end = second != NULL ? strchr(second + 1, ' ') : NULL;
        if (end == NULL)
                return false;
        *end = '\0';
        if (sbx_number_int(second + 1, &pages) < 0 || pages < 0)
                return false;
        *ret_bytes = (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
        return true;
}

/* What /proc does not tell, where it is not mounted, is left out. */
static void tell_process(struct teller *teller, const struct sbx_runtime *runtime) {
        uint64_t value;

        tell(teller, P "start_time_seconds", "gauge", "When the runtime was opened, in UNIX time.",
             runtime->opened_at_s);
        if (count_fds(&value))
                tell(teller, P "open_fds", "gauge", "Open file descriptors of the process.", value);
        if (read_resident(&value))
                tell(teller, P "resident_memory_bytes", "gauge", "Resident memory of the process, without its guests.",
                     value);
}

int sbx_runtime_metrics(struct sbx_runtime *runtime, struct sbx_buffer *out, struct sbx_error *err) {
        struct teller teller = {.out = out};

        tell_build(&teller);
        tell_executions(&teller, &runtime->metrics);
        tell_sessions(&teller, &runtime->metrics);
        tell_tools(&teller, &runtime->metrics);
        tell_figures(&teller, runtime->sessions);
        tell_process(&teller, runtime);
        return teller.r < 0 ? sbx_error_set(err, teller.r, "metrics", NULL, "the figures can't be told: %s",
                                            SBX_ERRNO_TEXT(teller.r))
                            : 0;
}

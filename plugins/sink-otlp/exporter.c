/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of spans and its thread. A batch goes out when it is full or when somebody flushes. */
#include "exporter.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "send.h"
#include "util.h"

#define QUEUE_BYTES_MAX ((size_t)64 << 20)
#define DELAY_MAX_MS UINT64_C(30000)       /* between two attempts, when the collector does not say */
#define RETRY_AFTER_MAX_MS UINT64_C(60000) /* what it may say */
#define NS_PER_MS UINT64_C(1000000)

struct otlp_exporter {
        const struct sbx_host *host;
        const struct otlp_settings *settings;
        struct sbx_http *http;
        int cancel_fd; /* readable: no request goes on */
        char **batch;  /* the thread's: spans that are being sent */
        pthread_t thread;

        pthread_mutex_t lock; /* protects all that follows */
        pthread_cond_t changed;
        char **queue; /* a ring of settings->queue_max */
        size_t first, count, bytes;
        uint64_t added, done;    /* spans, ever: done ones were sent, refused or dropped */
        uint64_t flush_to;       /* all spans up to this one are to go out now */
        uint64_t lost;           /* not delivered, ever */
        uint64_t lost_at_outage; /* when the trouble began */
        bool failing;            /* the last request was not accepted */
        bool overflowed;         /* told in the log, for this outage */
        bool warned;             /* what the collector says to spans that it takes was told */
        bool news;               /* trouble began, or spans were lost, and no flush has told it */
        struct sbx_error problem;
        bool stop, finished;
        uint64_t stop_deadline_ns;
};

static uint64_t now_ns(const struct otlp_exporter *exporter) {
        return exporter->host->clock_ns(exporter->host->self);
}

/* Until it is signalled, or `deadline_ns` of CLOCK_MONOTONIC; 0: none. False: the time is up. */
static bool wait_locked(struct otlp_exporter *exporter, uint64_t deadline_ns) {
        struct timespec until = {.tv_sec = (time_t)(deadline_ns / UINT64_C(1000000000)),
                                 .tv_nsec = (long)(deadline_ns % UINT64_C(1000000000))};

        if (deadline_ns == 0)
                return pthread_cond_wait(&exporter->changed, &exporter->lock) == 0;
        return pthread_cond_timedwait(&exporter->changed, &exporter->lock, &until) == 0;
}

static void log_lost(struct otlp_exporter *exporter, int level, const char *what, uint64_t lost) {
        char line[320];

        snprintf(line, sizeof(line), "%s; %llu spans were lost (%s)", what, (unsigned long long)lost,
                 exporter->settings->url_shown);
        exporter->host->log(exporter->host->self, level, line);
}

/* ---- the queue ---- */

static char *take_first_locked(struct otlp_exporter *exporter) {
        char *span = exporter->queue[exporter->first];

        exporter->queue[exporter->first] = NULL;
        exporter->first = (exporter->first + 1) % exporter->settings->queue_max;
        exporter->count--;
        exporter->bytes -= strlen(span);
        return span;
}

static void drop_oldest_locked(struct otlp_exporter *exporter) {
        free(take_first_locked(exporter));
        exporter->done++;
        exporter->lost++;
}

void otlp_exporter_add(struct otlp_exporter *exporter, char *json) {
        size_t size = strlen(json);
        bool tell = false;

        pthread_mutex_lock(&exporter->lock);
        while (exporter->count > 0 &&
               (exporter->count == exporter->settings->queue_max || exporter->bytes + size > QUEUE_BYTES_MAX)) {
                tell = !exporter->overflowed;
                exporter->overflowed = true;
                drop_oldest_locked(exporter);
        }
        exporter->queue[(exporter->first + exporter->count) % exporter->settings->queue_max] = json;
        exporter->count++;
        exporter->bytes += size;
        exporter->added++;
        if (exporter->count >= exporter->settings->batch_max)
                pthread_cond_broadcast(&exporter->changed);
        pthread_mutex_unlock(&exporter->lock);
        if (tell)
                exporter->host->log(exporter->host->self, SBX_LOG_WARNING,
                                    "more spans wait than `queue_size` allows: the oldest are dropped");
}

/* ---- sending: the thread alone ---- */

/* As many as go into one request, one at least. */
static size_t take_batch_locked(struct otlp_exporter *exporter) {
        size_t count = 0, bytes = 0;

        while (exporter->count > 0 && count < exporter->settings->batch_max) {
                bytes += strlen(exporter->queue[exporter->first]);
                if (count > 0 && bytes > OTLP_BODY_MAX)
                        break;
                exporter->batch[count++] = take_first_locked(exporter);
        }
        return count;
}

/* Doubled with each attempt, and up to a fifth more or less, so that many senders do not come back at once. */
static uint64_t retry_delay_ns(const struct otlp_exporter *exporter, const struct otlp_answer *answer,
                               unsigned attempt) {
        uint64_t delay = exporter->settings->retry_delay_ms << (attempt < 16 ? attempt : 16);
        uint16_t random = 0;

        if (answer->retry_after_ms > 0)
                return (answer->retry_after_ms < RETRY_AFTER_MAX_MS ? answer->retry_after_ms : RETRY_AFTER_MAX_MS) *
                       NS_PER_MS;
        if (delay > DELAY_MAX_MS)
                delay = DELAY_MAX_MS;
        if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
                random = 0x8000; /* without jitter it still works */
        return delay * NS_PER_MS * (8000 + random % 4001) / 10000;
}

static void request(struct otlp_exporter *exporter, size_t count, struct otlp_answer *answer) {
        struct sbx_call call = {.struct_size = sizeof(call), .cancel_fd = exporter->cancel_fd};

        call.deadline_ns = now_ns(exporter) + exporter->settings->timeout_ms * NS_PER_MS;
        if (exporter->stop_deadline_ns != 0 && exporter->stop_deadline_ns < call.deadline_ns)
                call.deadline_ns = exporter->stop_deadline_ns;
        pthread_mutex_unlock(&exporter->lock);
        otlp_send(exporter->http, exporter->settings, exporter->batch, count, &call, answer);
        pthread_mutex_lock(&exporter->lock);
}

static void note_trouble_locked(struct otlp_exporter *exporter, const struct otlp_answer *answer) {
        if (!exporter->failing) {
                exporter->lost_at_outage = exporter->lost;
                exporter->news = true;
        }
        exporter->failing = true;
        exporter->problem = answer->problem;
        pthread_cond_broadcast(&exporter->changed); /* a flush waits no longer */
}

/* Attempts until it is accepted or given up. When the exporter stops, there is one. */
static void send_locked(struct otlp_exporter *exporter, size_t count, struct otlp_answer *answer) {
        for (unsigned attempt = 0;; attempt++) {
                uint64_t until_ns;

                request(exporter, count, answer);
                if (answer->verdict == OTLP_ACCEPTED)
                        return;
                note_trouble_locked(exporter, answer);
                if (answer->verdict == OTLP_REFUSED || attempt >= exporter->settings->retries || exporter->stop)
                        return;
                until_ns = now_ns(exporter) + retry_delay_ns(exporter, answer, attempt);
                while (!exporter->stop && now_ns(exporter) < until_ns)
                        wait_locked(exporter, until_ns);
        }
}

/* Says that it works again, or that spans were refused; with the lock released, since a log may be slow. */
static void tell_locked(struct otlp_exporter *exporter, const struct otlp_answer *answer, bool recovered) {
        uint64_t lost = exporter->lost - exporter->lost_at_outage;
        bool warn = answer->warned && !exporter->warned;

        exporter->warned = exporter->warned || answer->warned;
        pthread_mutex_unlock(&exporter->lock);
        if (recovered && lost > 0)
                log_lost(exporter, SBX_LOG_WARNING, "the collector takes spans again", lost);
        if (warn)
                exporter->host->log(exporter->host->self, SBX_LOG_WARNING, answer->problem.message);
        pthread_mutex_lock(&exporter->lock);
}

static void send_batch_locked(struct otlp_exporter *exporter) {
        size_t count = take_batch_locked(exporter);
        struct otlp_answer answer;
        bool recovered = false;

        send_locked(exporter, count, &answer);
        if (answer.verdict == OTLP_ACCEPTED) {
                recovered = exporter->failing;
                exporter->failing = exporter->overflowed = false;
                exporter->lost += answer.rejected < count ? answer.rejected : count;
        } else {
                exporter->lost += count;
                exporter->news = true;
        }
        for (size_t i = 0; i < count; i++)
                free(exporter->batch[i]);
        exporter->done += count;
        pthread_cond_broadcast(&exporter->changed);
        tell_locked(exporter, &answer, recovered);
}

static bool work_locked(const struct otlp_exporter *exporter) {
        return exporter->count > 0 && (exporter->count >= exporter->settings->batch_max || exporter->stop ||
                                       exporter->done < exporter->flush_to);
}

static void *export_run(void *data) {
        struct otlp_exporter *exporter = data;

        pthread_mutex_lock(&exporter->lock);
        for (;;) {
                bool ending = exporter->stop;

                if (work_locked(exporter)) {
                        send_batch_locked(exporter);
                        /* Nobody waits at the end for a collector that is not there. */
                        while (ending && exporter->failing && exporter->count > 0)
                                drop_oldest_locked(exporter);
                } else if (exporter->stop) {
                        break;
                } else {
                        wait_locked(exporter, 0);
                }
        }
        exporter->finished = true;
        pthread_cond_broadcast(&exporter->changed);
        pthread_mutex_unlock(&exporter->lock);
        return NULL;
}

/* ---- flush ---- */

int otlp_exporter_flush(struct otlp_exporter *exporter, struct sbx_error *err) {
        uint64_t until_ns = now_ns(exporter) + exporter->settings->timeout_ms * NS_PER_MS;
        uint64_t target;
        int r = 0;

        pthread_mutex_lock(&exporter->lock);
        target = exporter->added;
        if (exporter->flush_to < target)
                exporter->flush_to = target;
        pthread_cond_broadcast(&exporter->changed);
        while (exporter->done < target && !exporter->failing && wait_locked(exporter, until_ns))
                ;
        if (exporter->news) {
                exporter->news = false;
                r = exporter->problem.code;
                sbx_error_set(err, r, OTLP_ORIGIN, exporter->problem.hint, "%s; %llu spans wait, %llu were lost so far",
                              exporter->problem.message, (unsigned long long)(exporter->added - exporter->done),
                              (unsigned long long)exporter->lost);
        } else if (exporter->done < target && !exporter->failing) {
                r = sbx_error_set(err, -ETIMEDOUT, OTLP_ORIGIN, "Look at the collector, or raise `timeout`.",
                                  "%s is slow: %llu spans wait", exporter->settings->url_shown,
                                  (unsigned long long)(exporter->added - exporter->done));
        }
        pthread_mutex_unlock(&exporter->lock);
        return r;
}

/* ---- the whole ---- */

static void exporter_free(struct otlp_exporter *exporter) {
        if (exporter == NULL)
                return;
        while (exporter->queue != NULL && exporter->count > 0)
                free(take_first_locked(exporter));
        sbx_http_free(exporter->http);
        if (exporter->cancel_fd >= 0)
                close(exporter->cancel_fd);
        pthread_cond_destroy(&exporter->changed);
        pthread_mutex_destroy(&exporter->lock);
        free(exporter->queue);
        free(exporter->batch);
        free(exporter);
}

/* Signals are for the program's own threads. */
static int start_thread(struct otlp_exporter *exporter) {
        sigset_t all, before;
        int r;

        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        r = pthread_create(&exporter->thread, NULL, export_run, exporter);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        return -r;
}

static struct otlp_exporter *exporter_new(const struct sbx_host *host, const struct otlp_settings *settings) {
        struct otlp_exporter *exporter = calloc(1, sizeof(*exporter));
        pthread_condattr_t monotonic;

        if (exporter == NULL)
                return NULL;
        exporter->host = host;
        exporter->settings = settings;
        exporter->cancel_fd = -1;
        pthread_mutex_init(&exporter->lock, NULL);
        pthread_condattr_init(&monotonic);
        pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
        pthread_cond_init(&exporter->changed, &monotonic);
        pthread_condattr_destroy(&monotonic);
        exporter->queue = calloc(settings->queue_max, sizeof(char *));
        exporter->batch = calloc(settings->batch_max, sizeof(char *));
        if (exporter->queue != NULL && exporter->batch != NULL)
                return exporter;
        exporter_free(exporter);
        return NULL;
}

int otlp_exporter_start(const struct sbx_host *host, const struct otlp_settings *settings,
                        struct otlp_exporter **ret_exporter, struct sbx_error *err) {
        struct otlp_exporter *exporter = exporter_new(host, settings);
        int r;

        if (exporter == NULL)
                return sbx_error_set(err, -ENOMEM, OTLP_ORIGIN, "Set `queue_size` to less.",
                                     "no memory for a queue of %zu spans", settings->queue_max);
        r = otlp_http_new(host, settings, &exporter->http, err);
        if (r == 0) {
                exporter->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
                r = exporter->cancel_fd < 0 ? -errno : start_thread(exporter);
                if (r < 0)
                        sbx_error_set(err, r, OTLP_ORIGIN, "Raise the limits of files and processes (ulimit -n, -u).",
                                      "no descriptor or thread can be had to export spans");
        }
        if (r < 0) {
                exporter_free(exporter);
                return r;
        }
        *ret_exporter = exporter;
        return 0;
}

void otlp_exporter_stop(struct otlp_exporter *exporter) {
        uint64_t wake = 1;

        if (exporter == NULL)
                return;
        pthread_mutex_lock(&exporter->lock);
        exporter->stop = true;
        exporter->stop_deadline_ns = now_ns(exporter) + exporter->settings->timeout_ms * NS_PER_MS;
        pthread_cond_broadcast(&exporter->changed);
        while (!exporter->finished && wait_locked(exporter, exporter->stop_deadline_ns))
                ;
        /* It can't fail, the counter was 0; and if it did, the request's deadline would end it all the same. */
        if (!exporter->finished && write(exporter->cancel_fd, &wake, sizeof(wake)) < 0)
                exporter->failing = true;
        pthread_mutex_unlock(&exporter->lock);
        pthread_join(exporter->thread, NULL);
        if (exporter->lost > 0)
                log_lost(exporter, SBX_LOG_WARNING, "the export of spans ends", exporter->lost);
        exporter_free(exporter);
}

int otlp_exporter_try(const struct sbx_host *host, const struct otlp_settings *settings, const struct sbx_call *call,
                      struct sbx_error *err) {
        struct otlp_answer answer;
        struct sbx_http *http = NULL;
        int r = otlp_http_new(host, settings, &http, err);

        if (r < 0)
                return r;
        otlp_send(http, settings, NULL, 0, call, &answer);
        sbx_http_free(http);
        if (answer.verdict == OTLP_ACCEPTED)
                return 0;
        return sbx_error_set(err, answer.problem.code, OTLP_ORIGIN, answer.problem.hint, "%s", answer.problem.message);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What test_http.py drives: requests through one client, told on standard output, one line of `name=value` each.
 *
 *      http-test-client OPTION... URL...      each URL in turn, with the options before it
 *
 * --method M  --header "Name: value"  --body TEXT  --max BYTES  --timeout MS  --stream  --stop-after BYTES
 * --cancel-fd N  --idle MS (before the first URL)  --repeat N  --parallel N (threads, each asking --repeat times) */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <dirent.h>

#include "http.h"

struct job {
        struct sbx_http *http;
        const char *method, *url, *headers[9];
        struct sbx_bytes body;
        size_t max_bytes, stop_after, header_count;
        uint64_t timeout_ms, idle_ms;
        int cancel_fd, repeat, parallel;
        bool stream;
};

struct taken {
        size_t bytes, stop_after;
};

static pthread_mutex_t print_lock = PTHREAD_MUTEX_INITIALIZER;

static int take(void *data, struct sbx_bytes piece) {
        struct taken *taken = data;

        taken->bytes += piece.size;
        return taken->stop_after > 0 && taken->bytes >= taken->stop_after ? -EBADMSG : 0;
}

static size_t count_fds(void) {
        DIR *dir = opendir("/proc/self/fd");
        size_t count = 0;

        while (dir != NULL && readdir(dir) != NULL)
                count++;
        if (dir != NULL)
                closedir(dir);
        return count;
}

static struct sbx_call call_of(const struct job *job) {
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (struct sbx_call){sizeof(struct sbx_call), job->cancel_fd,
                                 job->timeout_ms == 0 ? 0
                                                      : (uint64_t)now.tv_sec * UINT64_C(1000000000) +
                                                                (uint64_t)now.tv_nsec + job->timeout_ms * 1000000};
}

static void ask_once(const struct job *job) {
        struct taken taken = {.stop_after = job->stop_after};
        struct sbx_http_request request = {.method = job->method,
                                           .url = job->url,
                                           .headers = job->headers,
                                           .body = job->body,
                                           .response_max_bytes = job->max_bytes,
                                           .piece = job->stream ? take : NULL,
                                           .data = &taken,
                                           .keep_header = "x-kept"};
        struct sbx_http_response response;
        struct sbx_call call = call_of(job);
        struct sbx_error err = {0};
        int r = sbx_http_perform(job->http, &request, &call, &response, &err);

        pthread_mutex_lock(&print_lock);
        printf("code=%s status=%u sent=%d size=%zu streamed=%zu type=%s id=%s kept=%s retry_after=%llu fds=%zu "
               "body=%.40s",
               r == 0 ? "0" : strerrorname_np(-r), response.status, response.sent, response.body_size, taken.bytes,
               response.content_type, response.request_id, response.kept, (unsigned long long)response.retry_after_ms,
               count_fds(), response.body != NULL ? response.body : "");
        printf(" error=%s hint=%s\n", err.message, err.hint);
        fflush(stdout);
        pthread_mutex_unlock(&print_lock);
        sbx_http_response_clear(&response);
}

static void *ask(void *data) {
        const struct job *job = data;

        for (int i = 0; i < job->repeat; i++)
                ask_once(job);
        return NULL;
}

static void run(struct job *job) {
        pthread_t threads[256];

        if (job->parallel <= 1) {
                ask(job);
                return;
        }
        for (int i = 0; i < job->parallel; i++)
                if (pthread_create(&threads[i], NULL, ask, job) != 0)
                        abort();
        for (int i = 0; i < job->parallel; i++)
                pthread_join(threads[i], NULL);
}

static bool take_option(struct job *job, const char *name, const char *value) {
        if (strcmp(name, "--method") == 0)
                job->method = value;
        else if (strcmp(name, "--header") == 0 && job->header_count < 8)
                job->headers[job->header_count++] = value;
        else if (strcmp(name, "--body") == 0)
                job->body = (struct sbx_bytes){value, strlen(value)};
        else if (strcmp(name, "--max") == 0)
                job->max_bytes = strtoul(value, NULL, 10);
        else if (strcmp(name, "--timeout") == 0)
                job->timeout_ms = strtoul(value, NULL, 10);
        else if (strcmp(name, "--idle") == 0)
                job->idle_ms = strtoul(value, NULL, 10);
        else if (strcmp(name, "--stop-after") == 0)
                job->stop_after = strtoul(value, NULL, 10);
        else if (strcmp(name, "--cancel-fd") == 0)
                job->cancel_fd = (int)strtol(value, NULL, 10);
        else if (strcmp(name, "--repeat") == 0)
                job->repeat = (int)strtol(value, NULL, 10);
        else if (strcmp(name, "--parallel") == 0)
                job->parallel = (int)strtol(value, NULL, 10);
        else
                return false;
        return true;
}

int main(int argc, char **argv) {
        struct job job = {.method = "GET",
                          .max_bytes = 1 << 20,
                          .timeout_ms = 60000,
                          .cancel_fd = -1,
                          .repeat = 1,
                          .parallel = 1};
        struct sbx_error err = {0};

        for (int i = 1; i < argc; i++) {
                if (strcmp(argv[i], "--stream") == 0)
                        job.stream = true;
                else if (i + 1 < argc && take_option(&job, argv[i], argv[i + 1]))
                        i++;
                else {
                        struct sbx_http_options options = {
                                .origin = "test", .user_agent = "test/1", .idle_timeout_ms = job.idle_ms};

                        if (job.http == NULL && sbx_http_new(&options, &job.http, &err) < 0) {
                                fprintf(stderr, "%s\n", err.message);
                                return 1;
                        }
                        job.url = argv[i];
                        run(&job);
                }
        }
        sbx_http_free(job.http);
        return 0;
}

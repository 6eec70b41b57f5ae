/* SPDX-License-Identifier: Apache-2.0 */
/* A client: its settings, and the lines (handles with open connections) that wait for the next request. */
#include "http_internal.h"

/* The only state of the process: curl wants to be set up once, and that is safe from any thread since 7.84. It is never
 * undone, since other users of libcurl in this process may not count. */
static pthread_once_t curl_once = PTHREAD_ONCE_INIT;
static CURLcode curl_ready;

static void set_up_curl(void) {
        curl_ready = curl_global_init(CURL_GLOBAL_DEFAULT);
}

static void share_lock(CURL *easy, curl_lock_data what, curl_lock_access access, void *data) {
        struct sbx_http *http = data;

        pthread_mutex_lock(&http->share_locks[what]);
}

static void share_unlock(CURL *easy, curl_lock_data what, void *data) {
        struct sbx_http *http = data;

        pthread_mutex_unlock(&http->share_locks[what]);
}

static int make_share(struct sbx_http *http) {
        http->share = curl_share_init();
        if (http->share == NULL)
                return -ENOMEM;
        if (curl_share_setopt(http->share, CURLSHOPT_LOCKFUNC, share_lock) != CURLSHE_OK ||
            curl_share_setopt(http->share, CURLSHOPT_UNLOCKFUNC, share_unlock) != CURLSHE_OK ||
            curl_share_setopt(http->share, CURLSHOPT_USERDATA, http) != CURLSHE_OK ||
            curl_share_setopt(http->share, CURLSHOPT_SHARE, CURL_LOCK_DATA_DNS) != CURLSHE_OK ||
            curl_share_setopt(http->share, CURLSHOPT_SHARE, CURL_LOCK_DATA_SSL_SESSION) != CURLSHE_OK)
                return -ENOMEM;
        return 0;
}

static int copy_text(const char *text, char **ret) {
        if (text == NULL)
                return 0;
        *ret = strdup(text);
        return *ret != NULL ? 0 : -ENOMEM;
}

int http_line_new(struct http_line **ret_line) {
        struct http_line *line = calloc(1, sizeof(*line));

        if (line == NULL)
                return -ENOMEM;
        line->multi = curl_multi_init();
        line->easy = curl_easy_init();
        if (line->multi == NULL || line->easy == NULL) {
                http_line_free(line);
                return -ENOMEM;
        }
        curl_multi_setopt(line->multi, CURLMOPT_MAXCONNECTS, (long)HTTP_LINE_CONNECTIONS);
        *ret_line = line;
        return 0;
}

void http_line_free(struct http_line *line) {
        if (line->easy != NULL)
                curl_easy_cleanup(line->easy);
        if (line->multi != NULL)
                curl_multi_cleanup(line->multi);
        free(line);
}

int sbx_http_new(const struct sbx_http_options *options, struct sbx_http **ret_http, struct sbx_error *err) {
        const char *origin = options->origin != NULL ? options->origin : "http";
        struct sbx_http *http;

        pthread_once(&curl_once, set_up_curl);
        if (curl_ready != CURLE_OK)
                return sbx_error_set(err, -ENOTSUP, origin, "Check the installation of libcurl and its TLS library.",
                                     "libcurl can't be set up: %s", curl_easy_strerror(curl_ready));
        http = calloc(1, sizeof(*http));
        if (http == NULL)
                return sbx_error_set(err, -ENOMEM, origin, NULL, "out of memory");
        http->connect_timeout_ms =
                options->connect_timeout_ms > 0 ? options->connect_timeout_ms : HTTP_CONNECT_TIMEOUT_MS;
        http->idle_timeout_ms = options->idle_timeout_ms;
        http->http1 = options->http1;
        pthread_mutex_init(&http->lock, NULL);
        for (size_t i = 0; i < CURL_LOCK_DATA_LAST; i++)
                pthread_mutex_init(&http->share_locks[i], NULL);
        if (copy_text(origin, &http->origin) < 0 || copy_text(options->user_agent, &http->user_agent) < 0 ||
            copy_text(options->proxy, &http->proxy) < 0 || copy_text(options->ca_file, &http->ca_file) < 0 ||
            copy_text(options->certificate, &http->certificate) < 0 || copy_text(options->key, &http->key) < 0 ||
            copy_text(options->unix_socket, &http->unix_socket) < 0 || make_share(http) < 0) {
                sbx_http_free(http);
                return sbx_error_set(err, -ENOMEM, origin, NULL, "out of memory");
        }
        *ret_http = http;
        return 0;
}

void sbx_http_free(struct sbx_http *http) {
        if (http == NULL)
                return;
        while (http->idle != NULL) {
                struct http_line *line = http->idle;

                http->idle = line->next;
                http_line_free(line);
        }
        if (http->share != NULL)
                curl_share_cleanup(http->share);
        for (size_t i = 0; i < CURL_LOCK_DATA_LAST; i++)
                pthread_mutex_destroy(&http->share_locks[i]);
        pthread_mutex_destroy(&http->lock);
        free(http->origin);
        free(http->user_agent);
        free(http->proxy);
        free(http->ca_file);
        free(http->certificate);
        free(http->key);
        free(http->unix_socket);
        free(http);
}

int http_line_take(struct sbx_http *http, struct http_line **ret_line) {
        struct http_line *line;

        pthread_mutex_lock(&http->lock);
        line = http->idle; /* the one used last: its connection is the likeliest to be open still */
        if (line != NULL) {
                http->idle = line->next;
                http->idle_count--;
        }
        pthread_mutex_unlock(&http->lock);
        if (line == NULL)
                return http_line_new(ret_line);
        line->next = NULL;
        *ret_line = line;
        return 0;
}

void http_line_give_back(struct sbx_http *http, struct http_line *line) {
        curl_easy_reset(line->easy); /* keeps connections; drops headers, the body and pointers to them */
        pthread_mutex_lock(&http->lock);
        if (http->idle_count < HTTP_IDLE_MAX) {
                line->next = http->idle;
                http->idle = line;
                http->idle_count++;
                line = NULL;
        }
        pthread_mutex_unlock(&http->lock);
        if (line != NULL)
                http_line_free(line);
}

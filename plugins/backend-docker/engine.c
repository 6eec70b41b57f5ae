/* SPDX-License-Identifier: Apache-2.0 */
/* The engine: the first place where one answers, and a client for it. */
#include "engine_internal.h"

#define PLACES_MAX 8
#define CONNECT_TIMEOUT_MS 10000

static int make_client(const struct engine *engine, const struct docker_options *options, struct sbx_http **ret_http,
                       struct sbx_error *err) {
        const struct engine_place *place = &engine->info.place;
        char agent[64];
        struct sbx_http_options client = {
                .origin = ENGINE_ORIGIN,
                .user_agent = agent,
                .http1 = true,
                .proxy = "", /* an engine is the user's own machine, or reached directly */
                .connect_timeout_ms = options->timeout_ms > 0 && options->timeout_ms < CONNECT_TIMEOUT_MS
                                              ? options->timeout_ms
                                              : CONNECT_TIMEOUT_MS,
        };
        struct engine_tls tls = {0};
        int r = 0;

        snprintf(agent, sizeof(agent), "snipara-sandbox/%.32s", engine->host->version);
        if (engine->info.local)
                client.unix_socket = place->address + strlen("unix://");
        if (place->tls)
                r = engine_tls_find(engine->host, options, &tls, err);
        client.ca_file = tls.ca;
        client.certificate = tls.certificate;
        client.key = tls.key;
        if (r == 0)
                r = sbx_http_new(&client, ret_http, err);
        engine_tls_clear(&tls);
        return r;
}

/* A client for the place that has asked for the version, unless that is known. */
static int open_place(const struct sbx_host *host, const struct docker_options *options,
                      const struct engine_place *place, const char *version, const struct sbx_call *call,
                      struct engine **ret_engine, struct sbx_error *err) {
        struct engine *engine;
        int r = engine_place_check(place, err);

        if (r < 0)
                return r;
        engine = calloc(1, sizeof(*engine));
        if (engine == NULL)
                return sbx_error_set(err, -ENOMEM, ENGINE_ORIGIN, NULL, "out of memory");
        engine->host = host;
        engine->timeout_ms = options->timeout_ms > 0 ? options->timeout_ms : ENGINE_TIMEOUT_MS;
        engine->info.place = *place;
        engine->info.local = strncmp(place->address, "unix://", 7) == 0;
        if (engine->info.local)
                snprintf(engine->base, sizeof(engine->base), "http://engine");
        else
                snprintf(engine->base, sizeof(engine->base), "%s://%s", place->tls ? "https" : "http",
                         place->address + strlen("tcp://"));
        r = make_client(engine, options, &engine->http, err);
        if (version != NULL)
                snprintf(engine->info.api_version, sizeof(engine->info.api_version), "%s", version);
        else if (r == 0)
                r = engine_ask_version(engine, call, err);
        if (r < 0)
                engine_free(engine);
        else
                *ret_engine = engine;
        return r;
}

int engine_place_try(const struct sbx_host *host, const struct docker_options *options,
                     const struct engine_place *place, const struct sbx_call *call, struct sbx_error *err) {
        struct engine *engine = NULL;
        int r = open_place(host, options, place, NULL, call, &engine, err);

        engine_free(engine);
        return r;
}

/* Which of two reasons tells more: something that is there beats nothing. */
static bool tells_more(int code, int than) {
        return than == 0 || (than == -ENOENT && code != -ENOENT);
}

/* Every place with its reason, as far as they fit, and what to do about the most telling one. */
struct failures {
        char text[SBX_ERROR_MESSAGE_MAX];
        size_t used;
        struct sbx_error most;
        int code;
};

static void add_failure(struct failures *failures, int code, const struct sbx_error *reason) {
        int n = snprintf(failures->text + failures->used, sizeof(failures->text) - failures->used, "%s%s",
                         failures->used > 0 ? "; " : "", reason->message);

        if (n > 0 && (size_t)n < sizeof(failures->text) - failures->used)
                failures->used += (size_t)n;
        if (tells_more(code, failures->code)) {
                failures->code = code;
                failures->most = *reason;
        }
}

static int report_failures(const struct failures *failures, struct sbx_error *err) {
        if (failures->code == -ENOENT)
                return sbx_error_set(err, -ENOENT, ENGINE_ORIGIN, ENGINE_HINT_INSTALL,
                                     "no container engine was found: %s", failures->text);
        return sbx_error_set(err, failures->code, ENGINE_ORIGIN, failures->most.hint,
                             "no container engine can be used: %s", failures->text);
}

int engine_reach(const struct sbx_host *host, const struct docker_options *options, const char *version,
                 const struct sbx_call *call, struct engine **ret_engine, struct sbx_error *err) {
        struct engine_place places[PLACES_MAX];
        struct failures failures = {.used = 0};
        int r = 0, count = engine_places(host, options, places, PLACES_MAX, err);

        if (count < 0)
                return count;
        for (int i = 0; i < count; i++) {
                struct sbx_error reason = {0};

                r = open_place(host, options, &places[i], version, call, ret_engine, count == 1 ? err : &reason);
                if (r == 0 || r == -ECANCELED || r == -ENOMEM) {
                        if (r < 0 && err != NULL && err->code == 0)
                                *err = reason;
                        return r;
                }
                add_failure(&failures, r, &reason);
        }
        return count == 1 ? r : report_failures(&failures, err);
}

static void warn_plain(const struct engine *engine) {
        char text[ENGINE_PLACE_MAX + 160];

        snprintf(text, sizeof(text),
                 "the engine at %s is reached without TLS: who is in between reads and changes all that code does",
                 engine->info.place.address);
        engine->host->log(engine->host->self, SBX_LOG_WARNING, text);
}

int engine_new(const struct sbx_host *host, const struct docker_options *options, const struct sbx_call *call,
               struct engine **ret_engine, struct sbx_error *err) {
        struct engine *engine = NULL;
        int r = engine_reach(host, options, NULL, call, &engine, err);

        if (r == 0 && !engine->info.local && !engine->info.place.tls)
                warn_plain(engine);
        if (r == 0)
                r = engine_ask_info(engine, call, err);
        if (r < 0)
                engine_free(engine);
        else
                *ret_engine = engine;
        return r;
}

void engine_free(struct engine *engine) {
        if (engine == NULL)
                return;
        sbx_http_free(engine->http);
        json_decref(engine->version);
        free(engine);
}

const struct engine_info *engine_info(const struct engine *engine) {
        return &engine->info;
}

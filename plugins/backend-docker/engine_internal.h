/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the engine share. */
#ifndef DOCKER_ENGINE_INTERNAL_H
#define DOCKER_ENGINE_INTERNAL_H

#include "engine.h"
#include "http.h"
#include "util.h"

#define ENGINE_ORIGIN "backend-docker"
#define ENGINE_TIMEOUT_MS UINT64_C(30000)
#define ENGINE_NS_PER_MS UINT64_C(1000000)
#define ENGINE_ANSWER_MAX ((size_t)4 << 20)
#define ENGINE_ITEM_MAX ((size_t)1 << 20)    /* one value of a stream of them */
#define ENGINE_ITEMS_MAX ((size_t)256 << 20) /* all of them: a pull or build that tells more has run away */

struct engine {
        const struct sbx_host *host;
        uint64_t timeout_ms;
        struct sbx_http *http;
        struct engine_info info;          /* never changes after engine_new */
        json_t *version;                  /* what it answered first; until engine_new is done */
        char base[ENGINE_PLACE_MAX + 16]; /* "http://engine", "https://host:2376"; then "/v1.41" */
};

/* engine_places.c: what can be said without connecting: a socket that was found by looking must be of root, or ours. */
int engine_place_check(const struct engine_place *place, struct sbx_error *err);

/* engine_tls.c: files that show who is who; strings are the caller's. */
struct engine_tls {
        char *ca, *certificate, *key; /* NULL: the system's; none */
};
bool engine_tls_wanted(const struct sbx_host *host, const struct docker_options *options);
int engine_tls_find(const struct sbx_host *host, const struct docker_options *options, struct engine_tls *ret_tls,
                    struct sbx_error *err);
void engine_tls_clear(struct engine_tls *tls);

/* engine_info.c: fills the engine's info from its own words; settles the version. */
int engine_ask_version(struct engine *engine, const struct sbx_call *call, struct sbx_error *err);
int engine_ask_info(struct engine *engine, const struct sbx_call *call, struct sbx_error *err);

/* engine_failure.c. The first: no answer, as plugins/http says; the second: an answer of 4xx, 5xx. */
int engine_unreachable(const struct engine_place *place, int code, const struct sbx_error *cause,
                       struct sbx_error *err);
int engine_away(const struct engine *engine, int code, const struct sbx_error *cause, struct sbx_error *err);
int engine_refused(const struct engine *engine, const char *method, const char *path, unsigned status,
                   struct sbx_bytes body, struct sbx_error *err);

/* engine_items.c: cuts a stream of JSON objects into its values. */
struct engine_items {
        int (*item)(void *data, const json_t *item);
        void *data;
        char *text; /* of the value that is not whole yet */
        size_t size, capacity;
        unsigned depth;
        bool in_string, escaped;
        int stopped; /* what `item` returned when it wanted no more */
};
int engine_items_take(struct engine_items *items, struct sbx_bytes piece);
bool engine_items_whole(const struct engine_items *items); /* nothing is left half */
void engine_items_clear(struct engine_items *items);

/* engine_ask.c: the shorter of the call's time and `timeout_ms` (0: the engine's; UINT64_MAX: the call's alone). */
struct sbx_call engine_bound(const struct engine *engine, const struct sbx_call *call, uint64_t timeout_ms);
/* Below the server's root instead of the version: "/version". */
int engine_ask_at(struct engine *engine, const char *prefix, const struct engine_request *request,
                  const struct sbx_call *call, json_t **ret_answer, struct sbx_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Removes what dead owners left: see sweep.h. */
#include <inttypes.h>

#include "owner.h"
#include "sweep_internal.h"
#include "util.h"

#define LIST_MAX ((size_t)64 << 20)
#define PATH_SIZE 512

struct round {
        const struct sweep *sweep;
        char (*dead)[LOCKS_HASH_SIZE]; /* owners whose workers are to be ended */
        bool *seen;                    /* of each: something of it was there, or may still be */
        size_t dead_count;
        struct sweep_result result;
};

/* A container, as the engine lists it; all text borrowed, checked where it is used. */
struct listed {
        const char *id, *state, *host, *owner, *scope, *guest;
};

/* `holder`: the object that has the member "Labels". */
static const char *label_of(const json_t *holder, const char *name) {
        char key[64];

        snprintf(key, sizeof(key), OWNER_LABEL_PREFIX "%s", name);
        return json_string_value(json_object_get(json_object_get(holder, "Labels"), key));
}

static bool is_container_id(const char *id) {
        size_t size = id != NULL ? strlen(id) : 0;

        return size >= 12 && size < CONTAINER_ID_MAX && strspn(id, "0123456789abcdef") == size;
}

/* False: it is not ours, whatever the engine's filter thinks. */
static bool read_item(const struct round *round, const json_t *item, struct listed *ret) {
        *ret = (struct listed){
                .id = json_string_value(json_object_get(item, "Id")),
                .state = json_string_value(json_object_get(item, "State")),
                .host = label_of(item, "host"),
                .owner = label_of(item, "owner"),
                .scope = label_of(item, "scope"),
                .guest = label_of(item, "guest"),
        };
        return is_container_id(ret->id) && ret->state != NULL && ret->scope != NULL && ret->host != NULL &&
               strcmp(ret->host, locks_host(round->sweep->locks)) == 0 && locks_is_id(ret->owner);
}

/* Does not run, for sure: Docker's words and Podman's. */
static bool is_over(const struct listed *listed) {
        static const char *const words[] = {"created", "exited", "dead", "configured", "stopped"};

        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
                if (strcmp(listed->state, words[i]) == 0)
                        return true;
        return false;
}

static bool is_for_session(const struct listed *listed) {
        return strcmp(listed->scope, "session") == 0;
}

static bool is_to_remove(const struct round *round, const struct listed *listed) {
        const struct sweep *sweep = round->sweep;

        if (strcmp(listed->owner, sweep->own) == 0)
                return sweep->own_ended && (is_for_session(listed) || is_over(listed));
        switch (locks_look(sweep->locks, listed->owner)) {
        case LOCK_FREE:
                return is_for_session(listed) || is_over(listed);
        case LOCK_MISSING:
                /* Somebody deleted it, or it was deleted with all that its owner had: nothing that runs is touched. */
                return is_over(listed);
        case LOCK_HELD:
                break;
        }
        return false;
}

void sweep_call(const struct sweep *sweep, struct sbx_call *ret_call) {
        uint64_t deadline = monotonic_ns() + sweep->timeout_ms * UINT64_C(1000000);

        *ret_call = *sweep->call;
        if (ret_call->deadline_ns == 0 || ret_call->deadline_ns > deadline)
                ret_call->deadline_ns = deadline;
}

int sweep_remove(const struct sweep *sweep, const char *id, struct sbx_error *err) {
        char path[PATH_SIZE];
        const struct engine_request request = {.method = "DELETE", .path = path};
        struct sbx_call call;
        int r;

        sweep_call(sweep, &call);
        snprintf(path, sizeof(path), "/containers/%s?force=1&v=1", id);
        r = engine_ask(sweep->engine, &request, &call, NULL, err);
        if (r == -ENOENT && err != NULL)
                *err = (struct sbx_error){0};
        return r == -ENOENT ? 0 : r;
}

/* Its file stays, so that another round looks at it again. */
static void note_owner(struct round *round, const char *owner) {
        for (size_t i = 0; i < round->dead_count; i++)
                if (strcmp(round->dead[i], owner) == 0)
                        round->seen[i] = true;
}

static void note_all(struct round *round) {
        for (size_t i = 0; i < round->dead_count; i++)
                round->seen[i] = true;
}

static int handle(struct round *round, const json_t *item, struct sbx_error *err) {
        struct listed listed;
        int r = 0;

        if (!read_item(round, item, &listed))
                return 0;
        if (is_to_remove(round, &listed)) {
                note_owner(round, listed.owner);
                r = sweep_remove(round->sweep, listed.id, err);
                if (r == 0)
                        round->result.removed++;
                else
                        round->result.left++;
        } else if (!is_for_session(&listed) && strcmp(listed.state, "running") == 0 && round->sweep->visit &&
                   round->dead_count > 0) {
                r = visit_container(round->sweep, listed.id, listed.guest, round->dead, round->dead_count, err);
                if (r > 0)
                        round->result.removed++;
                if (r < 0 && r != -ENOENT && r != -EBUSY) {
                        note_all(round);
                        round->result.left++;
                }
        }
        return r == -ECANCELED ? r : 0;
}

/* Only containers with our host label. */
static int list(const struct sweep *sweep, json_t **ret_items, struct sbx_error *err) {
        char path[PATH_SIZE] = "/containers/json?all=1&filters=", filter[PATH_SIZE / 2];
        const struct engine_request request = {.method = "GET", .path = path, .answer_max_bytes = LIST_MAX};
        struct sbx_call call;
        json_t *items = NULL;
        int r;

        snprintf(filter, sizeof(filter), "{\"label\":[\"" OWNER_LABEL_PREFIX "host=%s\"]}", locks_host(sweep->locks));
        r = engine_escape(path, sizeof(path), filter);
        if (r < 0)
                return sbx_error_set(err, r, DOCKER_ORIGIN, NULL, "the filter of containers is too long");
        sweep_call(sweep, &call);
        r = engine_ask(sweep->engine, &request, &call, &items, err);
        if (r < 0)
                return r;
        if (!json_is_array(items)) {
                json_decref(items);
                return sbx_error_set(err, -EPROTO, DOCKER_ORIGIN, "run `snipara-sandbox doctor`",
                                     "the engine's list of containers is no list");
        }
        *ret_items = items;
        return 0;
}

static int find_dead(struct round *round) {
        int r = locks_dead(round->sweep->locks, &round->dead, &round->dead_count);

        if (r < 0)
                return r;
        round->seen = calloc(round->dead_count + 1, sizeof(*round->seen));
        return round->seen == NULL ? -ENOMEM : 0;
}

/* The files of owners of whom nothing is left. */
static void forget(const struct round *round) {
        for (size_t i = 0; i < round->dead_count; i++)
                if (!round->seen[i] && strcmp(round->dead[i], round->sweep->own) != 0)
                        locks_forget(round->sweep->locks, round->dead[i]);
}

int sweep_round(const struct sweep *sweep, struct sweep_result *ret_result, struct sbx_error *err) {
        struct round round = {.sweep = sweep};
        _cleanup_json_ json_t *items = NULL;
        const json_t *item;
        size_t i;
        /* The dead first: of an owner that dies after the list was made, something may be missing in it. */
        int r = find_dead(&round);

        if (r < 0)
                r = sbx_error_set(err, r, DOCKER_ORIGIN, NULL, "out of memory");
        if (r == 0)
                r = list(sweep, &items, err);
        if (r == 0)
                json_array_foreach (items, i, item)
                        if (r == 0)
                                r = handle(&round, item, err);
        if (r == 0 && sweep->visit)
                forget(&round);
        free(round.dead);
        free(round.seen);
        if (r == 0)
                *ret_result = round.result;
        return r;
}

int sweep_name(const struct sweep *sweep, const char *name, struct sbx_error *err) {
        char path[PATH_SIZE] = "/containers/";
        const struct engine_request request = {.method = "GET", .path = path};
        _cleanup_json_ json_t *inspected = NULL;
        const json_t *config;
        const char *id, *owner, *host;
        struct sbx_call call;
        int r = engine_escape(path, sizeof(path) - sizeof("/json"), name);

        if (r < 0)
                return sbx_error_set(err, r, DOCKER_ORIGIN, NULL, "the name of a container is too long");
        strncat(path, "/json", sizeof(path) - strlen(path) - 1);
        sweep_call(sweep, &call);
        r = engine_ask(sweep->engine, &request, &call, &inspected, NULL);
        if (r < 0)
                return r == -ENOENT ? 0 : sbx_error_set(err, r, DOCKER_ORIGIN, NULL, "a container can't be looked for");
        config = json_object_get(inspected, "Config");
        id = json_string_value(json_object_get(inspected, "Id"));
        owner = label_of(config, "owner");
        host = label_of(config, "host");
        if (!is_container_id(id) || owner == NULL || strcmp(owner, sweep->own) != 0 || host == NULL ||
            strcmp(host, locks_host(sweep->locks)) != 0)
                return sbx_error_set(err, -EPERM, DOCKER_ORIGIN, NULL, "a container has our name and not our labels");
        r = sweep_remove(sweep, id, err);
        return r < 0 ? r : 1;
}

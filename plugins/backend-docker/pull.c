/* SPDX-License-Identifier: Apache-2.0 */
/* Pulling an image: POST /images/create (https://docs.docker.com/engine/api/v1.41/#operation/ImageCreate), whose answer
 * is a stream of what goes on, and which may fail after it has begun. */
#include <strings.h>

#include "image_internal.h"
#include "util.h"

#define LAYERS_MAX 256u /* more are pulled, but not counted */
#define LAYER_ID_MAX 80
#define PROBLEM_MAX 512
#define PATH_SIZE (6 * IMAGE_REFERENCE_MAX + 64)
#define MEGABYTE 1000000

struct layer {
        char id[LAYER_ID_MAX];
        int64_t current, total;
        bool loaded, done;
};

struct pull {
        const char *image;
        const struct sbx_call *call;
        struct layer *layers;
        size_t count;
        char problem[PROBLEM_MAX]; /* what the engine says went wrong; "": nothing */
};

/* ---- progress ---- */

static struct layer *layer_of(struct pull *pull, const char *id) {
        if (strlen(id) >= LAYER_ID_MAX)
                return NULL;
        for (size_t i = 0; i < pull->count; i++)
                if (strcmp(pull->layers[i].id, id) == 0)
                        return &pull->layers[i];
        if (pull->count == LAYERS_MAX)
                return NULL;
        pull->layers[pull->count] = (struct layer){0};
        snprintf(pull->layers[pull->count].id, LAYER_ID_MAX, "%s", id);
        return &pull->layers[pull->count++];
}

static void update_layer(struct layer *layer, const char *status, const json_t *detail) {
        int64_t current = json_integer_value(json_object_get(detail, "current")),
                total = json_integer_value(json_object_get(detail, "total"));

        if (strcasecmp(status, "Downloading") == 0 && current >= 0 && current <= total &&
            total <= INT64_MAX / LAYERS_MAX) {
                layer->current = current;
                layer->total = total;
        } else if (strcasecmp(status, "Download complete") == 0 || strcasecmp(status, "Extracting") == 0) {
                layer->loaded = true;
        } else if (strcasecmp(status, "Pull complete") == 0 || strcasecmp(status, "Already exists") == 0) {
                layer->loaded = layer->done = true;
        }
        if (layer->loaded)
                layer->current = layer->total;
}

static void tell(const struct pull *pull) {
        int64_t current = 0, total = 0;
        size_t loaded = 0, done = 0;
        char line[IMAGE_REFERENCE_MAX + 128];

        for (size_t i = 0; i < pull->count; i++) {
                current += pull->layers[i].current;
                total += pull->layers[i].total;
                loaded += pull->layers[i].loaded;
                done += pull->layers[i].done;
        }
        if (loaded < pull->count && total > 0)
                snprintf(line, sizeof(line), "pulling %s: %lld of %lld MB", pull->image,
                         (long long)((current + MEGABYTE - 1) / MEGABYTE),
                         (long long)((total + MEGABYTE - 1) / MEGABYTE));
        else if (loaded == pull->count && pull->count > 0)
                snprintf(line, sizeof(line), "pulling %s: unpacking, %zu of %zu layers are done", pull->image, done,
                         pull->count);
        else
                snprintf(line, sizeof(line), "pulling %s", pull->image);
        sbx_call_progress(pull->call, line);
}

static int take_item(void *data, const json_t *item) {
        struct pull *pull = data;
        const char *status = json_string_value(json_object_get(item, "status")),
                   *id = json_string_value(json_object_get(item, "id")),
                   *problem = json_string_value(json_object_get(json_object_get(item, "errorDetail"), "message"));
        struct layer *layer;

        if (problem == NULL)
                problem = json_string_value(json_object_get(item, "error"));
        if (problem != NULL && pull->problem[0] == '\0')
                image_take_words(pull->problem, sizeof(pull->problem), problem);
        /* "Pulling from library/python" has the tag as its id. */
        if (status == NULL || id == NULL || strncasecmp(status, "Pulling from", 12) == 0)
                return 0;
        layer = layer_of(pull, id);
        if (layer != NULL)
                update_layer(layer, status, json_object_get(item, "progressDetail"));
        tell(pull);
        return 0;
}

/* ---- failures ---- */

/* Engines tell why a registry did not give an image in words alone. */
static const struct {
        int code;
        const char *words;
} reasons[] = {
        {-ENOSPC, "no space left"},
        {-EACCES, "unauthorized"},
        {-EACCES, "authentication required"},
        {-EACCES, "access denied"},
        {-EACCES, "access to the resource is denied"},
        {-EACCES, "no basic auth credentials"},
        {-EACCES, "403 forbidden"},
        {-ENOENT, "manifest unknown"},
        {-ENOENT, "not found"},
        {-ENOENT, "name unknown"},
        {-EHOSTUNREACH, "no such host"},
        {-EHOSTUNREACH, "server misbehaving"},
        {-EHOSTUNREACH, "connection refused"},
        {-EHOSTUNREACH, "connection reset"},
        {-EHOSTUNREACH, "unreachable"},
        {-EHOSTUNREACH, "timeout"},
        {-EHOSTUNREACH, "timed out"},
        {-EHOSTUNREACH, "deadline exceeded"},
        {-EHOSTUNREACH, "dial tcp"},
        {-EHOSTUNREACH, "name resolution"},
        {-EHOSTUNREACH, "no route to host"},
        {-EHOSTUNREACH, ": eof"},
};

static int reason_of(const char *problem, int otherwise) {
        for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
                if (strcasestr(problem, reasons[i].words) != NULL)
                        return reasons[i].code;
        return otherwise;
}

static int explain(const struct pull *pull, const struct docker *docker, const struct image_reference *reference,
                   int code, const char *problem, struct sbx_error *err) {
        const char *tool = strcmp(engine_info(docker->engine)->name, "podman") == 0 ? "podman" : "docker";
        char hint[SBX_ERROR_HINT_MAX];

        switch (code) {
        case -EHOSTUNREACH:
                snprintf(hint, sizeof(hint),
                         "Where there is a network: %s pull %.120s && %s save -o image.tar %.120s . Here: %s load -i "
                         "image.tar . Or set docker_image (or runtimes) to an image that is there.",
                         tool, pull->image, tool, pull->image, tool);
                return sbx_error_set(err, code, DOCKER_ORIGIN, hint, "no registry can be reached for the image %s: %s",
                                     pull->image, problem);
        case -EACCES:
                snprintf(hint, sizeof(hint), "Check the name, then log in: %s login %.200s", tool, reference->registry);
                return sbx_error_set(err, code, DOCKER_ORIGIN, hint, "%s does not hand out the image %s: %s",
                                     reference->registry, pull->image, problem);
        case -ENOENT:
                return sbx_error_set(err, code, DOCKER_ORIGIN,
                                     "Check the name: docker_image, or the plugin's options image and runtimes.",
                                     "there is no image %s at %s: %s", pull->image, reference->registry, problem);
        case -ENOSPC:
                snprintf(hint, sizeof(hint), "Make room on the engine's disk: %s system df; %s image prune", tool,
                         tool);
                return sbx_error_set(err, code, DOCKER_ORIGIN, hint, "no room for the image %s: %s", pull->image,
                                     problem);
        default:
                snprintf(hint, sizeof(hint), "Try it by hand: %s pull %.300s", tool, pull->image);
                return sbx_error_set(err, code, DOCKER_ORIGIN, hint, "can't pull the image %s: %s", pull->image,
                                     problem);
        }
}

/* ---- the request ---- */

static int make_path(const struct image_reference *reference, char path[PATH_SIZE]) {
        int r;

        snprintf(path, PATH_SIZE, "/images/create?fromImage=");
        r = engine_escape(path, PATH_SIZE, reference->repository);
        if (r == 0 && strlen(path) + 6 > PATH_SIZE)
                r = -ENAMETOOLONG;
        if (r == 0) {
                memcpy(path + strlen(path), "&tag=", 6);
                r = engine_escape(path, PATH_SIZE, reference->tag);
        }
        return r;
}

static int make_header(const struct docker *docker, const char *image, char **ret_header, struct sbx_error *err) {
        _cleanup_secret_ char *value = NULL, *header = NULL;
        int r = credentials_for(docker, image, &value, err);

        if (r < 0 || value[0] == '\0')
                return r;
        if (asprintf(&header, "X-Registry-Auth: %s", value) < 0) {
                header = NULL;
                return sbx_error_set(err, -ENOMEM, DOCKER_ORIGIN, NULL, "out of memory");
        }
        *ret_header = steal_pointer(header);
        return 0;
}

/* Without which of the engine's own requests they answer. */
static const char *registry_words(const char *message) {
        static const char request[] = "/images/create: ";
        const char *found = strstr(message, request);

        return found != NULL ? found + strlen(request) : message;
}

/* An engine that did not answer at all says so itself. */
static bool is_the_engines(int code) {
        return code == -ETIMEDOUT || code == -ECANCELED || code == -ENOMEM || code == -ECONNREFUSED ||
               code == -ECONNRESET || code == -EFBIG || code == -EPROTO;
}

int image_pull(struct docker *docker, const char *image, const struct sbx_call *call, struct sbx_error *err) {
        struct image_reference reference;
        struct pull pull = {.image = image, .call = call};
        _cleanup_free_ struct layer *layers = calloc(LAYERS_MAX, sizeof(*layers));
        _cleanup_secret_ char *header = NULL;
        struct sbx_error own = {0};
        char path[PATH_SIZE];
        struct engine_request request = {
                .method = "POST",
                .path = path,
                .timeout_ms = UINT64_MAX,
                .answer_max_bytes = IMAGE_STREAM_MAX,
                .item = take_item,
                .data = &pull,
        };
        int r = image_reference_parse(image, &reference, err);

        if (r == 0 && layers == NULL)
                r = sbx_error_set(err, -ENOMEM, DOCKER_ORIGIN, NULL, "out of memory");
        if (r == 0)
                r = make_header(docker, image, &header, err);
        if (r < 0)
                return r;
        pull.layers = layers;
        request.header = header;
        r = make_path(&reference, path);
        if (r < 0)
                return sbx_error_set(err, r, DOCKER_ORIGIN, NULL, "the name of the image is too long: %.200s", image);
        tell(&pull);
        r = engine_ask(docker->engine, &request, call, NULL, &own);
        if (pull.problem[0] != '\0')
                return explain(&pull, docker, &reference, reason_of(pull.problem, -EIO), pull.problem, err);
        if (r < 0 && is_the_engines(r))
                return sbx_error_set(err, r, DOCKER_ORIGIN, own.hint, "while pulling %s: %s", image, own.message);
        if (r == 0)
                return 0;
        image_take_words(pull.problem, sizeof(pull.problem), registry_words(own.message));
        return explain(&pull, docker, &reference, reason_of(own.message, r), pull.problem, err);
}

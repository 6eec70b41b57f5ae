/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin's operations on images: bring those that are needed, list them, remove prepared ones of the past. */
#include <time.h>

#include "image_internal.h"
#include "util.h"

#define PATH_SIZE 1024
#define LISTED_MAX 4096u

static int nomem(struct sbx_error *err) {
        return sbx_error_set(err, -ENOMEM, DOCKER_ORIGIN, NULL, "out of memory");
}

/* ---- prepare ---- */

/* Whether the configuration itself names the runtime, beyond the built-in map. */
static bool is_named(const struct docker *docker, const struct docker_runtime *runtime) {
        const struct sbx_host *host = docker->host;
        size_t length = strlen(runtime->name), count = host->option_count(host->self, "runtimes");

        for (size_t i = 0; i < count; i++) {
                const char *item = host->option_item(host->self, "runtimes", i);

                if (item != NULL && strncmp(item, runtime->name, length) == 0 &&
                    (item[length] == '=' || item[length] == ':'))
                        return true;
        }
        return false;
}

/* The ordinary runtime and those that the configuration names are brought; of the others, those whose image is there
 * already are prepared: nobody who runs Python alone wants to wait for three versions of Node. */
static int is_wanted(struct docker *docker, const struct docker_runtime *runtime, const struct sbx_call *call,
                     bool *ret_wanted, struct sbx_error *err) {
        struct image_facts facts;
        struct sbx_error own = {0};
        int r;

        *ret_wanted = strcmp(runtime->name, "python") == 0 || is_named(docker, runtime);
        if (*ret_wanted || !image_is_prepared(docker, runtime))
                return 0;
        r = image_inspect(docker, runtime->image, call, &facts, &own);
        if (r < 0 && r != -ENOENT)
                return sbx_error_set(err, r, DOCKER_ORIGIN, own.hint, "%s", own.message);
        *ret_wanted = r == 0;
        return 0;
}

int docker_prepare(void *instance, const struct sbx_call *call, struct sbx_error *err) {
        struct docker *docker = instance;
        int r = 0;

        for (size_t i = 0; i < docker->options.runtime_count && r == 0; i++) {
                const struct docker_runtime *runtime = &docker->options.runtimes[i];
                bool wanted;

                r = is_wanted(docker, runtime, call, &wanted, err);
                if (r == 0 && wanted)
                        r = image_refresh(docker->images, runtime, call, err);
        }
        return r;
}

/* ---- what there is ---- */

/* A list of the engine's, asked for with a filter. */
static int ask_list(struct docker *docker, const char *path, const char *filter, const struct sbx_call *call,
                    json_t **ret_list, struct sbx_error *err) {
        char full[PATH_SIZE];
        struct engine_request request = {.method = "GET", .path = full, .answer_max_bytes = (size_t)16 << 20};
        _cleanup_json_ json_t *list = NULL;
        int r;

        snprintf(full, sizeof(full), "%s", path);
        r = engine_escape(full, sizeof(full), filter);
        if (r < 0)
                return sbx_error_set(err, r, DOCKER_ORIGIN, NULL, "a filter is too long");
        r = engine_ask(docker->engine, &request, call, &list, err);
        if (r < 0)
                return r;
        if (!json_is_array(list) || json_array_size(list) > LISTED_MAX)
                return sbx_error_set(err, -EPROTO, DOCKER_ORIGIN, "Is it a container engine that answers there?",
                                     "the engine's list is none, or too long");
        *ret_list = steal_pointer(list);
        return 0;
}

/* Those that were prepared for this project. */
static int list_prepared(struct docker *docker, const struct sbx_call *call, json_t **ret_list, struct sbx_error *err) {
        char project[PROJECT_HASH_MAX], filter[256];
        int r = prepared_project(docker, project, err);

        if (r < 0)
                return r;
        snprintf(filter, sizeof(filter), "{\"label\":[\"%s=%s\"]}", PREPARED_LABEL_PROJECT, project);
        return ask_list(docker, "/images/json?filters=", filter, call, ret_list, err);
}

/* The ids of images that containers, running or not, are made of. */
static int list_used(struct docker *docker, const struct sbx_call *call, json_t **ret_ids, struct sbx_error *err) {
        _cleanup_json_ json_t *containers = NULL, *ids = json_object();
        const json_t *container;
        size_t i;
        int r = ids != NULL ? ask_list(docker, "/containers/json?all=1&filters=", "{}", call, &containers, err)
                            : nomem(err);

        if (r < 0)
                return r;
        json_array_foreach(containers, i, container) {
                const char *id = json_string_value(json_object_get(container, "ImageID"));
                char full[IMAGE_ID_MAX];

                if (id == NULL || !image_id_ok(id))
                        continue;
                snprintf(full, sizeof(full), "%s%s", strncmp(id, "sha256:", 7) == 0 ? "" : "sha256:", id);
                if (json_object_set_new(ids, full, json_true()) < 0)
                        return nomem(err);
        }
        *ret_ids = steal_pointer(ids);
        return 0;
}

/* Podman writes out "docker.io/library/" and "localhost/". */
static const char *short_name(const char *name) {
        static const char *const prefixes[] = {"docker.io/library/", "localhost/"};

        for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
                if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
                        return name + strlen(prefixes[i]);
        return name;
}

/* The name that prepare gave; NULL: it has lost it to a newer image. */
static const char *name_of(const json_t *image) {
        const json_t *tags = json_object_get(image, "RepoTags"), *tag;
        size_t i;

        json_array_foreach((json_t *)tags, i, tag) {
                const char *name = json_string_value(tag);

                if (name != NULL &&
                    strncmp(short_name(name), PREPARED_REPOSITORY ":", sizeof(PREPARED_REPOSITORY)) == 0)
                        return short_name(name);
        }
        return NULL;
}

/* The names of prepared images that the configuration asks for now, by those base images that are there. */
static int wanted_names(struct docker *docker, const struct sbx_call *call, json_t **ret_names, struct sbx_error *err) {
        _cleanup_json_ json_t *names = json_object();

        for (size_t i = 0; i < docker->options.runtime_count; i++) {
                const struct docker_runtime *runtime = &docker->options.runtimes[i];
                char name[PREPARED_NAME_MAX];
                struct sbx_error own = {0};
                struct image_facts facts;
                int r;

                if (!image_is_prepared(docker, runtime))
                        continue;
                r = image_inspect(docker, runtime->image, call, &facts, &own);
                if (r == -ENOENT)
                        continue;
                if (r < 0)
                        return sbx_error_set(err, r, DOCKER_ORIGIN, own.hint, "%s", own.message);
                r = prepared_name(docker, facts.id, name, sizeof(name), err);
                if (r < 0)
                        return r;
                if (json_object_get(names, name) == NULL &&
                    json_object_set_new(names, name, json_string(runtime->name)) < 0)
                        return nomem(err);
        }
        *ret_names = json_incref(names);
        return names != NULL ? 0 : nomem(err);
}

/* ---- list ---- */

static int add_row(json_t *rows, json_t *row, struct sbx_error *err) {
        return json_array_append_new(rows, row) < 0 ? nomem(err) : 0;
}

static int add_named(struct docker *docker, const struct docker_runtime *runtime, const json_t *used,
                     const struct sbx_call *call, json_t *rows, struct sbx_error *err) {
        struct sbx_error own = {0};
        struct image_facts facts = {0};
        int r = image_inspect(docker, runtime->image, call, &facts, &own);

        if (r < 0 && r != -ENOENT)
                return sbx_error_set(err, r, DOCKER_ORIGIN, own.hint, "%s", own.message);
        return add_row(rows,
                       json_pack("{s:s?, s:s, s:s, s:o, s:s?, s:b, s:b}", "id", r == 0 ? facts.id : NULL, "name",
                                 runtime->image, "runtime", runtime->name, "size",
                                 r == 0 ? json_integer(facts.size) : json_null(), "created",
                                 facts.created[0] != '\0' ? facts.created : NULL, "prepared", 0, "in_use",
                                 r == 0 && json_object_get(used, facts.id) != NULL),
                       err);
}

/* A project that nothing can be prepared for is no reason not to show what there is. */
static int wanted_if_any(struct docker *docker, const struct sbx_call *call, json_t **ret_names,
                         struct sbx_error *err) {
        struct sbx_error own = {0};
        int r = wanted_names(docker, call, ret_names, &own);

        if (r == -EINVAL || r == -ENOENT || r == -EACCES || r == -EFBIG) {
                docker_log(docker, SBX_LOG_WARNING, "no image can be prepared for the project: %s", own.message);
                *ret_names = json_object();
                r = *ret_names != NULL ? 0 : -ENOMEM;
        }
        return r < 0 ? sbx_error_set(err, r, DOCKER_ORIGIN, own.hint, "%s", own.message) : 0;
}

static void format_time(json_int_t seconds, char text[32]) {
        time_t when = (time_t)seconds;
        struct tm parts;

        if (seconds <= 0 || gmtime_r(&when, &parts) == NULL || strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
                text[0] = '\0';
}

static int add_prepared(const json_t *image, const json_t *used, const json_t *wanted, json_t *rows,
                        struct sbx_error *err) {
        const char *id = json_string_value(json_object_get(image, "Id")), *name = name_of(image);
        const json_t *runtime = name != NULL ? json_object_get(wanted, name) : NULL;
        char created[32];

        if (id == NULL || !image_id_ok(id))
                return 0;
        format_time(json_integer_value(json_object_get(image, "Created")), created);
        return add_row(rows,
                       json_pack("{s:s, s:s?, s:s?, s:I, s:s?, s:b, s:b}", "id", id, "name", name, "runtime",
                                 json_string_value(runtime), "size", json_integer_value(json_object_get(image, "Size")),
                                 "created", created[0] != '\0' ? created : NULL, "prepared", 1, "in_use",
                                 runtime != NULL || json_object_get(used, id) != NULL),
                       err);
}

static int answer(const struct docker *docker, const json_t *value, struct sbx_output *ret_json,
                  struct sbx_error *err) {
        _cleanup_free_ char *text = json_dumps(value, JSON_COMPACT);
        int r = text != NULL ? docker->host->output_append(docker->host->self, ret_json, text, strlen(text)) : -ENOMEM;

        return r < 0 ? sbx_error_set(err, r, DOCKER_ORIGIN, NULL, "the answer can't be given: %s", strerror(-r)) : 0;
}

int docker_images(void *instance, const struct sbx_call *call, struct sbx_output *ret_json, struct sbx_error *err) {
        _cleanup_json_ json_t *rows = json_array(), *used = NULL, *prepared = NULL, *wanted = NULL;
        struct docker *docker = instance;
        const json_t *image;
        size_t i;
        int r = rows != NULL ? list_used(docker, call, &used, err) : nomem(err);

        for (i = 0; r == 0 && i < docker->options.runtime_count; i++)
                r = add_named(docker, &docker->options.runtimes[i], used, call, rows, err);
        if (r == 0)
                r = wanted_if_any(docker, call, &wanted, err);
        if (r == 0)
                r = list_prepared(docker, call, &prepared, err);
        if (r < 0)
                return r;
        json_array_foreach(prepared, i, image) {
                r = add_prepared(image, used, wanted, rows, err);
                if (r < 0)
                        return r;
        }
        return answer(docker, rows, ret_json, err);
}

/* ---- prune ---- */

static int remove_image(struct docker *docker, const char *name, const struct sbx_call *call, struct sbx_error *err) {
        char path[PATH_SIZE] = "/images/";
        struct engine_request request = {.method = "DELETE", .path = path};
        _cleanup_json_ json_t *ignored = NULL;
        int r = engine_escape(path, sizeof(path), name);

        return r < 0 ? r : engine_ask(docker->engine, &request, call, &ignored, err);
}

/* One that is in use stays, and so does one that somebody else removes at the same time. */
static int prune_one(struct docker *docker, const json_t *image, const json_t *used, const json_t *wanted,
                     const struct sbx_call *call, json_t *removed, int64_t *bytes, struct sbx_error *err) {
        const char *id = json_string_value(json_object_get(image, "Id")), *name = name_of(image);
        struct sbx_error own = {0};
        int r;

        if (id == NULL || !image_id_ok(id) || json_object_get(used, id) != NULL ||
            (name != NULL && json_object_get(wanted, name) != NULL))
                return 0;
        r = remove_image(docker, name != NULL ? name : id, call, &own);
        if (r == -EBUSY || r == -ENOENT) {
                docker_log(docker, SBX_LOG_INFO, "the image %s stays: %s", name != NULL ? name : id, own.message);
                return 0;
        }
        if (r < 0)
                return sbx_error_set(err, r, DOCKER_ORIGIN, own.hint, "%s", own.message);
        *bytes += json_integer_value(json_object_get(image, "Size"));
        return json_array_append_new(removed, json_string(name != NULL ? name : id)) < 0 ? nomem(err) : 0;
}

int docker_images_prune(void *instance, const struct sbx_call *call, struct sbx_output *ret_json,
                        struct sbx_error *err) {
        _cleanup_json_ json_t *removed = json_array(), *used = NULL, *prepared = NULL, *wanted = NULL, *result = NULL;
        struct docker *docker = instance;
        const json_t *image;
        int64_t bytes = 0;
        size_t i;
        int r = removed != NULL ? list_used(docker, call, &used, err) : nomem(err);

        if (r == 0)
                r = wanted_names(docker, call, &wanted, err);
        if (r == 0)
                r = list_prepared(docker, call, &prepared, err);
        if (r < 0)
                return r;
        json_array_foreach(prepared, i, image) {
                r = prune_one(docker, image, used, wanted, call, removed, &bytes, err);
                if (r < 0)
                        return r;
        }
        result = json_pack("{s:O, s:I}", "removed", removed, "bytes", (json_int_t)bytes);
        return result != NULL ? answer(docker, result, ret_json, err) : nomem(err);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Images prepared for the project: their names, and building them
 * (https://docs.docker.com/engine/api/v1.41/#operation/ImageBuild). */
#include <sys/random.h>
#include <sys/stat.h>
#include <fcntl.h>

#include "prepare_internal.h"
#include "util.h"

#define NAME_DIGITS 32
#define TAIL_LINES 12
#define TAIL_MAX 640
#define PROBLEM_MAX 256
#define FILTER_MAX 512

/* ---- whose, and of what ---- */

int prepared_directory(const struct docker *docker, const char **ret_path, struct sbx_error *err) {
        const char *path = docker->options.workspace_path;

        if (path == NULL)
                path = docker->host->directory(docker->host->self, "project");
        if (path == NULL)
                return sbx_error_set(err, -EINVAL, DOCKER_ORIGIN, "Set workspace_path.",
                                     "no directory is known as the project to prepare an image for");
        *ret_path = path;
        return 0;
}

static size_t read_machine(char *text, size_t size) {
        _cleanup_close_ int fd = open("/etc/machine-id", O_RDONLY | O_CLOEXEC | O_NOCTTY);
        ssize_t n = fd >= 0 ? read(fd, text, size) : 0;

        return n > 0 ? (size_t)n : 0;
}

int prepared_project(const struct docker *docker, char ret_hash[PROJECT_HASH_MAX], struct sbx_error *err) {
        _cleanup_free_ char *resolved = NULL;
        char machine[64], user[32];
        const char *path;
        SHA2_CTX hash;
        int r = prepared_directory(docker, &path, err);

        if (r < 0)
                return r;
        resolved = realpath(path, NULL);
        if (resolved != NULL)
                path = resolved;
        SHA256Init(&hash);
        SHA256Update(&hash, (const uint8_t *)machine, read_machine(machine, sizeof(machine)));
        snprintf(user, sizeof(user), "\n%lu\n", (unsigned long)geteuid());
        SHA256Update(&hash, (const uint8_t *)user, strlen(user));
        SHA256Update(&hash, (const uint8_t *)path, strlen(path));
        SHA256End(&hash, ret_hash);
        return 0;
}

/* The recipe for the project as it is now, and its context. */
static int make_context(struct docker *docker, const char *base_id, const char *labels, bool archive,
                        const struct sbx_call *call, struct context *ret_context, struct sbx_error *err) {
        _cleanup_free_ char *recipe = NULL, *text = NULL;
        enum context_what what = CONTEXT_NOTHING;
        struct project_facts facts = {0};
        const char *directory;
        int r = prepared_directory(docker, &directory, err);

        if (r == 0)
                r = project_look(directory, &facts, err);
        if (r == 0)
                r = recipe_make(&docker->options, &facts, &recipe, &what, err);
        if (r < 0)
                return r;
        if (asprintf(&text, "FROM %s\n%s%s", base_id, labels, recipe) < 0) {
                text = NULL;
                return sbx_error_set(err, -ENOMEM, DOCKER_ORIGIN, NULL, "out of memory");
        }
        return context_make(directory, what, (struct sbx_bytes){text, strlen(text)}, archive, call, ret_context, err);
}

int prepared_name(struct docker *docker, const char *base_id, char *ret_name, size_t size, struct sbx_error *err) {
        struct context context;
        int r = make_context(docker, base_id, "", false, NULL, &context, err);

        if (r < 0)
                return r;
        snprintf(ret_name, size, "%s:%.*s", PREPARED_REPOSITORY, NAME_DIGITS, context.hash);
        context_clear(&context);
        return 0;
}

/* ---- building ---- */

struct build {
        struct docker *docker;
        const struct sbx_call *call;
        struct build_log log;
        char problem[PROBLEM_MAX]; /* "": it goes well */
        char id[33];               /* of this one build */
};

static int take_item(void *data, const json_t *item) {
        struct build *build = data;
        const char *text = json_string_value(json_object_get(item, "stream")),
                   *problem = json_string_value(json_object_get(json_object_get(item, "errorDetail"), "message"));
        char line[256];

        if (problem == NULL)
                problem = json_string_value(json_object_get(item, "error"));
        if (problem != NULL && build->problem[0] == '\0')
                image_take_words(build->problem, sizeof(build->problem), problem);
        if (text == NULL)
                return 0;
        build_log_add(&build->log, text);
        snprintf(line, sizeof(line), "preparing an image for the project%s%s: %s",
                 build->log.step[0] != '\0' ? ", step " : "", build->log.step, build->log.line);
        sbx_call_progress(build->call, line);
        return 0;
}

/* What is left of a build that failed: nothing has a name, but all of it has this build's label. */
static void remove_rest(const struct build *build) {
        char path[FILTER_MAX] = "/images/prune?filters=", filters[256];
        /* Whoever ended the build wants to go on, and the engine may be why it ended. */
        struct engine_request request = {.method = "POST", .path = path, .timeout_ms = 5000};
        _cleanup_json_ json_t *answer = NULL;
        struct sbx_error ignored = {0};

        snprintf(filters, sizeof(filters), "{\"dangling\":{\"true\":true},\"label\":{\"%s=%s\":true}}",
                 PREPARED_LABEL_BUILD, build->id);
        if (engine_escape(path, sizeof(path), filters) == 0 &&
            engine_ask(build->docker->engine, &request, NULL, &answer, &ignored) < 0)
                docker_log(build->docker, SBX_LOG_DEBUG, "layers of a failed build are left: %s", ignored.message);
}

static const char *hint_of(const struct build *build) {
        if (strstr(build->log.text, "No module named pip") != NULL || strstr(build->problem, "\"python3\"") != NULL)
                return "Choose an image with Python and pip (docker_image = \"python:3.12-slim\"), or set "
                       "workspace_setup = \"none\".";
        if (strstr(build->log.text, "name resolution") != NULL || strstr(build->log.text, "NewConnectionError") != NULL)
                return "The build needs a network to install from; set workspace_setup = \"none\" to do without, or "
                       "choose an image that has what the project needs.";
        if (strstr(build->log.text, "setuptools-scm") != NULL || strstr(build->log.text, "setuptools_scm") != NULL)
                return "The version comes from Git, which is not in the build: set workspace_install_command = "
                       "\"SETUPTOOLS_SCM_PRETEND_VERSION=0 python3 -m pip install -e .\"";
        if (strstr(build->problem, "no space left") != NULL || strstr(build->log.text, "No space left") != NULL)
                return "Make room on the engine's disk: 'docker system df' shows what takes it.";
        return "Mend what the last lines say, or set workspace_install_command, or workspace_setup = \"none\".";
}

static int build_failed(const struct build *build, struct sbx_error *err) {
        char tail[TAIL_MAX];

        build_log_tail(&build->log, TAIL_LINES, tail, sizeof(tail));
        return sbx_error_set(err, -EIO, DOCKER_ORIGIN, hint_of(build),
                             "an image for the project could not be prepared: %s%s%s", build->problem,
                             tail[0] != '\0' ? "\nThe end of the build's log:\n" : "", tail);
}

static int send_build(struct build *build, const char *name, const struct context *context, struct sbx_error *err) {
        char path[FILTER_MAX] = "/build?dockerfile=Dockerfile&rm=1&forcerm=1&t=";
        struct engine_request request = {
                .method = "POST",
                .path = path,
                .content_type = "application/x-tar",
                .body = {context->tar, context->tar_size},
                .timeout_ms = UINT64_MAX,
                .answer_max_bytes = IMAGE_STREAM_MAX,
                .item = take_item,
                .data = build,
        };
        struct sbx_error own = {0};
        int r = engine_escape(path, sizeof(path), name);

        if (r < 0)
                return sbx_error_set(err, r, DOCKER_ORIGIN, NULL, "the name of a prepared image is too long");
        r = engine_ask(build->docker->engine, &request, build->call, NULL, &own);
        if (build->problem[0] == '\0' && r < 0 && (r == -EIO || r == -EINVAL || r == -ENOENT))
                image_take_words(build->problem, sizeof(build->problem), own.message);
        if (build->problem[0] == '\0' && r == 0)
                return 0;
        remove_rest(build);
        if (build->problem[0] != '\0')
                return build_failed(build, err);
        return sbx_error_set(err, r, DOCKER_ORIGIN, own.hint, "while an image for the project was prepared: %s",
                             own.message);
}

static int make_id(char ret_id[33]) {
        unsigned char bytes[16];

        if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
                return -EIO;
        for (size_t i = 0; i < sizeof(bytes); i++)
                snprintf(ret_id + 2 * i, 3, "%02x", bytes[i]);
        return 0;
}

int prepared_build(struct docker *docker, const char *base_id, const char *name, const struct sbx_call *call,
                   struct sbx_error *err) {
        _cleanup_free_ struct build *build = calloc(1, sizeof(*build));
        char project[PROJECT_HASH_MAX], labels[512];
        const char *tag = strrchr(name, ':');
        struct context context;
        int r;

        if (build == NULL || tag == NULL)
                return sbx_error_set(err, build == NULL ? -ENOMEM : -EINVAL, DOCKER_ORIGIN, NULL, "can't build");
        build->docker = docker;
        build->call = call;
        r = make_id(build->id);
        if (r < 0)
                return sbx_error_set(err, r, DOCKER_ORIGIN, NULL, "no random numbers");
        r = prepared_project(docker, project, err);
        if (r < 0)
                return r;
        snprintf(labels, sizeof(labels), "LABEL %s=%s %s=%s %s=%s\n", PREPARED_LABEL, tag + 1, PREPARED_LABEL_PROJECT,
                 project, PREPARED_LABEL_BUILD, build->id);
        sbx_call_progress(call, "preparing an image for the project: packing its files");
        r = make_context(docker, base_id, labels, true, call, &context, err);
        if (r < 0)
                return r;
        if (context.left_out > 0)
                docker_log(docker, SBX_LOG_INFO, "%zu files larger than %lld MiB are not in the build of %s",
                           context.left_out, (long long)(CONTEXT_FILE_MAX >> 20), name);
        r = send_build(build, name, &context, err);
        context_clear(&context);
        return r;
}

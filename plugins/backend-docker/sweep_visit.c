/* SPDX-License-Identifier: Apache-2.0 */
/* Ends the workers of dead owners in containers that others go on with. */
#include "exec.h"
#include "programs.h"
#include "scope.h"
#include "sweep_internal.h"
#include "util.h"

#define MARK_SIZE (LOCKS_HASH_SIZE + 2) /* "<id>-*" */
#define PATH_SIZE 256
#define EXECS_MAX 1024

static int end_workers(const struct sweep *sweep, const char *id, const char *const *killer,
                       const char (*dead)[LOCKS_HASH_SIZE], size_t dead_count, struct sbx_error *err) {
        _cleanup_free_ char(*marks)[MARK_SIZE] = calloc(dead_count, MARK_SIZE);
        _cleanup_free_ const char **arguments = calloc(dead_count + 2, sizeof(*arguments));
        const struct exec_wish wish = {.container = id, .argv = killer, .arguments = arguments};
        struct sbx_call call;
        int code = 0, r;

        if (marks == NULL || arguments == NULL)
                return sbx_error_set(err, -ENOMEM, DOCKER_ORIGIN, NULL, "out of memory");
        arguments[0] = "9";
        for (size_t i = 0; i < dead_count; i++) {
                snprintf(marks[i], MARK_SIZE, "%s-*", dead[i]);
                arguments[i + 1] = marks[i];
        }
        sweep_call(sweep, &call);
        r = exec_run(sweep->engine, &wish, &call, &code, err);
        if (r == 0 && code != 0)
                r = sbx_error_set(err, -EIO, DOCKER_ORIGIN, NULL,
                                  "processes of a dead server can't be ended in container %.12s", id);
        return r;
}

/* ---- what the engine itself says of workers: code inside can end the killer, and has no say in this */

static int get(const struct sweep *sweep, const char *path, json_t **ret_answer, struct sbx_error *err) {
        const struct engine_request request = {.method = "GET", .path = path};
        struct sbx_call call;

        sweep_call(sweep, &call);
        return engine_ask(sweep->engine, &request, &call, ret_answer, err);
}

/* Does it run, and whose is it? "": nobody's that is known. */
static int read_exec(const struct sweep *sweep, const char *exec, bool *ret_runs, char ret_owner[LOCKS_HASH_SIZE],
                     struct sbx_error *err) {
        _cleanup_json_ json_t *answer = NULL;
        char path[PATH_SIZE];
        const json_t *arguments;
        const char *mark;
        int r;

        snprintf(path, sizeof(path), "/exec/%.*s/json", CONTAINER_ID_MAX - 1, exec);
        r = get(sweep, path, &answer, err);
        if (r < 0)
                return r;
        arguments = json_object_get(json_object_get(answer, "ProcessConfig"), "arguments");
        mark = json_string_value(json_array_get(arguments, json_array_size(arguments) - 1));
        if (mark == NULL || strncmp(mark, SCOPE_MARK, strlen(SCOPE_MARK)) != 0)
                mark = SCOPE_MARK;
        snprintf(ret_owner, LOCKS_HASH_SIZE, "%s", mark + strlen(SCOPE_MARK));
        if (!locks_is_id(ret_owner))
                ret_owner[0] = '\0';
        *ret_runs = json_is_true(json_object_get(answer, "Running"));
        return 0;
}

struct workers {
        unsigned dead, alive;
};

static void count(const struct sweep *sweep, const char *owner, struct workers *workers) {
        if (strcmp(owner, sweep->own) == 0)
                sweep->own_ended ? workers->dead++ : workers->alive++;
        else if (owner[0] != '\0')
                locks_look(sweep->locks, owner) == LOCK_HELD ? workers->alive++ : workers->dead++;
}

static int count_workers(const struct sweep *sweep, const char *id, struct workers *ret, struct sbx_error *err) {
        _cleanup_json_ json_t *inspected = NULL;
        struct workers workers = {0};
        char path[PATH_SIZE];
        const json_t *execs, *exec;
        size_t i;
        int r;

        snprintf(path, sizeof(path), "/containers/%s/json", id);
        r = get(sweep, path, &inspected, err);
        execs = json_object_get(inspected, "ExecIDs");
        json_array_foreach (execs, i, exec) {
                char owner[LOCKS_HASH_SIZE];
                const char *text = json_string_value(exec);
                bool runs = false;

                if (r < 0 || i >= EXECS_MAX)
                        break;
                if (text == NULL || strspn(text, "0123456789abcdef") != strlen(text))
                        continue;
                r = read_exec(sweep, text, &runs, owner, NULL);
                if (r == 0 && runs)
                        count(sweep, owner, &workers);
                r = r == -ENOENT ? 0 : r;
        }
        if (r == 0)
                *ret = workers;
        return r;
}

int visit_container(const struct sweep *sweep, const char *id, const char *family, const char (*dead)[LOCKS_HASH_SIZE],
                    size_t dead_count, struct sbx_error *err) {
        const char *const *killer = program_killer(family);
        struct workers workers = {0};
        int r;

        if (killer == NULL)
                return 0; /* of a later version, with a family that this one does not know */
        r = end_workers(sweep, id, killer, dead, dead_count, err);
        if (r == -ENOENT || r == -EBUSY || r == -ECANCELED)
                return r;
        if (count_workers(sweep, id, &workers, NULL) < 0 || workers.dead == 0)
                return r;
        if (workers.alive > 0)
                return r < 0 ? r
                             : sbx_error_set(err, -EIO, DOCKER_ORIGIN, NULL,
                                             "a worker of a dead server hides in container %.12s", id);
        r = sweep_remove(sweep, id, err);
        return r < 0 ? r : 1;
}

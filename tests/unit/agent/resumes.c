/* SPDX-License-Identifier: Apache-2.0 */
/* Runs that are cut off at any record of their journal, and go on. */
#include "resumes.h"

#include <fcntl.h>

#include "base/fd.h"

struct world world;

struct sbx_run_request agent(const char *task) {
        return (struct sbx_run_request){
                .kind = SBX_RUN_AGENT, .prompt = task, .run_id = ID, .limits = SBX_RUN_LIMITS_CONFIGURED};
}

struct sbx_run_request completion(const char *prompt) {
        return (struct sbx_run_request){
                .kind = SBX_RUN_COMPLETION, .prompt = prompt, .run_id = ID, .limits = SBX_RUN_LIMITS_CONFIGURED};
}

const char *text_in(const json_t *object, const char *member) {
        const char *text = json_string_value(json_object_get(object, member));

        return text != NULL ? text : "(none)";
}

json_int_t number_in(const json_t *object, const char *member) {
        return json_integer_value(json_object_get(object, member));
}

int resumes_setup(void **state) {
        world = (struct world){.state = scratch_path("state")};
        return 0;
}

int resumes_teardown(void **state) {
        return nftw(scratch_path("state"), scratch_remove_entry, 16, FTW_DEPTH | FTW_PHYS) == 0 || errno == ENOENT ? 0
                                                                                                                   : -1;
}

json_t *assert_ends(const struct sbx_run_request *request, const char *end, const char *source) {
        json_t *result = world_run(&world, request);

        assert_string_equal(text_in(result, "end"), end);
        assert_string_equal(text_in(result, "answer_source"), source);
        assert_true(json_is_false(json_object_get(result, "success")));
        assert_true(json_string_length(json_object_get(result, "error")) > 0);
        return result;
}

static char *journal_path(void) {
        static char path[600];

        snprintf(path, sizeof(path), "%s/runs/" ID ".jsonl", scratch_path("state"));
        return path;
}

unsigned count_in(const char *bytes, size_t size, const char *part) {
        unsigned count = 0;

        for (const char *at = bytes; (at = memmem(at, size - (size_t)(at - bytes), part, strlen(part))) != NULL; at++)
                count++;
        return count;
}

static void forget_times(json_t *result) {
        json_object_del(result, "duration_ms");
        json_object_del(result, "notices");
}

char *read_journal(size_t *ret_size) {
        struct sbx_buffer bytes = SBX_BUFFER(16u << 20);

        assert_int_equal(sbx_file_read(AT_FDCWD, journal_path(), 16u << 20, &bytes, NULL), 0);
        *ret_size = bytes.size;
        return sbx_buffer_steal(&bytes);
}

void write_journal(const char *bytes, size_t size) {
        int fd = open(journal_path(), O_WRONLY | O_TRUNC | O_CLOEXEC);

        assert_int_equal(write(fd, bytes, size), (ssize_t)size);
        close(fd);
}

void (*before_resume)(void);

/* Goes on with the journal's first `size` bytes, as after a kill there. What it had is not asked for again. */
static void resume_from(const char *const *script, const char *bytes, size_t size, json_t *expected) {
        struct sbx_run_request again = {.resume_id = ID, .limits = SBX_RUN_LIMITS_CONFIGURED};
        unsigned done = count_in(bytes, size, "\"type\":\"model\""), all = 0;
        bool touched = count_in(bytes, size, "\"name\":\"touch\"") > 1; /* the model's call, and its record */
        json_t *result = NULL;
        int r;

        while (script[all] != NULL)
                all++;
        write_journal(bytes, size);
        if (before_resume != NULL)
                before_resume();
        world_open(&world, NULL);
        world.side_effects = 0;
        world_script(script);
        world_answered(done);
        (void)world_executions();
        r = sbx_runs_run(world.runs, &again, &world.watch, &world.call, &result, &world.err);
        if (r < 0 && r != -EALREADY)
                fail_msg("%zu bytes: %s", size, world.err.message);
        forget_times(result);
        if (!json_equal(result, expected))
                fail_msg("after %zu bytes: %s", size, json_dumps(result, JSON_COMPACT));
        assert_int_equal(world_calls(), all - done);
        if (touched)
                assert_int_equal(world.side_effects, 0);
        else
                assert_true(world.side_effects <= 1);
        json_decref(result);
        world_close(&world);
}

/* Runs `script` once, and then again from every record on: always the same result. */
void assert_resumes(const struct sbx_run_request *request, const char *const *script, const char *answer,
                    unsigned cuts_min) {
        unsigned cuts = 0;
        json_t *expected;
        size_t size;
        char *bytes;

        world_open(&world, NULL);
        world_script(script);
        expected = world_run(&world, request);
        assert_string_equal(text_in(expected, "answer"), answer);
        forget_times(expected);
        world_close(&world);
        bytes = read_journal(&size);
        for (size_t cut = 0; cut < size; cut++) {
                if (bytes[cut] != '\n' || count_in(bytes, cut + 1, "\n") < 1 + request->variable_count)
                        continue;
                resume_from(script, bytes, cut + 1, expected);
                cuts++;
        }
        assert_true(cuts >= cuts_min);
        free(bytes);
        json_decref(expected);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* `logs verify`: walks the chain of a trajectory and tells where it is broken. docs/trajectory.md says what that
 * proves. */
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/logs.h"
#include "cli/options.h"
#include "cli/output.h"
#include "trajectory/trajectory.h"

#define PROBLEMS_MAX 20u
#define SUM_TAIL (sizeof(",\"sum\":\"\"}") - 1 + SBX_SHA256_TEXT_SIZE - 1) /* the end of a line, from its sum on */

struct verify_options {
        const char *directory, *expect;
        bool json;
};

struct hash {
        char text[SBX_SHA256_TEXT_SIZE];
};

/* What is known so far. */
struct walk {
        struct hash *hashes; /* of each line; [0] is what the first one must point to */
        size_t capacity;
        uint64_t lines, events;
        uint64_t last_number; /* "line" of the line before */
        uint64_t last_bad;    /* the last line that is not what was written */
        json_t *problems;
        bool chained, ended;
        char id[SBX_LOGS_ID_MAX + 1];
};

static void walk_free(struct walk *walk) {
        free(walk->hashes);
        json_decref(walk->problems);
}

static int add_hash(struct walk *walk, struct sbx_bytes line) {
        size_t needed = (size_t)walk->lines + 2;

        if (needed > walk->capacity) {
                size_t capacity = walk->capacity > 0 ? walk->capacity * 2 : 1024;
                struct hash *hashes = reallocarray(walk->hashes, capacity, sizeof(*hashes));

                if (hashes == NULL)
                        return -ENOMEM;
                walk->hashes = hashes;
                walk->capacity = capacity;
                if (walk->lines == 0) {
                        memset(hashes[0].text, '0', sizeof(hashes[0].text) - 1);
                        hashes[0].text[sizeof(hashes[0].text) - 1] = '\0';
                }
        }
        sbx_sha256_text(line, walk->hashes[walk->lines + 1].text);
        return 0;
}

/* The number of the line with that hash among those so far; 0: none. */
static uint64_t find_hash(const struct walk *walk, const char *hash) {
        for (uint64_t i = walk->lines; i > 0; i--)
                if (strcmp(walk->hashes[i].text, hash) == 0)
                        return i;
        return 0;
}

SBX_PRINTF(4, 5)
static void add_problem(struct walk *walk, uint64_t line, const char *kind, const char *format, ...) {
        char message[256];
        va_list args;

        va_start(args, format);
        vsnprintf(message, sizeof(message), format, args);
        va_end(args);
        if (json_array_size(walk->problems) < PROBLEMS_MAX)
                json_array_append_new(walk->problems, json_pack("{s:I, s:s, s:s}", "line", (json_int_t)line, "kind",
                                                                kind, "message", message));
}

/* ---- one line ---- */

/* Its own hash stands behind all else: `,"sum":"...64 digits..."}`. */
static bool sum_is_right(struct sbx_bytes line) {
        static const char before[] = ",\"sum\":\"", after[] = "\"}";
        const char *data = line.data;
        char sum[SBX_SHA256_TEXT_SIZE];
        size_t size;

        if (line.size <= SUM_TAIL)
                return false;
        size = line.size - SUM_TAIL;
        if (memcmp(data + size, before, sizeof(before) - 1) != 0 ||
            memcmp(data + line.size - (sizeof(after) - 1), after, sizeof(after) - 1) != 0)
                return false;
        sbx_sha256_text((struct sbx_bytes){data, size}, sum);
        return memcmp(data + size + sizeof(before) - 1, sum, sizeof(sum) - 1) == 0;
}

/* The line is what was written, but does not point to the one before. True: it belongs here all the same. */
static bool tell_break(struct walk *walk, uint64_t number, uint64_t own_number, const char *prev) {
        uint64_t copy_of = find_hash(walk, walk->hashes[number].text), found = find_hash(walk, prev);
        uint64_t removed = own_number - walk->last_number - 1;

        if (copy_of > 0) {
                add_problem(walk, number, "inserted", "line %llu was put in: it is a copy of line %llu",
                            (unsigned long long)number, (unsigned long long)copy_of);
                return false;
        }
        if (found > 0)
                add_problem(walk, found + 1, "inserted", "line %llu was put in, or moved: line %llu follows line %llu",
                            (unsigned long long)found + 1, (unsigned long long)number, (unsigned long long)found);
        else if (own_number > walk->last_number + 1)
                add_problem(walk, number, "removed", "before line %llu, %llu line%s removed",
                            (unsigned long long)number, (unsigned long long)removed, removed > 1 ? "s were" : " was");
        else
                add_problem(walk, number > 1 ? number - 1 : 1, "replaced",
                            "line %llu points to a line that is not there: the one before it was replaced",
                            (unsigned long long)number);
        return true;
}

static void check_chain(struct walk *walk, const struct sbx_logs_line *line, const json_t *object) {
        const char *prev = sbx_logs_text(object, "prev");
        double own = sbx_logs_number(object, "line");
        bool belongs = true;

        if (!sum_is_right(line->text)) {
                add_problem(walk, line->number, "changed", "line %llu was changed", (unsigned long long)line->number);
                walk->last_bad = line->number;
                own = (double)walk->last_number + 1;
        } else if (strcmp(prev, walk->hashes[line->number - 1].text) != 0 &&
                   (walk->last_bad != line->number - 1 || line->number == 1)) {
                /* Behind a line that is known to be bad, the chain can't be whole, and nothing is told. */
                belongs = tell_break(walk, line->number, (uint64_t)own, prev);
        }
        if (belongs)
                walk->last_number = own > 0 ? (uint64_t)own : walk->last_number + 1;
        else
                walk->last_bad = line->number;
}

static void check_line(struct walk *walk, const struct sbx_logs_line *line) {
        _cleanup_json_ json_t *object = line->too_long ? NULL : sbx_logs_parse(line->text);
        bool has_chain = json_object_get(object, "prev") != NULL;

        if (line->number == 1)
                walk->chained = has_chain || object == NULL;
        walk->events += object != NULL && !sbx_logs_is_metadata(object);
        walk->ended = sbx_logs_is(object, "event", "run_ended");
        if (!walk->chained)
                return;
        if (!line->whole) {
                add_problem(walk, line->number, "torn", "line %llu is not whole: it has no end",
                            (unsigned long long)line->number);
                walk->last_bad = line->number;
        } else if (object == NULL) {
                add_problem(walk, line->number, "changed", "line %llu was changed: it is no JSON object",
                            (unsigned long long)line->number);
                walk->last_bad = line->number;
                walk->last_number++;
        } else if (!sbx_logs_is(object, "trajectory_id", walk->id)) {
                add_problem(walk, line->number, "changed", "line %llu is of another trajectory",
                            (unsigned long long)line->number);
                walk->last_bad = line->number;
                walk->last_number++;
        } else {
                check_chain(walk, line, object);
        }
}

static int walk_file(struct walk *walk, int fd, struct sbx_error *err) {
        _cleanup_logs_reader_ struct sbx_logs_reader reader;
        struct sbx_logs_line line = {0};
        int r;

        walk->problems = json_array();
        sbx_logs_reader_init(&reader, fd);
        while ((r = sbx_logs_reader_next(&reader, &line, err)) > 0) {
                if (add_hash(walk, line.text) < 0)
                        return SBX_NOMEM(err, "logs");
                check_line(walk, &line);
                walk->lines = line.number;
        }
        return r;
}

/* ---- the outcome ---- */

/* The hash that somebody wrote down must be that of the last line. */
static void check_expected(struct walk *walk, const char *expect) {
        uint64_t found = find_hash(walk, expect);

        if (found == walk->lines && found > 0)
                return;
        if (found > 0)
                add_problem(walk, found, "extended", "the expected hash is that of line %llu: %llu lines came after it",
                            (unsigned long long)found, (unsigned long long)(walk->lines - found));
        else
                add_problem(walk, walk->lines, "unexpected",
                            "no line has the expected hash: the file is not the one that "
                            "it was taken of, or lines at its end were removed");
}

static int show_people(const struct sbx_cli *cli, const struct walk *walk, bool good) {
        size_t index;
        json_t *problem;

        if (!walk->chained) {
                sbx_cli_error(cli, "snipara-sandbox 2.2.7 wrote it, or another program: there is nothing to check",
                              "%s is not chained", walk->id);
                return 0;
        }
        json_array_foreach (walk->problems, index, problem)
                sbx_cli_error(cli, NULL, "%s", sbx_logs_text(problem, "message"));
        if (!good)
                return 0;
        if (!walk->ended)
                sbx_cli_warning(cli, "it was stopped, goes on, or lines at the end of the file were removed",
                                "the run has not ended in this file");
        return sbx_cli_print(&cli->out, "ok: %llu lines, %llu events, final hash %s\n", (unsigned long long)walk->lines,
                             (unsigned long long)walk->events, walk->hashes[walk->lines].text);
}

static int show_json(const struct sbx_cli *cli, const struct walk *walk, const char *path, bool good) {
        _cleanup_json_ json_t *document =
                json_pack("{s:s, s:s, s:b, s:b, s:b, s:I, s:I, s:s?, s:O}", "id", walk->id, "path", path, "ok", good,
                          "chained", walk->chained, "ended", walk->ended, "lines", (json_int_t)walk->lines, "events",
                          (json_int_t)walk->events, "final_hash",
                          walk->lines > 0 ? walk->hashes[walk->lines].text : NULL, "problems", walk->problems);

        return document != NULL ? sbx_cli_print_json(&cli->out, document, true) : -ENOMEM;
}

static int verify(struct sbx_cli *cli, const struct verify_options *options, const char *text) {
        _cleanup_logs_directory_ struct sbx_logs_directory directory = {.fd = -1};
        __attribute__((cleanup(walk_free))) struct walk walk = {0};
        _cleanup_free_ char *path = NULL;
        _cleanup_close_ int fd = -1;
        struct sbx_error err = {0};
        bool good;
        int r = sbx_logs_directory_open(cli, options->directory, &directory);

        if (r == SBX_CLI_OK)
                r = sbx_logs_find(cli, &directory, text, walk.id, &fd);
        if (r != SBX_CLI_OK)
                return r;
        r = walk_file(&walk, fd, &err);
        if (r < 0)
                return sbx_cli_fail(cli, r, &err);
        if (options->expect != NULL && walk.chained)
                check_expected(&walk, options->expect);
        good = walk.chained && json_array_size(walk.problems) == 0 && walk.lines > 0;
        if (asprintf(&path, "%s/%s.jsonl", directory.path, walk.id) < 0) {
                path = NULL;
                return sbx_cli_out_of_memory(cli);
        }
        r = options->json ? show_json(cli, &walk, path, good) : show_people(cli, &walk, good);
        return r < 0 || !good ? SBX_CLI_FAILED : SBX_CLI_OK;
}

static int run(struct sbx_cli *cli, const struct sbx_cli_command *command, int argc, char **argv) {
        _cleanup_arguments_ struct sbx_cli_arguments arguments = {0};
        struct verify_options options = {0};
        int result;

        if (!sbx_cli_parse(cli, command, argc, argv, &options, &arguments, &result))
                return result;
        if (arguments.count != 1) {
                sbx_cli_error(cli, "as in 'logs verify 3f2a'; 'logs' lists them", "give the id of one trajectory");
                return SBX_CLI_USAGE;
        }
        if (options.expect != NULL && (strlen(options.expect) != SBX_SHA256_TEXT_SIZE - 1 ||
                                       strspn(options.expect, "0123456789abcdef") != SBX_SHA256_TEXT_SIZE - 1)) {
                sbx_cli_error(cli, "it is the final hash that an earlier 'logs verify' printed",
                              "--expect %s: must be 64 digits of 0-9 and a-f", options.expect);
                return SBX_CLI_USAGE;
        }
        return verify(cli, &options, arguments.items[0].text);
}

static const struct sbx_cli_option verify_command_options[] = {
        {"dir", 'd', SBX_CLI_TEXT, offsetof(struct verify_options, directory), "DIRECTORY",
         "where the trajectories are (default: the setting log_dir)", NULL},
        {"expect", 0, SBX_CLI_TEXT, offsetof(struct verify_options, expect), "HASH",
         "the final hash that was noted elsewhere: the file must end with that line", NULL},
        {"json", 0, SBX_CLI_FLAG, offsetof(struct verify_options, json), NULL,
         "print JSON: ok, chained, ended, lines, events, final_hash, problems", NULL},
        {0},
};

static const struct sbx_cli_example examples[] = {
        {"logs verify 3f2a", "whether somebody has edited it"},
        {"logs verify 3f2a --expect \"$(cat hash)\"", "and whether it is the one that the hash was noted of"},
        {0},
};

const struct sbx_cli_command sbx_cli_logs_verify = {
        .name = "logs verify",
        .arguments = "ID",
        .summary = "Check that nobody has edited a trajectory",
        .description = "Each line of a trajectory holds the hash of the one before, and its own. This tells the line "
                       "that was\n"
                       "changed, put in or removed, or else the final hash. Someone who may write the file can make "
                       "all hashes\n"
                       "again: keep the final one elsewhere, and compare with --expect. Exit code 1: it was edited, or "
                       "has no\n"
                       "hashes.",
        .options = verify_command_options,
        .examples = examples,
        .flags = SBX_CLI_CONFIGURED,
        .run = run,
};

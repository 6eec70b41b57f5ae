/* SPDX-License-Identifier: Apache-2.0 */
/* The journal: what was added is there again, whatever the file went through. */
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "../plugin/scratch.h"
#include "agent/journal.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"

#define ID "1b4e28ba-2fa1-41d2-883f-0016d3cca427"
#define RECORDS 5u

static const struct sbx_logger logger = {.level = SBX_LOG_ERROR};

static const char *runs_directory(void) {
        return scratch_path("runs");
}

static struct sbx_journal *create(const char *id) {
        json_t *request = json_pack("{s:s}", "prompt", "count the \xc3\xa9l\xc3\xa9phants");
        struct sbx_journal *journal = NULL;
        struct sbx_error err = {0};

        if (sbx_journal_create(runs_directory(), id, request, &logger, &journal, &err) < 0)
                fail_msg("%s", err.message);
        json_decref(request);
        return journal;
}

static struct sbx_journal *open_again(const char *id) {
        struct sbx_journal *journal = NULL;
        struct sbx_error err = {0};

        if (sbx_journal_open(runs_directory(), id, &logger, &journal, &err) < 0)
                fail_msg("%s", err.message);
        return journal;
}

static void add(struct sbx_journal *journal, const char *key, int value) {
        json_t *record = json_pack("{s:s, s:i, s:[i, n, f]}", "type", "test", "value", value, "more", 1, 0.1);
        struct sbx_error err = {0};

        if (sbx_journal_add(journal, key, record, &err) < 0)
                fail_msg("%s", err.message);
        json_decref(record);
}

static int value_of(struct sbx_journal *journal, const char *key) {
        json_t *record = sbx_journal_find(journal, key);
        int value = record != NULL ? (int)json_integer_value(json_object_get(record, "value")) : -1;

        json_decref(record);
        return value;
}

static const char *file_of(const char *id) {
        static char path[600];

        snprintf(path, sizeof(path), "%s/%s.jsonl", runs_directory(), id);
        return path;
}

static char *read_all(const char *path, size_t *ret_size) {
        struct sbx_buffer bytes = SBX_BUFFER(1u << 20);

        assert_int_equal(sbx_file_read(AT_FDCWD, path, 1u << 20, &bytes, NULL), 0);
        *ret_size = bytes.size;
        return sbx_buffer_steal(&bytes);
}

static void write_all(const char *path, const char *bytes, size_t size) {
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

        assert_true(fd >= 0);
        assert_int_equal(write(fd, bytes, size), (ssize_t)size);
        close(fd);
}

static const char *key_of(unsigned index) {
        static const char *const keys[RECORDS] = {"1.1.model", "1.1.t0.c0", "1.1.t0", "1.check", "2.1.model"};

        return keys[index];
}

/* A journal of RECORDS records, closed. */
static void make(const char *id) {
        struct sbx_journal *journal = create(id);

        for (unsigned i = 0; i < RECORDS; i++)
                add(journal, key_of(i), (int)i);
        sbx_journal_free(journal);
}

static int remove_runs(void **state) {
        return nftw(runs_directory(), scratch_remove_entry, 16, FTW_DEPTH | FTW_PHYS) == 0 || errno == ENOENT ? 0 : -1;
}

/* ---- the ordinary way ---- */

static int count_keys(void *data, const char *key, const json_t *record) {
        unsigned *next = data;

        assert_string_equal(key, key_of(*next));
        assert_int_equal(json_integer_value(json_object_get(record, "value")), *next);
        ++*next;
        return 0;
}

static void keeps_records(void **state) {
        struct sbx_journal *journal;
        unsigned next = 0;
        struct stat st;

        make(ID);
        assert_int_equal(stat(file_of(ID), &st), 0);
        assert_int_equal(st.st_mode & 07777, 0600);
        assert_int_equal(stat(runs_directory(), &st), 0);
        assert_int_equal(st.st_mode & 07777, 0700);
        journal = open_again(ID);
        assert_true(sbx_journal_resumed(journal));
        assert_string_equal(json_string_value(json_object_get(sbx_journal_request(journal), "prompt")),
                            "count the \xc3\xa9l\xc3\xa9phants");
        assert_int_equal(sbx_journal_each(journal, count_keys, &next), 0);
        assert_int_equal(next, RECORDS);
        assert_null(sbx_journal_find(journal, "9"));
        add(journal, "9", 9);
        sbx_journal_free(journal);
        journal = open_again(ID);
        assert_int_equal(value_of(journal, "9"), 9);
        sbx_journal_free(journal);
}

static void stays_in_memory(void **state) {
        json_t *request = json_object();
        struct sbx_journal *journal = NULL;

        assert_int_equal(sbx_journal_create(NULL, ID, request, &logger, &journal, NULL), 0);
        add(journal, "1", 7);
        assert_int_equal(value_of(journal, "1"), 7);
        assert_false(sbx_journal_resumed(journal));
        assert_int_equal(sbx_journal_sync(journal, NULL), 0);
        sbx_journal_free(journal);
        json_decref(request);
        assert_int_equal(access(runs_directory(), F_OK), -1);
}

static void refuses_what_it_could_not_keep(void **state) {
        struct sbx_journal *journal = create(ID);
        json_t *record = json_object(), *deep = json_object(), *list = json_array();
        char key[SBX_JOURNAL_KEY_MAX + 1];
        size_t size, before;

        free(read_all(file_of(ID), &before));
        for (unsigned i = 0; i < SBX_JSON_DEPTH_MAX + 10; i++)
                deep = json_pack("{s:o}", "a", deep);
        memset(key, 'k', sizeof(key) - 1);
        key[sizeof(key) - 1] = '\0';
        assert_int_equal(sbx_journal_add(journal, "deep", deep, NULL), -EINVAL);
        assert_int_equal(sbx_journal_add(journal, key, record, NULL), -EINVAL);
        assert_int_equal(sbx_journal_add(journal, "", record, NULL), -EINVAL);
        assert_int_equal(sbx_journal_begin(journal, key, NULL), -EINVAL);
        assert_int_equal(sbx_journal_add(journal, "list", list, NULL), -EINVAL);
        free(read_all(file_of(ID), &size));
        assert_int_equal(size, before);
        assert_int_equal(sbx_journal_add(journal, "1", record, NULL), 0);
        assert_int_equal(sbx_journal_add(journal, "1", record, NULL), -EEXIST);
        json_decref(record);
        json_decref(deep);
        json_decref(list);
        sbx_journal_free(journal);
}

static void refuses_names_that_are_no_ids(void **state) {
        static const char *const names[] = {"",
                                            "..",
                                            "../../../../../../etc/passwd",
                                            "1b4e28ba-2fa1-41d2-883f-0016d3cca42",
                                            "1b4e28ba-2fa1-41d2-883f-0016d3cca4277",
                                            "1b4e28ba/2fa1-41d2-883f-0016d3cca427",
                                            "1B4E28BA-2FA1-41D2-883F-0016D3CCA427"};
        json_t *request = json_object();

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                struct sbx_journal *journal = NULL;

                assert_int_equal(sbx_journal_create(runs_directory(), names[i], request, &logger, &journal, NULL),
                                 -EINVAL);
                assert_int_equal(sbx_journal_open(runs_directory(), names[i], &logger, &journal, NULL), -EINVAL);
                assert_null(journal);
        }
        json_decref(request);
}

static void follows_no_links(void **state) {
        struct sbx_journal *journal = NULL;
        json_t *request = json_object();
        char target[600];

        make(ID);
        snprintf(target, sizeof(target), "%s", scratch_path("elsewhere"));
        assert_int_equal(rename(file_of(ID), target), 0);
        assert_int_equal(symlink(target, file_of(ID)), 0);
        assert_int_equal(sbx_journal_open(runs_directory(), ID, &logger, &journal, NULL), -ELOOP);
        assert_int_equal(sbx_journal_create(runs_directory(), ID, request, &logger, &journal, NULL), -EEXIST);
        json_decref(request);
        unlink(target);
}

/* ---- what was begun ---- */

static void knows_what_was_begun(void **state) {
        struct sbx_journal *journal = create(ID);

        assert_int_equal(sbx_journal_begin(journal, "1.1.model", NULL), 0);
        assert_int_equal(sbx_journal_begin(journal, "1.2.model", NULL), 0);
        assert_int_equal(sbx_journal_begin(journal, "1.3.model", NULL), 0);
        assert_int_equal(sbx_journal_failed(journal, "1.3.model", NULL), 0);
        add(journal, "1.1.model", 1);
        assert_false(sbx_journal_was_begun(journal, "1.2.model")); /* in this life: it may still come */
        sbx_journal_free(journal);
        journal = open_again(ID);
        assert_false(sbx_journal_was_begun(journal, "1.1.model"));
        assert_true(sbx_journal_was_begun(journal, "1.2.model"));
        assert_false(sbx_journal_was_begun(journal, "1.3.model"));
        assert_int_equal(sbx_journal_open_ends(journal, ".model"), 1);
        assert_int_equal(sbx_journal_open_ends(journal, ".check"), 0);
        add(journal, "1.2.model", 2);
        assert_false(sbx_journal_was_begun(journal, "1.2.model"));
        sbx_journal_free(journal);
}

static void counts_the_time_of_all_lives(void **state) {
        struct sbx_journal *journal = create(ID);
        uint64_t first, second;

        assert_int_equal(sbx_journal_earlier_ms(journal), 0);
        while (sbx_journal_active_ms(journal) < 20)
                usleep(1000);
        add(journal, "1", 1);
        sbx_journal_free(journal);
        journal = open_again(ID);
        first = sbx_journal_earlier_ms(journal);
        assert_true(first >= 20);
        while (sbx_journal_active_ms(journal) < first + 20)
                usleep(1000);
        add(journal, "2", 1);
        sbx_journal_free(journal);
        journal = open_again(ID);
        second = sbx_journal_earlier_ms(journal);
        assert_true(second >= first + 20);
        sbx_journal_free(journal);
}

/* ---- damage ---- */

/* How many whole lines there are in the first `size` bytes. */
static unsigned lines_in(const char *bytes, size_t size) {
        unsigned lines = 0;

        for (size_t i = 0; i < size; i++)
                lines += bytes[i] == '\n';
        return lines;
}

static void survives_every_cut(void **state) {
        char *bytes, path[600];
        size_t size;

        make(ID);
        bytes = read_all(file_of(ID), &size);
        snprintf(path, sizeof(path), "%s", file_of(ID));
        for (size_t cut = 0; cut <= size; cut++) {
                unsigned lines = lines_in(bytes, cut);
                struct sbx_journal *journal = NULL;
                struct sbx_error err = {0};
                int r;

                write_all(path, bytes, cut);
                r = sbx_journal_open(runs_directory(), ID, &logger, &journal, &err);
                if (lines == 0) { /* nothing had been done */
                        assert_int_equal(r, -ENOENT);
                        assert_contains(err.message, "before the run began");
                        continue;
                }
                assert_int_equal(r, 0);
                for (unsigned i = 0; i < RECORDS; i++)
                        assert_int_equal(value_of(journal, key_of(i)), i + 1 < lines ? (int)i : -1);
                add(journal, "after", 77);
                sbx_journal_free(journal);
                journal = open_again(ID);
                assert_int_equal(value_of(journal, "after"), 77);
                sbx_journal_free(journal);
        }
        free(bytes);
}

static void finds_every_flipped_byte(void **state) {
        char *bytes, path[600];
        size_t size;

        make(ID);
        bytes = read_all(file_of(ID), &size);
        snprintf(path, sizeof(path), "%s", file_of(ID));
        /* Without its newline the last line is one that was not written whole: that is no damage. */
        for (size_t at = 0; at + 1 < size; at++) {
                struct sbx_journal *journal = NULL;
                struct sbx_error err = {0};
                char expected[32];

                bytes[at] ^= 0x10;
                write_all(path, bytes, size);
                if (sbx_journal_open(runs_directory(), ID, &logger, &journal, &err) != -EBADMSG)
                        fail_msg("byte %zu was changed, and nobody saw it", at);
                bytes[at] ^= 0x10;
                snprintf(expected, sizeof(expected), "line %u", lines_in(bytes, at) + 1);
                assert_contains(err.message, expected);
                assert_null(journal);
        }
        free(bytes);
}

static void finds_lines_that_were_moved(void **state) {
        char *bytes, *second, *third, *fourth;
        struct sbx_journal *journal = NULL;
        size_t size;

        make(ID);
        bytes = read_all(file_of(ID), &size);
        second = strchr(bytes, '\n') + 1;
        third = strchr(second, '\n') + 1;
        fourth = strchr(third, '\n') + 1;
        memmove(second, third, size - (size_t)(third - bytes));
        write_all(file_of(ID), bytes, size - (size_t)(third - second));
        assert_int_equal(sbx_journal_open(runs_directory(), ID, &logger, &journal, NULL), -EBADMSG);
        assert_true(fourth > third);
        free(bytes);
}

static void tells_a_newer_version(void **state) {
        static const char line[] = "{\"sum\":\"x\",\"journal\":2,\"request\":{}}\n";
        struct sbx_journal *journal = NULL;
        struct sbx_error err = {0};

        make(ID);
        write_all(file_of(ID), line, sizeof(line) - 1);
        assert_int_equal(sbx_journal_open(runs_directory(), ID, &logger, &journal, &err), -ENOTSUP);
        assert_contains(err.message, "newer version");
}

/* ---- two of them, and no room ---- */

static void belongs_to_one_process(void **state) {
        struct sbx_journal *journal = create(ID), *other = NULL;
        struct sbx_error err = {0};
        int status;
        pid_t pid = fork();

        if (pid == 0)
                _exit(sbx_journal_open(runs_directory(), ID, &logger, &other, NULL) == -EBUSY ? 0 : 1);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        assert_int_equal(sbx_journal_open(runs_directory(), ID, &logger, &other, &err), -EBUSY);
        assert_contains(err.message, ID);
        sbx_journal_free(journal);
        sbx_journal_free(open_again(ID));
}

static void loses_nothing_to_a_kill(void **state) {
        struct sbx_journal *journal;
        pid_t pid = fork();

        if (pid == 0) {
                journal = create(ID);
                add(journal, "1", 1);
                kill(getpid(), SIGKILL);
        }
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        journal = open_again(ID);
        assert_int_equal(value_of(journal, "1"), 1);
        sbx_journal_free(journal);
}

/* In a process of its own, which the limit is for. */
static int fill_disk(void) {
        struct sbx_journal *journal = create(ID);
        json_t *record =
                json_pack("{s:s%}", "text", "................................................................", 64);
        const struct rlimit limit = {4096, 4096};
        char key[32];
        int r = 0;

        signal(SIGXFSZ, SIG_IGN);
        if (setrlimit(RLIMIT_FSIZE, &limit) < 0)
                return 1;
        for (unsigned i = 0; r == 0 && i < 1000; i++) {
                struct sbx_error err = {0};

                snprintf(key, sizeof(key), "%u", i);
                r = sbx_journal_add(journal, key, record, &err);
                if (r == 0)
                        continue;
                if (r != -EFBIG || sbx_journal_find(journal, key) != NULL || err.message[0] == '\0')
                        return 2;
        }
        if (r == 0 || sbx_journal_add(journal, "again", record, NULL) != -EFBIG)
                return 3;
        return 0; /* without closing it, as if it were killed */
}

static void leaves_no_half_line_when_the_disk_is_full(void **state) {
        struct sbx_journal *journal;
        char *bytes, key[32];
        size_t size;
        int status;
        pid_t pid = fork();

        if (pid == 0)
                _exit(fill_disk());
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        bytes = read_all(file_of(ID), &size);
        assert_int_equal(bytes[size - 1], '\n');
        journal = open_again(ID);
        for (unsigned i = 0; i + 1 < lines_in(bytes, size); i++) {
                json_t *record;

                snprintf(key, sizeof(key), "%u", i);
                record = sbx_journal_find(journal, key);
                assert_non_null(record);
                json_decref(record);
        }
        free(bytes);
        sbx_journal_free(journal);
}

/* ---- the directory ---- */

static void resolves_beginnings(void **state) {
        static const char other[] = "1b4e28bb-0000-4000-8000-000000000000";
        char id[37] = "";
        struct sbx_error err = {0};

        assert_int_equal(sbx_journal_resolve(runs_directory(), "1b4e", id, NULL), -ENOENT);
        make(ID);
        assert_int_equal(sbx_journal_resolve(runs_directory(), "1b4e", id, NULL), 0);
        assert_string_equal(id, ID);
        make(other);
        assert_int_equal(sbx_journal_resolve(runs_directory(), "1b4e28b", id, &err), -EINVAL);
        assert_contains(err.message, ID);
        assert_contains(err.message, other);
        assert_int_equal(sbx_journal_resolve(runs_directory(), "1B4E28BB", id, NULL), 0);
        assert_string_equal(id, other);
        assert_int_equal(sbx_journal_resolve(runs_directory(), ID, id, NULL), 0);
        assert_string_equal(id, ID);
        assert_int_equal(sbx_journal_resolve(runs_directory(), "1b4", id, NULL), -EINVAL);
        assert_int_equal(sbx_journal_resolve(runs_directory(), "../1b4e28bb", id, NULL), -EINVAL);
        assert_int_equal(sbx_journal_resolve(runs_directory(), "ffff", id, NULL), -ENOENT);
        assert_int_equal(sbx_journal_resolve(NULL, "1b4e", id, NULL), -ENOENT);
}

struct listed {
        unsigned count, locked;
        char last_key[32];
};

static int count_listed(void *data, const struct sbx_journal_summary *summary) {
        struct listed *listed = data;

        listed->count++;
        listed->locked += summary->locked;
        assert_non_null(json_object_get(summary->request, "prompt"));
        if (!summary->locked)
                snprintf(listed->last_key, sizeof(listed->last_key), "%s", summary->last_key);
        return 0;
}

static void lists_journals(void **state) {
        struct listed listed = {0};
        struct sbx_journal *journal;

        assert_int_equal(sbx_journal_list(runs_directory(), count_listed, &listed, NULL), 0);
        assert_int_equal(listed.count, 0);
        make(ID);
        journal = create("00000000-0000-4000-8000-000000000000");
        write_all(scratch_path("runs/not-a-journal.txt"), "x", 1);
        write_all(file_of("00000000-0000-4000-8000-000000000001"), "rubbish\n", 8);
        assert_int_equal(sbx_journal_list(runs_directory(), count_listed, &listed, NULL), 0);
        assert_int_equal(listed.count, 2);
        assert_int_equal(listed.locked, 1);
        assert_string_equal(listed.last_key, "2.1.model");
        sbx_journal_free(journal);
}

static void removes_old_journals(void **state) {
        const struct timespec old[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
        struct sbx_journal *held;
        struct listed listed = {0};
        char id[37];

        held = create("ffffffff-0000-4000-8000-000000000000");
        assert_int_equal(utimensat(AT_FDCWD, file_of("ffffffff-0000-4000-8000-000000000000"), old, 0), 0);
        for (unsigned i = 0; i < SBX_JOURNAL_KEEP_FILES + 10; i++) {
                snprintf(id, sizeof(id), "%08x-0000-4000-8000-000000000000", i);
                sbx_journal_free(create(id));
        }
        assert_int_equal(sbx_journal_list(runs_directory(), count_listed, &listed, NULL), 0);
        assert_int_equal(listed.count, SBX_JOURNAL_KEEP_FILES);
        assert_int_equal(listed.locked, 1); /* however old it is */
        assert_int_equal(utimensat(AT_FDCWD, file_of(id), old, 0), 0);
        sbx_journal_free(create(ID));
        assert_int_equal(access(file_of(id), F_OK), -1);
        sbx_journal_free(held);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_teardown(keeps_records, remove_runs),
                cmocka_unit_test_teardown(stays_in_memory, remove_runs),
                cmocka_unit_test_teardown(refuses_what_it_could_not_keep, remove_runs),
                cmocka_unit_test_teardown(refuses_names_that_are_no_ids, remove_runs),
                cmocka_unit_test_teardown(follows_no_links, remove_runs),
                cmocka_unit_test_teardown(knows_what_was_begun, remove_runs),
                cmocka_unit_test_teardown(counts_the_time_of_all_lives, remove_runs),
                cmocka_unit_test_teardown(survives_every_cut, remove_runs),
                cmocka_unit_test_teardown(finds_every_flipped_byte, remove_runs),
                cmocka_unit_test_teardown(finds_lines_that_were_moved, remove_runs),
                cmocka_unit_test_teardown(tells_a_newer_version, remove_runs),
                cmocka_unit_test_teardown(belongs_to_one_process, remove_runs),
                cmocka_unit_test_teardown(loses_nothing_to_a_kill, remove_runs),
                cmocka_unit_test_teardown(leaves_no_half_line_when_the_disk_is_full, remove_runs),
                cmocka_unit_test_teardown(resolves_beginnings, remove_runs),
                cmocka_unit_test_teardown(lists_journals, remove_runs),
                cmocka_unit_test_teardown(removes_old_journals, remove_runs),
        };

        return cmocka_run_group_tests_name("journal", tests, scratch_setup, scratch_teardown);
}

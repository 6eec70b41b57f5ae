/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the plugin alone: what is believed of helpers and guests, and what images are built of. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "digest.h"
#include "helper/protocol.h"
#include "messages.h"
#include "program.h"
#include "report.h"
#include "test.h"
#include "util.h"

/* ---- messages ---- */

struct pair {
        int ours, theirs;
};

static struct pair make_pair(void) {
        int fds[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
        return (struct pair){fds[0], fds[1]};
}

static void close_pair(struct pair *pair) {
        close_fd(&pair->ours);
        close_fd(&pair->theirs);
}

static size_t count_fds(void) {
        size_t count = 0;

        for (int fd = 0; fd < 256; fd++)
                count += fcntl(fd, F_GETFD) >= 0;
        return count;
}

static void test_message_with_descriptor(void **state) {
        struct command_message sent = {.type = COMMAND_REPLY, .id = 7}, got;
        struct pair pair = make_pair();
        int fd = -1;

        assert_int_equal(message_send(pair.theirs, &sent, sizeof(sent), &pair.ours, 1), 0);
        assert_int_equal(message_receive(pair.ours, &got, sizeof(got), NULL, 1000, &fd), 0);
        assert_memory_equal(&sent, &got, sizeof(got));
        assert_true(fd > pair.theirs);
        assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
        close(fd);
        close_pair(&pair);
}

static void test_message_of_another_size(void **state) {
        struct command_message got;
        char longer[sizeof(got) + 8] = {0};
        struct pair pair = make_pair();
        size_t before = count_fds();
        int fd = -1;

        assert_int_equal(message_send(pair.theirs, longer, 5, &pair.ours, 1), 0);
        assert_int_equal(message_receive(pair.ours, &got, sizeof(got), NULL, 1000, &fd), -EBADMSG);
        assert_int_equal(fd, -1);
        assert_int_equal(message_send(pair.theirs, longer, sizeof(longer), NULL, 0), 0);
        assert_int_equal(message_receive(pair.ours, &got, sizeof(got), NULL, 1000, &fd), -EBADMSG);
        assert_int_equal(count_fds(), before);
        close_pair(&pair);
}

/* A guest that sends many descriptors leaves none of them in the server. */
static void test_message_with_many_descriptors(void **state) {
        struct command_message sent = {.type = COMMAND_REPLY}, got;
        struct pair pair = make_pair();
        int many[HELPER_FDS_MAX], fd = -1;
        size_t before = count_fds();

        for (size_t count = 2; count <= HELPER_FDS_MAX; count++) {
                for (size_t i = 0; i < count; i++)
                        many[i] = pair.ours;
                assert_int_equal(message_send(pair.theirs, &sent, sizeof(sent), many, count), 0);
                assert_int_equal(message_receive(pair.ours, &got, sizeof(got), NULL, 1000, &fd), -EBADMSG);
                assert_int_equal(fd, -1);
                assert_int_equal(count_fds(), before);
        }
        assert_int_equal(message_send(pair.theirs, &sent, sizeof(sent), many, HELPER_FDS_MAX + 1), -EINVAL);
        close_pair(&pair);
}

static void test_message_of_nobody(void **state) {
        struct command_message got = {.type = 0};
        struct pair pair = make_pair();
        struct sbx_call call = {.struct_size = sizeof(call), .cancel_fd = -1, .deadline_ns = 1};
        int fd = -1;

        assert_int_equal(message_receive(pair.ours, &got, sizeof(got), NULL, 0, &fd), -ETIMEDOUT);
        assert_int_equal(message_receive(pair.ours, &got, sizeof(got), &call, 60000, &fd), -ETIMEDOUT);
        call = (struct sbx_call){.struct_size = sizeof(call), .cancel_fd = pair.ours};
        assert_int_equal(write(pair.theirs, "x", 1), 1);
        {
                struct pair other = make_pair();

                assert_int_equal(message_receive(other.ours, &got, sizeof(got), &call, 60000, &fd), -ECANCELED);
                close_pair(&other);
        }
        close_fd(&pair.theirs);
        assert_int_equal(message_receive(pair.ours, &got, sizeof(got), NULL, 1000, &fd), -EBADMSG); /* the "x" */
        assert_int_equal(message_receive(pair.ours, &got, sizeof(got), NULL, 1000, &fd), -EPIPE);
        assert_int_equal(message_send(pair.ours, &got, sizeof(got), NULL, 0), -EPIPE);
        close_pair(&pair);
}

/* ---- reports ---- */

static int read_text(const char *json, char **ret_layers) {
        struct sbx_error err = {0};

        return report_read_layers((struct sbx_bytes){json, strlen(json)}, ret_layers, &err);
}

static void test_layers_that_are_none(void **state) {
        static const char *const bad[] = {
                "",
                "[]",
                "{}",
                "null",
                "[1]",
                "[{\"name\":\"a\",\"state\":\"applied\"}]",
                "[{\"name\":\"\",\"state\":\"applied\",\"detail\":\"\"}]",
                "[{\"name\":\"a\",\"state\":\"perhaps\",\"detail\":\"\"}]",
                "[{\"name\":\"a\",\"state\":\"applied\",\"detail\":1}]",
                "[{\"name\":\"a\",\"state\":\"applied\",\"detail\":\"\",\"more\":1}]",
                "[{\"name\":\"a\",\"name\":\"b\",\"state\":\"applied\",\"detail\":\"\"}]",
                "[{\"name\":\"a\",\"state\":\"applied\",\"detail\":\"\"}",
                "[{\"name\":\"\xff\",\"state\":\"applied\",\"detail\":\"\"}]",
        };
        char *layers = NULL;

        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                assert_int_equal(read_text(bad[i], &layers), -EIO);
                assert_null(layers);
        }
}

static void test_report(void **state) {
        struct backend backend = {
                .options = {.files_bytes = 64u << 20, .file_entries = 100, .open_files = 16},
        };
        struct guest_image image = {.runtime = "python", .version = "3.11.2", .hash_text = "0123456789abcdef0123"};
        _cleanup_free_ char *layers = NULL, *text = NULL;
        _cleanup_json_ json_t *report = NULL;
        json_t *list;

        assert_int_equal(read_text("[{\"name\":\"a \\\"b\\\"\",\"state\":\"applied\",\"detail\":\"c\\n\"},"
                                   "{\"name\":\"d\",\"state\":\"off\",\"detail\":\"\"}]",
                                   &layers),
                         0);
        text = report_make(&backend, &image, layers, 128u << 20);
        assert_non_null(text);
        report = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
        assert_string_equal(json_string_value(json_object_get(report, "isolation")), "wasm");
        list = json_object_get(report, "layers");
        assert_int_equal(json_array_size(list), 5);
        assert_string_equal(json_string_value(json_object_get(json_array_get(list, 1), "name")), "a \"b\"");
        assert_non_null(strstr(json_string_value(json_object_get(json_array_get(list, 3), "detail")), "128 MiB"));
}

/* ---- digests ---- */

static void write_file(const char *directory, const char *name, const char *text) {
        char path[512];
        FILE *file;

        snprintf(path, sizeof(path), "%s/%s", directory, name);
        file = fopen(path, "w");
        assert_non_null(file);
        assert_true(fputs(text, file) >= 0);
        assert_int_equal(fclose(file), 0);
}

static void digest(const char *directory, const char *first, const char *second, char ret_text[DIGEST_TEXT]) {
        const char *const packages[] = {first, second, NULL};
        const char *failed = NULL;

        assert_int_equal(digest_packages((const uint8_t *)"base", 4, packages, directory, ret_text, &failed), 0);
}

static void test_digest(void **state) {
        char directory[] = "/tmp/sbx-digest-XXXXXX", command[64], one[DIGEST_TEXT], two[DIGEST_TEXT];
        const char *const absent[] = {"./absent", NULL}, *const none[] = {NULL};
        const char *failed = NULL;

        assert_non_null(mkdtemp(directory));
        snprintf(command, sizeof(command), "%s/tool", directory);
        assert_int_equal(mkdir(command, 0700), 0);
        write_file(directory, "tool/a.py", "12");
        write_file(directory, "tool/b.py", "3");
        digest(directory, "./tool", NULL, one);
        digest(directory, "./tool", NULL, two);
        assert_string_equal(one, two);
        write_file(directory, "tool/.hidden", "does not count");
        digest(directory, "./tool", NULL, two);
        assert_string_equal(one, two);
        /* The same bytes, in other files. */
        write_file(directory, "tool/a.py", "1");
        write_file(directory, "tool/b.py", "23");
        digest(directory, "./tool", NULL, two);
        assert_string_not_equal(one, two);
        digest(directory, "ab", "c", one);
        digest(directory, "a", "bc", two);
        assert_string_not_equal(one, two);
        assert_int_equal(digest_packages((const uint8_t *)"base", 4, absent, directory, one, &failed), -ENOENT);
        assert_string_equal(failed, "./absent");
        assert_int_equal(digest_packages((const uint8_t *)"base", 4, none, directory, one, &failed), 0);
        assert_int_equal(digest_packages((const uint8_t *)"bas", 3, none, directory, two, &failed), 0);
        assert_string_not_equal(one, two);
        snprintf(command, sizeof(command), "rm -r %s", directory);
        assert_int_equal(system(command), 0);
}

static void test_packages_that_are_paths(void **state) {
        static const char *const paths[] = {".", "./a", "/a", "a/b", "a.whl", "a.py"};
        static const char *const names[] = {"a", "a==1.0", "a.b", "py", ".py", ".whl"};

        for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
                assert_true(package_is_path(paths[i]));
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                assert_false(package_is_path(names[i]));
}

/* ---- programs ---- */

static int run_shell(const char *script, const struct sbx_call *call, struct program_result *result) {
        return program_run((const char *const[]){"/bin/sh", "-c", script, NULL}, "testing", call, result);
}

static void test_programs(void **state) {
        struct program_result result;
        int fds[2];
        struct sbx_call call = {.struct_size = sizeof(call)};

        assert_int_equal(run_shell("echo one; echo two >&2; exit 3", NULL, &result), 0);
        assert_int_equal(result.exit_code, 3);
        assert_string_equal(result.tail, "one\ntwo\n");
        assert_int_equal(run_shell("kill -9 $$", NULL, &result), 0);
        assert_int_equal(result.exit_code, -9);
        assert_string_equal(result.tail, "");
        /* The last of very much; and nothing that a terminal would obey. */
        assert_int_equal(run_shell("i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done; printf '\\033[2Jx'",
                                   NULL, &result),
                         0);
        assert_true(strlen(result.tail) < PROGRAM_TAIL_MAX);
        assert_non_null(strstr(result.tail, "line 2999\n?[2Jx\n"));
        assert_int_equal(run_shell("head -c 100000 /dev/zero | tr '\\0' x", NULL, &result), 0);
        assert_true(strlen(result.tail) < PROGRAM_TAIL_MAX && strlen(result.tail) > 100);
        /* Of the environment, nothing that it does not need. */
        assert_int_equal(setenv("SECRET_OF_THE_SERVER", "value", 1), 0);
        assert_int_equal(run_shell("echo ${SECRET_OF_THE_SERVER-none}", NULL, &result), 0);
        assert_string_equal(result.tail, "none\n");
        /* It ends with the call, and what it has started with it. */
        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        assert_int_equal(write(fds[1], "x", 1), 1);
        call.cancel_fd = fds[0];
        assert_int_equal(run_shell("sleep 1000 & sleep 1000", &call, &result), -ECANCELED);
        assert_int_equal(result.exit_code, -9);
        close(fds[0]);
        close(fds[1]);
        assert_int_equal(program_run((const char *const[]){"/nowhere/at/all", NULL}, "testing", NULL, &result),
                         -ENOENT);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_message_with_descriptor),
                cmocka_unit_test(test_message_of_another_size),
                cmocka_unit_test(test_message_with_many_descriptors),
                cmocka_unit_test(test_message_of_nobody),
                cmocka_unit_test(test_layers_that_are_none),
                cmocka_unit_test(test_report),
                cmocka_unit_test(test_digest),
                cmocka_unit_test(test_packages_that_are_paths),
                cmocka_unit_test(test_programs),
        };

        return cmocka_run_group_tests_name("backend-wasm plugin parts", tests, NULL, NULL);
}

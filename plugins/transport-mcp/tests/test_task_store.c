/* SPDX-License-Identifier: Apache-2.0 */
/* Records of tasks: what was written is read back, what others wrote is checked, and a server that is gone is known as
 * such. */
#include "test.h"

#include <fcntl.h>
#include <jansson.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "directory.h"
#include "fake_host.h"
#include "task_store.h"

#define SERVER "00000000000000000000000000000001"
#define OTHER "00000000000000000000000000000002"
#define TASK "0123456789abcdef0123456789abcdef"

struct place {
        struct sbx_host_state fake;
        struct test_directory directory;
        struct mcp_task_store *store;
};

static struct mcp_task_store *open_store(struct place *place, const char *server) {
        struct mcp_task_store *store = NULL;

        assert_int_equal(mcp_task_store_open(&place->fake.services, server, &store, NULL), 0);
        return store;
}

static int setup(void **test) {
        struct place *place = malloc(sizeof(*place));

        assert_non_null(place);
        fake_host_init(&place->fake);
        test_directory_make(&place->directory);
        place->fake.state_directory = place->directory.path;
        place->store = open_store(place, SERVER);
        *test = place;
        return 0;
}

static int teardown(void **test) {
        struct place *place = *test;

        mcp_task_store_close(place->store);
        test_directory_remove(&place->directory);
        fake_host_check(&place->fake);
        fake_host_free(&place->fake);
        free(place);
        return 0;
}

static void fill(struct mcp_task_record *record, const char *server, enum mcp_task_status status, const char *payload) {
        *record = (struct mcp_task_record){
                .id = TASK,
                .status = status,
                .created_ms = 1795000000123,
                .updated_ms = 1795000001000,
                .ttl_ms = 60000,
                .principal = strdup("token:\"a\""),
                .message = strdup("half\nway"),
                .payload = MCP_TEXT(MCP_TASK_PAYLOAD_MAX),
        };
        snprintf(record->server, sizeof(record->server), "%s", server);
        if (payload != NULL)
                assert_int_equal(mcp_text_append_literal(&record->payload, payload), 0);
}

static void test_round_trip(void **test) {
        static const char payload[] = "{\"content\":[],\"number\":0.1,\"text\":\"\\u0000\\n\"}";
        struct place *place = *test;
        _cleanup_record_ struct mcp_task_record written, read = {.payload = MCP_TEXT(0)},
                                                         header = {.payload = MCP_TEXT(0)};
        char path[512];
        struct stat info;

        fill(&written, SERVER, MCP_TASK_COMPLETED, payload);
        assert_int_equal(mcp_task_store_read(place->store, TASK, true, &read), -ENOENT);
        assert_int_equal(mcp_task_store_write(place->store, &written, NULL), 0);
        assert_int_equal(mcp_task_store_read(place->store, TASK, true, &read), 0);
        assert_string_equal(read.id, TASK);
        assert_string_equal(read.server, SERVER);
        assert_string_equal(read.principal, "token:\"a\"");
        assert_string_equal(read.message, "half\nway");
        assert_int_equal(read.status, MCP_TASK_COMPLETED);
        assert_int_equal(read.created_ms, written.created_ms);
        assert_int_equal(read.updated_ms, written.updated_ms);
        assert_int_equal(read.ttl_ms, 60000);
        assert_int_equal(read.payload.size, strlen(payload)); /* to the byte, as it was sent */
        assert_memory_equal(read.payload.data, payload, strlen(payload));
        assert_int_equal(mcp_task_store_read(place->store, TASK, false, &header), 0);
        assert_int_equal(header.payload.size, 0);
        snprintf(path, sizeof(path), "%s/mcp-tasks/" TASK ".json", place->directory.path);
        assert_int_equal(stat(path, &info), 0);
        assert_int_equal(info.st_mode & 0777, 0600);
        snprintf(path, sizeof(path), "%s/mcp-tasks", place->directory.path);
        assert_int_equal(stat(path, &info), 0);
        assert_int_equal(info.st_mode & 0777, 0700);
        mcp_task_store_remove(place->store, TASK);
        mcp_task_record_free(&read);
        assert_int_equal(mcp_task_store_read(place->store, TASK, true, &read), -ENOENT);
}

static void test_too_large(void **test) {
        struct place *place = *test;
        _cleanup_record_ struct mcp_task_record record;

        fill(&record, SERVER, MCP_TASK_COMPLETED, NULL);
        record.payload.max = MCP_TASK_PAYLOAD_MAX + 1;
        assert_int_equal(mcp_text_reserve(&record.payload, MCP_TASK_PAYLOAD_MAX + 1), 0);
        memset(record.payload.data, ' ', MCP_TASK_PAYLOAD_MAX + 1);
        record.payload.size = MCP_TASK_PAYLOAD_MAX + 1;
        assert_int_equal(mcp_task_store_write(place->store, &record, NULL), -EFBIG);
        assert_int_equal(mcp_task_store_read(place->store, TASK, true, &(struct mcp_task_record){.id = ""}), -ENOENT);
}

#define HEAD "{\"version\":1,\"taskId\":\"" TASK "\",\"server\":\"" OTHER "\",\"principal\":\"\","
#define TIMES "\"createdMs\":1,\"updatedMs\":1,\"ttlMs\":1}\n"

static void test_hostile(void **test) {
        static const char *const records[] = {
                "rubbish",
                "\n",
                "{}\n",
                "[]\n{}\n",
                HEAD "\"status\":\"working\"," TIMES "{}", /* no end of line */
                HEAD "\"status\":\"working\"," TIMES "{}\n{}\n",
                HEAD "\"status\":\"working\"," TIMES "[]\n",
                HEAD "\"status\":\"working\"," TIMES "{\"a\":1,\"a\":2}\n",
                HEAD "\"status\":\"working\"," TIMES "{\"jsonrpc\"\n",
                HEAD "\"status\":\"unheard-of\"," TIMES,
                HEAD "\"status\":7," TIMES,
                HEAD "\"status\":\"working\",\"createdMs\":-1,\"updatedMs\":1,\"ttlMs\":1}\n",
                HEAD "\"status\":\"working\",\"createdMs\":9223372036854775807,\"updatedMs\":1,\"ttlMs\":1}\n",
                HEAD "\"status\":\"working\",\"createdMs\":1.5,\"updatedMs\":1,\"ttlMs\":1}\n",
                HEAD "\"status\":\"working\",\"status\":\"failed\"," TIMES,
                "{\"version\":2,\"taskId\":\"" TASK "\",\"server\":\"" OTHER
                "\",\"principal\":\"\",\"status\":\"working\"," TIMES,
                "{\"version\":1,\"taskId\":\"" OTHER "\",\"server\":\"" OTHER
                "\",\"principal\":\"\",\"status\":\"working\"," TIMES,
                "{\"version\":1,\"taskId\":\"" TASK
                "\",\"server\":\"../../etc/passwd\",\"principal\":\"\",\"status\":\"working\"," TIMES,
                "{\"version\":1,\"taskId\":\"" TASK "\",\"server\":\"" OTHER
                "\",\"principal\":7,\"status\":\"working\"," TIMES,
        };
        struct place *place = *test;

        for (size_t i = 0; i < sizeof(records) / sizeof(records[0]); i++) {
                struct mcp_task_record record = {.payload = MCP_TEXT(0)};

                test_directory_write(&place->directory, "mcp-tasks/" TASK ".json", records[i], strlen(records[i]));
                if (mcp_task_store_read(place->store, TASK, true, &record) != -EBADMSG)
                        fail_msg("record %zu was taken: %s", i, records[i]);
        }
}

/* Nested beyond what jansson follows; and a file that is larger than any record. */
static void test_hostile_sizes(void **test) {
        static const char head[] = HEAD "\"status\":\"completed\"," TIMES "{\"a\":";
        struct mcp_task_record record = {.payload = MCP_TEXT(0)};
        struct place *place = *test;
        size_t size = 1u << 20;
        char *text = malloc(size), path[512];

        assert_non_null(text);
        memset(text, '[', size);
        test_directory_write(&place->directory, "mcp-tasks/" TASK ".json", text, size);
        assert_int_equal(mcp_task_store_read(place->store, TASK, true, &record), -EBADMSG);
        memcpy(text, head, sizeof(head) - 1);
        text[size - 1] = '\n';
        test_directory_write(&place->directory, "mcp-tasks/" TASK ".json", text, size);
        assert_int_equal(mcp_task_store_read(place->store, TASK, true, &record), -EBADMSG);
        free(text);
        snprintf(path, sizeof(path), "%s/mcp-tasks/" TASK ".json", place->directory.path);
        assert_int_equal(truncate(path, 1ll << 40), 0);
        assert_int_equal(mcp_task_store_read(place->store, TASK, true, &record), -EBADMSG);
        assert_int_equal(truncate(path, 0), 0);
        assert_int_equal(mcp_task_store_read(place->store, TASK, true, &record), -EBADMSG);
}

/* What is no regular file is not opened, and does not block. */
static void test_hostile_kinds(void **test) {
        struct mcp_task_record record = {.payload = MCP_TEXT(0)};
        struct place *place = *test;
        char path[512];

        snprintf(path, sizeof(path), "%s/mcp-tasks/" TASK ".json", place->directory.path);
        assert_int_equal(mkfifo(path, 0600), 0);
        assert_int_equal(mcp_task_store_read(place->store, TASK, true, &record), -EBADMSG);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(symlink("/etc/passwd", path), 0);
        assert_int_equal(mcp_task_store_read(place->store, TASK, true, &record), -EBADMSG);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(mkdir(path, 0700), 0);
        assert_int_equal(mcp_task_store_read(place->store, TASK, true, &record), -EBADMSG);
}

static void count_record(void *data, struct mcp_task_record *record) {
        assert_string_equal(record->id, TASK);
        ++*(size_t *)data;
}

static void test_scan(void **test) {
        static const char good[] = HEAD "\"status\":\"working\"," TIMES;
        struct place *place = *test;
        size_t count = 0;

        test_directory_write(&place->directory, "mcp-tasks/" TASK ".json", good, strlen(good));
        test_directory_write(&place->directory, "mcp-tasks/" OTHER ".json", "rubbish", 7);
        test_directory_write(&place->directory, "mcp-tasks/notes.json", "not ours", 8);
        test_directory_write(&place->directory, "mcp-tasks/" OTHER ".tmp", "being written", 13);
        test_directory_write(&place->directory, "mcp-tasks/" TASK ".tmp", "left", 4);
        test_directory_age(&place->directory, "mcp-tasks/" TASK ".tmp", 3600);
        test_directory_write(&place->directory, "mcp-tasks/" OTHER ".lock", "", 0);
        assert_int_equal(mcp_task_store_scan(place->store, count_record, &count), 0);
        assert_int_equal(count, 1);
        assert_true(test_directory_has(&place->directory, "mcp-tasks/" TASK ".json"));
        assert_false(test_directory_has(&place->directory, "mcp-tasks/" OTHER ".json"));
        assert_true(test_directory_has(&place->directory, "mcp-tasks/notes.json"));
        assert_true(test_directory_has(&place->directory, "mcp-tasks/" OTHER ".tmp"));
        assert_false(test_directory_has(&place->directory, "mcp-tasks/" TASK ".tmp"));
        assert_false(test_directory_has(&place->directory, "mcp-tasks/" OTHER ".lock"));
        assert_true(test_directory_has(&place->directory, "mcp-tasks/" SERVER ".lock"));
}

static void test_alive(void **test) {
        struct place *place = *test;
        struct mcp_task_store *other = open_store(place, OTHER);

        assert_true(mcp_task_store_is_alive(place->store, SERVER));
        assert_true(mcp_task_store_is_alive(place->store, OTHER));
        assert_true(mcp_task_store_is_alive(other, SERVER));
        mcp_task_store_close(other);
        assert_false(mcp_task_store_is_alive(place->store, OTHER));
        assert_false(mcp_task_store_is_alive(place->store, TASK));
}

/* A server that was killed leaves its lock's file behind, but not the lock. */
static void test_killed(void **test) {
        struct place *place = *test;
        pid_t child = fork();
        int status;

        assert_true(child >= 0);
        if (child == 0) {
                struct mcp_task_store *store = NULL;

                _exit(mcp_task_store_open(&place->fake.services, OTHER, &store, NULL) == 0 ? 7 : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
        assert_true(test_directory_has(&place->directory, "mcp-tasks/" OTHER ".lock"));
        assert_false(mcp_task_store_is_alive(place->store, OTHER));
        assert_false(test_directory_has(&place->directory, "mcp-tasks/" OTHER ".lock"));
}

static void test_directory_of_others(void **test) {
        struct place *place = *test;
        struct mcp_task_store *store = NULL;
        struct sbx_error err = {0};
        char path[512];

        snprintf(path, sizeof(path), "%s/mcp-tasks", place->directory.path);
        assert_int_equal(chmod(path, 0777), 0);
        assert_int_equal(mcp_task_store_open(&place->fake.services, OTHER, &store, &err), -EPERM);
        assert_non_null(strstr(err.hint, "0700"));
        assert_int_equal(chmod(path, 0700), 0);
        place->fake.state_directory = NULL;
        assert_int_equal(mcp_task_store_open(&place->fake.services, OTHER, &store, NULL), -ENOENT);
        place->fake.state_directory = "/nowhere/at/all";
        assert_int_equal(mcp_task_store_open(&place->fake.services, OTHER, &store, NULL), -ENOENT);
}

static void test_ids(void **test) {
        assert_true(mcp_task_id_is_valid(TASK));
        assert_false(mcp_task_id_is_valid(""));
        assert_false(mcp_task_id_is_valid("../../../../../../etc/passwd/////"));
        assert_false(mcp_task_id_is_valid("0123456789ABCDEF0123456789abcdef"));
        assert_false(mcp_task_id_is_valid("0123456789abcdef0123456789abcde"));
        assert_false(mcp_task_id_is_valid("0123456789abcdef0123456789abcdef0"));
}

#define STORE_TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                STORE_TEST(test_round_trip),    STORE_TEST(test_too_large),     STORE_TEST(test_hostile),
                STORE_TEST(test_hostile_sizes), STORE_TEST(test_hostile_kinds), STORE_TEST(test_scan),
                STORE_TEST(test_alive),         STORE_TEST(test_killed),        STORE_TEST(test_directory_of_others),
                cmocka_unit_test(test_ids),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

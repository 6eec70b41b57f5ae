/* SPDX-License-Identifier: Apache-2.0 */
/* Signed text: what was given out comes back, and nothing else does. */
#include "client.h"

static void test_round_trip(void **test) {
        struct client *client = *test;
        unsigned char payload[2048];

        for (size_t size = 0; size <= sizeof(payload); size = size < 70 ? size + 1 : size * 2 - 5) {
                char *token = NULL, *back = NULL;
                size_t back_size = 0;

                for (size_t i = 0; i < size; i++)
                        payload[i] = (unsigned char)(i * 7 + size);
                assert_int_equal(mcp_sign(client->server, "cursor", "p", (struct sbx_bytes){payload, size}, &token), 0);
                assert_int_equal(strspn(token, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"),
                                 strlen(token));
                assert_int_equal(mcp_verify(client->server, "cursor", "p", token, &back, &back_size), 0);
                assert_int_equal(back_size, size);
                assert_memory_equal(back, payload, size);
                assert_int_equal(back[size], 0);
                free(token);
                free(back);
        }
        assert_int_equal(mcp_sign(client->server, "cursor", "p", (struct sbx_bytes){payload, 2049}, NULL), -EINVAL);
}

static void check_refused(struct client *client, const char *purpose, const char *principal, const char *token) {
        char *payload = NULL;
        size_t size = 7;

        assert_int_equal(mcp_verify(client->server, purpose, principal, token, &payload, &size), -EINVAL);
        assert_null(payload);
        assert_int_equal(size, 7);
}

static void test_bound_to_purpose_and_principal(void **test) {
        struct client *client = *test;
        char *token = NULL;

        assert_int_equal(mcp_sign(client->server, "ab", "c", BYTES("d"), &token), 0);
        check_refused(client, "cursor", "c", token);
        check_refused(client, "ab", "C", token);
        check_refused(client, "a", "bc", token); /* the parts have borders */
        check_refused(client, "abc", "", token);
        free(token);
}

static void test_any_change_is_seen(void **test) {
        static const char other[] = "AQgw_-.=+/ \x80";
        struct client *client = *test;
        char *token = NULL;
        size_t length;

        assert_int_equal(mcp_sign(client->server, "cursor", "", BYTES("tools:2:b"), &token), 0);
        length = strlen(token);
        for (size_t i = 0; i < length; i++) {
                for (size_t j = 0; j < sizeof(other) - 1; j++) {
                        char before = token[i];

                        if (other[j] == before)
                                continue;
                        token[i] = other[j];
                        check_refused(client, "cursor", "", token);
                        token[i] = before;
                }
        }
        for (size_t i = 0; i < length; i++) {
                char before = token[i];

                token[i] = '\0';
                check_refused(client, "cursor", "", token);
                token[i] = before;
        }
        free(token);
}

static void test_of_another_server(void **test) {
        struct client *client = *test, *other = client_make();
        char *token = NULL;

        client_open(other, MCP_CONNECTION_STREAM);
        assert_int_equal(mcp_sign(other->server, "cursor", "", BYTES("x"), &token), 0);
        check_refused(client, "cursor", "", token);
        free(token);
        client_close(other);
}

static void test_long_rubbish(void **test) {
        struct client *client = *test;
        char *rubbish = malloc(100001);

        assert_non_null(rubbish);
        memset(rubbish, 'A', 100000);
        rubbish[100000] = '\0';
        check_refused(client, "cursor", "", rubbish);
        free(rubbish);
}

static void test_random_ids(void **test) {
        char a[MCP_RANDOM_ID_SIZE], b[MCP_RANDOM_ID_SIZE];

        mcp_random_id(a);
        mcp_random_id(b);
        assert_int_equal(strlen(a), 32);
        assert_int_equal(strspn(a, "0123456789abcdef"), 32);
        assert_string_not_equal(a, b);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_round_trip, client_setup, client_teardown),
                cmocka_unit_test_setup_teardown(test_bound_to_purpose_and_principal, client_setup, client_teardown),
                cmocka_unit_test_setup_teardown(test_any_change_is_seen, client_setup, client_teardown),
                cmocka_unit_test_setup_teardown(test_of_another_server, client_setup, client_teardown),
                cmocka_unit_test_setup_teardown(test_long_rubbish, client_setup, client_teardown),
                cmocka_unit_test(test_random_ids),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

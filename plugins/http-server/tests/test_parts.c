/* SPDX-License-Identifier: Apache-2.0 */
/* The parts that need no socket: heads, targets, guards, rates, tokens. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../../tests/unit/test.h"
/* after cmocka, which it wraps nothing of */
#include "../../../tests/unit/alloc_fail.h"
#include "../auth.h"
#include "../guard.h"
#include "../head.h"
#include "../rate.h"
#include "../target.h"
#include "../tokens.h"

#define S UINT64_C(1000000000)

static void targets(void **state) {
        static const struct {
                const char *text, *path;
        } good[] = {
                {"/", "/"},
                {"/mcp", "/mcp"},
                {"/mcp/", "/mcp"},
                {"/%6dcp", "/mcp"},
                {"/a/b", "/a/b"},
                {"/a?x=/../", "/a"},
                {"/a.b", "/a.b"},
                {"/.well-known/x", "/.well-known/x"},
                {"/...", "/..."},
                {"/a%20b", "/a b"},
                {"/%e2%82%ac", "/\xe2\x82\xac"},
                {"/a;b=c", "/a;b=c"},
                {"/a?", "/a"},
        };
        static const char *const bad[] = {
                "",      "mcp",     "*",        "http://h/", "//mcp",   "/mcp//", "/a//b",   "/..",    "/../a",
                "/a/..", "/a/../b", "/.",       "/./a",      "/a/.",    "/%2e",   "/%2E%2e", "/a%2fb", "/a%5Cb",
                "/a\\b", "/%00",    "/a%",      "/a%1",      "/a%zz",   "/%25",   "/a b",    "/a\tb",  "/a#b",
                "/\x80", "/a?b#c",  "/a?x=%00", "/a?x=%0",   "/a?%z=1", "/%0a",   "/%7f",    "/a<b",   "/a\"b",
        };
        struct hs_target target;

        for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
                assert_int_equal(hs_target_parse(good[i].text, strlen(good[i].text), &target), 0);
                assert_string_equal(target.path, good[i].path);
                hs_target_free(&target);
        }
        for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
                if (hs_target_parse(bad[i], strlen(bad[i]), &target) != -EINVAL)
                        fail_msg("\"%s\" is a target", bad[i]);
        assert_int_equal(hs_target_parse("/a\0b", 4, &target), -EINVAL);
}

static void queries(void **state) {
        const char text[] = "/?a=1&b=%26%3d+x&c&=d&&a=2&e==";
        struct hs_target target;
        char many[256] = "/?";

        assert_int_equal(hs_target_parse(text, strlen(text), &target), 0);
        assert_string_equal(hs_target_query(&target, "a"), "1");
        assert_string_equal(hs_target_query(&target, "b"), "&= x");
        assert_string_equal(hs_target_query(&target, "c"), "");
        assert_string_equal(hs_target_query(&target, ""), "d");
        assert_string_equal(hs_target_query(&target, "e"), "=");
        assert_null(hs_target_query(&target, "A"));
        hs_target_free(&target);
        for (size_t i = 0; i < HS_PARAMETERS_MAX; i++)
                strcat(many, "x&");
        assert_int_equal(hs_target_parse(many, strlen(many), &target), 0);
        assert_int_equal(target.count, HS_PARAMETERS_MAX);
        hs_target_free(&target);
        strcat(many, "x");
        assert_int_equal(hs_target_parse(many, strlen(many), &target), -EINVAL);
}

/* A head as libmicrohttpd leaves it: parsed in place, leniently. */
struct parsed {
        char text[1024];
        struct hs_field fields[16];
        size_t value_sizes[16];
        struct hs_parts parts;
};

/* Ends the line at `*place` with NUL characters and goes behind it. */
static char *cut_line(char **place, size_t *ret_size) {
        char *line = *place, *end = memchr(line, '\n', 256); /* a NUL ends nothing yet */

        assert_non_null(end);
        *place = end + 1;
        *end = '\0';
        if (end > line && end[-1] == '\r')
                *--end = '\0';
        *ret_size = (size_t)(end - line);
        return line;
}

static const struct hs_parts *parse_head(struct parsed *parsed, const char *text, size_t size) {
        char *place = parsed->text, *line, *uri, *version;
        size_t line_size;

        memset(parsed, 0, sizeof(*parsed));
        assert_true(size < sizeof(parsed->text) / 2);
        memcpy(parsed->text, text, size);
        parsed->parts.method = line = cut_line(&place, &line_size);
        uri = memchr(line, ' ', line_size);
        version = memrchr(line, ' ', line_size);
        assert_true(uri != NULL && version > uri);
        *uri++ = *version++ = '\0';
        uri += strspn(uri, " ");
        parsed->parts.uri = uri;
        parsed->parts.uri_size = strlen(uri);
        parsed->parts.version = version;
        while (*(line = cut_line(&place, &line_size)) != '\0') {
                char *colon = strchr(line, ':');

                assert_non_null(colon);
                *colon++ = '\0';
                colon += strspn(colon, " \t");
                parsed->fields[parsed->parts.count] = (struct hs_field){line, colon};
                parsed->value_sizes[parsed->parts.count++] = strlen(colon);
        }
        parsed->parts.fields = parsed->fields;
        parsed->parts.value_sizes = parsed->value_sizes;
        parsed->parts.size = (size_t)(place - parsed->text);
        return &parsed->parts;
}

#define PARSE(parsed, literal) parse_head((parsed), (literal), sizeof(literal) - 1)

static void heads(void **state) {
        struct parsed parsed;
        struct hs_head head;
        const char *value = NULL;

        assert_true(hs_head_is_strict(PARSE(&parsed, "GET / HTTP/1.1\r\n\r\n")));
        assert_true(hs_head_is_strict(
                PARSE(&parsed, "GET /a HTTP/1.1\r\nHost: a\r\nX-Empty:\r\nx:\t y \t\r\nX: z\r\n\r\n")));
        assert_int_equal(hs_head_copy(&parsed.parts, &head), 0);
        memset(&parsed, 'x', sizeof(parsed)); /* the copy stands alone */
        assert_string_equal(head.method, "GET");
        assert_string_equal(hs_head_get(&head, "hOST"), "a");
        assert_string_equal(hs_head_get(&head, "X-Empty"), "");
        assert_string_equal(hs_head_get(&head, "X"), "");
        assert_int_equal(hs_head_find(&head, "X", &value), 2);
        assert_string_equal(value, "y");
        assert_null(hs_head_get(&head, "Hos"));
        hs_head_free(&head);

        assert_false(hs_head_is_strict(PARSE(&parsed, "GET  / HTTP/1.1\r\n\r\n")));
        assert_false(hs_head_is_strict(PARSE(&parsed, "GET / HTTP/1.1\n\r\n")));
        assert_false(hs_head_is_strict(PARSE(&parsed, "GET / HTTP/1.1\nA: b\r\n\r\n")));
        assert_false(hs_head_is_strict(PARSE(&parsed, "GET / HTTP/1.1\r\nA: b\nC: d\r\n\r\n")));
        assert_false(hs_head_is_strict(PARSE(&parsed, "GET / HTTP/1.1\r\nA: b\r\nC: d\n\r\n")));
        assert_false(hs_head_is_strict(PARSE(&parsed, "GET / HTTP/1.1\r\nA: b\r\n\n")));
        assert_false(hs_head_is_strict(PARSE(&parsed, "GET / HTTP/1.1\r\nA : b\r\n\r\n")));
        assert_false(hs_head_is_strict(PARSE(&parsed, "GET / HTTP/1.1\r\nA: b\rc\r\n\r\n")));
        assert_false(hs_head_is_strict(PARSE(&parsed, "GET / HTTP/1.1\r\nA: b\0c\r\n\r\n")));
        assert_false(hs_head_is_strict(PARSE(&parsed, "GET / HTTP/1.1\r\nA: b\0\r\n\r\n")));
        assert_false(hs_head_is_strict(PARSE(&parsed, "GET / HTTP/1.1\r\nA\xc3: b\r\n\r\n")));
        assert_false(hs_head_is_strict(PARSE(&parsed, "GET\0 / HTTP/1.1\r\n\r\n")));
        assert_false(hs_head_is_strict(PARSE(&parsed, "GET /\0 HTTP/1.1\r\n\r\n")));
}

static void name_lists(void **state) {
        char many[2048];

        assert_true(hs_is_name_list("a"));
        assert_true(hs_is_name_list("a,b"));
        assert_true(hs_is_name_list(" a , content-type "));
        assert_false(hs_is_name_list(""));
        assert_false(hs_is_name_list(","));
        assert_false(hs_is_name_list("a,"));
        assert_false(hs_is_name_list("a b"));
        assert_false(hs_is_name_list("a;b"));
        assert_false(hs_is_name_list("a:b"));
        memset(many, 'a', sizeof(many));
        many[sizeof(many) - 1] = '\0';
        assert_false(hs_is_name_list(many));
}

static void loopback_hosts(void **state) {
        static const char *const good[] = {"localhost",   "LocalHost", "127.0.0.1",
                                           "127.255.0.9", "[::1]",     "[0:0:0:0:0:0:0:1]"};
        static const char *const bad[] = {
                "",     "localhost.", "localhostx", "127.0.0.1x",         "128.0.0.1", "127.1",      "::1",
                "[::1", "[]",         "[::2]",      "[::ffff:127.0.0.1]", "0.0.0.0",   "127.0.0.01x"};

        for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
                assert_true(hs_is_loopback_host(good[i], strlen(good[i])));
        for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
                if (hs_is_loopback_host(bad[i], strlen(bad[i])))
                        fail_msg("\"%s\" is loopback", bad[i]);
}

static void guards(void **state) {
        static const char *const hosts[] = {"mcp.example", "[fd00::1]", NULL};
        static const char *const origins[] = {"https://app.example", "https://other.example:8443", NULL};
        static const char *const bad_hosts[] = {"a:1", NULL};
        struct hs_guard guard;
        const char *bad = NULL;

        assert_int_equal(hs_guard_init(&guard, "192.0.2.1", hosts, origins, &bad), 0);
        assert_int_equal(hs_guard_host(&guard, "192.0.2.1:8000", NULL), 0);
        assert_int_equal(hs_guard_host(&guard, "Mcp.Example", NULL), 0);
        assert_int_equal(hs_guard_host(&guard, "[fd00::1]:1", NULL), 0);
        assert_int_equal(hs_guard_host(&guard, "192.0.2.2", NULL), -EACCES);
        assert_int_equal(hs_guard_host(&guard, "192.0.2.2", "192.0.2.2"), 0);
        assert_int_equal(hs_guard_host(&guard, "192.0.2.2", "192.0.2.22"), -EACCES);
        assert_int_equal(hs_guard_host(&guard, "", NULL), -EINVAL);
        assert_int_equal(hs_guard_host(&guard, "a:", NULL), -EACCES);
        assert_int_equal(hs_guard_host(&guard, "a b", NULL), -EINVAL);
        assert_int_equal(hs_guard_origin(&guard, "https://app.example"), 0);
        assert_int_equal(hs_guard_origin(&guard, "https://other.example:8443"), 0);
        assert_int_equal(hs_guard_origin(&guard, "https://other.example"), -EACCES);
        assert_int_equal(hs_guard_origin(&guard, "http://[::1]"), 0);
        assert_int_equal(hs_guard_origin(&guard, "http://[::1"), -EACCES);
        /* An address that is listened on is no origin. */
        assert_int_equal(hs_guard_origin(&guard, "http://192.0.2.1"), -EACCES);
        hs_guard_clear(&guard);
        assert_int_equal(hs_guard_init(&guard, "::1", NULL, NULL, &bad), 0);
        assert_int_equal(hs_guard_host(&guard, "[::1]:1", NULL), 0);
        hs_guard_clear(&guard);
        assert_int_equal(hs_guard_init(&guard, "127.0.0.1", bad_hosts, NULL, &bad), -EINVAL);
        assert_string_equal(bad, "a:1");
}

static void rates(void **state) {
        struct hs_rate *rate = hs_rate_new(2, 3);
        char key[16];
        unsigned refused = 0;

        assert_non_null(rate);
        assert_int_equal(hs_rate_peek(rate, "a", S), 0);
        for (int i = 0; i < 3; i++)
                assert_int_equal(hs_rate_take(rate, "a", S), 0);
        assert_int_equal(hs_rate_take(rate, "a", S), 1);
        assert_int_equal(hs_rate_peek(rate, "a", S), 1);
        assert_int_equal(hs_rate_take(rate, "b", S), 0); /* has its own */
        assert_int_equal(hs_rate_take(rate, "a", S + S / 2), 0);
        assert_int_equal(hs_rate_take(rate, "a", S + S / 2), 1);
        assert_int_equal(hs_rate_take(rate, "a", S / 4), 1); /* a clock that goes back gives nothing */
        for (int i = 0; i < 3; i++)
                assert_int_equal(hs_rate_take(rate, "a", 100 * S), 0);
        assert_int_equal(hs_rate_take(rate, "a", 100 * S), 1); /* no more than a burst is saved up */
        /* Many others do not make it larger, and the one that comes all the time is not forgotten for them. */
        for (int i = 0; i < 100000; i++) {
                snprintf(key, sizeof(key), "k%d", i);
                hs_rate_take(rate, key, 100 * S + (uint64_t)i);
                if (hs_rate_take(rate, "a", 100 * S + (uint64_t)i) > 0)
                        refused++;
        }
        assert_true(refused > 99990);
        hs_rate_free(rate);
        hs_rate_free(NULL);
}

static char *write_file(const char *text) {
        char *path = strdup("/tmp/http-server-tokens-XXXXXX");
        int fd;

        assert_non_null(path);
        fd = mkstemp(path);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
        close(fd);
        return path;
}

#define ALICE "0123456789abcdef"

static void tokens(void **state) {
        char *path = write_file("alice " ALICE "\n\n# x\nbob sha256:"
                                "3465f6e6975baa864ca957f0914ecda9bf7eb601ac31ac20a5dc3d329279a843\r\n");
        struct hs_tokens *list = NULL;
        char name[HS_TOKEN_NAME_MAX + 1] = "";

        assert_int_equal(hs_tokens_new(path, NULL, NULL, &list, NULL), 0);
        assert_true(hs_tokens_find(list, ALICE, name));
        assert_string_equal(name, "alice");
        assert_true(hs_tokens_find(list, "fedcba9876543210", name));
        assert_string_equal(name, "bob");
        assert_false(hs_tokens_find(list, "", name));
        assert_false(hs_tokens_find(list, ALICE "x", name));
        hs_tokens_free(list);
        unlink(path);
        free(path);
}

static void challenges(void **state) {
        char *path = write_file("alice " ALICE);
        static const char *const scopes[] = {"a", "b", NULL};
        static const char *const bad[] = {"a\"b", NULL};
        struct hs_auth_settings settings = {.token_file = path, .scopes = scopes, .metadata_url = "https://h/m"};
        char principal[HS_PRINCIPAL_SIZE], challenge[512], small[16];
        struct hs_auth *auth = NULL;
        char *json = NULL;

        assert_int_equal(hs_auth_new(&settings, &auth, NULL), 0);
        assert_int_equal(hs_auth_check(auth, "Bearer " ALICE, principal, challenge, sizeof(challenge)), HS_AUTH_OK);
        assert_string_equal(principal, "token:alice");
        assert_int_equal(hs_auth_check(auth, "Bearer   " ALICE, principal, challenge, sizeof(challenge)), HS_AUTH_OK);
        assert_int_equal(hs_auth_check(auth, NULL, principal, challenge, sizeof(challenge)), HS_AUTH_MISSING);
        assert_string_equal(principal, "");
        assert_string_equal(challenge,
                            "Bearer realm=\"snipara-sandbox\", scope=\"a b\", resource_metadata=\"https://h/m\"");
        assert_int_equal(hs_auth_check(auth, "Bearer x", principal, challenge, sizeof(challenge)), HS_AUTH_INVALID);
        assert_string_equal(challenge, "Bearer realm=\"snipara-sandbox\", error=\"invalid_token\", scope=\"a b\", "
                                       "resource_metadata=\"https://h/m\"");
        assert_int_equal(hs_auth_check(auth, "", principal, small, sizeof(small)), HS_AUTH_INVALID);
        assert_string_equal(small, "Bearer");
        assert_int_equal(hs_auth_check(auth, "Bearer", principal, NULL, 0), HS_AUTH_INVALID);
        assert_int_equal(hs_auth_metadata(auth, "https://h", &json), 0);
        assert_string_equal(json, "");
        free(json);
        hs_auth_free(auth);
        settings.scopes = bad;
        assert_int_equal(hs_auth_new(&settings, &auth, NULL), -EINVAL);
        settings = (struct hs_auth_settings){.issuer = "https://i", .audience = "https://a"};
        assert_int_equal(hs_auth_new(&settings, &auth, NULL), -EINVAL);
        settings = (struct hs_auth_settings){0};
        assert_int_equal(hs_auth_new(&settings, &auth, NULL), -EINVAL);
        unlink(path);
        free(path);
}

static int target_body(void *data) {
        struct hs_target target;
        int r = hs_target_parse("/a?b=c", 6, &target);

        if (r == 0)
                hs_target_free(&target);
        return r;
}

static int head_body(void *data) {
        struct hs_head head;
        int r = hs_head_copy(data, &head);

        if (r == 0)
                hs_head_free(&head);
        return r;
}

static int guard_body(void *data) {
        static const char *const list[] = {"a", "b", "c", NULL};
        struct hs_guard guard;
        const char *bad;
        int r = hs_guard_init(&guard, "127.0.0.1", list, NULL, &bad);

        if (r == 0)
                hs_guard_clear(&guard);
        return r;
}

static int rate_body(void *data) {
        struct hs_rate *rate = hs_rate_new(1, 1);

        hs_rate_free(rate);
        return rate != NULL ? 0 : -ENOMEM;
}

static int auth_body(void *data) {
        const struct hs_auth_settings settings = {.token_file = data, .metadata_url = "https://h/m"};
        struct hs_auth *auth = NULL;
        int r = hs_auth_new(&settings, &auth, NULL);

        if (r == 0)
                hs_auth_free(auth);
        return r;
}

static void failing_allocations(void **state) {
        char *path = write_file("alice " ALICE "\nbob " ALICE "x\ncarol " ALICE "y");
        struct parsed parsed;

        PARSE(&parsed, "GET / HTTP/1.1\r\nA: b\r\n\r\n");
        assert_true(alloc_fail_sweep(target_body, NULL) > 1);
        assert_true(alloc_fail_sweep(head_body, &parsed.parts) > 1);
        assert_true(alloc_fail_sweep(guard_body, NULL) > 5);
        assert_true(alloc_fail_sweep(rate_body, NULL) > 1);
        assert_true(alloc_fail_sweep(auth_body, path) > 5);
        unlink(path);
        free(path);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(targets),        cmocka_unit_test(queries),
                cmocka_unit_test(heads),          cmocka_unit_test(name_lists),
                cmocka_unit_test(loopback_hosts), cmocka_unit_test(guards),
                cmocka_unit_test(rates),          cmocka_unit_test(tokens),
                cmocka_unit_test(challenges),     cmocka_unit_test(failing_allocations),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

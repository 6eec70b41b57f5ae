/* SPDX-License-Identifier: Apache-2.0 */
/* The tokens' file: times, entries, which one is chosen, what file is trusted. */
#include "test.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "alloc_fail.h"
#include "snipara_tokens.h"

static void test_times(void **state) {
        static const struct {
                const char *text;
                int64_t seconds; /* -1: not a time */
        } cases[] = {
                {"1970-01-01T00:00:00Z", 0},
                {"2026-11-21T04:30:00", 1795235400},
                {"2026-11-21T04:30", 1795235400},
                {"2026-11-21 04:30:00.123456+00:00", 1795235400},
                {"2026-11-21T05:30:00+01:00", 1795235400},
                {"2026-11-21T02:00:00-0230", 1795235400},
                {"2026-11-21T06:30:00+02", 1795235400},
                {"2026-11-21t04:30:00z", 1795235400},
                {"2026-11-21", 1795219200},
                {"2024-02-29T00:00:00Z", 1709164800},
                {"", -1},
                {"soon", -1},
                {"2026", -1},
                {"2026-13-01T00:00:00", -1},
                {"2026-00-01T00:00:00", -1},
                {"2026-01-32T00:00:00", -1},
                {"2026-01-01T24:00:00", -1},
                {"2026-01-01T00:60:00", -1},
                {"2026-01-01T00:00:61", -1},
                {"2026-01-01T00:00:00.", -1},
                {"2026-01-01T00:00:00+", -1},
                {"2026-01-01T00:00:00+1", -1},
                {"2026-01-01T00:00:00+24:00", -1},
                {"2026-01-01T00:00:00+00:60", -1},
                {"2026-01-01T00:00:00Zx", -1},
                {"2026-01-01T", -1},
                {"2026-01-01T0:00", -1},
                {"-026-01-01", -1},
                {"2026/01/01", -1},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                int64_t seconds = -1;
                int r = snipara_time_parse(cases[i].text, &seconds);

                if (r != (cases[i].seconds < 0 ? -EINVAL : 0) || seconds != cases[i].seconds)
                        fail_msg("%s: %d, %lld", cases[i].text, r, (long long)seconds);
        }
}

static void test_slugs_and_secrets(void **state) {
        char text[SNIPARA_SECRET_MAX_BYTES + 2];

        assert_true(snipara_slug_valid("my-project_1.0"));
        assert_false(snipara_slug_valid(""));
        assert_false(snipara_slug_valid("."));
        assert_false(snipara_slug_valid(".."));
        assert_false(snipara_slug_valid("a/b"));
        assert_false(snipara_slug_valid("a%2fb"));
        assert_false(snipara_slug_valid("a b"));
        assert_false(snipara_slug_valid("\xc3\xa4"));
        assert_true(snipara_secret_valid("snp-!~"));
        assert_false(snipara_secret_valid(""));
        assert_false(snipara_secret_valid("a b"));
        assert_false(snipara_secret_valid("a\r\nX: y"));
        assert_false(snipara_secret_valid("a\x7f"));
        assert_false(snipara_secret_valid("\xc3\xa4"));
        memset(text, 'x', sizeof(text));
        text[SNIPARA_SLUG_MAX_BYTES] = '\0';
        assert_true(snipara_slug_valid(text));
        text[SNIPARA_SLUG_MAX_BYTES] = 'x';
        text[SNIPARA_SLUG_MAX_BYTES + 1] = '\0';
        assert_false(snipara_slug_valid(text));
        memset(text, 'x', sizeof(text));
        text[SNIPARA_SECRET_MAX_BYTES] = '\0';
        assert_true(snipara_secret_valid(text));
        text[SNIPARA_SECRET_MAX_BYTES] = 'x';
        text[SNIPARA_SECRET_MAX_BYTES + 1] = '\0';
        assert_false(snipara_secret_valid(text));
}

static const char sample[] =
        "{\"id_1\": {\"access_token\": \"t1\", \"project_slug\": \"one\", \"expires_at\": 100},"
        " \"id_2\": {\"access_token\": \"t2\", \"project_slug\": \"two\", \"expires_at\": 300},"
        " \"id_3\": {\"access_token\": \"t3\", \"project_id\": \"three\"},"
        " \"id_4\": {\"access_token\": \"t4\", \"expires_at\": \"whenever\"},"
        " \"id_5\": {\"refresh_token\": \"r\"}, \"id_6\": 7, \"id_7\": {\"access_token\": \"a b\"}}";

static void test_entries(void **state) {
        struct snipara_tokens tokens = {0};
        struct sbx_error err = {0};

        assert_int_equal(snipara_tokens_parse(BYTES(sample), &tokens, &err), 0);
        assert_int_equal(tokens.count, 4);
        assert_int_equal(tokens.unusable, 3);
        assert_string_equal(tokens.items[0].access, "t1");
        assert_string_equal(tokens.items[2].slug, "three");
        assert_false(tokens.items[2].expires);
        assert_string_equal(tokens.items[3].slug, "id_4");
        assert_true(tokens.items[3].expiry_unknown);

        assert_string_equal(snipara_tokens_choose(&tokens, NULL, 50)->id, "id_1");
        assert_string_equal(snipara_tokens_choose(&tokens, NULL, 100)->id, "id_2"); /* at its time it is over */
        assert_string_equal(snipara_tokens_choose(&tokens, NULL, 1000)->id, "id_3");
        assert_string_equal(snipara_tokens_choose(&tokens, "one", 1000)->id, "id_1"); /* expired, but the one meant */
        assert_string_equal(snipara_tokens_choose(&tokens, "id_2", 1000)->id, "id_2");
        assert_null(snipara_tokens_choose(&tokens, "none", 0));
        assert_false(snipara_token_valid(&tokens.items[0], 100));
        assert_true(snipara_token_valid(&tokens.items[0], 99));
        assert_true(snipara_token_valid(&tokens.items[3], 1000));
        snipara_tokens_clear(&tokens);
        assert_null(snipara_tokens_choose(&tokens, NULL, 0));
}

static void test_no_error_shows_the_text(void **state) {
        static const char *const texts[] = {"{\"a\": {\"access_token\": \"hush-hush\"", "\"hush-hush\"",   "hush-hush",
                                            "{\"hush-hush\": 1, \"hush-hush\": 2}",     "[\"hush-hush\"]", ""};

        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
                struct snipara_tokens tokens = {0};
                struct sbx_error err = {0};

                assert_int_equal(snipara_tokens_parse((struct sbx_bytes){texts[i], strlen(texts[i])}, &tokens, &err),
                                 -EINVAL);
                assert_null(strstr(err.message, "hush"));
                assert_contains(err.hint, "snipara-mcp-login");
        }
}

static int parse_sample(void *data) {
        struct snipara_tokens tokens = {0};
        int r = snipara_tokens_parse(BYTES(sample), &tokens, NULL);

        snipara_tokens_clear(&tokens);
        /* jansson can't tell a string that it had no memory for from a broken one. */
        return r == -EINVAL ? -ENOMEM : r;
}

static void test_no_memory(void **state) {
        assert_true(alloc_fail_sweep(parse_sample, NULL) > 10);
}

/* ---- the file ---- */

static int write_file(const char *path, const char *text, mode_t mode) {
        FILE *file = fopen(path, "we");

        if (file == NULL || fputs(text, file) < 0 || fclose(file) != 0)
                return -1;
        return chmod(path, mode);
}

static int load(const char *path, struct sbx_error *err) {
        struct snipara_tokens tokens = {0};
        struct snipara_stamp stamp;
        int r = snipara_tokens_load(path, &tokens, &stamp, err);

        snipara_tokens_clear(&tokens);
        return r;
}

static void test_files(void **state) {
        char directory[] = "/tmp/sbx-tokens-XXXXXX", path[64], link[64];
        struct snipara_stamp before, after;
        struct sbx_error err = {0};

        assert_non_null(mkdtemp(directory));
        snprintf(path, sizeof(path), "%s/tokens.json", directory);
        snprintf(link, sizeof(link), "%s/link", directory);
        assert_int_equal(load(path, NULL), -ENOENT);
        snipara_stamp_take(path, &before);
        assert_false(before.present);
        assert_int_equal(write_file(path, sample, 0600), 0);
        assert_int_equal(load(path, NULL), 0);
        assert_int_equal(write_file(path, sample, 0666), 0);
        assert_int_equal(load(path, &err), -EPERM);
        assert_contains(err.message, path);
        assert_int_equal(write_file(path, sample, 0600), 0);
        assert_int_equal(symlink(path, link), 0); /* of a user who keeps such files elsewhere */
        assert_int_equal(load(link, NULL), 0);
        snipara_stamp_take(path, &before);
        snipara_stamp_take(path, &after);
        assert_true(snipara_stamp_same(&before, &after));
        assert_int_equal(write_file(path, "{}", 0600), 0);
        snipara_stamp_take(path, &after);
        assert_false(snipara_stamp_same(&before, &after));
        assert_int_equal(truncate(path, (off_t)SNIPARA_TOKENS_MAX_BYTES + 1), 0);
        assert_int_equal(load(path, NULL), -EFBIG);
        assert_int_equal(load(directory, NULL), -EINVAL);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(mkfifo(path, 0600), 0);
        assert_int_equal(load(path, NULL), -EINVAL); /* and it does not wait */
        if (geteuid() == 0) {
                unlink(path);
                assert_int_equal(write_file(path, sample, 0600), 0);
                assert_int_equal(chown(path, 65534, 65534), 0);
                assert_int_equal(load(path, NULL), -EPERM);
        }
        unlink(link);
        unlink(path);
        rmdir(directory);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_times),     cmocka_unit_test(test_slugs_and_secrets),
                cmocka_unit_test(test_entries),   cmocka_unit_test(test_no_error_shows_the_text),
                cmocka_unit_test(test_no_memory), cmocka_unit_test(test_files),
        };

        json_set_alloc_funcs(__wrap_malloc, free);
        return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Names of images, credentials of registries, and what is kept of a build's log. */
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test.h"

#include <jansson.h>

#include "image_internal.h"
#include "prepare_internal.h"

#define DIGITS "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* ---- names ---- */

static void test_references(void **state) {
        static const struct {
                const char *image, *repository, *tag, *registry;
                bool id;
        } cases[] = {
                {"python", "python", "latest", "docker.io", false},
                {"python:3.12-slim", "python", "3.12-slim", "docker.io", false},
                {"team/tool", "team/tool", "latest", "docker.io", false},
                {"docker.io/library/python:3.12", "docker.io/library/python", "3.12", "docker.io", false},
                {"index.docker.io/library/python", "index.docker.io/library/python", "latest", "docker.io", false},
                {"localhost/x:1", "localhost/x", "1", "localhost", false},
                {"host:5000/x", "host:5000/x", "latest", "host:5000", false},
                {"host:5000/x:2", "host:5000/x", "2", "host:5000", false},
                {"r.example.org/a/b@sha256:" DIGITS, "r.example.org/a/b", "sha256:" DIGITS, "r.example.org", false},
                {"r.example.org/a:1@sha256:" DIGITS, "r.example.org/a", "sha256:" DIGITS, "r.example.org", false},
                {"sha256:" DIGITS, "sha256", DIGITS, "docker.io", true},
                {DIGITS, DIGITS, "latest", "docker.io", true},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct image_reference reference;

                assert_int_equal(image_reference_parse(cases[i].image, &reference, NULL), 0);
                assert_string_equal(reference.repository, cases[i].repository);
                assert_string_equal(reference.tag, cases[i].tag);
                assert_string_equal(reference.registry, cases[i].registry);
                assert_int_equal(reference.id, cases[i].id);
        }
}

static void test_bad_references(void **state) {
        static const char *const bad[] = {"",    " ",    "a b",  "-x",      "/etc",    "a/",    "a//b",
                                          "a:",  "a:/b", "a@@b", "a?tag=b", "a&b",     "a%2Fb", "a\nb",
                                          "a#b", "../a", "a/:b", "x@",      "\xc3\xa9"};
        char longest[IMAGE_REFERENCE_MAX + 1];

        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                struct image_reference reference;
                struct sbx_error err = {0};

                if (image_reference_parse(bad[i], &reference, &err) != -EINVAL)
                        fail_msg("\"%s\" was taken for an image", bad[i]);
                assert_true(err.hint[0] != '\0');
        }
        memset(longest, 'a', sizeof(longest));
        longest[IMAGE_REFERENCE_MAX] = '\0';
        assert_int_equal(image_reference_parse(longest, &(struct image_reference){0}, NULL), -EINVAL);
        longest[IMAGE_REFERENCE_MAX - 1] = '\0';
        assert_int_equal(image_reference_parse(longest, &(struct image_reference){0}, NULL), 0);
        assert_false(image_id_ok("sha256:" DIGITS "0"));
        assert_false(image_id_ok("sha256:"));
        assert_false(image_id_ok("sha512:" DIGITS));
}

/* ---- base64 ---- */

/* RFC 4648, section 10. */
static void test_base64(void **state) {
        static const char *const cases[][2] = {{"", ""},
                                               {"f", "Zg=="},
                                               {"fo", "Zm8="},
                                               {"foo", "Zm9v"},
                                               {"foob", "Zm9vYg=="},
                                               {"fooba", "Zm9vYmE="},
                                               {"foobar", "Zm9vYmFy"}};

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                char *text = base64_url_encode(cases[i][0], strlen(cases[i][0])), *data = NULL;
                size_t size = 99;

                assert_string_equal(text, cases[i][1]);
                assert_int_equal(base64_decode(text, &data, &size), 0);
                assert_int_equal(size, strlen(cases[i][0]));
                assert_string_equal(data, cases[i][0]);
                free(text);
                free(data);
        }
        for (unsigned n = 0; n < 300; n++) { /* every byte, both alphabets */
                unsigned char bytes[3] = {(unsigned char)n, (unsigned char)(n * 7), 0xFB};
                char *text = base64_url_encode(bytes, sizeof(bytes)), *data = NULL;
                size_t size = 0;

                for (char *at = text; *at != '\0'; at++)
                        *at = (char)(*at == '-' ? '+' : *at == '_' ? '/' : *at);
                assert_int_equal(base64_decode(text, &data, &size), 0);
                assert_int_equal(size, 3);
                assert_memory_equal(data, bytes, 3);
                free(text);
                free(data);
        }
}

static void test_bad_base64(void **state) {
        static const char *const bad[] = {"Z", "Zm9vY", "Zm 9", "Zm9-", "=Zm9", "Zm9v\n"};
        char *data = NULL;
        size_t size;

        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
                assert_int_equal(base64_decode(bad[i], &data, &size), -EINVAL);
        assert_null(data);
}

/* ---- credentials ---- */

struct fixture {
        char directory[64];
        struct sbx_host host;
        struct docker docker;
        char config[128];
        const char *home, *docker_config;
};

static const char *fake_environment(struct sbx_host_state *self, const char *name) {
        const struct fixture *fixture = (const void *)self;

        return strcmp(name, "HOME") == 0            ? fixture->home
               : strcmp(name, "DOCKER_CONFIG") == 0 ? fixture->docker_config
                                                    : NULL;
}

static int setup(void **state) {
        struct fixture *fixture = calloc(1, sizeof(*fixture));

        if (fixture == NULL)
                return -1;
        snprintf(fixture->directory, sizeof(fixture->directory), "/tmp/sbx-images-XXXXXX");
        if (mkdtemp(fixture->directory) == NULL)
                return -1;
        fixture->host = (struct sbx_host){.self = (void *)fixture, .environment = fake_environment};
        fixture->docker.host = &fixture->host;
        snprintf(fixture->config, sizeof(fixture->config), "%s/config.json", fixture->directory);
        fixture->docker_config = fixture->directory;
        *state = fixture;
        return 0;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where) {
        return remove(path);
}

static int teardown(void **state) {
        struct fixture *fixture = *state;
        int r = nftw(fixture->directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);

        free(fixture);
        return r;
}

static void write_file(const char *path, const char *text, mode_t mode) {
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

        assert_true(fd >= 0);
        assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
        close(fd);
}

/* What the header for the image says, as JSON; NULL: there is none. */
static json_t *header_of(struct fixture *fixture, const char *image) {
        char *header = NULL, *text = NULL;
        struct sbx_error err = {0};
        json_t *json;
        size_t size;

        if (credentials_for(&fixture->docker, image, &header, &err) < 0)
                fail_msg("%s", err.message);
        if (header[0] == '\0') {
                free(header);
                return NULL;
        }
        for (char *at = header; *at != '\0'; at++)
                *at = (char)(*at == '-' ? '+' : *at == '_' ? '/' : *at);
        assert_int_equal(base64_decode(header, &text, &size), 0);
        json = json_loadb(text, size, 0, NULL);
        assert_non_null(json);
        free(header);
        free(text);
        return json;
}

static void assert_login(struct fixture *fixture, const char *image, const char *user, const char *password) {
        json_t *json = header_of(fixture, image);

        if (user == NULL) {
                assert_null(json);
                return;
        }
        assert_non_null(json);
        assert_string_equal(json_string_value(json_object_get(json, "username")), user);
        assert_string_equal(json_string_value(json_object_get(json, "password")), password);
        json_decref(json);
}

static void test_auths(void **state) {
        struct fixture *fixture = *state;

        /* YTpiOmM= is a:b:c, dTpw is u:p, eDp5 is x:y */
        write_file(fixture->config,
                   "{\"auths\": {\"https://index.docker.io/v1/\": {\"auth\": \"YTpiOmM=\"},"
                   " \"r.example.org:5000\": {\"auth\": \"dTpw\"},"
                   " \"https://path.example.org/team\": {\"auth\": \"dTpw\"},"
                   " \"token.example.org\": {\"auth\": \"eDp5\", \"identitytoken\": \"T\"},"
                   " \"empty.example.org\": {},"
                   " \"plain.example.org\": {\"username\": \"x\", \"password\": \"y\"}}}",
                   0600);
        assert_login(fixture, "python:3.12", "a", "b:c");
        assert_login(fixture, "docker.io/library/python", "a", "b:c");
        assert_login(fixture, "r.example.org:5000/x/y:1", "u", "p");
        assert_login(fixture, "r.example.org/x", NULL, NULL);
        assert_login(fixture, "path.example.org/x", NULL, NULL);
        assert_login(fixture, "empty.example.org/x", NULL, NULL);
        assert_login(fixture, "plain.example.org/x", "x", "y");
        assert_login(fixture, "localhost:5000/x", NULL, NULL);
        {
                json_t *json = header_of(fixture, "token.example.org/x");

                assert_string_equal(json_string_value(json_object_get(json, "identitytoken")), "T");
                assert_null(json_object_get(json, "password"));
                json_decref(json);
        }
}

static void test_no_configuration(void **state) {
        struct fixture *fixture = *state;
        char *header = NULL;
        struct sbx_error err = {0};

        assert_login(fixture, "python", NULL, NULL);
        fixture->docker_config = NULL;
        assert_login(fixture, "python", NULL, NULL);
        fixture->home = fixture->directory;
        assert_login(fixture, "python", NULL, NULL);
        fixture->docker.options.registry_config = fixture->config; /* named, so it must be there */
        assert_int_equal(credentials_for(&fixture->docker, "python", &header, &err), -ENOENT);
        assert_contains(err.message, fixture->config);
        assert_null(header);
}

/* No part of a secret is in an error. */
static void test_damaged(void **state) {
        static const char *const damaged[] = {
                "",
                "[]",
                "{\"auths\": {\"docker.io\": {\"auth\": \"c2VjcmV0\"}}}", /* "secret", no colon */
                "{\"auths\": {\"docker.io\": {\"auth\": \"c2VjcmV0!\"}}}",
                "{\"auths\": {}, \"auths\": {}}",
                "{\"auths\": {\"docker.io\": {\"auth\": \"dTpzZWNyZXQAAA==\"}}}", /* a NUL in it */
                "{\"auths\": {\"docker.io\": {\"auth\": \"c2Vjcm",
                "{\"credsStore\": \"../../bin/sh\"}",
                "{\"credsStore\": \"a b\"}"};
        struct fixture *fixture = *state;

        for (size_t i = 0; i < sizeof(damaged) / sizeof(damaged[0]); i++) {
                struct sbx_error err = {0};
                char *header = NULL;

                write_file(fixture->config, damaged[i], 0600);
                if (credentials_for(&fixture->docker, "python", &header, &err) != -EINVAL)
                        fail_msg("taken: %s", damaged[i]);
                assert_null(header);
                assert_null(strstr(err.message, "ecret"));
                assert_null(strstr(err.message, "c2Vj"));
                assert_true(err.hint[0] != '\0');
        }
}

static void test_helpers(void **state) {
        struct fixture *fixture = *state;
        char program[160], path[4096], *old = strdup(getenv("PATH"));

        assert_non_null(old);
        snprintf(path, sizeof(path), "%s:%s", fixture->directory, old);
        setenv("PATH", path, 1);
        /* What it was asked for is its answer's user name, so that a shell's characters would show. */
        snprintf(program, sizeof(program), "%s/docker-credential-test", fixture->directory);
        write_file(program,
                   "#!/bin/sh\nread -r server || true\ntest \"$1\" = get || exit 9\n"
                   "case \"$server\" in none*) echo 'credentials not found in native keychain'; exit 1;; esac\n"
                   "case \"$server\" in token*) echo '{\"Username\": \"<token>\", \"Secret\": \"T\"}'; exit 0;; esac\n"
                   "case \"$server\" in flood*) yes; esac\n"
                   "printf '{\"ServerURL\": \"x\", \"Username\": \"%s\", \"Secret\": \"s\"}' \"$server\"\n",
                   0700);
        write_file(
                fixture->config,
                "{\"credsStore\": \"test\", \"auths\": {\"none.example.org\": {\"auth\": \"dTpw\"}}, \"credHelpers\":"
                " {\"own.example.org\": \"test\", \"absent.example.org\": \"absent\"}}",
                0600);
        assert_login(fixture, "python", "https://index.docker.io/v1/", "s");
        assert_login(fixture, "own.example.org/x", "own.example.org", "s");
        assert_login(fixture, "none.example.org/x", "u", "p");
        {
                json_t *json = header_of(fixture, "token.example.org/x");
                struct sbx_error err = {0};
                char *header = NULL;

                assert_string_equal(json_string_value(json_object_get(json, "identitytoken")), "T");
                json_decref(json);
                assert_int_equal(credentials_for(&fixture->docker, "absent.example.org/x", &header, &err), -ENOENT);
                assert_contains(err.message, "docker-credential-absent");
                err.code = 0;
                assert_int_equal(credentials_for(&fixture->docker, "flood.example.org/x", &header, &err), -EFBIG);
                assert_null(header);
        }
        setenv("PATH", old, 1);
        free(old);
}

/* ---- the log of a build ---- */

static void test_log_steps(void **state) {
        struct build_log log = {0};
        char tail[256];

        build_log_add(&log, "Step 3/8 : RUN [\"python3\"]");
        build_log_add(&log, "\n");
        assert_string_equal(log.step, "3/8");
        build_log_add(&log, "STEP 4/8: RUN x\n");
        assert_string_equal(log.step, "4/8");
        build_log_add(&log, "Step");
        build_log_add(&log, "Step x");
        assert_string_equal(log.step, "4/8");
        build_log_add(&log, "\033[91mone\n\033[0mtwo\r\nthree\033]0;title\007\n\n\n");
        assert_string_equal(log.line, "three");
        build_log_tail(&log, 2, tail, sizeof(tail));
        assert_string_equal(tail, "two\nthree]0;title");
}

static void test_log_is_bounded(void **state) {
        struct build_log *log = calloc(1, sizeof(*log));
        char line[64], tail[100];

        assert_non_null(log);
        for (unsigned i = 0; i < 10000; i++) {
                snprintf(line, sizeof(line), "line %u \xc3\xa4\n", i);
                build_log_add(log, line);
        }
        assert_true(log->size < BUILD_LOG_MAX);
        build_log_tail(log, 2, tail, sizeof(tail));
        assert_string_equal(tail, "line 9998 \xc3\xa4\nline 9999 \xc3\xa4");
        build_log_tail(log, 50, tail, sizeof(tail));
        assert_int_equal(strncmp(tail, "line 99", 7), 0); /* whole lines, as many as there is room for */
        assert_true(strlen(tail) < sizeof(tail));
        *log = (struct build_log){0};
        build_log_tail(log, 5, tail, sizeof(tail));
        assert_string_equal(tail, "");
        for (unsigned i = 0; i < 3 * BUILD_LOG_MAX; i++)
                build_log_add(log, "x"); /* one line without an end */
        build_log_tail(log, 5, tail, sizeof(tail));
        assert_int_equal(strlen(tail), sizeof(tail) - 1);
        free(log);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_references),
                cmocka_unit_test(test_bad_references),
                cmocka_unit_test(test_base64),
                cmocka_unit_test(test_bad_base64),
                cmocka_unit_test_setup_teardown(test_auths, setup, teardown),
                cmocka_unit_test_setup_teardown(test_no_configuration, setup, teardown),
                cmocka_unit_test_setup_teardown(test_damaged, setup, teardown),
                cmocka_unit_test_setup_teardown(test_helpers, setup, teardown),
                cmocka_unit_test(test_log_steps),
                cmocka_unit_test(test_log_is_bounded),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

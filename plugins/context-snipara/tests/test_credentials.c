/* SPDX-License-Identifier: Apache-2.0 */
/* The order of credentials, and what may be an address. */
#include "test.h"

#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "address.h"
#include "credentials.h"

struct sbx_host_state {
        const char *home, *variable, *key, *slug;
        int warnings, infos;
};

static void host_log(struct sbx_host_state *self, int level, const char *message) {
        self->warnings += level == SBX_LOG_WARNING;
        self->infos += level == SBX_LOG_INFO;
        assert_null(strstr(message, "secret-"));
}

static const char *host_setting(struct sbx_host_state *self, const char *name) {
        return strcmp(name, "snipara_api_key") == 0        ? self->key
               : strcmp(name, "snipara_project_slug") == 0 ? self->slug
                                                           : NULL;
}

static const char *host_environment(struct sbx_host_state *self, const char *name) {
        return strcmp(name, "HOME") == 0 ? self->home : strcmp(name, "SNIPARA_API_KEY") == 0 ? self->variable : NULL;
}

static struct {
        char home[32], folder[64], path[96];
        struct sbx_host_state state;
        struct sbx_host host;
        struct snipara_credentials *credentials;
} world;

static int set_up(void **state) {
        memcpy(world.home, "/tmp/sbx-home-XXXXXX", sizeof("/tmp/sbx-home-XXXXXX"));
        if (mkdtemp(world.home) == NULL)
                return -1;
        snprintf(world.folder, sizeof(world.folder), "%s/.snipara", world.home);
        snprintf(world.path, sizeof(world.path), "%s/tokens.json", world.folder);
        world.state = (struct sbx_host_state){.home = world.home};
        world.host = (struct sbx_host){.struct_size = sizeof(world.host),
                                       .self = &world.state,
                                       .log = host_log,
                                       .setting = host_setting,
                                       .environment = host_environment};
        return mkdir(world.folder, 0700) < 0 ? -1 : snipara_credentials_new(&world.host, &world.credentials, NULL);
}

static int tear_down(void **state) {
        snipara_credentials_free(world.credentials);
        world.credentials = NULL;
        unlink(world.path);
        rmdir(world.folder);
        return rmdir(world.home);
}

/* As a login does it: a new file in the place of the old one. */
static void write_tokens(const char *text) {
        char fresh[112];
        FILE *file;

        snprintf(fresh, sizeof(fresh), "%s.new", world.path);
        file = fopen(fresh, "we");
        assert_non_null(file);
        assert_int_equal(fchmod(fileno(file), 0600), 0);
        assert_true(fputs(text, file) >= 0);
        assert_int_equal(fclose(file), 0);
        assert_int_equal(rename(fresh, world.path), 0);
}

static void assert_credential(enum snipara_source source, const char *secret, const char *slug) {
        struct snipara_credential credential = {0};
        struct sbx_error err = {0};

        if (snipara_credentials_get(world.credentials, false, &credential, &err) < 0)
                fail_msg("%s", err.message);
        assert_int_equal(credential.source, source);
        assert_string_equal(credential.secret, secret);
        assert_string_equal(credential.slug, slug);
        snipara_credential_clear(&credential);
}

static void assert_none(int code, const char *says) {
        struct snipara_credential credential = {0};
        struct sbx_error err = {0};

        assert_int_equal(snipara_credentials_get(world.credentials, false, &credential, &err), code);
        assert_null(credential.secret);
        assert_contains(err.message, says);
        assert_null(strstr(err.message, "secret-"));
        assert_true(err.hint[0] != '\0');
}

#define TOKEN "\"access_token\": \"secret-token\", \"project_slug\": \"one\""
#define VALID "{\"id\": {" TOKEN ", \"expires_at\": \"2999-01-01T00:00:00Z\"}}"
#define EXPIRED "{\"id\": {" TOKEN ", \"expires_at\": \"2001-01-01T00:00:00\"}}"

static void test_order(void **state) {
        assert_none(-ENOENT, "no credentials");
        world.state.key = "secret-key";
        assert_none(-EINVAL, "no project");
        world.state.slug = "two";
        assert_credential(SNIPARA_CONFIGURATION, "secret-key", "two");
        world.state.variable = "secret-key";
        assert_credential(SNIPARA_ENVIRONMENT, "secret-key", "two");
        world.state.key = NULL; /* a host that keeps the environment out of its settings */
        assert_credential(SNIPARA_ENVIRONMENT, "secret-key", "two");
        world.state.slug = "one";
        write_tokens(VALID);
        assert_credential(SNIPARA_OAUTH, "secret-token", "one");
        world.state.slug = NULL;
        assert_credential(SNIPARA_OAUTH, "secret-token", "one");
        world.state.slug = "id"; /* an id finds the token, whose slug counts */
        assert_credential(SNIPARA_OAUTH, "secret-token", "one");
        world.state.slug = "two";
        assert_credential(SNIPARA_ENVIRONMENT, "secret-key", "two");
        assert_int_equal(world.state.warnings, 0);
}

static void test_expiry(void **state) {
        write_tokens(EXPIRED);
        assert_none(-EKEYEXPIRED, "expired");
        assert_false(snipara_credentials_logged_in(world.credentials));
        world.state.variable = world.state.key = "secret-key";
        world.state.slug = "one";
        assert_credential(SNIPARA_ENVIRONMENT, "secret-key", "one");
        write_tokens(VALID);
        assert_credential(SNIPARA_OAUTH, "secret-token", "one");
        assert_true(snipara_credentials_logged_in(world.credentials));
}

static void test_file_comes_and_goes(void **state) {
        assert_none(-ENOENT, "no credentials");
        write_tokens(VALID);
        assert_credential(SNIPARA_OAUTH, "secret-token", "one");
        assert_int_equal(unlink(world.path), 0);
        assert_none(-ENOENT, "no credentials");
        assert_int_equal(world.state.warnings, 0);
        write_tokens("{");
        assert_none(-ENOENT, "could not be used");
        assert_none(-ENOENT, "could not be used");
        assert_int_equal(world.state.warnings, 1); /* told once for each state of the file */
        assert_int_equal(snipara_credentials_file_problem(world.credentials, NULL), -EINVAL);
        assert_int_equal(chmod(world.path, 0644), 0);
        write_tokens(VALID);
        assert_int_equal(chmod(world.path, 0644), 0);
        assert_credential(SNIPARA_OAUTH, "secret-token", "one");
        assert_int_equal(world.state.warnings, 2); /* everybody can read it */
}

static void test_what_can_not_be_sent(void **state) {
        world.state.key = "secret-a b";
        world.state.slug = "one";
        assert_none(-EINVAL, "can't be sent");
        world.state.key = "secret-key";
        world.state.slug = "../one";
        assert_none(-EINVAL, "can't be part of an address");
}

/* ---- addresses ---- */

static void test_addresses(void **state) {
        static const struct {
                const char *text, *base; /* NULL: refused */
        } cases[] = {
                {"https://api.snipara.com/mcp", "https://api.snipara.com/mcp"},
                {"https://api.snipara.com/mcp//", "https://api.snipara.com/mcp"},
                {"https://example.com:8443", "https://example.com:8443"},
                {"http://127.0.0.1:80/x", "http://127.0.0.1:80/x"},
                {"http://127.255.0.1", "http://127.255.0.1"},
                {"http://[::1]:8080/", "http://[::1]:8080"},
                {"http://LOCALHOST/", "http://LOCALHOST"},
                {"http://example.com", NULL},
                {"http://127.0.0.1.example.com", NULL},
                {"http://localhost.example.com", NULL},
                {"http://0.0.0.0/", NULL},
                {"http://127.1/", NULL},
                {"http://2130706433/", NULL},
                {"http://[::ffff:127.0.0.1]/", NULL},
                {"http://127.0.0.1@example.com/", NULL},
                {"http://127.0.0.1\\@example.com/", NULL},
                {"https://user:password@example.com/", NULL},
                {"https://example.com/?a=b", NULL},
                {"https://example.com/#a", NULL},
                {"https://", NULL},
                {"https:///", NULL},
                {"file:///etc/passwd", NULL},
                {"", NULL},
                {"example.com", NULL},
                {"https://exam ple.com", NULL},
                {"https://example.com/\r\nX: y", NULL},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct sbx_error err = {0};
                char *base = NULL;
                int r = snipara_address_base(cases[i].text, &base, &err);

                if (r != (cases[i].base != NULL ? 0 : -EINVAL))
                        fail_msg("%s: %d", cases[i].text, r);
                if (r == 0)
                        assert_string_equal(base, cases[i].base);
                else
                        assert_contains(err.hint, "SNIPARA_BASE_URL");
                free(base);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_order, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_expiry, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_file_comes_and_goes, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_what_can_not_be_sent, set_up, tear_down),
                cmocka_unit_test(test_addresses),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

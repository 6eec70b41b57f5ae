/* SPDX-License-Identifier: Apache-2.0 */
/* A scratch directory with system/, user/ and project/ configuration, and a clean environment. */
#pragma once

#include "../test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "config/internal.h"

struct fixture {
        char root[64], system[128], user[128], project[128];
        struct sbx_buffer log; /* lines, each with its level before it */
        struct sbx_logger logger;
};

static inline void fixture_log(void *data, int level, const char *message) {
        struct fixture *fixture = data;

        assert_int_equal(sbx_buffer_printf(&fixture->log, "%d %s\n", level, message), 0);
}

/* Variables that the process that runs the tests may have. */
static inline void fixture_clean_environment(void) {
        for (char **entry = environ; *entry != NULL;) {
                char name[256] = "";

                if (strncmp(*entry, "SNIPARA_", 8) != 0 && strncmp(*entry, "RLM_", 4) != 0) {
                        entry++;
                        continue;
                }
                snprintf(name, sizeof(name), "%.*s", (int)strcspn(*entry, "="), *entry);
                unsetenv(name);
        }
}

static inline int fixture_setup(void **state) {
        struct fixture *f = calloc(1, sizeof(*f));

        assert_non_null(f);
        snprintf(f->root, sizeof(f->root), "/tmp/sbx-config-XXXXXX");
        assert_non_null(mkdtemp(f->root));
        snprintf(f->system, sizeof(f->system), "%s/system", f->root);
        snprintf(f->user, sizeof(f->user), "%s/user/snipara-sandbox", f->root);
        snprintf(f->project, sizeof(f->project), "%s/project", f->root);
        f->log = (struct sbx_buffer)SBX_BUFFER(1u << 20);
        f->logger = (struct sbx_logger){fixture_log, f, SBX_LOG_WARNING};
        fixture_clean_environment();
        *state = f;
        return 0;
}

static inline int fixture_teardown(void **state) {
        struct fixture *f = *state;
        char command[128];

        fixture_clean_environment();
        unsetenv("XDG_CONFIG_HOME");
        snprintf(command, sizeof(command), "rm -rf %s", f->root);
        sbx_buffer_free(&f->log);
        free(f);
        return system(command) == 0 ? 0 : -1;
}

/* Writes a file below the scratch directory, with the directories that it needs. */
static inline void fixture_write(const struct fixture *f, const char *name, const char *text, size_t size) {
        char path[512], *slash;
        int fd;

        snprintf(path, sizeof(path), "%s/%s", f->root, name);
        for (slash = path + strlen(f->root) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
                *slash = '\0';
                assert_true(mkdir(path, 0755) == 0 || errno == EEXIST);
                *slash = '/';
        }
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, text, size), size);
        assert_int_equal(fchmod(fd, 0644), 0);
        close(fd);
}
#define WRITE(f, name, text) fixture_write(f, name, text, strlen(text))

struct load {
        const char *config_path;
        const char *const *settings;
        uint32_t flags;
};

static inline int fixture_load_with(struct fixture *f, const struct load *load, struct sbx_config **ret,
                                    struct sbx_error *err) {
        struct sbx_runtime_options options = {
                .struct_size = sizeof(options),
                .flags = load->flags,
                .config_path = load->config_path,
                .directory = f->project,
                .settings = load->settings,
        };
        char base[128];

        assert_true(mkdir(f->project, 0755) == 0 || errno == EEXIST);
        snprintf(base, sizeof(base), "%s/user", f->root);
        assert_int_equal(setenv("XDG_CONFIG_HOME", base, 1), 0);
        return sbx_config_load_from(f->system, &options, &f->logger, ret, err);
}

/* Loads with these flags ("NAME=VALUE", ..., NULL); fails the test when it can't be loaded. */
#define LOAD(f, ...) fixture_load_or_fail(f, &(struct load){.settings = (const char *const[]){__VA_ARGS__, NULL}})
static inline struct sbx_config *fixture_load_or_fail(struct fixture *f, const struct load *load) {
        struct sbx_config *config = NULL;
        struct sbx_error err = {0};

        if (fixture_load_with(f, load, &config, &err) < 0)
                fail_msg("%s (%s)", err.message, err.hint);
        return config;
}

/* Loading is refused; the error has these parts. */
static inline void fixture_refuses(struct fixture *f, const struct load *load, int code, const char *message,
                                   const char *hint) {
        struct sbx_config *config = NULL;
        struct sbx_error err = {0};
        int r = fixture_load_with(f, load, &config, &err);

        if (r == 0)
                fail_msg("was taken; \"%s\" was expected", message);
        assert_contains(err.message, message);
        assert_contains(err.hint, hint);
        assert_int_equal(r, code);
        assert_int_equal(err.code, code);
        assert_null(config);
}
#define REFUSES(f, message, hint) fixture_refuses(f, &(struct load){0}, -EINVAL, message, hint)
#define REFUSES_FLAG(f, flag, message, hint)                                                                           \
        fixture_refuses(f, &(struct load){.settings = (const char *const[]){flag, NULL}}, -EINVAL, message, hint)

static inline const char *origin_of(const struct sbx_config *config, const char *name) {
        return sbx_settings_get(sbx_config_core(config), name)->origin;
}

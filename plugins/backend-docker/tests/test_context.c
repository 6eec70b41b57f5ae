/* SPDX-License-Identifier: Apache-2.0 */
/* The build context: what goes in, what stays out, and what changes its hash; and the build file. */
#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test.h"

#include "prepare_internal.h"

#define BUILD_FILE BYTES("FROM x\n")

/* ---- a project ---- */

static int setup(void **state) {
        char path[] = "/tmp/sbx-context-XXXXXX";

        *state = mkdtemp(path) != NULL ? strdup(path) : NULL;
        return *state == NULL;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where) {
        return remove(path);
}

static int teardown(void **state) {
        int r = nftw(*state, remove_one, 16, FTW_DEPTH | FTW_PHYS);

        free(*state);
        return r;
}

static const char *below(const char *directory, const char *name) {
        static _Thread_local char path[4096];

        snprintf(path, sizeof(path), "%s/%s", directory, name);
        return path;
}

static void add_directory(const char *project, const char *name) {
        assert_int_equal(mkdir(below(project, name), 0755), 0);
}

static void add_mode(const char *project, const char *name, const char *text, mode_t mode) {
        int fd = open(below(project, name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

        assert_true(fd >= 0);
        assert_int_equal(fchmod(fd, mode), 0);
        assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
        close(fd);
}

static void add(const char *project, const char *name, const char *text) {
        add_mode(project, name, text, 0644);
}

static struct context make(const char *project, enum context_what what, bool archive) {
        struct sbx_error err = {0};
        struct context context;

        if (context_make(project, what, BUILD_FILE, archive, NULL, &context, &err) < 0)
                fail_msg("%s", err.message);
        return context;
}

/* "name:type:mode:content;" of every entry. */
static char *listing(const struct context *context) {
        struct archive *archive = archive_read_new();
        struct archive_entry *entry;
        char *text = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);

        archive_read_support_format_tar(archive);
        assert_int_equal(archive_read_open_memory(archive, context->tar, context->tar_size), ARCHIVE_OK);
        while (archive_read_next_header(archive, &entry) == ARCHIVE_OK) {
                char content[256] = "";

                if (archive_entry_filetype(entry) == AE_IFREG)
                        assert_true(archive_read_data(archive, content, sizeof(content) - 1) >= 0);
                assert_int_equal(archive_entry_uid(entry), 0);
                assert_int_equal(archive_entry_gid(entry), 0);
                assert_int_equal(archive_entry_mtime(entry), 0);
                fprintf(out, "%s:%c:%o:%s;", archive_entry_pathname(entry),
                        archive_entry_filetype(entry) == AE_IFDIR   ? 'd'
                        : archive_entry_filetype(entry) == AE_IFLNK ? 'l'
                                                                    : 'f',
                        (unsigned)archive_entry_perm(entry),
                        archive_entry_filetype(entry) == AE_IFLNK ? archive_entry_symlink(entry) : content);
        }
        archive_read_free(archive);
        fclose(out);
        return text;
}

static char *listing_of(const char *project) {
        struct context context = make(project, CONTEXT_WHOLE, true);
        char *text = listing(&context);

        context_clear(&context);
        return text;
}

static void hash_of(const char *project, enum context_what what, char hash[SHA256_DIGEST_STRING_LENGTH]) {
        struct context context = make(project, what, false);

        assert_null(context.tar);
        memcpy(hash, context.hash, SHA256_DIGEST_STRING_LENGTH);
        context_clear(&context);
}

/* ---- what goes in ---- */

static void test_content(void **state) {
        char *text;

        add(*state, "b.py", "print(1)");
        add_mode(*state, "a.sh", "#!", 0700);
        add_mode(*state, "private.txt", "p", 0600);
        add(*state, "Dockerfile", "FROM evil");
        add(*state, ".dockerignore", "*");
        add_directory(*state, "src");
        add(*state, "src/\xc3\xa4 b", "u");
        add_directory(*state, "empty");
        text = listing_of(*state);
        assert_string_equal(text, "Dockerfile:f:644:FROM x\n;project/:d:755:;project/.dockerignore:f:644:*;"
                                  "project/Dockerfile:f:644:FROM evil;project/a.sh:f:755:#!;"
                                  "project/b.py:f:644:print(1);project/empty/:d:755:;project/private.txt:f:644:p;"
                                  "project/src/:d:755:;project/src/\xc3\xa4 b:f:644:u;");
        free(text);
}

static void test_left_out(void **state) {
        static const char *const directories[] = {".git",         ".venv", "venv", "my-env",       "__pycache__",
                                                  "node_modules", ".tox",  ".ssh", ".pytest_cache"};
        static const char *const files[] = {".env",           ".env.local",       "prod.env", "id_rsa",
                                            "id_ed25519.pub", ".netrc",           ".pypirc",  "x.pyc",
                                            "cert.p12",       ".git-credentials", ".npmrc"};
        char *text;

        for (size_t i = 0; i < sizeof(directories) / sizeof(directories[0]); i++) {
                char name[64];

                add_directory(*state, directories[i]);
                snprintf(name, sizeof(name), "%s/inside", directories[i]);
                add(*state, name, "SECRET");
        }
        add(*state, "my-env/pyvenv.cfg", "home = /usr/bin"); /* what makes it one */
        for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
                add(*state, files[i], "SECRET");
        add(*state, "server.pem", "-----BEGIN RSA PRIVATE KEY-----\nSECRET");
        add(*state, "server.key", "x\n-----BEGIN ENCRYPTED PRIVATE KEY-----\nSECRET");
        add(*state, "ca.pem", "-----BEGIN CERTIFICATE-----");
        add(*state, "words.key", "en=1");
        assert_int_equal(mkfifo(below(*state, "pipe"), 0600), 0);
        text = listing_of(*state);
        assert_null(strstr(text, "SECRET"));
        assert_string_equal(text, "Dockerfile:f:644:FROM x\n;project/:d:755:;project/ca.pem:f:644:"
                                  "-----BEGIN CERTIFICATE-----;project/words.key:f:644:en=1;");
        free(text);
}

/* A link is a link: what it points to is never read here. */
static void test_links(void **state) {
        char *text;

        assert_int_equal(symlink("/etc/passwd", below(*state, "out")), 0);
        assert_int_equal(symlink("/etc", below(*state, "directory")), 0);
        assert_int_equal(symlink(".", below(*state, "loop")), 0);
        text = listing_of(*state);
        assert_string_equal(text, "Dockerfile:f:644:FROM x\n;project/:d:755:;project/directory:l:755:/etc;"
                                  "project/loop:l:755:.;project/out:l:755:/etc/passwd;");
        free(text);
}

static void test_nothing(void **state) {
        struct context context;
        char *text;

        add(*state, "a", "b");
        context = make(*state, CONTEXT_NOTHING, true);
        text = listing(&context);
        assert_string_equal(text, "Dockerfile:f:644:FROM x\n;");
        free(text);
        context_clear(&context);
        context_clear(&context);
}

static void test_same_bytes(void **state) {
        struct context first, second;

        add(*state, "b", "2");
        add(*state, "a", "1");
        first = make(*state, CONTEXT_WHOLE, true);
        assert_int_equal(unlink(below(*state, "a")), 0);
        add(*state, "a", "1"); /* another inode, another time, another place in the directory */
        second = make(*state, CONTEXT_WHOLE, true);
        assert_string_equal(first.hash, second.hash);
        assert_int_equal(first.tar_size, second.tar_size);
        assert_memory_equal(first.tar, second.tar, first.tar_size);
        context_clear(&first);
        context_clear(&second);
}

/* ---- the hash ---- */

static bool changes(const char *project, enum context_what what, const char *name, const char *text) {
        char before[SHA256_DIGEST_STRING_LENGTH], after[SHA256_DIGEST_STRING_LENGTH];

        hash_of(project, what, before);
        add(project, name, text);
        hash_of(project, what, after);
        return strcmp(before, after) != 0;
}

static void test_what_matters(void **state) {
        add_directory(*state, "package");
        add_directory(*state, "requirements");
        assert_true(changes(*state, CONTEXT_DECLARED, "pyproject.toml", "a"));
        assert_true(changes(*state, CONTEXT_DECLARED, "pyproject.toml", "b"));
        assert_false(changes(*state, CONTEXT_DECLARED, "pyproject.toml", "b"));
        assert_true(changes(*state, CONTEXT_DECLARED, "requirements-dev.txt", "pytest"));
        assert_true(changes(*state, CONTEXT_DECLARED, "requirements/base.txt", "x"));
        assert_true(changes(*state, CONTEXT_DECLARED, "package/__init__.py", "")); /* a package that was none */
        assert_false(changes(*state, CONTEXT_DECLARED, "package/__init__.py", "x = 1"));
        assert_false(changes(*state, CONTEXT_DECLARED, "package/code.py", "x = 1"));
        assert_false(changes(*state, CONTEXT_DECLARED, "notes.txt", "x"));
        assert_false(changes(*state, CONTEXT_DECLARED, ".env", "x"));
        assert_true(changes(*state, CONTEXT_WHOLE, "package/code.py", "x = 2"));
        assert_true(changes(*state, CONTEXT_WHOLE, "notes.txt", "y"));
        assert_false(changes(*state, CONTEXT_WHOLE, ".env", "y"));
        assert_false(changes(*state, CONTEXT_NOTHING, "pyproject.toml", "c"));
}

/* Names and contents can't be shifted into each other. */
static void test_no_ambiguity(void **state) {
        char one[SHA256_DIGEST_STRING_LENGTH], two[SHA256_DIGEST_STRING_LENGTH];

        add(*state, "a", "bc");
        hash_of(*state, CONTEXT_WHOLE, one);
        assert_int_equal(unlink(below(*state, "a")), 0);
        add(*state, "ab", "c");
        hash_of(*state, CONTEXT_WHOLE, two);
        assert_string_not_equal(one, two);
}

static void test_hash_and_archive_agree(void **state) {
        char hash[SHA256_DIGEST_STRING_LENGTH];
        struct context context;

        add(*state, "setup.py", "x");
        hash_of(*state, CONTEXT_WHOLE, hash);
        context = make(*state, CONTEXT_WHOLE, true);
        assert_string_equal(context.hash, hash);
        context_clear(&context);
}

/* ---- limits ---- */

static int make_fails(const char *project, enum context_what what, const struct sbx_call *call, struct sbx_error *err) {
        struct context context = {.tar = (void *)1};
        int r = context_make(project, what, BUILD_FILE, true, call, &context, err);

        if (r < 0)
                assert_ptr_equal(context.tar, (void *)1); /* untouched */
        else
                context_clear(&context);
        return r;
}

static void test_large_file(void **state) {
        struct sbx_error err = {0};
        struct context context;

        add(*state, "data.bin", "");
        assert_int_equal(truncate(below(*state, "data.bin"), CONTEXT_FILE_MAX + 1), 0);
        context = make(*state, CONTEXT_DECLARED, true);
        assert_int_equal(context.left_out, 1);
        assert_int_equal(context.files, 0);
        context_clear(&context);
        assert_int_equal(make_fails(*state, CONTEXT_WHOLE, NULL, &err), -EFBIG);
        assert_contains(err.message, "data.bin");
}

static void test_too_much(void **state) {
        struct sbx_error err = {0};
        char name[16];

        for (unsigned i = 0; i * (size_t)CONTEXT_FILE_MAX <= CONTEXT_BYTES_MAX; i++) {
                snprintf(name, sizeof(name), "%u", i);
                add(*state, name, "");
                assert_int_equal(truncate(below(*state, name), CONTEXT_FILE_MAX), 0); /* sparse */
        }
        assert_int_equal(make_fails(*state, CONTEXT_WHOLE, NULL, &err), -EFBIG);
        assert_contains(err.hint, "tests-only");
}

static void test_too_deep(void **state) {
        char path[512] = "";
        struct sbx_error err = {0};

        for (unsigned i = 0; i < CONTEXT_DEPTH_MAX + 1; i++) {
                snprintf(path + strlen(path), sizeof(path) - strlen(path), "%sd", i > 0 ? "/" : "");
                add_directory(*state, path);
        }
        assert_int_equal(make_fails(*state, CONTEXT_DECLARED, NULL, &err), -EFBIG);
}

static void test_given_up(void **state) {
        int fds[2];
        struct sbx_error err = {0};
        struct sbx_call call = {.struct_size = sizeof(call), .cancel_fd = -1, .deadline_ns = 1};

        add(*state, "a", "b");
        assert_int_equal(make_fails(*state, CONTEXT_WHOLE, &call, &err), -ETIMEDOUT);
        assert_int_equal(pipe(fds), 0);
        assert_int_equal(write(fds[1], "x", 1), 1);
        call = (struct sbx_call){.struct_size = sizeof(call), .cancel_fd = fds[0]};
        err.code = 0;
        assert_int_equal(make_fails(*state, CONTEXT_WHOLE, &call, &err), -ECANCELED);
        close(fds[0]);
        close(fds[1]);
        err.code = 0;
        assert_int_equal(make_fails("/nonexistent", CONTEXT_WHOLE, NULL, &err), -ENOENT);
        assert_contains(err.hint, "workspace_path");
}

/* ---- what a project declares ---- */

static void test_dev_extra(void **state) {
        static const struct {
                const char *name, *text;
                bool dev;
        } cases[] = {
                {"pyproject.toml", "[project.optional-dependencies]\ntest = []\ndev = [\"pytest\"]\n", true},
                {"pyproject.toml", "[ project . optional-dependencies ]\r\n\"dev\" = [\r\n", true},
                {"pyproject.toml", "[project]\noptional-dependencies.dev = []", true},
                {"pyproject.toml", "[project]\noptional-dependencies = { test = [], dev = [] }", true},
                {"pyproject.toml", "project.optional-dependencies.dev = []", true},
                {"pyproject.toml", "[tool.poetry.extras]\ndev = [\"pytest\"]", true},
                {"pyproject.toml", "[tool.other]\ndev = 1\n[project.optional-dependencies]\ndevelop = []", false},
                {"pyproject.toml", "[project.optional-dependencies]\n# dev = []\n[x]\ndev = []", false},
                {"pyproject.toml", "[dependency-groups]\ndev = []", false},
                {"pyproject.toml", "", false},
                {"setup.cfg", "[options.extras_require]\ndev =\n    pytest\n", true},
                {"setup.cfg", "[options]\ndev = 1\n", false},
                {"setup.py", "setup(extras_require={'dev': ['pytest']})", true},
                {"setup.py", "setup(name='dev')", false},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                if (project_declares_dev(cases[i].name, cases[i].text) != cases[i].dev)
                        fail_msg("wrong about case %zu: %s", i, cases[i].text);
}

static void test_facts(void **state) {
        struct project_facts facts;

        assert_int_equal(project_look(*state, &facts, NULL), 0);
        assert_false(facts.installable || facts.dev_extra || facts.requirements || facts.requirements_dev);
        add(*state, "pyproject.toml", "[project.optional-dependencies]\ndev=[]");
        add(*state, "requirements-test.txt", "");
        assert_int_equal(symlink("/etc/passwd", below(*state, "requirements.txt")), 0);
        assert_int_equal(project_look(*state, &facts, NULL), 0);
        assert_true(facts.installable && facts.dev_extra && facts.requirements_test);
        assert_false(facts.requirements); /* a link may point anywhere */
        assert_int_equal(project_look("/nonexistent", &facts, NULL), -ENOENT);
}

/* ---- the build file ---- */

static const char *recipe_of(const struct docker_options *options, const struct project_facts *facts,
                             enum context_what *ret_what) {
        static _Thread_local char text[RECIPE_MAX];
        struct sbx_error err = {0};
        char *recipe = NULL;
        int r = recipe_make(options, facts, &recipe, ret_what, &err);

        if (r < 0) {
                assert_null(recipe);
                return strcpy(text, err.message);
        }
        snprintf(text, sizeof(text), "%s", recipe);
        free(recipe);
        return text;
}

#define PIP "RUN [\"python3\", \"-m\", \"pip\", \"install\", "

static void assert_installs(const char *text, const char *command) {
        char whole[256];

        snprintf(whole, sizeof(whole), PIP "%s]\n", command);
        assert_contains(text, whole);
}

static void test_setups(void **state) {
        struct docker_options options = {.workspace_target = "/workspace", .workspace = DOCKER_WORKSPACE_RO};
        struct project_facts nothing = {0}, package = {.installable = true},
                             dev = {.installable = true, .dev_extra = true}, plain = {.requirements = true},
                             both = {.installable = true, .requirements_dev = true};
        enum context_what what;
        const char *text;

        options.setup = DOCKER_SETUP_TESTS_ONLY;
        text = recipe_of(&options, &nothing, &what);
        assert_installs(text, "\"pytest\", \"pytest-asyncio\"");
        assert_null(strstr(text, "COPY"));
        assert_int_equal(what, CONTEXT_NOTHING);
        assert_contains(text, "ENV PYTHONPATH=/workspace PYTEST_ADDOPTS=\"-o cache_dir=/tmp/pytest-cache\"\n");

        options.setup = DOCKER_SETUP_PACKAGE;
        text = recipe_of(&options, &package, &what);
        assert_installs(text, "\"-e\", \".\"");
        assert_contains(text, "COPY [\"project/\", \"/workspace/\"]\n");
        assert_int_equal(what, CONTEXT_DECLARED);
        assert_installs(recipe_of(&options, &plain, &what), "\"-r\", \"requirements.txt\"");
        assert_contains(recipe_of(&options, &nothing, &what), "neither pyproject.toml");

        options.setup = DOCKER_SETUP_DEV;
        assert_installs(recipe_of(&options, &dev, &what), "\"-e\", \".[dev]\"");
        assert_installs(recipe_of(&options, &both, &what), "\"-r\", \"requirements-dev.txt\"");
        assert_installs(recipe_of(&options, &plain, &what),
                        "\"-r\", \"requirements.txt\", \"pytest\", \"pytest-asyncio\"");
        assert_installs(recipe_of(&options, &package, &what), "\"pytest\", \"pytest-asyncio\"");
        assert_contains(recipe_of(&options, &nothing, &what), "neither pyproject.toml");

        /* Nothing is mounted over it: what is installed must not point to where it came from. */
        options.workspace = DOCKER_WORKSPACE_NONE;
        assert_installs(recipe_of(&options, &dev, &what), "\".[dev]\"");
        assert_int_equal(what, CONTEXT_WHOLE);
}

/* Whatever the configuration says stays one argument of one instruction. */
static void test_own_command(void **state) {
        char *extras[] = {"requests[socks]>=2; python_version < \"3.13\"", "numpy==2.*"};
        struct docker_options options = {
                .workspace_target = "/srv/code",
                .workspace = DOCKER_WORKSPACE_RO,
                .setup = DOCKER_SETUP_DEV,
                .install_command = "make \"x\" && \\\necho $HOME\nFROM evil\nRUN 'y'",
                .install_extras = extras,
                .install_extra_count = 2,
        };
        enum context_what what;
        const char *text = recipe_of(&options, &(struct project_facts){0}, &what);

        assert_contains(text,
                        "RUN [\"/bin/sh\", \"-c\", \"make \\\"x\\\" && \\\\\\necho $HOME\\nFROM evil\\nRUN 'y'\"]\n");
        assert_null(strstr(text, "\nFROM"));
        assert_null(strstr(text, "\\\n"));
        assert_installs(text, "\"requests[socks]>=2; python_version < \\\"3.13\\\"\", \"numpy==2.*\"");
        assert_contains(text, "WORKDIR /srv/code\nCOPY [\"project/\", \"/srv/code/\"]\n");
        options.install_command = "\xff";
        assert_contains(recipe_of(&options, &(struct project_facts){0}, &what), "not UTF-8");
}

static void test_many_extras(void **state) {
        enum { COUNT = 300 };
        char *extras[COUNT];
        struct docker_options options = {
                .workspace_target = "/workspace", .install_extras = extras, .install_extra_count = COUNT};
        enum context_what what;
        const char *text;
        size_t found = 0;

        for (size_t i = 0; i < COUNT; i++)
                extras[i] = "name";
        text = recipe_of(&options, &(struct project_facts){0}, &what);
        for (const char *at = text; (at = strstr(at, "\"name\"")) != NULL; at++)
                found++;
        assert_int_equal(found, COUNT);
}

int main(void) {
#define WITH_PROJECT(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        const struct CMUnitTest tests[] = {
                WITH_PROJECT(test_content),         WITH_PROJECT(test_left_out),
                WITH_PROJECT(test_links),           WITH_PROJECT(test_nothing),
                WITH_PROJECT(test_same_bytes),      WITH_PROJECT(test_what_matters),
                WITH_PROJECT(test_no_ambiguity),    WITH_PROJECT(test_hash_and_archive_agree),
                WITH_PROJECT(test_large_file),      WITH_PROJECT(test_too_much),
                WITH_PROJECT(test_too_deep),        WITH_PROJECT(test_given_up),
                cmocka_unit_test(test_dev_extra),   WITH_PROJECT(test_facts),
                cmocka_unit_test(test_setups),      cmocka_unit_test(test_own_command),
                cmocka_unit_test(test_many_extras),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

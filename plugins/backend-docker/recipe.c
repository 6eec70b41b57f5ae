/* SPDX-License-Identifier: Apache-2.0 */
/* The build file of a prepared image (https://docs.docker.com/reference/dockerfile/). Instructions are in their exec
 * form, as JSON: no shell sees what the configuration says, but for the user's own command, which is one. */
#include "prepare_internal.h"
#include "util.h"

#define TEST_TOOLS "pytest", "pytest-asyncio"
#define ARGUMENTS_MAX 160

struct recipe {
        const struct docker_options *options;
        const struct project_facts *facts;
        FILE *out;
        bool mounted; /* code sees the project where it was installed from */
        struct sbx_error *err;
};

static int out_of_memory(const struct recipe *recipe) {
        return sbx_error_set(recipe->err, -ENOMEM, DOCKER_ORIGIN, NULL, "out of memory");
}

/* RUN ["a", "b"]; the list ends with NULL. */
static int run_list(const struct recipe *recipe, const char *const *arguments) {
        _cleanup_json_ json_t *list = json_array();
        _cleanup_free_ char *text = NULL;

        for (; *arguments != NULL; arguments++)
                if (json_array_append_new(list, json_string(*arguments)) < 0)
                        return sbx_error_set(recipe->err, -EINVAL, DOCKER_ORIGIN, NULL,
                                             "workspace_install_command is not UTF-8");
        text = json_dumps(list, JSON_ENSURE_ASCII);
        if (text == NULL)
                return out_of_memory(recipe);
        fprintf(recipe->out, "RUN %s\n", text);
        return 0;
}

static int pip_install(const struct recipe *recipe, const char *const *what) {
        const char *arguments[ARGUMENTS_MAX] = {"python3", "-m", "pip", "install"};
        size_t n = 4;

        for (; *what != NULL && n + 1 < ARGUMENTS_MAX; what++)
                arguments[n++] = *what;
        return run_list(recipe, arguments);
}

static int pip_project(const struct recipe *recipe, const char *extra) {
        char place[16];

        snprintf(place, sizeof(place), ".%s", extra);
        /* Without a mount nothing may point to where the files are now: they are hidden by an empty directory. */
        return recipe->mounted ? pip_install(recipe, (const char *const[]){"-e", place, NULL})
                               : pip_install(recipe, (const char *const[]){place, NULL});
}

static int nothing_to_install(const struct recipe *recipe, const char *setup) {
        return sbx_error_set(recipe->err, -EINVAL, DOCKER_ORIGIN,
                             "Set workspace_setup = \"tests-only\", or workspace_path to where the project is.",
                             "workspace_setup is \"%s\", but the project has neither pyproject.toml, setup.py nor "
                             "requirements.txt",
                             setup);
}

static int run_package(const struct recipe *recipe) {
        if (recipe->facts->installable)
                return pip_project(recipe, "");
        if (recipe->facts->requirements)
                return pip_install(recipe, (const char *const[]){"-r", "requirements.txt", NULL});
        return nothing_to_install(recipe, "package");
}

static int run_dev(const struct recipe *recipe) {
        const struct project_facts *facts = recipe->facts;
        int r;

        if (facts->installable && facts->dev_extra)
                return pip_project(recipe, "[dev]");
        if (facts->requirements_dev)
                return pip_install(recipe, (const char *const[]){"-r", "requirements-dev.txt", NULL});
        if (facts->requirements_test)
                return pip_install(recipe, (const char *const[]){"-r", "requirements-test.txt", NULL});
        if (facts->requirements)
                return pip_install(recipe, (const char *const[]){"-r", "requirements.txt", TEST_TOOLS, NULL});
        if (!facts->installable)
                return nothing_to_install(recipe, "dev");
        r = pip_project(recipe, "");
        return r == 0 ? pip_install(recipe, (const char *const[]){TEST_TOOLS, NULL}) : r;
}

static int run_setup(const struct recipe *recipe) {
        if (recipe->options->install_command != NULL)
                return run_list(recipe, (const char *const[]){"/bin/sh", "-c", recipe->options->install_command, NULL});
        switch (recipe->options->setup) {
        case DOCKER_SETUP_PACKAGE:
                return run_package(recipe);
        case DOCKER_SETUP_TESTS_ONLY:
                return pip_install(recipe, (const char *const[]){TEST_TOOLS, NULL});
        case DOCKER_SETUP_DEV:
                return run_dev(recipe);
        default:
                return 0;
        }
}

/* A few at a time: a list of arguments has an end. The specifiers were checked: none is an option. */
static int run_extras(const struct recipe *recipe) {
        const char *some[ARGUMENTS_MAX / 2];
        size_t n = 0;
        int r = 0;

        for (size_t i = 0; i < recipe->options->install_extra_count && r == 0; i++) {
                some[n++] = recipe->options->install_extras[i];
                some[n] = NULL;
                if (n + 1 == sizeof(some) / sizeof(some[0]) || i + 1 == recipe->options->install_extra_count) {
                        r = pip_install(recipe, some);
                        n = 0;
                }
        }
        return r;
}

/* ARG is a variable of the build alone. */
static void begin(const struct recipe *recipe, bool with_files) {
        static const char *const variables[] = {"PIP_BREAK_SYSTEM_PACKAGES=1", "PIP_DISABLE_PIP_VERSION_CHECK=1",
                                                "PIP_NO_CACHE_DIR=1", "PIP_ROOT_USER_ACTION=ignore"};
        const char *target = recipe->options->workspace_target;

        fputs("USER 0:0\n", recipe->out);
        for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
                fprintf(recipe->out, "ARG %s\n", variables[i]);
        fprintf(recipe->out, "WORKDIR %s\n", target);
        if (with_files)
                fprintf(recipe->out, "COPY [\"%s\", \"%s/\"]\n", CONTEXT_PREFIX, target);
}

static int write_recipe(const struct recipe *recipe, bool with_files) {
        int r;

        begin(recipe, with_files);
        r = run_setup(recipe);
        if (r == 0)
                r = run_extras(recipe);
        fprintf(recipe->out, "ENV PYTHONPATH=%s PYTEST_ADDOPTS=\"-o cache_dir=/tmp/pytest-cache\"\nUSER 65534:65534\n",
                recipe->options->workspace_target);
        return r;
}

int recipe_make(const struct docker_options *options, const struct project_facts *facts, char **ret_text,
                enum context_what *ret_what, struct sbx_error *err) {
        struct recipe recipe = {
                .options = options,
                .facts = facts,
                .mounted = options->workspace != DOCKER_WORKSPACE_NONE,
                .err = err,
        };
        bool with_files = options->install_command != NULL || options->setup == DOCKER_SETUP_PACKAGE ||
                          options->setup == DOCKER_SETUP_DEV;
        _cleanup_free_ char *text = NULL;
        size_t size = 0;
        int r;

        recipe.out = open_memstream(&text, &size);
        if (recipe.out == NULL)
                return out_of_memory(&recipe);
        r = write_recipe(&recipe, with_files);
        if (fclose(recipe.out) != 0 && r == 0)
                r = out_of_memory(&recipe);
        if (r == 0 && size > RECIPE_MAX)
                r = sbx_error_set(err, -EINVAL, DOCKER_ORIGIN, "Put it into a script of the project.",
                                  "workspace_install_command and workspace_install_extras are too long");
        if (r < 0)
                return r;
        *ret_text = steal_pointer(text);
        *ret_what = !with_files ? CONTEXT_NOTHING : recipe.mounted ? CONTEXT_DECLARED : CONTEXT_WHOLE;
        return 0;
}

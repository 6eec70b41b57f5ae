/* SPDX-License-Identifier: Apache-2.0 */
/* `image list`, `image build`, `image prune`: the images that a backend makes its guests of. */
#include <jansson.h>
#include <stdlib.h>

#include <snipara-sandbox/backend.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "cli/image_packages.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/runtime.h"
#include "cli/signals.h"

#define ANSWER_MAX ((size_t)16 << 20)

struct image_options {
        const char *environment;
        bool json;
};

/* What a command works with. */
struct images {
        struct sbx_cli *cli;
        struct image_options options;
        char *environment; /* that was found for packages; else NULL */
        struct sbx_cli_parts parts;
        struct sbx_cli_signals signals;
        struct sbx_cli_progress progress;
        struct sbx_call call;
        const struct sbx_instance *instance;
        const struct sbx_backend_ops *ops;
};

static void images_close(struct images *images) {
        sbx_cli_progress_clear(&images->progress);
        sbx_cli_parts_free(&images->parts);
        free(images->environment);
        sbx_cli_signals_close(&images->signals);
        pthread_mutex_destroy(&images->progress.lock);
}
#define _cleanup_images_ __attribute__((cleanup(images_close)))

/* ---- which backend ---- */

static bool is_backend(const struct sbx_plugin_entry *entry) {
        const char *slash = strrchr(entry->plugin, '/'), *name = slash != NULL ? slash + 1 : entry->plugin;

        return entry->enabled && strncmp(name, "backend-", 8) == 0;
}

static bool has_images(const struct sbx_instance *instance) {
        const struct sbx_backend_ops *ops = instance->ops;

        return instance->module->plugin.kind == SBX_PLUGIN_BACKEND && ops->images != NULL;
}

/* The configured environment, if it has images; else the first backend that has. One that stands before that and whose
 * options are wrong is told of, instead of another being taken for it. */
static int choose(struct images *images, const char **ret_name, struct sbx_error *err) {
        const struct sbx_config *config = images->parts.config;
        const char *configured = sbx_config_string(config, "environment"), *found = NULL;
        struct sbx_error wrong = {0}, refused = {0}; /* whose options are wrong; why the first could not be opened */

        for (size_t i = 0; i < sbx_config_plugin_count(config); i++) {
                const struct sbx_plugin_entry *entry = sbx_config_plugin(config, i);
                const struct sbx_instance *instance;
                struct sbx_error problem = {0};

                if (!is_backend(entry))
                        continue;
                if (sbx_registry_open(images->parts.registry, entry->name, &instance, &problem) < 0) {
                        if (found == NULL && wrong.code == 0 && problem.code == -EINVAL)
                                wrong = problem;
                        if (refused.code == 0)
                                refused = problem;
                        continue;
                }
                if (has_images(instance) && (found == NULL || strcmp(entry->name, configured) == 0))
                        found = entry->name;
        }
        if (found == NULL || (wrong.code != 0 && strcmp(found, configured) != 0)) {
                *err = wrong.code != 0 ? wrong : refused;
                if (err->code != 0)
                        return err->code;
        }
        if (found == NULL)
                return sbx_error_set(err, -ENOENT, "cli",
                                     "'snipara-sandbox doctor' tells which backends work, and why not",
                                     "no backend of the configuration works with images");
        *ret_name = found;
        return 0;
}

static int open_backend(struct images *images, struct sbx_error *err) {
        const char *name = images->options.environment;
        int r = 0;

        if (name == NULL)
                r = choose(images, &name, err);
        if (r >= 0)
                r = sbx_registry_open(images->parts.registry, name, &images->instance, err);
        if (r < 0)
                return r;
        if (!has_images(images->instance)) /* nothing needs to be started to say so */
                return sbx_error_set(err, -EINVAL, "cli", "give --env the name of a backend that runs containers",
                                     "the backend %s has no images", name);
        r = sbx_registry_get(images->parts.registry, name, SBX_PLUGIN_BACKEND, &images->call, &images->instance, err);
        if (r < 0)
                return r;
        images->ops = images->instance->ops;
        return 0;
}

/* No word of the command line is a plain one. 0 or SBX_CLI_USAGE. */
static int no_words(const struct images *images, const struct sbx_cli_command *command,
                    const struct sbx_cli_arguments *arguments) {
        for (size_t i = 0; i < arguments->count; i++)
                if (arguments->items[i].option == NULL)
                        return sbx_cli_no_arguments(images->cli, command, arguments);
        return 0;
}

static int open_parts(struct images *images, const struct sbx_cli_arguments *arguments, struct sbx_error *err) {
        int r = sbx_cli_parts_open(images->cli, &images->parts, err);

        if (r >= 0 && arguments->count > 0) {
                r = sbx_cli_image_packages(images->cli, &images->parts, arguments, images->options.environment,
                                           &images->environment, err);
                images->options.environment = images->environment;
        }
        return r < 0 ? r : open_backend(images, err);
}

/* False: the command is over with `*ret_exit`. */
static bool begin(struct images *images, const struct sbx_cli_command *command, int argc, char **argv, int *ret_exit) {
        _cleanup_arguments_ struct sbx_cli_arguments arguments = {0};
        struct sbx_error err = {0};
        int r;

        sbx_cli_progress_init(&images->progress, images->cli);
        if (!sbx_cli_parse(images->cli, command, argc, argv, &images->options, &arguments, ret_exit))
                return false;
        *ret_exit = no_words(images, command, &arguments);
        if (*ret_exit != 0)
                return false;
        r = sbx_cli_signals_open(&images->signals, true);
        if (r < 0) {
                *ret_exit = sbx_cli_out_of_memory(images->cli);
                return false;
        }
        images->call = (struct sbx_call){.struct_size = sizeof(images->call), .cancel_fd = images->signals.fd};
        sbx_cli_progress_of(&images->progress, &images->call);
        r = open_parts(images, &arguments, &err);
        if (r < 0) {
                sbx_cli_progress_clear(&images->progress);
                *ret_exit = sbx_cli_fail(images->cli, r, &err);
        }
        return r >= 0;
}

static int end(struct images *images, int r, const struct sbx_error *err) {
        sbx_cli_progress_clear(&images->progress);
        if (r >= 0)
                return SBX_CLI_OK;
        return err->code != 0 ? sbx_cli_fail(images->cli, r, err) : SBX_CLI_FAILED; /* no reader */
}

/* ---- what the backend answers ---- */

static void output_free(struct sbx_output **output) {
        sbx_output_free(*output);
}

static int ask(struct images *images,
               int (*operation)(void *instance, const struct sbx_call *call, struct sbx_output *ret_json,
                                struct sbx_error *err),
               json_t **ret_answer, struct sbx_error *err) {
        __attribute__((cleanup(output_free))) struct sbx_output *output = NULL;
        int r = sbx_output_new(ANSWER_MAX, &output);

        if (r < 0)
                return sbx_error_set(err, r, "cli", NULL, "out of memory");
        r = operation(images->instance->state, &images->call, output, err);
        if (r < 0)
                return r;
        sbx_cli_progress_clear(&images->progress);
        return sbx_json_parse(sbx_output_bytes(output), ANSWER_MAX, "list of images", ret_answer, err);
}

static const char *text_of(const json_t *row, const char *key) {
        const char *text = json_string_value(json_object_get(row, key));

        return text != NULL ? text : "";
}

/* ---- list ---- */

/* The names of all runtimes that the image of the row is for: "python, bash". NULL: a row before it has told. */
static char *runtimes_of(const json_t *rows, size_t at) {
        const json_t *row = json_array_get(rows, at), *other;
        struct sbx_buffer names = SBX_BUFFER(4096);
        size_t i;

        json_array_foreach ((json_t *)rows, i, other) {
                if (strcmp(text_of(other, "name"), text_of(row, "name")) != 0 ||
                    strcmp(text_of(other, "id"), text_of(row, "id")) != 0)
                        continue;
                if (i < at ||
                    sbx_buffer_printf(&names, "%s%s", names.size > 0 ? ", " : "", text_of(other, "runtime")) < 0) {
                        sbx_buffer_free(&names);
                        return NULL;
                }
        }
        return names.data;
}

static void add_image(struct sbx_cli_table *table, const json_t *row, const char *runtimes) {
        bool present = json_is_integer(json_object_get(row, "size")),
             prepared = json_is_true(json_object_get(row, "prepared")),
             used = json_is_true(json_object_get(row, "in_use"));
        const char *name = text_of(row, "name");
        char amount[SBX_CLI_AMOUNT_SIZE];

        sbx_cli_table_cell(table, SBX_CLI_BOLD, name[0] != '\0' ? name : text_of(row, "id"));
        sbx_cli_table_cell(table, SBX_CLI_PLAIN, runtimes[0] != '\0' ? runtimes : "-");
        sbx_cli_table_cell(
                table, SBX_CLI_PLAIN,
                present ? sbx_cli_bytes_text((uint64_t)json_integer_value(json_object_get(row, "size")), amount) : "-");
        sbx_cli_table_cellf(table, SBX_CLI_PLAIN, "%.10s", present ? text_of(row, "created") : "-");
        if (prepared)
                sbx_cli_table_cell(table, used ? SBX_CLI_GREEN : SBX_CLI_YELLOW,
                                   used ? "prepared for this project" : "prepared, no longer needed");
        else
                sbx_cli_table_cell(table, present ? SBX_CLI_GREEN : SBX_CLI_DIM,
                                   !present ? "not here yet"
                                   : used   ? "here, in use"
                                            : "here");
}

static int show_table(const struct sbx_cli *cli, const json_t *rows, bool present_only) {
        static const char *const titles[] = {"IMAGE", "RUNTIMES", "SIZE", "CREATED", "STATE"};
        _cleanup_table_ struct sbx_cli_table *table = sbx_cli_table_new(5);
        const json_t *row;
        size_t i;

        for (i = 0; i < sizeof(titles) / sizeof(titles[0]); i++)
                sbx_cli_table_cell(table, SBX_CLI_BOLD, titles[i]);
        json_array_foreach ((json_t *)rows, i, row) {
                _cleanup_free_ char *runtimes = runtimes_of(rows, i);

                if (runtimes != NULL && (!present_only || json_is_integer(json_object_get(row, "size"))))
                        add_image(table, row, runtimes);
        }
        return sbx_cli_table_show(table, &cli->out, 0);
}

/* Prints the images, for people or for scripts. */
static int tell_images(struct images *images, bool present_only, struct sbx_error *err) {
        _cleanup_json_ json_t *rows = NULL;
        int r = ask(images, images->ops->images, &rows, err);

        if (r < 0)
                return r;
        return images->options.json ? sbx_cli_print_json(&images->cli->out, rows, true)
                                    : show_table(images->cli, rows, present_only);
}

static int run_list(struct sbx_cli *cli, const struct sbx_cli_command *command, int argc, char **argv) {
        _cleanup_images_ struct images images = {.cli = cli, .signals = {.fd = -1}};
        struct sbx_error err = {0};
        int result;

        if (!begin(&images, command, argc, argv, &result))
                return result;
        return end(&images, tell_images(&images, false, &err), &err);
}

/* ---- build ---- */

static int run_build(struct sbx_cli *cli, const struct sbx_cli_command *command, int argc, char **argv) {
        _cleanup_images_ struct images images = {.cli = cli, .signals = {.fd = -1}};
        struct sbx_error err = {0};
        int result, r;

        if (!begin(&images, command, argc, argv, &result))
                return result;
        r = (images.ops->features & SBX_BACKEND_PREPARE) != 0
                    ? images.ops->prepare(images.instance->state, &images.call, &err)
                    : sbx_error_set(&err, -ENOTSUP, "cli", NULL, "the backend %s can't bring images",
                                    images.instance->name);
        if (r >= 0)
                r = tell_images(&images, true, &err);
        if (r >= 0 && images.environment != NULL)
                sbx_cli_image_packages_used(cli, images.instance);
        return end(&images, r, &err);
}

/* ---- prune ---- */

static int show_removed(const struct sbx_cli *cli, const json_t *answer) {
        const json_t *removed = json_object_get(answer, "removed"), *name;
        char amount[SBX_CLI_AMOUNT_SIZE];
        size_t i;
        int r = 0;

        json_array_foreach ((json_t *)removed, i, name) {
                if (r >= 0)
                        r = sbx_cli_print(&cli->out, "removed %s\n", json_string_value(name));
        }
        if (r < 0)
                return r;
        if (json_array_size(removed) == 0)
                return sbx_cli_print(&cli->out, "nothing to remove\n");
        return sbx_cli_print(
                &cli->out, "%zu %s, %s with what they share with others\n", json_array_size(removed),
                json_array_size(removed) == 1 ? "image" : "images",
                sbx_cli_bytes_text((uint64_t)json_integer_value(json_object_get(answer, "bytes")), amount));
}

static int run_prune(struct sbx_cli *cli, const struct sbx_cli_command *command, int argc, char **argv) {
        _cleanup_images_ struct images images = {.cli = cli, .signals = {.fd = -1}};
        _cleanup_json_ json_t *answer = NULL;
        struct sbx_error err = {0};
        int result, r;

        if (!begin(&images, command, argc, argv, &result))
                return result;
        r = images.ops->images_prune != NULL
                    ? ask(&images, images.ops->images_prune, &answer, &err)
                    : sbx_error_set(&err, -ENOTSUP, "cli", NULL, "the backend %s can't remove images",
                                    images.instance->name);
        if (r >= 0)
                r = images.options.json ? sbx_cli_print_json(&cli->out, answer, true) : show_removed(cli, answer);
        return end(&images, r, &err);
}

/* ---- the commands -------------------------------------------------------------------------------------- */

static const char env_help[] = "whose images: a backend instance of the configuration (default: the setting "
                               "environment, or the first that has images)";

static const struct sbx_cli_option image_command_options[] = {
        {"env", 'e', SBX_CLI_TEXT, offsetof(struct image_options, environment), "NAME", env_help, NULL},
        {"json", 0, SBX_CLI_FLAG, offsetof(struct image_options, json), NULL, "print JSON", NULL},
        {0},
};

static const struct sbx_cli_option build_command_options[] = {
        {"env", 'e', SBX_CLI_TEXT, offsetof(struct image_options, environment), "NAME", env_help, NULL},
        {"with", 'w', SBX_CLI_ARGUMENT, 0, "NAME",
         "a package of pure Python to import into the image of backend-wasm: a name, a wheel or a directory; may be "
         "given more than once",
         NULL},
        {"json", 0, SBX_CLI_FLAG, offsetof(struct image_options, json), NULL, "print JSON", NULL},
        {0},
};

static const struct sbx_cli_example list_examples[] = {
        {"image list", "which image each runtime is made of, and which of them are here"},
        {0},
};

static const struct sbx_cli_example build_examples[] = {
        {"image build", "pull and prepare ahead, so that the first session need not wait"},
        {"image build --set docker_workspace_setup=tests-only", "an image with pytest for the project's own tests"},
        {"image build --env wasm --with attrs --with ./mylib", "packages that are there in every session at once"},
        {0},
};

static const struct sbx_cli_example prune_examples[] = {
        {"image prune", "after a change of requirements, remove what was built for the old ones"},
        {0},
};

const struct sbx_cli_command sbx_cli_image_list = {
        .name = "image list",
        .arguments = "",
        .summary = "List the images that sessions in containers are made of",
        .options = image_command_options,
        .examples = list_examples,
        .flags = SBX_CLI_CONFIGURED,
        .run = run_list,
};

const struct sbx_cli_command sbx_cli_image_build = {
        .name = "image build",
        .arguments = "",
        .summary = "Pull or bake images and prepare them for the project",
        .description =
                "Brings the image of Python, those of the runtimes that the configuration names, and what\n"
                "workspace_setup, workspace_install_command and workspace_install_extras install on top. What is\n"
                "there already costs nothing. Ctrl-C ends it.\n"
                "\n"
                "For backend-wasm: bakes the packages of its option `packages` and those of --with into the image\n"
                "that sessions begin from. Sessions use it where the option names the same packages.",
        .options = build_command_options,
        .examples = build_examples,
        .flags = SBX_CLI_CONFIGURED,
        .run = run_build,
};

const struct sbx_cli_command sbx_cli_image_prune = {
        .name = "image prune",
        .arguments = "",
        .summary = "Remove prepared images that the project no longer needs",
        .description =
                "Removes images that were prepared for this project and that its configuration does not ask for\n"
                "any more. Images of other projects, images in use and images that were pulled stay.",
        .options = image_command_options,
        .examples = prune_examples,
        .flags = SBX_CLI_CONFIGURED,
        .run = run_prune,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* Which image a runtime is made of. */
#include <ctype.h>

#include "options_internal.h"
#include "util.h"

#define RUNTIMES_MAX 64
#define IMAGE_MAX 255 /* of a reference, with registry, tag and digest */

static const char *const families[] = {"python", "node", "bash"};

bool docker_word_ok(const char *text, const char *more) {
        size_t length = strlen(text);

        if (length == 0 || length > 127 || !isalnum((unsigned char)text[0]))
                return false;
        for (size_t i = 0; i < length; i++)
                if (!isalnum((unsigned char)text[i]) && strchr(more, text[i]) == NULL)
                        return false;
        return true;
}

/* What can be no reference to an image anywhere; the engine knows the rest. */
static bool image_ok(const char *image) {
        size_t length = strlen(image);

        if (length == 0 || length > IMAGE_MAX || !isalnum((unsigned char)image[0]))
                return false;
        for (size_t i = 0; i < length; i++)
                if (!isalnum((unsigned char)image[i]) && strchr("._-/:@", image[i]) == NULL)
                        return false;
        return strstr(image, "..") == NULL && strstr(image, "//") == NULL;
}

static struct docker_runtime *find(const struct docker_options *options, const char *name) {
        for (size_t i = 0; i < options->runtime_count; i++)
                if (strcmp(options->runtimes[i].name, name) == 0)
                        return &options->runtimes[i];
        return NULL;
}

static int put(struct docker_options *options, const char *name, enum docker_family family, const char *image) {
        struct docker_runtime *runtime = find(options, name);
        _cleanup_free_ char *name_copy = strdup(name), *image_copy = strdup(image);

        if (name_copy == NULL || image_copy == NULL)
                return -ENOMEM;
        if (runtime == NULL) {
                if (options->runtime_count == RUNTIMES_MAX)
                        return -E2BIG;
                runtime = &options->runtimes[options->runtime_count++];
                *runtime = (struct docker_runtime){.name = steal_pointer(name_copy)};
        }
        free(runtime->image);
        runtime->image = steal_pointer(image_copy);
        runtime->family = family;
        return 0;
}

static int family_index(const char *word) {
        for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
                if (strcmp(families[i], word) == 0)
                        return (int)i;
        return -1;
}

/* "node20" speaks with Node's worker without being told; a name of its own is one of Python. */
static enum docker_family family_of_name(const char *name) {
        for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
                size_t length = strlen(families[i]);

                if (strncmp(name, families[i], length) == 0 &&
                    (name[length] == '\0' || isdigit((unsigned char)name[length])))
                        return (enum docker_family)i;
        }
        return DOCKER_PYTHON;
}

static int put_line(struct docker_options *options, const char *line, struct sbx_error *err) {
        _cleanup_free_ char *name = strdup(line);
        char *image, *family;
        int index, r;

        if (name == NULL)
                return sbx_error_set(err, -ENOMEM, DOCKER_OPTIONS_ORIGIN, NULL, "out of memory");
        image = strchr(name, '=');
        if (image != NULL)
                *image++ = '\0';
        family = strchr(name, ':');
        if (family != NULL)
                *family++ = '\0';
        index = family != NULL ? family_index(family) : (int)family_of_name(name);
        if (image == NULL || !docker_word_ok(name, "_.-") || strlen(name) > 63 || !image_ok(image) || index < 0)
                return sbx_error_set(err, -EINVAL, DOCKER_OPTIONS_ORIGIN,
                                     "Write \"name=image\" or \"name:family=image\", the family python, node or bash: "
                                     "runtimes = [ \"python3.12=python:3.12-slim\" ].",
                                     "runtimes: \"%s\" names no image for a runtime", line);
        r = put(options, name, (enum docker_family)index, image);
        if (r == -E2BIG)
                return sbx_error_set(err, -EINVAL, DOCKER_OPTIONS_ORIGIN, "Name fewer.",
                                     "runtimes: there can be at most %d", RUNTIMES_MAX);
        return r < 0 ? sbx_error_set(err, r, DOCKER_OPTIONS_ORIGIN, NULL, "out of memory") : 0;
}

static int put_known(struct docker_options *options, const char *image) {
        static const struct {
                const char *name;
                enum docker_family family;
                const char *image; /* NULL: that of the configuration */
        } known[] = {
                {"python", DOCKER_PYTHON, NULL},
                {"python3.10", DOCKER_PYTHON, "python:3.10-slim"},
                {"python3.11", DOCKER_PYTHON, "python:3.11-slim"},
                {"python3.12", DOCKER_PYTHON, "python:3.12-slim"},
                {"node", DOCKER_NODE, "node:22-slim"},
                {"node18", DOCKER_NODE, "node:18-slim"},
                {"node20", DOCKER_NODE, "node:20-slim"},
                {"node22", DOCKER_NODE, "node:22-slim"},
                {"bash", DOCKER_BASH, NULL},
        };
        int r = 0;

        for (size_t i = 0; r == 0 && i < sizeof(known) / sizeof(known[0]); i++)
                r = put(options, known[i].name, known[i].family, known[i].image != NULL ? known[i].image : image);
        return r;
}

int docker_runtimes_read(const struct sbx_host *host, struct docker_options *options, struct sbx_error *err) {
        const char *image = host->option_string(host->self, "image");
        size_t count = host->option_count(host->self, "runtimes");
        int r;

        if (image == NULL || image[0] == '\0')
                image = host->setting(host->self, "docker_image");
        if (image == NULL || image[0] == '\0')
                image = "python:3.11-slim";
        if (!image_ok(image))
                return sbx_error_set(err, -EINVAL, DOCKER_OPTIONS_ORIGIN,
                                     "Write it as `docker pull` takes it: image = \"python:3.11-slim\".",
                                     "image: \"%s\" is no name of an image", image);
        options->runtimes = calloc(RUNTIMES_MAX, sizeof(*options->runtimes));
        if (options->runtimes == NULL || put_known(options, image) < 0)
                return sbx_error_set(err, -ENOMEM, DOCKER_OPTIONS_ORIGIN, NULL, "out of memory");
        for (size_t i = 0; i < count; i++) {
                const char *line = host->option_item(host->self, "runtimes", i);

                r = line != NULL ? put_line(options, line, err) : 0;
                if (r < 0)
                        return r;
        }
        return 0;
}

/* ", " between the names of all; what does not fit is left out. */
static void list_names(const struct docker_options *options, char *text, size_t size) {
        size_t used = 0;

        text[0] = '\0';
        for (size_t i = 0; i < options->runtime_count; i++) {
                int n = snprintf(text + used, size - used, "%s%s", i > 0 ? ", " : "", options->runtimes[i].name);

                if (n < 0 || (size_t)n >= size - used) {
                        text[used] = '\0';
                        return;
                }
                used += (size_t)n;
        }
}

int docker_runtime_find(const struct docker_options *options, const char *runtime, const char *version,
                        const struct docker_runtime **ret_runtime, struct sbx_error *err) {
        char name[160], names[SBX_ERROR_HINT_MAX - 128], hint[SBX_ERROR_HINT_MAX];
        const struct docker_runtime *found = NULL;
        int n = snprintf(name, sizeof(name), "%s%s", runtime != NULL && runtime[0] != '\0' ? runtime : "python",
                         version != NULL ? version : "");

        if (n > 0 && (size_t)n < sizeof(name))
                found = find(options, name);
        if (found != NULL) {
                *ret_runtime = found;
                return 0;
        }
        list_names(options, names, sizeof(names));
        snprintf(hint, sizeof(hint), "There are: %s. Add one with runtimes = [ \"name:family=image\" ].", names);
        return sbx_error_set(err, -ENOENT, DOCKER_OPTIONS_ORIGIN, hint, "no runtime \"%s\"", name);
}

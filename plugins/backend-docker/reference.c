/* SPDX-License-Identifier: Apache-2.0 */
/* Names of images, taken apart as engines do. */
#include <ctype.h>

#include "image_internal.h"

#define DOCKER_HUB "docker.io"
#define ID_DIGITS 64

bool image_id_ok(const char *id) {
        size_t digits = 0;

        if (strncmp(id, "sha256:", 7) == 0)
                id += 7;
        while (isxdigit((unsigned char)id[digits]) && !isupper((unsigned char)id[digits]))
                digits++;
        return digits == ID_DIGITS && id[digits] == '\0';
}

/* Letters, digits and what separates them; begins and ends with a letter or digit, no two of "/:@" in a row. */
static bool characters_ok(const char *text) {
        size_t length = strlen(text);

        if (length == 0 || length >= IMAGE_REFERENCE_MAX || !isalnum((unsigned char)text[0]) ||
            !isalnum((unsigned char)text[length - 1]))
                return false;
        for (size_t i = 0; i < length; i++) {
                if (!isalnum((unsigned char)text[i]) && strchr("._-/:@", text[i]) == NULL)
                        return false;
                if (strchr("/:@", text[i]) != NULL && strchr("/:@", text[i + 1]) != NULL)
                        return false;
        }
        return true;
}

/* The first part is a registry if it looks like a host. */
static void take_registry(const char *repository, char *registry, size_t size) {
        size_t length = strcspn(repository, "/");
        bool host = repository[length] == '/' &&
                    (memchr(repository, '.', length) != NULL || memchr(repository, ':', length) != NULL ||
                     (length == 9 && strncmp(repository, "localhost", 9) == 0));

        snprintf(registry, size, "%.*s", host ? (int)length : (int)strlen(DOCKER_HUB), host ? repository : DOCKER_HUB);
        if (strcmp(registry, "index.docker.io") == 0 || strcmp(registry, "registry-1.docker.io") == 0)
                snprintf(registry, size, "%s", DOCKER_HUB);
}

int image_reference_parse(const char *image, struct image_reference *ret_reference, struct sbx_error *err) {
        struct image_reference reference = {.tag = "latest"};
        const char *digest, *slash, *colon;
        size_t length;

        if (!characters_ok(image))
                return sbx_error_set(err, -EINVAL, DOCKER_ORIGIN, "Write it like python:3.12-slim.",
                                     "\"%.200s\" is no name of an image", image);
        reference.id = image_id_ok(image);
        digest = strchr(image, '@');
        length = digest != NULL ? (size_t)(digest - image) : strlen(image);
        slash = memrchr(image, '/', length);
        colon = memrchr(image, ':', length);
        if (colon != NULL && (slash == NULL || colon > slash)) {
                snprintf(reference.tag, sizeof(reference.tag), "%.*s", (int)(image + length - colon - 1), colon + 1);
                length = (size_t)(colon - image);
        }
        if (digest != NULL)
                snprintf(reference.tag, sizeof(reference.tag), "%s", digest + 1);
        snprintf(reference.repository, sizeof(reference.repository), "%.*s", (int)length, image);
        take_registry(reference.repository, reference.registry, sizeof(reference.registry));
        *ret_reference = reference;
        return 0;
}

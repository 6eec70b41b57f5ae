/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine says of one image. */
#include <ctype.h>

#include "image_internal.h"
#include "util.h"

#define PATH_MAX_BYTES (3 * IMAGE_REFERENCE_MAX + 32)

void image_take_words(char *text, size_t size, const char *words) {
        snprintf(text, size, "%.*s", (int)strcspn(words, "\r\n"), words);
        sbx_error_trim_(text, size);
        for (char *at = text; *at != '\0'; at++)
                if (iscntrl((unsigned char)*at))
                        *at = ' ';
        if (text[0] == '\0')
                snprintf(text, size, "no reason given");
}

/* "2026-11-21T10:10:28.679250812Z" to whole seconds; "" if it is anything else. */
static void read_created(const char *text, char created[32]) {
        static const char form[] = "dddd-dd-ddTdd:dd:dd";

        created[0] = '\0';
        for (size_t i = 0; form[i] != '\0'; i++)
                if (text == NULL || (form[i] == 'd' ? !isdigit((unsigned char)text[i]) : text[i] != form[i]))
                        return;
        snprintf(created, 32, "%.19sZ", text);
}

int image_inspect(struct docker *docker, const char *name, const struct sbx_call *call, struct image_facts *ret_facts,
                  struct sbx_error *err) {
        char path[PATH_MAX_BYTES] = "/images/";
        struct engine_request request = {.method = "GET", .path = path};
        _cleanup_json_ json_t *answer = NULL;
        const char *id, *prepared;
        int r = engine_escape(path, sizeof(path), name);

        if (r == 0 && strlen(path) + sizeof("/json") > sizeof(path))
                r = -ENAMETOOLONG;
        if (r < 0)
                return sbx_error_set(err, r, DOCKER_ORIGIN, NULL, "the name of an image is too long: %.200s", name);
        memcpy(path + strlen(path), "/json", sizeof("/json"));
        r = engine_ask(docker->engine, &request, call, &answer, err);
        if (r < 0)
                return r;
        id = json_string_value(json_object_get(answer, "Id"));
        if (id == NULL || !image_id_ok(id))
                return sbx_error_set(err, -EPROTO, DOCKER_ORIGIN, "Is it a container engine that answers there?",
                                     "the engine describes the image %.200s without an id", name);
        *ret_facts = (struct image_facts){.size = json_integer_value(json_object_get(answer, "Size"))};
        snprintf(ret_facts->id, sizeof(ret_facts->id), "%s%s", strncmp(id, "sha256:", 7) == 0 ? "" : "sha256:", id);
        read_created(json_string_value(json_object_get(answer, "Created")), ret_facts->created);
        prepared = json_string_value(
                json_object_get(json_object_get(json_object_get(answer, "Config"), "Labels"), PREPARED_LABEL));
        snprintf(ret_facts->prepared, sizeof(ret_facts->prepared), "%s", prepared != NULL ? prepared : "");
        return 0;
}

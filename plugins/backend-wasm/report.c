/* SPDX-License-Identifier: Apache-2.0 */
/* The isolation report as JSON: {"backend","isolation","layers":[{"name","state","detail"}]}. */
#include "report.h"

#include <inttypes.h>

#include "util.h"

#define LAYERS_COUNT_MAX 64

static bool is_layer(json_t *layer) {
        static const char *const states[] = {"applied", "absent", "off"};
        const char *name = json_string_value(json_object_get(layer, "name")),
                   *state = json_string_value(json_object_get(layer, "state"));

        if (name == NULL || name[0] == '\0' || state == NULL || !json_is_string(json_object_get(layer, "detail")) ||
            json_object_size(layer) != 3)
                return false;
        for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
                if (strcmp(state, states[i]) == 0)
                        return true;
        return false;
}

int report_read_layers(struct sbx_bytes json, char **ret_layers, struct sbx_error *err) {
        _cleanup_json_ json_t *layers = json_loadb(json.data, json.size, JSON_REJECT_DUPLICATES, NULL);
        char *text;
        size_t length;

        if (!json_is_array(layers) || json_array_size(layers) == 0 || json_array_size(layers) > LAYERS_COUNT_MAX)
                return sbx_error_set(err, -EIO, WASM_ORIGIN, "reinstall the program",
                                     "the jail's report is no list of layers");
        for (size_t i = 0; i < json_array_size(layers); i++)
                if (!is_layer(json_array_get(layers, i)))
                        return sbx_error_set(err, -EIO, WASM_ORIGIN, "reinstall the program",
                                             "the jail's report: layer %zu is none", i);
        text = json_dumps(layers, JSON_COMPACT);
        if (text == NULL)
                return sbx_error_set(err, -ENOMEM, WASM_ORIGIN, NULL, "out of memory");
        length = strlen(text);
        memmove(text, text + 1, length - 2);
        text[length - 2] = '\0';
        *ret_layers = text;
        return 0;
}

/* Made for each guest on its way to its user: no tree of JSON values, and nothing in it that needs escaping. */
char *report_make(const struct backend *backend, const struct guest_image *image, const char *layers,
                  uint64_t memory_bytes) {
        const struct wasm_options *options = &backend->options;
        char *text = NULL;

        if (asprintf(&text,
                     "{\"backend\":\"wasm\",\"isolation\":\"wasm\",\"layers\":["
                     "{\"name\":\"image\",\"state\":\"applied\",\"detail\":\"%s %s, private copy of image %.16s\"},%s,"
                     "{\"name\":\"memory\",\"state\":\"applied\",\"detail\":\"%" PRIu64
                     " MiB beyond the image's, refused with MemoryError\"},"
                     "{\"name\":\"files\",\"state\":\"applied\",\"detail\":\"in memory, %" PRIu64
                     " MiB, %u entries, %u open; no path of the host\"}]}",
                     image->runtime, image->version, image->hash_text, layers, memory_bytes >> 20,
                     options->files_bytes >> 20, options->file_entries, options->open_files) < 0)
                return NULL;
        return text;
}

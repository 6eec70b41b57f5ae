/* SPDX-License-Identifier: Apache-2.0 */
/* Trees as JSON: for clients, and as vaults keep them, where what is read may have been written by an enemy. */
#include "session/tree.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json.h"

#define ORIGIN "sessions"

/* ---- for clients ---- */

void sbx_timestamp_of(int64_t ms, char ret_text[SBX_TIMESTAMP_SIZE]) {
        time_t seconds = (time_t)(ms / 1000);
        struct tm utc = {0};
        size_t size;

        gmtime_r(&seconds, &utc);
        size = strftime(ret_text, SBX_TIMESTAMP_SIZE, "%Y-%m-%dT%H:%M:%S", &utc);
        snprintf(ret_text + size, SBX_TIMESTAMP_SIZE - size, ".%03uZ", (unsigned)(ms % 1000));
}

json_t *sbx_checkpoint_json(const struct sbx_tree *tree, const struct sbx_checkpoint *checkpoint) {
        json_t *about = checkpoint->about != NULL ? json_deep_copy(checkpoint->about) : json_object();
        char created_at[SBX_TIMESTAMP_SIZE];

        if (about == NULL)
                return NULL;
        sbx_timestamp_of(checkpoint->created_ms, created_at);
        return json_pack("{s:s, s:s?, s:s?, s:b, s:s, s:I, s:I, s:s, s:b, s:o}", "id", checkpoint->id, "parent",
                         checkpoint->parent[0] != '\0' ? checkpoint->parent : NULL, "label", checkpoint->label,
                         "automatic", (int)checkpoint->automatic, "created_at", created_at, "executions",
                         (json_int_t)checkpoint->executions, "bytes", (json_int_t)checkpoint->bytes, "mechanism",
                         sbx_mechanism_name(checkpoint->mechanism), "head", strcmp(checkpoint->id, tree->head) == 0,
                         "holds", about);
}

/* ---- for vaults: writing ---- */

/* What has parts, from here up. */
static const char *stored_ancestor(const struct sbx_tree *tree, const char *id) {
        for (size_t i = tree->count; i-- > 0;)
                if (strcmp(tree->items[i]->id, id) == 0) {
                        if (tree->items[i]->part_count > 0)
                                return id;
                        id = tree->items[i]->parent; /* which is older: it stands before */
                }
        return "";
}

static json_t *encode_checkpoint(const struct sbx_tree *tree, const struct sbx_checkpoint *checkpoint) {
        json_t *about = checkpoint->about != NULL ? json_incref(checkpoint->about) : json_object();

        if (about == NULL)
                return NULL;
        return json_pack("{s:s, s:s, s:s?, s:b, s:s, s:I, s:I, s:I, s:I, s:o}", "id", checkpoint->id, "parent",
                         stored_ancestor(tree, checkpoint->parent), "label", checkpoint->label, "automatic",
                         (int)checkpoint->automatic, "mechanism", sbx_mechanism_name(checkpoint->mechanism),
                         "created_ms", (json_int_t)checkpoint->created_ms, "executions",
                         (json_int_t)checkpoint->executions, "bytes", (json_int_t)checkpoint->bytes, "parts",
                         (json_int_t)checkpoint->part_count, "about", about);
}

json_t *sbx_tree_encode(const struct sbx_tree *tree) {
        _cleanup_json_ json_t *checkpoints = json_array();

        if (checkpoints == NULL)
                return NULL;
        for (size_t i = 0; i < tree->count; i++) {
                if (tree->items[i]->part_count == 0)
                        continue;
                if (json_array_append_new(checkpoints, encode_checkpoint(tree, tree->items[i])) < 0)
                        return NULL;
        }
        return json_pack("{s:I, s:s, s:O}", "last", (json_int_t)tree->last_number, "head",
                         stored_ancestor(tree, tree->head), "checkpoints", checkpoints);
}

/* ---- for vaults: reading ---- */

#define REFUSE(err, ...) sbx_error_set((err), -EINVAL, ORIGIN, NULL, __VA_ARGS__)

static int check_strings(const json_t *object, const char *path, const char *const *keys, struct sbx_error *err) {
        const char *text = NULL;
        int r = 0;

        for (; r == 0 && *keys != NULL; keys++) {
                text = NULL;
                r = sbx_json_get_string(object, path, *keys, 0, &text, err);
                if (r == 0 && text != NULL && strlen(text) > SBX_ABOUT_TEXT_MAX)
                        r = REFUSE(err, "%s.%s has more than %u bytes", path, *keys, SBX_ABOUT_TEXT_MAX);
        }
        return r;
}

static int check_names(const json_t *names, const char *path, struct sbx_error *err) {
        if (names == NULL)
                return 0;
        if (!json_is_array(names) || json_array_size(names) > SBX_ABOUT_NAMES_MAX)
                return REFUSE(err, "%s.names is no array of at most %u", path, SBX_ABOUT_NAMES_MAX);
        for (size_t i = 0; i < json_array_size(names); i++) {
                const json_t *name = json_array_get(names, i);

                if (!json_is_string(name) || json_string_length(name) > SBX_ABOUT_TEXT_MAX)
                        return REFUSE(err, "%s.names[%zu] is no string of at most %u bytes", path, i,
                                      SBX_ABOUT_TEXT_MAX);
        }
        return 0;
}

static int check_unsaved(const json_t *unsaved, const char *path, struct sbx_error *err) {
        static const char *const keys[] = {"name", "type", "reason", NULL};
        int r = 0;

        if (unsaved == NULL)
                return 0;
        if (!json_is_array(unsaved) || json_array_size(unsaved) > SBX_ABOUT_NAMES_MAX)
                return REFUSE(err, "%s.unsaved is no array of at most %u", path, SBX_ABOUT_NAMES_MAX);
        for (size_t i = 0; r == 0 && i < json_array_size(unsaved); i++) {
                const json_t *entry = json_array_get(unsaved, i);
                char inner[96];

                if (!json_is_object(entry))
                        return REFUSE(err, "%s.unsaved[%zu] is no object", path, i);
                snprintf(inner, sizeof(inner), "%s.unsaved[%zu]", path, i);
                r = check_strings(entry, inner, keys, err);
        }
        return r;
}

/* Members that this version does not know are kept; a reader takes only so many levels. */
static bool is_shallow(const json_t *json, unsigned levels) {
        const char *key;
        json_t *value;
        size_t index;

        if (levels == 0)
                return !json_is_object(json) && !json_is_array(json);
        json_object_foreach ((json_t *)json, key, value) {
                if (!is_shallow(value, levels - 1))
                        return false;
        }
        json_array_foreach (json, index, value) {
                if (!is_shallow(value, levels - 1))
                        return false;
        }
        return true;
}

int sbx_checkpoint_check_about(const json_t *about, const char *path, struct sbx_error *err) {
        static const char *const keys[] = {"runtime", "version", "digest", NULL};
        const json_t *files = json_object_get(about, "files");
        int64_t number;
        int r;

        if (!json_is_object(about) || json_object_size(about) > SBX_ABOUT_MEMBERS_MAX)
                return REFUSE(err, "%s is no object of at most %u members", path, SBX_ABOUT_MEMBERS_MAX);
        if (!is_shallow(about, SBX_ABOUT_LEVELS_MAX))
                return REFUSE(err, "%s has more than %u levels", path, SBX_ABOUT_LEVELS_MAX);
        r = check_strings(about, path, keys, err);
        if (r == 0)
                r = sbx_json_get_int(about, path, "variables", 0, 0, INT64_MAX, &number, err);
        if (r == 0)
                r = check_names(json_object_get(about, "names"), path, err);
        if (r == 0)
                r = check_unsaved(json_object_get(about, "unsaved"), path, err);
        if (r < 0 || files == NULL)
                return r;
        if (!json_is_object(files))
                return REFUSE(err, "%s.files is no object", path);
        r = sbx_json_get_int(files, path, "count", 0, 0, INT64_MAX, &number, err);
        return r < 0 ? r : sbx_json_get_int(files, path, "bytes", 0, 0, INT64_MAX, &number, err);
}

/* An id of the tree, or "": nothing may stand below what is not there. */
static int decode_reference(const json_t *object, const char *path, const char *key, const struct sbx_tree *tree,
                            char ret_id[SBX_CHECKPOINT_ID_SIZE], struct sbx_error *err) {
        const char *id = NULL;
        uint64_t number;
        int r = sbx_json_get_string(object, path, key, SBX_JSON_REQUIRED, &id, err);

        if (r < 0)
                return r;
        if (id[0] != '\0' && (!sbx_checkpoint_id_number(id, &number) || sbx_tree_find(tree, id) == NULL))
                return REFUSE(err, "%s.%s is no checkpoint that comes before", path, key);
        snprintf(ret_id, SBX_CHECKPOINT_ID_SIZE, "%s", id);
        return 0;
}

static int decode_id(const json_t *json, const char *path, struct sbx_tree *tree, struct sbx_checkpoint *checkpoint,
                     struct sbx_error *err) {
        const char *id = NULL;
        uint64_t number;
        int r = sbx_json_get_string(json, path, "id", SBX_JSON_REQUIRED, &id, err);

        if (r < 0)
                return r;
        if (!sbx_checkpoint_id_number(id, &number) || number <= tree->last_number)
                return REFUSE(err, "%s.id is no id above those before it", path);
        r = decode_reference(json, path, "parent", tree, checkpoint->parent, err);
        if (r < 0)
                return r;
        snprintf(checkpoint->id, sizeof(checkpoint->id), "%s", id);
        tree->last_number = number;
        return 0;
}

static int decode_words(const json_t *json, const char *path, struct sbx_checkpoint *checkpoint,
                        struct sbx_error *err) {
        const char *label = NULL, *mechanism = NULL;
        int r = sbx_json_get_string(json, path, "label", 0, &label, err);

        if (r == 0)
                r = sbx_json_get_string(json, path, "mechanism", SBX_JSON_REQUIRED, &mechanism, err);
        if (r == 0 && label != NULL)
                r = sbx_checkpoint_check_label(label, err);
        if (r < 0)
                return r;
        checkpoint->mechanism = sbx_mechanism_find(mechanism);
        if (checkpoint->mechanism == 0 || checkpoint->mechanism == SBX_MECHANISM_FROZEN)
                return REFUSE(err, "%s.mechanism is none that a state can be kept by", path);
        checkpoint->label = label != NULL ? strdup(label) : NULL;
        return label != NULL && checkpoint->label == NULL ? SBX_NOMEM(err, ORIGIN) : 0;
}

static int decode_numbers(const json_t *json, const char *path, struct sbx_checkpoint *checkpoint,
                          struct sbx_error *err) {
        int64_t executions = 0, bytes = 0, parts = 0;
        int r = sbx_json_get_bool(json, path, "automatic", SBX_JSON_REQUIRED, &checkpoint->automatic, err);

        if (r == 0)
                r = sbx_json_get_int(json, path, "created_ms", SBX_JSON_REQUIRED, 0, SBX_CREATED_MS_MAX,
                                     &checkpoint->created_ms, err);
        if (r == 0)
                r = sbx_json_get_int(json, path, "executions", SBX_JSON_REQUIRED, 0, INT64_MAX, &executions, err);
        if (r == 0)
                r = sbx_json_get_int(json, path, "bytes", SBX_JSON_REQUIRED, 0, SBX_CHECKPOINT_BYTES_MAX, &bytes, err);
        if (r == 0)
                r = sbx_json_get_int(json, path, "parts", SBX_JSON_REQUIRED, 1, SBX_CHECKPOINT_PARTS_MAX, &parts, err);
        checkpoint->executions = (uint64_t)executions;
        checkpoint->bytes = (uint64_t)bytes;
        checkpoint->part_count = (unsigned)parts;
        return r;
}

static int decode_checkpoint(const json_t *json, size_t index, struct sbx_tree *tree, struct sbx_error *err) {
        _cleanup_checkpoint_ struct sbx_checkpoint *checkpoint = calloc(1, sizeof(*checkpoint));
        char path[64];
        int r;

        if (checkpoint == NULL)
                return SBX_NOMEM(err, ORIGIN);
        snprintf(path, sizeof(path), "tree.checkpoints[%zu]", index);
        if (!json_is_object(json))
                return REFUSE(err, "%s is no object", path);
        r = decode_id(json, path, tree, checkpoint, err);
        if (r == 0)
                r = decode_words(json, path, checkpoint, err);
        if (r == 0)
                r = decode_numbers(json, path, checkpoint, err);
        if (r == 0)
                r = sbx_checkpoint_check_about(json_object_get(json, "about"), path, err);
        if (r < 0)
                return r;
        checkpoint->about = json_incref(json_object_get(json, "about"));
        r = sbx_tree_append(tree, checkpoint, err);
        if (r == 0)
                checkpoint = NULL;
        return r;
}

static int decode_tree(const json_t *json, struct sbx_tree *tree, struct sbx_error *err) {
        const json_t *checkpoints = json_object_get(json, "checkpoints");
        int64_t last = 0;
        int r;

        if (!json_is_object(json) || !json_is_array(checkpoints))
                return REFUSE(err, "tree is no object with an array of checkpoints");
        if (json_array_size(checkpoints) > SBX_TREE_CHECKPOINTS_MAX)
                return REFUSE(err, "tree.checkpoints has more than %u", SBX_TREE_CHECKPOINTS_MAX);
        for (size_t i = 0; i < json_array_size(checkpoints); i++) {
                r = decode_checkpoint(json_array_get(checkpoints, i), i, tree, err);
                if (r < 0)
                        return r;
        }
        r = decode_reference(json, "tree", "head", tree, tree->head, err);
        if (r == 0)
                r = sbx_json_get_int(json, "tree", "last", SBX_JSON_REQUIRED, (int64_t)tree->last_number,
                                     SBX_CHECKPOINT_NUMBER_MAX, &last, err);
        tree->last_number = (uint64_t)last;
        return r;
}

int sbx_tree_decode(const json_t *json, struct sbx_tree *ret_tree, struct sbx_error *err) {
        struct sbx_tree tree = {0};
        int r = decode_tree(json, &tree, err);

        if (r < 0)
                sbx_tree_clear(&tree);
        else
                *ret_tree = tree;
        return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Lists that stand without asking anybody: asked once of all parts, and kept until a change is told. */
#include "catalog/state.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"

#define ORIGIN SBX_CATALOG_ORIGIN

void sbx_kept_unref(struct sbx_kept *kept) {
        if (kept == NULL || __atomic_sub_fetch(&kept->references, 1, __ATOMIC_ACQ_REL) > 0)
                return;
        sbx_items_free(&kept->items);
        sbx_buffer_free(&kept->json);
        free(kept);
}

void sbx_catalog_drop(struct sbx_catalog *catalog, enum sbx_items_kind kind) {
        struct sbx_kept *dropped;

        pthread_mutex_lock(&catalog->lock);
        dropped = catalog->kept[kind];
        catalog->kept[kind] = NULL;
        catalog->drops++;
        pthread_mutex_unlock(&catalog->lock);
        sbx_kept_unref(dropped);
}

/* ---- asking ---- */

static int ask_part(const struct sbx_catalog_part *part, enum sbx_items_kind kind, json_t **ret_list,
                    struct sbx_error *err) {
        int (*list)(void *data, json_t **ret_list, struct sbx_error *err) =
                kind == SBX_ITEMS_PROMPTS ? part->prompts : part->templates;

        return list != NULL ? list(part->data, ret_list, err) : 0;
}

/* A part that fails takes nothing away from the others. `*ret_complete`: none has failed. */
static int ask_parts(struct sbx_catalog *catalog, struct sbx_items *items, bool *ret_complete, struct sbx_error *err) {
        const struct sbx_catalog_entry *entries[SBX_CATALOG_PARTS_MAX];
        size_t count = sbx_catalog_entries(catalog, entries);

        *ret_complete = true;
        for (size_t i = 0; i < count; i++) {
                _cleanup_json_ json_t *list = NULL;
                struct sbx_error problem = {0};
                int r = ask_part(&entries[i]->part, items->kind, &list, &problem);

                if (r == 0 && list != NULL)
                        r = sbx_items_add(items, entries[i], list, catalog->logger, &problem);
                if (r == -ENOMEM)
                        return SBX_NOMEM(err, ORIGIN);
                if (r < 0) {
                        sbx_error_set(&problem, r, ORIGIN, NULL, "%s", SBX_ERRNO_TEXT(r));
                        sbx_log(catalog->logger, SBX_LOG_WARNING, "%s: what it lists is left out: %s",
                                entries[i]->part.name, problem.message);
                        *ret_complete = false;
                }
        }
        sbx_items_sort(items, catalog->logger);
        return 0;
}

static int make_kept(struct sbx_catalog *catalog, enum sbx_items_kind kind, struct sbx_kept **ret_kept,
                     bool *ret_complete, struct sbx_error *err) {
        _cleanup_kept_ struct sbx_kept *kept = calloc(1, sizeof(*kept));
        _cleanup_json_ json_t *list = NULL;
        int r;

        if (kept == NULL)
                return SBX_NOMEM(err, ORIGIN);
        kept->items.kind = kind;
        kept->json.max = SBX_CATALOG_ANSWER_MAX;
        kept->references = 1;
        r = ask_parts(catalog, &kept->items, ret_complete, err);
        if (r == 0)
                r = sbx_items_json(&kept->items, &list, err);
        if (r < 0)
                return r;
        r = sbx_json_encode(list, &kept->json);
        if (r < 0)
                return sbx_error_set(err, r, ORIGIN, NULL, "the list: %s", SBX_ERRNO_TEXT(r));
        *ret_kept = steal_pointer(kept);
        return 0;
}

/* What is kept; NULL: nothing. `*ret_drops`: as of now. */
static struct sbx_kept *get_kept(struct sbx_catalog *catalog, enum sbx_items_kind kind, uint64_t *ret_drops) {
        SBX_LOCKED(&catalog->lock);
        *ret_drops = catalog->drops;
        if (catalog->kept[kind] != NULL)
                __atomic_add_fetch(&catalog->kept[kind]->references, 1, __ATOMIC_RELAXED);
        return catalog->kept[kind];
}

int sbx_catalog_keep(struct sbx_catalog *catalog, enum sbx_items_kind kind, struct sbx_kept **ret_kept,
                     struct sbx_error *err) {
        bool complete = false;
        uint64_t drops = 0;
        struct sbx_kept *kept = get_kept(catalog, kind, &drops);
        int r;

        if (kept != NULL) {
                *ret_kept = kept;
                return 0;
        }
        r = make_kept(catalog, kind, &kept, &complete, err);
        if (r < 0)
                return r;
        *ret_kept = kept;
        SBX_LOCKED(&catalog->lock);
        /* A change that was told meanwhile may not be in it. */
        if (complete && catalog->drops == drops && catalog->kept[kind] == NULL) {
                __atomic_add_fetch(&kept->references, 1, __ATOMIC_RELAXED);
                catalog->kept[kind] = kept;
        }
        return 0;
}

int sbx_catalog_list(struct sbx_catalog *catalog, int list, struct sbx_buffer *out_json, struct sbx_error *err) {
        _cleanup_kept_ struct sbx_kept *kept = NULL;
        int r;

        if (list != SBX_LIST_PROMPTS && list != SBX_LIST_TEMPLATES)
                return sbx_error_set(err, -EINVAL, ORIGIN, NULL, "no list of the catalog has the number %d", list);
        r = sbx_catalog_keep(catalog, list == SBX_LIST_PROMPTS ? SBX_ITEMS_PROMPTS : SBX_ITEMS_TEMPLATES, &kept, err);
        if (r < 0)
                return r;
        r = sbx_buffer_append(out_json, kept->json.data, kept->json.size);
        return r < 0 ? sbx_error_set(err, r, ORIGIN, NULL, "the list: %s", SBX_ERRNO_TEXT(r)) : 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The catalog: its parts, and what changes do to it. */
#include "catalog/state.h"

#include "base/cleanup.h"
#include "base/error.h"

#define ORIGIN SBX_CATALOG_ORIGIN

static void entry_free(struct sbx_catalog_entry *entry) {
        free((char *)entry->part.name);
        free(entry);
}

int sbx_catalog_new(const struct sbx_logger *logger, struct sbx_catalog **ret_catalog, struct sbx_error *err) {
        struct sbx_catalog *catalog = calloc(1, sizeof(*catalog));

        if (catalog == NULL)
                return SBX_NOMEM(err, ORIGIN);
        if (sbx_news_init(&catalog->news) < 0) {
                free(catalog);
                return SBX_NOMEM(err, ORIGIN);
        }
        catalog->logger = logger;
        pthread_mutex_init(&catalog->lock, NULL);
        *ret_catalog = catalog;
        return 0;
}

void sbx_catalog_free(struct sbx_catalog *catalog) {
        if (catalog == NULL)
                return;
        sbx_kept_unref(catalog->kept[SBX_ITEMS_PROMPTS]);
        sbx_kept_unref(catalog->kept[SBX_ITEMS_TEMPLATES]);
        for (size_t i = 0; i < catalog->count; i++)
                entry_free(catalog->entries[i]);
        sbx_news_destroy(&catalog->news);
        pthread_mutex_destroy(&catalog->lock);
        free(catalog);
}

int sbx_catalog_add(struct sbx_catalog *catalog, const struct sbx_catalog_part *part, struct sbx_error *err) {
        struct sbx_catalog_entry *entry = calloc(1, sizeof(*entry));
        int r;

        if (entry == NULL)
                return SBX_NOMEM(err, ORIGIN);
        entry->part = *part;
        entry->part.name = strdup(part->name);
        if (entry->part.name == NULL) {
                free(entry);
                return SBX_NOMEM(err, ORIGIN);
        }
        pthread_mutex_lock(&catalog->lock);
        r = catalog->count < SBX_CATALOG_PARTS_MAX ? 0 : -ENOSPC;
        if (r == 0)
                catalog->entries[catalog->count++] = entry;
        pthread_mutex_unlock(&catalog->lock);
        if (r < 0) {
                entry_free(entry);
                return sbx_error_set(err, r, ORIGIN, "Use fewer context sources.",
                                     "%s: the catalog has %u parts already, the maximum", part->name,
                                     SBX_CATALOG_PARTS_MAX);
        }
        sbx_catalog_drop(catalog, SBX_ITEMS_PROMPTS);
        sbx_catalog_drop(catalog, SBX_ITEMS_TEMPLATES);
        return 0;
}

size_t sbx_catalog_entries(struct sbx_catalog *catalog, const struct sbx_catalog_entry *ret[SBX_CATALOG_PARTS_MAX]) {
        SBX_LOCKED(&catalog->lock);
        for (size_t i = 0; i < catalog->count; i++)
                ret[i] = catalog->entries[i];
        return catalog->count;
}

/* What is kept goes first: who hears of the change and asks for the list gets the new one. It stands for everybody, so
 * what changed for one principal is not in it. */
void sbx_catalog_changed(struct sbx_catalog *catalog, const struct sbx_change *change) {
        if (change->kind == SBX_CHANGE_PROMPTS && change->principal == NULL)
                sbx_catalog_drop(catalog, SBX_ITEMS_PROMPTS);
        else if (change->kind == SBX_CHANGE_RESOURCES && change->principal == NULL)
                sbx_catalog_drop(catalog, SBX_ITEMS_TEMPLATES);
        sbx_news_tell(&catalog->news, change);
}

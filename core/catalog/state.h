/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of core/catalog: the catalog, and what its files share. */
#pragma once

#include <stdbool.h>

#include "base/thread.h"
#include "catalog/catalog.h"

#define SBX_CATALOG_ORIGIN "catalog"
#define SBX_CATALOG_PARTS_MAX 64u

/* ---- news.c ---- */

struct sbx_news {
        pthread_mutex_t lock; /* protects the watches */
        pthread_cond_t idle;  /* a watch is not being told any more */
        struct sbx_watch *first;
};
int sbx_news_init(struct sbx_news *news); /* -ENOMEM, -EAGAIN */
void sbx_news_destroy(struct sbx_news *news);
void sbx_news_tell(struct sbx_news *news, const struct sbx_change *change);

/* ---- catalog.c ---- */

struct sbx_catalog_entry {
        struct sbx_catalog_part part; /* its name is this struct's own */
        void (*free_data)(void *data); /* NULL: the data is another's */
};

struct sbx_catalog {
        const struct sbx_logger *logger;
        struct sbx_news news;
        pthread_mutex_t lock; /* protects what follows; entries never go away */
        struct sbx_catalog_entry *entries[SBX_CATALOG_PARTS_MAX];
        size_t count;
};

/* Takes `data` over when it succeeds. */
int sbx_catalog_add_owned(struct sbx_catalog *catalog, const struct sbx_catalog_part *part,
                          void (*free_data)(void *data), struct sbx_error *err);

/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of core/catalog: the catalog, and what its files share. */
#pragma once

#include <stdbool.h>

#include "base/thread.h"
#include "catalog/catalog.h"

#define SBX_CATALOG_ORIGIN "catalog"
#define SBX_CATALOG_PARTS_MAX 64u
#define SBX_CATALOG_ITEMS_MAX 10000u /* of one list of one part */
#define SBX_CATALOG_LIST_MAX ((size_t)8 << 20)
#define SBX_CATALOG_ANSWER_MAX ((size_t)64 << 20)
#define SBX_CATALOG_TEXT_MAX 4096u /* bytes of a title or a description */
#define SBX_CATALOG_NAME_MAX 256u
#define SBX_CATALOG_AUTHOR "Tell the author of the context source."

/* ---- news.c ---- */

struct sbx_news {
        pthread_mutex_t lock; /* protects the watches */
        pthread_cond_t idle;  /* a watch is not being told any more */
        struct sbx_watch *first;
};
int sbx_news_init(struct sbx_news *news); /* -ENOMEM, -EAGAIN */
void sbx_news_destroy(struct sbx_news *news);
void sbx_news_tell(struct sbx_news *news, const struct sbx_change *change);

/* ---- items.c: what the parts list, put together ---- */

struct sbx_catalog_entry {
        struct sbx_catalog_part part; /* its name is this struct's own */
};

/* Kinds of lists; each has a member that its items are known by. */
enum sbx_items_kind { SBX_ITEMS_PROMPTS, SBX_ITEMS_TEMPLATES, SBX_ITEMS_RESOURCES };

struct sbx_item {
        const char *key; /* of `value` */
        json_t *value;
        const struct sbx_catalog_entry *owner;
        size_t order; /* in which it came */
};
struct sbx_items {
        enum sbx_items_kind kind;
        struct sbx_item *items;
        size_t count, capacity;
};
/* Adds those of `list` that are as they should be; the others are told in the log. -ENOMEM; -EBADMSG: it is no list. */
int sbx_items_add(struct sbx_items *items, const struct sbx_catalog_entry *owner, const json_t *list,
                  const struct sbx_logger *logger, struct sbx_error *err);
/* By their keys; of those that are there twice, the first that came stays. */
void sbx_items_sort(struct sbx_items *items, const struct sbx_logger *logger);
const struct sbx_item *sbx_items_find(const struct sbx_items *items, const char *key); /* NULL; of sorted ones */
int sbx_items_json(const struct sbx_items *items, json_t **ret_list, struct sbx_error *err);
void sbx_items_free(struct sbx_items *items);
#define _cleanup_items_ __attribute__((cleanup(sbx_items_free)))

/* ---- lists.c: those that are kept ---- */

/* Never changes once it is made. */
struct sbx_kept {
        struct sbx_items items;
        struct sbx_buffer json;
        unsigned references; /* atomic */
};
/* `*ret_kept` is for sbx_kept_unref. */
int sbx_catalog_keep(struct sbx_catalog *catalog, enum sbx_items_kind kind, struct sbx_kept **ret_kept,
                     struct sbx_error *err);
void sbx_kept_unref(struct sbx_kept *kept); /* NULL is fine */
static inline void sbx_cleanup_kept(struct sbx_kept **kept) {
        sbx_kept_unref(*kept);
}
#define _cleanup_kept_ __attribute__((cleanup(sbx_cleanup_kept)))
/* From now on the list is asked anew. */
void sbx_catalog_drop(struct sbx_catalog *catalog, enum sbx_items_kind kind);

/* ---- answers.c: what parts answered; each 0 or -EBADMSG, -ENOMEM ---- */

int sbx_answer_check_contents(const json_t *result, struct sbx_error *err);
int sbx_answer_check_prompt(const json_t *result, struct sbx_error *err);
/* Cuts it to the 100 values that the protocol allows, and makes what a client may rely on of the rest. */
int sbx_answer_fix_completion(json_t *result, struct sbx_error *err);
int sbx_answer_no_completion(json_t **ret_result, struct sbx_error *err);

/* ---- catalog.c ---- */

struct sbx_catalog {
        const struct sbx_logger *logger;
        struct sbx_news news;
        pthread_mutex_t lock; /* protects what follows; entries never go away */
        struct sbx_catalog_entry *entries[SBX_CATALOG_PARTS_MAX];
        size_t count;
        struct sbx_kept *kept[SBX_ITEMS_TEMPLATES + 1]; /* NULL: to be asked */
        uint64_t drops;                                 /* how often a list was dropped */
};

/* The parts that are there now. */
size_t sbx_catalog_entries(struct sbx_catalog *catalog, const struct sbx_catalog_entry *ret[SBX_CATALOG_PARTS_MAX]);

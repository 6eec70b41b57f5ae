/* SPDX-License-Identifier: Apache-2.0 */
/* News: who watches is told of each change, without a lock that a watcher could meet. */
#include "catalog/state.h"

#include "base/error.h"

struct sbx_watch {
        struct sbx_news *news; /* never changes, as the next two */
        void (*changed)(void *data, const struct sbx_change *change);
        void *data;

        /* Protected by the lock of the news. */
        struct sbx_watch *previous, *next;
        unsigned told; /* calls of `changed` that are under way: it stays in the list until there are none */
        bool ended;
};

int sbx_news_init(struct sbx_news *news) {
        int r;

        *news = (struct sbx_news){0};
        r = sbx_cond_init(&news->idle);
        if (r < 0)
                return r;
        pthread_mutex_init(&news->lock, NULL);
        return 0;
}

void sbx_news_destroy(struct sbx_news *news) {
        pthread_cond_destroy(&news->idle);
        pthread_mutex_destroy(&news->lock);
}

void sbx_news_tell(struct sbx_news *news, const struct sbx_change *change) {
        SBX_LOCKED(&news->lock);
        for (struct sbx_watch *at = news->first; at != NULL; at = at->next) {
                if (at->ended)
                        continue;
                at->told++;
                pthread_mutex_unlock(&news->lock);
                at->changed(at->data, change);
                pthread_mutex_lock(&news->lock);
                at->told--;
                if (at->told == 0 && at->ended)
                        pthread_cond_broadcast(&news->idle); /* it is freed only when this thread lets go of the lock */
        }
}

int sbx_catalog_watch(struct sbx_catalog *catalog, void (*changed)(void *data, const struct sbx_change *change),
                      void *data, struct sbx_watch **ret_watch, struct sbx_error *err) {
        struct sbx_watch *watch = calloc(1, sizeof(*watch));

        if (watch == NULL)
                return SBX_NOMEM(err, SBX_CATALOG_ORIGIN);
        *watch = (struct sbx_watch){.news = &catalog->news, .changed = changed, .data = data};
        SBX_LOCKED(&catalog->news.lock);
        watch->next = catalog->news.first;
        if (watch->next != NULL)
                watch->next->previous = watch;
        catalog->news.first = watch;
        *ret_watch = watch;
        return 0;
}

void sbx_catalog_unwatch(struct sbx_watch *watch) {
        struct sbx_news *news;

        if (watch == NULL)
                return;
        news = watch->news;
        pthread_mutex_lock(&news->lock);
        watch->ended = true;
        while (watch->told > 0)
                pthread_cond_wait(&news->idle, &news->lock);
        if (watch->previous != NULL)
                watch->previous->next = watch->next;
        else
                news->first = watch->next;
        if (watch->next != NULL)
                watch->next->previous = watch->previous;
        pthread_mutex_unlock(&news->lock);
        free(watch);
}

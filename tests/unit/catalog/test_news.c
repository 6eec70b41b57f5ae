/* SPDX-License-Identifier: Apache-2.0 */
/* News: who is told, and that nobody is told who does not want it any more. Run under TSan too. */
#include "fake_part.h"

#include <pthread.h>
#include <sched.h>

#include "base/thread.h"

struct watcher {
        unsigned told, inside; /* atomic */
        bool over;             /* atomic: unwatch has returned */
        char last[64];         /* tests with one thread only */
        unsigned *waits_for;   /* atomic; NULL: it does not wait */
};

static void hear(void *data, const struct sbx_change *change) {
        struct watcher *watcher = data;

        assert_false(__atomic_load_n(&watcher->over, __ATOMIC_SEQ_CST));
        __atomic_add_fetch(&watcher->inside, 1, __ATOMIC_SEQ_CST);
        while (watcher->waits_for != NULL && __atomic_load_n(watcher->waits_for, __ATOMIC_SEQ_CST) == 0)
                sched_yield();
        __atomic_add_fetch(&watcher->told, 1, __ATOMIC_SEQ_CST);
        __atomic_sub_fetch(&watcher->inside, 1, __ATOMIC_SEQ_CST);
}

static void hear_text(void *data, const struct sbx_change *change) {
        struct watcher *watcher = data;

        watcher->told++;
        snprintf(watcher->last, sizeof(watcher->last), "%u %s %s", change->kind,
                 change->uri != NULL ? change->uri : "-", change->principal != NULL ? change->principal : "all");
}

static struct sbx_watch *watch(struct sbx_catalog *catalog, struct watcher *watcher,
                               void (*changed)(void *data, const struct sbx_change *change)) {
        struct sbx_watch *made = NULL;

        assert_int_equal(sbx_catalog_watch(catalog, changed, watcher, &made, NULL), 0);
        return made;
}

static void test_told(void **state) {
        const struct sbx_change change = {sizeof(change), SBX_CHANGE_RESOURCE, "x:a", "token:one"};
        struct sbx_catalog *catalog = fake_catalog();
        struct watcher first = {0}, second = {0};
        struct sbx_watch *one, *two;

        sbx_catalog_changed(catalog, &change); /* nobody hears it */
        one = watch(catalog, &first, hear_text);
        two = watch(catalog, &second, hear_text);
        sbx_catalog_changed(catalog, &change);
        assert_string_equal(first.last, "4 x:a token:one");
        assert_int_equal(second.told, 1);
        sbx_catalog_unwatch(one);
        sbx_catalog_changed(catalog, &(struct sbx_change){sizeof(change), SBX_CHANGE_TOOLS, NULL, NULL});
        assert_int_equal(first.told, 1);
        assert_string_equal(second.last, "1 - all");
        sbx_catalog_unwatch(two);
        sbx_catalog_unwatch(NULL);
        sbx_catalog_free(catalog);
}

/* Who ends the watch of another one, and begins one, from within. */
struct meddler {
        struct sbx_catalog *catalog;
        struct sbx_watch *other, *made;
        struct watcher begun;
};

static void meddle(void *data, const struct sbx_change *change) {
        struct meddler *meddler = data;

        sbx_catalog_unwatch(meddler->other);
        meddler->other = NULL;
        if (meddler->made == NULL)
                meddler->made = watch(meddler->catalog, &meddler->begun, hear_text);
}

static void test_from_within(void **state) {
        const struct sbx_change change = {sizeof(change), SBX_CHANGE_TOOLS, NULL, NULL};
        struct sbx_catalog *catalog = fake_catalog();
        struct watcher before = {0}, after = {0};
        struct meddler meddler = {.catalog = catalog};
        struct sbx_watch *first, *middle = NULL;

        first = watch(catalog, &before, hear_text);
        assert_int_equal(sbx_catalog_watch(catalog, meddle, &meddler, &middle, NULL), 0);
        meddler.other = watch(catalog, &after, hear_text);
        sbx_catalog_changed(catalog, &change);
        sbx_catalog_changed(catalog, &change);
        assert_int_equal(before.told, 2);
        assert_in_range(after.told, 0, 1);
        assert_in_range(meddler.begun.told, 1, 2);
        sbx_catalog_unwatch(first);
        sbx_catalog_unwatch(middle);
        sbx_catalog_unwatch(meddler.made);
        sbx_catalog_free(catalog);
}

/* ---- with threads ---- */

static void *tell_once(void *data) {
        sbx_catalog_changed(data, &(struct sbx_change){sizeof(struct sbx_change), SBX_CHANGE_PROMPTS, NULL, NULL});
        return NULL;
}

struct unwatcher {
        struct sbx_watch *watch;
        unsigned ended; /* atomic */
};

static void *unwatch_later(void *data) {
        struct unwatcher *unwatcher = data;

        sbx_catalog_unwatch(unwatcher->watch);
        __atomic_store_n(&unwatcher->ended, 1, __ATOMIC_SEQ_CST);
        return NULL;
}

/* unwatch waits for the call that is under way. */
static void test_unwatch_waits(void **state) {
        struct sbx_catalog *catalog = fake_catalog();
        unsigned released = 0;
        struct watcher watcher = {.waits_for = &released};
        struct unwatcher unwatcher = {.watch = watch(catalog, &watcher, hear)};
        pthread_t teller, ender;

        assert_int_equal(sbx_thread_start(&teller, "teller", tell_once, catalog), 0);
        while (__atomic_load_n(&watcher.inside, __ATOMIC_SEQ_CST) == 0)
                sched_yield();
        assert_int_equal(sbx_thread_start(&ender, "ender", unwatch_later, &unwatcher), 0);
        for (int i = 0; i < 100; i++) {
                sched_yield();
                assert_int_equal(__atomic_load_n(&unwatcher.ended, __ATOMIC_SEQ_CST), 0);
        }
        __atomic_store_n(&released, 1, __ATOMIC_SEQ_CST);
        pthread_join(ender, NULL);
        assert_int_equal(watcher.told, 1);
        pthread_join(teller, NULL);
        sbx_catalog_free(catalog);
}

#define ROUNDS 300

struct crowd {
        struct sbx_catalog *catalog;
        struct fake_part *part;
};

static void *tell_often(void *data) {
        struct crowd *crowd = data;

        for (unsigned i = 0; i < ROUNDS; i++)
                sbx_catalog_changed(crowd->catalog,
                                    &(struct sbx_change){sizeof(struct sbx_change), 1 + i % 4, "x:a", NULL});
        return NULL;
}

static void *watch_often(void *data) {
        struct crowd *crowd = data;

        for (unsigned i = 0; i < ROUNDS; i++) {
                struct watcher watcher = {0};
                struct sbx_watch *made = watch(crowd->catalog, &watcher, hear);

                sched_yield();
                sbx_catalog_unwatch(made);
                __atomic_store_n(&watcher.over, true, __ATOMIC_SEQ_CST);
                assert_int_equal(__atomic_load_n(&watcher.inside, __ATOMIC_SEQ_CST), 0);
        }
        return NULL;
}

static void *list_often(void *data) {
        struct crowd *crowd = data;

        for (unsigned i = 0; i < ROUNDS; i++) {
                _cleanup_buffer_ struct sbx_buffer json = SBX_BUFFER(1 << 16);

                assert_int_equal(sbx_catalog_list(crowd->catalog, SBX_LIST_PROMPTS + i % 2, &json, NULL), 0);
                assert_true(json.size > 2);
        }
        return NULL;
}

/* Tellers, watchers that come and go, and lists that are dropped while others read them. */
static void test_crowd(void **state) {
        static void *(*const runs[])(void *) = {tell_often,  tell_often, watch_often,
                                                watch_often, list_often, list_often};
        struct fake_part part = {
                .name = "part", .prompts = "[{'name':'a'}]", .templates = "[{'uriTemplate':'x:{a}','name':'a'}]"};
        struct crowd crowd = {fake_catalog(), &part};
        pthread_t threads[sizeof(runs) / sizeof(runs[0])];

        fake_add(crowd.catalog, &part);
        for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++)
                assert_int_equal(sbx_thread_start(&threads[i], "crowd", runs[i], &crowd), 0);
        for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++)
                pthread_join(threads[i], NULL);
        assert_true(part.listed >= 2);
        sbx_catalog_free(crowd.catalog);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_told),
                cmocka_unit_test(test_from_within),
                cmocka_unit_test(test_unwatch_waits),
                cmocka_unit_test(test_crowd),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

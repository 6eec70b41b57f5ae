/* SPDX-License-Identifier: Apache-2.0 */
/* Guests made ready ahead of demand. */
#include "guest/pool.h"

#include <sys/eventfd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"

#define ORIGIN "pool"
#define SIZE_MAX_GUESTS 64
#define START_TIMEOUT_MS 20000
#define WARM_TIMEOUT_MS 10000
#define QUIET_NS (5 * SBX_NS_PER_MS) /* after a take; see wait_for_demand */
#define BACKOFF_FIRST_NS (100 * SBX_NS_PER_MS)
#define BACKOFF_MAX_NS (30 * SBX_NS_PER_S)

/* Runs what every first execution runs (compile, function, exception, text, output), so that the pages which that
 * writes to are the guest's own before it is handed out. What it defines is cleared afterwards. */
static const char warm_code[] = "def _warm(number):\n"
                                "    try:\n"
                                "        return {str(i): [i, float(i)] for i in range(number)}\n"
                                "    except ValueError as error:\n"
                                "        return str(error)\n"
                                "print(end='')\n"
                                "len(repr(_warm(64)))\n";

/* A throw-away execution in each language that this program knows. */
static const char *warm_code_of(const char *family) {
        if (strcmp(family, "python") == 0)
                return warm_code;
        if (strcmp(family, "node") == 0)
                return "for (const i of [1, 2]) JSON.stringify({[i]: [i]})";
        return strcmp(family, "bash") == 0 ? "for i in 1 2; do printf ''; done" : NULL;
}

struct sbx_pool {
        const struct sbx_instance *backend;
        char *family, *version; /* version NULL: the backend's default */
        const struct sbx_logger *logger;
        unsigned size;
        struct sbx_metrics *metrics; /* NULL: nobody measures */
        int stop_fd; /* readable once the pool ends: the cancel descriptor of what its thread waits for */

        pthread_mutex_t lock; /* protects what follows */
        pthread_cond_t wake;
        bool running, stopping;
        bool unwanted; /* the backend makes no guests without knowing for whom */
        pthread_t thread;
        unsigned ready_count;
        uint64_t starts, taken_ns; /* taken_ns: when the last take was */
        struct sbx_guest_process *ready[SIZE_MAX_GUESTS];
        bool started;             /* a guest has been, at least once */
        struct sbx_error failure; /* of the last start; code 0: it did not fail */
};

/* Notes what came of starting a guest. A start that its caller called off says nothing of guests. */
static void note_start(struct sbx_pool *pool, int r, const struct sbx_error *problem, bool called_off) {
        if (called_off)
                return;
        if (r < 0)
                SBX_COUNT(pool->metrics, guest_failures, 1);
        else
                SBX_COUNT(pool->metrics, guests_started, 1);
        SBX_LOCKED(&pool->lock);
        pool->failure = (struct sbx_error){0};
        if (r == 0) {
                pool->started = true;
                return;
        }
        pool->failure = *problem;
        sbx_error_set(&pool->failure, r, ORIGIN, NULL, "a guest can't be started: %s", SBX_ERRNO_TEXT(r));
}

/* ---- refilling ---- */

static int warm(struct sbx_pool *pool, struct sbx_guest_process *guest, struct sbx_error *err) {
        struct sbx_call call = {.struct_size = sizeof(call),
                                .cancel_fd = pool->stop_fd,
                                .deadline_ns = sbx_clock_deadline_ms(WARM_TIMEOUT_MS)};
        const char *code = warm_code_of(pool->family);
        struct sbx_guest_execution execution = {
                .code = {code, code != NULL ? strlen(code) : 0},
                .filename = "<warm-up>",
                .deadline_ns = call.deadline_ns,
                .output_max_bytes = 4096,
        };
        struct sbx_result *result = NULL;
        int r;

        if (code == NULL)
                return 0;
        r = sbx_guest_execute(guest, &execution, &call, &result, err);
        if (r == 0 && result->end != SBX_END_OK)
                r = sbx_error_set(err, -EIO, ORIGIN, NULL, "the first execution in a new guest ended as '%s': %s",
                                  sbx_end_name(result->end), result->error_message);
        sbx_result_free(result);
        return r < 0 ? r : sbx_guest_clear(guest, &call, err);
}

static int make_guest(struct sbx_pool *pool, uint64_t number, struct sbx_guest_process **ret_guest,
                      struct sbx_error *err) {
        char label[32];
        struct sbx_guest_spec spec = {
                .struct_size = sizeof(spec), .label = label, .runtime = pool->family, .runtime_version = pool->version};
        struct sbx_call call = {.struct_size = sizeof(call),
                                .cancel_fd = pool->stop_fd,
                                .deadline_ns = sbx_clock_deadline_ms(START_TIMEOUT_MS)};
        struct sbx_guest_process *guest = NULL;
        int r;

        snprintf(label, sizeof(label), "pool-%llu", (unsigned long long)number);
        spec.limits.struct_size = sizeof(spec.limits);
        r = sbx_guest_start(pool->backend, pool->logger, &spec, &call, &guest, err);
        if (r == 0)
                r = warm(pool, guest, err);
        if (r < 0)
                sbx_guest_free(guest);
        else
                *ret_guest = guest;
        return r;
}

/* Waits until a guest is wanted. False: the pool ends. Called and returns with the lock held.
 *
 * As long as there are guests left, the next one is not started in the moment of a take: that would compete for the
 * processors with the very execution that somebody waits for, and doubles its time on a small machine. */
static bool wait_for_demand(struct sbx_pool *pool, uint64_t not_before_ns) {
        for (;;) {
                bool wanted = pool->ready_count < pool->size && !pool->unwanted;
                uint64_t quiet_ns = pool->ready_count > 0 ? pool->taken_ns + QUIET_NS : 0;
                uint64_t begin_ns = quiet_ns > not_before_ns ? quiet_ns : not_before_ns;

                if (pool->stopping)
                        return false;
                if (wanted && sbx_clock_ns() >= begin_ns)
                        return true;
                sbx_cond_wait(&pool->wake, &pool->lock, wanted ? begin_ns : 0);
        }
}

static uint64_t next_backoff(uint64_t backoff) {
        if (backoff == 0)
                return BACKOFF_FIRST_NS;
        return backoff * 2 < BACKOFF_MAX_NS ? backoff * 2 : BACKOFF_MAX_NS;
}

static void *refill(void *data) {
        struct sbx_pool *pool = data;
        uint64_t backoff = 0, not_before = 0;

        pthread_mutex_lock(&pool->lock);
        while (wait_for_demand(pool, not_before)) {
                struct sbx_guest_process *guest = NULL;
                uint64_t number = ++pool->starts;
                struct sbx_error err = {0};
                int r;

                pthread_mutex_unlock(&pool->lock);
                r = make_guest(pool, number, &guest, &err);
                note_start(pool, r, &err, r == -ECANCELED || r == -ENODATA);
                pthread_mutex_lock(&pool->lock);
                if (r == -ENODATA) {
                        pool->unwanted = true;
                } else if (r == 0) {
                        pool->ready[pool->ready_count++] = guest;
                        backoff = not_before = 0;
                } else if (!pool->stopping) {
                        if (backoff == 0) /* once for a series of failures; a take tells its caller itself */
                                sbx_log(pool->logger, SBX_LOG_WARNING, "%s: can't prepare a session ahead: %s",
                                        pool->backend->name, err.message);
                        backoff = next_backoff(backoff);
                        not_before = sbx_clock_ns() + backoff;
                }
        }
        pthread_mutex_unlock(&pool->lock);
        return NULL;
}

/* A take, or a wish for warmth, is what starts the thread: a program that runs one piece of code does not pay for a
 * pool. */
static void start_refilling_locked(struct sbx_pool *pool) {
        if (!pool->running && pool->size > 0) {
                int r = sbx_thread_start(&pool->thread, "sbx-pool", refill, pool);

                if (r < 0)
                        sbx_log(pool->logger, SBX_LOG_WARNING, "%s: no thread for the pool: %s", pool->backend->name,
                                SBX_ERRNO_TEXT(r));
                pool->running = r == 0;
        }
}

static void note_take(struct sbx_pool *pool) {
        SBX_LOCKED(&pool->lock);
        start_refilling_locked(pool);
        pool->taken_ns = sbx_clock_ns();
        pthread_cond_signal(&pool->wake);
}

/* ---- the interface ---- */

static void destroy(struct sbx_pool *pool) {
        if (pool->stop_fd >= 0)
                close(pool->stop_fd);
        free(pool->family);
        free(pool->version);
        free(pool);
}

int sbx_pool_new(const struct sbx_instance *backend, const struct sbx_pool_runtime *runtime,
                 const struct sbx_logger *logger, unsigned size, struct sbx_pool **ret_pool, struct sbx_error *err) {
        struct sbx_pool *pool;

        if (size > SIZE_MAX_GUESTS)
                return sbx_error_set(err, -EINVAL, ORIGIN, NULL, "a pool of %u; at most %d are possible", size,
                                     SIZE_MAX_GUESTS);
        pool = calloc(1, sizeof(*pool));
        if (pool == NULL)
                return SBX_NOMEM(err, ORIGIN);
        pool->backend = backend;
        pool->logger = logger;
        pool->size = size;
        pool->stop_fd = -1;
        pool->family = strdup(runtime->family);
        pool->version = runtime->version != NULL ? strdup(runtime->version) : NULL;
        if (pool->family == NULL || (runtime->version != NULL && pool->version == NULL)) {
                destroy(pool);
                return SBX_NOMEM(err, ORIGIN);
        }
        pool->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (pool->stop_fd < 0) {
                int r = sbx_error_set(err, -errno, ORIGIN, NULL, "can't make an eventfd: %s", SBX_ERRNO_TEXT(-errno));

                destroy(pool);
                return r;
        }
        pthread_mutex_init(&pool->lock, NULL);
        sbx_cond_init(&pool->wake);
        *ret_pool = pool;
        return 0;
}

void sbx_pool_free(struct sbx_pool *pool) {
        bool running;

        if (pool == NULL)
                return;
        pthread_mutex_lock(&pool->lock);
        pool->stopping = true;
        running = pool->running;
        pthread_cond_signal(&pool->wake);
        pthread_mutex_unlock(&pool->lock);
        eventfd_write(pool->stop_fd, 1);
        if (running)
                pthread_join(pool->thread, NULL);
        for (unsigned i = 0; i < pool->ready_count; i++)
                sbx_guest_free(pool->ready[i]);
        pthread_cond_destroy(&pool->wake);
        pthread_mutex_destroy(&pool->lock);
        destroy(pool);
}

/* The guest that waited longest, dead or alive; NULL: none. */
static struct sbx_guest_process *pop(struct sbx_pool *pool) {
        struct sbx_guest_process *guest;

        SBX_LOCKED(&pool->lock);
        if (pool->ready_count == 0)
                return NULL;
        guest = pool->ready[0];
        pool->ready_count--;
        memmove(&pool->ready[0], &pool->ready[1], pool->ready_count * sizeof(pool->ready[0]));
        return guest;
}

void sbx_pool_discard(struct sbx_pool *pool) {
        struct sbx_guest_process *guest;

        while ((guest = pop(pool)) != NULL)
                sbx_guest_free(guest);
        SBX_LOCKED(&pool->lock);
        pthread_cond_signal(&pool->wake);
}

static bool has_limits(const struct sbx_limits *limits) {
        return limits->memory_bytes != 0 || limits->pids_max != 0 || limits->cpu_percent != 0;
}

static bool is_of(const struct sbx_pool *pool, const struct sbx_guest_spec *spec) {
        if (strcmp(spec->runtime, pool->family) != 0 || (spec->runtime_version == NULL) != (pool->version == NULL))
                return false;
        return pool->version == NULL || strcmp(spec->runtime_version, pool->version) == 0;
}

/* A guest of the pool that lives and took the limits. NULL: none did. */
static struct sbx_guest_process *take_ready(struct sbx_pool *pool, const struct sbx_guest_spec *spec) {
        struct sbx_guest_process *guest;

        const struct sbx_backend_ops *ops = pool->backend->ops;

        if (!is_of(pool, spec))
                return NULL;
        if (has_limits(&spec->limits) && ops->guest_limit == NULL)
                return NULL; /* the limits can only be had from the start on */
        while ((guest = pop(pool)) != NULL) {
                if (sbx_guest_alive(guest)) {
                        int r = has_limits(&spec->limits) ? sbx_guest_limit(guest, &spec->limits, NULL) : 0;

                        if (r == 0)
                                return guest;
                }
                sbx_guest_free(guest);
        }
        return NULL;
}

int sbx_pool_take(struct sbx_pool *pool, const struct sbx_guest_spec *spec, const struct sbx_call *call,
                  struct sbx_guest_process **ret_guest, struct sbx_error *err) {
        struct sbx_guest_process *guest = take_ready(pool, spec);
        struct sbx_error problem = {0};
        int r = 0;

        if (guest != NULL) {
                SBX_COUNT(pool->metrics, pool_hits, 1);
        } else {
                SBX_COUNT(pool->metrics, pool_misses, 1);
                r = sbx_guest_start(pool->backend, pool->logger, spec, call, &guest, &problem);
                note_start(pool, r, &problem, r == -ECANCELED || r == -ETIMEDOUT);
        }
        if (r < 0) {
                if (err != NULL && err->code == 0)
                        *err = problem;
                return r;
        }
        note_take(pool);
        *ret_guest = guest;
        return 0;
}

void sbx_pool_measure(struct sbx_pool *pool, struct sbx_metrics *metrics) {
        pool->metrics = metrics;
}

void sbx_pool_warm(struct sbx_pool *pool) {
        SBX_LOCKED(&pool->lock);
        start_refilling_locked(pool);
}

int sbx_pool_ready(struct sbx_pool *pool, struct sbx_error *err) {
        SBX_LOCKED(&pool->lock);
        if (pool->ready_count > 0)
                return 0;
        if (pool->failure.code != 0) {
                if (err != NULL && err->code == 0)
                        *err = pool->failure;
                return pool->failure.code;
        }
        if (pool->started || pool->unwanted ||
            pool->size == 0) /* without a pool every session starts a guest: there is nothing to wait for */
                return 0;
        return sbx_error_set(err, -EAGAIN, ORIGIN, "Ask again in a moment.", "%s: the first session is being prepared",
                             pool->backend->name);
}

void sbx_pool_figures(struct sbx_pool *pool, unsigned *ret_ready, unsigned *ret_size) {
        SBX_LOCKED(&pool->lock);
        *ret_ready = pool->ready_count;
        *ret_size = pool->size;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The threads that run submitted calls: started when needed, ended when idle, with calls of one lane in their order. */
#include "tools/task.h"

#include <malloc.h>
#include <sys/eventfd.h>

#include "base/cleanup.h"
#include "base/error.h"

#define ORIGIN SBX_TOOLS_ORIGIN
#define THREADS_MAX 64u
#define THREADS_FOR_QUICK 4u /* of them, kept for tools that never wait, so that a hung session can be destroyed */
#define QUEUE_MAX 1024u
#define IDLE_NS (10 * SBX_NS_PER_S)
/* Of ordinary tasks, few are in their first moments at a time: most are done before that is over, and many that share a
 * few processors keep each other from it. Those that go on for longer do not count, so that nobody waits for them. */
#define FRESH_NS (5 * SBX_NS_PER_MS)
#define FRESH_MIN 4u

int sbx_tool_threads_init(struct sbx_tool_threads *threads) {
        long processors = sysconf(_SC_NPROCESSORS_ONLN);
        unsigned twice = processors > 0 && processors < 1024 ? 2 * (unsigned)processors : 0;
        int r;

        *threads = (struct sbx_tool_threads){.fresh_max = twice > FRESH_MIN ? twice : FRESH_MIN};
        r = sbx_cond_init(&threads->work);
        if (r < 0)
                return r;
        r = sbx_cond_init(&threads->ended);
        if (r < 0) {
                pthread_cond_destroy(&threads->work);
                return r;
        }
        pthread_mutex_init(&threads->lock, NULL);
        return 0;
}

void sbx_tool_threads_destroy(struct sbx_tool_threads *threads) {
        pthread_cond_destroy(&threads->work);
        pthread_cond_destroy(&threads->ended);
        pthread_mutex_destroy(&threads->lock);
}

/* ---- tasks ---- */

void sbx_tool_task_unref(struct sbx_tool_task *task) {
        if (__atomic_sub_fetch(&task->references, 1, __ATOMIC_ACQ_REL) > 0)
                return;
        if (task->cancel_fd >= 0)
                close(task->cancel_fd);
        json_decref(task->arguments);
        free(task->request_arguments);
        free(task->name);
        free(task->principal);
        free(task->lane);
        free(task);
}

static void report_done(struct sbx_tool_task *task, int status, struct sbx_bytes result,
                        const struct sbx_error *problem) {
        task->done.done(task->done.data, status, result, status < 0 ? problem : NULL);
}

static bool is_cancelled(struct sbx_tool_task *task) {
        SBX_LOCKED(&task->tools->threads.lock);
        return task->cancelled;
}

/* From here to `done`. */
static void run_task(struct sbx_tool_task *task) {
        _cleanup_buffer_ struct sbx_buffer result = SBX_BUFFER(SBX_TOOL_RESULT_MAX);
        int status = task->refused, r = 0;

        if (status == 0 && is_cancelled(task))
                status = sbx_error_set(&task->problem, -ECANCELED, ORIGIN, NULL, "cancelled before it began");
        else if (status == 0 && task->entry != NULL)
                r = sbx_tools_run(task->tools, task->entry, task->arguments, &task->context, &status, &result,
                                  &task->problem);
        else if (status == 0)
                r = sbx_tool_task_answer(task, &result, &task->problem);
        sbx_beat_end(&task->beat); /* no progress after `done` */
        if (r < 0)
                report_done(task, r, (struct sbx_bytes){0}, &task->problem);
        else if (result.size > 0 && (status != -ECANCELED || !is_cancelled(task)))
                report_done(task, 0, sbx_buffer_bytes(&result), NULL);
        else {
                sbx_error_set(&task->problem, status, ORIGIN, NULL, "cancelled");
                report_done(task, status, (struct sbx_bytes){0}, &task->problem);
        }
}

/* ---- the queue ---- */

static bool is_ordinary(const struct sbx_tool_task *task) {
        return task->refused == 0 && (task->entry == NULL || (task->entry->tool.flags & SBX_TOOL_QUICK) == 0);
}

static bool is_runnable_locked(const struct sbx_tool_threads *threads, const struct sbx_tool_task *task) {
        if (task->cancelled || task->refused < 0)
                return true; /* only `done` is left to call */
        if (is_ordinary(task) && threads->ordinary >= THREADS_MAX - THREADS_FOR_QUICK)
                return false;
        if (task->lane == NULL)
                return true;
        for (const struct sbx_tool_task *at = threads->running; at != NULL; at = at->next)
                if (at->lane != NULL && at->lane_hash == task->lane_hash && strcmp(at->lane, task->lane) == 0)
                        return false;
        return true;
}

/* As many as may be are in their first moments. `ret_until_ns`: until one of them is not, or ends. */
static bool is_crowded_locked(const struct sbx_tool_threads *threads, uint64_t *ret_until_ns) {
        uint64_t now = sbx_clock_ns(), until_ns = UINT64_MAX;
        unsigned fresh = 0;

        for (const struct sbx_tool_task *at = threads->running; at != NULL; at = at->next) {
                if (!is_ordinary(at) || at->begun_ns + FRESH_NS <= now)
                        continue;
                fresh++;
                if (at->begun_ns + FRESH_NS < until_ns)
                        until_ns = at->begun_ns + FRESH_NS;
        }
        *ret_until_ns = until_ns;
        return fresh >= threads->fresh_max;
}

/* NULL: nothing can be run now; `ret_again_ns` says when something may, 0: when something else ends. */
static struct sbx_tool_task *find_runnable_locked(const struct sbx_tool_threads *threads, uint64_t *ret_again_ns) {
        uint64_t until_ns = 0;
        bool crowded = threads->first != NULL && is_crowded_locked(threads, &until_ns);

        *ret_again_ns = 0;
        for (struct sbx_tool_task *at = threads->first; at != NULL; at = at->next) {
                if (!is_runnable_locked(threads, at))
                        continue;
                if (!crowded || at->cancelled || !is_ordinary(at))
                        return at;
                *ret_again_ns = until_ns;
        }
        return NULL;
}

/* Whether somebody has to look at the queue who does not. */
static bool needs_thread_locked(const struct sbx_tool_threads *threads) {
        uint64_t again_ns;

        return find_runnable_locked(threads, &again_ns) != NULL || (again_ns != 0 && !threads->watched);
}

static void dequeue_locked(struct sbx_tool_threads *threads, struct sbx_tool_task *task) {
        if (task->previous != NULL)
                task->previous->next = task->next;
        else
                threads->first = task->next;
        if (task->next != NULL)
                task->next->previous = task->previous;
        else
                threads->last = task->previous;
        threads->queued--;
}

static void enqueue_locked(struct sbx_tool_threads *threads, struct sbx_tool_task *task) {
        task->next = NULL;
        task->previous = threads->last;
        if (threads->last != NULL)
                threads->last->next = task;
        else
                threads->first = task;
        threads->last = task;
        threads->queued++;
}

static void begin_locked(struct sbx_tool_threads *threads, struct sbx_tool_task *task) {
        dequeue_locked(threads, task);
        task->begun_ns = sbx_clock_ns();
        task->previous = NULL;
        task->next = threads->running;
        if (threads->running != NULL)
                threads->running->previous = task;
        threads->running = task;
        threads->ordinary += is_ordinary(task);
}

static void end_locked(struct sbx_tool_threads *threads, struct sbx_tool_task *task) {
        if (task->previous != NULL)
                task->previous->next = task->next;
        else
                threads->running = task->next;
        if (task->next != NULL)
                task->next->previous = task->previous;
        threads->ordinary -= is_ordinary(task);
}

/* ---- threads ---- */

static void *thread_run(void *data);

/* Sees to it that somebody looks at the queue. A thread that takes a task passes the call on when there is more, so one
 * is enough. -EAGAIN: no thread can be had, and there is none. */
static int wake_one_locked(struct sbx_tool_threads *threads) {
        pthread_t thread;
        int r;

        if (threads->idle > 0) {
                pthread_cond_signal(&threads->work);
                return 0;
        }
        if (threads->threads == THREADS_MAX)
                return 0;
        threads->threads++;
        r = sbx_thread_start(&thread, "sbx-tool", thread_run, threads);
        if (r < 0)
                threads->threads--;
        return r < 0 && threads->threads == 0 ? r : 0;
}

static struct sbx_tool_task *next_task_locked(struct sbx_tool_threads *threads) {
        uint64_t until_ns = sbx_clock_ns() + IDLE_NS, again_ns;

        for (;;) {
                struct sbx_tool_task *task = find_runnable_locked(threads, &again_ns);
                bool watches = again_ns != 0 && !threads->watched;
                int r;

                if (task != NULL)
                        return task;
                if (threads->stop)
                        return NULL;
                threads->idle++;
                if (watches)
                        threads->watched = true;
                r = sbx_cond_wait(&threads->work, &threads->lock, watches ? again_ns : until_ns);
                if (watches)
                        threads->watched = false;
                threads->idle--;
                if (r == -ETIMEDOUT && !watches && !needs_thread_locked(threads))
                        return NULL;
        }
}

static void *thread_run(void *data) {
        struct sbx_tool_threads *threads = data;
        struct sbx_tool_task *task;
        pthread_t before;
        bool has_before, last;

        pthread_mutex_lock(&threads->lock);
        while ((task = next_task_locked(threads)) != NULL) {
                begin_locked(threads, task);
                if (needs_thread_locked(threads))
                        (void)wake_one_locked(threads); /* if none can be had, this one takes it next */
                pthread_mutex_unlock(&threads->lock);
                run_task(task);
                pthread_mutex_lock(&threads->lock);
                end_locked(threads, task);
                sbx_tool_task_unref(task);
        }
        /* Each thread joins the one that ended before it, and the last is joined by the end of the registry: so none is
         * left behind, and none waits to be joined for long. */
        before = threads->gone;
        has_before = threads->has_gone;
        threads->gone = pthread_self();
        threads->has_gone = true;
        threads->threads--;
        last = threads->threads == 0 && !threads->stop;
        pthread_cond_broadcast(&threads->ended);
        pthread_mutex_unlock(&threads->lock);
        if (has_before)
                pthread_join(before, NULL);
#ifdef __GLIBC__
        if (last) /* after a crowd: each thread had a heap of its own, and what is free in them is of no use now */
                malloc_trim(0);
#endif
        return NULL;
}

static void cancel_locked(struct sbx_tool_task *task) {
        task->cancelled = true;
        (void)!eventfd_write(task->cancel_fd, 1);
}

int sbx_tool_task_queue(struct sbx_tool_task *task, struct sbx_error *err) {
        struct sbx_tool_threads *threads = &task->tools->threads;
        int r = 0;

        SBX_LOCKED(&threads->lock);
        if (threads->stop)
                return sbx_error_set(err, -ESHUTDOWN, ORIGIN, NULL, "the runtime is shutting down");
        if (threads->queued >= QUEUE_MAX) {
                SBX_COUNT(task->tools->metrics, tools_refused, 1);
                return sbx_error_set(err, -EBUSY, ORIGIN, "Try again when earlier calls have ended.",
                                     "busy: %u calls wait already", threads->queued);
        }
        enqueue_locked(threads, task);
        if (needs_thread_locked(threads))
                r = wake_one_locked(threads);
        if (r < 0) {
                dequeue_locked(threads, task);
                return sbx_error_set(err, r, ORIGIN, "Raise the limit of processes (ulimit -u).",
                                     "no thread can be had: %s", SBX_ERRNO_TEXT(r));
        }
        return 0;
}

void sbx_tool_task_cancel(struct sbx_tool_task *task) {
        struct sbx_tool_threads *threads = &task->tools->threads;

        SBX_LOCKED(&threads->lock);
        cancel_locked(task);
        (void)wake_one_locked(threads); /* it may have been queued behind another of its lane */
}

void sbx_tool_threads_stop(struct sbx_tool_threads *threads) {
        pthread_mutex_lock(&threads->lock);
        threads->stop = true;
        for (struct sbx_tool_task *at = threads->first; at != NULL; at = at->next)
                cancel_locked(at);
        for (struct sbx_tool_task *at = threads->running; at != NULL; at = at->next)
                cancel_locked(at);
        pthread_cond_broadcast(&threads->work);
        while (threads->threads > 0)
                pthread_cond_wait(&threads->ended, &threads->lock);
        if (threads->has_gone) {
                pthread_join(threads->gone, NULL);
                threads->has_gone = false;
        }
        pthread_mutex_unlock(&threads->lock);
}

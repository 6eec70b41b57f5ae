/* SPDX-License-Identifier: Apache-2.0 */
/* The runs that clients began: on threads of their own, or within the call that began them. Each belongs to its
 * principal, and is found by its id until some time after its end. */
#include "agent/runs.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "agent/subcalls.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"

#define TASK_SHOWN_BYTES 200u
#define ID_DIGITS_MIN 4
#define PROGRESS_STEP 0.01 /* of what happens within an iteration, which is one */
#define PROGRESS_STEPS_MAX 90u
#define STATUS_SIZE 128

struct sbx_background_run {
        struct sbx_background_run *next; /* protected by the table's lock, like all that has no other comment */
        struct sbx_runs *runs;           /* never changes */
        char id[SBX_RUN_ID_SIZE];        /* never changes */
        char *principal, *task;          /* never change */
        struct sbx_run_limits limits;    /* never changes */
        int cancel_fd;                   /* never changes: an eventfd */
        bool has_thread;                 /* it is to be joined */
        pthread_t thread;
        uint64_t begun_ns, ended_ns;
        unsigned iteration;
        bool ended, cancelled;
        json_t *result; /* NULL: it could not begin */
        struct sbx_error problem;
};

static void background_run_free(struct sbx_background_run *entry) {
        if (entry == NULL)
                return;
        if (entry->cancel_fd >= 0)
                close(entry->cancel_fd);
        free(entry->principal);
        free(entry->task);
        json_decref(entry->result);
        free(entry);
}
SBX_DEFINE_CLEANUP(struct sbx_background_run *, background_run_free, cleanup_entry)

int sbx_background_init(struct sbx_background *background) {
        int r = sbx_cond_init(&background->ended);

        if (r == 0)
                pthread_mutex_init(&background->lock, NULL);
        return r;
}

void sbx_background_destroy(struct sbx_background *background) {
        while (background->first != NULL) {
                struct sbx_background_run *entry = background->first;

                background->first = entry->next;
                background_run_free(entry);
        }
        pthread_mutex_destroy(&background->lock);
        pthread_cond_destroy(&background->ended);
}

/* ---- the table ---- */

/* A run that has ended has a thread that is about to, and touches nothing any more. */
static void drop(struct sbx_background_run *entry) {
        if (entry->has_thread)
                pthread_join(entry->thread, NULL);
        background_run_free(entry);
}

/* Forgets runs that ended long ago, and the oldest of too many. */
static void forget_old_locked(struct sbx_background *background) {
        uint64_t now_ns = sbx_clock_ns();
        unsigned ended = 0;

        for (struct sbx_background_run **link = &background->first; *link != NULL;) {
                struct sbx_background_run *entry = *link;

                if (entry->ended && (++ended > SBX_BACKGROUND_ENDED_MAX ||
                                     now_ns - entry->ended_ns > SBX_BACKGROUND_KEEP_S * SBX_NS_PER_S)) {
                        *link = entry->next;
                        drop(entry);
                } else
                        link = &entry->next;
        }
}

/* NULL: of all principals. */
static unsigned count_running_locked(const struct sbx_background *background, const char *principal) {
        unsigned count = 0;

        for (const struct sbx_background_run *entry = background->first; entry != NULL; entry = entry->next)
                count += !entry->ended && (principal == NULL || strcmp(entry->principal, principal) == 0);
        return count;
}

/* The principal's run that the id, or the beginning of one, means; NULL: none, or several. */
static struct sbx_background_run *find_locked(struct sbx_background *background, const char *principal,
                                              const char *id) {
        struct sbx_background_run *found = NULL;
        size_t length = strlen(id);

        for (struct sbx_background_run *entry = background->first; entry != NULL && length >= ID_DIGITS_MIN;
             entry = entry->next) {
                if (strcmp(entry->principal, principal) != 0 || strncmp(entry->id, id, length) != 0)
                        continue;
                if (found != NULL)
                        return NULL;
                found = entry;
        }
        return found;
}

static void cancel(const struct sbx_background_run *entry) {
        (void)!eventfd_write(entry->cancel_fd, 1); /* it can't fail: the counter is far from its end */
}

void sbx_background_stop(struct sbx_background *background) {
        pthread_mutex_lock(&background->lock);
        background->stopping = true;
        for (struct sbx_background_run *entry = background->first; entry != NULL; entry = entry->next)
                cancel(entry);
        while (background->first != NULL) {
                struct sbx_background_run *entry = background->first;

                if (!entry->has_thread && !entry->ended) { /* the call that it is within ends it */
                        pthread_cond_wait(&background->ended, &background->lock);
                        continue;
                }
                background->first = entry->next;
                pthread_mutex_unlock(&background->lock); /* which the run needs to end */
                drop(entry);
                pthread_mutex_lock(&background->lock);
        }
        pthread_mutex_unlock(&background->lock);
}

/* ---- what is told of a run ---- */

json_t *sbx_background_shown_task(const char *task) {
        struct sbx_bytes bytes = {task, strlen(task)};

        bytes.size = sbx_utf8_cut(bytes, TASK_SHOWN_BYTES);
        return sbx_json_text(bytes);
}

static const char *status_of(const struct sbx_background_run *entry) {
        const char *end = json_string_value(json_object_get(entry->result, "end"));

        if (!entry->ended)
                return entry->cancelled ? "cancelling" : "running";
        if (end == NULL || strcmp(end, sbx_run_end_name(SBX_RUN_FAILED)) == 0)
                return "error";
        return strcmp(end, sbx_run_end_name(SBX_RUN_CANCELLED)) == 0 ? "cancelled" : "completed";
}

static int add_outcome(const struct sbx_background_run *entry, json_t *status) {
        const char *error = json_string_value(json_object_get(entry->result, "error"));
        int r = 0;

        if (!entry->ended)
                return json_object_set_new(status, "iteration", json_integer(entry->iteration));
        if (entry->result == NULL)
                error = entry->problem.message;
        else /* a copy: the table may free its own while another thread still has this one */
                r = json_object_set_new(status, "result", json_deep_copy(entry->result));
        return r < 0 || error == NULL ? r : json_object_set_new(status, "error", json_string(error));
}

/* NULL: out of memory. */
static json_t *describe_locked(const struct sbx_background_run *entry) {
        uint64_t until_ns = entry->ended ? entry->ended_ns : sbx_clock_ns();
        _cleanup_json_ json_t *status =
                json_pack("{s:s, s:s, s:o, s:I}", "run_id", entry->id, "status", status_of(entry), "task",
                          sbx_background_shown_task(entry->task), "elapsed_seconds",
                          (json_int_t)((until_ns - entry->begun_ns) / SBX_NS_PER_S));

        return status != NULL && add_outcome(entry, status) == 0 ? steal_pointer(status) : NULL;
}

static int not_found(const char *id, struct sbx_error *err) {
        return sbx_error_set(err, -ENOENT, SBX_AGENT_ORIGIN, NULL, "Run '%.64s' not found", id);
}

int sbx_background_status(struct sbx_background *background, const char *principal, const char *id, json_t **ret_status,
                          struct sbx_error *err) {
        const struct sbx_background_run *entry;
        json_t *status = NULL;

        pthread_mutex_lock(&background->lock);
        forget_old_locked(background);
        entry = find_locked(background, principal, id);
        if (entry != NULL)
                status = describe_locked(entry);
        pthread_mutex_unlock(&background->lock);
        if (entry == NULL)
                return not_found(id, err);
        if (status == NULL)
                return SBX_NOMEM(err, SBX_AGENT_ORIGIN);
        *ret_status = status;
        return 0;
}

int sbx_background_cancel(struct sbx_background *background, const char *principal, const char *id, bool *ret_ended,
                          struct sbx_error *err) {
        struct sbx_background_run *entry;
        SBX_LOCKED(&background->lock);

        entry = find_locked(background, principal, id);
        if (entry == NULL)
                return not_found(id, err);
        *ret_ended = entry->ended;
        entry->cancelled = true;
        cancel(entry);
        return 0;
}

/* ---- beginning ---- */

static int entry_new(struct sbx_runs *runs, const struct sbx_background_request *request,
                     struct sbx_background_run **ret_entry, struct sbx_error *err) {
        _cleanup_(cleanup_entry) struct sbx_background_run *entry = calloc(1, sizeof(*entry));
        int r;

        if (entry == NULL)
                return SBX_NOMEM(err, SBX_AGENT_ORIGIN);
        entry->runs = runs;
        entry->limits = request->limits;
        entry->begun_ns = sbx_clock_ns();
        entry->principal = strdup(request->principal != NULL ? request->principal : "");
        entry->task = strdup(request->task);
        entry->cancel_fd = eventfd(0, EFD_CLOEXEC);
        if (entry->cancel_fd < 0)
                return sbx_error_set(err, -errno, SBX_AGENT_ORIGIN, NULL, "a run can't be begun: %s",
                                     SBX_ERRNO_TEXT(-errno));
        if (entry->principal == NULL || entry->task == NULL)
                return SBX_NOMEM(err, SBX_AGENT_ORIGIN);
        r = sbx_run_id_new(entry->id, err);
        if (r == 0)
                *ret_entry = steal_pointer(entry);
        return r;
}

static int admit_locked(const struct sbx_runs *runs, const char *principal, struct sbx_error *err) {
        static const char hint[] = "Wait for one of them, or cancel one (snipara_agent_cancel).";
        const struct sbx_background *background = &runs->background;
        unsigned most = (unsigned)sbx_config_int(runs->parts.config, "max_runs_per_principal");

        if (background->stopping)
                return sbx_error_set(err, -ESHUTDOWN, SBX_AGENT_ORIGIN, NULL, "the program is ending: no run is begun");
        if (count_running_locked(background, NULL) >= SBX_BACKGROUND_RUNNING_MAX)
                return sbx_error_set(err, -EBUSY, SBX_AGENT_ORIGIN, hint,
                                     "%u runs go on in the background, the most that may", SBX_BACKGROUND_RUNNING_MAX);
        if (most > 0 && count_running_locked(background, principal) >= most)
                return sbx_error_set(err, -EBUSY, SBX_AGENT_ORIGIN, hint,
                                     "%u of your runs go on, the most that one client may have "
                                     "(max_runs_per_principal)",
                                     most);
        return 0;
}

int sbx_background_enter(struct sbx_runs *runs, const struct sbx_background_request *request,
                         struct sbx_background_run **ret_entry, struct sbx_error *err) {
        _cleanup_(cleanup_entry) struct sbx_background_run *entry = NULL;
        struct sbx_background *background = &runs->background;
        int r = entry_new(runs, request, &entry, err);

        if (r < 0)
                return r;
        SBX_LOCKED(&background->lock);
        forget_old_locked(background);
        r = admit_locked(runs, entry->principal, err);
        if (r < 0)
                return r;
        entry->next = background->first;
        background->first = entry;
        *ret_entry = steal_pointer(entry);
        return 0;
}

const char *sbx_background_id(const struct sbx_background_run *entry) {
        return entry->id;
}

/* ---- running ---- */

static void note_iteration(struct sbx_background_run *entry, unsigned iteration) {
        SBX_LOCKED(&entry->runs->background.lock);
        entry->iteration = iteration;
}

static bool is_event(const json_t *event, const char *name) {
        const char *its = json_string_value(json_object_get(event, "event"));

        return its != NULL && strcmp(its, name) == 0;
}

static void on_event(void *data, const json_t *event) {
        if (is_event(event, "iteration"))
                note_iteration(data, (unsigned)json_integer_value(json_object_get(event, "iteration")));
}

/* Runs to the end; the result and the reason for none. Nothing of the table is touched. */
static json_t *execute(struct sbx_background_run *entry, const struct sbx_run_watch *watch, const struct sbx_call *call,
                       const struct sbx_client *client, struct sbx_error *problem) {
        const struct sbx_run_request request = {
                .kind = SBX_RUN_AGENT,
                .prompt = entry->task,
                .principal = entry->principal,
                .limits = entry->limits,
                .run_id = entry->id,
                .client = client,
        };
        json_t *result = NULL;
        int r = sbx_runs_run(entry->runs, &request, watch, call, &result, problem);

        if (r < 0)
                sbx_error_set(problem, r, SBX_AGENT_ORIGIN, NULL, "the run could not begin: %s", SBX_ERRNO_TEXT(r));
        return result;
}

static void end_locked(struct sbx_background_run *entry, json_t *result, const struct sbx_error *problem) {
        entry->result = result;
        entry->problem = *problem;
        entry->ended = true;
        entry->ended_ns = sbx_clock_ns();
        pthread_cond_broadcast(&entry->runs->background.ended);
}

static void *run_thread(void *data) {
        struct sbx_background_run *entry = data;
        struct sbx_run_watch watch = {.data = entry, .event = on_event};
        struct sbx_call call = {.struct_size = sizeof(call), .cancel_fd = entry->cancel_fd};
        struct sbx_error problem = {0};
        json_t *result = execute(entry, &watch, &call, NULL, &problem);
        SBX_LOCKED(&entry->runs->background.lock);

        end_locked(entry, result, &problem);
        return NULL;
}

int sbx_background_begin(struct sbx_background_run *entry, struct sbx_error *err) {
        struct sbx_error problem = {0};
        int r;
        SBX_LOCKED(&entry->runs->background.lock);

        r = sbx_thread_start(&entry->thread, "sbx-run", run_thread, entry);
        entry->has_thread = r == 0;
        if (r == 0)
                return 0;
        sbx_error_set(&problem, r, SBX_AGENT_ORIGIN, "Raise the limit of processes (ulimit -u).",
                      "no thread for the run: %s", SBX_ERRNO_TEXT(r));
        end_locked(entry, NULL, &problem);
        if (err != NULL && err->code == 0)
                *err = problem;
        return r;
}

/* ---- within a call ---- */

/* One that is within a call, while it goes on. */
struct within {
        struct sbx_background_run *entry;
        const struct sbx_tool_context *context;
        unsigned iteration, most, steps; /* of the run's watch, which is told by one thread at a time */
};

static void tell_progress(struct within *within, const char *what) {
        const struct sbx_tool_context *context = within->context;
        unsigned steps = within->steps < PROGRESS_STEPS_MAX ? within->steps : PROGRESS_STEPS_MAX;
        char status[STATUS_SIZE];

        if (context->progress == NULL || within->iteration == 0)
                return;
        snprintf(status, sizeof(status), "iteration %u of %u: %.64s", within->iteration, within->most, what);
        context->progress(context->progress_data, within->iteration - 1 + steps * PROGRESS_STEP, within->most, status);
}

/* The iterations count; what happens in one raises it a little, so that the line is passed on. */
static void on_event_within(void *data, const json_t *event) {
        struct within *within = data;
        const char *name = json_string_value(json_object_get(event, "name"));

        if (is_event(event, "iteration")) {
                within->iteration = (unsigned)json_integer_value(json_object_get(event, "iteration"));
                within->most = (unsigned)json_integer_value(json_object_get(event, "max_iterations"));
                within->steps = 0;
                note_iteration(within->entry, within->iteration);
                tell_progress(within, "asking the model");
        } else if (name != NULL && !sbx_is_final_tool(name) &&
                   (is_event(event, "tool_begin") || is_event(event, "tool_end"))) {
                within->steps++;
                tell_progress(within, is_event(event, "tool_begin") ? name : "asking the model");
        }
}

/* Readable when one of the two is; a call has one descriptor to cancel it with. */
static int watch_both(int first, int second, int *ret_fd, struct sbx_error *err) {
        struct epoll_event event = {.events = EPOLLIN};
        _cleanup_close_ int fd = epoll_create1(EPOLL_CLOEXEC);

        if (fd < 0 || epoll_ctl(fd, EPOLL_CTL_ADD, first, &event) < 0 ||
            (second >= 0 && epoll_ctl(fd, EPOLL_CTL_ADD, second, &event) < 0))
                return sbx_error_set(err, -errno, SBX_AGENT_ORIGIN, "Raise the limit of open files (ulimit -n).",
                                     "a run can't be begun: %s", SBX_ERRNO_TEXT(errno));
        *ret_fd = steal_fd(&fd);
        return 0;
}

int sbx_background_run_within(struct sbx_background_run *entry, const struct sbx_tool_context *context, bool sampling,
                              json_t **ret_status, struct sbx_error *err) {
        const struct sbx_call *outer = context->call;
        struct within within = {.entry = entry, .context = context};
        struct sbx_run_watch watch = {.data = &within, .event = on_event_within};
        struct sbx_call call = {.struct_size = sizeof(call), .deadline_ns = outer != NULL ? outer->deadline_ns : 0};
        _cleanup_close_ int cancel_fd = -1;
        struct sbx_error problem = {0};
        json_t *result = NULL;
        int r = watch_both(entry->cancel_fd, outer != NULL ? outer->cancel_fd : -1, &cancel_fd, &problem);

        call.cancel_fd = cancel_fd;
        if (r == 0)
                result = execute(entry, &watch, &call, sampling ? context->client : NULL, &problem);
        SBX_LOCKED(&entry->runs->background.lock);
        end_locked(entry, result, &problem); /* from here on it may be forgotten */
        *ret_status = describe_locked(entry);
        return *ret_status != NULL ? 0 : SBX_NOMEM(err, SBX_AGENT_ORIGIN);
}

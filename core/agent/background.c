/* SPDX-License-Identifier: Apache-2.0 */
/* Runs in the background: snipara_agent_run begins one and returns at once, snipara_agent_status tells how it stands,
 * snipara_agent_cancel ends it. A run goes on when its client goes; it belongs to the principal that began it. */
#include "agent/runs.h"

#include <sys/eventfd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "tools/content.h"

#define TASK_SHOWN_BYTES 200u
#define ID_DIGITS_MIN 4
#define LINE_SIZE 160

struct sbx_background_run {
        struct sbx_background_run *next; /* protected by the table's lock, like all that has no other comment */
        struct sbx_runs *runs;           /* never changes */
        char id[SBX_RUN_ID_SIZE];        /* never changes */
        char *principal, *task;          /* never change */
        struct sbx_run_limits limits;    /* never changes */
        int cancel_fd;                   /* never changes: an eventfd */
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

void sbx_background_init(struct sbx_background *background) {
        pthread_mutex_init(&background->lock, NULL);
}

void sbx_background_destroy(struct sbx_background *background) {
        while (background->first != NULL) {
                struct sbx_background_run *entry = background->first;

                background->first = entry->next;
                background_run_free(entry);
        }
        pthread_mutex_destroy(&background->lock);
}

/* ---- the table ---- */

/* A run that has ended has a thread that is about to, and touches nothing any more. */
static void drop(struct sbx_background_run *entry) {
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

static unsigned count_running_locked(const struct sbx_background *background) {
        unsigned count = 0;

        for (const struct sbx_background_run *entry = background->first; entry != NULL; entry = entry->next)
                count += !entry->ended;
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

                background->first = entry->next;
                pthread_mutex_unlock(&background->lock); /* which the run needs to end */
                drop(entry);
                pthread_mutex_lock(&background->lock);
        }
        pthread_mutex_unlock(&background->lock);
}

/* ---- the thread of a run ---- */

static void on_event(void *data, const json_t *event) {
        struct sbx_background_run *entry = data;
        const char *name = json_string_value(json_object_get(event, "event"));

        if (name == NULL || strcmp(name, "iteration") != 0)
                return;
        SBX_LOCKED(&entry->runs->background.lock);
        entry->iteration = (unsigned)json_integer_value(json_object_get(event, "iteration"));
}

static void *run_thread(void *data) {
        struct sbx_background_run *entry = data;
        struct sbx_run_watch watch = {.data = entry, .event = on_event};
        struct sbx_call call = {.struct_size = sizeof(call), .cancel_fd = entry->cancel_fd};
        struct sbx_run_request request = {
                .kind = SBX_RUN_AGENT,
                .prompt = entry->task,
                .principal = entry->principal,
                .limits = entry->limits,
                .run_id = entry->id,
        };
        struct sbx_error problem = {0};
        json_t *result = NULL;
        int r = sbx_runs_run(entry->runs, &request, &watch, &call, &result, &problem);
        SBX_LOCKED(&entry->runs->background.lock);

        if (r < 0) {
                sbx_error_set(&problem, r, SBX_AGENT_ORIGIN, NULL, "the run could not begin: %s", SBX_ERRNO_TEXT(r));
                entry->problem = problem;
        }
        entry->result = result;
        entry->ended = true;
        entry->ended_ns = sbx_clock_ns();
        return NULL;
}

/* ---- tool results ---- */

static json_t *clipped(const char *text) {
        struct sbx_bytes bytes = {text, strlen(text)};

        bytes.size = sbx_utf8_cut(bytes, TASK_SHOWN_BYTES);
        return sbx_json_text(bytes);
}

/* The JSON text, as 2.2.7 had it, and the same as structured content. Takes the reference. */
static int json_result(json_t *given, json_t **ret_result, struct sbx_error *err) {
        _cleanup_json_ json_t *value = given, *result = NULL;
        _cleanup_free_ char *text = value != NULL ? json_dumps(value, JSON_INDENT(2)) : NULL;

        result = text != NULL ? sbx_content_text(false, text) : NULL;
        if (result == NULL || json_object_set(result, "structuredContent", value) < 0)
                return SBX_NOMEM(err, SBX_AGENT_ORIGIN);
        *ret_result = steal_pointer(result);
        return 0;
}

static int text_result(bool is_error, const char *text, json_t **ret_result, struct sbx_error *err) {
        *ret_result = sbx_content_text(is_error, text);
        return *ret_result != NULL ? 0 : SBX_NOMEM(err, SBX_AGENT_ORIGIN);
}

static int not_found(const char *id, json_t **ret_result, struct sbx_error *err) {
        char line[LINE_SIZE];

        snprintf(line, sizeof(line), "Error: Run '%.64s' not found", id);
        return text_result(true, line, ret_result, err);
}

/* ---- snipara_agent_run ---- */

static int entry_new(struct sbx_runs *runs, const char *principal, const char *task,
                     const struct sbx_run_limits *limits, struct sbx_background_run **ret_entry,
                     struct sbx_error *err) {
        _cleanup_(cleanup_entry) struct sbx_background_run *entry = calloc(1, sizeof(*entry));
        int r;

        if (entry == NULL)
                return SBX_NOMEM(err, SBX_AGENT_ORIGIN);
        entry->runs = runs;
        entry->limits = *limits;
        entry->begun_ns = sbx_clock_ns();
        entry->principal = strdup(principal != NULL ? principal : "");
        entry->task = strdup(task);
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

static int start(struct sbx_background *background, struct sbx_background_run *entry, struct sbx_error *err) {
        int r;
        SBX_LOCKED(&background->lock);

        forget_old_locked(background);
        if (background->stopping)
                return sbx_error_set(err, -ESHUTDOWN, SBX_AGENT_ORIGIN, NULL, "the program is ending: no run is begun");
        if (count_running_locked(background) >= SBX_BACKGROUND_RUNNING_MAX)
                return sbx_error_set(err, -EBUSY, SBX_AGENT_ORIGIN, "Wait for one of them, or cancel one.",
                                     "%u runs go on in the background, the most that may", SBX_BACKGROUND_RUNNING_MAX);
        r = sbx_thread_start(&entry->thread, "sbx-run", run_thread, entry);
        if (r < 0)
                return sbx_error_set(err, r, SBX_AGENT_ORIGIN, NULL, "no thread for the run: %s", SBX_ERRNO_TEXT(r));
        entry->next = background->first;
        background->first = entry;
        return 0;
}

static int read_limits(const struct sbx_runs *runs, const json_t *arguments, struct sbx_run_limits *ret_limits,
                       struct sbx_error *err) {
        struct sbx_run_limits limits = SBX_RUN_LIMITS_CONFIGURED;
        const json_t *cost = json_object_get(arguments, "cost_limit");

        limits.max_iterations = (unsigned)json_integer_value(json_object_get(arguments, "max_iterations"));
        limits.token_budget = (uint64_t)json_integer_value(json_object_get(arguments, "token_budget"));
        if (json_is_number(cost))
                limits.cost_usd = json_number_value(cost);
        return sbx_run_limits_settle(runs->parts.config, SBX_RUN_AGENT, &limits, ret_limits, err);
}

static int agent_run(const struct sbx_tool_context *context, json_t *arguments, json_t **ret_result,
                     struct sbx_error *err) {
        struct sbx_runs *runs = context->data;
        _cleanup_(cleanup_entry) struct sbx_background_run *entry = NULL;
        const struct sbx_instance *provider = NULL;
        const char *task = json_string_value(json_object_get(arguments, "task"));
        char id[SBX_RUN_ID_SIZE];
        struct sbx_run_limits limits;
        int r;

        if (task == NULL || task[strspn(task, " \t\r\n")] == '\0')
                return text_result(true, "Error: No task provided", ret_result, err);
        r = read_limits(runs, arguments, &limits, err);
        if (r == 0) /* what would fail at once is told at once */
                r = sbx_model_provider(&runs->parts, NULL, context->call, &provider, err);
        if (r < 0)
                return r;
        r = entry_new(runs, context->principal, task, &limits, &entry, err);
        if (r < 0)
                return r;
        memcpy(id, entry->id, sizeof(id));
        r = start(&runs->background, entry, err);
        if (r < 0)
                return r;
        steal_pointer(entry); /* the table's */
        return json_result(json_pack("{s:s, s:s, s:o, s:{s:I, s:I, s:f}}", "run_id", id, "status", "running", "task",
                                     clipped(task), "config", "max_iterations", (json_int_t)limits.max_iterations,
                                     "token_budget", (json_int_t)limits.token_budget, "cost_limit", limits.cost_usd),
                           ret_result, err);
}

/* ---- snipara_agent_status, snipara_agent_cancel ---- */

static const char *status_of(const struct sbx_background_run *entry) {
        const char *end = json_string_value(json_object_get(entry->result, "end"));

        if (!entry->ended)
                return entry->cancelled ? "cancelling" : "running";
        if (end == NULL || strcmp(end, sbx_run_end_name(SBX_RUN_FAILED)) == 0)
                return "error";
        return strcmp(end, sbx_run_end_name(SBX_RUN_CANCELLED)) == 0 ? "cancelled" : "completed";
}

static json_t *describe_locked(const struct sbx_background_run *entry) {
        uint64_t until_ns = entry->ended ? entry->ended_ns : sbx_clock_ns();
        json_t *status = json_pack("{s:s, s:s, s:o, s:I}", "run_id", entry->id, "status", status_of(entry), "task",
                                   clipped(entry->task), "elapsed_seconds",
                                   (json_int_t)((until_ns - entry->begun_ns) / SBX_NS_PER_S));
        const json_t *error = json_object_get(entry->result, "error");

        if (status == NULL)
                return NULL;
        if (!entry->ended)
                json_object_set_new(status, "iteration", json_integer(entry->iteration));
        else if (entry->result != NULL)
                json_object_set(status, "result", entry->result);
        if (entry->ended && entry->result == NULL)
                json_object_set_new(status, "error", json_string(entry->problem.message));
        else if (json_is_string(error))
                json_object_set(status, "error", (json_t *)(uintptr_t)error);
        return status;
}

static const char *id_of(const json_t *arguments) {
        const char *id = json_string_value(json_object_get(arguments, "run_id"));

        return id != NULL ? id : "";
}

static int agent_status(const struct sbx_tool_context *context, json_t *arguments, json_t **ret_result,
                        struct sbx_error *err) {
        struct sbx_runs *runs = context->data;
        const char *id = id_of(arguments), *principal = context->principal != NULL ? context->principal : "";
        struct sbx_background_run *entry;
        json_t *status = NULL;

        pthread_mutex_lock(&runs->background.lock);
        forget_old_locked(&runs->background);
        entry = find_locked(&runs->background, principal, id);
        if (entry != NULL)
                status = describe_locked(entry);
        pthread_mutex_unlock(&runs->background.lock);
        return entry == NULL ? not_found(id, ret_result, err) : json_result(status, ret_result, err);
}

static int agent_cancel(const struct sbx_tool_context *context, json_t *arguments, json_t **ret_result,
                        struct sbx_error *err) {
        struct sbx_runs *runs = context->data;
        const char *id = id_of(arguments), *principal = context->principal != NULL ? context->principal : "";
        struct sbx_background_run *entry;
        bool found, ended = false;
        char line[LINE_SIZE];

        pthread_mutex_lock(&runs->background.lock);
        entry = find_locked(&runs->background, principal, id);
        found = entry != NULL;
        if (found) {
                ended = entry->ended;
                entry->cancelled = true;
                cancel(entry);
        }
        pthread_mutex_unlock(&runs->background.lock);
        if (!found)
                return not_found(id, ret_result, err);
        snprintf(line, sizeof(line), "Agent run '%.64s' %s", id, ended ? "had ended already" : "cancelled");
        return text_result(false, line, ret_result, err);
}

/* ---- the tools ---- */

#define ID_SCHEMA(text)                                                                                                \
        "{\"type\": \"object\", \"properties\": {\"run_id\": {\"type\": \"string\", \"minLength\": 1, "                \
        "\"description\": \"" text "\"}}, \"required\": [\"run_id\"]}"

static const struct sbx_tool agent_tools[] = {
        {.name = "snipara_agent_run",
         .title = "Start an agent",
         .description =
                 "Starts an autonomous agent that works on a task in iterations: it looks at what is known, acts with "
                 "tools (code in a sandboxed session, context, sub-calls), and ends when it has the answer or a limit "
                 "is reached. Returns a run_id at once; ask snipara_agent_status for the result.",
         .input_schema = "{\"type\": \"object\", \"properties\": {"
                         "\"task\": {\"type\": \"string\", \"description\": \"What the agent is to do\"}, "
                         "\"max_iterations\": {\"type\": \"integer\", \"description\": \"Iterations at most (default "
                         "10, hard limit "
                         "50)\", \"default\": 10, \"minimum\": 1, \"maximum\": 50}, "
                         "\"token_budget\": {\"type\": \"integer\", \"description\": \"Tokens at most (default "
                         "50000)\", \"default\": "
                         "50000, \"minimum\": 1, \"maximum\": 100000000}, "
                         "\"cost_limit\": {\"type\": \"number\", \"description\": \"US dollars at most (default 2.0, "
                         "hard limit "
                         "10.0)\", \"default\": 2.0, \"minimum\": 0, \"maximum\": 10}}, "
                         "\"required\": [\"task\"]}",
         .annotations = "{\"readOnlyHint\": false, \"openWorldHint\": true}",
         .run = agent_run,
         .flags = SBX_TOOL_CLIENT},
        {.name = "snipara_agent_status",
         .title = "Status of an agent",
         .description =
                 "How an agent run of yours stands: running, completed, cancelled or error, and its result when it has "
                 "ended. Ended runs are kept for an hour.",
         .input_schema = ID_SCHEMA("The run_id that snipara_agent_run returned"),
         .annotations = "{\"readOnlyHint\": true}",
         .run = agent_status,
         .flags = SBX_TOOL_CLIENT | SBX_TOOL_QUICK},
        {.name = "snipara_agent_cancel",
         .title = "Cancel an agent",
         .description = "Ends an agent run of yours. What it has reached so far is its result.",
         .input_schema = ID_SCHEMA("The run_id of the run to end"),
         .annotations = "{\"readOnlyHint\": false, \"idempotentHint\": true}",
         .run = agent_cancel,
         .flags = SBX_TOOL_CLIENT | SBX_TOOL_QUICK},
};

int sbx_agent_tools_add(struct sbx_runs *runs, struct sbx_error *err) {
        static const char *const aliases[] = {"rlm_agent_run", "rlm_agent_status", "rlm_agent_cancel"};

        for (size_t i = 0; i < sizeof(agent_tools) / sizeof(agent_tools[0]); i++) {
                struct sbx_tool tool = agent_tools[i];
                int r;

                tool.data = runs;
                r = sbx_tools_add(runs->parts.tools, &tool, err);
                if (r == 0)
                        r = sbx_tools_alias(runs->parts.tools, aliases[i], tool.name, err);
                if (r < 0)
                        return r;
        }
        return 0;
}

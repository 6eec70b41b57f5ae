/* SPDX-License-Identifier: Apache-2.0 */
/* A guest layer without guests: see fake_guest.h. Its counters are the test's, so they may be global. */
#include "fake_guest_internal.h"

#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/number.h"
#include "guest/result.h"

struct fake_guests fake = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- control ---- */

struct fake_guest_counts fake_guest_counts(void) {
        struct fake_guest_counts copy;

        pthread_mutex_lock(&fake.lock);
        copy = fake.counts;
        copy.alive = copy.started - copy.freed;
        pthread_mutex_unlock(&fake.lock);
        return copy;
}

void fake_guest_reset(void) {
        pthread_mutex_lock(&fake.lock);
        fake.counts = (struct fake_guest_counts){0};
        fake.start_failure = fake.limit_answer = fake.save_failure = 0;
        fake.families = fake.portable = false;
        fake.state_bytes = 0;
        fake_registry_reset();
        pthread_mutex_unlock(&fake.lock);
}

void fake_guest_fail_starts(int code) {
        pthread_mutex_lock(&fake.lock);
        fake.start_failure = code;
        pthread_mutex_unlock(&fake.lock);
}

void fake_guest_limit_answer(int code) {
        fake.limit_answer = code;
}

void fake_guest_can_tell(void) {
        fake.portable = true;
}

void fake_guest_fail_saves(int code) {
        pthread_mutex_lock(&fake.lock);
        fake.save_failure = code;
        pthread_mutex_unlock(&fake.lock);
}

void fake_guest_state_bytes(size_t bytes) {
        fake.state_bytes = bytes;
}

void fake_guest_kill_all(void) {
        pthread_mutex_lock(&fake.lock);
        for (size_t i = 0; i < GUESTS_MAX; i++)
                if (fake.guests[i] != NULL)
                        fake.guests[i]->alive = false;
        pthread_mutex_unlock(&fake.lock);
}

/* ---- the pool ---- */

int sbx_pool_new(const struct sbx_instance *backend, const struct sbx_pool_runtime *runtime,
                 const struct sbx_logger *logger, unsigned size, struct sbx_pool **ret_pool, struct sbx_error *err) {
        struct sbx_pool *pool = calloc(1, sizeof(*pool));

        if (pool == NULL)
                return SBX_NOMEM(err, "fake");
        pool->backend = backend;
        *ret_pool = pool;
        return 0;
}

void sbx_pool_discard(struct sbx_pool *pool) {
}

void sbx_pool_free(struct sbx_pool *pool) {
        free(pool);
}

void sbx_pool_measure(struct sbx_pool *pool, struct sbx_metrics *metrics) {
        pool->metrics = metrics;
}

void sbx_pool_warm(struct sbx_pool *pool) {
        pthread_mutex_lock(&fake.lock);
        pool->warm = true;
        pthread_mutex_unlock(&fake.lock);
}

static bool is_warm(const struct sbx_pool *pool) {
        bool warm;

        pthread_mutex_lock(&fake.lock);
        warm = pool->warm;
        pthread_mutex_unlock(&fake.lock);
        return warm;
}

int sbx_pool_ready(struct sbx_pool *pool, struct sbx_error *err) {
        return is_warm(pool) ? 0 : sbx_error_set(err, -EAGAIN, "fake", "Wait.", "not warm yet");
}

void sbx_pool_figures(struct sbx_pool *pool, unsigned *ret_ready, unsigned *ret_size) {
        *ret_ready = is_warm(pool) ? 2 : 0;
        *ret_size = 2;
}

struct sbx_guest_process *fake_guest_new(void) {
        struct sbx_guest_process *guest = calloc(1, sizeof(*guest));

        if (guest == NULL)
                return NULL;
        guest->alive = true;
        guest->names = json_array();
        guest->files = json_object();
        guest->info = json_pack("{s:s, s:s}", "runtime", "python", "version", "3.11.2");
        return guest;
}

int fake_guest_enlist(struct sbx_guest_process *guest) {
        if (guest->family == 0)
                guest->family = ++fake.counts.families;
        for (size_t i = 0; i < GUESTS_MAX; i++)
                if (fake.guests[i] == NULL) {
                        fake.guests[i] = guest;
                        return 0;
                }
        return -EAGAIN;
}

int sbx_pool_take(struct sbx_pool *pool, const struct sbx_guest_spec *spec, const struct sbx_call *call,
                  struct sbx_guest_process **ret_guest, struct sbx_error *err) {
        struct sbx_guest_process *guest;
        int r;

        pthread_mutex_lock(&fake.lock);
        r = fake.start_failure;
        pthread_mutex_unlock(&fake.lock);
        if (r < 0)
                return sbx_error_set(err, r, "fake", "Mend it.", "this backend can't start");
        guest = fake_guest_new();
        if (guest == NULL)
                return SBX_NOMEM(err, "fake");
        pthread_mutex_lock(&fake.lock);
        fake.counts.started++;
        fake.counts.last_start_memory_bytes = spec->limits.memory_bytes;
        snprintf(fake.counts.last_runtime, sizeof(fake.counts.last_runtime), "%s%s%s", spec->runtime,
                 spec->runtime_version != NULL ? " " : "", spec->runtime_version != NULL ? spec->runtime_version : "");
        snprintf(fake.counts.last_owner, sizeof(fake.counts.last_owner), "%s", spec->owner);
        r = fake_guest_enlist(guest);
        pthread_mutex_unlock(&fake.lock);
        *ret_guest = guest;
        return r;
}

/* ---- a guest ---- */

void sbx_guest_free(struct sbx_guest_process *guest) {
        if (guest == NULL)
                return;
        pthread_mutex_lock(&fake.lock);
        fake.counts.freed++;
        for (size_t i = 0; i < GUESTS_MAX; i++)
                if (fake.guests[i] == guest)
                        fake.guests[i] = NULL;
        pthread_mutex_unlock(&fake.lock);
        json_decref(guest->names);
        json_decref(guest->files);
        json_decref(guest->info);
        free(guest);
}

void sbx_guest_end(struct sbx_guest_process *guest) {
        pthread_mutex_lock(&fake.lock);
        guest->alive = false;
        pthread_mutex_unlock(&fake.lock);
}

const json_t *sbx_guest_info(const struct sbx_guest_process *guest) {
        return guest->info;
}

/* Of its family, beside itself. */
static bool another_runs_locked(const struct sbx_guest_process *guest) {
        for (size_t i = 0; i < GUESTS_MAX; i++)
                if (fake.guests[i] != NULL && fake.guests[i] != guest && fake.guests[i]->family == guest->family &&
                    fake.guests[i]->alive && !fake.guests[i]->frozen)
                        return true;
        return false;
}

bool sbx_guest_alive(const struct sbx_guest_process *guest) {
        bool alive;

        pthread_mutex_lock(&fake.lock);
        alive = guest->alive;
        pthread_mutex_unlock(&fake.lock);
        return alive;
}

static void die(struct sbx_guest_process *guest) {
        pthread_mutex_lock(&fake.lock);
        guest->alive = false;
        pthread_mutex_unlock(&fake.lock);
}

struct sbx_bytes sbx_guest_report(const struct sbx_guest_process *guest) {
        return (struct sbx_bytes){"{\"isolation\":\"fake\"}", 20};
}

const char *sbx_guest_isolation(const struct sbx_guest_process *guest) {
        return "fake";
}

const json_t *sbx_guest_names(const struct sbx_guest_process *guest) {
        return guest->names;
}

int sbx_guest_limit(struct sbx_guest_process *guest, const struct sbx_limits *limits, struct sbx_error *err) {
        if (fake.limit_answer < 0)
                return sbx_error_set(err, fake.limit_answer, "fake", NULL, "no limits here");
        pthread_mutex_lock(&fake.lock);
        fake.counts.limits_set++;
        fake.counts.last_limit_bytes = limits->memory_bytes;
        pthread_mutex_unlock(&fake.lock);
        return 0;
}

/* ---- executing ---- */

static int define(struct sbx_guest_process *guest, const char *name) {
        json_t *more = json_copy(guest->names);

        if (more == NULL || json_array_append_new(more, json_string(name)) < 0)
                return -ENOMEM;
        json_decref(guest->names);
        guest->names = more;
        return 0;
}

/* Waits for `ms`; tells what ended it earlier. */
static enum sbx_end sleep_for(uint64_t ms, uint64_t deadline_ns, const struct sbx_call *call) {
        uint64_t until = sbx_clock_deadline_ms(ms);
        struct sbx_call until_then = {.struct_size = sizeof(until_then), .cancel_fd = call->cancel_fd};
        int never[2], r;

        until_then.deadline_ns = deadline_ns != 0 && deadline_ns < until ? deadline_ns : until;
        if (call->deadline_ns != 0 && call->deadline_ns < until_then.deadline_ns)
                until_then.deadline_ns = call->deadline_ns;
        if (sbx_fd_pipe(never) < 0)
                return SBX_END_LOST;
        r = sbx_fd_wait(never[0], POLLIN, &until_then);
        close(never[0]);
        close(never[1]);
        if (r == -ECANCELED)
                return SBX_END_CANCELLED;
        return until_then.deadline_ns < until ? SBX_END_TIMEOUT : SBX_END_OK;
}

/* Answered or refused, as the real one does it. */
static int call_back(const char *name, const struct sbx_guest_execution *execution, const struct sbx_call *call,
                     struct sbx_result *result) {
        struct sbx_buffer value = SBX_BUFFER(1 << 16);
        int r = -EACCES;

        if (execution->code_calls != NULL)
                r = execution->code_calls->answer(execution->code_calls->data, name, (struct sbx_bytes){"{}", 2}, call,
                                                  &value, NULL);
        result->end = r == 0 ? SBX_END_OK : r == -ECANCELED ? SBX_END_CANCELLED : SBX_END_ERROR;
        r = r == 0 ? sbx_result_set(&result->result, sbx_buffer_bytes(&value)) : 0;
        sbx_buffer_free(&value);
        return r;
}

static int print(struct sbx_result *result, size_t size) {
        struct sbx_buffer text = SBX_BUFFER(1 << 24);
        int r = sbx_buffer_reserve(&text, size);

        if (r == 0) {
                memset(text.data, 'x', size);
                text.data[size] = '\0';
                text.size = size;
                r = sbx_result_set_output(&result->stdout_text, &text, false);
        }
        sbx_buffer_free(&text);
        return r;
}

static int show(struct sbx_result *result, const char *mime_type, size_t size) {
        char *data = calloc(1, size + 8);
        int r;

        if (data == NULL)
                return -ENOMEM;
        memset(data, 'h', size);
        if (strcmp(mime_type, "image/png") == 0)
                memcpy(data, "\x89PNG\r\n\x1a\n", 8);
        r = sbx_result_add_display(result, mime_type, (struct sbx_bytes){data, size});
        free(data);
        return r;
}

static int perform(struct sbx_guest_process *guest, const char *word, const char *argument,
                   const struct sbx_guest_execution *execution, const struct sbx_call *call,
                   struct sbx_result *result) {
        int64_t number = 0;

        (void)sbx_number_int(argument, &number);
        if (strcmp(word, "sleep") == 0 || strcmp(word, "hang") == 0) {
                result->end = sleep_for((uint64_t)number, execution->deadline_ns, call);
                if (word[0] == 'h' && result->end != SBX_END_OK)
                        die(guest);
        } else if (strcmp(word, "call") == 0) {
                return call_back(argument, execution, call, result);
        } else if (strcmp(word, "name") == 0) {
                return define(guest, argument);
        } else if (strcmp(word, "peak") == 0) {
                guest->peak_bytes = (uint64_t)number << 20;
        } else if (strcmp(word, "print") == 0) {
                return print(result, (size_t)number);
        } else if (strcmp(word, "plot") == 0) {
                for (int64_t i = 0; i < number; i++)
                        if (show(result, "image/png", 8) < 0)
                                return -ENOMEM;
        } else if (strcmp(word, "poster") == 0) {
                return show(result, "image/png", (size_t)number);
        } else if (strcmp(word, "page") == 0) {
                return show(result, "text/html", (size_t)number);
        } else if (strcmp(word, "crash") == 0) { /* by its own doing */
                result->end = SBX_END_KILLED;
                die(guest);
        } else if (strcmp(word, "die-after") == 0) {
                die(guest);
        }
        return 0;
}

static int fill(struct sbx_guest_process *guest, const struct sbx_guest_execution *execution,
                struct sbx_result *result) {
        char value[32];
        int r;

        snprintf(value, sizeof(value), "%u", guest->executions);
        r = sbx_result_set(&result->value, (struct sbx_bytes){value, strlen(value)});
        if (r == 0 && result->end != SBX_END_OK)
                r = sbx_result_set(&result->error_message, (struct sbx_bytes){"it went wrong", 13});
        if (r == 0 && execution->notice != NULL)
                r = sbx_result_set(&result->notice, (struct sbx_bytes){execution->notice, strlen(execution->notice)});
        if (r == 0)
                r = sbx_result_set(&result->session_id,
                                   (struct sbx_bytes){execution->session_id, strlen(execution->session_id)});
        result->memory_peak_bytes = guest->peak_bytes;
        return r;
}

int sbx_guest_execute(struct sbx_guest_process *guest, const struct sbx_guest_execution *execution,
                      const struct sbx_call *call, struct sbx_result **ret_result, struct sbx_error *err) {
        char word[16] = "", argument[64] = "";
        struct sbx_result *result = NULL;
        uint64_t now = sbx_clock_ns();
        int r;

        snprintf(word, sizeof(word), "%.*s", (int)execution->code.size, (const char *)execution->code.data);
        if (strchr(word, ' ') != NULL) {
                size_t length = (size_t)(strchr(word, ' ') - word);

                word[length] = '\0';
                snprintf(argument, sizeof(argument), "%.*s", (int)(execution->code.size - length - 1),
                         (const char *)execution->code.data + length + 1);
        }
        pthread_mutex_lock(&fake.lock);
        fake.counts.last_soft_bytes = execution->memory_bytes;
        fake.counts.last_timeout_ms = (execution->deadline_ns - now + SBX_NS_PER_S / 4) / SBX_NS_PER_MS / 500 * 500;
        if (strcmp(word, "vanish") == 0 && fake.counts.started == 1)
                guest->alive = false;
        r = guest->alive ? 0 : -ESRCH;
        if (r == 0 && fake.families && another_runs_locked(guest))
                fake.counts.twins++;
        if (r == 0)
                guest->frozen = false;
        pthread_mutex_unlock(&fake.lock);
        if (r < 0)
                return sbx_error_set(err, r, "fake", NULL, "the guest is dead");
        guest->executions++;
        r = sbx_result_new(&result);
        if (r == 0)
                r = perform(guest, word, argument, execution, call, result);
        if (r == 0)
                r = fill(guest, execution, result);
        if (r < 0) {
                sbx_result_free(result);
                return SBX_NOMEM(err, "fake");
        }
        *ret_result = result;
        return 0;
}

/* ---- variables ---- */

int sbx_guest_get(struct sbx_guest_process *guest, const json_t *names, const struct sbx_call *call, json_t **ret,
                  struct sbx_error *err) {
        json_t *variables = json_object(), *name;
        size_t index;

        json_array_foreach (guest->names, index, name) {
                json_object_set_new(variables, json_string_value(name),
                                    json_pack("{s:s, s:s, s:i}", "type", "int", "repr", "1", "json", 1));
        }
        *ret = variables;
        return variables != NULL ? 0 : SBX_NOMEM(err, "fake");
}

int sbx_guest_set(struct sbx_guest_process *guest, const char *name, const json_t *value, const struct sbx_call *call,
                  char **ret_repr, struct sbx_error *err) {
        if (define(guest, name) < 0)
                return SBX_NOMEM(err, "fake");
        *ret_repr = json_dumps(value, JSON_ENCODE_ANY);
        return *ret_repr != NULL ? 0 : SBX_NOMEM(err, "fake");
}

int sbx_guest_clear(struct sbx_guest_process *guest, const struct sbx_call *call, struct sbx_error *err) {
        json_decref(guest->names);
        guest->names = json_array();
        return guest->names != NULL ? 0 : SBX_NOMEM(err, "fake");
}

/* ---- files ---- */

static int no_file(const char *path, struct sbx_error *err) {
        return sbx_error_set(err, -ENOENT, "fake", NULL, "No such file or directory: '%s'", path);
}

int sbx_guest_file_read(struct sbx_guest_process *guest, const char *path, size_t max_bytes,
                        const struct sbx_call *call, struct sbx_buffer *out, struct sbx_error *err) {
        const json_t *file = json_object_get(guest->files, path);
        int64_t ms = 0;

        if (file == NULL)
                return no_file(path, err);
        if (json_string_length(file) > max_bytes)
                return sbx_error_set(err, -EFBIG, "fake", NULL, "Larger than %zu bytes: '%s'", max_bytes, path);
        if (strcmp(path, "deadly") == 0) {
                die(guest);
                return sbx_error_set(err, -EPROTO, "fake", NULL, "the guest broke the protocol and was killed");
        }
        if (strcmp(path, "slow") == 0 && sbx_number_int(json_string_value(file), &ms) == 0 &&
            sleep_for((uint64_t)ms, 0, call) == SBX_END_CANCELLED)
                return sbx_error_set(err, -ECANCELED, "fake", NULL, "the request was cancelled");
        return sbx_buffer_append(out, json_string_value(file), json_string_length(file));
}

int sbx_guest_file_write(struct sbx_guest_process *guest, const char *path, struct sbx_bytes content,
                         const struct sbx_call *call, struct sbx_error *err) {
        json_t *file = json_stringn_nocheck(content.size > 0 ? content.data : "", content.size);

        return json_object_set_new(guest->files, path, file) < 0 ? SBX_NOMEM(err, "fake") : 0;
}

/* In the order of their making, which is not sorted. */
int sbx_guest_file_list(struct sbx_guest_process *guest, const char *path, const struct sbx_call *call, json_t **ret,
                        bool *ret_truncated, struct sbx_error *err) {
        json_t *list = json_array(), *file;
        const char *name;

        json_object_foreach (guest->files, name, file) {
                json_array_append_new(list, json_pack("{s:s, s:I, s:i, s:I, s:s}", "path", name, "size",
                                                      (json_int_t)json_string_length(file), "mode", 0644, "mtime_ms",
                                                      (json_int_t)1000, "type", "file"));
        }
        if (ret_truncated != NULL)
                *ret_truncated = json_object_get(guest->files, "more") != NULL;
        *ret = list;
        return list != NULL ? 0 : SBX_NOMEM(err, "fake");
}

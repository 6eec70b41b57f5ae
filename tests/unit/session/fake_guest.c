/* SPDX-License-Identifier: Apache-2.0 */
/* A guest layer without guests: see fake_guest.h. Its counters are the test's, so they may be global. */
#include "fake_guest.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/number.h"
#include "guest/result.h"

#define GUESTS_MAX 4096

struct sbx_guest_process {
        bool alive, vanished;
        bool frozen;     /* a copy that has done nothing so far, of a backend with families */
        unsigned family; /* those that are copies of each other */
        unsigned executions;
        uint64_t peak_bytes;
        json_t *names, *files; /* files: path -> bytes */
        json_t *info;
};

struct sbx_pool {
        const struct sbx_instance *backend;
        struct sbx_metrics *metrics;
        bool warm;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fake_guest_counts counts;
static struct sbx_guest_process *guests[GUESTS_MAX];
static int start_failure, limit_answer, save_failure;
static bool families, portable;
static struct sbx_instance store_instance;
static const struct sbx_option all_options[] = {{.name = "memory_max", .type = SBX_OPTION_SIZE}};
static struct sbx_value values[] = {{.type = SBX_OPTION_SIZE}};
static const struct sbx_option core_options[] = {{.name = "checkpoint", .type = SBX_OPTION_ENUM},
                                                 {.name = "checkpoint_copies", .type = SBX_OPTION_INT},
                                                 {.name = "checkpoint_size", .type = SBX_OPTION_SIZE},
                                                 {.name = "checkpoint_wait", .type = SBX_OPTION_DURATION}};
static struct sbx_value core_values[] = {
        {.type = SBX_OPTION_ENUM}, {.type = SBX_OPTION_INT}, {.type = SBX_OPTION_SIZE}, {.type = SBX_OPTION_DURATION}};
static const struct sbx_settings core_settings = {.table = core_options, .count = 4, .values = core_values};
static size_t state_bytes;
static const struct sbx_settings settings_of_all = {.table = all_options, .count = 1, .values = values};
static struct sbx_backend_ops operations = {.struct_size = sizeof(operations)};
static struct sbx_module module = {.plugin = {.name = "backend-local"}};

/* ---- control ---- */

struct fake_guest_counts fake_guest_counts(void) {
        struct fake_guest_counts copy;

        pthread_mutex_lock(&lock);
        copy = counts;
        copy.alive = copy.started - copy.freed;
        pthread_mutex_unlock(&lock);
        return copy;
}

void fake_guest_reset(void) {
        pthread_mutex_lock(&lock);
        counts = (struct fake_guest_counts){0};
        start_failure = limit_answer = save_failure = 0;
        families = portable = false;
        store_instance.ops = NULL;
        for (size_t i = 0; i < sizeof(core_values) / sizeof(core_values[0]); i++)
                core_values[i].set = false;
        state_bytes = 0;
        values[0].set = false;
        module.plugin.name = "backend-local";
        operations.features = 0;
        pthread_mutex_unlock(&lock);
}

void fake_guest_fail_starts(int code) {
        pthread_mutex_lock(&lock);
        start_failure = code;
        pthread_mutex_unlock(&lock);
}

void fake_guest_limit_answer(int code) {
        limit_answer = code;
}

void fake_registry_plugin(const char *name) {
        module.plugin.name = name;
}

void fake_registry_can_fork(void) {
        operations.features |= SBX_BACKEND_FORK;
}

void fake_registry_can_save(void) {
        operations.features |= SBX_BACKEND_SAVE;
}

void fake_registry_families(void) {
        operations.features |= SBX_BACKEND_FORK;
        families = true;
}

void fake_guest_can_tell(void) {
        portable = true;
}

void fake_guest_fail_saves(int code) {
        pthread_mutex_lock(&lock);
        save_failure = code;
        pthread_mutex_unlock(&lock);
}

void fake_registry_checkpoint(const char *policy) {
        core_values[0].set = true;
        core_values[0].string = (char *)(uintptr_t)policy;
}

void fake_registry_copies(int64_t count) {
        core_values[1].set = true;
        core_values[1].integer = count;
}

void fake_registry_checkpoint_wait(int64_t milliseconds) {
        core_values[3].set = true;
        core_values[3].integer = milliseconds;
}

void fake_guest_state_bytes(size_t bytes) {
        state_bytes = bytes;
}

void fake_registry_store(const struct sbx_store_ops *ops, void *state) {
        store_instance =
                (struct sbx_instance){.name = "store", .module = &module, .ops = ops, .state = state, .settings = NULL};
}

void fake_registry_memory_max(int64_t bytes) {
        values[0].set = bytes > 0;
        values[0].integer = bytes;
}

void fake_guest_kill_all(void) {
        pthread_mutex_lock(&lock);
        for (size_t i = 0; i < GUESTS_MAX; i++)
                if (guests[i] != NULL)
                        guests[i]->alive = false;
        pthread_mutex_unlock(&lock);
}

/* ---- the configuration and the registry ---- */

struct sbx_config *fake_config(const char *const *settings) {
        char path[] = "/tmp/sbx-test-XXXXXX";
        struct sbx_runtime_options options = {.struct_size = sizeof(options),
                                              .flags = SBX_RUNTIME_NO_ENVIRONMENT,
                                              .config_path = path,
                                              .directory = "/",
                                              .settings = settings};
        struct sbx_logger logger = {.level = SBX_LOG_ERROR};
        struct sbx_config *config = NULL;
        struct sbx_error err = {0};
        int fd = mkstemp(path);

        if (fd < 0 || sbx_config_load(&options, &logger, &config, &err) < 0) {
                fprintf(stderr, "no configuration: %s\n", err.message);
                abort();
        }
        close(fd);
        unlink(path);
        return config;
}

int sbx_registry_get(struct sbx_registry *registry, const char *name, uint32_t kind, const struct sbx_call *call,
                     const struct sbx_instance **ret_instance, struct sbx_error *err) {
        static struct sbx_instance instances[] = {{.name = "local",
                                                   .module = &module,
                                                   .settings = &settings_of_all,
                                                   .ops = &operations,
                                                   .core_settings = &core_settings},
                                                  {.name = "other",
                                                   .module = &module,
                                                   .settings = &settings_of_all,
                                                   .ops = &operations,
                                                   .core_settings = &core_settings}};

        if (kind == SBX_PLUGIN_STORE && store_instance.ops != NULL) {
                *ret_instance = &store_instance;
                return 0;
        }
        for (size_t i = 0; kind == SBX_PLUGIN_BACKEND && i < sizeof(instances) / sizeof(instances[0]); i++)
                if (strcmp(instances[i].name, name) == 0) {
                        *ret_instance = &instances[i];
                        return 0;
                }
        return sbx_error_set(err, -ENOENT, "fake", "Configured are: local, other.", "there is no %s \"%s\"",
                             kind == SBX_PLUGIN_STORE ? "store" : "backend", name);
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
        pthread_mutex_lock(&lock);
        pool->warm = true;
        pthread_mutex_unlock(&lock);
}

static bool is_warm(const struct sbx_pool *pool) {
        bool warm;

        pthread_mutex_lock(&lock);
        warm = pool->warm;
        pthread_mutex_unlock(&lock);
        return warm;
}

int sbx_pool_ready(struct sbx_pool *pool, struct sbx_error *err) {
        return is_warm(pool) ? 0 : sbx_error_set(err, -EAGAIN, "fake", "Wait.", "not warm yet");
}

void sbx_pool_figures(struct sbx_pool *pool, unsigned *ret_ready, unsigned *ret_size) {
        *ret_ready = is_warm(pool) ? 2 : 0;
        *ret_size = 2;
}

static struct sbx_guest_process *guest_new(void) {
        struct sbx_guest_process *guest = calloc(1, sizeof(*guest));

        if (guest == NULL)
                return NULL;
        guest->alive = true;
        guest->names = json_array();
        guest->files = json_object();
        guest->info = json_pack("{s:s, s:s}", "runtime", "python", "version", "3.11.2");
        return guest;
}

static int enlist(struct sbx_guest_process *guest) {
        if (guest->family == 0)
                guest->family = ++counts.families;
        for (size_t i = 0; i < GUESTS_MAX; i++)
                if (guests[i] == NULL) {
                        guests[i] = guest;
                        return 0;
                }
        return -EAGAIN;
}

int sbx_pool_take(struct sbx_pool *pool, const struct sbx_guest_spec *spec, const struct sbx_call *call,
                  struct sbx_guest_process **ret_guest, struct sbx_error *err) {
        struct sbx_guest_process *guest;
        int r;

        pthread_mutex_lock(&lock);
        r = start_failure;
        pthread_mutex_unlock(&lock);
        if (r < 0)
                return sbx_error_set(err, r, "fake", "Mend it.", "this backend can't start");
        guest = guest_new();
        if (guest == NULL)
                return SBX_NOMEM(err, "fake");
        pthread_mutex_lock(&lock);
        counts.started++;
        counts.last_start_memory_bytes = spec->limits.memory_bytes;
        snprintf(counts.last_runtime, sizeof(counts.last_runtime), "%s%s%s", spec->runtime,
                 spec->runtime_version != NULL ? " " : "", spec->runtime_version != NULL ? spec->runtime_version : "");
        snprintf(counts.last_owner, sizeof(counts.last_owner), "%s", spec->owner);
        r = enlist(guest);
        pthread_mutex_unlock(&lock);
        *ret_guest = guest;
        return r;
}

/* ---- a guest ---- */

void sbx_guest_free(struct sbx_guest_process *guest) {
        if (guest == NULL)
                return;
        pthread_mutex_lock(&lock);
        counts.freed++;
        for (size_t i = 0; i < GUESTS_MAX; i++)
                if (guests[i] == guest)
                        guests[i] = NULL;
        pthread_mutex_unlock(&lock);
        json_decref(guest->names);
        json_decref(guest->files);
        json_decref(guest->info);
        free(guest);
}

void sbx_guest_end(struct sbx_guest_process *guest) {
        pthread_mutex_lock(&lock);
        guest->alive = false;
        pthread_mutex_unlock(&lock);
}

const json_t *sbx_guest_info(const struct sbx_guest_process *guest) {
        return guest->info;
}

/* Of its family, beside itself. */
static bool another_runs_locked(const struct sbx_guest_process *guest) {
        for (size_t i = 0; i < GUESTS_MAX; i++)
                if (guests[i] != NULL && guests[i] != guest && guests[i]->family == guest->family && guests[i]->alive &&
                    !guests[i]->frozen)
                        return true;
        return false;
}

static int check_fork_locked(const struct sbx_guest_process *guest, uint32_t flags, struct sbx_error *err) {
        if (!guest->alive)
                return sbx_error_set(err, -ESRCH, "fake", NULL, "the guest is dead");
        if (families && (flags & SBX_GUEST_FROZEN) == 0)
                return sbx_error_set(err, -ENOTSUP, "fake", NULL, "no copy runs beside its original");
        return 0;
}

int sbx_guest_fork(struct sbx_guest_process *guest, const struct sbx_guest_spec *spec, const struct sbx_call *call,
                   struct sbx_guest_process **ret_guest, struct sbx_error *err) {
        struct sbx_guest_process *copy;
        int r;

        if ((operations.features & SBX_BACKEND_FORK) == 0)
                return sbx_error_set(err, -ENOTSUP, "fake", NULL, "no copies here");
        pthread_mutex_lock(&lock);
        r = check_fork_locked(guest, spec->flags, err);
        pthread_mutex_unlock(&lock);
        if (r < 0)
                return r;
        copy = guest_new();
        if (copy == NULL)
                return SBX_NOMEM(err, "fake");
        copy->executions = guest->executions;
        json_decref(copy->names);
        json_decref(copy->files);
        copy->names = json_deep_copy(guest->names);
        copy->files = json_deep_copy(guest->files);
        copy->frozen = families;
        copy->family = guest->family;
        pthread_mutex_lock(&lock);
        counts.started++;
        counts.forked++;
        r = enlist(copy);
        pthread_mutex_unlock(&lock);
        *ret_guest = copy;
        return r;
}

/* ---- states ---- */

static int begin_save(struct sbx_error *err) {
        int r;

        pthread_mutex_lock(&lock);
        counts.saved++;
        r = save_failure;
        pthread_mutex_unlock(&lock);
        return r < 0 ? sbx_error_set(err, r, "fake", NULL, "this state can't be saved") : 0;
}

static int write_state(const struct sbx_guest_process *guest, struct sbx_buffer *out) {
        json_t *state = json_pack("{s:i, s:O, s:O}", "executions", (int)guest->executions, "names", guest->names,
                                  "files", guest->files);
        char *text = json_dumps(state, JSON_SORT_KEYS);
        int r = text != NULL ? sbx_buffer_append_text(out, text) : -ENOMEM;

        while (r == 0 && out->size < state_bytes) /* blanks, which JSON does not mind */
                r = sbx_buffer_append(out, "                ", 16);
        free(text);
        json_decref(state);
        return r;
}

static int read_state(struct sbx_guest_process *guest, struct sbx_bytes bytes, struct sbx_error *err) {
        json_t *state = json_loadb(bytes.data, bytes.size, 0, NULL);

        if (state == NULL)
                return sbx_error_set(err, -EINVAL, "fake", NULL, "this is no state");
        guest->executions = (unsigned)json_integer_value(json_object_get(state, "executions"));
        json_decref(guest->names);
        json_decref(guest->files);
        guest->names = json_deep_copy(json_object_get(state, "names"));
        guest->files = json_deep_copy(json_object_get(state, "files"));
        json_decref(state);
        return 0;
}

int sbx_guest_save(struct sbx_guest_process *guest, const struct sbx_call *call, struct sbx_buffer *ret_state,
                   struct sbx_error *err) {
        int r;

        if ((operations.features & SBX_BACKEND_SAVE) == 0)
                return sbx_error_set(err, -ENOTSUP, "fake", NULL, "nothing is saved here");
        r = begin_save(err);
        return r < 0 ? r : write_state(guest, ret_state);
}

int sbx_guest_restore(const struct sbx_instance *backend, const struct sbx_guest_spec *spec, struct sbx_bytes state,
                      const struct sbx_call *call, struct sbx_guest_process **ret_guest, struct sbx_error *err) {
        struct sbx_guest_process *guest;
        int r;

        if ((operations.features & SBX_BACKEND_SAVE) == 0)
                return sbx_error_set(err, -ENOTSUP, "fake", NULL, "nothing is restored here");
        guest = guest_new();
        pthread_mutex_lock(&lock);
        counts.started++;
        counts.restored++;
        r = enlist(guest);
        pthread_mutex_unlock(&lock);
        if (r == 0)
                r = read_state(guest, state, err);
        if (r < 0)
                sbx_guest_free(guest);
        else
                *ret_guest = guest;
        return r;
}

bool sbx_guest_portable(const struct sbx_guest_process *guest) {
        return portable;
}

/* Names that begin with "gen" are those of generators. */
static json_t *unsaved_of(const struct sbx_guest_process *guest) {
        json_t *list = json_array(), *name;
        size_t i;

        json_array_foreach (guest->names, i, name)
                if (strncmp(json_string_value(name), "gen", 3) == 0)
                        json_array_append_new(list, json_pack("{s:O, s:s, s:s}", "name", name, "type", "generator",
                                                              "reason", "it runs"));
        return list;
}

int sbx_guest_save_portable(struct sbx_guest_process *guest, const struct sbx_guest_portable *request,
                            const struct sbx_call *call, json_t **ret_told, struct sbx_error *err) {
        struct sbx_buffer part = SBX_BUFFER(8 << 20);
        char digest[64];
        bool unchanged;
        int r;

        if (!portable)
                return sbx_error_set(err, -ENOTSUP, "fake", NULL, "this worker can't");
        r = begin_save(err);
        if (r < 0)
                return r;
        snprintf(digest, sizeof(digest), "%zu/%zu", json_array_size(guest->names), json_object_size(guest->files));
        unchanged = request->known_digest != NULL && strcmp(request->known_digest, digest) == 0;
        if (!unchanged)
                r = write_state(guest, &part);
        if (r == 0 && !unchanged)
                r = request->part(request->data, &part);
        sbx_buffer_free(&part);
        *ret_told = json_pack("{s:I, s:o, s:s, s:b}", "variables", (json_int_t)json_array_size(guest->names), "unsaved",
                              unsaved_of(guest), "digest", digest, "unchanged", (int)unchanged);
        return r;
}

int sbx_guest_restore_portable(struct sbx_guest_process *guest, const struct sbx_bytes *parts, size_t count,
                               const struct sbx_call *call, json_t **ret_told, struct sbx_error *err) {
        json_t *missing, *name;
        size_t i;
        int r = portable && count == 1 ? read_state(guest, parts[0], err) : -ENOTSUP;

        if (r < 0)
                return r;
        pthread_mutex_lock(&lock);
        counts.restored++;
        pthread_mutex_unlock(&lock);
        missing = unsaved_of(guest);
        json_array_foreach (missing, i, name)
                for (size_t at = 0; at < json_array_size(guest->names); at++)
                        if (json_equal(json_array_get(guest->names, at), json_object_get(name, "name")))
                                json_array_remove(guest->names, at--);
        *ret_told = json_pack("{s:o}", "missing", missing);
        return 0;
}

bool sbx_guest_alive(const struct sbx_guest_process *guest) {
        bool alive;

        pthread_mutex_lock(&lock);
        alive = guest->alive;
        pthread_mutex_unlock(&lock);
        return alive;
}

static void die(struct sbx_guest_process *guest) {
        pthread_mutex_lock(&lock);
        guest->alive = false;
        pthread_mutex_unlock(&lock);
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
        if (limit_answer < 0)
                return sbx_error_set(err, limit_answer, "fake", NULL, "no limits here");
        pthread_mutex_lock(&lock);
        counts.limits_set++;
        counts.last_limit_bytes = limits->memory_bytes;
        pthread_mutex_unlock(&lock);
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
        pthread_mutex_lock(&lock);
        counts.last_soft_bytes = execution->memory_bytes;
        counts.last_timeout_ms = (execution->deadline_ns - now + SBX_NS_PER_S / 4) / SBX_NS_PER_MS / 500 * 500;
        if (strcmp(word, "vanish") == 0 && counts.started == 1)
                guest->alive = false;
        r = guest->alive ? 0 : -ESRCH;
        if (r == 0 && families && another_runs_locked(guest))
                counts.twins++;
        if (r == 0)
                guest->frozen = false;
        pthread_mutex_unlock(&lock);
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

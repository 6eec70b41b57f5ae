/* SPDX-License-Identifier: Apache-2.0 */
/* The services of struct sbx_host, as far as a transport uses them. */
#include "fake_host.h"

#include <assert.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

struct sbx_output {
        char *data;
        size_t size, max;
};

const char fake_tools[] = "[{\"name\":\"echo\",\"title\":\"Echo\",\"description\":\"Says it again\","
                          "\"inputSchema\":{\"type\":\"object\",\"properties\":{}}}]";

static void fake_log(struct sbx_host_state *self, int level, const char *message) {
}

static uint64_t fake_clock_ns(struct sbx_host_state *self) {
        struct timespec now;

        if (self->now_ns != 0)
                return self->now_ns;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static const char *fake_directory(struct sbx_host_state *self, const char *name) {
        return strcmp(name, "state") == 0 ? self->state_directory : NULL;
}

/* ---- outputs ------------------------------------------------------------------------------------------- */

static int fake_output_new(struct sbx_host_state *self, size_t max_bytes, struct sbx_output **ret_output) {
        struct sbx_output *output = calloc(1, sizeof(*output));

        if (output == NULL)
                return -ENOMEM;
        output->max = max_bytes;
        pthread_mutex_lock(&self->lock);
        self->live_outputs++;
        pthread_mutex_unlock(&self->lock);
        *ret_output = output;
        return 0;
}

static int fake_output_append(struct sbx_host_state *self, struct sbx_output *output, const void *data, size_t size) {
        char *grown;

        if (size > output->max - output->size)
                return -EFBIG;
        grown = realloc(output->data, output->size + size + 1);
        if (grown == NULL)
                return -ENOMEM;
        output->data = grown;
        memcpy(output->data + output->size, data, size);
        output->size += size;
        return 0;
}

static struct sbx_bytes fake_output_bytes(struct sbx_host_state *self, const struct sbx_output *output) {
        return (struct sbx_bytes){output->data, output->size};
}

static void fake_output_free(struct sbx_host_state *self, struct sbx_output *output) {
        if (output == NULL)
                return;
        pthread_mutex_lock(&self->lock);
        self->live_outputs--;
        pthread_mutex_unlock(&self->lock);
        free(output->data);
        free(output);
}

/* ---- lists and figures --------------------------------------------------------------------------------- */

static int fake_list(struct sbx_host_state *self, int list, struct sbx_output *ret_json, struct sbx_error *err) {
        const char *text = list == SBX_LIST_TOOLS     ? self->tools
                           : list == SBX_LIST_PROMPTS ? self->prompts
                                                      : self->templates;

        pthread_mutex_lock(&self->lock);
        self->list_calls++;
        pthread_mutex_unlock(&self->lock);
        if (text == NULL)
                return sbx_error_set(err, -EIO, "fake", "Try again.", "no list today");
        return fake_output_append(self, ret_json, text, strlen(text));
}

static int fake_tool_list(struct sbx_host_state *self, struct sbx_output *ret_json, struct sbx_error *err) {
        return fake_list(self, SBX_LIST_TOOLS, ret_json, err);
}

static int fake_metrics(struct sbx_host_state *self, struct sbx_output *ret_text, struct sbx_error *err) {
        if (self->metrics == NULL)
                return sbx_error_set(err, -EIO, "fake", NULL, "no figures today");
        return fake_output_append(self, ret_text, self->metrics, strlen(self->metrics));
}

static int fake_ready(struct sbx_host_state *self, struct sbx_error *err) {
        if (self->ready_status == 0)
                return 0;
        return sbx_error_set(err, self->ready_status, "fake", NULL, "not ready");
}

/* ---- changes ------------------------------------------------------------------------------------------- */

static void fake_changed(struct sbx_host_state *self, const struct sbx_change *change) {
        pthread_mutex_lock(&self->watch_lock);
        for (size_t i = 0; i < FAKE_WATCHES_MAX; i++)
                if (self->watches[i].changed != NULL)
                        self->watches[i].changed(self->watches[i].data, change);
        pthread_mutex_unlock(&self->watch_lock);
}

static int fake_watch(struct sbx_host_state *self, void (*changed)(void *data, const struct sbx_change *change),
                      void *data, struct sbx_watch **ret_watch, struct sbx_error *err) {
        struct sbx_watch *found = NULL;

        if (self->watch_status != 0)
                return sbx_error_set(err, self->watch_status, "fake", NULL, "nothing to watch");
        pthread_mutex_lock(&self->watch_lock);
        for (size_t i = 0; i < FAKE_WATCHES_MAX && found == NULL; i++)
                if (self->watches[i].changed == NULL)
                        found = &self->watches[i];
        if (found != NULL)
                *found = (struct sbx_watch){changed, data};
        pthread_mutex_unlock(&self->watch_lock);
        if (found == NULL)
                return sbx_error_set(err, -EBUSY, "fake", NULL, "no room for a watch");
        *ret_watch = found;
        return 0;
}

static void fake_unwatch(struct sbx_host_state *self, struct sbx_watch *watch) {
        if (watch == NULL)
                return;
        pthread_mutex_lock(&self->watch_lock);
        *watch = (struct sbx_watch){NULL, NULL};
        pthread_mutex_unlock(&self->watch_lock);
}

void fake_host_changed(struct sbx_host_state *fake, uint32_t kind, const char *uri, const char *principal) {
        const struct sbx_change change = {
                .struct_size = sizeof(change), .kind = kind, .uri = uri, .principal = principal};

        fake_changed(fake, &change);
}

/* ---- requests ------------------------------------------------------------------------------------------ */

static void free_task(struct sbx_tool_task *task) {
        free(task->name);
        free(task->arguments);
        free(task->principal);
        if (task->cancel_fd >= 0)
                close(task->cancel_fd);
}

static int copy_request(const struct sbx_request *request, const struct sbx_client *client,
                        const struct sbx_request_done *done, struct sbx_tool_task *ret) {
        *ret = (struct sbx_tool_task){
                .kind = request->kind,
                .name = strdup(request->name != NULL ? request->name : ""),
                .arguments =
                        strndup(request->arguments.size > 0 ? request->arguments.data : "", request->arguments.size),
                .principal = strdup(request->principal),
                .has_client = client != NULL,
                .done = *done,
                .cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
        };
        if (client != NULL)
                ret->client = *client;
        if (ret->name != NULL && ret->arguments != NULL && ret->principal != NULL && ret->cancel_fd >= 0)
                return 0;
        free_task(ret);
        return -ENOMEM;
}

struct script_start {
        struct sbx_host_state *fake;
        size_t task;
};

static void *run_script(void *data) {
        struct script_start start = *(struct script_start *)data;

        free(data);
        start.fake->script(start.fake, start.task);
        return NULL;
}

static void start_script(struct sbx_host_state *self, size_t task) {
        struct script_start *start = malloc(sizeof(*start));
        pthread_t thread;

        if (start == NULL)
                abort();
        *start = (struct script_start){self, task};
        if (pthread_create(&thread, NULL, run_script, start) != 0)
                abort();
        pthread_mutex_lock(&self->lock);
        self->tasks[task].thread = thread;
        self->tasks[task].scripted = true;
        pthread_mutex_unlock(&self->lock);
}

static int fake_request_submit(struct sbx_host_state *self, const struct sbx_request *request,
                               const struct sbx_client *client, const struct sbx_request_done *done,
                               struct sbx_tool_task **ret_task, struct sbx_error *err) {
        struct sbx_tool_task task;
        size_t index;

        assert(request->struct_size == sizeof(*request));
        if (self->submit_status != 0)
                return sbx_error_set(err, self->submit_status, "fake", NULL, "not submitted");
        if (copy_request(request, client, done, &task) < 0)
                return sbx_error_set(err, -ENOMEM, "fake", NULL, "out of memory");
        pthread_mutex_lock(&self->lock);
        index = self->task_count;
        if (index < FAKE_TASKS_MAX) {
                self->tasks[index] = task;
                *ret_task = &self->tasks[index];
                self->task_count++;
        }
        pthread_mutex_unlock(&self->lock);
        if (index == FAKE_TASKS_MAX) {
                free_task(&task);
                return sbx_error_set(err, -EBUSY, "fake", NULL, "no room");
        }
        if (self->end_in_submit)
                fake_host_end(self, index, 0, self->submit_result);
        else if (self->script != NULL)
                start_script(self, index);
        return 0;
}

static void fake_tool_cancel(struct sbx_host_state *self, struct sbx_tool_task *task) {
        const uint64_t one = 1;
        bool end;

        pthread_mutex_lock(&self->lock);
        assert(!task->released);
        end = task->cancelled++ == 0 && self->end_on_cancel && !task->ended;
        pthread_mutex_unlock(&self->lock);
        if (write(task->cancel_fd, &one, sizeof(one)) < 0)
                abort();
        if (end)
                fake_host_end(self, (size_t)(task - self->tasks), -ECANCELED, "cancelled");
}

static void fake_tool_release(struct sbx_host_state *self, struct sbx_tool_task *task) {
        pthread_mutex_lock(&self->lock);
        assert(!task->released);
        task->released = true;
        pthread_mutex_unlock(&self->lock);
}

/* ---- for the tests ------------------------------------------------------------------------------------- */

void fake_host_init(struct sbx_host_state *fake) {
        *fake = (struct sbx_host_state){
                .services = {.struct_size = sizeof(fake->services),
                             .abi_major = SBX_ABI_MAJOR,
                             .abi_minor = SBX_ABI_MINOR,
                             .self = fake,
                             .instance_name = "mcp",
                             .version = "1.2.3",
                             .log = fake_log,
                             .clock_ns = fake_clock_ns,
                             .output_append = fake_output_append,
                             .directory = fake_directory,
                             .tool_list = fake_tool_list,
                             .tool_cancel = fake_tool_cancel,
                             .tool_release = fake_tool_release,
                             .output_new = fake_output_new,
                             .output_bytes = fake_output_bytes,
                             .output_free = fake_output_free,
                             .list = fake_list,
                             .request_submit = fake_request_submit,
                             .changed = fake_changed,
                             .watch = fake_watch,
                             .unwatch = fake_unwatch,
                             .metrics = fake_metrics,
                             .ready = fake_ready},
                .tools = fake_tools,
                .prompts = "[]",
                .templates = "[]",
                .submit_result = "{\"content\":[]}",
                .metrics = "# TYPE fake counter\nfake 1\n",
        };
        fake_options_install(&fake->services);
        pthread_mutex_init(&fake->lock, NULL);
        pthread_mutex_init(&fake->watch_lock, NULL);
}

static void join_scripts(struct sbx_host_state *fake) {
        for (size_t i = 0; i < fake_host_task_count(fake); i++) {
                bool scripted;
                pthread_t thread;

                pthread_mutex_lock(&fake->lock);
                scripted = fake->tasks[i].scripted;
                thread = fake->tasks[i].thread;
                fake->tasks[i].scripted = false;
                pthread_mutex_unlock(&fake->lock);
                if (scripted)
                        pthread_join(thread, NULL);
        }
}

void fake_host_check(struct sbx_host_state *fake) {
        join_scripts(fake);
        assert(fake->live_outputs == 0);
        for (size_t i = 0; i < fake->task_count; i++)
                assert(fake->tasks[i].released);
        for (size_t i = 0; i < FAKE_WATCHES_MAX; i++)
                assert(fake->watches[i].changed == NULL);
}

void fake_host_free(struct sbx_host_state *fake) {
        join_scripts(fake);
        for (size_t i = 0; i < fake->task_count; i++)
                free_task(&fake->tasks[i]);
        pthread_mutex_destroy(&fake->watch_lock);
        pthread_mutex_destroy(&fake->lock);
}

size_t fake_host_task_count(struct sbx_host_state *fake) {
        size_t count;

        pthread_mutex_lock(&fake->lock);
        count = fake->task_count;
        pthread_mutex_unlock(&fake->lock);
        return count;
}

void fake_host_await_tasks(struct sbx_host_state *fake, size_t count) {
        for (int i = 0; i < 10000; i++) {
                if (fake_host_task_count(fake) >= count)
                        return;
                poll(NULL, 0, 1);
        }
        abort();
}

void fake_host_await_cancel(struct sbx_host_state *fake, size_t task) {
        struct pollfd fd = {.fd = fake->tasks[task].cancel_fd, .events = POLLIN};

        if (poll(&fd, 1, 10000) != 1)
                abort();
}

static struct sbx_tool_task look_at_task(struct sbx_host_state *fake, size_t task, bool end) {
        struct sbx_tool_task copy;

        pthread_mutex_lock(&fake->lock);
        assert(task < fake->task_count && !fake->tasks[task].ended);
        fake->tasks[task].ended = end;
        copy = fake->tasks[task];
        pthread_mutex_unlock(&fake->lock);
        return copy;
}

void fake_host_end(struct sbx_host_state *fake, size_t task, int status, const char *text) {
        struct sbx_request_done done = look_at_task(fake, task, true).done;
        struct sbx_error err = {0};

        if (status == 0) {
                done.done(done.data, 0, (struct sbx_bytes){text, strlen(text)}, NULL);
                return;
        }
        sbx_error_set(&err, status, "fake", NULL, "%s", text);
        done.done(done.data, status, (struct sbx_bytes){NULL, 0}, &err);
}

void fake_host_progress(struct sbx_host_state *fake, size_t task, double progress, double total, const char *message) {
        const struct sbx_client client = look_at_task(fake, task, false).client;

        if (client.progress != NULL)
                client.progress(client.data, progress, total, message);
}

void fake_host_log(struct sbx_host_state *fake, size_t task, const char *level, const char *logger, const char *value) {
        const struct sbx_client client = look_at_task(fake, task, false).client;

        if (client.log != NULL)
                client.log(client.data, level, logger, (struct sbx_bytes){value, strlen(value)});
}

int fake_host_ask(struct sbx_host_state *fake, size_t task, const char *requests, uint64_t timeout_ms,
                  char **ret_responses, struct sbx_error *err) {
        const struct sbx_tool_task copy = look_at_task(fake, task, false);
        const struct sbx_call call = {
                .struct_size = sizeof(call),
                .cancel_fd = copy.cancel_fd,
                .deadline_ns = timeout_ms != 0 ? fake_clock_ns(fake) + timeout_ms * 1000000 : 0,
        };
        struct sbx_output *output = NULL;
        int r;

        if (copy.client.ask == NULL)
                return sbx_error_set(err, -ENOTSUP, "fake", NULL, "there is nobody to ask");
        if (fake_output_new(fake, 1 << 20, &output) < 0)
                return sbx_error_set(err, -ENOMEM, "fake", NULL, "out of memory");
        r = copy.client.ask(copy.client.data, (struct sbx_bytes){requests, strlen(requests)}, &call, output, err);
        if (r == 0 && ret_responses != NULL)
                *ret_responses = strndup(output->data != NULL ? output->data : "", output->size);
        fake_output_free(fake, output);
        return r;
}

int fake_host_become_task(struct sbx_host_state *fake, size_t task) {
        const struct sbx_client client = look_at_task(fake, task, false).client;

        return client.become_task != NULL ? client.become_task(client.data) : 0;
}

void fake_host_close_stream(struct sbx_host_state *fake, size_t task, uint32_t retry_ms) {
        const struct sbx_client client = look_at_task(fake, task, false).client;

        if (client.close_stream != NULL)
                client.close_stream(client.data, retry_ms);
}

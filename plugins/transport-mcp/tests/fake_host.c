/* SPDX-License-Identifier: Apache-2.0 */
/* The services of struct sbx_host, as far as a transport uses them. */
#include "fake_host.h"

#include <assert.h>
#include <stdlib.h>
#include <time.h>

struct sbx_output {
        char *data;
        size_t size, max;
};

const char fake_tools[] = "[{\"name\":\"echo\",\"title\":\"Echo\",\"description\":\"Says it again\","
                          "\"inputSchema\":{\"type\":\"object\",\"properties\":{}}}]";

static void fake_log(struct sbx_host_state *self, int level, const char *message) {
}

static int64_t fake_option_int(struct sbx_host_state *self, const char *name) {
        if (strcmp(name, "max_calls") == 0)
                return 64;
        assert(strcmp(name, "max_message") == 0);
        return 1 << 20;
}

static uint64_t fake_clock_ns(struct sbx_host_state *self) {
        struct timespec now;

        if (self->now_ns != 0)
                return self->now_ns;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
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

/* ---- tools --------------------------------------------------------------------------------------------- */

static int fake_tool_list(struct sbx_host_state *self, struct sbx_output *ret_json, struct sbx_error *err) {
        if (self->tools == NULL)
                return sbx_error_set(err, -EIO, "fake", "Try again.", "no list today");
        return fake_output_append(self, ret_json, self->tools, strlen(self->tools));
}

static void free_task(struct sbx_tool_task *task) {
        free(task->name);
        free(task->arguments);
        free(task->principal);
}

static int fake_tool_submit(struct sbx_host_state *self, const char *name, struct sbx_bytes arguments,
                            const char *principal, const struct sbx_tool_events *events,
                            struct sbx_tool_task **ret_task, struct sbx_error *err) {
        struct sbx_tool_task task = {.events = *events};
        size_t index;

        if (self->submit_status != 0)
                return sbx_error_set(err, self->submit_status, "fake", NULL, "not submitted");
        task.name = strdup(name);
        task.arguments = strndup(arguments.data, arguments.size);
        task.principal = strdup(principal);
        if (task.name == NULL || task.arguments == NULL || task.principal == NULL) {
                free_task(&task);
                return sbx_error_set(err, -ENOMEM, "fake", NULL, "out of memory");
        }
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
                fake_host_end(self, index, 0, "{\"content\":[]}");
        return 0;
}

static void fake_tool_cancel(struct sbx_host_state *self, struct sbx_tool_task *task) {
        bool end;

        pthread_mutex_lock(&self->lock);
        assert(!task->released);
        end = task->cancelled++ == 0 && self->end_on_cancel && !task->ended;
        pthread_mutex_unlock(&self->lock);
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
                             .option_int = fake_option_int,
                             .clock_ns = fake_clock_ns,
                             .output_append = fake_output_append,
                             .tool_list = fake_tool_list,
                             .tool_submit = fake_tool_submit,
                             .tool_cancel = fake_tool_cancel,
                             .tool_release = fake_tool_release,
                             .output_new = fake_output_new,
                             .output_bytes = fake_output_bytes,
                             .output_free = fake_output_free},
                .tools = fake_tools,
        };
        pthread_mutex_init(&fake->lock, NULL);
}

void fake_host_check(struct sbx_host_state *fake) {
        assert(fake->live_outputs == 0);
        for (size_t i = 0; i < fake->task_count; i++)
                assert(fake->tasks[i].released);
}

void fake_host_free(struct sbx_host_state *fake) {
        for (size_t i = 0; i < fake->task_count; i++)
                free_task(&fake->tasks[i]);
        pthread_mutex_destroy(&fake->lock);
}

size_t fake_host_task_count(struct sbx_host_state *fake) {
        size_t count;

        pthread_mutex_lock(&fake->lock);
        count = fake->task_count;
        pthread_mutex_unlock(&fake->lock);
        return count;
}

static struct sbx_tool_events task_events(struct sbx_host_state *fake, size_t task, bool end) {
        struct sbx_tool_events events;

        pthread_mutex_lock(&fake->lock);
        events = fake->tasks[task].events;
        assert(!fake->tasks[task].ended);
        fake->tasks[task].ended = end;
        pthread_mutex_unlock(&fake->lock);
        return events;
}

void fake_host_end(struct sbx_host_state *fake, size_t task, int status, const char *text) {
        struct sbx_tool_events events = task_events(fake, task, true);
        struct sbx_error err = {0};

        if (status == 0) {
                events.done(events.data, 0, (struct sbx_bytes){text, strlen(text)}, NULL);
                return;
        }
        sbx_error_set(&err, status, "fake", NULL, "%s", text);
        events.done(events.data, status, (struct sbx_bytes){NULL, 0}, &err);
}

void fake_host_progress(struct sbx_host_state *fake, size_t task, double progress, double total, const char *message) {
        struct sbx_tool_events events = task_events(fake, task, false);

        events.progress(events.data, progress, total, message);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A program that serves the plugin over its standard streams, with tools that need no sandbox: what the transport does
 * can be tested alone, under sanitizers too. Usage: transport-mcp-host PLUGIN.so [OPTION=VALUE...] */
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <snipara-sandbox/transport.h>

#include "fake_host.h"

struct call {
        struct sbx_client client;
        struct sbx_request_done done;
        char *name, *arguments;
        int cancel_fd;
        pthread_mutex_t lock; /* protects `refs` */
        int refs;
};

static void call_unref(struct call *call) {
        int refs;

        pthread_mutex_lock(&call->lock);
        refs = --call->refs;
        pthread_mutex_unlock(&call->lock);
        if (refs > 0)
                return;
        pthread_mutex_destroy(&call->lock);
        close(call->cancel_fd);
        free(call->name);
        free(call->arguments);
        free(call);
}

/* The number behind `"key":` in arguments; these tools need no more. */
static long argument(const struct call *call, const char *key, long otherwise) {
        const char *found = strstr(call->arguments, key);
        long value = 0;

        if (found == NULL)
                return otherwise;
        for (found += strlen(key) + 2; *found >= '0' && *found <= '9'; found++)
                value = value * 10 + (*found - '0');
        return value;
}

static bool wait_ms(struct call *call, long ms) {
        struct pollfd fd = {.fd = call->cancel_fd, .events = POLLIN};

        return poll(&fd, 1, (int)ms) == 0;
}

static void end_with_text(struct call *call, const char *text, size_t size) {
        static const char before[] = "{\"content\":[{\"type\":\"text\",\"text\":\"",
                          after[] = "\"}],\"isError\":false}";
        char *json = malloc(sizeof(before) + size + sizeof(after));

        if (json == NULL)
                abort();
        memcpy(json, before, sizeof(before) - 1);
        memcpy(json + sizeof(before) - 1, text, size);
        memcpy(json + sizeof(before) - 1 + size, after, sizeof(after) - 1);
        call->done.done(call->done.data, 0, (struct sbx_bytes){json, sizeof(before) + size + sizeof(after) - 2}, NULL);
        free(json);
}

static void run_big(struct call *call) {
        long size = argument(call, "size", 1000);
        char *text = malloc((size_t)size + 1);

        if (text == NULL)
                abort();
        memset(text, 'x', (size_t)size);
        end_with_text(call, text, (size_t)size);
        free(text);
}

static bool run_steps(struct call *call) {
        long steps = argument(call, "steps", 3), ms = argument(call, "ms", 0);

        for (long i = 1; i <= steps; i++) {
                if (!wait_ms(call, ms))
                        return false;
                if (call->client.progress != NULL)
                        call->client.progress(call->client.data, (double)i, (double)steps, "step");
        }
        return true;
}

static void *run(void *data) {
        struct call *call = data;
        struct sbx_error err = {0};
        int status = 0;

        if (strcmp(call->name, "echo") == 0)
                end_with_text(call, "echo", 4);
        else if (strcmp(call->name, "big") == 0)
                run_big(call);
        else if (strcmp(call->name, "sleep") != 0 && strcmp(call->name, "progress") != 0)
                status = sbx_error_set(&err, -ENOENT, "host", NULL, "unknown tool \"%s\"", call->name);
        else if (strcmp(call->name, "sleep") == 0 ? wait_ms(call, argument(call, "ms", 0)) : run_steps(call))
                end_with_text(call, "done", 4);
        else
                status = sbx_error_set(&err, -ECANCELED, "host", NULL, "cancelled");
        if (status != 0)
                call->done.done(call->done.data, status, (struct sbx_bytes){NULL, 0}, &err);
        call_unref(call);
        return NULL;
}

static int submit(struct sbx_host_state *self, const struct sbx_request *request, const struct sbx_client *client,
                  const struct sbx_request_done *done, struct sbx_tool_task **ret_task, struct sbx_error *err) {
        struct call *call = calloc(1, sizeof(*call));
        pthread_attr_t attributes;
        pthread_t thread;
        int r;

        if (call == NULL)
                abort();
        *call = (struct call){.client = *client,
                              .done = *done,
                              .name = strdup(request->name),
                              .arguments = strndup(request->arguments.size > 0 ? request->arguments.data : "",
                                                   request->arguments.size),
                              .cancel_fd = eventfd(0, EFD_CLOEXEC),
                              .refs = 2};
        pthread_mutex_init(&call->lock, NULL);
        pthread_attr_init(&attributes);
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        *ret_task = (struct sbx_tool_task *)call;
        r = pthread_create(&thread, &attributes, run, call);
        pthread_attr_destroy(&attributes);
        if (r != 0 || call->name == NULL || call->arguments == NULL || call->cancel_fd < 0)
                abort();
        return 0;
}

static void cancel(struct sbx_host_state *self, struct sbx_tool_task *task) {
        struct call *call = (struct call *)task;
        const uint64_t one = 1;

        if (write(call->cancel_fd, &one, sizeof(one)) < 0)
                abort();
}

static void release(struct sbx_host_state *self, struct sbx_tool_task *task) {
        call_unref((struct call *)task);
}

static const struct sbx_plugin *load(const char *path) {
        const struct sbx_plugin *(*entry)(void);
        void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        void *symbol = handle != NULL ? dlsym(handle, SBX_PLUGIN_ENTRY_SYMBOL) : NULL;

        if (symbol == NULL) {
                fprintf(stderr, "%s\n", dlerror());
                exit(2);
        }
        memcpy(&entry, &symbol, sizeof(entry));
        return entry();
}

/* As the program does: the protocol has the streams for itself, and SIGTERM cancels. */
static int serve(const struct sbx_plugin *plugin, struct sbx_host_state *host, struct sbx_error *err) {
        const struct sbx_transport_ops *ops = plugin->ops;
        struct sbx_call call = {.struct_size = sizeof(call)};
        void *instance = NULL;
        int input = fcntl(0, F_DUPFD_CLOEXEC, 3), output = fcntl(1, F_DUPFD_CLOEXEC, 3), r;
        sigset_t signals;

        sigemptyset(&signals);
        sigaddset(&signals, SIGTERM);
        pthread_sigmask(SIG_BLOCK, &signals, NULL);
        signal(SIGPIPE, SIG_IGN);
        call.cancel_fd = signalfd(-1, &signals, SFD_CLOEXEC);
        if (input < 0 || output < 0 || call.cancel_fd < 0 || dup2(2, 1) < 0)
                return -errno;
        r = plugin->open(&host->services, &instance, err);
        if (r == 0) {
                r = ops->serve(instance, input, output, &call, err);
                plugin->close(instance);
        }
        close(input);
        close(output);
        close(call.cancel_fd);
        return r;
}

int main(int argc, char **argv) {
        const struct sbx_plugin *plugin;
        struct sbx_host_state host;
        struct sbx_error err = {0};
        int r;

        if (argc < 2) {
                fprintf(stderr, "usage: transport-mcp-host PLUGIN.so [OPTION=VALUE...]\n");
                return 2;
        }
        plugin = load(argv[1]);
        fake_host_init(&host);
        host.options = plugin->options;
        host.settings = (const char *const *)argv + 2;
        host.services.request_submit = submit;
        host.services.tool_cancel = cancel;
        host.services.tool_release = release;
        r = serve(plugin, &host, &err);
        if (r < 0)
                fprintf(stderr, "%s\n", err.message);
        fake_host_check(&host);
        fake_host_free(&host);
        return r < 0;
}

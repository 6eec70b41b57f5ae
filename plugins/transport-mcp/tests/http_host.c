/* SPDX-License-Identifier: Apache-2.0 */
/* A program that serves the plugin over HTTP, with tools that need no sandbox. Usage: transport-mcp-http-host PLUGIN.so
 * [NAME=VALUE...]: options of the plugin. The address comes on standard output; a line on standard input tells of a
 * change: "tools", "prompts", "resources", or "resource URI". */
#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <snipara-sandbox/transport.h>

#include "fake_host.h"

#define TOOL(name, properties)                                                                                         \
        "{\"name\":\"" name "\",\"title\":\"" name "\",\"description\":\"For tests\",\"inputSchema\":{"                \
        "\"type\":\"object\",\"properties\":{" properties "}}}"

static const char tools[] =
        "[" TOOL("echo", "") "," TOOL("sleep", "\"ms\":{\"type\":\"integer\"}") "," TOOL("steps", "") "," TOOL("ask", "") "," TOOL(
                "poll",
                "") "," TOOL("big",
                             "\"size\":{\"type\":\"integer\"}") "," TOOL("route",
                                                                         "\"region\":{\"type\":\"string\",\"x-mcp-header\":\"Region\"},"
                                                                         "\"count\":{\"type\":\"integer\",\"x-mcp-header\":\"Count\"},"
                                                                         "\"fast\":{\"type\":\"boolean\",\"x-mcp-header\":\"Fast\"},"
                                                                         "\"where\":{\"type\":\"object\",\"properties\":{\"zone\":{\"type\":\"string\","
                                                                         "\"x-mcp-header\":\"Zone\"}}}") "]";

/* The number behind `"key":` in arguments; these tools need no more. */
static long argument(const char *arguments, const char *key, long otherwise) {
        const char *found = strstr(arguments, key);
        long value = 0;

        if (found == NULL)
                return otherwise;
        for (found += strlen(key) + 1; *found == ':' || *found == ' '; found++)
                ;
        for (; *found >= '0' && *found <= '9'; found++)
                value = value * 10 + (*found - '0');
        return value;
}

/* False: cancelled meanwhile. */
static bool wait_ms(struct sbx_host_state *host, size_t task, long ms) {
        struct pollfd fd = {.fd = host->tasks[task].cancel_fd, .events = POLLIN};

        return poll(&fd, 1, (int)ms) == 0;
}

static void end_text(struct sbx_host_state *host, size_t task, const char *text) {
        size_t size = strlen(text) + 128;
        char *json = malloc(size);

        if (json == NULL)
                abort();
        snprintf(json, size, "{\"content\":[{\"type\":\"text\",\"text\":\"%s\"}],\"isError\":false}", text);
        fake_host_end(host, task, 0, json);
        free(json);
}

static void end_cancelled(struct sbx_host_state *host, size_t task) {
        fprintf(stderr, "cancelled\n"); /* the tests wait for it */
        fake_host_end(host, task, -ECANCELED, "cancelled");
}

static void end_after(struct sbx_host_state *host, size_t task, long ms) {
        if (wait_ms(host, task, ms))
                end_text(host, task, "done");
        else
                end_cancelled(host, task);
}

static void run_steps(struct sbx_host_state *host, size_t task) {
        long steps = argument(host->tasks[task].arguments, "\"steps\"", 3);
        long ms = argument(host->tasks[task].arguments, "\"ms\"", 10);

        for (long i = 1; i <= steps; i++) {
                fake_host_progress(host, task, (double)i, (double)steps, "step");
                fake_host_log(host, task, "info", "steps", "\"step\"");
                if (!wait_ms(host, task, ms)) {
                        end_cancelled(host, task);
                        return;
                }
        }
        end_text(host, task, "done");
}

static void run_ask(struct sbx_host_state *host, size_t task) {
        struct sbx_error err = {0};
        char *responses = NULL;
        int r = fake_host_ask(host, task,
                              "{\"name\":{\"method\":\"elicitation/create\",\"params\":{\"mode\":\"form\",\"message\":"
                              "\"Who?\",\"requestedSchema\":{\"type\":\"object\",\"properties\":{}}}}}",
                              60000, &responses, &err);

        if (r == 0)
                end_text(host, task, "answered");
        else if (r == -ECANCELED)
                end_cancelled(host, task);
        else
                end_text(host, task, "refused");
        free(responses);
}

static void run_big(struct sbx_host_state *host, size_t task) {
        size_t size = (size_t)argument(host->tasks[task].arguments, "\"size\"", 1000);
        char *text = malloc(size + 1);

        if (text == NULL)
                abort();
        memset(text, 'x', size);
        text[size] = '\0';
        if (argument(host->tasks[task].arguments, "\"stream\"", 0) > 0)
                fake_host_log(host, task, "info", "big", "\"here it comes\"");
        end_text(host, task, text);
        free(text);
}

static void script(struct sbx_host_state *host, size_t task) {
        const char *name = host->tasks[task].name;

        if (host->tasks[task].kind != SBX_REQUEST_TOOL)
                fake_host_end(host, task, -ENOENT, "there is no such thing");
        else if (strcmp(name, "sleep") == 0)
                end_after(host, task, argument(host->tasks[task].arguments, "\"ms\"", 0));
        else if (strcmp(name, "steps") == 0)
                run_steps(host, task);
        else if (strcmp(name, "ask") == 0)
                run_ask(host, task);
        else if (strcmp(name, "big") == 0)
                run_big(host, task);
        else if (strcmp(name, "poll") == 0) {
                fake_host_close_stream(host, task, 20);
                end_after(host, task, argument(host->tasks[task].arguments, "\"ms\"", 100));
        } else if (strcmp(name, "echo") == 0 || strcmp(name, "route") == 0)
                end_text(host, task, name);
        else
                fake_host_end(host, task, -ENOENT, "unknown tool");
}

static void *read_changes(void *data) {
        struct sbx_host_state *host = data;
        char line[256];

        while (fgets(line, sizeof(line), stdin) != NULL) {
                line[strcspn(line, "\n")] = '\0';
                if (strcmp(line, "tools") == 0)
                        fake_host_changed(host, SBX_CHANGE_TOOLS, NULL, NULL);
                else if (strcmp(line, "prompts") == 0)
                        fake_host_changed(host, SBX_CHANGE_PROMPTS, NULL, NULL);
                else if (strcmp(line, "resources") == 0)
                        fake_host_changed(host, SBX_CHANGE_RESOURCES, NULL, NULL);
                else if (strncmp(line, "resource ", 9) == 0)
                        fake_host_changed(host, SBX_CHANGE_RESOURCE, line + 9, NULL);
        }
        return NULL;
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

static int serve(const struct sbx_plugin *plugin, struct sbx_host_state *host, struct sbx_error *err) {
        const struct sbx_transport_ops *ops = plugin->ops;
        struct sbx_call call = {.struct_size = sizeof(call)};
        void *instance = NULL;
        pthread_t changes;
        sigset_t signals;
        int r;

        sigemptyset(&signals);
        sigaddset(&signals, SIGTERM);
        pthread_sigmask(SIG_BLOCK, &signals, NULL);
        signal(SIGPIPE, SIG_IGN);
        call.cancel_fd = signalfd(-1, &signals, SFD_CLOEXEC);
        if (call.cancel_fd < 0 || pthread_create(&changes, NULL, read_changes, host) != 0)
                return -errno;
        r = plugin->open(&host->services, &instance, err);
        if (r == 0) {
                r = ops->serve(instance, -1, STDOUT_FILENO, &call, err);
                plugin->close(instance);
        }
        pthread_detach(changes); /* it reads until this program ends */
        close(call.cancel_fd);
        return r;
}

int main(int argc, char **argv) {
        char directory[] = "/tmp/transport-mcp-http-XXXXXX";
        const struct sbx_plugin *plugin;
        struct sbx_host_state host;
        struct sbx_error err = {0};
        int r;

        if (argc < 2 || mkdtemp(directory) == NULL) {
                fprintf(stderr, "usage: transport-mcp-http-host PLUGIN.so [NAME=VALUE...]\n");
                return 2;
        }
        fake_host_init(&host);
        plugin = load(argv[1]);
        host.options = plugin->options;
        host.settings = (const char *const *)argv + 2;
        host.tools = tools;
        host.state_directory = directory;
        host.script = script;
        r = serve(plugin, &host, &err);
        if (r < 0)
                fprintf(stderr, "error: %s\nhint: %s\n", err.message, err.hint);
        fake_host_check(&host);
        fake_host_free(&host);
        (void)rmdir(directory); /* tasks may have left something there, to be looked at */
        return r < 0;
}

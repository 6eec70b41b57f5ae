/* SPDX-License-Identifier: Apache-2.0 */
/* context-files: the descriptor and the lifecycle of an instance. */
#include <fcntl.h>
#include <snipara-sandbox/context.h>

#include "calls.h"

static int check_host(const struct sbx_host *host, struct sbx_error *err) {
        if (host->struct_size < offsetof(struct sbx_host, setting) + sizeof(host->setting) || host->setting == NULL)
                return sbx_error_set(err, -ENOTSUP, FILES_ORIGIN,
                                     "Use the snipara-sandbox that this plugin was built for, or a newer one.",
                                     "the host is too old");
        return 0;
}

static void instance_close(void *data) {
        struct files *files = data;

        refresh_free(files->refresh);
        database_free(files->database);
        options_free(&files->options);
        free(files);
}

static int instance_open(const struct sbx_host *host, void **ret_instance, struct sbx_error *err) {
        struct files *files;
        int r = check_host(host, err);

        if (r == 0)
                r = database_check_sqlite(err);
        if (r < 0)
                return r;
        files = calloc(1, sizeof(*files));
        if (files == NULL)
                return files_nomem(err);
        r = options_read(host, &files->options, err);
        if (r == 0)
                r = database_new(host, files->options.database, &files->database, err);
        if (r == 0)
                r = refresh_new(&files->options, files->database, &files->refresh, err);
        if (r < 0) {
                instance_close(files);
                return r;
        }
        *ret_instance = files;
        return 0;
}

/* Cheap: the first call indexes. */
static int instance_start(void *data, const struct sbx_call *call, struct sbx_error *err) {
        struct files *files = data;
        int r = options_make_directory(&files->options, err);

        if (r == 0)
                refresh_resume(files->refresh);
        return r;
}

static void instance_stop(void *data) {
        refresh_stop(((struct files *)data)->refresh);
}

static int instance_tools(void *data, struct sbx_output *ret_json, struct sbx_error *err) {
        return files_tools(data, ret_json, err);
}

static int instance_call(void *data, const char *tool, struct sbx_bytes arguments, const struct sbx_call *call,
                         struct sbx_output *ret_result, struct sbx_error *err) {
        return files_call(data, tool, arguments, call, ret_result, err);
}

static int probe_database(struct files *files, const struct sbx_call *call, struct sbx_error *err) {
        struct connection *connection = NULL;
        int r = options_make_directory(&files->options, err);

        if (r == 0)
                r = database_take(files->database, call, &connection, err);
        database_give(connection);
        return r;
}

static int instance_probe(void *data, const struct sbx_probe_events *events, const struct sbx_call *call) {
        struct files *files = data;
        struct sbx_error err = {0};
        int fd = open(files->options.project, O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = fd < 0 ? -errno : 0;

        if (fd >= 0)
                close(fd);
        events->report(events->data, r < 0 ? SBX_PROBE_FAILED : SBX_PROBE_OK, "project", files->options.project,
                       r < 0 ? "Make the directory readable." : NULL);
        if (r < 0)
                return r;
        r = probe_database(files, call, &err);
        events->report(events->data, r < 0 ? SBX_PROBE_FAILED : SBX_PROBE_OK, "index",
                       r < 0 ? err.message : files->options.database, r < 0 && err.hint[0] != '\0' ? err.hint : NULL);
        return r;
}

static const struct sbx_context_ops ops = {
        .struct_size = sizeof(ops),
        .tools = instance_tools,
        .call = instance_call,
};

static const struct sbx_plugin plugin = {
        .struct_size = sizeof(plugin),
        .abi_major = SBX_ABI_MAJOR,
        .abi_minor = SBX_ABI_MINOR,
        .kind = SBX_PLUGIN_CONTEXT,
        .name = "context-files",
        .version = SBX_VERSION,
        .summary = "Full-text index of the project's files, and memories, without an account",
        .license = "Apache-2.0",
        .options = files_option_table,
        .ops = &ops,
        .open = instance_open,
        .start = instance_start,
        .stop = instance_stop,
        .close = instance_close,
        .probe = instance_probe,
};

const struct sbx_plugin *sbx_plugin_entry_v1(void) {
        return &plugin;
}

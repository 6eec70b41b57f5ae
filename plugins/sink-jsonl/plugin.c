/* SPDX-License-Identifier: Apache-2.0 */
/* sink-jsonl: the descriptor, the options and the lifecycle of an instance. */
#include <fcntl.h>
#include <sys/stat.h>

#include <snipara-sandbox/sink.h>

#include "files.h"

struct jsonl {
        const struct sbx_host *host;
        struct jsonl_files files;
        bool sync_each;
};

static const struct sbx_option options[] = {
        {
                .struct_size = sizeof(struct sbx_option),
                .type = SBX_OPTION_PATH,
                .name = "directory",
                .help = "Where the files are; made with mode 0700 when the first event comes. Default: the setting "
                        "log_dir.",
        },
        {
                .struct_size = sizeof(struct sbx_option),
                .type = SBX_OPTION_ENUM,
                .name = "sync",
                .default_value = "flush",
                .choices = "event|flush|never",
                .help = "When lines are made to survive a power cut: after each event; after a second without one and "
                        "when a "
                        "run ends; or whenever the kernel does it.",
        },
        {.name = NULL},
};

/* The ABI lets a host be older than the plugin. */
static bool has_settings(const struct sbx_host *host) {
        return host->struct_size >= offsetof(struct sbx_host, setting) + sizeof(host->setting) && host->setting != NULL;
}

static int jsonl_open(const struct sbx_host *host, void **ret_instance, struct sbx_error *err) {
        const char *directory = host->option_string(host->self, "directory");
        const char *sync = host->option_string(host->self, "sync");
        struct jsonl *self;

        if (directory == NULL && has_settings(host))
                directory = host->setting(host->self, "log_dir");
        if (directory == NULL || directory[0] == '\0')
                return sbx_error_set(err, -EINVAL, JSONL_ORIGIN, "Set `directory` of the sink, or the setting log_dir.",
                                     "there is no directory for trajectories");
        self = calloc(1, sizeof(*self));
        if (self == NULL)
                return jsonl_no_memory(err);
        self->host = host;
        self->sync_each = sync != NULL && strcmp(sync, "event") == 0;
        /* The string lives until close(), as long as this struct. */
        jsonl_files_init(&self->files, directory, sync != NULL && strcmp(sync, "never") == 0);
        *ret_instance = self;
        return 0;
}

static void jsonl_stop(void *instance) {
        struct jsonl *self = instance;
        struct sbx_error err = {0};

        /* stop() can't fail, so what went wrong goes to the log. */
        if (jsonl_files_sync(&self->files, &err) < 0)
                self->host->log(self->host->self, SBX_LOG_ERROR, err.message);
        jsonl_files_close(&self->files);
}

static void jsonl_close(void *instance) {
        struct jsonl *self = instance;

        jsonl_files_close(&self->files);
        free(self);
}

static int jsonl_event(void *instance, struct sbx_bytes json, struct sbx_error *err) {
        _cleanup_(jsonl_record_clear) struct jsonl_record record = JSONL_RECORD;
        struct jsonl *self = instance;
        struct jsonl_file *file = NULL;
        int r = jsonl_record_read(json, &record, err);

        if (r == 0)
                r = jsonl_files_get(&self->files, record.trajectory_id, &file, err);
        if (r == 0)
                r = jsonl_file_add(file, &record, err);
        if (r < 0)
                return r;
        /* A run that has ended is not heard of again, unless it is resumed. */
        if (record.kind == JSONL_ENDED)
                return jsonl_files_close_last(&self->files, err);
        return self->sync_each ? jsonl_file_sync(file, err) : 0;
}

static int jsonl_flush(void *instance, struct sbx_error *err) {
        struct jsonl *self = instance;

        return jsonl_files_sync(&self->files, err);
}

/* ---- probe ---- */

/* Leaves nothing behind: a file without a name (open(2), O_TMPFILE), or where the file system has none, the
 * permissions.
 */
static int try_directory(const char *path, struct sbx_error *err) {
        _cleanup_close_ int fd = open(path, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);

        if (fd >= 0)
                return 0;
        if ((errno == EOPNOTSUPP || errno == EISDIR) && access(path, W_OK | X_OK) == 0)
                return 0;
        return jsonl_system_error(
                "make files in", path, NULL,
                "Set `directory` of the sink, or the setting log_dir, to a directory that you can write.", err);
}

/* The nearest directory that is there. */
static int try_nearest(const char *path, struct sbx_error *err) {
        _cleanup_free_ char *copy = strdup(path);
        struct stat st;

        if (copy == NULL)
                return jsonl_no_memory(err);
        while (stat(copy, &st) < 0 && errno == ENOENT) {
                char *slash = strrchr(copy, '/');

                if (slash == NULL || slash == copy)
                        return try_directory("/", err);
                *slash = '\0';
        }
        return try_directory(copy, err);
}

static int jsonl_probe(void *instance, const struct sbx_probe_events *events, const struct sbx_call *call) {
        struct jsonl *self = instance;
        const char *path = self->files.directory.path;
        struct sbx_error err = {0};
        char detail[512];
        int r = try_nearest(path, &err);

        (void)call;
        if (r < 0) {
                events->report(events->data, SBX_PROBE_FAILED, "trajectory files", err.message, err.hint);
                return r;
        }
        snprintf(detail, sizeof(detail), "can be written to %s", path);
        events->report(events->data, SBX_PROBE_OK, "trajectory files", detail, NULL);
        return 0;
}

static const struct sbx_sink_ops ops = {
        .struct_size = sizeof(ops),
        .event = jsonl_event,
        .flush = jsonl_flush,
};

static const struct sbx_plugin plugin = {
        .struct_size = sizeof(plugin),
        .abi_major = SBX_ABI_MAJOR,
        .abi_minor = SBX_ABI_MINOR,
        .kind = SBX_PLUGIN_SINK,
        .name = "sink-jsonl",
        .version = SBX_VERSION,
        .summary = "Keeps trajectories as chained JSON lines, one file for each run",
        .license = "Apache-2.0",
        .options = options,
        .ops = &ops,
        .open = jsonl_open,
        .stop = jsonl_stop,
        .close = jsonl_close,
        .probe = jsonl_probe,
};

const struct sbx_plugin *sbx_plugin_entry_v1(void) {
        return &plugin;
}

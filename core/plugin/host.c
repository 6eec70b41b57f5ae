/* SPDX-License-Identifier: Apache-2.0 */
/* The services that one plugin instance gets: struct sbx_host of the ABI. Any thread; it never changes. What reaches
 * beyond the plugin is in host_requests.c. */
#include "plugin/internal.h"

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"

#define SETTING_LIST_MAX ((size_t)64 << 10) /* bytes of a list that a plugin gets as text */

/* Settings of the core that are some plugins' business, by kind. A secret goes to those alone that need it. */
static const struct {
        uint32_t kind;
        const char *name;
} shared_settings[] = {
        {SBX_PLUGIN_PROVIDER, "api_base"},
        {SBX_PLUGIN_PROVIDER, "api_key"},
        {SBX_PLUGIN_PROVIDER, "model"},
        {SBX_PLUGIN_PROVIDER, "temperature"},
        {SBX_PLUGIN_PROVIDER, "log_dir"},
        {SBX_PLUGIN_CONTEXT, "snipara_api_key"},
        {SBX_PLUGIN_CONTEXT, "snipara_project_slug"},
        {SBX_PLUGIN_CONTEXT, "snipara_base_url"},
        {SBX_PLUGIN_CONTEXT, "memory_enabled"},
        {SBX_PLUGIN_CONTEXT, "log_dir"},
        {SBX_PLUGIN_SINK, "log_dir"},
        {SBX_PLUGIN_BACKEND, "docker_image"},
        {SBX_PLUGIN_BACKEND, "docker_cpus"},
        {SBX_PLUGIN_BACKEND, "docker_memory"},
        {SBX_PLUGIN_BACKEND, "docker_network_disabled"},
        {SBX_PLUGIN_BACKEND, "docker_mount_workspace"},
        {SBX_PLUGIN_BACKEND, "docker_workspace_path"},
        {SBX_PLUGIN_BACKEND, "docker_workspace_setup"},
        {SBX_PLUGIN_BACKEND, "docker_workspace_install_command"},
        {SBX_PLUGIN_BACKEND, "docker_workspace_install_extras"},
        {SBX_PLUGIN_BACKEND, "docker_timeout"},
};
_Static_assert(sizeof(shared_settings) / sizeof(shared_settings[0]) == SBX_HOST_SHARED_COUNT,
               "one place for each shared setting");

static void host_log(struct sbx_host_state *self, int level, const char *message) {
        if (level < SBX_LOG_ERROR)
                level = SBX_LOG_ERROR;
        sbx_log(self->setup.logger, level > SBX_LOG_DEBUG ? SBX_LOG_DEBUG : level, "%s: %s", self->setup.instance_name,
                message != NULL ? message : "(null)");
}

/* ---- options --------------------------------------------------------------------------------------------- */

#define TYPE_BIT(type) (1u << (type))
#define INTEGERS (TYPE_BIT(SBX_OPTION_INT) | TYPE_BIT(SBX_OPTION_SIZE) | TYPE_BIT(SBX_OPTION_DURATION))
#define TEXTS (TYPE_BIT(SBX_OPTION_STRING) | TYPE_BIT(SBX_OPTION_ENUM) | TYPE_BIT(SBX_OPTION_PATH))

/* The value of an option of one of `types`. A plugin that asks for another name or type has a bug: it is told in the
 * log, and gets "unset". */
static const struct sbx_value *find_value(struct sbx_host_state *self, const char *name, unsigned types) {
        const struct sbx_settings *settings = self->setup.settings;

        for (size_t i = 0; name != NULL && i < settings->count; i++)
                if (strcmp(settings->table[i].name, name) == 0) {
                        if ((types & TYPE_BIT(settings->table[i].type)) != 0)
                                return &settings->values[i];
                        break;
                }
        sbx_log(self->setup.logger, SBX_LOG_ERROR,
                "%s: plugin %s asks for option \"%s\", which its table does not have with such a type",
                self->setup.instance_name, self->setup.plugin_name, name != NULL ? name : "(null)");
        return NULL;
}

static int host_option_bool(struct sbx_host_state *self, const char *name) {
        const struct sbx_value *value = find_value(self, name, TYPE_BIT(SBX_OPTION_BOOL));

        return value != NULL && value->set && value->boolean;
}

static int64_t host_option_int(struct sbx_host_state *self, const char *name) {
        const struct sbx_value *value = find_value(self, name, INTEGERS);

        return value != NULL && value->set ? value->integer : 0;
}

static double host_option_float(struct sbx_host_state *self, const char *name) {
        const struct sbx_value *value = find_value(self, name, TYPE_BIT(SBX_OPTION_FLOAT));

        return value != NULL && value->set ? value->real : 0.0;
}

static const char *host_option_string(struct sbx_host_state *self, const char *name) {
        const struct sbx_value *value = find_value(self, name, TEXTS);

        return value != NULL && value->set ? value->string : NULL;
}

static size_t host_option_count(struct sbx_host_state *self, const char *name) {
        const struct sbx_value *value = find_value(self, name, TYPE_BIT(SBX_OPTION_STRINGS));
        size_t count = 0;

        if (value != NULL && value->strings != NULL)
                while (value->strings[count] != NULL)
                        count++;
        return count;
}

static const char *host_option_item(struct sbx_host_state *self, const char *name, size_t index) {
        size_t count = host_option_count(self, name);

        return index < count ? find_value(self, name, TYPE_BIT(SBX_OPTION_STRINGS))->strings[index] : NULL;
}

/* ---- settings and environment ---------------------------------------------------------------------------- */

/* One item a line: a requirement has commas. */
static char *list_text(const struct sbx_value *value) {
        _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(SETTING_LIST_MAX);

        for (size_t i = 0; value->strings[i] != NULL; i++)
                if (sbx_buffer_printf(&text, "%s%s", i > 0 ? "\n" : "", value->strings[i]) < 0)
                        return NULL;
        return text.size > 0 ? sbx_buffer_steal(&text) : strdup("");
}

static char *setting_text(const struct sbx_value *value) {
        char *text = NULL;
        int r;

        switch (value->type) {
        case SBX_OPTION_BOOL:
                return strdup(value->boolean ? "true" : "false");
        case SBX_OPTION_FLOAT:
                r = asprintf(&text, "%.15g", value->real);
                break;
        case SBX_OPTION_INT:
        case SBX_OPTION_SIZE:
        case SBX_OPTION_DURATION:
                r = asprintf(&text, "%lld", (long long)value->integer);
                break;
        case SBX_OPTION_STRINGS:
                return list_text(value);
        default:
                return value->string != NULL ? strdup(value->string) : NULL;
        }
        return r < 0 ? NULL : text;
}

static const char *host_setting(struct sbx_host_state *self, const char *name) {
        for (size_t i = 0; name != NULL && i < SBX_HOST_SHARED_COUNT; i++) {
                const struct sbx_value *value;

                if (shared_settings[i].kind != self->setup.kind || strcmp(shared_settings[i].name, name) != 0)
                        continue;
                value = sbx_settings_get(sbx_config_core(self->setup.config), name);
                if (value == NULL || !value->set)
                        return NULL;
                SBX_LOCKED(&self->lock);
                if (self->shared[i] == NULL)
                        self->shared[i] = setting_text(value);
                return self->shared[i];
        }
        return NULL;
}

static const char *host_environment(struct sbx_host_state *self, const char *name) {
        return name != NULL ? sbx_config_environment(self->setup.config, name) : NULL;
}

/* ---- the rest -------------------------------------------------------------------------------------------- */

static uint64_t host_clock_ns(struct sbx_host_state *self) {
        return sbx_clock_ns();
}

static int host_output_new(struct sbx_host_state *self, size_t max_bytes, struct sbx_output **ret_output) {
        return sbx_output_new(max_bytes, ret_output);
}

static struct sbx_bytes host_output_bytes(struct sbx_host_state *self, const struct sbx_output *output) {
        return sbx_output_bytes(output);
}

static void host_output_free(struct sbx_host_state *self, struct sbx_output *output) {
        sbx_output_free(output);
}

static int host_output_append(struct sbx_host_state *self, struct sbx_output *output, const void *data, size_t size) {
        return sbx_output_append(output, data, size);
}

/* "state" and "runtime" come into being here, so that a plugin that asks for none leaves none behind. */
static const char *writable_directory(struct sbx_host_state *self, const char *name, const char *path) {
        struct sbx_error err = {0};

        if (path == NULL)
                sbx_log(self->setup.logger, SBX_LOG_ERROR,
                        "%s: there is no %s directory, because this user has no home directory; set HOME or "
                        "XDG_STATE_HOME",
                        self->setup.instance_name, name);
        else if (sbx_directory_create(path, &err) < 0)
                sbx_log(self->setup.logger, SBX_LOG_ERROR, "%s: %s. %s", self->setup.instance_name, err.message,
                        err.hint);
        else
                return path;
        return NULL;
}

static const char *host_directory(struct sbx_host_state *self, const char *name) {
        const struct sbx_directories *directories = self->setup.directories;

        if (name == NULL)
                return NULL;
        if (strcmp(name, "libexec") == 0)
                return self->libexec;
        if (strcmp(name, "guests") == 0)
                return directories->guests;
        if (strcmp(name, "plugins") == 0)
                return directories->plugins;
        if (strcmp(name, "data") == 0)
                return self->data;
        if (strcmp(name, "project") == 0)
                return sbx_config_directory(self->setup.config);
        if (strcmp(name, "state") == 0)
                return writable_directory(self, name, directories->state);
        if (strcmp(name, "runtime") == 0)
                return writable_directory(self, name, directories->runtime);
        return NULL;
}

/* ---- creation -------------------------------------------------------------------------------------------- */

static const struct sbx_host host_template = {
        .struct_size = sizeof(struct sbx_host),
        .abi_major = SBX_ABI_MAJOR,
        .abi_minor = SBX_ABI_MINOR,
        .version = SBX_VERSION,
        .log = host_log,
        .option_bool = host_option_bool,
        .option_int = host_option_int,
        .option_float = host_option_float,
        .option_string = host_option_string,
        .option_count = host_option_count,
        .option_item = host_option_item,
        .clock_ns = host_clock_ns,
        .output_append = host_output_append,
        .directory = host_directory,
        .tool_list = sbx_host_tool_list,
        .tool_submit = sbx_host_tool_submit,
        .tool_cancel = sbx_host_tool_cancel,
        .tool_release = sbx_host_tool_release,
        .output_new = host_output_new,
        .output_bytes = host_output_bytes,
        .output_free = host_output_free,
        .setting = host_setting,
        .environment = host_environment,
        .list = sbx_host_list,
        .request_submit = sbx_host_request_submit,
        .changed = sbx_host_changed,
        .watch = sbx_host_watch,
        .unwatch = sbx_host_unwatch,
        .metrics = sbx_host_metrics,
        .ready = sbx_host_ready,
};

/* In the build tree helper programs and data files lie beside the plugin that they belong to. */
static char *plugin_directory(const struct sbx_host_setup *setup, const char *directory) {
        char *path = NULL;

        if (!setup->directories->build_tree)
                return strdup(directory);
        return asprintf(&path, "%s/%s", directory, setup->plugin_name) < 0 ? NULL : path;
}

struct sbx_host_state *sbx_host_new(const struct sbx_host_setup *setup) {
        struct sbx_host_state *state = calloc(1, sizeof(*state));

        if (state == NULL)
                return NULL;
        state->setup = *setup;
        state->services = host_template;
        state->services.self = state;
        state->services.instance_name = setup->instance_name;
        pthread_mutex_init(&state->lock, NULL);
        state->libexec = plugin_directory(setup, setup->directories->libexec);
        state->data = plugin_directory(setup, setup->directories->data);
        if (state->libexec == NULL || state->data == NULL) {
                sbx_host_free(state);
                return NULL;
        }
        return state;
}

const struct sbx_host *sbx_host_services(const struct sbx_host_state *state) {
        return &state->services;
}

void sbx_host_free(struct sbx_host_state *state) {
        if (state == NULL)
                return;
        for (size_t i = 0; i < SBX_HOST_SHARED_COUNT; i++)
                free(state->shared[i]);
        pthread_mutex_destroy(&state->lock);
        free(state->libexec);
        free(state->data);
        free(state);
}

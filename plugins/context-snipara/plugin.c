/* SPDX-License-Identifier: Apache-2.0 */
/* context-snipara: the descriptor, the options and the lifecycle of an instance. */
#include <stdlib.h>

#include <snipara-sandbox/context.h>

#include "address.h"
#include "call.h"
#include "log.h"
#include "probe.h"
#include "util.h"

#define DEFAULT_BASE "https://api.snipara.com/mcp"

static const struct sbx_option options[] = {
        {
                .struct_size = sizeof(struct sbx_option),
                .type = SBX_OPTION_STRING,
                .name = "base_url",
                .help = "Address of the service, without the project; unset: the setting snipara_base_url.",
        },
        {
                .struct_size = sizeof(struct sbx_option),
                .type = SBX_OPTION_DURATION,
                .name = "timeout",
                .default_value = "30s",
                .help = "How long one call may take, with all its tries.",
                .minimum = 100,
                .maximum = 600000,
        },
        {
                .struct_size = sizeof(struct sbx_option),
                .type = SBX_OPTION_SIZE,
                .name = "max_result",
                .default_value = "512k",
                .help = "Text of one result; what is longer is cut, and says so.",
                .minimum = 4096,
                .maximum = 16777216,
        },
        {
                .struct_size = sizeof(struct sbx_option),
                .type = SBX_OPTION_INT,
                .name = "retries",
                .default_value = "2",
                .unit = "tries",
                .help = "How often a call that only reads is repeated when the service is busy or fails.",
                .minimum = 0,
                .maximum = 5,
        },
        {
                .struct_size = sizeof(struct sbx_option),
                .type = SBX_OPTION_PATH,
                .name = "ca_file",
                .help = "Certificates (PEM) that the service's own is checked against; unset: the system's.",
        },
        {.struct_size = sizeof(struct sbx_option)},
};

/* ---- lifecycle ------------------------------------------------------------------------------------------- */

/* Settings and environment came with ABI 1.1. */
static int check_host(const struct sbx_host *host, struct sbx_error *err) {
        if (host->struct_size < offsetof(struct sbx_host, environment) + sizeof(host->environment) ||
            host->setting == NULL || host->environment == NULL)
                return sbx_error_set(err, -ENOTSUP, SNIPARA_ORIGIN,
                                     "Use the snipara-sandbox that this plugin was built for, or a newer one.",
                                     "the host has no settings for its plugins (ABI 1.1)");
        return 0;
}

static void instance_close(void *data) {
        struct snipara *snipara = data;

        sbx_http_free(snipara->http);
        snipara_credentials_free(snipara->credentials);
        free(snipara->base);
        free(snipara);
}

static int find_base(struct snipara *snipara, struct sbx_error *err) {
        const struct sbx_host *host = snipara->host;
        const char *base = host->option_string(host->self, "base_url");

        if (base == NULL)
                base = host->setting(host->self, "snipara_base_url");
        return snipara_address_base(base != NULL ? base : DEFAULT_BASE, &snipara->base, err);
}

static int make_client(struct snipara *snipara, struct sbx_error *err) {
        const struct sbx_host *host = snipara->host;
        char agent[64];
        struct sbx_http_options http = {
                .origin = SNIPARA_ORIGIN,
                .user_agent = agent,
                /* A proxy would see in the clear what is meant for this machine alone. */
                .proxy = snipara_address_plain(snipara->base) ? "" : NULL,
                .ca_file = host->option_string(host->self, "ca_file"),
        };

        snprintf(agent, sizeof(agent), "snipara-sandbox/%s", host->version != NULL ? host->version : "0");
        return sbx_http_new(&http, &snipara->http, err);
}

static int instance_open(const struct sbx_host *host, void **ret_instance, struct sbx_error *err) {
        struct snipara *snipara;
        int r = check_host(host, err);

        if (r < 0)
                return r;
        snipara = calloc(1, sizeof(*snipara));
        if (snipara == NULL)
                return sbx_error_set(err, -ENOMEM, SNIPARA_ORIGIN, NULL, "out of memory");
        snipara->host = host;
        snipara->timeout_ms = (uint64_t)host->option_int(host->self, "timeout");
        snipara->text_max = (size_t)host->option_int(host->self, "max_result");
        snipara->retries = (unsigned)host->option_int(host->self, "retries");
        r = find_base(snipara, err);
        if (r == 0)
                r = snipara_credentials_new(host, &snipara->credentials, err);
        if (r == 0)
                r = make_client(snipara, err);
        if (r < 0) {
                instance_close(snipara);
                return r;
        }
        *ret_instance = snipara;
        return 0;
}

static int instance_probe(void *data, const struct sbx_probe_events *events, const struct sbx_call *call) {
        return snipara_probe(data, events, call);
}

/* ---- tools ----------------------------------------------------------------------------------------------- */

static int put_json(const struct sbx_host *host, const json_t *value, struct sbx_output *output,
                    struct sbx_error *err) {
        _cleanup_free_ char *text = value != NULL ? json_dumps(value, JSON_COMPACT) : NULL;
        int r = text != NULL ? host->output_append(host->self, output, text, strlen(text)) : -ENOMEM;

        if (r == -ENOMEM)
                return sbx_error_set(err, r, SNIPARA_ORIGIN, NULL, "out of memory");
        return r < 0 ? sbx_error_set(err, r, SNIPARA_ORIGIN, "Lower the option max_result.",
                                     "the answer is larger than the program takes")
                     : 0;
}

/* Nobody has to have an account: without a credential there are no tools, and that is all. */
static bool is_usable(struct snipara *snipara) {
        _cleanup_credential_ struct snipara_credential credential = {0};
        struct sbx_error problem = {0};
        int r = snipara_credentials_get(snipara->credentials, false, &credential, &problem);

        if (r < 0)
                snipara_log(snipara->host, r == -ENOENT ? SBX_LOG_INFO : SBX_LOG_WARNING,
                            "Snipara's tools are not offered: %s. %s", problem.message, problem.hint);
        return r == 0;
}

static bool has_memory(struct snipara *snipara) {
        const struct sbx_host *host = snipara->host;
        const char *enabled = host->setting(host->self, "memory_enabled");

        return (enabled != NULL && strcmp(enabled, "true") == 0) || snipara_credentials_logged_in(snipara->credentials);
}

static int instance_tools(void *data, struct sbx_output *ret_json, struct sbx_error *err) {
        struct snipara *snipara = data;
        _cleanup_json_ json_t *tools = NULL;

        tools = is_usable(snipara) ? snipara_tools_define(has_memory(snipara)) : json_array();
        return put_json(snipara->host, tools, ret_json, err);
}

static int instance_call(void *data, const char *name, struct sbx_bytes arguments, const struct sbx_call *call,
                         struct sbx_output *ret_result, struct sbx_error *err) {
        struct snipara *snipara = data;
        const struct snipara_tool *tool = snipara_tool_find(name);
        _cleanup_json_ json_t *parsed = NULL, *result = NULL;
        struct snipara_failure failure = {0};
        int r;

        if (tool == NULL)
                return sbx_error_set(err, -ENOENT, SNIPARA_ORIGIN, NULL, "Snipara has no tool '%s'", name);
        parsed = json_loadb(arguments.data != NULL ? arguments.data : "", arguments.size, JSON_ALLOW_NUL, NULL);
        if (!json_is_object(parsed))
                return sbx_error_set(err, -EINVAL, SNIPARA_ORIGIN, NULL, "%s: the arguments are not a JSON object",
                                     name);
        r = snipara_ask(snipara, tool, parsed, call, &result, &failure, err);
        if (r == -EBADMSG)
                result = snipara_failure_result(&failure);
        else if (r < 0)
                return r;
        return put_json(snipara->host, result, ret_result, err);
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
        .name = "context-snipara",
        .version = SBX_VERSION,
        .summary = "Documentation and memory from Snipara",
        .license = "Apache-2.0",
        .options = options,
        .ops = &ops,
        .open = instance_open,
        .close = instance_close,
        .probe = instance_probe,
};

const struct sbx_plugin *sbx_plugin_entry_v1(void) {
        return &plugin;
}

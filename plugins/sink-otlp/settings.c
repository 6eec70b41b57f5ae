/* SPDX-License-Identifier: Apache-2.0 */
/* Options and environment variables to settings (OpenTelemetry: protocol/exporter.md, configuration/sdk-environment-
 * variables.md). An option wins over the variable for traces, that over the general one. */
#include "settings.h"

#include <ctype.h>
#include <string.h>

#include "attributes.h"
#include "pairs.h"
#include "util.h"

#define DEFAULT_ENDPOINT "http://127.0.0.1:4318"
#define TRACES_PATH "/v1/traces"
#define DEFAULT_TIMEOUT_MS 10000u
#define TIMEOUT_MAX_MS 300000u
#define HEADER_BYTES_MAX 16384u
#define URL_MAX 4096u

static int no_memory(struct sbx_error *err) {
        return sbx_error_set(err, -ENOMEM, OTLP_ORIGIN, NULL, "no memory for the settings");
}

static const char *variable(const struct sbx_host *host, const char *name) {
        return host->environment(host->self, name);
}

/* ---- where to ---- */

/* Scheme, host and port, without a path that may hold a key. */
static int check_url(const char *url, const char *source, char **ret_shown, struct sbx_error *err) {
        static const char hint[] = "Write it as http://HOST:PORT or https://HOST; what proves who you are goes into "
                                   "`headers`.";
        size_t scheme = strncasecmp(url, "http://", 7) == 0 ? 7 : strncasecmp(url, "https://", 8) == 0 ? 8 : 0;
        size_t authority = scheme > 0 ? strcspn(url + scheme, "/?#") : 0;

        if (authority == 0 || strlen(url) > URL_MAX)
                return sbx_error_set(err, -EINVAL, OTLP_ORIGIN, hint, "%s is not an http or https URL", source);
        if (memchr(url + scheme, '@', authority) != NULL)
                return sbx_error_set(err, -EINVAL, OTLP_ORIGIN, hint, "%s has a user or a password in it", source);
        for (const char *p = url; *p != '\0'; p++)
                if (!isgraph((unsigned char)*p))
                        return sbx_error_set(err, -EINVAL, OTLP_ORIGIN, hint,
                                             "%s has a space or a character in it that no URL has", source);
        *ret_shown = strndup(url, scheme + authority);
        return *ret_shown != NULL ? 0 : no_memory(err);
}

/* An endpoint is a base; the variable for traces is the whole URL. */
static int make_url(const char *endpoint, bool whole, char **ret_url, struct sbx_error *err) {
        size_t size = strlen(endpoint), tail = strlen(TRACES_PATH);

        if (!whole) {
                if (strpbrk(endpoint, "?#") != NULL)
                        return sbx_error_set(err, -EINVAL, OTLP_ORIGIN,
                                             "Set OTEL_EXPORTER_OTLP_TRACES_ENDPOINT to the whole URL instead.",
                                             "the endpoint has a query, and " TRACES_PATH " can't be added");
                while (size > 0 && endpoint[size - 1] == '/')
                        size--;
                if (size >= tail && memcmp(endpoint + size - tail, TRACES_PATH, tail) == 0)
                        whole = true;
        }
        if (asprintf(ret_url, "%.*s%s", (int)size, endpoint, whole ? "" : TRACES_PATH) < 0) {
                *ret_url = NULL;
                return no_memory(err);
        }
        return 0;
}

static int read_endpoint(const struct sbx_host *host, struct otlp_settings *settings, struct sbx_error *err) {
        const char *endpoint = host->option_string(host->self, "endpoint");
        const char *source = "endpoint";
        bool whole = false;
        int r;

        if (endpoint == NULL || *endpoint == '\0') {
                source = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
                endpoint = variable(host, source);
                whole = endpoint != NULL;
        }
        if (endpoint == NULL) {
                source = "OTEL_EXPORTER_OTLP_ENDPOINT";
                endpoint = variable(host, source);
        }
        if (endpoint == NULL)
                endpoint = DEFAULT_ENDPOINT;
        r = check_url(endpoint, source, &settings->url_shown, err);
        return r < 0 ? r : make_url(endpoint, whole, &settings->url, err);
}

/* ---- headers ---- */

struct headers {
        struct otlp_settings *settings;
        size_t bytes;
        const char *problem; /* set with -EINVAL */
};

/* RFC 9110: a token, and a value of visible characters, spaces and tabs. Anything else could begin another header. */
static const char *header_problem(const char *name, const char *value) {
        static const char token[] = "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        static const char *const own[] = {"content-type", "content-length", "transfer-encoding", "host", "connection"};

        if (*name == '\0' || name[strspn(name, token)] != '\0')
                return "has a name that no header can have";
        for (const unsigned char *p = (const unsigned char *)value; *p != '\0'; p++)
                if ((*p < 0x20 && *p != '\t') || *p == 0x7F)
                        return "has a control character in its value";
        for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
                if (strcasecmp(name, own[i]) == 0)
                        return "is one that the exporter sets itself";
        return NULL;
}

static int append_header(struct otlp_settings *settings, const char *name, const char *value) {
        char **grown = reallocarray(settings->headers, settings->header_count + 2, sizeof(char *));

        if (grown == NULL)
                return -ENOMEM;
        settings->headers = grown;
        grown[settings->header_count] = NULL;
        if (asprintf(&grown[settings->header_count], "%s: %s", name, value) < 0) {
                grown[settings->header_count] = NULL;
                return -ENOMEM;
        }
        grown[++settings->header_count] = NULL;
        return 0;
}

static int add_header(void *data, const char *name, char *value) {
        struct headers *headers = data;

        headers->problem = header_problem(name, value);
        headers->bytes += strlen(name) + strlen(value);
        if (headers->problem == NULL && headers->bytes > HEADER_BYTES_MAX)
                headers->problem = "is too long, with those before it";
        return headers->problem != NULL ? -EINVAL : append_header(headers->settings, name, value);
}

static int header_error(const struct headers *headers, int r, const char *source, size_t index, struct sbx_error *err) {
        if (r == -ENOMEM)
                return no_memory(err);
        /* Its name may be half of a secret that was written without one: it is not shown either. */
        return sbx_error_set(err, -EINVAL, OTLP_ORIGIN,
                             "In the configuration a header is \"Name: value\", in the variable Name=value.",
                             "header %zu of %s %s", index + 1, source,
                             headers->problem != NULL ? headers->problem : "has no name");
}

/* "Name: value"; "Name=value" is taken as well, as the variable has it. */
static int add_header_option(struct headers *headers, const char *item) {
        _cleanup_free_ char *copy = strdup(item);
        char *value;

        if (copy == NULL)
                return -ENOMEM;
        value = copy + strcspn(copy, ":=");
        if (*value == '\0')
                return -EINVAL;
        *value++ = '\0';
        return add_header(headers, copy, value + strspn(value, " \t"));
}

static int read_headers(const struct sbx_host *host, struct otlp_settings *settings, struct sbx_error *err) {
        static const char *const variables[] = {"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"};
        struct headers headers = {.settings = settings};
        size_t count = host->option_count(host->self, "headers"), index = 0;
        int r = append_header(settings, "Content-Type", "application/json");

        if (r < 0)
                return no_memory(err);
        for (size_t i = 0; i < count; i++) {
                r = add_header_option(&headers, host->option_item(host->self, "headers", i));
                if (r < 0)
                        return header_error(&headers, r, "`headers`", i, err);
        }
        for (size_t i = 0; count == 0 && i < sizeof(variables) / sizeof(variables[0]); i++) {
                const char *text = variable(host, variables[i]);

                if (text == NULL)
                        continue;
                r = otlp_pairs_read(text, add_header, &headers, &index);
                return r < 0 ? header_error(&headers, r, variables[i], index, err) : 0;
        }
        return 0;
}

/* ---- the resource ---- */

struct resource {
        struct otlp_attributes attributes;
        char *service_name; /* as the attributes name it; NULL: they don't */
};

static int add_resource(void *data, const char *key, char *value) {
        struct resource *resource = data;
        _cleanup_json_ json_t *valid = json_string(value), *any = json_string_nocheck(value);

        if (any == NULL)
                return -ENOMEM;
        if (valid == NULL) /* not UTF-8 */
                return -EINVAL;
        if (strcmp(key, "service.name") == 0) {
                free(resource->service_name);
                resource->service_name = strdup(value);
                return resource->service_name != NULL ? 0 : -ENOMEM;
        }
        otlp_add_name(&resource->attributes, key, value);
        return 0;
}

static int add_resource_option(struct resource *resource, const char *item) {
        _cleanup_free_ char *copy = strdup(item);
        char *value = copy != NULL ? strchr(copy, '=') : NULL;

        if (copy == NULL)
                return -ENOMEM;
        if (value == NULL || value == copy)
                return -EINVAL;
        *value++ = '\0';
        return add_resource(resource, copy, value);
}

static int resource_error(int r, const char *source, size_t index, struct sbx_error *err) {
        if (r == -ENOMEM)
                return no_memory(err);
        return sbx_error_set(err, -EINVAL, OTLP_ORIGIN,
                             "Write key=value, in UTF-8; in the variable with %XX for commas.",
                             "attribute %zu of %s can't be read", index + 1, source);
}

static int add_resources(const struct sbx_host *host, struct resource *resource, struct sbx_error *err) {
        const char *variable_text = variable(host, "OTEL_RESOURCE_ATTRIBUTES");
        size_t count = host->option_count(host->self, "resource_attributes"), index = 0;
        int r;

        if (variable_text != NULL) {
                r = otlp_pairs_read(variable_text, add_resource, resource, &index);
                if (r < 0)
                        return resource_error(r, "OTEL_RESOURCE_ATTRIBUTES", index, err);
        }
        if (count > OTLP_PAIRS_MAX)
                return resource_error(-EINVAL, "`resource_attributes`", OTLP_PAIRS_MAX, err);
        for (size_t i = 0; i < count; i++) {
                r = add_resource_option(resource, host->option_item(host->self, "resource_attributes", i));
                if (r < 0)
                        return resource_error(r, "`resource_attributes`", i, err);
        }
        return 0;
}

static int read_resource(const struct sbx_host *host, struct otlp_settings *settings, struct sbx_error *err) {
        const char *name = host->option_string(host->self, "service_name");
        struct resource resource = {.service_name = NULL};
        int r;

        otlp_attributes_init(&resource.attributes);
        r = add_resources(host, &resource, err);
        if (name == NULL || *name == '\0')
                name = variable(host, "OTEL_SERVICE_NAME");
        if (name == NULL)
                name = resource.service_name;
        if (r == 0) {
                otlp_add_name(&resource.attributes, "service.name", name != NULL ? name : "snipara-sandbox");
                otlp_add_name(&resource.attributes, "service.version", host->version);
                settings->resource = otlp_attributes_take(&resource.attributes);
                r = settings->resource != NULL ? 0 : no_memory(err);
        }
        otlp_attributes_clear(&resource.attributes);
        free(resource.service_name);
        return r;
}

/* ---- numbers ---- */

/* Milliseconds in digits, as the specification has them. What is none counts as unset, which it asks for too. */
static uint64_t timeout_variable(const struct sbx_host *host, const char *name) {
        const char *text = variable(host, name);
        uint64_t number = 0;

        for (const char *p = text; p != NULL && *p != '\0'; p++) {
                if (*p < '0' || *p > '9' || number > TIMEOUT_MAX_MS)
                        return 0;
                number = number * 10 + (uint64_t)(*p - '0');
        }
        return number < TIMEOUT_MAX_MS ? number : TIMEOUT_MAX_MS;
}

static void read_numbers(const struct sbx_host *host, struct otlp_settings *settings) {
        int64_t timeout = host->option_int(host->self, "timeout");

        settings->timeout_ms = timeout > 0 ? (uint64_t)timeout : 0;
        if (settings->timeout_ms == 0)
                settings->timeout_ms = timeout_variable(host, "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT");
        if (settings->timeout_ms == 0)
                settings->timeout_ms = timeout_variable(host, "OTEL_EXPORTER_OTLP_TIMEOUT");
        if (settings->timeout_ms == 0)
                settings->timeout_ms = DEFAULT_TIMEOUT_MS;
        settings->retries = (unsigned)host->option_int(host->self, "retries");
        settings->retry_delay_ms = (uint64_t)host->option_int(host->self, "retry_delay");
        settings->queue_max = (size_t)host->option_int(host->self, "queue_size");
        settings->batch_max = (size_t)host->option_int(host->self, "batch_size");
        if (settings->batch_max > settings->queue_max)
                settings->batch_max = settings->queue_max;
        settings->content_max = (size_t)host->option_int(host->self, "content_max");
}

int otlp_settings_read(const struct sbx_host *host, struct otlp_settings *ret_settings, struct sbx_error *err) {
        struct otlp_settings settings = {.url = NULL};
        const char *content = host->option_string(host->self, "content");
        int r = read_endpoint(host, &settings, err);

        if (r == 0)
                r = read_headers(host, &settings, err);
        if (r == 0)
                r = read_resource(host, &settings, err);
        if (r < 0) {
                otlp_settings_clear(&settings);
                return r;
        }
        read_numbers(host, &settings);
        settings.content = content != NULL && strcmp(content, "on") == 0;
        settings.ca_file = host->option_string(host->self, "ca_file");
        if (settings.ca_file == NULL)
                settings.ca_file = variable(host, "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE");
        if (settings.ca_file == NULL)
                settings.ca_file = variable(host, "OTEL_EXPORTER_OTLP_CERTIFICATE");
        *ret_settings = settings;
        return 0;
}

void otlp_settings_clear(struct otlp_settings *settings) {
        for (size_t i = 0; i < settings->header_count; i++) {
                explicit_bzero(settings->headers[i], strlen(settings->headers[i]));
                free(settings->headers[i]);
        }
        free(settings->headers);
        free(settings->url);
        free(settings->url_shown);
        json_decref(settings->resource);
        *settings = (struct otlp_settings){.url = NULL};
}

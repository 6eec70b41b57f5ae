/* SPDX-License-Identifier: Apache-2.0 */
/* Events to spans, and settings, with each allocation in turn failing: -ENOMEM each time, nothing leaked, nothing half.
 */
#include "test.h"

#include "alloc_fail.h"

#include "convert.h"
#include "settings.h"

static void free_span(void *data, char *json) {
        unsigned *count = data;

        (*count)++;
        free(json);
}

static const char *const events[] = {
        ("{\"trajectory_id\":\"a\",\"event\":\"run_started\",\"model\":\"openai/"
         "gpt-4o\",\"provider\":\"p\",\"kind\":\"agent\","
         "\"prompt\":\"do\",\"system\":\"be\",\"timestamp\":\"2026-11-21T03:00:00Z\"}"),
        ("{\"trajectory_id\":\"a\",\"event\":\"completion\",\"call_id\":\"b\",\"model\":\"m\",\"finish_reason\":"
         "\"stop\","
         "\"prompt\":\"do\",\"response\":\"a long answer that is cut\",\"input_tokens\":1,\"estimated_cost_usd\":0.5,"
         "\"tool_calls\":[{\"id\":\"c\",\"name\":\"t\",\"arguments\":{\"x\":\"a long argument that is cut\"}}],"
         "\"tool_results\":[{\"tool_call_id\":\"c\",\"content\":\"r\",\"is_error\":true}]}"),
        ("{\"trajectory_id\":\"a\",\"event\":\"execution\",\"call_id\":\"d\",\"parent_call_id\":\"b\","
         "\"key\":\"1.t4\",\"end\":\"error\",\"prompt\":\"1\",\"response\":\"2\","
         "\"repl_results\":[{\"error\":\"E\",\"truncated\":false}]}"),
        "{\"trajectory_id\":\"a\",\"event\":\"check\",\"call_id\":\"e\",\"passed\":true,\"prompt\":\"1\"}",
        ("{\"trajectory_id\":\"a\",\"event\":\"tool_call\",\"call_id\":\"f\",\"tool_calls\":[{\"id\":\"c\",\"name\":"
         "\"t\"}]}"),
        "{\"trajectory_id\":\"a\",\"event\":\"run_ended\",\"end\":\"timeout\",\"answer\":\"so far\",\"total_calls\":3}",
};

static int convert_all(void *data) {
        unsigned *count = data;
        struct otlp_converter converter = {
                .content = true, .content_max = 16, .memory = otlp_memory_new(), .data = count, .emit = free_span};
        int r = converter.memory != NULL ? 0 : -ENOMEM;

        *count = 0;
        for (size_t i = 0; r == 0 && i < sizeof(events) / sizeof(events[0]); i++)
                r = otlp_convert(&converter, (struct sbx_bytes){events[i], strlen(events[i])}, NULL);
        otlp_memory_free(converter.memory);
        /* Where jansson has no memory for a string, it says that the text is wrong there. */
        return r == -EBADMSG && alloc_fail.failed ? -ENOMEM : r;
}

static void test_events(void **state) {
        unsigned count = 0;

        (void)state;
        assert_in_range(alloc_fail_sweep(convert_all, &count), 100, 100000);
        assert_int_equal(count, 6);
}

/* ---- settings ---- */

static const char *option_string(struct sbx_host_state *self, const char *name) {
        return strcmp(name, "content") == 0 ? "on" : NULL;
}
static int64_t option_int(struct sbx_host_state *self, const char *name) {
        return 64;
}
static size_t option_count(struct sbx_host_state *self, const char *name) {
        return 1;
}
static const char *option_item(struct sbx_host_state *self, const char *name, size_t index) {
        return strcmp(name, "headers") == 0 ? "Authorization: Bearer x" : "key=value";
}
static const char *environment(struct sbx_host_state *self, const char *name) {
        if (strcmp(name, "OTEL_RESOURCE_ATTRIBUTES") == 0)
                return "service.name=a,b=c";
        return strcmp(name, "OTEL_EXPORTER_OTLP_ENDPOINT") == 0 ? "https://host/base" : NULL;
}

static int read_settings(void *data) {
        const struct sbx_host host = {.struct_size = sizeof(host),
                                      .version = "1",
                                      .option_string = option_string,
                                      .option_int = option_int,
                                      .option_count = option_count,
                                      .option_item = option_item,
                                      .environment = environment};
        struct otlp_settings settings = {.url = NULL};
        int r = otlp_settings_read(&host, &settings, NULL);

        if (r == 0 && (strcmp(settings.url, "https://host/base/v1/traces") != 0 || settings.header_count != 2 ||
                       strcmp(settings.url_shown, "https://host") != 0 || json_array_size(settings.resource) != 4))
                r = -EBADMSG;
        otlp_settings_clear(&settings);
        return r;
}

static void test_settings(void **state) {
        (void)state;
        assert_in_range(alloc_fail_sweep(read_settings, NULL), 10, 100000);
}

int main(void) {
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_events), cmocka_unit_test(test_settings)};

        json_set_alloc_funcs(malloc, free);
        return cmocka_run_group_tests(tests, NULL, NULL);
}

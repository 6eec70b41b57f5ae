/* SPDX-License-Identifier: Apache-2.0 */
/* A recording loaded, asked and streamed with each allocation in turn failing: -ENOMEM each time, nothing leaked. */
#include "test.h"

#include "alloc_fail.h"

#include <fcntl.h>
#include <unistd.h>

#include "match.h"
#include "response.h"

static const char recording_text[] =
        "{\"_type\":\"trajectory_metadata\"}\n"
        "{\"call_id\":\"s\",\"parent_call_id\":\"x\",\"event\":\"completion\",\"prompt\":\"sub\",\"response\":\"yes\"}"
        "\n"
        "{\"call_id\":\"x\",\"parent_call_id\":\"a\",\"event\":\"execution\"}\n"
        "{\"call_id\":\"a\",\"event\":\"completion\",\"prompt\":\"task\",\"response\":null,\"key\":\"1.1.model\","
        "\"tool_calls\":[{\"id\":\"c\",\"name\":\"t\",\"arguments\":{\"x\":1}}],\"input_tokens\":5}\n"
        "{\"call_id\":\"b\",\"event\":\"completion\",\"prompt\":\"result\",\"response\":\"done, and some more words "
        "than go "
        "into one "
        "piece\",\"key\":\"1.2.model\",\"model\":\"m\",\"finish_reason\":\"stop\",\"estimated_cost_usd\":0.5}\n";

static const char request_text[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"task\"}]},{\"role\":"
        "\"assistant\","
        "\"content\":null,\"tool_calls\":[{\"id\":\"c\"}]},{\"role\":\"tool\",\"content\":\"result\"}]}";

static void count_chunk(void *data, struct sbx_bytes chunk) {
        *(unsigned *)data += chunk.size > 0;
}

static int answer(struct replay_matcher *matcher) {
        unsigned chunks = 0;
        struct sbx_provider_events events = {.struct_size = sizeof(events), .data = &chunks, .delta = count_chunk};
        json_t *request = json_loads(request_text, 0, NULL);
        const struct replay_entry *entry = NULL;
        json_t *response = NULL;
        int r = request != NULL ? replay_match(matcher, request, &entry, NULL) : -ENOMEM;

        if (r == 0) {
                response = replay_response(entry, NULL);
                r = response != NULL ? replay_stream(entry, NULL, &events) : -ENOMEM;
        }
        if (r == 0 && (strcmp(entry->call_id, "b") != 0 || chunks != 5))
                r = -EBADMSG;
        json_decref(response);
        json_decref(request);
        return r;
}

static int load_and_answer(void *data) {
        struct replay_recording *recording = NULL;
        struct replay_matcher *matcher = NULL;
        int r = replay_recording_load(data, 1 << 20, &recording, NULL);

        if (r == 0 && (recording->count != 3 || strcmp(recording->entries[0].call_id, "a") != 0 ||
                       strcmp(recording->entries[1].call_id, "s") != 0 || recording->entries[0].successor != 2))
                r = -EBADMSG;
        if (r == 0)
                r = replay_matcher_new(recording, true, &matcher);
        if (r == 0)
                r = answer(matcher);
        replay_matcher_free(matcher);
        replay_recording_free(recording);
        /* Where jansson has no memory for a string, it says that the text is wrong there. */
        return r == -EBADMSG && alloc_fail.failed ? -ENOMEM : r;
}

static void test_all(void **state) {
        char path[] = "/tmp/sbx-replay-XXXXXX";
        int fd = mkstemp(path);

        (void)state;
        assert_true(fd >= 0);
        assert_int_equal(write(fd, recording_text, sizeof(recording_text) - 1), sizeof(recording_text) - 1);
        close(fd);
        assert_in_range(alloc_fail_sweep(load_and_answer, path), 50, 100000);
        unlink(path);
}

int main(void) {
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_all)};

        json_set_alloc_funcs(malloc, free);
        return cmocka_run_group_tests(tests, NULL, NULL);
}

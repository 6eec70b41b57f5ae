/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the store as the program does; small operations that have to succeed. */
#include "suite.h"

#include <unistd.h>

struct suite suite;

int suite_open(char **arguments) {
        struct sbx_runtime_options options = {.struct_size = sizeof(options),
                                              .settings = (const char *const *)arguments + 2};
        struct sbx_call call = {
                .struct_size = sizeof(call), .cancel_fd = -1, .deadline_ns = sbx_clock_deadline_ms(60000)};
        struct sbx_error err = {0};
        int r;

        suite.arguments = arguments;
        suite.logger.level = SBX_LOG_INFO;
        r = sbx_config_load(&options, &suite.logger, &suite.config, &err);
        if (r == 0)
                r = sbx_directories_find(&suite.directories, &err);
        if (r == 0)
                r = sbx_registry_new(suite.config, &suite.logger, &suite.directories, NULL, &suite.registry, &err);
        if (r == 0)
                r = sbx_registry_get(suite.registry, arguments[1], SBX_PLUGIN_STORE, &call, &suite.store, &err);
        if (r < 0) {
                fprintf(stderr, "%s\n%s\n", err.message, err.hint);
                return r;
        }
        suite.ops = suite.store->ops;
        suite.state = suite.store->state;
        suite.number = getenv("SBX_STORE_NUMBER") != NULL ? strtoul(getenv("SBX_STORE_NUMBER"), NULL, 10)
                                                          : (unsigned long)sbx_clock_ns();
        return 0;
}

void suite_close(void) {
        sbx_registry_free(suite.registry);
        sbx_directories_free(&suite.directories);
        sbx_config_free(suite.config);
}

void sleep_ms(unsigned ms) {
        const struct timespec pause = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};

        nanosleep(&pause, NULL);
}

const char *directory(const char *test) {
        static _Thread_local char text[128];

        snprintf(text, sizeof(text), "conformance/%lu/%s", suite.number, test);
        return text;
}

const char *name_in(const char *in, const char *leaf) {
        static _Thread_local char texts[4][256];
        static _Thread_local unsigned next;
        char *text = texts[next++ % 4];

        snprintf(text, sizeof(texts[0]), "%s/%s", in, leaf);
        return text;
}

void expect_code(int r, int wanted, const struct sbx_error *err, const char *what) {
        if (r != wanted)
                fail_msg("%s: %d (%s %s) instead of %d", what, r, err->message, err->hint, wanted);
        if (r < 0 && err->code != r)
                fail_msg("%s: the error says %d (%s), the result %d", what, err->code, err->message, r);
        if (r < 0 && err->message[0] == '\0')
                fail_msg("%s: %d without a message", what, r);
}

uint8_t *contents(size_t size, unsigned seed) {
        uint8_t *bytes = malloc(size + 1);
        uint64_t state = UINT64_C(88172645463325252) + seed * UINT64_C(0x9E3779B97F4A7C15);

        assert_non_null(bytes);
        for (size_t i = 0; i < size; i++) {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                bytes[i] = seed % 2 == 0 && i % 4 != 0 ? (uint8_t)('a' + seed % 7) : (uint8_t)(state >> 32);
        }
        return bytes;
}

void put(const char *name, const char *text) {
        expect(0, suite.ops->put(suite.state, name, (struct sbx_bytes){text, strlen(text)}, NULL, err));
}

void put_contents(const char *name, size_t size, unsigned seed) {
        _cleanup_free_ uint8_t *bytes = contents(size, seed);

        expect(0, suite.ops->put(suite.state, name, (struct sbx_bytes){bytes, size}, NULL, err));
}

char *get(const char *name, size_t *ret_size) {
        struct sbx_output *output = NULL;
        struct sbx_error err = {0};
        struct sbx_bytes bytes;
        char *copy = NULL;
        int r;

        assert_int_equal(sbx_output_new(BLOB_MAX, &output), 0);
        r = suite.ops->get(suite.state, name, NULL, output, &err);
        if (r != -ENOENT)
                expect_code(r, 0, &err, name);
        if (r == 0) {
                bytes = sbx_output_bytes(output);
                copy = malloc(bytes.size + 1);
                assert_non_null(copy);
                if (bytes.size > 0)
                        memcpy(copy, bytes.data, bytes.size);
                copy[bytes.size] = '\0';
                *ret_size = bytes.size;
        }
        sbx_output_free(output);
        return copy;
}

void expect_text(const char *name, const char *text) {
        size_t size = 0;
        _cleanup_free_ char *found = get(name, &size);

        if (text == NULL) {
                assert_null(found);
                return;
        }
        if (found == NULL)
                fail_msg("%s is not there", name);
        assert_string_equal(found, text);
}

void expect_contents(const char *name, size_t size, unsigned seed) {
        _cleanup_free_ uint8_t *wanted = contents(size, seed);
        size_t found_size = 0;
        _cleanup_free_ char *found = get(name, &found_size);

        assert_non_null(found);
        assert_int_equal(found_size, size);
        if (size > 0)
                assert_memory_equal(found, wanted, size);
}

struct listed {
        char *text;
        size_t size;
};

static int add_listed(void *data, const char *name, uint64_t size) {
        struct listed *listed = data;
        size_t length = strlen(name);

        (void)size;
        listed->text = realloc(listed->text, listed->size + length + 2);
        assert_non_null(listed->text);
        memcpy(listed->text + listed->size, name, length);
        listed->size += length;
        listed->text[listed->size++] = '\n';
        listed->text[listed->size] = '\0';
        return 0;
}

char *list(const char *prefix) {
        struct listed listed = {calloc(1, 1), 0};
        const struct sbx_store_events events = {.struct_size = sizeof(events), .data = &listed, .item = add_listed};

        expect(0, suite.ops->list(suite.state, prefix, &events, NULL, err));
        return listed.text;
}

struct sbx_store_change change(const char *name, const char *text) {
        return (struct sbx_store_change){name, {text, text != NULL ? strlen(text) : 0}};
}

json_t *collect(void) {
        struct sbx_output *output = NULL;
        json_t *told = NULL;

        assert_int_equal(sbx_output_new(1 << 20, &output), 0);
        expect(0, suite.ops->collect(suite.state, NULL, output, err));
        expect(0, sbx_json_parse(sbx_output_bytes(output), 1 << 20, "collect", &told, err));
        sbx_output_free(output);
        return told;
}

uint64_t take(const char *lease, const char *holder, uint32_t ttl_ms) {
        struct sbx_store_lease taken = {.struct_size = sizeof(taken)};

        expect(0, suite.ops->lease_take(suite.state, lease, holder, ttl_ms, 0, NULL, &taken, err));
        assert_string_equal(taken.holder, holder);
        return taken.token;
}

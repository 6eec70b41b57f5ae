/* SPDX-License-Identifier: Apache-2.0 */
/* Growing bytes: contents, the maximum, and what a failure leaves. */
#include "../test.h"
#include "../alloc_fail.h"

#include "base/buffer.h"

static void grows_and_terminates(void **state) {
        struct sbx_buffer buffer = SBX_BUFFER(1000);

        for (unsigned i = 0; i < 100; i++)
                assert_int_equal(sbx_buffer_append(&buffer, "0123456789", 10), 0);
        assert_int_equal(buffer.size, 1000);
        assert_int_equal(buffer.data[1000], '\0');
        assert_int_equal(strlen(buffer.data), 1000);
        sbx_buffer_free(&buffer);
        assert_null(buffer.data);
        assert_int_equal(sbx_buffer_append_text(&buffer, "again"), 0);
        assert_string_equal(buffer.data, "again");
        sbx_buffer_free(&buffer);
}

static void keeps_to_its_maximum(void **state) {
        struct sbx_buffer buffer = SBX_BUFFER(10);

        assert_int_equal(sbx_buffer_append_text(&buffer, "12345678"), 0);
        assert_int_equal(sbx_buffer_append_text(&buffer, "abc"), -EFBIG);
        assert_string_equal(buffer.data, "12345678");
        assert_int_equal(sbx_buffer_printf(&buffer, "%d", 123), -EFBIG);
        assert_string_equal(buffer.data, "12345678");
        assert_int_equal(sbx_buffer_printf(&buffer, "%d", 12), 0);
        assert_string_equal(buffer.data, "1234567812");
        assert_int_equal(sbx_buffer_reserve(&buffer, 0), 0);
        assert_int_equal(sbx_buffer_reserve(&buffer, SIZE_MAX), -EFBIG);
        assert_true(buffer.capacity <= 11);
        sbx_buffer_free(&buffer);
}

static void does_not_overflow(void **state) {
        struct sbx_buffer buffer = SBX_BUFFER(SIZE_MAX);

        assert_int_equal(sbx_buffer_append_text(&buffer, "x"), 0);
        assert_int_equal(sbx_buffer_reserve(&buffer, SIZE_MAX - 1), -EFBIG);
        assert_int_equal(sbx_buffer_reserve(&buffer, SIZE_MAX), -EFBIG);
        assert_string_equal(buffer.data, "x");
        sbx_buffer_free(&buffer);
}

static void prints_across_its_capacity(void **state) {
        /* 62, 63 and 64 characters lie around the first capacity: one that fits, one that just fits, one that does not.
         */
        for (int length = 1; length < 200; length++) {
                struct sbx_buffer buffer = SBX_BUFFER(300);

                assert_int_equal(sbx_buffer_append_text(&buffer, "<"), 0);
                assert_int_equal(sbx_buffer_printf(&buffer, "%0*d>", length, 7), 0);
                assert_int_equal(buffer.size, length + 2);
                assert_int_equal(buffer.data[length + 1], '>');
                assert_int_equal(buffer.data[length], '7');
                assert_int_equal(buffer.data[length + 2], '\0');
                sbx_buffer_free(&buffer);
        }
}

static void consumes_and_clears(void **state) {
        struct sbx_buffer buffer = SBX_BUFFER(100);

        sbx_buffer_clear(&buffer);
        sbx_buffer_consume(&buffer, 3);
        assert_int_equal(sbx_buffer_append_text(&buffer, "hello world"), 0);
        sbx_buffer_consume(&buffer, 0);
        sbx_buffer_consume(&buffer, 6);
        assert_string_equal(buffer.data, "world");
        sbx_buffer_consume(&buffer, 99);
        assert_int_equal(buffer.size, 0);
        assert_string_equal(buffer.data, "");
        sbx_buffer_free(&buffer);
}

static void hands_its_bytes_over(void **state) {
        struct sbx_buffer buffer = SBX_BUFFER(100);
        char *bytes = sbx_buffer_steal(&buffer);

        assert_string_equal(bytes, "");
        free(bytes);
        assert_int_equal(sbx_buffer_append_text(&buffer, "mine"), 0);
        bytes = sbx_buffer_steal(&buffer);
        assert_string_equal(bytes, "mine");
        free(bytes);
        assert_null(buffer.data);
        assert_int_equal(buffer.size, 0);
        assert_int_equal(buffer.capacity, 0);
}

static int use_buffer(void *data) {
        struct sbx_buffer buffer = SBX_BUFFER(10000);
        int r = 0;

        for (unsigned i = 0; r == 0 && i < 500; i++) {
                size_t before = buffer.size;

                r = i % 2 == 0 ? sbx_buffer_append_text(&buffer, "0123456789") : sbx_buffer_printf(&buffer, "%u", i);
                if (r < 0) {
                        assert_int_equal(buffer.size, before);
                        assert_true(buffer.data == NULL || strlen(buffer.data) == before);
                }
        }
        if (r == 0) {
                char *bytes = sbx_buffer_steal(&buffer);

                r = bytes != NULL ? 0 : -ENOMEM;
                free(bytes);
        }
        sbx_buffer_free(&buffer);
        return r;
}

static void survives_every_allocation_failure(void **state) {
        assert_true(alloc_fail_sweep(use_buffer, NULL) > 3);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(grows_and_terminates),
                cmocka_unit_test(keeps_to_its_maximum),
                cmocka_unit_test(does_not_overflow),
                cmocka_unit_test(prints_across_its_capacity),
                cmocka_unit_test(consumes_and_clears),
                cmocka_unit_test(hands_its_bytes_over),
                cmocka_unit_test(survives_every_allocation_failure),
        };

        return cmocka_run_group_tests_name("buffer", tests, NULL, NULL);
}

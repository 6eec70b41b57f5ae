/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of structs that were compiled elsewhere: shorter, longer, damaged. */
#include "../test.h"

#include <snipara-sandbox/sink.h>

#include "asprintf_fail.h"
#include "plugin/internal.h"

struct older {
        uint32_t struct_size, a;
};
struct newer {
        uint32_t struct_size, a;
        uint64_t b, c;
};

static void a_shorter_struct_is_filled_up_with_zeros(void **state) {
        struct {
                struct older source;
                uint64_t beyond[2];
        } given = {{sizeof(struct older), 7}, {~0ull, ~0ull}};
        struct newer copy;

        memset(&copy, 0xFF, sizeof(copy));
        sbx_struct_copy(&copy, sizeof(copy), &given.source);
        assert_int_equal(copy.struct_size, sizeof(copy));
        assert_int_equal(copy.a, 7);
        assert_int_equal(copy.b, 0);
        assert_int_equal(copy.c, 0);
}

static void of_a_longer_struct_the_known_part_is_taken(void **state) {
        const struct newer source = {sizeof(source), 7, 8, 9};
        struct {
                struct older copy;
                uint64_t beyond;
        } target = {.beyond = 42};

        sbx_struct_copy(&target.copy, sizeof(target.copy), &source);
        assert_int_equal(target.copy.struct_size, sizeof(target.copy));
        assert_int_equal(target.copy.a, 7);
        assert_int_equal(target.beyond, 42);
}

static void a_size_that_makes_no_sense_is_refused(void **state) {
        const uint32_t sizes[] = {0, 4, 15, SBX_STRUCT_SIZE_MAX + 1, UINT32_MAX};

        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
                struct sbx_error err = {0};

                assert_int_equal(sbx_struct_size_check(&sizes[i], 16, "struct x of y", &err), -EINVAL);
                assert_contains(err.message, "struct x of y");
                assert_contains(err.hint, "sizeof");
        }
        assert_int_equal(sbx_struct_size_check(&(uint32_t){16}, 16, "x", NULL), 0);
        assert_int_equal(sbx_struct_size_check(&(uint32_t){SBX_STRUCT_SIZE_MAX}, 16, "x", NULL), 0);
}

#define OPTION(text)  \
        {.struct_size = sizeof(struct sbx_option), .type = SBX_OPTION_INT, .name = (text), .help = "h", .maximum = 5}

static void no_table_is_an_empty_one(void **state) {
        const struct sbx_option ended[] = {{.name = NULL}};
        struct sbx_option *copy = NULL;
        size_t count = 9;

        assert_int_equal(sbx_options_copy(NULL, "x", &copy, &count, NULL), 0);
        assert_int_equal(count, 0);
        assert_null(copy[0].name);
        free(copy);
        assert_int_equal(sbx_options_copy(ended, "x", &copy, &count, NULL), 0);
        assert_int_equal(count, 0);
        free(copy);
}

static void a_table_is_read_at_the_stride_of_its_plugin(void **state) {
        struct wide {
                struct sbx_option known;
                uint64_t later[3];
        };
        struct wide table[] = {{OPTION("one"), {1, 2, 3}}, {OPTION("two"), {1, 2, 3}}, {{.name = NULL}, {0}}};
        struct narrow {
                char bytes[offsetof(struct sbx_option, minimum)];
        } __attribute__((aligned(8)));
        struct narrow narrow[3];
        struct sbx_option *copy = NULL;
        size_t count = 0;

        table[0].known.struct_size = table[1].known.struct_size = sizeof(struct wide);
        assert_int_equal(sbx_options_copy(&table[0].known, "x", &copy, &count, NULL), 0);
        assert_int_equal(count, 2);
        assert_string_equal(copy[1].name, "two");
        assert_int_equal(copy[1].maximum, 5);
        assert_int_equal(copy[1].struct_size, sizeof(struct sbx_option));
        assert_null(copy[2].name);
        free(copy);

        memset(narrow, 0, sizeof(narrow));
        for (int i = 0; i < 2; i++) {
                table[i].known.struct_size = sizeof(struct narrow);
                memcpy(&narrow[i], &table[i].known, sizeof(narrow[i]));
        }
        assert_int_equal(sbx_options_copy((const void *)narrow, "x", &copy, &count, NULL), 0);
        assert_int_equal(count, 2);
        assert_string_equal(copy[1].name, "two");
        assert_int_equal(copy[1].maximum, 0); /* which it does not have */
        free(copy);
}

static void a_table_without_an_end_is_refused(void **state) {
        struct sbx_option table[SBX_PLUGIN_OPTIONS_MAX + 1], *copy = NULL;
        struct sbx_error err = {0};
        size_t count = 0;

        for (size_t i = 0; i < SBX_PLUGIN_OPTIONS_MAX + 1; i++)
                table[i] = (struct sbx_option)OPTION("same");
        assert_int_equal(sbx_options_copy(table, "the table", &copy, &count, &err), -EINVAL);
        assert_contains(err.message, "no end");
        assert_null(copy);
}

static void entries_of_different_sizes_are_refused(void **state) {
        struct sbx_option table[] = {OPTION("one"), OPTION("two"), {.name = NULL}}, *copy = NULL;
        struct sbx_error err = {0};
        size_t count = 0;

        table[1].struct_size = 0;
        assert_int_equal(sbx_options_copy(table, "the table", &copy, &count, &err), -EINVAL);
        assert_contains(err.message, "option 2 of the table");
}

static int copy_a_table(void *data) {
        const struct sbx_option table[] = {OPTION("one"), {.name = NULL}};
        struct sbx_option *copy = NULL;
        size_t count = 0;
        int r = sbx_options_copy(table, "x", &copy, &count, NULL);

        free(copy);
        return r;
}

static void survives_failing_allocations(void **state) {
        assert_true(alloc_fail_sweep(copy_a_table, NULL) > 1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_shorter_struct_is_filled_up_with_zeros),
                cmocka_unit_test(of_a_longer_struct_the_known_part_is_taken),
                cmocka_unit_test(a_size_that_makes_no_sense_is_refused),
                cmocka_unit_test(no_table_is_an_empty_one),
                cmocka_unit_test(a_table_is_read_at_the_stride_of_its_plugin),
                cmocka_unit_test(a_table_without_an_end_is_refused),
                cmocka_unit_test(entries_of_different_sizes_are_refused),
                cmocka_unit_test(survives_failing_allocations),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

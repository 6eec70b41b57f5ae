/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance: states that were cut, altered or made up. They are refused with a reason, or become a guest that is its
 * own trouble alone: the backend and its other guests notice nothing. */
#include "suite.h"

#include <inttypes.h>

#include "guest/process.h"

#define STATE_MAX ((size_t)64 << 20)
#define SAMPLES 48

static struct sbx_guest_process *witness;
static struct sbx_buffer whole = SBX_BUFFER(STATE_MAX); /* a state that is right */

/* Once for all of them, whichever is the first. */
static void make_states(void) {
        struct sbx_guest_process *guest;
        struct sbx_call call = patience();
        struct sbx_error err = {0};

        witness = start("conformance-crafted-witness");
        expect(witness, "seen = 'unharmed'", SBX_END_OK, "");
        guest = start("conformance-crafted");
        expect(guest, "kept = 41\nopen('file', 'w').write('x' * 5000)", SBX_END_OK, NULL);
        must(sbx_guest_save(guest, &call, &whole, &err), &err);
        sbx_guest_free(guest);
}

static int tear_down_crafted(void **state) {
        sbx_guest_free(witness);
        witness = NULL;
        sbx_buffer_free(&whole);
        return 0;
}

static void need_states(void) {
        if ((suite.ops->features & SBX_BACKEND_SAVE) == 0) {
                print_reason("crafted", "the backend saves no states");
                skip();
        }
        if (witness == NULL)
                make_states();
}

/* Restores it: the error, or 0 and what became of it was run a little. */
static int attempt(const void *data, size_t size) {
        const struct sbx_guest_spec wanted = spec("conformance-attempt");
        struct sbx_guest_process *guest = NULL;
        struct sbx_call call = patience();
        struct sbx_error err = {0};
        int r = sbx_guest_restore(suite.backend, &wanted, (struct sbx_bytes){data, size}, &call, &guest, &err);

        if (r < 0) {
                assert_true(err.message[0] != '\0');
                return r;
        }
        sbx_result_free(execute_until(guest, "print(kept, len(open('file').read()))", PATIENCE_MS, NULL));
        sbx_guest_free(guest);
        return 0;
}

static void still_unharmed(void) {
        struct sbx_guest_process *fresh;

        expect(witness, "print(seen)", SBX_END_OK, "unharmed\n");
        fresh = start("conformance-after-crafted");
        expect(fresh, "print(6 * 7)", SBX_END_OK, "42\n");
        sbx_guest_free(fresh);
        assert_int_equal(attempt(whole.data, whole.size), 0);
}

static void test_what_is_no_state(void **state) {
        _cleanup_free_ unsigned char *noise = NULL;

        need_states();
        noise = malloc(100000);
        assert_non_null(noise);
        for (size_t i = 0; i < 100000; i++)
                noise[i] = (unsigned char)(i * 2654435761u >> 13);
        assert_int_equal(attempt("", 0), -EINVAL);
        assert_int_equal(attempt("x", 1), -EINVAL);
        assert_int_equal(attempt(noise, 100000), -EINVAL);
        memset(noise, 0, 100000);
        assert_int_equal(attempt(noise, 100000), -EINVAL);
        still_unharmed();
}

static void test_states_that_were_cut(void **state) {
        need_states();
        for (size_t i = 0; i < SAMPLES; i++)
                assert_true(attempt(whole.data, whole.size * i / SAMPLES) < 0);
        for (size_t size = whole.size - 1; size + 8 > whole.size; size--)
                assert_true(attempt(whole.data, size) < 0);
        still_unharmed();
}

static void test_states_that_are_too_long(void **state) {
        _cleanup_free_ char *longer = NULL;

        need_states();
        longer = calloc(1, whole.size + 4096);
        assert_non_null(longer);
        memcpy(longer, whole.data, whole.size);
        assert_true(attempt(longer, whole.size + 1) < 0);
        assert_true(attempt(longer, whole.size + 4096) < 0);
        still_unharmed();
}

/* One byte of the head, or of the rest here and there: a checksum, or a check of what it says, finds most of them. */
static void test_states_with_a_wrong_byte(void **state) {
        _cleanup_free_ char *altered = NULL;
        size_t refused = 0, tried = 0;

        need_states();
        altered = malloc(whole.size);
        assert_non_null(altered);
        for (size_t i = 0; i < whole.size; i += i < 160 ? 3 : whole.size / SAMPLES + 1) {
                memcpy(altered, whole.data, whole.size);
                altered[i] = (char)(altered[i] ^ 0x55);
                refused += attempt(altered, whole.size) < 0;
                tried++;
        }
        if (refused * 10 < tried * 8)
                fail_msg("%zu of %zu altered states were refused", refused, tried);
        still_unharmed();
}

/* Two states, one half of each. */
static void test_states_that_were_mixed(void **state) {
        _cleanup_buffer_ struct sbx_buffer other = SBX_BUFFER(STATE_MAX);
        struct sbx_guest_process *guest;
        struct sbx_call call = patience();
        struct sbx_error err = {0};
        size_t half;

        need_states();
        guest = start("conformance-mixed");
        expect(guest, "import os\ndata = os.urandom(100000)", SBX_END_OK, "");
        must(sbx_guest_save(guest, &call, &other, &err), &err);
        sbx_guest_free(guest);
        half = (whole.size < other.size ? whole.size : other.size) / 2;
        memcpy(other.data, whole.data, half);
        assert_true(attempt(other.data, other.size) < 0);
        still_unharmed();
}

struct group crafted_group(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_what_is_no_state),
                cmocka_unit_test(test_states_that_were_cut),
                cmocka_unit_test(test_states_that_are_too_long),
                cmocka_unit_test(test_states_with_a_wrong_byte),
                cmocka_unit_test_teardown(test_states_that_were_mixed, tear_down_crafted),
        };

        return (struct group){tests, sizeof(tests) / sizeof(tests[0])};
}

/* SPDX-License-Identifier: Apache-2.0 */
/* native.h against what WebAssembly says: the corners where C differs, traps, and the edges of memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <cmocka.h>

#define TABLE_SIZE 3u
#include "native.h"

static u32 twice(struct wasm_instance *instance, u32 x) {
        (void)instance;
        return 2 * x;
}
static u64 wide(struct wasm_instance *instance, u64 x) {
        (void)instance;
        return x;
}
static const struct wasm_table_entry wasm_table[TABLE_SIZE] = {
        [1] = {7, (void (*)(void))twice},
        [2] = {8, (void (*)(void))wide},
};

static sigjmp_buf trapped;

_Noreturn void wasm_trap(struct wasm_instance *instance, enum wasm_trap trap) {
        (void)instance;
        siglongjmp(trapped, (int)trap);
}

/* The trap that `expression` ends in; WASM_TRAP_NONE where it has a value. */
#define TRAP_OF(expression)                                                                                            \
        ({                                                                                                             \
                int trap_ = sigsetjmp(trapped, 1);                                                                     \
                if (trap_ == 0)                                                                                        \
                        (void)(expression);                                                                            \
                trap_;                                                                                                 \
        })

static struct wasm_instance *instance;

static int make_instance(void **state) {
        (void)state;
        instance = mmap(NULL, WASM_INSTANCE_SPAN + 2 * WASM_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                        -1, 0);
        if (instance == MAP_FAILED)
                return -1;
        instance->memory = (u8 *)instance + WASM_INSTANCE_SPAN;
        instance->size = WASM_PAGE;
        return 0;
}

static int free_instance(void **state) {
        (void)state;
        return munmap(instance, WASM_INSTANCE_SPAN + 2 * WASM_PAGE);
}

/* Values that no compiler knows. */
static volatile u32 a32, b32;
static volatile u64 a64, b64;
static volatile f32 xf;
static volatile f64 x, y;

static void test_loads_and_stores(void **state) {
        (void)state;
        i64_store(instance, 3, UINT64_C(0x8182838485868788));
        assert_int_equal(instance->memory[3], 0x88);
        assert_int_equal(instance->memory[10], 0x81);
        assert_int_equal(i32_load8_s(instance, 3), 0xffffff88u);
        assert_int_equal(i32_load8_u(instance, 3), 0x88);
        assert_int_equal(i32_load16_s(instance, 3), 0xffff8788u);
        assert_int_equal(i32_load16_u(instance, 3), 0x8788);
        assert_true(i64_load8_s(instance, 3) == UINT64_C(0xffffffffffffff88));
        assert_true(i64_load16_s(instance, 3) == UINT64_C(0xffffffffffff8788));
        assert_true(i64_load32_s(instance, 3) == UINT64_C(0xffffffff85868788));
        assert_true(i64_load32_u(instance, 3) == UINT64_C(0x85868788));
        i32_store8(instance, 3, 0x1ff);
        i64_store16(instance, 4, 0x12345);
        assert_int_equal(i32_load(instance, 3), 0x852345ffu);
}

static void test_bulk_memory_stays_inside(void **state) {
        (void)state;
        a32 = WASM_PAGE;
        assert_int_equal(TRAP_OF(memory_fill(instance, a32 - 4, 0x1aa, 4)), WASM_TRAP_NONE);
        assert_int_equal(instance->memory[WASM_PAGE - 1], 0xaa);
        assert_int_equal(TRAP_OF(memory_fill(instance, a32 - 4, 0, 5)), WASM_TRAP_BOUNDS);
        assert_int_equal(instance->memory[WASM_PAGE - 1], 0xaa); /* nothing of it was done */
        assert_int_equal(TRAP_OF(memory_fill(instance, a32, 0, 0)), WASM_TRAP_NONE);
        assert_int_equal(TRAP_OF(memory_fill(instance, a32 + 1, 0, 0)), WASM_TRAP_BOUNDS);
        assert_int_equal(TRAP_OF(memory_fill(instance, UINT32_MAX, 0, UINT32_MAX)), WASM_TRAP_BOUNDS);
        assert_int_equal(TRAP_OF(memory_copy(instance, 0, a32 - 1, 2)), WASM_TRAP_BOUNDS);
        assert_int_equal(TRAP_OF(memory_copy(instance, a32 - 1, 0, 2)), WASM_TRAP_BOUNDS);
        memcpy(instance->memory, "abcdef", 6);
        memory_copy(instance, 1, 0, 5); /* they overlap */
        assert_memory_equal(instance->memory, "aabcde", 6);
}

typedef u32 (*narrow_function)(struct wasm_instance *, u32);

static void test_calls_check_index_and_type(void **state) {
        (void)state;
        a32 = 1;
        assert_int_equal(CALL_INDIRECT(narrow_function, 7, a32, instance, 21), 42);
        a32 = 2; /* another type */
        assert_int_equal(TRAP_OF(CALL_INDIRECT(narrow_function, 7, a32, instance, 21)), WASM_TRAP_INDIRECT_CALL);
        a32 = 0; /* nothing there */
        assert_int_equal(TRAP_OF(CALL_INDIRECT(narrow_function, 7, a32, instance, 21)), WASM_TRAP_INDIRECT_CALL);
        a32 = TABLE_SIZE;
        assert_int_equal(TRAP_OF(CALL_INDIRECT(narrow_function, 7, a32, instance, 21)), WASM_TRAP_INDIRECT_CALL);
        a32 = UINT32_MAX;
        assert_int_equal(TRAP_OF(CALL_INDIRECT(narrow_function, 7, a32, instance, 21)), WASM_TRAP_INDIRECT_CALL);
}

static void test_division(void **state) {
        (void)state;
        a32 = 0x80000000u, b32 = UINT32_MAX;
        assert_int_equal(TRAP_OF(I32_DIV_S(a32, b32)), WASM_TRAP_INTEGER);
        assert_int_equal(I32_REM_S(a32, b32), 0);
        a32 = (u32)-7, b32 = 2;
        assert_int_equal(I32_DIV_S(a32, b32), (u32)-3);
        assert_int_equal(I32_REM_S(a32, b32), (u32)-1);
        assert_int_equal(DIV_U(a32, b32), 0x7ffffffcu);
        b32 = 0;
        assert_int_equal(TRAP_OF(I32_DIV_S(a32, b32)), WASM_TRAP_INTEGER);
        assert_int_equal(TRAP_OF(I32_REM_S(a32, b32)), WASM_TRAP_INTEGER);
        assert_int_equal(TRAP_OF(DIV_U(a32, b32)), WASM_TRAP_INTEGER);
        assert_int_equal(TRAP_OF(REM_U(a32, b32)), WASM_TRAP_INTEGER);
        a64 = UINT64_C(1) << 63, b64 = UINT64_MAX;
        assert_int_equal(TRAP_OF(I64_DIV_S(a64, b64)), WASM_TRAP_INTEGER);
        assert_true(I64_REM_S(a64, b64) == 0);
        b64 = 0;
        assert_int_equal(TRAP_OF(I64_DIV_S(a64, b64)), WASM_TRAP_INTEGER);
        assert_int_equal(TRAP_OF(I64_REM_S(a64, b64)), WASM_TRAP_INTEGER);
}

static void test_bits(void **state) {
        (void)state;
        a32 = 0, a64 = 0;
        assert_int_equal(I32_CLZ(a32), 32);
        assert_int_equal(I32_CTZ(a32), 32);
        assert_int_equal(I64_CLZ(a64), 64);
        assert_int_equal(I64_CTZ(a64), 64);
        a32 = 0x80000001u;
        assert_int_equal(I32_POPCNT(a32), 2);
        b32 = 0;
        assert_int_equal(I32_ROTL(a32, b32), a32);
        b32 = 33;
        assert_int_equal(I32_ROTL(a32, b32), 3);
        assert_int_equal(I32_ROTR(a32, b32), 0xc0000000u);
        a64 = 1, b64 = 63;
        assert_true(I64_ROTL(a64, b64) == UINT64_C(1) << 63);
        b64 = 64;
        assert_true(I64_ROTR(a64, b64) == 1);
}

static void test_conversions_trap(void **state) {
        (void)state;
        x = -2147483648.9;
        assert_int_equal(I32_TRUNC_S_F64(x), 0x80000000u);
        x = -2147483649.;
        assert_int_equal(TRAP_OF(I32_TRUNC_S_F64(x)), WASM_TRAP_CONVERSION);
        x = 2147483647.9;
        assert_int_equal(I32_TRUNC_S_F64(x), 0x7fffffff);
        x = 2147483648.;
        assert_int_equal(TRAP_OF(I32_TRUNC_S_F64(x)), WASM_TRAP_CONVERSION);
        x = -0.9;
        assert_int_equal(I32_TRUNC_U_F64(x), 0);
        x = -1;
        assert_int_equal(TRAP_OF(I32_TRUNC_U_F64(x)), WASM_TRAP_CONVERSION);
        x = 4294967295.5;
        assert_int_equal(I32_TRUNC_U_F64(x), UINT32_MAX);
        x = NAN;
        assert_int_equal(TRAP_OF(I32_TRUNC_S_F64(x)), WASM_TRAP_CONVERSION);
        assert_int_equal(TRAP_OF(I64_TRUNC_U_F64(x)), WASM_TRAP_CONVERSION);
        x = -9223372036854775808.;
        assert_true(I64_TRUNC_S_F64(x) == UINT64_C(1) << 63);
        x = 9223372036854775808.;
        assert_int_equal(TRAP_OF(I64_TRUNC_S_F64(x)), WASM_TRAP_CONVERSION);
        assert_true(I64_TRUNC_U_F64(x) == UINT64_C(1) << 63);
        xf = 18446744073709551616.f;
        assert_int_equal(TRAP_OF(I64_TRUNC_U_F32(xf)), WASM_TRAP_CONVERSION);
}

static void test_conversions_saturate(void **state) {
        (void)state;
        x = NAN, xf = NAN;
        assert_int_equal(I32_TRUNC_SAT_S_F64(x), 0);
        assert_int_equal(I32_TRUNC_SAT_U_F32(xf), 0);
        x = -INFINITY, xf = -INFINITY;
        assert_int_equal(I32_TRUNC_SAT_S_F64(x), 0x80000000u);
        assert_int_equal(I32_TRUNC_SAT_U_F64(x), 0);
        assert_true(I64_TRUNC_SAT_S_F32(xf) == UINT64_C(1) << 63);
        x = 1e300;
        assert_int_equal(I32_TRUNC_SAT_S_F64(x), INT32_MAX);
        assert_int_equal(I32_TRUNC_SAT_U_F64(x), UINT32_MAX);
        assert_true(I64_TRUNC_SAT_S_F64(x) == INT64_MAX);
        assert_true(I64_TRUNC_SAT_U_F64(x) == UINT64_MAX);
        x = -3.99;
        assert_int_equal(I32_TRUNC_SAT_S_F64(x), (u32)-3);
        assert_int_equal(I32_TRUNC_SAT_U_F64(x), 0);
}

#define QUIET UINT64_C(0x0008000000000000)
#define SIGNALING UINT64_C(0x7ff0000000000001)

static void test_floating_point(void **state) {
        (void)state;
        x = -0., y = 0.;
        assert_true(signbit(FMIN(x, y)) && signbit(FMIN(y, x)));
        assert_false(signbit(FMAX(x, y)) || signbit(FMAX(y, x)));
        x = 1, y = NAN;
        assert_true(isnan(FMIN(x, y)) && isnan(FMAX(y, x)));
        y = 2;
        assert_true(FMIN(x, y) == 1 && FMAX(x, y) == 2);
        x = f64_reinterpret_i64(SIGNALING);
        assert_true(i64_reinterpret_f64(wasm_quiet(x)) == (SIGNALING | QUIET));
        assert_true(i64_reinterpret_f64(wasm_floor(x)) == (SIGNALING | QUIET));
        assert_true(i64_reinterpret_f64(wasm_fabs(f64_reinterpret_i64(SIGNALING | UINT64_C(1) << 63))) == SIGNALING);
        assert_int_equal(i32_reinterpret_f32(wasm_quietf(f32_reinterpret_i32(0xff800001u))), 0xffc00001u);
        x = -0.5;
        assert_true(signbit(wasm_ceil(x)) && wasm_floor(x) == -1 && wasm_trunc(x) == 0 && signbit(wasm_nearbyint(x)));
        x = 2.5; /* to even */
        assert_true(wasm_nearbyint(x) == 2);
        x = -1;
        assert_true(isnan(wasm_sqrt(x)));
        x = INFINITY;
        assert_false(is_nan(x));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_loads_and_stores),
                cmocka_unit_test(test_bulk_memory_stays_inside),
                cmocka_unit_test(test_calls_check_index_and_type),
                cmocka_unit_test(test_division),
                cmocka_unit_test(test_bits),
                cmocka_unit_test(test_conversions_trap),
                cmocka_unit_test(test_conversions_saturate),
                cmocka_unit_test(test_floating_point),
        };

        return cmocka_run_group_tests(tests, make_instance, free_instance);
}

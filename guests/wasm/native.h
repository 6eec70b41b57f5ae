/* SPDX-License-Identifier: Apache-2.0 */
/* What the functions that wasm2c writes are made of: loads, stores, calls through the table, and the arithmetic of
 * WebAssembly where C's differs. native.py puts it in place of wasm2c's own header, whose memory and table are objects
 * of a run-time library; here memory lies behind the instance and the table is static data (engine/code.h).
 *
 * Semantics: https://www.w3.org/TR/wasm-core-1/#numerics. Compiled with -frounding-math, -fsignaling-nans and
 * -ffp-contract=off, without which a compiler folds what has to be computed. */
#pragma once

#include <math.h>
#include <string.h>

#include "code.h"
#include "wasi.h"

typedef uint8_t u8;
typedef int8_t s8;
typedef uint16_t u16;
typedef int16_t s16;
typedef uint32_t u32;
typedef int32_t s32;
typedef uint64_t u64;
typedef int64_t s64;
typedef float f32;
typedef double f64;

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* An expression of any type's value, that is never reached. */
#define TRAP(what) (wasm_trap(instance, WASM_TRAP_##what), 0)
#define UNREACHABLE TRAP(UNREACHABLE)
#define FUNC_PROLOGUE ((void)0)
#define FUNC_EPILOGUE ((void)0)

/* ---- memory ----
 * A 32-bit address and a 32-bit offset, added as 64 bits, stay within the reservation: what lies beyond the memory's
 * size has no access rights and the engine makes a trap of the fault. */

#define BYTE(instance, address) ((u8 *)(instance) + WASM_INSTANCE_SPAN + (address))

#define DEFINE_LOAD(name, stored, widened, type)                                                                       \
        static inline type name(const struct wasm_instance *instance, u64 address) {                                   \
                stored value;                                                                                          \
                __builtin_memcpy(&value, BYTE(instance, address), sizeof value);                                       \
                return (type)(widened)value;                                                                           \
        }
#define DEFINE_STORE(name, stored, type)                                                                               \
        static inline void name(struct wasm_instance *instance, u64 address, type value) {                             \
                stored narrowed = (stored)value;                                                                       \
                __builtin_memcpy(BYTE(instance, address), &narrowed, sizeof narrowed);                                 \
        }

DEFINE_LOAD(i32_load, u32, u32, u32)
DEFINE_LOAD(i64_load, u64, u64, u64)
DEFINE_LOAD(f32_load, f32, f32, f32)
DEFINE_LOAD(f64_load, f64, f64, f64)
DEFINE_LOAD(i32_load8_s, s8, s32, u32)
DEFINE_LOAD(i64_load8_s, s8, s64, u64)
DEFINE_LOAD(i32_load8_u, u8, u32, u32)
DEFINE_LOAD(i64_load8_u, u8, u64, u64)
DEFINE_LOAD(i32_load16_s, s16, s32, u32)
DEFINE_LOAD(i64_load16_s, s16, s64, u64)
DEFINE_LOAD(i32_load16_u, u16, u32, u32)
DEFINE_LOAD(i64_load16_u, u16, u64, u64)
DEFINE_LOAD(i64_load32_s, s32, s64, u64)
DEFINE_LOAD(i64_load32_u, u32, u64, u64)
DEFINE_STORE(i32_store, u32, u32)
DEFINE_STORE(i64_store, u64, u64)
DEFINE_STORE(f32_store, f32, f32)
DEFINE_STORE(f64_store, f64, f64)
DEFINE_STORE(i32_store8, u8, u32)
DEFINE_STORE(i32_store16, u16, u32)
DEFINE_STORE(i64_store8, u8, u64)
DEFINE_STORE(i64_store16, u16, u64)
DEFINE_STORE(i64_store32, u32, u64)

static inline void memory_check(struct wasm_instance *instance, u32 address, u32 size) {
        if (UNLIKELY((u64)address + size > instance->size))
                (void)TRAP(BOUNDS);
}
static inline void memory_fill(struct wasm_instance *instance, u32 address, u32 value, u32 size) {
        memory_check(instance, address, size);
        memset(BYTE(instance, (u64)address), (int)(u8)value, size);
}
static inline void memory_copy(struct wasm_instance *instance, u32 to, u32 from, u32 size) {
        memory_check(instance, to, size);
        memory_check(instance, from, size);
        memmove(BYTE(instance, (u64)to), BYTE(instance, (u64)from), size);
}

/* ---- calls through the table: types are numbers, equal for equal signatures ---- */

#define CALL_INDIRECT(signature, wanted, x, ...)                                                                       \
        ((void)(LIKELY((x) < TABLE_SIZE && wasm_table[x].type == (wanted)) || TRAP(INDIRECT_CALL)),                    \
         ((signature)wasm_table[x].function)(__VA_ARGS__))

/* ---- integers ---- */

#define I32_CLZ(x) ((x) ? (u32)__builtin_clz(x) : 32u)
#define I64_CLZ(x) ((x) ? (u64)__builtin_clzll(x) : 64u)
#define I32_CTZ(x) ((x) ? (u32)__builtin_ctz(x) : 32u)
#define I64_CTZ(x) ((x) ? (u64)__builtin_ctzll(x) : 64u)
#define I32_POPCNT(x) ((u32)__builtin_popcount(x))
#define I64_POPCNT(x) ((u64)__builtin_popcountll(x))

#define DIV_S(type, minimum, x, y)                                                                                     \
        (UNLIKELY((y) == 0 || ((x) == (minimum) && (y) == -1)) ? (type)TRAP(INTEGER) : (type)((x) / (y)))
#define REM_S(type, x, y) (UNLIKELY((y) == 0) ? (type)TRAP(INTEGER) : (y) == -1 ? (type)0 : (type)((x) % (y)))
#define I32_DIV_S(x, y) DIV_S(u32, INT32_MIN, (s32)(x), (s32)(y))
#define I64_DIV_S(x, y) DIV_S(u64, INT64_MIN, (s64)(x), (s64)(y))
#define I32_REM_S(x, y) REM_S(u32, (s32)(x), (s32)(y))
#define I64_REM_S(x, y) REM_S(u64, (s64)(x), (s64)(y))
#define DIV_U(x, y) (UNLIKELY((y) == 0) ? TRAP(INTEGER) : (x) / (y))
#define REM_U(x, y) (UNLIKELY((y) == 0) ? TRAP(INTEGER) : (x) % (y))

#define ROTL(x, y, mask) (((x) << ((y) & (mask))) | ((x) >> (((mask) - (y) + 1) & (mask))))
#define ROTR(x, y, mask) (((x) >> ((y) & (mask))) | ((x) << (((mask) - (y) + 1) & (mask))))
#define I32_ROTL(x, y) ROTL(x, y, 31)
#define I64_ROTL(x, y) ROTL(x, y, 63)
#define I32_ROTR(x, y) ROTR(x, y, 31)
#define I64_ROTR(x, y) ROTR(x, y, 63)

/* ---- floating point: isnan() of bits, since with -fsignaling-nans gcc calls a function for it ---- */

#define DEFINE_REINTERPRET(name, from, to)                                                                             \
        static inline to name(from x) {                                                                                \
                to result;                                                                                             \
                memcpy(&result, &x, sizeof result);                                                                    \
                return result;                                                                                         \
        }
DEFINE_REINTERPRET(f32_reinterpret_i32, u32, f32)
DEFINE_REINTERPRET(i32_reinterpret_f32, f32, u32)
DEFINE_REINTERPRET(f64_reinterpret_i64, u64, f64)
DEFINE_REINTERPRET(i64_reinterpret_f64, f64, u64)

static inline int is_nanf(f32 x) {
        return (i32_reinterpret_f32(x) & 0x7fffffffu) > 0x7f800000u;
}
static inline int is_nan(f64 x) {
        return (i64_reinterpret_f64(x) & 0x7fffffffffffffffu) > 0x7ff0000000000000u;
}
#define IS_NAN(x) _Generic((x), f32 : is_nanf, f64 : is_nan)(x)

/* ---- floating point to integers. The bounds are what the type can hold: exact as f64; as f32 and for 64 bits the next
 * representable number beyond, hence `<`. ---- */

#define IN_RANGE(x, low, high) ((x)low && (x) < (high))
#define TRUNC(type, through, x, low, high)                                                                             \
        (LIKELY(IN_RANGE(x, low, high)) ? (type)(through)(x) : (type)TRAP(CONVERSION))
#define I32_TRUNC_S_F32(x) TRUNC(u32, s32, x, >= -2147483648.f, 2147483648.f)
#define I64_TRUNC_S_F32(x) TRUNC(u64, s64, x, >= -9223372036854775808.f, 9223372036854775808.f)
#define I32_TRUNC_S_F64(x) TRUNC(u32, s32, x, > -2147483649., 2147483648.)
#define I64_TRUNC_S_F64(x) TRUNC(u64, s64, x, >= -9223372036854775808., 9223372036854775808.)
#define I32_TRUNC_U_F32(x) TRUNC(u32, u32, x, > -1.f, 4294967296.f)
#define I64_TRUNC_U_F32(x) TRUNC(u64, u64, x, > -1.f, 18446744073709551616.f)
#define I32_TRUNC_U_F64(x) TRUNC(u32, u32, x, > -1., 4294967296.)
#define I64_TRUNC_U_F64(x) TRUNC(u64, u64, x, > -1., 18446744073709551616.)

/* Not a number gives 0; what is too small or too large, the least or the greatest. */
#define TRUNC_SAT(type, through, x, low, high, least, greatest)                                                        \
        (LIKELY(IN_RANGE(x, low, high)) ? (type)(through)(x)                                                           \
         : IS_NAN(x)                    ? (type)0                                                                      \
         : (x) < 0                      ? (type)(least)                                                                \
                                        : (type)(greatest))
#define I32_TRUNC_SAT_S_F32(x) TRUNC_SAT(u32, s32, x, >= -2147483648.f, 2147483648.f, INT32_MIN, INT32_MAX)
#define I64_TRUNC_SAT_S_F32(x)                                                                                         \
        TRUNC_SAT(u64, s64, x, >= -9223372036854775808.f, 9223372036854775808.f, INT64_MIN, INT64_MAX)
#define I32_TRUNC_SAT_S_F64(x) TRUNC_SAT(u32, s32, x, > -2147483649., 2147483648., INT32_MIN, INT32_MAX)
#define I64_TRUNC_SAT_S_F64(x)                                                                                         \
        TRUNC_SAT(u64, s64, x, >= -9223372036854775808., 9223372036854775808., INT64_MIN, INT64_MAX)
#define I32_TRUNC_SAT_U_F32(x) TRUNC_SAT(u32, u32, x, > -1.f, 4294967296.f, 0, UINT32_MAX)
#define I64_TRUNC_SAT_U_F32(x) TRUNC_SAT(u64, u64, x, > -1.f, 18446744073709551616.f, 0, UINT64_MAX)
#define I32_TRUNC_SAT_U_F64(x) TRUNC_SAT(u32, u32, x, > -1., 4294967296., 0, UINT32_MAX)
#define I64_TRUNC_SAT_U_F64(x) TRUNC_SAT(u64, u64, x, > -1., 18446744073709551616., 0, UINT64_MAX)

/* ---- floating point: a result that is not a number is a quiet one; fabs only clears the sign ---- */

static inline f32 wasm_quietf(f32 x) {
        return UNLIKELY(is_nanf(x)) ? f32_reinterpret_i32(i32_reinterpret_f32(x) | 0x7fc00000u) : x;
}
static inline f64 wasm_quiet(f64 x) {
        return UNLIKELY(is_nan(x)) ? f64_reinterpret_i64(i64_reinterpret_f64(x) | 0x7ff8000000000000u) : x;
}
static inline f32 wasm_fabsf(f32 x) {
        return f32_reinterpret_i32(i32_reinterpret_f32(x) & 0x7fffffffu);
}
static inline f64 wasm_fabs(f64 x) {
        return f64_reinterpret_i64(i64_reinterpret_f64(x) & 0x7fffffffffffffffu);
}
#define DEFINE_ROUND(name)                                                                                             \
        static inline f64 wasm_##name(f64 x) {                                                                         \
                return UNLIKELY(is_nan(x)) ? wasm_quiet(x) : name(x);                                                  \
        }                                                                                                              \
        static inline f32 wasm_##name##f(f32 x) {                                                                      \
                return UNLIKELY(is_nanf(x)) ? wasm_quietf(x) : name##f(x);                                             \
        }
DEFINE_ROUND(floor)
DEFINE_ROUND(ceil)
DEFINE_ROUND(trunc)
DEFINE_ROUND(nearbyint)
DEFINE_ROUND(sqrt)

/* -0 is less than +0. */
static inline f64 wasm_min(f64 x, f64 y) {
        if (UNLIKELY(IS_NAN(x) || IS_NAN(y)))
                return NAN;
        return x == 0 && y == 0 ? (signbit(x) ? x : y) : x < y ? x : y;
}
static inline f64 wasm_max(f64 x, f64 y) {
        if (UNLIKELY(IS_NAN(x) || IS_NAN(y)))
                return NAN;
        return x == 0 && y == 0 ? (signbit(x) ? y : x) : x > y ? x : y;
}
#define FMIN(x, y) wasm_min(x, y)
#define FMAX(x, y) wasm_max(x, y)

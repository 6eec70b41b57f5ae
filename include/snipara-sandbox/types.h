/* SPDX-License-Identifier: Apache-2.0 */
/* Values that cross the plugin ABI: bytes, errors, calls.
 *
 * Rules for the whole ABI
 * - Every struct that may grow starts with `struct_size`, set by whoever fills it to the sizeof() it was
 *   compiled with. Structs are append-only: a reader copies min(its sizeof, struct_size) and treats what is
 *   missing as zero. Nobody reads past `struct_size`.
 * - Who fills a struct that another made (`ret_...` with struct_size set) does so member by member, and writes nothing
 *   past that struct_size. A struct that stands by value in another one (sbx_limits) is fixed.
 * - Functions return 0 or a negative errno, and fill the optional `struct sbx_error` once, where the failure
 *   is understood. Outputs are untouched on failure.
 * - Strings are UTF-8 and NUL-terminated; JSON crosses as UTF-8 bytes with a length (struct sbx_bytes).
 * - A borrowed pointer lives until the call returns, unless its comment says otherwise.
 */
#ifndef SNIPARA_SANDBOX_TYPES_H
#define SNIPARA_SANDBOX_TYPES_H

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SBX_ABI_MAJOR 1u
#define SBX_ABI_MINOR 4u

#if defined(__GNUC__)
#define SBX_PRINTF(format_index, first_arg) __attribute__((format(printf, format_index, first_arg)))
#else
#define SBX_PRINTF(format_index, first_arg)
#endif

/* Borrowed bytes; `data` may be NULL only when `size` is 0. */
struct sbx_bytes {
        const void *data;
        size_t size;
};

/* What went wrong (message), what to do next (hint), which part says so (origin).
 * The caller owns the struct and its size is fixed, so an error can be reported when memory is short; a longer
 * text is cut at a character boundary. `code` is a negative errno, or 0 for "no error set". */
#define SBX_ERROR_MESSAGE_MAX 1024
#define SBX_ERROR_HINT_MAX 512
#define SBX_ERROR_ORIGIN_MAX 64

struct sbx_error {
        int code;
        char message[SBX_ERROR_MESSAGE_MAX];
        char hint[SBX_ERROR_HINT_MAX];
        char origin[SBX_ERROR_ORIGIN_MAX];
};

/* Drops a character that a cut left half (UTF-8 continuation bytes without their lead). */
static inline void sbx_error_trim_(char *text, size_t capacity) {
        size_t length = strlen(text);

        if (length + 1 < capacity)
                return;
        while (length > 0 && ((unsigned char)text[length - 1] & 0xC0) == 0x80)
                length--;
        if (length > 0 && ((unsigned char)text[length - 1] & 0x80) != 0)
                length--;
        text[length] = '\0';
}

/* Sets `err` (which may be NULL) unless an error is set already: the first report, nearest the cause, stays.
 * `hint` may be NULL. Returns `code`, so that `return sbx_error_set(err, -EINVAL, ...)` reads well. Any thread. */
SBX_PRINTF(5, 6)
static inline int sbx_error_set(struct sbx_error *err, int code, const char *origin, const char *hint,
                                const char *format, ...) {
        va_list args;

        if (err == NULL || err->code != 0)
                return code;
        err->code = code;
        va_start(args, format);
        if (vsnprintf(err->message, sizeof(err->message), format, args) < 0)
                err->message[0] = '\0';
        va_end(args);
        snprintf(err->hint, sizeof(err->hint), "%s", hint != NULL ? hint : "");
        snprintf(err->origin, sizeof(err->origin), "%s", origin != NULL ? origin : "");
        sbx_error_trim_(err->message, sizeof(err->message));
        sbx_error_trim_(err->hint, sizeof(err->hint));
        return code;
}

/* One call that can take time. A callee that waits, waits on both: until `deadline_ns` (CLOCK_MONOTONIC, 0 for
 * none) and until `cancel_fd` (-1 for none) is readable; it never reads from it. Then it gives up with
 * -ETIMEDOUT or -ECANCELED. */
struct sbx_call {
        uint32_t struct_size;
        int32_t cancel_fd;
        uint64_t deadline_ns;
        /* Since ABI 1.3. Told what goes on while a call takes long ("pulling python:3.12-slim: 31 of 48 MB"), for people
         * to read; from any thread, until the call returns; must not block. NULL: nobody looks. */
        void (*progress)(void *data, const char *message);
        void *progress_data;
};

/* Tells whoever waits for the call; a no-op when nobody looks, or the caller's struct is an older one. */
static inline void sbx_call_progress(const struct sbx_call *call, const char *message) {
        if (call != NULL && call->struct_size >= sizeof(*call) && call->progress != NULL)
                call->progress(call->progress_data, message);
}

/* Bytes that a plugin hands back. Opaque: made by the host with a maximum size, appended to with
 * sbx_host.output_append, which answers -EFBIG beyond the maximum. */
struct sbx_output;

#ifdef __cplusplus
}
#endif
#endif

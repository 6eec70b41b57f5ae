/* SPDX-License-Identifier: Apache-2.0 */
/* Frames: what is encoded, what is believed. */
#include "../test.h"

#include "../alloc_fail.h"
#include "base/error.h"
#include "guest/frame.h"

#define MIB ((size_t)1 << 20)

static struct sbx_bytes bytes_of(const char *data, size_t size) {
        return (struct sbx_bytes){data, size};
}

static void encodes_both_shapes(void **state) {
        struct sbx_buffer out = SBX_BUFFER(1024);

        assert_int_equal(sbx_frame_encode(SBX_FRAME_CLEAR, BYTES("{}"), bytes_of(NULL, 0), &out), 0);
        assert_int_equal(out.size, 7);
        assert_memory_equal(out.data, "\2\0\0\0\5{}", 7);
        sbx_buffer_clear(&out);
        assert_int_equal(sbx_frame_encode(SBX_FRAME_EXEC, BYTES("{}"), BYTES("x=1"), &out), 0);
        assert_int_equal(out.size, 14);
        assert_memory_equal(out.data, "\11\0\0\0\2\2\0\0\0{}x=1", 14);
        assert_int_equal(sbx_frame_size(sbx_buffer_bytes(&out)), 14);
        sbx_buffer_free(&out);
}

static void refuses_to_encode(void **state) {
        struct sbx_buffer out = SBX_BUFFER(100 * MIB);
        char *large = calloc(1, 18 * MIB);

        assert_non_null(large);
        assert_int_equal(sbx_frame_encode(SBX_FRAME_EXEC, BYTES("{}"), bytes_of(large, 17 * MIB), &out), -EFBIG);
        assert_int_equal(sbx_frame_encode(SBX_FRAME_EXEC, BYTES("{}"), bytes_of(large, 17 * MIB - 6), &out), 0);
        sbx_buffer_clear(&out);
        assert_int_equal(sbx_frame_encode(SBX_FRAME_GET, bytes_of(large, 64 * 1024 + 1), bytes_of(NULL, 0), &out),
                         -EFBIG);
        assert_int_equal(sbx_frame_encode(SBX_FRAME_GET, BYTES("{}"), BYTES("x"), &out), -EINVAL);
        assert_int_equal(sbx_frame_encode(SBX_FRAME_RESULT, BYTES("{}"), BYTES("x"), &out), -EINVAL);
        assert_int_equal(sbx_frame_encode(0, BYTES("{}"), BYTES(""), &out), -EINVAL);
        assert_int_equal(sbx_frame_encode(0xff, BYTES("{}"), BYTES(""), &out), -EINVAL);
        assert_int_equal(out.size, 0);
        free(large);
        sbx_buffer_free(&out);
}

/* Each prefix of a good stream is "more bytes needed", never an error and never a frame too early. */
static void decodes_in_pieces(void **state) {
        static const char stream[] = "\11\0\0\0\x86\2\0\0\0{}abc\3\0\0\0\x82xyz\2\0\0\0\x81{}";
        struct sbx_frame frame;
        size_t consumed = 0;

        for (size_t size = 0; size < 14; size++)
                assert_int_equal(sbx_frame_decode(bytes_of(stream, size), &frame, &consumed, NULL), 0);
        assert_int_equal(consumed, 0);
        assert_int_equal(sbx_frame_decode(bytes_of(stream, sizeof(stream) - 1), &frame, &consumed, NULL), 1);
        assert_int_equal(consumed, 14);
        assert_int_equal(frame.type, SBX_FRAME_RESULT);
        assert_memory_equal(frame.json.data, "{}", 2);
        assert_int_equal(frame.blob.size, 3);
        assert_memory_equal(frame.blob.data, "abc", 3);
        assert_int_equal(sbx_frame_decode(bytes_of(stream + 14, 8), &frame, &consumed, NULL), 1);
        assert_int_equal(frame.type, SBX_FRAME_STDOUT);
        assert_int_equal(frame.json.size, 0);
        assert_memory_equal(frame.blob.data, "xyz", 3);
        assert_int_equal(sbx_frame_decode(bytes_of(stream + 22, 7), &frame, &consumed, NULL), 1);
        assert_int_equal(frame.type, SBX_FRAME_READY);
        assert_int_equal(frame.json.size, 2);
        assert_int_equal(frame.blob.size, 0);
}

static void refuses_bad_frames(void **state) {
        static const struct {
                const char *data, *says;
                size_t size;
        } bad[] = {
                {"\0\0\0\0\0", "unknown type 0x00", 5}, /* no type */
                {"\0\0\0\0\2", "unknown type 0x02", 5}, /* a request, from a guest */
                {"\0\0\0\0\x80", "unknown type 0x80", 5},
                {"\0\0\0\0\x88", "unknown type 0x88", 5},
                {"\0\0\0\0\xff", "unknown type 0xff", 5},
                {"\xff\xff\xff\xff\x86", "4294967295 bytes", 5}, /* seen before the bytes come */
                {"\1\0\x10\0\x82", "`stdout` frame", 5},         /* 1 MiB and one */
                {"\0\0\0\0\x86", "has no JSON length", 5},
                {"\3\0\0\0\x86\0\0\0", "has no JSON length", 8},
                {"\4\0\0\0\x86\1\0\0\0", "its JSON has 1", 9},
                {"\6\0\0\0\x86\xff\xff\xff\xff{}", "its JSON has 4294967295", 11},
        };

        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                struct sbx_frame frame = {.type = 0x42};
                struct sbx_error err = {0};
                size_t consumed = 7;

                assert_int_equal(sbx_frame_decode(bytes_of(bad[i].data, bad[i].size), &frame, &consumed, &err),
                                 -EPROTO);
                assert_contains(err.message, bad[i].says);
                assert_int_equal(frame.type, 0x42);
                assert_int_equal(consumed, 7);
        }
}

/* Every header: an error, or a wait for at most what the table allows. */
static void bounds_every_header(void **state) {
        for (unsigned type = 0; type < 256; type++) {
                for (unsigned shift = 0; shift < 32; shift++) {
                        uint32_t length = (uint32_t)1 << shift;
                        unsigned char header[SBX_FRAME_HEADER_SIZE] = {
                                (unsigned char)length, (unsigned char)(length >> 8), (unsigned char)(length >> 16),
                                (unsigned char)(length >> 24), (unsigned char)type};
                        struct sbx_frame frame;
                        size_t consumed;
                        int r = sbx_frame_decode((struct sbx_bytes){header, sizeof(header)}, &frame, &consumed, NULL);

                        assert_true(r == -EPROTO || (r == 0 && length <= 68 * MIB + 4096));
                }
        }
}

static int encode_body(void *data) {
        struct sbx_buffer out = SBX_BUFFER(1024);
        int r = sbx_frame_encode(SBX_FRAME_EXEC, BYTES("{}"), BYTES("x"), &out);

        sbx_buffer_free(&out);
        return r;
}

static void survives_allocation_failures(void **state) {
        assert_true(alloc_fail_sweep(encode_body, NULL) > 1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(encodes_both_shapes), cmocka_unit_test(refuses_to_encode),
                cmocka_unit_test(decodes_in_pieces),   cmocka_unit_test(refuses_bad_frames),
                cmocka_unit_test(bounds_every_header), cmocka_unit_test(survives_allocation_failures),
        };

        return cmocka_run_group_tests_name("frame", tests, NULL, NULL);
}

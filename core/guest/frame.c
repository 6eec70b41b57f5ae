/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of the guest protocol: what may be sent, and what may be believed of what was received. */
#include "guest/frame.h"

#include <stdbool.h>

#define KIB(count) ((uint32_t)(count) << 10)
#define MIB(count) ((uint32_t)(count) << 20)
#define JSON_LENGTH_SIZE 4

enum shape { SHAPE_NONE = 0, SHAPE_JSON, SHAPE_BLOB, SHAPE_JSON_BLOB };

struct rule {
        const char *name;
        enum shape shape;
        uint32_t payload_max, json_max;
};

/* docs/guest-protocol.md has the same table. */
static const struct rule from_host[] = {
        [SBX_FRAME_HELLO] = {"hello", SHAPE_JSON, KIB(64), KIB(64)},
        [SBX_FRAME_EXEC] = {"exec", SHAPE_JSON_BLOB, MIB(17), KIB(64)},
        [SBX_FRAME_GET] = {"get", SHAPE_JSON, KIB(64), KIB(64)},
        [SBX_FRAME_SET] = {"set", SHAPE_JSON, MIB(17), MIB(17)},
        [SBX_FRAME_CLEAR] = {"clear", SHAPE_JSON, KIB(4), KIB(4)},
        [SBX_FRAME_FILE_READ] = {"file_read", SHAPE_JSON, KIB(64), KIB(64)},
        [SBX_FRAME_FILE_WRITE] = {"file_write", SHAPE_JSON_BLOB, MIB(65), KIB(64)},
        [SBX_FRAME_FILE_LIST] = {"file_list", SHAPE_JSON, KIB(64), KIB(64)},
        [SBX_FRAME_SAVE] = {"save", SHAPE_JSON, KIB(64), KIB(64)},
        [SBX_FRAME_RESTORE] = {"restore", SHAPE_JSON, KIB(64), KIB(64)},
        [SBX_FRAME_TOOL_RESULT] = {"tool_result", SHAPE_JSON_BLOB, MIB(17), KIB(64)},
        [SBX_FRAME_GIVE_STATE] = {"state", SHAPE_JSON_BLOB, MIB(17), KIB(64)},
};

#define FROM_GUEST 0x80
static const struct rule from_guest[] = {
        [SBX_FRAME_READY - FROM_GUEST] = {"ready", SHAPE_JSON, KIB(64), KIB(64)},
        [SBX_FRAME_STDOUT - FROM_GUEST] = {"stdout", SHAPE_BLOB, MIB(1), 0},
        [SBX_FRAME_STDERR - FROM_GUEST] = {"stderr", SHAPE_BLOB, MIB(1), 0},
        [SBX_FRAME_DISPLAY - FROM_GUEST] = {"display", SHAPE_JSON_BLOB, MIB(16), KIB(64)},
        [SBX_FRAME_TOOL_CALL - FROM_GUEST] = {"tool_call", SHAPE_JSON_BLOB, MIB(17), KIB(64)},
        [SBX_FRAME_RESULT - FROM_GUEST] = {"result", SHAPE_JSON_BLOB, MIB(68) + KIB(4), MIB(4)},
        [SBX_FRAME_STATE - FROM_GUEST] = {"state", SHAPE_JSON_BLOB, MIB(17), KIB(64)},
};

static const struct rule *find_rule(const struct rule *rules, size_t count, size_t index) {
        return index < count && rules[index].shape != SHAPE_NONE ? &rules[index] : NULL;
}

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void put_u32(unsigned char *out, size_t value) {
        out[0] = (unsigned char)(value & 0xff);
        out[1] = (unsigned char)(value >> 8 & 0xff);
        out[2] = (unsigned char)(value >> 16 & 0xff);
        out[3] = (unsigned char)(value >> 24 & 0xff);
}

static uint32_t get_u32(const unsigned char *in) {
        return (uint32_t)in[0] | (uint32_t)in[1] << 8 | (uint32_t)in[2] << 16 | (uint32_t)in[3] << 24;
}

int sbx_frame_encode_head(uint8_t type, struct sbx_bytes json, size_t blob_size, struct sbx_buffer *out) {
        const struct rule *rule = find_rule(from_host, COUNT(from_host), type);
        unsigned char head[SBX_FRAME_HEADER_SIZE + JSON_LENGTH_SIZE];
        size_t head_size = SBX_FRAME_HEADER_SIZE, payload;
        int r;

        if (rule == NULL || (rule->shape == SHAPE_JSON && blob_size > 0))
                return -EINVAL;
        if (json.size > rule->json_max || blob_size > rule->payload_max)
                return -EFBIG;
        payload = json.size + blob_size;
        if (rule->shape == SHAPE_JSON_BLOB) {
                payload += JSON_LENGTH_SIZE;
                put_u32(head + SBX_FRAME_HEADER_SIZE, json.size);
                head_size += JSON_LENGTH_SIZE;
        }
        if (payload > rule->payload_max)
                return -EFBIG;
        put_u32(head, payload);
        head[4] = type;
        r = sbx_buffer_reserve(out, head_size + json.size);
        if (r < 0)
                return r;
        r = sbx_buffer_append(out, head, head_size);
        return r < 0 ? r : sbx_buffer_append(out, json.data, json.size);
}

int sbx_frame_encode(uint8_t type, struct sbx_bytes json, struct sbx_bytes blob, struct sbx_buffer *out) {
        size_t before = out->size;
        int r = sbx_frame_encode_head(type, json, blob.size, out);

        if (r < 0)
                return r;
        r = sbx_buffer_append(out, blob.data, blob.size);
        if (r < 0)
                out->size = before;
        return r;
}

static int split(const struct rule *rule, struct sbx_frame *frame, struct sbx_error *err) {
        const unsigned char *payload = frame->payload.data;
        size_t size = frame->payload.size, json_size;

        if (rule->shape == SHAPE_BLOB) {
                frame->blob = frame->payload;
                return 0;
        }
        if (rule->shape == SHAPE_JSON) {
                frame->json = frame->payload;
                return 0;
        }
        if (size < JSON_LENGTH_SIZE)
                return sbx_error_set(err, -EPROTO, "guest", NULL, "a `%s` frame of %zu bytes has no JSON length",
                                     rule->name, size);
        json_size = get_u32(payload);
        if (json_size > size - JSON_LENGTH_SIZE || json_size > rule->json_max)
                return sbx_error_set(err, -EPROTO, "guest", NULL,
                                     "a `%s` frame of %zu bytes says that its JSON has %zu", rule->name, size,
                                     json_size);
        frame->json = (struct sbx_bytes){payload + JSON_LENGTH_SIZE, json_size};
        frame->blob = (struct sbx_bytes){payload + JSON_LENGTH_SIZE + json_size, size - JSON_LENGTH_SIZE - json_size};
        return 0;
}

int sbx_frame_decode(struct sbx_bytes input, struct sbx_frame *ret_frame, size_t *ret_consumed, struct sbx_error *err) {
        const unsigned char *bytes = input.data;
        const struct rule *rule;
        struct sbx_frame frame = {0};
        size_t size;
        int r;

        if (input.size < SBX_FRAME_HEADER_SIZE)
                return 0;
        size = get_u32(bytes);
        frame.type = bytes[4];
        rule = frame.type >= FROM_GUEST ? find_rule(from_guest, COUNT(from_guest), frame.type - FROM_GUEST) : NULL;
        if (rule == NULL)
                return sbx_error_set(err, -EPROTO, "guest", NULL, "a frame of the unknown type 0x%02x", frame.type);
        if (size > rule->payload_max)
                return sbx_error_set(err, -EPROTO, "guest", NULL, "a `%s` frame of %zu bytes; at most %u are allowed",
                                     rule->name, size, rule->payload_max);
        if (input.size - SBX_FRAME_HEADER_SIZE < size)
                return 0;
        frame.payload = (struct sbx_bytes){bytes + SBX_FRAME_HEADER_SIZE, size};
        r = split(rule, &frame, err);
        if (r < 0)
                return r;
        *ret_frame = frame;
        *ret_consumed = SBX_FRAME_HEADER_SIZE + size;
        return 1;
}

size_t sbx_frame_size(struct sbx_bytes input) {
        return input.size < SBX_FRAME_HEADER_SIZE ? 0 : SBX_FRAME_HEADER_SIZE + (size_t)get_u32(input.data);
}

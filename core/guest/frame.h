/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of the guest protocol: types, caps, encoding, and an incremental decoder that never trusts a length. */
#pragma once

#include "base/buffer.h"

enum sbx_frame_type {
        SBX_FRAME_HELLO = 0x01,
        SBX_FRAME_EXEC = 0x02,
        SBX_FRAME_GET = 0x03,
        SBX_FRAME_SET = 0x04,
        SBX_FRAME_CLEAR = 0x05,
        SBX_FRAME_FILE_READ = 0x06,
        SBX_FRAME_FILE_WRITE = 0x07,
        SBX_FRAME_FILE_LIST = 0x08,
        SBX_FRAME_SAVE = 0x09,
        SBX_FRAME_RESTORE = 0x0a,
        SBX_FRAME_TOOL_RESULT = 0x0b,
        SBX_FRAME_GIVE_STATE = 0x0c,
        SBX_FRAME_READY = 0x81,
        SBX_FRAME_STDOUT = 0x82,
        SBX_FRAME_STDERR = 0x83,
        SBX_FRAME_DISPLAY = 0x84,
        SBX_FRAME_TOOL_CALL = 0x85,
        SBX_FRAME_RESULT = 0x86,
        SBX_FRAME_STATE = 0x87,
};

#define SBX_FRAME_HEADER_SIZE 5

struct sbx_frame {
        uint8_t type;
        struct sbx_bytes payload; /* borrowed from the decoder's buffer until the next call on it */
        struct sbx_bytes json, blob; /* the two parts of a JB frame; json alone for J */
};

/* Appends a frame. `json` or `blob` may be empty where the shape has none. -EFBIG beyond the type's cap. */
int sbx_frame_encode(uint8_t type, struct sbx_bytes json, struct sbx_bytes blob, struct sbx_buffer *out);
/* The same without the blob's bytes: a large blob is sent from where it is. */
int sbx_frame_encode_head(uint8_t type, struct sbx_bytes json, size_t blob_size, struct sbx_buffer *out);
/* Looks at the front of `input`: 1 and a frame (then drop `*ret_consumed` bytes), 0 for "more bytes needed", -EPROTO
 * for a frame that no guest may send (the error says why). */
int sbx_frame_decode(struct sbx_bytes input, struct sbx_frame *ret_frame, size_t *ret_consumed, struct sbx_error *err);
/* What the frame at the front of `input` says that it is long, header included; 0: not even the header is there. */
size_t sbx_frame_size(struct sbx_bytes input);

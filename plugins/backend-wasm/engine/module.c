/* SPDX-License-Identifier: Apache-2.0 */
/* Data segments of WebAssembly modules, at bake time: https://webassembly.github.io/spec/core/binary/modules.html */
#include <errno.h>
#include <sha2.h>
#include <stdio.h>
#include <string.h>

#include "bake.h"
#include "image_layout.h"

#define SECTION_DATA 11
#define OPCODE_I32_CONST 0x41
#define OPCODE_END 0x0b

struct cursor {
        const uint8_t *at, *end;
        bool failed; /* it ended too early, or a number is too long: everything read since is 0 */
};

static uint8_t get_byte(struct cursor *cursor) {
        if (cursor->at == cursor->end) {
                cursor->failed = true;
                return 0;
        }
        return *cursor->at++;
}

/* LEB128 of at most 32 bits. Offsets are signed there and addresses here: the same bits. */
static uint32_t get_number(struct cursor *cursor, bool is_signed) {
        uint64_t value = 0;
        uint8_t byte;
        unsigned shift = 0;

        do {
                byte = get_byte(cursor);
                if (shift > 28) {
                        cursor->failed |= (byte & 0x80) != 0;
                        byte &= 0x7f;
                }
                value |= (uint64_t)(byte & 0x7f) << shift;
                shift += 7;
        } while (byte & 0x80);
        if (is_signed && (byte & 0x40) && shift < 64)
                value |= ~UINT64_C(0) << shift;
        return cursor->failed ? 0 : (uint32_t)value;
}

static const uint8_t *get_bytes(struct cursor *cursor, uint32_t size) {
        const uint8_t *bytes = cursor->at;

        if ((size_t)(cursor->end - cursor->at) < size) {
                cursor->failed = true;
                return NULL;
        }
        cursor->at += size;
        return bytes;
}

static int load_segments(struct wasm_instance *instance, struct cursor data) {
        uint32_t count = get_number(&data, false);

        for (uint32_t i = 0; i < count && !data.failed; i++) {
                uint32_t flags = get_number(&data, false), opcode = get_byte(&data), offset = get_number(&data, true),
                         end = get_byte(&data), size = get_number(&data, false);
                const uint8_t *bytes = get_bytes(&data, size);
                void *to = wasm_range(instance, offset, size);

                /* Passive segments and offsets in globals are what shared modules have. */
                if (data.failed || flags != 0 || opcode != OPCODE_I32_CONST || end != OPCODE_END || to == NULL)
                        return -EINVAL;
                memcpy(to, bytes, size);
        }
        return data.failed || data.at != data.end ? -EINVAL : 0;
}

static bool hash_matches(const struct wasm_code *code, const uint8_t *module, size_t size) {
        char text[SHA256_DIGEST_STRING_LENGTH];

        return SHA256Data(module, size, text) != NULL && strcmp(text, code->module_sha256) == 0;
}

int wasm_module_load(struct wasm_instance *instance, const uint8_t *module, size_t module_size, char *message,
                     size_t size) {
        static const uint8_t magic[8] = {0, 'a', 's', 'm', 1, 0, 0, 0};
        struct cursor cursor = {.at = module + sizeof(magic), .end = module + module_size};

        if (module_size < sizeof(magic) || memcmp(module, magic, sizeof(magic)) != 0)
                return image_refuse(message, size, "the module is no WebAssembly");
        if (!hash_matches(instance->host->code, module, module_size))
                return image_refuse(message, size, "the module is not the one that the code was made of");
        while (cursor.at < cursor.end && !cursor.failed) {
                uint8_t id = get_byte(&cursor);
                uint32_t length = get_number(&cursor, false);
                const uint8_t *content = get_bytes(&cursor, length);

                if (cursor.failed ||
                    (id == SECTION_DATA && load_segments(instance, (struct cursor){content, content + length}) < 0))
                        return image_refuse(message, size, "the module's data can't be loaded: section %u", id);
        }
        return 0;
}

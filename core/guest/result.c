/* SPDX-License-Identifier: Apache-2.0 */
/* The result of an execution: made, filled and freed. */
#include "guest/result.h"

#include <stdlib.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/utf8.h"

const char *sbx_end_name(enum sbx_end end) {
        switch (end) {
        case SBX_END_OK:
                return "ok";
        case SBX_END_ERROR:
                return "error";
        case SBX_END_TIMEOUT:
                return "timeout";
        case SBX_END_MEMORY:
                return "memory";
        case SBX_END_CANCELLED:
                return "cancelled";
        case SBX_END_KILLED:
                return "killed";
        case SBX_END_LOST:
                return "lost";
        }
        return "unknown";
}

const char *sbx_state_name(enum sbx_state state) {
        switch (state) {
        case SBX_STATE_KEPT:
                return "kept";
        case SBX_STATE_ROLLED_BACK:
                return "rolled_back";
        case SBX_STATE_LOST:
                return "lost";
        }
        return "unknown";
}

int sbx_result_new(struct sbx_result **ret_result) {
        struct sbx_result *result = calloc(1, sizeof(*result));

        if (result == NULL)
                return -ENOMEM;
        result->struct_size = sizeof(*result);
        *ret_result = result;
        return 0;
}

/* The members are const for those who read a result; here is who allocated them. */
static void free_const(const void *data) {
        free((void *)(uintptr_t)data);
}

void sbx_result_free(struct sbx_result *result) {
        if (result == NULL)
                return;
        for (uint32_t i = 0; i < result->display_count; i++) {
                free_const(result->displays[i].mime_type);
                free_const(result->displays[i].data.data);
        }
        free_const(result->displays);
        free_const(result->stdout_text.data);
        free_const(result->stderr_text.data);
        free_const(result->value);
        free_const(result->result);
        free_const(result->result_json);
        free_const(result->error_type);
        free_const(result->error_message);
        free_const(result->traceback);
        free_const(result->notice);
        free_const(result->session_id);
        free_const(result->isolation);
        free_const(result->notice_kind);
        free_const(result->checkpoint);
        free(result);
}

static int repaired(struct sbx_bytes text, bool replace_nul, struct sbx_buffer *out) {
        int r = sbx_utf8_repair(text, replace_nul, out);

        return r < 0 ? -ENOMEM : 0; /* the buffers here have no maximum of their own */
}

int sbx_result_set(const char **field, struct sbx_bytes text) {
        _cleanup_buffer_ struct sbx_buffer copy = SBX_BUFFER(SIZE_MAX - 1);
        char *stolen = NULL;

        if (text.data != NULL) {
                if (repaired(text, true, &copy) < 0)
                        return -ENOMEM;
                stolen = sbx_buffer_steal(&copy);
                if (stolen == NULL)
                        return -ENOMEM;
        }
        free_const(*field);
        *field = stolen;
        return 0;
}

int sbx_result_set_output(struct sbx_bytes *field, struct sbx_buffer *text, bool cut) {
        _cleanup_buffer_ struct sbx_buffer copy = SBX_BUFFER(SIZE_MAX - 1);
        struct sbx_buffer *from = text;
        struct sbx_bytes bytes = sbx_buffer_bytes(text);
        char *stolen;

        if (cut && bytes.size > 0) {
                /* As if the character went on behind the end, in the byte that is NUL otherwise. */
                text->data[text->size] = (char)0x80;
                bytes.size = sbx_utf8_cut((struct sbx_bytes){text->data, text->size + 1}, text->size);
                text->size = bytes.size;
                text->data[text->size] = '\0';
        }
        if (!sbx_utf8_valid(bytes)) {
                if (repaired(bytes, false, &copy) < 0)
                        return -ENOMEM;
                from = &copy;
        }
        bytes.size = from->size;
        stolen = sbx_buffer_steal(from);
        if (stolen == NULL)
                return -ENOMEM;
        free_const(field->data);
        *field = (struct sbx_bytes){stolen, bytes.size};
        return 0;
}

bool sbx_result_is_text(const char *mime_type) {
        static const char *const names[] = {"image/svg+xml", "application/json", "application/javascript", NULL};
        size_t length = strlen(mime_type);

        if (strncmp(mime_type, "text/", 5) == 0)
                return true;
        if (length > 5 && (strcmp(mime_type + length - 5, "+json") == 0))
                return true;
        for (size_t i = 0; names[i] != NULL; i++)
                if (strcmp(mime_type, names[i]) == 0)
                        return true;
        return false;
}

static int encode_display(const char *mime_type, struct sbx_bytes data, struct sbx_bytes *ret) {
        _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(SIZE_MAX - 1);
        char *bytes;
        size_t size;

        if ((sbx_result_is_text(mime_type) ? repaired(data, false, &text) : sbx_base64_encode(data, &text)) < 0)
                return -ENOMEM;
        size = text.size;
        bytes = sbx_buffer_steal(&text);
        if (bytes == NULL)
                return -ENOMEM;
        *ret = (struct sbx_bytes){bytes, size};
        return 0;
}

int sbx_result_add_display(struct sbx_result *result, const char *mime_type, struct sbx_bytes data) {
        _cleanup_free_ char *name = NULL;
        struct sbx_display *displays;
        struct sbx_bytes encoded = {0};
        uint32_t count = result->display_count;

        if (count >= SBX_DISPLAYS_MAX)
                return -E2BIG;
        name = strdup(mime_type);
        if (name == NULL)
                return -ENOMEM;
        displays = reallocarray((void *)(uintptr_t)result->displays, count + 1, sizeof(*displays));
        if (displays == NULL)
                return -ENOMEM;
        result->displays = displays;
        if (encode_display(mime_type, data, &encoded) < 0)
                return -ENOMEM;
        displays[count] = (struct sbx_display){.mime_type = steal_pointer(name), .data = encoded};
        result->display_count = count + 1;
        return 0;
}

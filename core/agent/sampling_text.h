/* SPDX-License-Identifier: Apache-2.0 */
/* The text protocol for models that can't be given tools: what they are told, and what is read in their answers. Pure
 * functions. */
#pragma once

#include "base/buffer.h"

enum sbx_text_action_kind {
        SBX_TEXT_ONLY = 0,  /* nothing in it is acted on */
        SBX_TEXT_CODE = 1,  /* a ```python block: `body` is the code */
        SBX_TEXT_FINAL = 2, /* a line that begins with FINAL: `body` is the answer */
};

/* What an answer asks for; the bytes are the answer's own. What follows a block is not read. */
struct sbx_text_action {
        enum sbx_text_action_kind kind;
        struct sbx_bytes before; /* what was said first; without the blanks at its end */
        struct sbx_bytes body;
};

#define SBX_TEXT_CAN_CODE (1u << 0)  /* execute_python is among the tools */
#define SBX_TEXT_CAN_FINAL (1u << 1) /* FINAL is */

/* The first of the two forms that stands in the answer, outside of other blocks, at the beginning of a line, whole, and
 * that is among `can`. A block without an end is none. */
void sbx_text_action_find(struct sbx_bytes answer, unsigned can, struct sbx_text_action *ret_action);
/* The rules, for the system prompt; nothing when nothing can be asked for. -ENOMEM, -EFBIG, also below. */
int sbx_text_rules(unsigned can, struct sbx_buffer *out);
/* An action in the model's own words again, for the conversation of the next request. */
int sbx_text_code(struct sbx_bytes code, struct sbx_buffer *out);
int sbx_text_final(struct sbx_bytes answer, struct sbx_buffer *out);

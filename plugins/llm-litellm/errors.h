/* SPDX-License-Identifier: Apache-2.0 */
/* What a provider's refusal means: one of the codes of provider.h, and words for whoever has to do something about it.
 */
#pragma once

#include "json.h"
#include "route.h"

struct llm_refusal {
        unsigned status;                       /* of the answer; 0: reported within a stream */
        const char *content_type, *request_id; /* never NULL */
        struct sbx_bytes body;
        uint64_t retry_after_ms;
        unsigned attempts; /* requests sent so far, this one included */
};
/* Returns the code, and sets `err`. What the server says is shown short, as one line of text, without the key. */
int llm_refusal_report(const struct llm_route *route, const struct llm_refusal *refusal, struct sbx_error *err);
/* The server's own words contain `word`, in any case. */
bool llm_refusal_mentions(const struct llm_refusal *refusal, const char *word);
bool llm_is_html(const char *content_type, struct sbx_bytes body);

/* An answer that can't be read, with a 2xx status. Returns `code`. */
int llm_unreadable_report(const struct llm_route *route, const struct llm_refusal *refusal, int code, const char *what,
                          struct sbx_error *err);

/* redact.c */
/* Overwrites each part of `text` that is a part of `key`, 8 bytes or longer, or begins as the key does, with '*'. */
void llm_redact(char *text, size_t size, const char *key);
/* Overwrites the whole key, wherever it is: the text stays valid JSON. */
void llm_mask_key(char *text, size_t size, const char *key);
/* One line of printable UTF-8, at most `max` bytes, from bytes of any quality. */
int llm_plain_line(struct llm_text *out, const char *data, size_t size, size_t max);

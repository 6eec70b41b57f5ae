/* SPDX-License-Identifier: Apache-2.0 */
/* The tokens of a file, known by their SHA-256 alone. */
#pragma once

#include <stdbool.h>

#include <snipara-sandbox/types.h>

#define HS_TOKEN_NAME_MAX 64

struct hs_tokens;

/* -ENOENT, -EACCES, -EINVAL (a line is malformed; its number is told), -EFBIG, -ENOMEM. */
int hs_tokens_new(const char *path, void (*log)(void *data, int level, const char *message), void *log_data,
                  struct hs_tokens **ret_tokens, struct sbx_error *err);
void hs_tokens_free(struct hs_tokens *tokens);
/* Reads the file again if it has changed; one that can't be read or is malformed leaves the tokens as they were. True:
 * `token` is one, and this is its name. Any thread. Takes as long whichever token it is, and if it is none. */
bool hs_tokens_find(struct hs_tokens *tokens, const char *token, char ret_name[HS_TOKEN_NAME_MAX + 1]);

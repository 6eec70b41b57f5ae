/* SPDX-License-Identifier: Apache-2.0 */
/* The chain of a file: each line holds, as "prev", the SHA-256 of the line before it (its bytes without the newline),
 * so that no line can be changed, removed or put in without the next one telling; and, as "sum", its own
 * (docs/trajectory.md). Pure functions. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include <sha2.h>
#include <snipara-sandbox/types.h>

#define JSONL_HASH_SIZE 65 /* lower-case hexadecimal digits and a NUL */

/* "prev" of the first line. */
#define JSONL_CHAIN_START "0000000000000000000000000000000000000000000000000000000000000000"

void jsonl_hash_line(struct sbx_bytes line, char ret_hash[JSONL_HASH_SIZE]);

/* The same for a line that comes in pieces. */
struct jsonl_hash {
        SHA2_CTX context;
};
void jsonl_hash_begin(struct jsonl_hash *hash);
void jsonl_hash_add(struct jsonl_hash *hash, struct sbx_bytes bytes);
void jsonl_hash_end(struct jsonl_hash *hash, char ret_hash[JSONL_HASH_SIZE]);

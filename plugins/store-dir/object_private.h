/* SPDX-License-Identifier: Apache-2.0 */
/* What reading and writing of large blobs share. */
#pragma once

#include "object.h"

#define OBJECT_MAGIC "sbxblob1"
#define OBJECT_ENTRY 44u /* bytes of a chunk in the table */
#define OBJECT_CONTEXT (SEALING_HASH_SIZE + 8u)

/* What a chunk is bound to. */
struct sbx_bytes object_context(const uint8_t id[SEALING_HASH_SIZE], uint64_t chunk,
                                uint8_t ret_context[OBJECT_CONTEXT]);

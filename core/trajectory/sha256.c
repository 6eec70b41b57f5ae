/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 (FIPS 180-4) of what an event tells of without repeating it; libmd's. */
#include <sha2.h>

#include "trajectory/trajectory.h"

_Static_assert(SBX_SHA256_TEXT_SIZE == SHA256_DIGEST_STRING_LENGTH, "64 digits and a NUL");

void sbx_sha256_text(struct sbx_bytes bytes, char ret_text[SBX_SHA256_TEXT_SIZE]) {
        SHA2_CTX context;

        SHA256Init(&context);
        if (bytes.size > 0)
                SHA256Update(&context, bytes.data, bytes.size);
        SHA256End(&context, ret_text);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The known name that a mistyped one most likely meant. Pure functions. */
#pragma once

struct sbx_nearest {
        const char *wanted;
        const char *best; /* of those offered so far; borrowed; NULL: none is near */
        unsigned distance;
};
#define SBX_NEAREST(name) {(name), NULL, 0}

/* Offers one known name. Counted are letters to insert, delete, replace or swap with a neighbour; case, '-' and '_' cost
 * nothing, and a word cut short ("plug" for "plugins") is as good as one typo. Up to a third of the letters, and at
 * least one, may differ; a name of more than 64 bytes is near to nothing. The first of equals stays. */
void sbx_nearest_offer(struct sbx_nearest *nearest, const char *candidate);

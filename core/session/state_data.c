/* SPDX-License-Identifier: Apache-2.0 */
/* A state's parts in memory. */
#include "session/states.h"

#include <stdlib.h>

void sbx_state_clear(struct sbx_session_state *state) {
        for (size_t i = 0; i < state->part_count; i++)
                sbx_buffer_free(&state->parts[i]);
        free(state->parts);
        json_decref(state->about);
        *state = (struct sbx_session_state){0};
}

uint64_t sbx_state_bytes(const struct sbx_session_state *state) {
        uint64_t bytes = 0;

        for (size_t i = 0; i < state->part_count; i++)
                bytes += state->parts[i].size;
        return bytes;
}

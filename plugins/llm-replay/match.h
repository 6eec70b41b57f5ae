/* SPDX-License-Identifier: Apache-2.0 */
/* Which recorded call answers a request. Thread-safe. */
#pragma once

#include "recording.h"

struct replay_matcher;

/* `recording` outlives it. `strict`: by the prompt; else one after another. */
int replay_matcher_new(const struct replay_recording *recording, bool strict, struct replay_matcher **ret_matcher);
void replay_matcher_free(struct replay_matcher *matcher); /* NULL is fine */

/* `request` is a chat-completions request. The entry lives as long as the recording. -EINVAL: no messages; -ENOENT: the
 * recording has no answer to it, the error says what it has. */
int replay_match(struct replay_matcher *matcher, const json_t *request, const struct replay_entry **ret_entry,
                 struct sbx_error *err);

/* The text of a message: its content, or the texts of its blocks with a space between. Never NULL unless memory is
 * short. */
json_t *replay_message_text(const json_t *message);

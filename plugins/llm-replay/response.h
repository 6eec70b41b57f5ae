/* SPDX-License-Identifier: Apache-2.0 */
/* A recorded call as the answer of a chat-completions API. */
#pragma once

#include <snipara-sandbox/provider.h>

#include "recording.h"

/* {"id", "object", "created", "model", "choices", "usage"}. NULL: no memory. */
json_t *replay_response(const struct replay_entry *entry, const char *requested_model);
/* The same in pieces, as chunks of a stream. -ENOMEM. */
int replay_stream(const struct replay_entry *entry, const char *requested_model,
                  const struct sbx_provider_events *events);

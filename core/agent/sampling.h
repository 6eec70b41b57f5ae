/* SPDX-License-Identifier: Apache-2.0 */
/* The model of a run's client in the place of a provider: MCP's sampling/createMessage, in plain text. Thread-safe. */
#pragma once

#include <stdbool.h>

#include <jansson.h>
#include <snipara-sandbox/request.h>

#include "base/buffer.h"

#define SBX_SAMPLING_NAME "sampling"          /* in the place of the provider's name */
#define SBX_SAMPLING_ITERATIONS_MAX 10u       /* of a run: its client's user may be asked each time */
#define SBX_SAMPLING_JUNK_MAX 3u              /* answers in a row that ask for nothing; then the run ends */
#define SBX_SAMPLING_MODEL_SIZE ((size_t)257) /* of a model's name, NUL included */

/* Whether the client can be asked that. NULL: no. */
bool sbx_sampling_possible(const struct sbx_client *client);

struct sbx_sampling;
/* `client` outlives it. */
int sbx_sampling_new(const struct sbx_client *client, struct sbx_sampling **ret_sampling, struct sbx_error *err);
void sbx_sampling_free(struct sbx_sampling *sampling); /* NULL is fine */
/* As sbx_provider_ops.complete, and what sbx_client.ask answers. Of the tools in the request, execute_python and FINAL
 * are told to the model as a text protocol (sampling_text.h), and read in its answer. `must_act`: an answer that asks
 * for neither leads nowhere; SBX_SAMPLING_JUNK_MAX of them in a row are -EBADMSG. */
int sbx_sampling_complete(struct sbx_sampling *sampling, struct sbx_bytes request, bool must_act,
                          const struct sbx_call *call, struct sbx_output *ret_response, struct sbx_error *err);
/* The model's name, as the last answer told it; empty: none did so far. */
void sbx_sampling_model(struct sbx_sampling *sampling, char ret_name[SBX_SAMPLING_MODEL_SIZE]);

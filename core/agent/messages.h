/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of a conversation, in the shape of the chat-completions API. */
#pragma once

#include "agent/run.h"

#define SBX_REACHED_MAX 2000u /* characters of what a completion that was cut short had reached */

/* [system, user]; `system` may be NULL. NULL: out of memory, also below. */
json_t *sbx_messages_new(const char *system, const char *prompt);
/* A tool result for the model: the text of its blocks, cut to the usual length, images as a note of what they were; and
 * whether it is an error. A string. */
json_t *sbx_messages_result_text(const json_t *result, bool *ret_is_error);
/* Appends the message that answers a tool call, and its line in `tool_results` of the trajectory. -ENOMEM. */
int sbx_messages_add_result(json_t *messages, json_t *tool_results, const json_t *call_id, json_t *text, bool is_error);
/* The tools for a request from those of the place, in the API's shape. -ENOMEM. */
int sbx_messages_tools(const struct sbx_place *place, json_t **ret_tools, struct sbx_error *err);
/* Text of at most SBX_REACHED_MAX characters. */
char *sbx_messages_shorten(const char *text);
/* A copy of arguments that is short enough for an event: long texts in it are cut. */
json_t *sbx_messages_brief(const json_t *arguments);

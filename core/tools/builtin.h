/* SPDX-License-Identifier: Apache-2.0 */
/* The tools that every runtime has: their functions, and what these share. The data of each is the sessions. */
#pragma once

#include "tools/tools.h"

#define SBX_BUILTIN_TIMEOUT_MAX_S 300 /* of execute_python, as in snipara-sandbox; the runtime itself allows 600 */

#define SBX_BUILTIN(name)                                                                                              \
        int name(const struct sbx_tool_context *context, json_t *arguments, json_t **ret_result, struct sbx_error *err)

SBX_BUILTIN(sbx_builtin_execute_python); /* builtin_execute.c */
SBX_BUILTIN(sbx_builtin_execute_code);
SBX_BUILTIN(sbx_builtin_execute_bash);
SBX_BUILTIN(sbx_builtin_execute);
SBX_BUILTIN(sbx_builtin_get_context); /* builtin_context.c */
SBX_BUILTIN(sbx_builtin_set_context);
SBX_BUILTIN(sbx_builtin_clear_context);
SBX_BUILTIN(sbx_builtin_list_sessions); /* builtin_sessions.c */
SBX_BUILTIN(sbx_builtin_destroy_session);
SBX_BUILTIN(sbx_builtin_checkpoint_session); /* builtin_states.c */
SBX_BUILTIN(sbx_builtin_list_checkpoints);
SBX_BUILTIN(sbx_builtin_rollback_session);
SBX_BUILTIN(sbx_builtin_fork_session);
SBX_BUILTIN(sbx_builtin_upload_file); /* builtin_files.c */
SBX_BUILTIN(sbx_builtin_download_file);
SBX_BUILTIN(sbx_builtin_list_files);

#define SBX_BUILTIN_TEXT_MAX 30000u                /* characters of a file that download_file gives as text */
#define SBX_BUILTIN_IMAGE_MAX ((size_t)500 * 1000) /* bytes of an image that it gives as an image */
#define SBX_BUILTIN_DOWNLOAD_MAX ((size_t)8 << 20) /* bytes of a file that it gives at all */

/* The argument "session_id", which the schema has filled in; the empty one is the default session's. -EINVAL. */
int sbx_builtin_session_id(json_t *arguments, const char **ret_id, struct sbx_error *err);
/* A result of one text block. -ENOMEM. */
int sbx_builtin_text(bool is_error, const char *text, json_t **ret_result, struct sbx_error *err);

/* ---- builtin_states.c: parts of texts; 0 or -ENOMEM ---- */

/* "gen (generator: it can't be saved), s (socket)": the first of a list of {"name", "type", "reason"}, and how many
 * more there are. `only` NULL: of all; else of those that have it as a true member. */
int sbx_builtin_add_left_out(const json_t *list, const char *only, struct sbx_buffer *out);
int sbx_builtin_add_size(uint64_t bytes, struct sbx_buffer *out); /* "12 KB" */

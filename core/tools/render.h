/* SPDX-License-Identifier: Apache-2.0 */
/* The result of an execution as a tool result: text for a model, images, and facts for programs. */
#pragma once

#include <jansson.h>
#include <snipara-sandbox/runtime.h>

#include "session/session.h"

#define SBX_RENDER_IMAGES_MAX 4u                        /* images in a result */
#define SBX_RENDER_IMAGE_BYTES_MAX ((size_t)500 * 1000) /* of one image, decoded */
#define SBX_RENDER_TEXTS_MAX 8u                         /* displays that are text */
#define SBX_RENDER_TEXT_MAX 10000u                      /* characters of one of them */
#define SBX_RENDER_LINKS_MAX 32u                        /* artifacts that a result makes and links to */

/* `fresh`: the session was the execution's alone, so its state is of no interest. `script`: as a program's output,
 * without values. -ENOMEM. */
int sbx_render_result(const struct sbx_result *result, bool fresh, bool script, json_t **ret_result,
                      struct sbx_error *err);

/* Where to keep what is too much for a result: with the session, as artifacts. */
struct sbx_keep {
        struct sbx_sessions *sessions;
        const char *principal, *session_id;
        unsigned links; /* so far */
};
/* The same, and what the result shows in part or not at all, and every image, is kept, and linked to right behind the
 * place where it is shown; and a last text says what of the session's state could not be kept, where that is news.
 * `keep` NULL: neither. */
int sbx_render_kept(const struct sbx_result *result, bool fresh, bool script, struct sbx_keep *keep,
                    json_t **ret_result, struct sbx_error *err);

/* ---- render_displays.c ---- */

/* Appends the displays: images, texts, and a note about what is missing. 0 or -ENOMEM. */
int sbx_render_displays(const struct sbx_result *result, struct sbx_keep *keep, json_t *content);
/* Keeps the bytes as an artifact "`prefix`-N" with the extension of its type, and appends a link. 1: it was not kept,
 * because the session has ended, or there is no room; 0; -ENOMEM. */
int sbx_keep_add(struct sbx_keep *keep, const char *prefix, const char *mime_type, struct sbx_bytes bytes,
                 const char *description, json_t *content);

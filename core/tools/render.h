/* SPDX-License-Identifier: Apache-2.0 */
/* The result of an execution as a tool result: text for a model, images, and facts for programs. */
#pragma once

#include <jansson.h>
#include <snipara-sandbox/runtime.h>

#define SBX_RENDER_IMAGES_MAX 4u                        /* images in a result */
#define SBX_RENDER_IMAGE_BYTES_MAX ((size_t)500 * 1000) /* of one image, decoded */
#define SBX_RENDER_TEXTS_MAX 8u                         /* displays that are text */
#define SBX_RENDER_TEXT_MAX 10000u                      /* characters of one of them */

/* `fresh`: the session was the execution's alone, so its state is of no interest. `script`: as a program's output,
 * without values. -ENOMEM. */
int sbx_render_result(const struct sbx_result *result, bool fresh, bool script, json_t **ret_result,
                      struct sbx_error *err);

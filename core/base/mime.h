/* SPDX-License-Identifier: Apache-2.0 */
/* What kind of content some bytes are: by what they begin with, by the name of their file, and by whether they are
 * text. Pure functions; the bytes are anybody's. */
#pragma once

#include <stdbool.h>

#include "base/buffer.h"

/* "image/png", "image/jpeg", "image/gif", "image/webp" if the bytes begin so, whatever their name; else NULL. Whoever
 * shows an image to a model must not send it anything else: some answer with an error from then on. */
const char *sbx_mime_image(struct sbx_bytes content);
/* By the extension of a name; NULL: not known. */
const char *sbx_mime_of_name(const char *name);
/* UTF-8 without NUL. */
bool sbx_mime_is_text(struct sbx_bytes content);
/* The type to tell: never NULL. */
const char *sbx_mime_of(const char *name, struct sbx_bytes content);

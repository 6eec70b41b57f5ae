/* SPDX-License-Identifier: Apache-2.0 */
/* The addresses of a session's resources: repl://SESSION/files/PATH and repl://SESSION/artifacts/NAME, and the paths
 * that they may name. Pure functions. */
#pragma once

#include <stdbool.h>

#include "base/buffer.h"

#define SBX_SESSION_PATH_MAX 1024u /* bytes of a path in a workspace */
#define SBX_SESSION_URI_MAX 4096u  /* bytes of an address */

enum sbx_session_area { SBX_AREA_FILES = 0, SBX_AREA_ARTIFACTS };

/* Appends the address, with all but letters, digits and -._~ (and / in a path) percent-encoded. `path` NULL: "repl://
 * SESSION/", with which all of the session's addresses begin. -EFBIG, -ENOMEM. */
int sbx_session_uri(const char *id, enum sbx_session_area area, const char *path, struct sbx_buffer *out);

/* An address, taken apart. The texts are empty, or NUL-terminated in the struct. */
struct sbx_session_address {
        char id[129];
        enum sbx_session_area area;
        char path[SBX_SESSION_PATH_MAX + 1]; /* as sbx_session_path makes it */
};
/* -ENOENT: it is no address of this kind at all; -EINVAL: it is one, and broken: a percent sign without two digits,
 * NUL, what is not UTF-8, a path that leaves the workspace. */
int sbx_session_uri_parse(const char *uri, struct sbx_session_address *ret_address, struct sbx_error *err);

/* A path relative to the workspace as one that says the same without ".", and slashes that change nothing. -EINVAL: it
 * is empty (unless `may_be_empty`: the workspace itself), absolute, has "..", is longer than SBX_SESSION_PATH_MAX or
 * not UTF-8. The guest resolves it, and is not relied on for this. */
int sbx_session_path(const char *path, bool may_be_empty, char ret_path[SBX_SESSION_PATH_MAX + 1],
                     struct sbx_error *err);

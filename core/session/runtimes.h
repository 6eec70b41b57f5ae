/* SPDX-License-Identifier: Apache-2.0 */
/* Names of runtimes: the language of a session, as a caller writes it and as a backend gets it. */
#pragma once

#include <snipara-sandbox/types.h>

#define SBX_RUNTIME_NAME_SIZE 65 /* of [A-Za-z0-9_.-], with its NUL */
#define SBX_RUNTIME_DEFAULT "python"

struct sbx_runtime_name {
        char text[SBX_RUNTIME_NAME_SIZE];   /* canonical: "python3.12", "node", "datasci" */
        char family[SBX_RUNTIME_NAME_SIZE]; /* struct sbx_guest_spec.runtime: "python", "node", "bash", or all of a name
                                             * of the backend's own */
        char version[SBX_RUNTIME_NAME_SIZE]; /* "3.12"; "": the backend's default */
};
/* Aliases mean what people mean by them: py, python3, javascript, js, nodejs, sh, shell. NULL: "python". -EINVAL. */
int sbx_runtime_name_parse(const char *text, struct sbx_runtime_name *ret_name, struct sbx_error *err);

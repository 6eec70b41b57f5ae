/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/* `sbx-wasm run ...`: tries an image; arguments after the program's name. An exit status. `lock`: as for bake.h. */
int wasm_run_main(int argc, char **argv, int (*lock)(char *message, size_t size));

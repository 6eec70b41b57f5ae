/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* `sbx-wasm run ...`: tries an image; arguments after the program's name. An exit status. */
int wasm_run_main(int argc, char **argv);

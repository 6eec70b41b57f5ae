/* SPDX-License-Identifier: Apache-2.0 */
/* The native stack of guest code, and what the engine's signal handlers know of it. */
#pragma once

#include "host.h"

#define WASM_STACK_SIZE ((size_t)64 << 20)      /* reserved, not used */
#define WASM_STACK_GUARD_SIZE ((size_t)1 << 20) /* below: more than the largest frame of generated code */

uint8_t *wasm_stack_new(void); /* its guard's first byte; NULL: no memory */
void wasm_stack_free(uint8_t *stack);
/* The signal handlers do nothing any more on behalf of `instance`, if it was the one. */
void wasm_signals_forget(const struct wasm_instance *instance);
/* Sets the clocks of an instance that was just made. */
void wasi_clocks_start(struct wasm_instance *instance);
/* The same after a fork or a restore: none of them goes back behind what the guest has seen. */
void wasi_clocks_resume(struct wasm_instance *instance);

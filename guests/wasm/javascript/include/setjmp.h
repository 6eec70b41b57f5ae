/* SPDX-License-Identifier: Apache-2.0 */
/* QuickJS includes <setjmp.h> and uses nothing of it; wasi-libc has none. */
#pragma once

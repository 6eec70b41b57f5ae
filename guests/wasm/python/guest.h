/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the guest that are C. */
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Before CPython starts: its allocators, and the module _sbx. 0 or -1: no memory. */
int reserve_install(void);

/* SPDX-License-Identifier: Apache-2.0 */
/* The isolation report of guests: what the jailed helper tells, and what the plugin knows of limits. */
#pragma once

#include "backend.h"

/* The helper's layers, checked: elements of a JSON array, without its brackets; malloc'ed. -EIO. */
int report_read_layers(struct sbx_bytes json, char **ret_layers, struct sbx_error *err);
/* A guest's report as JSON, malloc'ed. NULL: out of memory. */
char *report_make(const struct backend *backend, const struct guest_image *image, const char *layers,
                  uint64_t memory_bytes);

/* SPDX-License-Identifier: Apache-2.0 */
/* A host that gives options, settings and directories out of a list of "option.NAME=value", "NAME=value" and
 * "directory.NAME=path". Lists of strings are separated by '|'. */
#ifndef DOCKER_TESTS_FAKE_HOST_H
#define DOCKER_TESTS_FAKE_HOST_H

#include <snipara-sandbox/plugin.h>

#define FAKE_ITEMS_MAX 32

struct sbx_host_state {
        const char *const *values; /* NULL-terminated */
        char items[FAKE_ITEMS_MAX][256];
        size_t item_count;
};
void fake_host_init(struct sbx_host *host, struct sbx_host_state *state, const char *const *values);

#endif

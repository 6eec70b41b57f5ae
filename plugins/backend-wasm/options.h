/* SPDX-License-Identifier: Apache-2.0 */
/* The options of this plugin, read once. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include <snipara-sandbox/plugin.h>

enum wasm_namespaces { WASM_NAMESPACES_OFF, WASM_NAMESPACES_AUTO, WASM_NAMESPACES_REQUIRED }; /* as helper_config's */

struct wasm_options {
        enum wasm_namespaces namespaces;
        uint64_t memory_bytes, memory_max_bytes, files_bytes, snapshot_max_bytes;
        uint32_t file_entries, open_files, sessions_max, cpu_seconds;
        uid_t user;
        const char *cache_directory; /* NULL: in the state directory */
        const char **packages;       /* ends with NULL; owned, the strings are the host's */
        size_t package_count;
};

extern const struct sbx_option wasm_option_table[];

/* Strings are the host's, until close(). -EINVAL when options contradict each other. */
int wasm_options_read(const struct sbx_host *host, struct wasm_options *ret, struct sbx_error *err);
void wasm_options_free(struct wasm_options *options);

/* SPDX-License-Identifier: Apache-2.0 */
/* The options of an instance. */
#pragma once

#include "util.h"

extern const struct sbx_option postgres_option_table[];

struct postgres_options {
        const struct sbx_host *host;
        const char *conninfo, *service, *password, *schema, *key_file; /* the host's; NULL: unset, but for schema */
        uint64_t connect_timeout_ns, timeout_ns;
        size_t connections;
        uint64_t blob_bytes_max, quota_bytes;
        int compression;
};

/* No network; the key file is looked at. */
int options_read(const struct sbx_host *host, struct postgres_options *ret_options, struct sbx_error *err);

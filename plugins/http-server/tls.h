/* SPDX-License-Identifier: Apache-2.0 */
/* The certificate and the key of a server: read, checked, handed to libmicrohttpd as text. */
#pragma once

#include "internal.h"

/* TLS 1.2 and 1.3, the library's choice of ciphers without the old ones; the server's order counts. */
#define HS_TLS_PRIORITIES                                                                                              \
        "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"                                                                   \
        ":-CIPHER-ALL:+AES-256-GCM:+AES-128-GCM:+CHACHA20-POLY1305:-RSA:%SERVER_PRECEDENCE"

struct hs_tls {
        char *certificate, *key; /* PEM */
};

/* -ENOENT, -EACCES (can't be read; the key can be read by others), -EBADMSG (no certificate or key, they don't fit, it
 * has expired), -ENOMEM. Logs when the certificate expires soon. */
int hs_tls_load(const struct hs_server *server, const char *certificate, const char *key, struct hs_tls *ret_tls,
                struct sbx_error *err);
void hs_tls_clear(struct hs_tls *tls);

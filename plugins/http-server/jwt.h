/* SPDX-License-Identifier: Apache-2.0 */
/* JSON Web Tokens of one OAuth issuer (RFC 7519, RFC 9068). */
#pragma once

#include "auth.h"

struct hs_jwt;

int hs_jwt_new(const struct hs_auth_settings *settings, struct hs_jwt **ret_jwt, struct sbx_error *err);
void hs_jwt_free(struct hs_jwt *jwt); /* NULL is fine */
/* OK, INVALID, FORBIDDEN or LATER. Any thread; never waits. */
enum hs_auth_result hs_jwt_check(struct hs_jwt *jwt, const char *token, char ret_principal[HS_PRINCIPAL_SIZE]);
int hs_jwt_metadata(const struct hs_jwt *jwt, const char *resource, char **ret_json);

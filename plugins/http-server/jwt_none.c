/* SPDX-License-Identifier: Apache-2.0 */
/* Stands for jwt.c in a build without librhonabwy: says so. */
#include "internal.h"
#include "jwt.h"

int hs_jwt_new(const struct hs_auth_settings *settings, struct hs_jwt **ret_jwt, struct sbx_error *err) {
        return sbx_error_set(err, -ENOTSUP, HS_ORIGIN,
                             "Build with librhonabwy, libcurl and -Djwt=enabled, or use a token file.",
                             "JSON Web Tokens were left out of this build");
}

void hs_jwt_free(struct hs_jwt *jwt) {
}

enum hs_auth_result hs_jwt_check(struct hs_jwt *jwt, const char *token, char ret_principal[HS_PRINCIPAL_SIZE]) {
        return HS_AUTH_INVALID;
}

int hs_jwt_metadata(const struct hs_jwt *jwt, const char *resource, char **ret_json) {
        return -ENOTSUP;
}

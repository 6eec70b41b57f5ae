/* SPDX-License-Identifier: Apache-2.0 */
/* Makes keys and signs tokens for test_auth.py:
 *   http-server-sign keys RSA|EC|OKP BITS KID    prints the private key and the public one, a line each
 *   http-server-sign token ALG PRIVATE HEADER CLAIMS    prints the token */
#include <rhonabwy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int print_jwk(jwk_t *jwk) {
        char *text = r_jwk_export_to_json_str(jwk, 0);

        if (text == NULL)
                return 1;
        printf("%s\n", text);
        r_free(text);
        return 0;
}

static int make_keys(const char *kind, const char *bits, const char *kid) {
        int type = strcmp(kind, "RSA") == 0  ? R_KEY_TYPE_RSA
                   : strcmp(kind, "EC") == 0 ? R_KEY_TYPE_EC
                                             : R_KEY_TYPE_EDDSA;
        jwk_t *private = NULL, *public = NULL;
        unsigned size = 0;
        int r = 1;

        for (; *bits >= '0' && *bits <= '9'; bits++)
                size = size * 10 + (unsigned)(*bits - '0');
        if (r_jwk_init(&private) == RHN_OK && r_jwk_init(&public) == RHN_OK &&
            r_jwk_generate_key_pair(private, public, type, size, kid) == RHN_OK)
                r = print_jwk(private) + print_jwk(public);
        r_jwk_free(private);
        r_jwk_free(public);
        return r;
}

static int make_token(const char *algorithm, const char *key, const char *header, const char *claims) {
        jws_t *jws = NULL;
        jwk_t *jwk = NULL;
        char *token = NULL;
        int r = 1;

        if (r_jws_init(&jws) == RHN_OK && r_jwk_init(&jwk) == RHN_OK &&
            r_jwk_import_from_json_str(jwk, key) == RHN_OK && r_jws_set_full_header_json_str(jws, header) == RHN_OK &&
            r_jws_set_alg(jws, r_str_to_jwa_alg(algorithm)) == RHN_OK &&
            r_jws_set_payload(jws, (const unsigned char *)claims, strlen(claims)) == RHN_OK)
                token = r_jws_serialize(jws, jwk, R_FLAG_IGNORE_REMOTE);
        if (token != NULL) {
                printf("%s\n", token);
                r = 0;
        }
        r_free(token);
        r_jws_free(jws);
        r_jwk_free(jwk);
        return r;
}

int main(int argc, char **argv) {
        int r = 2;

        if (r_global_init() != RHN_OK)
                return 1;
        if (argc == 5 && strcmp(argv[1], "keys") == 0)
                r = make_keys(argv[2], argv[3], argv[4]);
        else if (argc == 6 && strcmp(argv[1], "token") == 0)
                r = make_token(argv[2], argv[3], argv[4], argv[5]);
        r_global_close();
        return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Loads and checks the certificate and the key. */
#include "tls.h"

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <time.h>

#include "file.h"

#define PEM_MAX (1024u * 1024u)
#define SOON_S ((time_t)14 * 24 * 3600)

/* The first certificate, which is the server's own. */
static int check_times(const struct hs_server *server, gnutls_certificate_credentials_t credentials, const char *path,
                       struct sbx_error *err) {
        gnutls_x509_crt_t *chain = NULL;
        unsigned count = 0;
        time_t now = time(NULL), from = 0, to = 0;

        if (gnutls_certificate_get_x509_crt(credentials, 0, &chain, &count) < 0 || count == 0)
                return sbx_error_set(err, -EBADMSG, HS_ORIGIN, "It has to be in PEM, the server's own first.",
                                     "the TLS certificate %s can't be understood", path);
        from = gnutls_x509_crt_get_activation_time(chain[0]);
        to = gnutls_x509_crt_get_expiration_time(chain[0]);
        for (unsigned i = 0; i < count; i++)
                gnutls_x509_crt_deinit(chain[i]);
        gnutls_free(chain);
        if (to != (time_t)-1 && to < now)
                return sbx_error_set(err, -EBADMSG, HS_ORIGIN, "Renew it.", "the TLS certificate %s has expired", path);
        if (to != (time_t)-1 && to - now < SOON_S)
                hs_log(server, SBX_LOG_WARNING, "the TLS certificate %s expires in %d hours", path,
                       (int)((to - now) / 3600));
        if (from != (time_t)-1 && from > now)
                hs_log(server, SBX_LOG_WARNING, "the TLS certificate %s is not valid yet; is the clock right?", path);
        return 0;
}

static int check_pair(const struct hs_server *server, const struct hs_tls *tls, size_t certificate_size,
                      size_t key_size, const char *certificate, const char *key, struct sbx_error *err) {
        gnutls_certificate_credentials_t credentials = NULL;
        gnutls_datum_t certificate_text = {(unsigned char *)tls->certificate, (unsigned)certificate_size};
        gnutls_datum_t key_text = {(unsigned char *)tls->key, (unsigned)key_size};
        int r = gnutls_certificate_allocate_credentials(&credentials);

        if (r < 0)
                return sbx_error_set(err, -ENOMEM, HS_ORIGIN, NULL, "out of memory");
        r = gnutls_certificate_set_x509_key_mem(credentials, &certificate_text, &key_text, GNUTLS_X509_FMT_PEM);
        if (r == GNUTLS_E_CERTIFICATE_KEY_MISMATCH)
                r = sbx_error_set(
                        err, -EBADMSG, HS_ORIGIN,
                        "Give the key that the certificate was made with; the server's own certificate has to "
                        "be the first of its file.",
                        "the TLS key %s does not belong to the certificate %s", key, certificate);
        else if (r < 0)
                r = sbx_error_set(err, -EBADMSG, HS_ORIGIN, "Both have to be in PEM, the key without a password.",
                                  "the TLS certificate %s or its key %s can't be understood: %s", certificate, key,
                                  gnutls_strerror(r));
        else
                r = check_times(server, credentials, certificate, err);
        gnutls_certificate_free_credentials(credentials);
        return r;
}

int hs_tls_load(const struct hs_server *server, const char *certificate, const char *key, struct hs_tls *ret_tls,
                struct sbx_error *err) {
        struct hs_tls tls = {0};
        size_t certificate_size = 0, key_size = 0;
        int r = hs_file_read(certificate, "TLS certificate", PEM_MAX, false, &tls.certificate, &certificate_size, NULL,
                             err);

        if (r == 0)
                r = hs_file_read(key, "TLS key", PEM_MAX, true, &tls.key, &key_size, NULL, err);
        if (r == 0)
                r = check_pair(server, &tls, certificate_size, key_size, certificate, key, err);
        if (r < 0) {
                hs_tls_clear(&tls);
                return r;
        }
        *ret_tls = tls;
        return 0;
}

void hs_tls_clear(struct hs_tls *tls) {
        if (tls->key != NULL)
                hs_wipe(tls->key, strlen(tls->key));
        free(tls->key);
        free(tls->certificate);
        *tls = (struct hs_tls){0};
}

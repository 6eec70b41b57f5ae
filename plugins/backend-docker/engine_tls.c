/* SPDX-License-Identifier: Apache-2.0 */
/* TLS to an engine: always with a certificate that is checked. Files come from the options, else from the directory
 * that Docker's own client uses: https://docs.docker.com/engine/security/protect-access/ . */
#include "engine_internal.h"

bool engine_tls_wanted(const struct sbx_host *host, const struct docker_options *options) {
        return options->tls_ca != NULL || options->tls_certificate != NULL || options->tls_key != NULL ||
               host->environment(host->self, "DOCKER_TLS_VERIFY") != NULL ||
               host->environment(host->self, "DOCKER_CERT_PATH") != NULL;
}

/* "": no directory. */
static int find_directory(const struct sbx_host *host, char **ret_directory) {
        const char *directory = host->environment(host->self, "DOCKER_CERT_PATH");
        const char *home = host->environment(host->self, "HOME");
        int n = directory != NULL ? asprintf(ret_directory, "%s", directory)
                : home != NULL    ? asprintf(ret_directory, "%s/.docker", home)
                                  : asprintf(ret_directory, "%s", "");

        if (n < 0)
                *ret_directory = NULL;
        return n < 0 ? -ENOMEM : 0;
}

/* The option's file must be there; one of the directory may be missing (NULL). */
static int find_file(const char *option, const char *value, const char *directory, const char *name, char **ret_path,
                     struct sbx_error *err) {
        _cleanup_free_ char *path = NULL;

        if (asprintf(&path, "%s%s%s", value != NULL ? value : directory, value != NULL ? "" : "/",
                     value != NULL ? "" : name) < 0) {
                path = NULL;
                return sbx_error_set(err, -ENOMEM, ENGINE_ORIGIN, NULL, "out of memory");
        }
        if (value == NULL && (directory[0] == '\0' || (access(path, F_OK) < 0 && errno == ENOENT)))
                return 0;
        if (access(path, R_OK) < 0) {
                int code = -errno;

                return sbx_error_set(err, code, ENGINE_ORIGIN,
                                     "Give this user a PEM file to read there, or change the option (or "
                                     "DOCKER_CERT_PATH).",
                                     "%s: %s can't be read: %s", option, path, strerror(-code));
        }
        *ret_path = steal_pointer(path);
        return 0;
}

int engine_tls_find(const struct sbx_host *host, const struct docker_options *options, struct engine_tls *ret_tls,
                    struct sbx_error *err) {
        _cleanup_free_ char *directory = NULL;
        struct engine_tls tls = {0};
        int r = find_directory(host, &directory);

        if (r < 0)
                return sbx_error_set(err, r, ENGINE_ORIGIN, NULL, "out of memory");
        r = find_file("tls.ca", options->tls_ca, directory, "ca.pem", &tls.ca, err);
        if (r == 0)
                r = find_file("tls.certificate", options->tls_certificate, directory, "cert.pem", &tls.certificate,
                              err);
        if (r == 0)
                r = find_file("tls.key", options->tls_key, directory, "key.pem", &tls.key, err);
        if (r == 0 && (tls.certificate != NULL) != (tls.key != NULL))
                r = sbx_error_set(err, -EINVAL, ENGINE_ORIGIN,
                                  "Set tls.certificate and tls.key both, or put cert.pem and key.pem into "
                                  "DOCKER_CERT_PATH.",
                                  "of the certificate for the engine and its key one is missing: there is %s alone",
                                  tls.certificate != NULL ? tls.certificate : tls.key);
        if (r < 0)
                engine_tls_clear(&tls);
        else
                *ret_tls = tls;
        return r;
}

void engine_tls_clear(struct engine_tls *tls) {
        free(tls->ca);
        free(tls->certificate);
        free(tls->key);
        *tls = (struct engine_tls){0};
}

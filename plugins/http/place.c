/* SPDX-License-Identifier: Apache-2.0 */
/* URLs: which are acceptable, and what of them may be shown. */
#include "http_internal.h"

static void free_part(char **part) {
        curl_free(*part);
}
#define _cleanup_part_ __attribute__((cleanup(free_part)))

static void show(const struct sbx_http *http, const char *scheme, const char *host, const char *port,
                 struct http_place *ret_place) {
        char *out = ret_place->text;

        if (http->unix_socket != NULL)
                snprintf(out, sizeof(ret_place->text), "unix://%s", http->unix_socket);
        else
                snprintf(out, sizeof(ret_place->text), "%s://%s:%s", scheme, host, port);
        for (; *out != '\0'; out++)
                if ((unsigned char)*out < 0x20 || (unsigned char)*out >= 0x7F)
                        *out = '?';
}

int http_place_of(const struct sbx_http *http, const char *url, struct http_place *ret_place) {
        _cleanup_part_ char *scheme = NULL, *host = NULL, *port = NULL;
        CURLU *parts = curl_url();
        int r = -EINVAL;

        *ret_place = (struct http_place){"the URL"};
        if (parts == NULL)
                return -ENOMEM;
        if (url != NULL && curl_url_set(parts, CURLUPART_URL, url, CURLU_NON_SUPPORT_SCHEME) == CURLUE_OK &&
            curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
            curl_url_get(parts, CURLUPART_HOST, &host, 0) == CURLUE_OK && host[0] != '\0' &&
            (strcmp(scheme, "http") == 0 || strcmp(scheme, "https") == 0) &&
            curl_url_get(parts, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) == CURLUE_OK) {
                show(http, scheme, host, port, ret_place);
                r = 0;
        }
        curl_url_cleanup(parts);
        return r;
}

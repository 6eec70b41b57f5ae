/* SPDX-License-Identifier: Apache-2.0 */
/* How a transfer failed, in the words of the caller: an errno, a sentence with the place, and what to do. */
#include "http_internal.h"

static int not_connected(const struct http_exchange *exchange) {
        long number = 0;

        curl_easy_getinfo(exchange->line->easy, CURLINFO_OS_ERRNO, &number);
        if (exchange->http->unix_socket != NULL && (number == ENOENT || number == EACCES))
                return sbx_error_set(exchange->err, -(int)number, exchange->http->origin,
                                     number == ENOENT ? "Check that the server runs, and that the path is right."
                                                      : "Check who may write to the socket.",
                                     number == ENOENT ? "there is no %s" : "no permission to connect to %s",
                                     exchange->place.text);
        if (number == ECONNREFUSED)
                return sbx_error_set(exchange->err, -ECONNREFUSED, exchange->http->origin,
                                     "Check that the server runs, and that the address and port are right.",
                                     "%s refused the connection", exchange->place.text);
        return sbx_error_set(exchange->err, -EHOSTUNREACH, exchange->http->origin,
                             "Check the network, the address, and HTTPS_PROXY if a proxy is needed.",
                             "no connection to %s", exchange->place.text);
}

static int by_callback(const struct http_exchange *exchange) {
        if (exchange->failure == -EFBIG && exchange->headers_size > HTTP_HEADERS_MAX)
                return sbx_error_set(exchange->err, -EFBIG, exchange->http->origin, NULL,
                                     "the headers of the answer of %s are larger than %u bytes", exchange->place.text,
                                     HTTP_HEADERS_MAX);
        if (exchange->failure == -EFBIG)
                return sbx_error_set(exchange->err, -EFBIG, exchange->http->origin, NULL,
                                     "the answer of %s is larger than the %zu bytes that are allowed",
                                     exchange->place.text, exchange->request->response_max_bytes);
        if (exchange->failure == -ENOMEM)
                return sbx_error_set(exchange->err, -ENOMEM, exchange->http->origin, NULL, "out of memory");
        return sbx_error_set(exchange->err, exchange->failure, exchange->http->origin, NULL,
                             "the answer of %s can't be used", exchange->place.text);
}

int http_failure(const struct http_exchange *exchange, CURLcode code) {
        const char *place = exchange->place.text, *origin = exchange->http->origin;

        if (exchange->failure < 0)
                return by_callback(exchange);
        switch (code) {
        case CURLE_URL_MALFORMAT:
                return sbx_error_set(exchange->err, -EINVAL, origin, "An address begins with https:// or http://.",
                                     "%s can't be used as an address", place);
        case CURLE_COULDNT_RESOLVE_HOST:
        case CURLE_COULDNT_RESOLVE_PROXY:
                return sbx_error_set(exchange->err, -EHOSTUNREACH, origin,
                                     "Check the name, the network, and HTTPS_PROXY if a proxy is needed.",
                                     "the host name of %s%s can't be resolved",
                                     code == CURLE_COULDNT_RESOLVE_PROXY ? "the proxy for " : "", place);
        case CURLE_COULDNT_CONNECT:
                return not_connected(exchange);
        case CURLE_OPERATION_TIMEDOUT:
                return sbx_error_set(exchange->err, -ETIMEDOUT, origin, "Check the network and the address.",
                                     "%s did not take the connection in time", place);
        case CURLE_GOT_NOTHING:
        case CURLE_SEND_ERROR:
        case CURLE_RECV_ERROR:
        case CURLE_PARTIAL_FILE:
                return sbx_error_set(exchange->err, -ECONNRESET, origin, "Try again; if it stays, look at the server.",
                                     "the connection to %s broke off (%s)", place, curl_easy_strerror(code));
        case CURLE_FILESIZE_EXCEEDED:
                return sbx_error_set(exchange->err, -EFBIG, origin, NULL,
                                     "the answer of %s is larger than the %zu bytes that are allowed", place,
                                     exchange->request->response_max_bytes);
        case CURLE_OUT_OF_MEMORY:
                return sbx_error_set(exchange->err, -ENOMEM, origin, NULL, "out of memory");
        case CURLE_SSL_CERTPROBLEM:
                return sbx_error_set(exchange->err, -EPROTO, origin,
                                     "Check that certificate and key are readable PEM files that belong together.",
                                     "the certificate that is shown to %s can't be used (%s)", place,
                                     curl_easy_strerror(code));
        case CURLE_PEER_FAILED_VERIFICATION:
        case CURLE_SSL_CACERT_BADFILE:
                return sbx_error_set(
                        exchange->err, -EPROTO, origin,
                        "Check the certificate of the server, the clock, and the certificates of this system.",
                        "the certificate of %s is not to be trusted (%s)", place, curl_easy_strerror(code));
        default:
                return sbx_error_set(exchange->err, -EPROTO, origin,
                                     "Check that the address leads to the right server.",
                                     "%s does not speak HTTP as it should (%s)", place, curl_easy_strerror(code));
        }
}

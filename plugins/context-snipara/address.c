/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the base address before any credential is sent there. */
#include "address.h"

#include <arpa/inet.h>

#include "util.h"

#define BASE_MAX_BYTES 1024u
#define HTTP "http://"
#define HTTPS "https://"

static bool has_prefix(const char *text, const char *prefix) {
        return strncasecmp(text, prefix, strlen(prefix)) == 0;
}

bool snipara_address_plain(const char *base) {
        return has_prefix(base, HTTP);
}

/* The host of "host:port/path", as text of its own: "[::1]" without brackets. */
static bool take_host(const char *rest, char *host, size_t size) {
        size_t length = rest[0] == '[' ? strcspn(++rest, "]/") : strcspn(rest, ":/");

        if (length == 0 || length >= size)
                return false;
        memcpy(host, rest, length);
        host[length] = '\0';
        return true;
}

static bool is_loopback(const char *host) {
        struct in6_addr six;
        struct in_addr four;

        if (strcasecmp(host, "localhost") == 0)
                return true;
        if (inet_pton(AF_INET, host, &four) == 1)
                return ntohl(four.s_addr) >> 24 == 127;
        return inet_pton(AF_INET6, host, &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

static bool is_visible(const char *text) {
        for (; *text != '\0'; text++)
                if (*text < 0x21 || *text > 0x7e)
                        return false;
        return true;
}

static int refuse(const char *what, struct sbx_error *err) {
        return sbx_error_set(err, -EINVAL, SNIPARA_ORIGIN,
                             "Set SNIPARA_BASE_URL (setting snipara_base_url) to an address such as "
                             "https://api.snipara.com/mcp, or leave it out.",
                             "the base address of Snipara %s", what);
}

int snipara_address_base(const char *text, char **ret_base, struct sbx_error *err) {
        const char *rest;
        size_t size = strlen(text);
        char host[256];
        char *base;

        if (size > BASE_MAX_BYTES || !is_visible(text))
                return refuse("is too long, or holds blanks or other characters that no address has", err);
        if (!has_prefix(text, HTTP) && !has_prefix(text, HTTPS))
                return refuse("is neither https:// nor http://", err);
        rest = strstr(text, "://") + 3;
        if (strpbrk(rest, "@?#\\") != NULL)
                return refuse("holds a user name, a query or a fragment", err);
        if (!take_host(rest, host, sizeof(host)))
                return refuse("names no host", err);
        if (snipara_address_plain(text) && !is_loopback(host))
                return refuse("is plain http:// to another machine: a key or token is sent there by https:// only",
                              err);
        while (size > 0 && text[size - 1] == '/')
                size--;
        base = strndup(text, size);
        if (base == NULL)
                return sbx_error_set(err, -ENOMEM, SNIPARA_ORIGIN, NULL, "out of memory");
        *ret_base = base;
        return 0;
}

char *snipara_address_project(const char *base, const char *slug) {
        char *address = NULL;

        return asprintf(&address, "%s/%s", base, slug) < 0 ? NULL : address;
}

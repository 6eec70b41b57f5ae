/* SPDX-License-Identifier: Apache-2.0 */
/* Checks Host and Origin. */
#include "guard.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define HOST_MAX 255 /* RFC 1035 */

static bool is_name_character(char c) {
        return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-' || c == '.' ||
               c == '_';
}

/* Puts the address between the brackets into a string; false: it is none. */
static bool bracketed(const char *host, size_t size, struct in6_addr *ret) {
        char text[INET6_ADDRSTRLEN];

        if (size < 4 || size - 2 >= sizeof(text) || host[0] != '[' || host[size - 1] != ']')
                return false;
        memcpy(text, host + 1, size - 2);
        text[size - 2] = '\0';
        return inet_pton(AF_INET6, text, ret) == 1;
}

bool hs_is_loopback_host(const char *host, size_t size) {
        char text[INET_ADDRSTRLEN];
        struct in6_addr six;
        struct in_addr four;

        if (size == strlen("localhost") && strncasecmp(host, "localhost", size) == 0)
                return true;
        if (bracketed(host, size, &six))
                return IN6_IS_ADDR_LOOPBACK(&six);
        if (size == 0 || size >= sizeof(text))
                return false;
        memcpy(text, host, size);
        text[size] = '\0';
        return inet_pton(AF_INET, text, &four) == 1 && (ntohl(four.s_addr) >> 24) == 127;
}

/* Splits "host", "host:port", "[::1]" or "[::1]:port". -EINVAL: anything else. */
static int split_host(const char *text, size_t *ret_size) {
        struct in6_addr six;
        size_t size, digits;

        if (text[0] == '[') {
                size = strcspn(text, "]");
                if (text[size] != ']' || !bracketed(text, size + 1, &six))
                        return -EINVAL;
                size++;
        } else {
                for (size = 0; is_name_character(text[size]); size++)
                        ;
        }
        if (size == 0 || size > HOST_MAX)
                return -EINVAL;
        if (text[size] == ':') {
                digits = strspn(text + size + 1, "0123456789");
                if (digits > 5 || text[size + 1 + digits] != '\0')
                        return -EINVAL;
        } else if (text[size] != '\0') {
                return -EINVAL;
        }
        *ret_size = size;
        return 0;
}

static bool is_in(char *const *list, const char *text, size_t size) {
        for (; list != NULL && *list != NULL; list++)
                if (strlen(*list) == size && strncasecmp(*list, text, size) == 0)
                        return true;
        return false;
}

int hs_guard_host(const struct hs_guard *guard, const char *host, const char *local) {
        size_t size;

        if (split_host(host, &size) < 0)
                return -EINVAL;
        if (hs_is_loopback_host(host, size) || is_in(guard->hosts, host, size))
                return 0;
        if (local != NULL && strlen(local) == size && strncasecmp(local, host, size) == 0)
                return 0;
        return -EACCES;
}

/* Length of "http://" or "https://"; 0: neither. */
static size_t scheme_size(const char *origin) {
        if (strncasecmp(origin, "http://", 7) == 0)
                return 7;
        return strncasecmp(origin, "https://", 8) == 0 ? 8 : 0;
}

int hs_guard_origin(const struct hs_guard *guard, const char *origin) {
        size_t scheme = scheme_size(origin), size;

        if (is_in(guard->origins, origin, strlen(origin)))
                return 0;
        if (scheme == 0 || split_host(origin + scheme, &size) < 0 || !hs_is_loopback_host(origin + scheme, size))
                return -EACCES;
        return 0;
}

static int append(char ***list, size_t *count, const char *text) {
        char **grown = reallocarray(*list, *count + 2, sizeof(**list));

        if (grown == NULL)
                return -ENOMEM;
        *list = grown;
        grown[*count] = strdup(text);
        grown[*count + 1] = NULL;
        if (grown[*count] == NULL)
                return -ENOMEM;
        (*count)++;
        return 0;
}

/* A host without port. */
static bool is_host(const char *text) {
        size_t size;

        return split_host(text, &size) == 0 && text[size] == '\0';
}

/* An origin: a scheme, "://", and a host, with or without a port; "moz-extension://id" is one too. */
static bool is_origin(const char *text) {
        size_t scheme = strcspn(text, ":"), size;

        return scheme > 0 && strncmp(text + scheme, "://", 3) == 0 && split_host(text + scheme + 3, &size) == 0;
}

static int fill(char ***list, const char *const *values, bool (*valid)(const char *text), const char **ret_bad) {
        size_t count = 0;

        while (*list != NULL && (*list)[count] != NULL)
                count++;
        for (; values != NULL && *values != NULL; values++) {
                int r;

                if (!valid(*values)) {
                        *ret_bad = *values;
                        return -EINVAL;
                }
                r = append(list, &count, *values);
                if (r < 0)
                        return r;
        }
        return 0;
}

int hs_guard_init(struct hs_guard *guard, const char *listen, const char *const *hosts, const char *const *origins,
                  const char **ret_bad) {
        char host[INET6_ADDRSTRLEN + 2];
        const char *const own[] = {host, NULL};
        struct in6_addr six;
        bool is_six = inet_pton(AF_INET6, listen, &six) == 1;
        int r;

        *guard = (struct hs_guard){0};
        snprintf(host, sizeof(host), "%s%s%s", is_six ? "[" : "", listen, is_six ? "]" : "");
        r = fill(&guard->hosts, own, is_host, ret_bad);
        if (r == 0)
                r = fill(&guard->hosts, hosts, is_host, ret_bad);
        if (r == 0)
                r = fill(&guard->origins, origins, is_origin, ret_bad);
        if (r < 0)
                hs_guard_clear(guard);
        return r;
}

static void free_list(char **list) {
        for (char **entry = list; entry != NULL && *entry != NULL; entry++)
                free(*entry);
        free(list);
}

void hs_guard_clear(struct hs_guard *guard) {
        free_list(guard->hosts);
        free_list(guard->origins);
        *guard = (struct hs_guard){0};
}

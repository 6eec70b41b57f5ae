/* SPDX-License-Identifier: Apache-2.0 */
/* Request headers: the key in the form that each API wants it in. */
#include "complete.h"
#include "util.h"

#define ANTHROPIC_VERSION "2023-06-01"

SBX_PRINTF(2, 3)
static int add(struct llm_headers *headers, const char *format, ...) {
        size_t count = 0;
        va_list args;
        int size;

        while (headers->lines[count] != NULL)
                count++;
        va_start(args, format);
        size = vasprintf(&headers->lines[count], format, args);
        va_end(args);
        if (size >= 0)
                return 0;
        headers->lines[count] = NULL;
        return -ENOMEM;
}

int llm_headers_make(const struct llm_route *route, const char *accept, struct llm_headers *ret_headers) {
        _cleanup_headers_ struct llm_headers headers = {{NULL}};
        enum llm_api api = route->provider->api;
        int r = add(&headers, "Content-Type: application/json");

        if (r == 0)
                r = add(&headers, "Accept: %s", accept);
        if (r == 0 && api == LLM_API_ANTHROPIC)
                r = add(&headers, "anthropic-version: " ANTHROPIC_VERSION);
        if (r == 0 && route->key != NULL)
                r = api == LLM_API_ANTHROPIC ? add(&headers, "x-api-key: %s", route->key)
                    : api == LLM_API_AZURE   ? add(&headers, "api-key: %s", route->key)
                                             : add(&headers, "Authorization: Bearer %s", route->key);
        if (r < 0)
                return r;
        *ret_headers = headers;
        headers = (struct llm_headers){{NULL}};
        return 0;
}

void llm_headers_free(struct llm_headers *headers) {
        for (size_t i = 0; i < LLM_HEADERS_MAX && headers->lines[i] != NULL; i++) {
                explicit_bzero(headers->lines[i], strlen(headers->lines[i]));
                free(headers->lines[i]);
                headers->lines[i] = NULL;
        }
}

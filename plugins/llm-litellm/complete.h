/* SPDX-License-Identifier: Apache-2.0 */
/* A completion from request to response, and the check of an entry for `doctor`. */
#pragma once

#include "http.h"

#include "dialect.h"
#include "prices.h"

struct llm_instance {
        struct llm_settings settings;
        struct llm_prices prices;
        struct sbx_http *http;
};

/* As in struct sbx_provider_ops. */
int llm_complete(void *instance, struct sbx_bytes request, const struct sbx_provider_events *events,
                 const struct sbx_call *call, struct sbx_output *ret_response, struct sbx_error *err);
int llm_probe(void *instance, const struct sbx_probe_events *events, const struct sbx_call *call);
int llm_available(void *instance, const char *model, struct sbx_error *err);

/* headers.c: the headers of a request by `route`. */
#define LLM_HEADERS_MAX 8
struct llm_headers {
        char *lines[LLM_HEADERS_MAX]; /* NULL-terminated */
};
int llm_headers_make(const struct llm_route *route, const char *accept, struct llm_headers *ret_headers);
void llm_headers_free(struct llm_headers *headers); /* the key in them is overwritten */
#define _cleanup_headers_ __attribute__((cleanup(llm_headers_free)))

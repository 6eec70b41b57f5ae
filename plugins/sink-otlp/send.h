/* SPDX-License-Identifier: Apache-2.0 */
/* One request to the collector. */
#pragma once

#include "answer.h"

#define OTLP_BODY_MAX ((size_t)8 << 20) /* a collector takes 20 MiB by default */

int otlp_http_new(const struct sbx_host *host, const struct otlp_settings *settings, struct sbx_http **ret_http,
                  struct sbx_error *err);
/* Posts `spans`, each the JSON of one; 0 makes an empty request. */
void otlp_send(struct sbx_http *http, const struct otlp_settings *settings, char *const *spans, size_t count,
               const struct sbx_call *call, struct otlp_answer *ret_answer);

/* SPDX-License-Identifier: Apache-2.0 */
/* Spans that wait, and the thread that sends them: whoever adds one never waits for the network. Bounded in spans and
 * in bytes; the oldest make room. Thread-safe. */
#pragma once

#include <snipara-sandbox/plugin.h>

#include "settings.h"

struct otlp_exporter;

/* `settings` outlives it. Starts the thread. */
int otlp_exporter_start(const struct sbx_host *host, const struct otlp_settings *settings,
                        struct otlp_exporter **ret_exporter, struct sbx_error *err);
/* Sends what waits, once and no longer than the time-out, then ends the thread. Says in the log what was lost. NULL is
 * fine. */
void otlp_exporter_stop(struct otlp_exporter *exporter);

/* Takes `json`, one span, which is to be freed with free(). */
void otlp_exporter_add(struct otlp_exporter *exporter, char *json);
/* Waits until what was added before has been sent; not longer than the time-out, and not at all while the collector is
 * in trouble. An error says what has gone wrong since the last flush. */
int otlp_exporter_flush(struct otlp_exporter *exporter, struct sbx_error *err);

/* One request without spans, for `doctor`. */
int otlp_exporter_try(const struct sbx_host *host, const struct otlp_settings *settings, const struct sbx_call *call,
                      struct sbx_error *err);

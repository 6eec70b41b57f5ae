/* SPDX-License-Identifier: Apache-2.0 */
/* What a collector's answer means. */
#pragma once

#include <stdbool.h>

#include "http.h"
#include "settings.h"

enum otlp_verdict {
        OTLP_ACCEPTED, /* all spans, or all but `rejected` */
        OTLP_RETRY,    /* the same request may succeed later */
        OTLP_REFUSED,  /* it never will */
};

struct otlp_answer {
        enum otlp_verdict verdict;
        uint64_t rejected;       /* spans that it did not take */
        uint64_t retry_after_ms; /* 0: it did not say */
        bool warned;             /* `problem` is set though all was accepted */
        struct sbx_error problem;
};

/* `result` is what sbx_http_perform returned, with `problem` when it was negative. Texts of the collector are shown cut
 * to one line, and not at all when a header's value is in them. */
void otlp_answer_read(const struct otlp_settings *settings, int result, const struct sbx_error *problem,
                      const struct sbx_http_response *response, struct otlp_answer *ret_answer);

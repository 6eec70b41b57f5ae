/* SPDX-License-Identifier: Apache-2.0 */
/* Content of results, and waiting. */
#include <poll.h>
#include <stdlib.h>

#include "fixtures.h"

/* PNG, 1 x 1, RGB 255 0 0. */
const char fixture_png[] =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC";
/* RIFF/WAVE, 8 kHz, mono, 8 bits, 4 samples. */
const char fixture_wav[] = "UklGRigAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQQAAACAgICA";

int fixture_nomem(struct sbx_error *err) {
        return sbx_error_set(err, -ENOMEM, FIXTURES_ORIGIN, NULL, "out of memory");
}

int fixture_blocks(const struct fixture_call *call, json_t *content, json_t **ret_result) {
        json_t *result = json_is_array(content) ? json_pack("{s:o}", "content", content)
                         : content != NULL      ? json_pack("{s:[o]}", "content", content)
                                                : NULL;

        if (result == NULL)
                return fixture_nomem(call->err);
        *ret_result = result;
        return 0;
}

SBX_PRINTF(3, 0)
static int text_result(const struct fixture_call *call, json_t **ret_result, const char *format, va_list arguments) {
        json_t *text = json_vsprintf(format, arguments);

        return text == NULL ? fixture_nomem(call->err)
                            : fixture_blocks(call, json_pack("{s:s, s:o}", "type", "text", "text", text), ret_result);
}

int fixture_text(const struct fixture_call *call, json_t **ret_result, const char *format, ...) {
        va_list arguments;
        int r;

        va_start(arguments, format);
        r = text_result(call, ret_result, format, arguments);
        va_end(arguments);
        return r;
}

int fixture_failure(const struct fixture_call *call, json_t **ret_result, const char *format, ...) {
        json_t *result = NULL;
        va_list arguments;
        int r;

        va_start(arguments, format);
        r = text_result(call, &result, format, arguments);
        va_end(arguments);
        if (r == 0 && json_object_set_new(result, "isError", json_true()) < 0)
                r = fixture_nomem(call->err);
        if (r < 0) {
                json_decref(result);
                return r;
        }
        *ret_result = result;
        return 0;
}

int fixture_wait(const struct fixture_call *call, unsigned ms) {
        const struct sbx_host *host = call->fixtures->host;
        uint64_t now = host->clock_ns(host->self), end = now + ms * UINT64_C(1000000);
        uint64_t limit = call->call->deadline_ns != 0 && call->call->deadline_ns < end ? call->call->deadline_ns : end;
        struct pollfd cancel = {.fd = call->call->cancel_fd, .events = POLLIN};

        for (; now < limit; now = host->clock_ns(host->self)) {
                int r = poll(&cancel, 1, (int)((limit - now + 999999) / 1000000));

                if (r > 0)
                        return sbx_error_set(call->err, -ECANCELED, FIXTURES_ORIGIN, NULL, "%s was cancelled",
                                             call->name);
                if (r < 0 && errno != EINTR)
                        return sbx_error_set(call->err, -errno, FIXTURES_ORIGIN, NULL, "%s could not wait", call->name);
        }
        if (limit < end)
                return sbx_error_set(call->err, -ETIMEDOUT, FIXTURES_ORIGIN, NULL, "%s ran out of time", call->name);
        return 0;
}

const char *fixture_argument(const struct fixture_call *call, const char *name, const char *fallback) {
        const char *text = json_string_value(json_object_get(call->arguments, name));

        return text != NULL ? text : fallback;
}

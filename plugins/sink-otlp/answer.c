/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a collector's answer (OTLP specification 1.10, "OTLP/HTTP Response"). */
#include "answer.h"

#include <string.h>

#include "util.h"

#define TEXT_MAX 240 /* of the collector's, in a message */
#define SECRET_MIN 4 /* shorter ones are in every other text */

/* ---- the collector's own words ---- */

static bool has_secret(const struct otlp_settings *settings, const char *text) {
        for (size_t i = 1; i < settings->header_count; i++) { /* the first is the content's type */
                const char *value = strchr(settings->headers[i], ':') + 2;
                const char *token = strrchr(value, ' ');

                if (strlen(value) >= SECRET_MIN && strstr(text, value) != NULL)
                        return true;
                /* "Bearer TOKEN": the token alone is the secret. */
                if (token != NULL && strlen(token + 1) >= SECRET_MIN && strstr(text, token + 1) != NULL)
                        return true;
        }
        return false;
}

/* One line of valid UTF-8, in quotes, for the end of a message; "" if there is none that may be shown. */
static void quote(const struct otlp_settings *settings, const char *text, char *out, size_t capacity) {
        size_t size = 0, limit = capacity - 8;

        out[0] = '\0';
        if (text == NULL || *text == '\0' || has_secret(settings, text))
                return;
        memcpy(out, ": \"", 3);
        size = 3;
        for (const unsigned char *p = (const unsigned char *)text; *p != '\0' && size < limit; p++)
                out[size++] = *p < 0x20 || *p == 0x7F ? ' ' : (char)*p;
        if (size == limit) { /* half a character at the end goes */
                while (size > 3 && ((unsigned char)out[size - 1] & 0xC0) == 0x80)
                        size--;
                if (size > 3 && (unsigned char)out[size - 1] >= 0xC0)
                        size--;
        }
        out[size++] = '"';
        out[size] = '\0';
}

static json_t *parse_body(const struct sbx_http_response *response) {
        if (response->body == NULL || response->body_size == 0 || response->body[0] != '{')
                return NULL;
        return json_loadb(response->body, response->body_size, 0, NULL);
}

/* ---- accepted ---- */

/* 64 bits: a string of digits, but a number is to be taken too. */
static uint64_t read_count(const json_t *value) {
        const char *digits = json_string_value(value);
        uint64_t number = 0;

        if (json_is_integer(value))
                return json_integer_value(value) > 0 ? (uint64_t)json_integer_value(value) : 0;
        for (; digits != NULL && *digits >= '0' && *digits <= '9' && number < UINT64_MAX / 100; digits++)
                number = number * 10 + (uint64_t)(*digits - '0');
        return number;
}

/* A body that can't be read is no reason to send spans again that were taken. */
static void read_accepted(const struct otlp_settings *settings, const struct sbx_http_response *response,
                          struct otlp_answer *answer) {
        _cleanup_json_ json_t *body = parse_body(response);
        const json_t *partial = json_object_get(body, "partialSuccess");
        const char *message = json_string_value(json_object_get(partial, "errorMessage"));
        char quoted[TEXT_MAX];

        answer->verdict = OTLP_ACCEPTED;
        answer->rejected = read_count(json_object_get(partial, "rejectedSpans"));
        if (answer->rejected == 0 && (message == NULL || *message == '\0'))
                return;
        answer->warned = true;
        quote(settings, message, quoted, sizeof(quoted));
        if (answer->rejected > 0)
                sbx_error_set(&answer->problem, -EREMOTEIO, OTLP_ORIGIN, NULL, "%s did not take %llu spans%s",
                              settings->url_shown, (unsigned long long)answer->rejected, quoted);
        else
                sbx_error_set(&answer->problem, -EREMOTEIO, OTLP_ORIGIN, NULL, "%s took all spans, and says%s",
                              settings->url_shown, quoted);
}

/* ---- not accepted ---- */

static const char *status_hint(unsigned status) {
        switch (status) {
        case 401:
        case 403:
                return "Set `headers`, or OTEL_EXPORTER_OTLP_HEADERS, to what the collector asks for.";
        case 404:
        case 405:
                return "Check `endpoint`: /v1/traces is added to it, and it is the port of OTLP over HTTP (4318), not "
                       "that of gRPC (4317).";
        case 413:
                return "Set `batch_size` or `content_max` to less.";
        case 415:
                return "The collector has to take JSON: OTLP/HTTP asks for it.";
        case 429:
                return "The collector asks for less; spans wait meanwhile.";
        default:
                break;
        }
        if (status >= 300 && status < 400)
                return "Set `endpoint` to where it leads: redirects are not followed, so that no key goes astray.";
        return status >= 500 ? "See the collector's own log." : NULL;
}

static void read_status(const struct otlp_settings *settings, const struct sbx_http_response *response,
                        struct otlp_answer *answer) {
        _cleanup_json_ json_t *body = parse_body(response);
        char quoted[TEXT_MAX];

        quote(settings, json_string_value(json_object_get(body, "message")), quoted, sizeof(quoted));
        answer->verdict =
                response->status == 429 || response->status == 502 || response->status == 503 || response->status == 504
                        ? OTLP_RETRY
                        : OTLP_REFUSED;
        answer->retry_after_ms = response->retry_after_ms;
        sbx_error_set(&answer->problem, response->status == 401 || response->status == 403 ? -EACCES : -EREMOTEIO,
                      OTLP_ORIGIN, status_hint(response->status), "%s answers HTTP %u%s", settings->url_shown,
                      response->status, quoted);
}

/* No answer: whatever may be different next time is tried again. */
static bool may_retry(int result) {
        return result == -ECONNREFUSED || result == -EHOSTUNREACH || result == -ECONNRESET || result == -ETIMEDOUT ||
               result == -EPROTO;
}

void otlp_answer_read(const struct otlp_settings *settings, int result, const struct sbx_error *problem,
                      const struct sbx_http_response *response, struct otlp_answer *ret_answer) {
        *ret_answer = (struct otlp_answer){.verdict = OTLP_REFUSED};
        if (result == -EFBIG && response->status >= 200 && response->status < 300) {
                ret_answer->verdict = OTLP_ACCEPTED; /* of what it says beyond that nothing is needed */
        } else if (result < 0) {
                ret_answer->verdict = may_retry(result) ? OTLP_RETRY : OTLP_REFUSED;
                ret_answer->problem = *problem;
                sbx_error_set(&ret_answer->problem, result, OTLP_ORIGIN, NULL, "%s can't be reached",
                              settings->url_shown);
        } else if (response->status >= 200 && response->status < 300) {
                read_accepted(settings, response, ret_answer);
        } else {
                read_status(settings, response, ret_answer);
        }
}

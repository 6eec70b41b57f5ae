/* SPDX-License-Identifier: Apache-2.0 */
/* JSON-RPC answers to results, and everything else that may come over HTTP to failures. All of it is data from outside:
 * nothing in it decides what is asked next. */
#include "answer.h"

#include "text.h"
#include "util.h"

#define BLOCKS_MAX 256u
#define WORDS_MAX_BYTES 300u /* of the service's own words in an error */
#define DASHBOARD "https://snipara.com/dashboard"

/* ---- failures -------------------------------------------------------------------------------------------- */

int snipara_fail(struct snipara_failure *failure, const char *kind, const char *hint, const char *format, ...) {
        char message[SBX_ERROR_MESSAGE_MAX];
        va_list args;

        va_start(args, format);
        if (vsnprintf(message, sizeof(message), format, args) < 0)
                message[0] = '\0';
        va_end(args);
        sbx_error_trim_(message, sizeof(message));
        failure->kind = kind;
        failure->error = (struct sbx_error){0};
        return sbx_error_set(&failure->error, -EBADMSG, SNIPARA_ORIGIN, hint, "%s", message);
}

json_t *snipara_failure_result(const struct snipara_failure *failure) {
        _cleanup_json_ json_t *facts = json_pack("{s:s}", "kind", failure->kind);
        _cleanup_free_ char *text = NULL;

        if (asprintf(&text, "Error: %s%s%s", failure->error.message, failure->error.hint[0] != '\0' ? "\n" : "",
                     failure->error.hint) < 0) {
                text = NULL;
                return NULL;
        }
        if (facts == NULL ||
            (failure->status != 0 && json_object_set_new(facts, "http_status", json_integer(failure->status)) < 0) ||
            (failure->retry_after_ms != 0 &&
             json_object_set_new(facts, "retry_after_ms", json_integer((json_int_t)failure->retry_after_ms)) < 0))
                return NULL;
        return json_pack("{s:[{s:s, s:s}], s:b, s:{s:O}}", "content", "type", "text", "text", text, "isError", 1,
                         "_meta", "snipara-sandbox/error", facts);
}

/* ---- the service's own words ----------------------------------------------------------------------------- */

/* One line of at most WORDS_MAX_BYTES, without control characters and without the credential. NULL: no memory. */
static char *clean_words(const struct snipara_question *question, const char *text, size_t size) {
        char *words = NULL;
        size_t kept;
        int r;

        _cleanup_free_ char *copy = malloc(size + 1);

        if (copy == NULL)
                return NULL;
        memcpy(copy, text, size);
        copy[size] = '\0';
        snipara_text_redact(copy, size, question->credential->secret);
        kept = snipara_text_cut(copy, size, WORDS_MAX_BYTES);
        for (size_t i = 0; i < kept; i++)
                if ((unsigned char)copy[i] < 0x20 || copy[i] == 0x7f)
                        copy[i] = ' ';
        r = asprintf(&words, "%.*s%s", (int)kept, copy, kept < size ? "..." : "");
        return r < 0 ? NULL : words;
}

/* Where services put it: {"error": "..."}, {"error": {"message"}}, {"detail"} or {"message"}. */
static const json_t *find_words(const json_t *body) {
        static const char *const names[] = {"error", "detail", "message"};

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                const json_t *member = json_object_get(body, names[i]);

                if (json_is_object(member))
                        member = json_object_get(member, "message");
                if (json_is_string(member) && json_string_length(member) > 0)
                        return member;
        }
        return NULL;
}

/* ": what the service says", or "". NULL: no memory. */
static char *service_words(const struct snipara_question *question, const struct sbx_http_response *response) {
        _cleanup_json_ json_t *body = NULL;
        _cleanup_free_ char *words = NULL;
        const json_t *member = NULL;
        char *text = NULL;

        if (response->body != NULL)
                (void)snipara_json_parse((struct sbx_bytes){response->body, response->body_size}, &body);
        member = find_words(body);
        if (member == NULL)
                return strdup("");
        words = clean_words(question, json_string_value(member), json_string_length(member));
        if (words == NULL)
                return NULL;
        return asprintf(&text, ": %s", words) < 0 ? NULL : text;
}

/* ---- answers of another status --------------------------------------------------------------------------- */

static const char *renewal(enum snipara_source source) {
        switch (source) {
        case SNIPARA_OAUTH:
                return "Run snipara-mcp-login to log in again; it takes effect at the next call.";
        case SNIPARA_ENVIRONMENT:
                return "Make a key at " DASHBOARD " and set SNIPARA_API_KEY, or run snipara-mcp-login.";
        default:
                return "Make a key at " DASHBOARD " and set snipara_api_key, or run snipara-mcp-login.";
        }
}

static int fail_limited(struct snipara_failure *failure, const char *words) {
        char hint[160];

        if (failure->retry_after_ms > 0)
                snprintf(hint, sizeof(hint), "Try again in %llu seconds. The plan's quota is at " DASHBOARD ".",
                         (unsigned long long)(failure->retry_after_ms + 999) / 1000);
        else
                snprintf(hint, sizeof(hint), "Try again in a minute. The plan's quota is at " DASHBOARD ".");
        return snipara_fail(failure, "rate_limited", hint, "Snipara takes no more requests now (HTTP 429)%s", words);
}

static int fail_server(const struct snipara_question *question, struct snipara_failure *failure, const char *words) {
        const char *doubt = snipara_tool_doubt(question->tool);
        char hint[256];

        if (failure->retry_after_ms > 0)
                snprintf(hint, sizeof(hint), "The fault is not here. Try again in %llu seconds.%s",
                         (unsigned long long)(failure->retry_after_ms + 999) / 1000, doubt);
        else
                snprintf(hint, sizeof(hint), "The fault is not here. Try again later.%s", doubt);
        return snipara_fail(failure, "server_error", hint, "Snipara failed (HTTP %u)%s", failure->status, words);
}

static int fail_status(const struct snipara_question *question, const struct sbx_http_response *response,
                       struct snipara_failure *failure) {
        const struct snipara_credential *credential = question->credential;
        _cleanup_free_ char *words = service_words(question, response);

        if (words == NULL)
                return -ENOMEM;
        switch (response->status) {
        case 401:
                return snipara_fail(failure, "unauthorized", renewal(credential->source),
                                    "Snipara does not accept %s (HTTP 401)%s", snipara_source_name(credential->source),
                                    words);
        case 403:
                return snipara_fail(failure, "forbidden",
                                    "Choose another project with SNIPARA_PROJECT_SLUG, or ask the owner of this one to "
                                    "let you in; the plan may leave the tool out.",
                                    "%s may not use %s in the project '%s' (HTTP 403)%s",
                                    snipara_source_name(credential->source), question->tool->name, credential->slug,
                                    words);
        case 404:
                return snipara_fail(failure, "not_found",
                                    "Check SNIPARA_PROJECT_SLUG (setting snipara_project_slug) against " DASHBOARD
                                    ", and SNIPARA_BASE_URL if it is set.",
                                    "Snipara knows no project '%s' (HTTP 404)%s", credential->slug, words);
        case 429:
                return fail_limited(failure, words);
        default:
                break;
        }
        if (response->status >= 500)
                return fail_server(question, failure, words);
        if (response->status >= 400)
                return snipara_fail(failure, "refused", "Change the arguments as it says.",
                                    "Snipara refuses the request (HTTP %u)%s", response->status, words);
        return snipara_fail(failure, "invalid_answer",
                            "Check SNIPARA_BASE_URL: redirects are not followed, so that a credential never goes "
                            "elsewhere.",
                            "Snipara answers with HTTP %u, which is no answer to a call", response->status);
}

/* ---- results --------------------------------------------------------------------------------------------- */

static int append_text(json_t *blocks, const char *text, size_t size) {
        return json_array_append_new(blocks, json_pack("{s:s, s:s%}", "type", "text", "text", text, size)) < 0 ? -ENOMEM
                                                                                                               : 0;
}

/* Appends what fits into `*room`; what does not is counted in `*cut`. */
static int append_clipped(const struct snipara_question *question, json_t *blocks, const char *text, size_t size,
                          size_t *room, size_t *cut) {
        size_t kept = snipara_text_cut(text, size, *room);
        _cleanup_free_ char *copy = malloc(size + 1);

        if (copy == NULL)
                return -ENOMEM;
        memcpy(copy, text, size);
        snipara_text_redact(copy, size, question->credential->secret);
        *room -= kept;
        *cut += size - kept;
        /* Nothing more fits once something was left out: a later, smaller block would look like its continuation. */
        if (kept < size)
                *room = 0;
        return kept > 0 || size == 0 ? append_text(blocks, copy, kept) : 0;
}

static int append_marker(json_t *blocks, size_t cut, size_t others) {
        char text[200];
        int r = 0;

        if (cut > 0) {
                snprintf(text, sizeof(text),
                         "[%zu bytes more were left out here; ask for less, with max_tokens, limit "
                         "or a narrower question]",
                         cut);
                r = append_text(blocks, text, strlen(text));
        }
        if (r == 0 && others > 0) {
                snprintf(text, sizeof(text), "[%zu parts of the answer that are not text were left out]", others);
                r = append_text(blocks, text, strlen(text));
        }
        return r;
}

static int convert_content(const struct snipara_question *question, const json_t *content, json_t *blocks) {
        size_t room = question->text_max, cut = 0, others = 0, index;
        json_t *block;
        int r = 0;

        json_array_foreach ((json_t *)content, index, block) {
                const json_t *text = json_object_get(block, "text");
                const char *type = json_string_value(json_object_get(block, "type"));

                if (type == NULL || strcmp(type, "text") != 0 || !json_is_string(text) || index >= BLOCKS_MAX)
                        others++;
                else if (r == 0)
                        r = append_clipped(question, blocks, json_string_value(text), json_string_length(text), &room,
                                           &cut);
        }
        return r < 0 ? r : append_marker(blocks, cut, others);
}

/* A result that is not in MCP's form is passed on as the JSON that it is. */
static int convert_plain(const struct snipara_question *question, const json_t *result, json_t *blocks) {
        _cleanup_free_ char *text = json_dumps(result, JSON_COMPACT | JSON_ENCODE_ANY);
        size_t room = question->text_max, cut = 0;
        int r = text == NULL ? -ENOMEM : append_clipped(question, blocks, text, strlen(text), &room, &cut);

        return r < 0 ? r : append_marker(blocks, cut, 0);
}

static int convert_result(const struct snipara_question *question, const json_t *result, json_t **ret_result) {
        _cleanup_json_ json_t *blocks = json_array();
        const json_t *content = json_object_get(result, "content");
        int r;

        if (blocks == NULL)
                return -ENOMEM;
        if (json_is_array(content) && json_array_size(content) > 0)
                r = convert_content(question, content, blocks);
        else
                r = convert_plain(question, result, blocks);
        if (r < 0)
                return r;
        *ret_result =
                json_pack("{s:O, s:b}", "content", blocks, "isError", json_is_true(json_object_get(result, "isError")));
        return *ret_result == NULL ? -ENOMEM : 0;
}

/* ---- JSON-RPC -------------------------------------------------------------------------------------------- */

static int fail_rpc(const struct snipara_question *question, const json_t *error, struct snipara_failure *failure) {
        const json_t *message = json_is_string(error) ? error : json_object_get(error, "message");
        json_int_t code = json_integer_value(json_object_get(error, "code"));
        _cleanup_free_ char *words = clean_words(question, json_is_string(message) ? json_string_value(message) : "",
                                                 json_string_length(message));

        if (words == NULL)
                return -ENOMEM;
        return snipara_fail(failure, "refused",
                            code == -32601 ? "The service has no such tool for this project."
                                           : "Change the arguments as it says.",
                            "Snipara answers %s with an error (%lld)%s%s", question->tool->name, (long long)code,
                            words[0] != '\0' ? ": " : "", words);
}

static int fail_shape(struct snipara_failure *failure, const char *what) {
        return snipara_fail(failure, "invalid_answer",
                            "Check SNIPARA_BASE_URL, and proxies on the way; if both are right, the fault is the "
                            "service's.",
                            "what came back is no answer of Snipara: %s", what);
}

int snipara_answer_read(const struct snipara_question *question, const struct sbx_http_response *response,
                        json_t **ret_result, struct snipara_failure *failure) {
        _cleanup_json_ json_t *answer = NULL;
        const json_t *error, *result;
        int r;

        failure->status = response->status;
        failure->retry_after_ms = response->retry_after_ms;
        if (response->status < 200 || response->status > 299)
                return fail_status(question, response, failure);
        if (response->body == NULL || response->body_size == 0)
                return fail_shape(failure, "it is empty");
        if (strcmp(response->content_type, "text/html") == 0)
                return fail_shape(failure, "it is an HTML page, as a proxy or a log-in page sends it");
        r = snipara_json_parse((struct sbx_bytes){response->body, response->body_size}, &answer);
        if (r == -EBADMSG)
                return fail_shape(failure, "it is not valid JSON, or nested too deeply, or of too many values");
        if (r < 0)
                return r;
        error = json_object_get(answer, "error");
        if (error != NULL && !json_is_null(error))
                return fail_rpc(question, error, failure);
        result = json_object_get(answer, "result");
        if (result == NULL || json_is_null(result))
                return fail_shape(failure, "it holds neither a result nor an error");
        return convert_result(question, result, ret_result);
}

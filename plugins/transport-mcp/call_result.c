/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a call as its client is told it: a result in the words of its revision, or the error that stands for what
 * went wrong inside. */
#include "call_private.h"

/* ---- results ------------------------------------------------------------------------------------------- */

int mcp_call_shape(const struct mcp_call *call, enum mcp_revision revision, struct sbx_bytes result,
                   struct mcp_text *storage, struct sbx_bytes *ret_result) {
        const struct mcp_call_end end = {
                .revision = revision,
                .name = call->name,
                .principal = call->principal,
                .server = call->server,
                .params = call->params,
        };
        struct sbx_bytes shaped;
        int r;

        if (call->how->shape != NULL)
                r = call->how->shape(&end, result, storage, &shaped);
        else
                r = mcp_json_one_line(result, storage, &shaped);
        if (r < 0)
                return r;
        if (shaped.size == 0 || *(const char *)shaped.data != '{')
                return -EINVAL;
        *ret_result = shaped;
        return 0;
}

/* ---- failures ------------------------------------------------------------------------------------------ */

void mcp_failure_free(struct mcp_failure *failure) {
        mcp_text_free(&failure->data);
}

static const struct {
        uint32_t bit;
        const char *capability, *inner; /* {capability: inner} */
} capability_names[] = {
        {SBX_CLIENT_SAMPLING, "sampling", "{}"},
        {SBX_CLIENT_SAMPLING_TOOLS, "sampling", "{\"tools\":{}}"},
        {SBX_CLIENT_ELICITATION, "elicitation", "{}"},
        {SBX_CLIENT_ELICITATION_URL, "elicitation", "{\"url\":{}}"},
        {SBX_CLIENT_ROOTS, "roots", "{}"},
        {SBX_CLIENT_TASKS, "extensions", "{\"" MCP_EXTENSION_TASKS "\":{}}"},
};

void mcp_required_capabilities(uint32_t bits, struct mcp_text *text) {
        bool first = true;

        /* What says more of a capability takes the place of what says less. */
        if ((bits & SBX_CLIENT_SAMPLING_TOOLS) != 0)
                bits &= ~SBX_CLIENT_SAMPLING;
        if ((bits & SBX_CLIENT_ELICITATION_URL) != 0)
                bits &= ~SBX_CLIENT_ELICITATION;
        mcp_text_append_literal(text, "{\"requiredCapabilities\":{");
        for (size_t i = 0; i < sizeof(capability_names) / sizeof(capability_names[0]); i++) {
                if ((bits & capability_names[i].bit) == 0)
                        continue;
                mcp_text_append_literal(text, first ? "\"" : ",\"");
                mcp_text_append_literal(text, capability_names[i].capability);
                mcp_text_append_literal(text, "\":");
                mcp_text_append_literal(text, capability_names[i].inner);
                first = false;
        }
        mcp_text_append_literal(text, "}}");
}

static const char *default_message(const struct mcp_call *call, int status) {
        if (status != -ENOENT)
                return call->kind == SBX_REQUEST_TOOL ? "the tool could not be called"
                                                      : "the request could not be answered";
        switch (call->kind) {
        case SBX_REQUEST_TOOL:
                return "no such tool";
        case SBX_REQUEST_READ:
                return "no such resource";
        case SBX_REQUEST_PROMPT:
                return "no such prompt";
        default:
                return "there is no such thing";
        }
}

static void tell_uri(const struct mcp_call *call, struct mcp_text *text) {
        mcp_text_append_literal(text, "{\"uri\":");
        mcp_text_append_string(text, call->name, strlen(call->name));
        mcp_text_append_literal(text, "}");
}

static int code_of(const struct mcp_call *call, enum mcp_revision revision, int status) {
        switch (status) {
        case -ENOENT:
                if (call->kind == SBX_REQUEST_READ && !mcp_is_modern(revision))
                        return MCP_RESOURCE_NOT_FOUND;
                return MCP_INVALID_PARAMS;
        case -EINVAL: /* what was asked makes no sense to who answers */
                return MCP_INVALID_PARAMS;
        case -EAGAIN:
        case -EBUSY:
                return MCP_BUSY;
        default:
                return MCP_INTERNAL_ERROR;
        }
}

void mcp_call_failure(const struct mcp_call *call, enum mcp_revision revision, int status, const struct sbx_error *err,
                      struct mcp_failure *ret_failure) {
        const char *message = err != NULL && err->message[0] != '\0' ? err->message : default_message(call, status);
        const char *hint = err != NULL ? err->hint : "";

        ret_failure->data = (struct mcp_text)MCP_TEXT(16u << 10);
        ret_failure->code = code_of(call, revision, status);
        snprintf(ret_failure->message, sizeof(ret_failure->message), "%s%s%s", message, hint[0] != '\0' ? ". " : "",
                 hint);
        if (status == -ENOENT && call->kind == SBX_REQUEST_READ)
                tell_uri(call, &ret_failure->data);
        /* It asked, was told that the client can't, and can't do without. Legacy clients must not see the code. */
        if (status == -ENOTSUP && call->lacking != 0) {
                ret_failure->code = mcp_is_modern(revision) ? MCP_MISSING_CAPABILITY : MCP_INVALID_PARAMS;
                mcp_required_capabilities(call->lacking, &ret_failure->data);
        }
        if (ret_failure->data.error != 0)
                mcp_text_free(&ret_failure->data); /* the message alone does, too */
}

/* ---- the answer ---------------------------------------------------------------------------------------- */

static void answer_result(const struct mcp_call *call, const struct mcp_exchange *exchange, struct sbx_bytes result) {
        /* Who may see it depends on who asks, and files change at any time. */
        static const struct mcp_caching never = {.ttl_ms = 0, .is_public = false};
        _cleanup_text_ struct mcp_text storage = MCP_TEXT(MCP_RESULT_BYTES_MAX);
        struct sbx_bytes shaped;

        if (mcp_call_shape(call, exchange->target.revision, result, &storage, &shaped) < 0)
                mcp_reply_error(&exchange->target, &exchange->id, MCP_INTERNAL_ERROR, MCP_BAD_RESULT, NULL);
        else
                mcp_reply_cacheable(&exchange->target, &exchange->id, shaped, call->how->cacheable ? &never : NULL);
}

void mcp_call_answer(const struct mcp_call *call, const struct mcp_exchange *exchange, int status,
                     struct sbx_bytes result, const struct sbx_error *err) {
        _cleanup_failure_ struct mcp_failure failure = {0};

        if (status == 0) {
                answer_result(call, exchange, result);
                return;
        }
        mcp_call_failure(call, exchange->target.revision, status, err, &failure);
        mcp_reply_error_data(&exchange->target, &exchange->id, failure.code, failure.message, NULL,
                             mcp_text_bytes(&failure.data));
}

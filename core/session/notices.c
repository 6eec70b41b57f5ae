/* SPDX-License-Identifier: Apache-2.0 */
/* What the next result has to say of a session's state: what happened, what it went on with, and what is not there any
 * more. Names, types and reasons of values are the guest's words: shortened, and few of them. */
#include "session/state.h"

#include <time.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/utf8.h"

#define NOTICE_MAX 8192u
#define MISSING_SHOWN 20u
#define WORD_MAX 100u /* bytes of a name, a type, a reason */

/* A guest's word within a line of ours. */
static int add_word(struct sbx_buffer *text, const char *word) {
        size_t length = sbx_utf8_cut((struct sbx_bytes){word, strlen(word)}, WORD_MAX);
        int r = 0;

        for (size_t i = 0; r == 0 && i < length; i++) {
                unsigned char byte = (unsigned char)word[i];

                r = sbx_buffer_append(text, byte < ' ' || byte == 0x7f ? " " : &word[i], 1);
        }
        return r == 0 && word[length] != '\0' ? sbx_buffer_append_text(text, "...") : r;
}

static const char *member(const json_t *entry, const char *key) {
        const char *text = json_string_value(json_object_get(entry, key));

        return text != NULL ? text : "?";
}

static int add_missing(struct sbx_buffer *text, const json_t *missing) {
        size_t count = json_array_size(missing);
        int r = count > 0 ? sbx_buffer_append_text(text, " Not there any more: ") : 0;

        for (size_t i = 0; r == 0 && i < count && i < MISSING_SHOWN; i++) {
                const json_t *entry = json_array_get(missing, i);

                r = i > 0 ? sbx_buffer_append_text(text, ", ") : 0;
                if (r == 0)
                        r = add_word(text, member(entry, "name"));
                if (r == 0)
                        r = sbx_buffer_append_text(text, " (");
                if (r == 0)
                        r = add_word(text, member(entry, "type"));
                if (r == 0)
                        r = sbx_buffer_append_text(text, ": ");
                if (r == 0)
                        r = add_word(text, member(entry, "reason"));
                if (r == 0)
                        r = sbx_buffer_append_text(text, ")");
        }
        if (r == 0 && count > MISSING_SHOWN)
                r = sbx_buffer_printf(text, " and %zu more", count - MISSING_SHOWN);
        return r == 0 && count > 0 ? sbx_buffer_append_text(text, ".") : r;
}

static void format_time(int64_t ms, char *ret_text, size_t size) {
        time_t seconds = (time_t)(ms / 1000);
        struct tm parts = {0};

        if (gmtime_r(&seconds, &parts) == NULL || strftime(ret_text, size, "%Y-%m-%d %H:%M:%S UTC", &parts) == 0)
                snprintf(ret_text, size, "an unknown time");
}

static int compose(const struct sbx_session *session, const struct sbx_notice *notice, struct sbx_buffer *text,
                   const char **ret_kind) {
        const struct sbx_checkpoint *from = notice->from;
        unsigned long long executions = from != NULL ? (unsigned long long)from->executions : 0;
        char when[40] = "";
        int r;

        if (from == NULL) {
                *ret_kind = "restarted";
                r = sbx_buffer_printf(text, "Session '%s' was restarted: %s. All its variables are gone.", session->id,
                                      notice->reason != NULL ? notice->reason : "what is stored of it can't be used");
        } else if (notice->reason != NULL) {
                *ret_kind = "rolled_back";
                r = sbx_buffer_printf(text,
                                      "Session '%s' was rolled back to its checkpoint %s (%s), the state after its "
                                      "execution %llu: %s. What ran since then is undone.",
                                      session->id, from->id, sbx_mechanism_name(notice->mechanism), executions,
                                      notice->reason);
        } else {
                *ret_kind = "resumed";
                format_time(from->created_ms, when, sizeof(when));
                r = sbx_buffer_printf(text,
                                      "Session '%s' goes on from its checkpoint %s (%s) of %s, the state after its "
                                      "execution %llu.",
                                      session->id, from->id, sbx_mechanism_name(notice->mechanism), when, executions);
        }
        if (r == 0 && notice->failures != NULL)
                r = sbx_buffer_printf(text, " %s", notice->failures);
        return r == 0 ? add_missing(text, notice->missing) : r;
}

void sbx_notice_set(struct sbx_session *session, const struct sbx_notice *notice) {
        _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(NOTICE_MAX);
        const char *kind = NULL;

        if (compose(session, notice, &text, &kind) < 0)
                return;
        sbx_notice_clear(session);
        session->notice = sbx_buffer_steal(&text);
        session->notice_kind = kind;
}

void sbx_notice_clear(struct sbx_session *session) {
        free(steal_pointer(session->notice));
        session->notice_kind = NULL;
}

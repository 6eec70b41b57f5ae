/* SPDX-License-Identifier: Apache-2.0 */
/* One line of a journal: compact JSON whose first member is the SHA-256 of the rest, so that a damaged byte is found
 * before its line is believed. The sum is no signature: who can write the file can write another sum. */
#include "agent/journal_line.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "trajectory/trajectory.h"

#define HEAD "{\"sha256\":\""
#define HEAD_SIZE (sizeof(HEAD) - 1)
#define SUM_SIZE (SBX_SHA256_TEXT_SIZE - 1)
#define REST_AT (HEAD_SIZE + SUM_SIZE + 2) /* after the quote and the comma */

/* sbx_json_parse has its maxima; what goes beyond them could be written, and never be read again. Counts as it does:
 * four for a container, one for any value. */
static bool can_be_read(const json_t *value, unsigned depth, size_t *left) {
        size_t cost = json_is_object(value) || json_is_array(value) ? 5 : 1, i;
        const char *key;
        json_t *member;

        if (depth > SBX_JSON_DEPTH_MAX || *left < cost)
                return false;
        *left -= cost;
        if (json_is_object(value))
                json_object_foreach ((json_t *)value, key, member)
                        if (!can_be_read(member, depth + 1, left))
                                return false;
        if (json_is_array(value))
                json_array_foreach (value, i, member)
                        if (!can_be_read(member, depth + 1, left))
                                return false;
        return true;
}

int sbx_journal_line_encode(const json_t *members, struct sbx_buffer *out, struct sbx_error *err) {
        static const char place[SUM_SIZE] = {0};
        char sum[SBX_SHA256_TEXT_SIZE];
        size_t left = SBX_JSON_VALUES_MAX, begin = out->size;
        char *line;
        int r;

        if (!can_be_read(members, 1, &left))
                return sbx_error_set(err, -EINVAL, SBX_JOURNAL_ORIGIN, NULL,
                                     "a record has too many values, or is nested too deep, for the journal");
        r = sbx_buffer_append_text(out, HEAD);
        if (r == 0)
                r = sbx_buffer_append(out, place, sizeof(place));
        if (r == 0)
                r = sbx_buffer_append_text(out, "\""); /* and the brace of the members becomes the comma */
        if (r == 0)
                r = sbx_json_encode(members, out);
        if (r < 0)
                return sbx_error_set(err, r, SBX_JOURNAL_ORIGIN, NULL, "a record does not fit into the journal: %s",
                                     SBX_ERRNO_TEXT(r));
        line = out->data + begin;
        line[REST_AT - 1] = ',';
        sbx_sha256_text((struct sbx_bytes){line + REST_AT, out->size - begin - REST_AT}, sum);
        memcpy(line + HEAD_SIZE, sum, SUM_SIZE);
        r = sbx_buffer_append_text(out, "\n");
        return r < 0 ? sbx_error_set(err, r, SBX_JOURNAL_ORIGIN, NULL, "a record does not fit into the journal: %s",
                                     SBX_ERRNO_TEXT(r))
                     : 0;
}

static bool sum_is_right(struct sbx_bytes line) {
        const char *bytes = line.data;
        char sum[SBX_SHA256_TEXT_SIZE];

        if (line.size <= REST_AT || memcmp(bytes, HEAD, HEAD_SIZE) != 0 || bytes[REST_AT - 2] != '"' ||
            bytes[REST_AT - 1] != ',')
                return false;
        sbx_sha256_text((struct sbx_bytes){bytes + REST_AT, line.size - REST_AT}, sum);
        return memcmp(bytes + HEAD_SIZE, sum, SUM_SIZE) == 0;
}

int sbx_journal_line_decode(struct sbx_bytes line, size_t number, json_t **ret_members, struct sbx_error *err) {
        _cleanup_json_ json_t *members = NULL;
        struct sbx_error problem = {0};
        int r;

        if (!sum_is_right(line))
                return sbx_error_set(err, -EBADMSG, SBX_JOURNAL_ORIGIN,
                                     "The file was changed, or its disk lost something. Lines from there on can be cut "
                                     "off by hand: what they tell of is then done again.",
                                     "the journal is damaged at line %zu", number);
        r = sbx_json_parse(line, SBX_JOURNAL_LINE_MAX_BYTES, "journal", &members, &problem);
        if (r == -ENOMEM)
                return SBX_NOMEM(err, SBX_JOURNAL_ORIGIN);
        if (r < 0 || !json_is_object(members))
                return sbx_error_set(err, -EBADMSG, SBX_JOURNAL_ORIGIN, NULL,
                                     "line %zu of the journal can't be read: %s", number, problem.message);
        *ret_members = steal_pointer(members);
        return 0;
}

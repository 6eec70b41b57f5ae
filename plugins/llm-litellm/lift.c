/* SPDX-License-Identifier: Apache-2.0 */
/* Finds members of a JSON object without building it. What is inside of them is the API's to check. */
#include "lift.h"

static const char *const names[LLM_LIFTED_COUNT] = {"\"messages\"", "\"tools\""};

static const char *skip_blanks(const char *p, const char *end) {
        while (p < end && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r'))
                p++;
        return p;
}

/* Past the string that begins at `p`; NULL: it has no end. */
static const char *skip_string(const char *p, const char *end) {
        for (p++; p < end; p++) {
                if (*p == '"')
                        return p + 1;
                if (*p == '\\')
                        p++;
        }
        return NULL;
}

/* Past the array or object that begins at `p`. */
static const char *skip_container(const char *p, const char *end) {
        unsigned depth = 0;

        while (p != NULL && p < end) {
                char c = *p;

                if (c == '"') {
                        p = skip_string(p, end);
                        continue;
                }
                p++;
                if (c == '[' || c == '{')
                        depth++;
                else if ((c == ']' || c == '}') && --depth == 0)
                        return p;
        }
        return NULL;
}

static const char *skip_value(const char *p, const char *end) {
        if (p == end)
                return NULL;
        if (*p == '"')
                return skip_string(p, end);
        if (*p == '[' || *p == '{')
                return skip_container(p, end);
        while (p < end && *p != ',' && *p != '}')
                p++;
        return p;
}

/* One member of an object. */
struct member {
        const char *name, *value;
        size_t name_size, value_size;
};

/* The next member at *p, which is then behind it and its comma. 1: one; 0: the object has ended; -1: no such form. */
static int next_member(const char **p, const char *end, struct member *ret) {
        const char *at = skip_blanks(*p, end), *behind;

        if (at < end && *at == '}')
                return 0;
        if (at == end || *at != '"')
                return -1;
        behind = skip_string(at, end);
        if (behind == NULL)
                return -1;
        *ret = (struct member){.name = at, .name_size = (size_t)(behind - at)};
        at = skip_blanks(behind, end);
        if (at == end || *at != ':')
                return -1;
        at = skip_blanks(at + 1, end);
        behind = skip_value(at, end);
        if (behind == NULL)
                return -1;
        ret->value = at;
        ret->value_size = (size_t)(behind - at);
        at = skip_blanks(behind, end);
        if (at == end || (*at != ',' && *at != '}'))
                return -1;
        *p = *at == ',' ? at + 1 : at;
        return 1;
}

static size_t index_of(const struct member *member) {
        size_t i = 0;

        while (i < LLM_LIFTED_COUNT &&
               (strlen(names[i]) != member->name_size || memcmp(names[i], member->name, member->name_size) != 0))
                i++;
        return i;
}

static bool is_array(const struct member *member) {
        return member->value_size > 0 && member->value[0] == '[';
}

static const char *begin_of(struct sbx_bytes object) {
        const char *begin = object.data, *end = begin + object.size, *at = skip_blanks(begin, end);

        return at < end && *at == '{' ? at + 1 : NULL;
}

bool llm_lift_out(struct sbx_bytes request, struct llm_lifted *ret_lifted, struct llm_text *shell) {
        const char *copied = request.data, *end = copied + request.size, *p = begin_of(request);
        struct llm_lifted lifted = {0};
        struct member member;
        int r = p != NULL ? 1 : -1;

        while (r == 1 && (r = next_member(&p, end, &member)) == 1) {
                size_t index = index_of(&member);

                if (index == LLM_LIFTED_COUNT || !is_array(&member))
                        continue;
                if (lifted.values[index].size > 0) /* twice: whoever parses the request will refuse it */
                        return false;
                lifted.values[index] = (struct sbx_bytes){member.value, member.value_size};
                llm_text_append(shell, copied, (size_t)(member.value - copied));
                llm_text_literal(shell, "[]");
                copied = member.value + member.value_size;
        }
        if (r < 0 || llm_text_append(shell, copied, (size_t)(end - copied)) < 0)
                return false;
        *ret_lifted = lifted;
        return true;
}

bool llm_lift_in(struct sbx_bytes body, const struct llm_lifted *lifted, struct llm_text *whole) {
        const char *copied = body.data, *end = copied + body.size, *p = begin_of(body);
        struct member member;
        int r = p != NULL ? 1 : -1;

        while (r == 1 && (r = next_member(&p, end, &member)) == 1) {
                size_t index = index_of(&member);

                if (index == LLM_LIFTED_COUNT || lifted->values[index].size == 0)
                        continue;
                llm_text_append(whole, copied, (size_t)(member.value - copied));
                llm_text_append(whole, lifted->values[index].data, lifted->values[index].size);
                copied = member.value + member.value_size;
        }
        return r == 0 && llm_text_append(whole, copied, (size_t)(end - copied)) == 0;
}

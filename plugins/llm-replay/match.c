/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to recorded calls. What a conversation has seen so far tells where in the recording it stands; only where
 * that leaves several calls with one prompt (sub-calls that ask the same) it counts which were given already. */
#include "match.h"

#include <pthread.h>
#include <string.h>

#include "util.h"

#define SHOWN_MAX 80u               /* bytes of a prompt in an error */
#define SHOWN_SIZE (SHOWN_MAX + 8u) /* with an ellipsis on both sides, and the NUL */

struct replay_matcher {
        const struct replay_recording *recording;
        bool strict;
        pthread_mutex_t lock; /* protects what follows */
        unsigned *given;      /* how often each entry was an answer */
        size_t position;      /* not strict: the next entry */
};

int replay_matcher_new(const struct replay_recording *recording, bool strict, struct replay_matcher **ret_matcher) {
        struct replay_matcher *matcher = calloc(1, sizeof(*matcher));

        if (matcher == NULL)
                return -ENOMEM;
        matcher->recording = recording;
        matcher->strict = strict;
        matcher->given = calloc(recording->count, sizeof(unsigned));
        if (matcher->given == NULL) {
                free(matcher);
                return -ENOMEM;
        }
        pthread_mutex_init(&matcher->lock, NULL);
        *ret_matcher = matcher;
        return 0;
}

void replay_matcher_free(struct replay_matcher *matcher) {
        if (matcher == NULL)
                return;
        pthread_mutex_destroy(&matcher->lock);
        free(matcher->given);
        free(matcher);
}

/* ---- messages ---- */

/* As 2.2.7 made the prompt of an event of them. */
static json_t *join_blocks(const json_t *blocks) {
        json_t *text = json_string("");
        const json_t *block;
        size_t i;
        bool first = true;

        json_array_foreach (blocks, i, block) {
                const json_t *part = json_object_get(block, "text");
                const char *type = json_string_value(json_object_get(block, "type"));
                json_t *joined;

                if (text == NULL || !json_is_string(part) || type == NULL || strcmp(type, "text") != 0)
                        continue;
                joined = json_sprintf("%s%s%s", json_string_value(text), first ? "" : " ", json_string_value(part));
                json_decref(text);
                text = joined;
                first = false;
        }
        return text;
}

json_t *replay_message_text(const json_t *message) {
        json_t *content = json_object_get(message, "content");

        if (json_is_string(content))
                return json_incref(content);
        return json_is_array(content) ? join_blocks(content) : json_string("");
}

static bool has_role(const json_t *message, const char *role) {
        const char *found = json_string_value(json_object_get(message, "role"));

        return found != NULL && strcmp(found, role) == 0;
}

/* The last answer in the conversation; REPLAY_NONE: it has only begun. */
static size_t last_answer(const json_t *messages) {
        for (size_t i = json_array_size(messages); i-- > 0;)
                if (has_role(json_array_get(messages, i), "assistant"))
                        return i;
        return REPLAY_NONE;
}

static bool same_text(const json_t *a, const json_t *b) {
        return json_string_length(a) == json_string_length(b) &&
               (json_string_length(a) == 0 ||
                memcmp(json_string_value(a), json_string_value(b), json_string_length(a)) == 0);
}

/* Whether the message is the answer of the entry: the same words, and the same calls by their ids. */
static bool is_answer_of(const json_t *message, const struct replay_entry *entry) {
        const json_t *calls = json_object_get(message, "tool_calls"), *call;
        _cleanup_json_ json_t *text = replay_message_text(message);
        size_t i;

        if (!same_text(text, entry->content) || json_array_size(calls) != json_array_size(entry->calls))
                return false;
        json_array_foreach (calls, i, call) {
                if (!same_text(json_object_get(call, "id"), json_object_get(json_array_get(entry->calls, i), "id")))
                        return false;
        }
        return true;
}

/* ---- strict ---- */

/* The better of two entries: given less often, then recorded earlier. */
static void consider_locked(const struct replay_matcher *matcher, size_t candidate, size_t *best) {
        if (matcher->recording->entries[candidate].superseded)
                return;
        if (*best == REPLAY_NONE || matcher->given[candidate] < matcher->given[*best] ||
            (matcher->given[candidate] == matcher->given[*best] && candidate < *best))
                *best = candidate;
}

/* The turn after the one whose answer stands in the conversation. `ret_expected` is one with another prompt, if that is
 * what the recording has there. */
static size_t find_next_turn_locked(const struct replay_matcher *matcher, const json_t *messages, const json_t *prompt,
                                    size_t *ret_expected) {
        const struct replay_recording *recording = matcher->recording;
        size_t answer = last_answer(messages), begin, end, best = REPLAY_NONE;
        _cleanup_json_ json_t *asked = NULL;

        if (answer == REPLAY_NONE || answer == 0)
                return REPLAY_NONE;
        asked = replay_message_text(json_array_get(messages, answer - 1));
        if (asked == NULL)
                return REPLAY_NONE;
        replay_recording_find(recording, asked, &begin, &end);
        for (size_t i = begin; i < end; i++) {
                const struct replay_entry *entry = &recording->entries[recording->by_prompt[i]];

                if (entry->successor == REPLAY_NONE || !is_answer_of(json_array_get(messages, answer), entry))
                        continue;
                if (same_text(recording->entries[entry->successor].prompt, prompt))
                        consider_locked(matcher, entry->successor, &best);
                else
                        *ret_expected = entry->successor;
        }
        return best;
}

static size_t find_strict_locked(const struct replay_matcher *matcher, const json_t *messages, const json_t *prompt,
                                 size_t *ret_expected) {
        const struct replay_recording *recording = matcher->recording;
        size_t best = find_next_turn_locked(matcher, messages, prompt, ret_expected), begin, end;

        if (best != REPLAY_NONE)
                return best;
        replay_recording_find(recording, prompt, &begin, &end);
        for (size_t i = begin; i < end; i++)
                consider_locked(matcher, recording->by_prompt[i], &best);
        return best;
}

/* ---- in order ---- */

static size_t find_next_locked(struct replay_matcher *matcher) {
        while (matcher->position < matcher->recording->count &&
               matcher->recording->entries[matcher->position].superseded)
                matcher->position++;
        return matcher->position < matcher->recording->count ? matcher->position++ : REPLAY_NONE;
}

/* A conversation that begins as the recorded run did is a new run: all is as if nothing had been given. Not when other
 * calls have that prompt too, for then nobody can tell. */
static void begin_run_locked(struct replay_matcher *matcher, const json_t *messages, const json_t *prompt) {
        if (last_answer(messages) != REPLAY_NONE || !matcher->recording->first_is_unique ||
            !same_text(prompt, matcher->recording->entries[0].prompt))
                return;
        memset(matcher->given, 0, matcher->recording->count * sizeof(matcher->given[0]));
        matcher->position = 0;
}

/* ---- what is not there ---- */

/* A piece of a prompt from `from` on, on one line. */
static void shorten(const json_t *prompt, size_t from, char out[SHOWN_SIZE]) {
        const char *text = json_string_value(prompt) + from;
        size_t size = json_string_length(prompt) - from, length = 0, written;

        while (length < size && length < SHOWN_MAX)
                length++;
        while (length < size && length > 0 && ((unsigned char)text[length] & 0xC0) == 0x80)
                length--;
        written = (size_t)snprintf(out, SHOWN_SIZE, "%s", from > 0 ? "..." : "");
        for (size_t i = 0; i < length; i++)
                out[written++] = (unsigned char)text[i] < 0x20 || text[i] == 0x7F ? ' ' : text[i];
        snprintf(out + written, SHOWN_SIZE - written, "%s", length < size ? "..." : "");
}

/* Where to begin, so that what is shown of two prompts is not the same: at a character's begin. */
static size_t difference(const json_t *a, const json_t *b) {
        size_t left = json_string_length(a), right = json_string_length(b), at = 0;
        const char *text = json_string_value(a), *other = json_string_value(b);

        while (at < left && at < right && text[at] == other[at])
                at++;
        if (at < SHOWN_MAX / 2)
                return 0;
        at -= SHOWN_MAX / 4;
        while (at > 0 && ((unsigned char)text[at] & 0xC0) == 0x80)
                at--;
        return at;
}

static size_t first_not_given_locked(const struct replay_matcher *matcher) {
        for (size_t i = 0; i < matcher->recording->count; i++)
                if (matcher->given[i] == 0 && !matcher->recording->entries[i].superseded)
                        return i;
        return REPLAY_NONE;
}

/* `expected`: what the recording has in this place; REPLAY_NONE: that is not known. */
static int not_found_locked(const struct replay_matcher *matcher, const json_t *prompt, size_t expected,
                            struct sbx_error *err) {
        const struct replay_recording *recording = matcher->recording;
        size_t next = expected != REPLAY_NONE ? expected : first_not_given_locked(matcher), from;
        char asked[SHOWN_SIZE], there[SHOWN_SIZE];

        if (next == REPLAY_NONE) {
                shorten(prompt, 0, asked);
                return sbx_error_set(err, -ENOENT, REPLAY_ORIGIN,
                                     "Record the run anew, or give it the prompt that was recorded.",
                                     "the recording %s has no answer to \"%s\": all its %zu answers were given",
                                     recording->path, asked, recording->count);
        }
        from = difference(prompt, recording->entries[next].prompt);
        shorten(prompt, from, asked);
        shorten(recording->entries[next].prompt, from, there);
        return sbx_error_set(err, -ENOENT, REPLAY_ORIGIN,
                             "Give the run the prompt, files and tools that it was recorded with, or set match = "
                             "\"order\" to answer whatever is asked.",
                             "the recording %s has no answer to \"%s\"; next it has \"%s\" (line %llu)",
                             recording->path, asked, there, (unsigned long long)recording->entries[next].line);
}

/* ---- the whole ---- */

int replay_match(struct replay_matcher *matcher, const json_t *request, const struct replay_entry **ret_entry,
                 struct sbx_error *err) {
        const json_t *messages = json_object_get(request, "messages");
        _cleanup_json_ json_t *prompt = NULL;
        size_t found, expected = REPLAY_NONE;
        int r = 0;

        if (json_array_size(messages) == 0)
                return sbx_error_set(err, -EINVAL, REPLAY_ORIGIN, NULL, "the request has no messages");
        prompt = replay_message_text(json_array_get(messages, json_array_size(messages) - 1));
        if (prompt == NULL)
                return sbx_error_set(err, -ENOMEM, REPLAY_ORIGIN, NULL, "no memory for the request's prompt");
        pthread_mutex_lock(&matcher->lock);
        begin_run_locked(matcher, messages, prompt);
        found = matcher->strict ? find_strict_locked(matcher, messages, prompt, &expected) : find_next_locked(matcher);
        if (found != REPLAY_NONE) {
                matcher->given[found]++;
                *ret_entry = &matcher->recording->entries[found];
        } else {
                r = not_found_locked(matcher, prompt, expected, err);
        }
        pthread_mutex_unlock(&matcher->lock);
        return r;
}

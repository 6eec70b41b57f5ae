/* SPDX-License-Identifier: Apache-2.0 */
/* Events into lines. */
#include "record.h"

#include "chain.h"

/* What every line of 2.2.7 has beside ids and timestamp; its reader stops at a line without the first two. */
static const struct {
        const char *name, *otherwise;
} call_members[] = {
        {"depth", "0"},         {"prompt", "\"\""},     {"parent_call_id", "null"}, {"response", "null"},
        {"tool_calls", "[]"},   {"tool_results", "[]"}, {"repl_results", "[]"},     {"input_tokens", "0"},
        {"output_tokens", "0"}, {"duration_ms", "0"},   {"error", "null"},          {"estimated_cost_usd", "null"},
};

static const char *const own_members[] = {"_type", "line", "prev", "sum"};

bool jsonl_id_valid(const char *id) {
        static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-";
        size_t size = strlen(id);

        return size > 0 && size <= JSONL_ID_MAX && strspn(id, letters) == size;
}

/* A member that is text without NUL; NULL: it is not there, or something else. */
static const char *text_member(const json_t *object, const char *key) {
        const json_t *value = json_object_get(object, key);
        const char *text = json_string_value(value);

        return text != NULL && strlen(text) == json_string_length(value) ? text : NULL;
}

static enum jsonl_kind kind_of(const json_t *object) {
        const char *event = text_member(object, "event");

        if (text_member(object, "call_id") != NULL)
                return JSONL_CALL;
        if (event != NULL && strcmp(event, "run_started") == 0)
                return JSONL_STARTED;
        return event != NULL && strcmp(event, "run_ended") == 0 ? JSONL_ENDED : JSONL_OTHER;
}

static bool is_blank(char c) {
        return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static struct sbx_bytes trim(struct sbx_bytes text) {
        const char *data = text.data;

        while (text.size > 0 && is_blank(data[text.size - 1]))
                text.size--;
        for (; text.size > 0 && is_blank(data[0]); text.size--)
                data++;
        return (struct sbx_bytes){data, text.size};
}

/* The text between the braces. An event over several lines becomes one: a newline in JSON is never part of a string. */
static int find_body(struct sbx_bytes json, struct jsonl_record *record, struct sbx_error *err) {
        struct sbx_bytes text = trim(json);

        if (memchr(text.data, '\n', text.size) != NULL || memchr(text.data, '\r', text.size) != NULL) {
                record->text = malloc(text.size);
                if (record->text == NULL)
                        return jsonl_no_memory(err);
                memcpy(record->text, text.data, text.size);
                for (size_t i = 0; i < text.size; i++)
                        if (record->text[i] == '\n' || record->text[i] == '\r')
                                record->text[i] = ' ';
                text.data = record->text;
        }
        record->body = (struct sbx_bytes){(const char *)text.data + 1, text.size - 2};
        return 0;
}

int jsonl_record_read(struct sbx_bytes json, struct jsonl_record *ret_record, struct sbx_error *err) {
        _cleanup_record_ struct jsonl_record record = JSONL_RECORD;
        json_error_t problem = {.text = ""}; /* jansson leaves its code alone when memory ran out */
        int r;

        record.object = json_loadb(json.data, json.size, JSON_ALLOW_NUL, &problem);
        if (record.object == NULL && jsonl_parse_ran_out(&problem))
                return jsonl_no_memory(err);
        if (!json_is_object(record.object))
                return sbx_error_set(err, -EINVAL, JSONL_ORIGIN, NULL, "an event of %zu bytes is no JSON object: %s",
                                     json.size, record.object != NULL ? "it is of another type" : problem.text);
        record.trajectory_id = text_member(record.object, "trajectory_id");
        if (record.trajectory_id == NULL || !jsonl_id_valid(record.trajectory_id))
                return sbx_error_set(err, -EINVAL, JSONL_ORIGIN, NULL,
                                     "an event's trajectory_id is not 1 to %u of A-Z, a-z, 0-9 and -", JSONL_ID_MAX);
        for (size_t i = 0; i < sizeof(own_members) / sizeof(own_members[0]); i++)
                if (json_object_get(record.object, own_members[i]) != NULL)
                        return sbx_error_set(err, -EINVAL, JSONL_ORIGIN, NULL,
                                             "an event of %s has a member \"%s\", which is this sink's own",
                                             record.trajectory_id, own_members[i]);
        record.kind = kind_of(record.object);
        record.call_id = text_member(record.object, "call_id");
        record.timestamp = text_member(record.object, "timestamp");
        r = find_body(json, &record, err);
        if (r < 0)
                return r;
        *ret_record = record;
        record = (struct jsonl_record)JSONL_RECORD;
        return 0;
}

void jsonl_record_clear(struct jsonl_record *record) {
        json_decref(record->object);
        free(record->text);
        *record = (struct jsonl_record)JSONL_RECORD;
}

int jsonl_record_note(const struct jsonl_record *cause, const char *event, uint64_t count,
                      struct jsonl_record *ret_record, struct sbx_error *err) {
        const char *timestamp = cause->timestamp != NULL ? cause->timestamp : "";
        char text[256], at[64] = "", number[64] = "";
        int r;

        /* What is no timestamp is not worth escaping. */
        if (timestamp[0] != '\0' && strspn(timestamp, "0123456789-:.+TZ") == strlen(timestamp) &&
            strlen(timestamp) < 40)
                snprintf(at, sizeof(at), ",\"timestamp\":\"%s\"", timestamp);
        if (count > 0)
                snprintf(number, sizeof(number), ",\"count\":%llu", (unsigned long long)count);
        snprintf(text, sizeof(text), "{\"trajectory_id\":\"%.64s\",\"event\":\"%.32s\"%s%s}", cause->trajectory_id,
                 event, at, number);
        r = jsonl_record_read((struct sbx_bytes){text, strlen(text)}, ret_record, err);
        if (r < 0)
                return r;
        ret_record->text = strdup(text);
        if (ret_record->text == NULL) {
                jsonl_record_clear(ret_record);
                return jsonl_no_memory(err);
        }
        ret_record->body = (struct sbx_bytes){ret_record->text + 1, strlen(ret_record->text) - 2};
        return 0;
}

/* ---- the line ---- */

static void add_missing(FILE *out, const json_t *object, const char *name, const char *value) {
        if (json_object_get(object, name) == NULL)
                fprintf(out, ",\"%s\":%s", name, value);
}

static void add_number(FILE *out, const json_t *object, const char *name, json_int_t value) {
        if (json_object_get(object, name) == NULL)
                fprintf(out, ",\"%s\":%" JSON_INTEGER_FORMAT, name, value);
}

/* Totals, under 2.2.7's names: in the last line, and in the first, where 2.2.7 looks for them. */
static void add_totals(FILE *out, const struct jsonl_record *record, uint64_t event_count) {
        bool ended = record->kind == JSONL_ENDED;
        double duration_ms = ended ? json_number_value(json_object_get(record->object, "duration_ms")) : 0;

        add_number(out, record->object, "event_count", ended ? (json_int_t)event_count : 0);
        add_number(out, record->object, "total_tokens", 0);
        add_number(out, record->object, "total_duration_ms",
                   duration_ms > 0 && duration_ms < 1e15 ? (json_int_t)duration_ms : 0);
}

static void write_body(FILE *out, const struct jsonl_record *record, const struct jsonl_place *place) {
        fputs(record->kind != JSONL_CALL ? "{\"_type\":\"trajectory_metadata\"," : "{", out);
        fwrite(record->body.data, 1, record->body.size, out);
        if (record->kind == JSONL_CALL)
                for (size_t i = 0; i < sizeof(call_members) / sizeof(call_members[0]); i++)
                        add_missing(out, record->object, call_members[i].name, call_members[i].otherwise);
        if (record->kind == JSONL_ENDED || place->line == 1)
                add_totals(out, record, place->event_count);
        fprintf(out, ",\"line\":%llu,\"prev\":\"%s\"", (unsigned long long)place->line, place->prev);
}

/* Behind all others stands the hash of the line itself, up to there: so the last line, which no other one tells of, has
 * one too, and a line that was changed is told from one that was removed. */
static int write_line(FILE *out, const struct jsonl_record *record, const struct jsonl_place *place, char **line,
                      const size_t *size) {
        char sum[JSONL_HASH_SIZE];

        write_body(out, record, place);
        if (fflush(out) != 0)
                return -ENOMEM;
        jsonl_hash_line((struct sbx_bytes){*line, *size}, sum);
        fprintf(out, ",\"sum\":\"%s\"}\n", sum);
        return ferror(out) != 0 ? -ENOMEM : 0;
}

int jsonl_record_line(const struct jsonl_record *record, const struct jsonl_place *place, char **ret_line,
                      size_t *ret_size, struct sbx_error *err) {
        _cleanup_free_ char *line = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&line, &size);
        int r = out != NULL ? write_line(out, record, place, &line, &size) : -ENOMEM;

        if (out != NULL && fclose(out) != 0)
                r = -ENOMEM;
        if (r < 0)
                return jsonl_no_memory(err);
        *ret_line = steal_pointer(line);
        *ret_size = size;
        return 0;
}

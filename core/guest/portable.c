/* SPDX-License-Identifier: Apache-2.0 */
/* Portable states: a worker tells what its session holds, in parts that the host keeps and never reads, and takes them
 * up in a new guest. What the worker says about a state is read as anything else that a guest says: bounded, or
 * refused. */
#include "guest/process.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"

#define FRAME_JSON_MAX ((size_t)64 << 10)
#define PIECE_MAX ((size_t)16 << 20) /* of a part, in one frame to the guest */
#define ALIGNMENT 16
#define JSON_MAX 80 /* a number, a word, and what fills it up */
#define HEAD_MAX ((size_t)4 << 10)
#define PATIENCE_NS (500 * SBX_NS_PER_MS) /* beyond `max_ms`, for the worker to say itself that it takes too long */
#define NAMES_MAX 200
#define TEXT_MAX ((size_t)1024)  /* bytes of a name, a type, a reason */
#define DIGEST_MAX ((size_t)128) /* characters */

bool sbx_guest_portable(const struct sbx_guest_process *guest) {
        const json_t *features = json_object_get(guest->info, "features"), *feature;
        size_t i;

        json_array_foreach (features, i, feature)
                if (json_is_string(feature) && strcmp(json_string_value(feature), "states") == 0)
                        return true;
        return false;
}

static int refuse(const struct sbx_guest_process *guest, struct sbx_error *err) {
        return sbx_error_set(err, -ENOTSUP, SBX_GUEST_ORIGIN, NULL,
                             "the %s worker of backend '%s' can't tell what a session holds",
                             json_string_value(json_object_get(guest->info, "runtime")), guest->backend->name);
}

/* ---- what the guest tells of a state ---- */

/* A copy of a text, cut at a character. NULL: no memory. */
static json_t *bounded_text(const json_t *value) {
        struct sbx_bytes text = {json_string_value(value), json_string_length(value)};

        if (text.size > TEXT_MAX) {
                for (text.size = TEXT_MAX; text.size > 0; text.size--)
                        if ((((const unsigned char *)text.data)[text.size] & 0xc0) != 0x80)
                                break;
        }
        return sbx_json_text(text);
}

static int protocol_error(struct sbx_error *err, const char *what) {
        return sbx_error_set(err, -EPROTO, SBX_GUEST_ORIGIN, NULL, "%s", what);
}

/* [{"name", "type", "reason"}], the first ones. */
static int copy_problems(const json_t *answer, const char *key, json_t *out, struct sbx_error *err) {
        static const char *const members[] = {"name", "type", "reason"};
        const json_t *list = json_object_get(answer, key), *item;
        json_t *copies = json_array();
        size_t i;

        if (copies == NULL || json_object_set_new(out, key, copies) < 0)
                return SBX_NOMEM(err, SBX_GUEST_ORIGIN);
        if (list != NULL && !json_is_array(list))
                return protocol_error(err, "a state's account has no list of what it lacks");
        json_array_foreach (list, i, item) {
                json_t *copy;

                if (i == NAMES_MAX)
                        break;
                copy = json_object();
                if (copy == NULL || json_array_append_new(copies, copy) < 0)
                        return SBX_NOMEM(err, SBX_GUEST_ORIGIN);
                for (size_t member = 0; member < sizeof(members) / sizeof(members[0]); member++) {
                        const json_t *text = json_object_get(item, members[member]);

                        if (!json_is_string(text))
                                return protocol_error(err,
                                                      "a state's account of what it lacks has no name, type, reason");
                        if (json_object_set_new(copy, members[member], bounded_text(text)) < 0)
                                return SBX_NOMEM(err, SBX_GUEST_ORIGIN);
                }
        }
        return 0;
}

static int copy_names(const json_t *answer, json_t *out, struct sbx_error *err) {
        const json_t *list = json_object_get(answer, "names"), *name;
        json_t *copies = json_array();
        size_t i;

        if (copies == NULL || json_object_set_new(out, "names", copies) < 0)
                return SBX_NOMEM(err, SBX_GUEST_ORIGIN);
        json_array_foreach (list, i, name) /* at most 200 strings: sbx_guest_take_names has looked */
                if (json_array_append_new(copies, bounded_text(name)) < 0)
                        return SBX_NOMEM(err, SBX_GUEST_ORIGIN);
        return 0;
}

static int copy_count(const json_t *from, const char *key, json_t *out, struct sbx_error *err) {
        int64_t number = 0;

        if (from != NULL && sbx_json_get_int(from, "result", key, 0, 0, INT64_MAX, &number, err) < 0)
                return -EPROTO;
        return json_object_set_new(out, key, json_integer(number)) < 0 ? SBX_NOMEM(err, SBX_GUEST_ORIGIN) : 0;
}

static int copy_files(const json_t *answer, json_t *out, struct sbx_error *err) {
        const json_t *told = json_object_get(answer, "files");
        json_t *files = json_object();
        int r;

        if (files == NULL || json_object_set_new(out, "files", files) < 0)
                return SBX_NOMEM(err, SBX_GUEST_ORIGIN);
        if (told != NULL && !json_is_object(told))
                return protocol_error(err, "a state's account of its files is no object");
        r = copy_count(told, "count", files, err);
        return r < 0 ? r : copy_count(told, "bytes", files, err);
}

/* Its letters go into manifests and back to the guest. */
static int copy_digest(const json_t *answer, json_t *out, struct sbx_error *err) {
        const json_t *told = json_object_get(answer, "digest");
        const char *text = json_string_value(told);

        if (text == NULL || text[0] == '\0' || json_string_length(told) > DIGEST_MAX ||
            strspn(text, "0123456789abcdefghijklmnopqrstuvwxyz:-") != json_string_length(told))
                return protocol_error(err, "a state without a digest");
        return json_object_set_new(out, "digest", json_string(text)) < 0 ? SBX_NOMEM(err, SBX_GUEST_ORIGIN) : 0;
}

static int tell_saved(const json_t *answer, bool unchanged, json_t **ret_told, struct sbx_error *err) {
        _cleanup_json_ json_t *told = json_pack("{s:b}", "unchanged", unchanged);
        int r = told != NULL ? copy_count(answer, "variables", told, err) : SBX_NOMEM(err, SBX_GUEST_ORIGIN);

        if (r == 0)
                r = copy_names(answer, told, err);
        if (r == 0)
                r = copy_problems(answer, "unsaved", told, err);
        if (r == 0)
                r = copy_files(answer, told, err);
        if (r == 0)
                r = copy_digest(answer, told, err);
        if (r == 0)
                *ret_told = steal_pointer(told);
        return r;
}

static int tell_restored(const json_t *answer, json_t **ret_told, struct sbx_error *err) {
        _cleanup_json_ json_t *told = json_object();
        int r = told != NULL ? copy_count(answer, "variables", told, err) : SBX_NOMEM(err, SBX_GUEST_ORIGIN);

        if (r == 0)
                r = copy_names(answer, told, err);
        if (r == 0)
                r = copy_problems(answer, "missing", told, err);
        if (r == 0)
                *ret_told = steal_pointer(told);
        return r;
}

/* ---- saving ---- */

struct saving {
        const struct sbx_guest_portable *request;
        struct sbx_buffer part; /* the pieces that came of the one under way */
        uint64_t count, bytes;
        int code; /* why no more parts are wanted; 0: they are */
};

static int hand_over(struct saving *saving) {
        int r = saving->code == 0 ? saving->request->part(saving->request->data, &saving->part) : 0;

        if (r < 0)
                saving->code = r;
        sbx_buffer_clear(&saving->part);
        saving->part.max = (size_t)saving->request->max_bytes;
        saving->count++;
        return 0;
}

static int take_piece(void *data, const struct sbx_frame *frame, struct sbx_error *err) {
        struct saving *saving = data;
        _cleanup_json_ json_t *json = NULL;
        int64_t number = 0;
        bool last = false;
        int r = sbx_json_parse(frame->json, FRAME_JSON_MAX, "state", &json, err);

        if (r == 0)
                r = sbx_json_get_int(json, "state", "part", SBX_JSON_REQUIRED, (int64_t)saving->count,
                                     (int64_t)saving->count, &number, err);
        if (r == 0)
                r = sbx_json_get_bool(json, "state", "last", SBX_JSON_REQUIRED, &last, err);
        if (r < 0)
                return r == -ENOMEM ? r : -EPROTO;
        saving->bytes += frame->blob.size;
        if (saving->bytes > saving->request->max_bytes || saving->count >= SBX_GUEST_PARTS_MAX)
                return protocol_error(err, "a state of more bytes or parts than it was told that it may have");
        if (saving->code == 0 && sbx_buffer_append(&saving->part, frame->blob.data, frame->blob.size) < 0)
                saving->code = -ENOMEM;
        return last ? hand_over(saving) : 0;
}

/* What came of it, if the guest is still there. */
static int judge_saved(struct sbx_guest_process *guest, const struct saving *saving, const json_t *answer,
                       json_t **ret_told, struct sbx_error *err) {
        bool unchanged = json_is_true(json_object_get(answer, "unchanged"));
        const char *known = saving->request->known_digest,
                   *digest = json_string_value(json_object_get(answer, "digest"));
        int r;

        if (saving->code == -ENOMEM)
                return SBX_NOMEM(err, SBX_GUEST_ORIGIN);
        if (saving->code < 0)
                return sbx_error_set(err, saving->code, SBX_GUEST_ORIGIN, NULL, "the state could not be kept: %s",
                                     SBX_ERRNO_TEXT(saving->code));
        if (saving->part.size > 0 || unchanged != (saving->count == 0))
                r = protocol_error(err, "a state that ends in the middle of a part, or has none");
        else if (unchanged && (known == NULL || digest == NULL || strcmp(known, digest) != 0))
                r = protocol_error(err, "a state is told to be one that it is not");
        else
                r = tell_saved(answer, unchanged, ret_told, err);
        if (r == -EPROTO) {
                sbx_guest_kill(guest);
                sbx_error_wrap(err, "the guest broke the protocol and was killed");
        }
        return r;
}

int sbx_guest_save_portable(struct sbx_guest_process *guest, const struct sbx_guest_portable *request,
                            const struct sbx_call *call, json_t **ret_told, struct sbx_error *err) {
        _cleanup_json_ json_t *message = NULL, *answer = NULL;
        struct saving saving = {.request = request, .part = SBX_BUFFER((size_t)request->max_bytes)};
        struct sbx_guest_dialog dialog = {.data = &saving, .take = take_piece};
        uint64_t most = request->max_bytes < INT64_MAX ? request->max_bytes : INT64_MAX;
        uint64_t time = request->max_ms < INT32_MAX ? request->max_ms : INT32_MAX;
        int r;

        if (!sbx_guest_portable(guest))
                return refuse(guest, err);
        message = json_pack("{s:I, s:I, s:s?}", "max_bytes", (json_int_t)most, "max_ms", (json_int_t)time, "digest",
                            request->known_digest);
        if (message == NULL)
                return SBX_NOMEM(err, SBX_GUEST_ORIGIN);
        if (time > 0)
                dialog.deadline_ns = sbx_clock_deadline_ms(time) + PATIENCE_NS;
        r = sbx_guest_ask(guest, SBX_FRAME_SAVE, message, (struct sbx_bytes){0}, &dialog, call, &answer, NULL, err);
        if (r == 0)
                r = judge_saved(guest, &saving, answer, ret_told, err);
        sbx_buffer_free(&saving.part);
        return r;
}

/* ---- restoring ---- */

struct restoring {
        const struct sbx_bytes *parts;
        size_t count, part, offset;
        struct sbx_buffer head; /* of the frame that is on its way */
};

/* The JSON is as long as it takes for the piece to begin at a multiple of 16 in the frame, where the worker reads it
 * to: arrays use it there. */
static struct sbx_bytes describe_piece(char json[JSON_MAX], size_t part, bool last) {
        size_t before = SBX_FRAME_HEADER_SIZE + sizeof(uint32_t), size;

        size = (size_t)snprintf(json, JSON_MAX, "{\"part\":%zu,\"last\":%s", part, last ? "true" : "false");
        while ((before + size + 1) % ALIGNMENT != 0)
                json[size++] = ' ';
        json[size++] = '}';
        return (struct sbx_bytes){json, size};
}

static int give_piece(void *data, struct sbx_bytes *ret_head, struct sbx_bytes *ret_blob, struct sbx_error *err) {
        struct restoring *restoring = data;
        char json[JSON_MAX];
        struct sbx_bytes rest;
        size_t size;
        bool last;
        int r;

        if (restoring->part == restoring->count)
                return 0;
        rest = restoring->parts[restoring->part];
        size = rest.size - restoring->offset < PIECE_MAX ? rest.size - restoring->offset : PIECE_MAX;
        last = restoring->offset + size == rest.size;
        sbx_buffer_clear(&restoring->head);
        r = sbx_frame_encode_head(SBX_FRAME_GIVE_STATE, describe_piece(json, restoring->part, last), size,
                                  &restoring->head);
        if (r < 0)
                return SBX_NOMEM(err, SBX_GUEST_ORIGIN);
        *ret_head = sbx_buffer_bytes(&restoring->head);
        *ret_blob = (struct sbx_bytes){size > 0 ? (const char *)rest.data + restoring->offset : NULL, size};
        restoring->offset = last ? 0 : restoring->offset + size;
        restoring->part += last;
        return 1;
}

int sbx_guest_restore_portable(struct sbx_guest_process *guest, const struct sbx_bytes *parts, size_t count,
                               const struct sbx_call *call, json_t **ret_told, struct sbx_error *err) {
        _cleanup_json_ json_t *message = json_pack("{s:I}", "parts", (json_int_t)count), *answer = NULL;
        struct restoring restoring = {.parts = parts, .count = count, .head = SBX_BUFFER(HEAD_MAX)};
        struct sbx_guest_dialog dialog = {.data = &restoring, .give = give_piece};
        int r;

        if (!sbx_guest_portable(guest))
                return refuse(guest, err);
        if (message == NULL)
                return SBX_NOMEM(err, SBX_GUEST_ORIGIN);
        r = sbx_guest_ask(guest, SBX_FRAME_RESTORE, message, (struct sbx_bytes){0}, &dialog, call, &answer, NULL, err);
        if (r == 0)
                r = tell_restored(answer, ret_told, err);
        if (r == -EPROTO) /* unless the request found so, and has said it */
                sbx_guest_kill(guest);
        sbx_buffer_free(&restoring.head);
        return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that are not executions: one request, one result, output dropped. */
#include "guest/channel.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"

#define REQUEST_TIMEOUT_MS 60000 /* when the caller sets no deadline */
#define REQUEST_MAX ((size_t)20 << 20)
#define ANSWER_MAX ((size_t)4 << 20)
#define STALE_MAX 16
#define TYPE_SHOWN_MAX 200

struct answer {
        const struct sbx_guest_dialog *dialog; /* NULL: none */
        struct sbx_bytes head, request_blob;
        bool asked; /* head and blob are out, or on their way: nothing of the dialog comes after them */
        int64_t id;
        json_t *json;
        struct sbx_buffer *blob;
        unsigned stale;
};

static int take_answer(struct sbx_exchange *exchange, const struct sbx_frame *frame, struct sbx_error *err) {
        struct answer *answer = exchange->data;
        _cleanup_json_ json_t *json = NULL;
        int64_t id;
        int r;

        if (frame->type == SBX_FRAME_STATE && answer->dialog != NULL && answer->dialog->take != NULL)
                return answer->dialog->take(answer->dialog->data, frame, err);
        if (frame->type != SBX_FRAME_RESULT)
                return frame->type == SBX_FRAME_READY
                               ? sbx_error_set(err, -EPROTO, SBX_GUEST_ORIGIN, NULL, "a second `ready`")
                               : 0; /* of a thread that an execution left running: it has nowhere to go */
        r = sbx_json_parse(frame->json, ANSWER_MAX, "result", &json, err);
        if (r < 0)
                return r == -ENOMEM ? r : -EPROTO;
        if (sbx_json_get_int(json, "result", "id", SBX_JSON_REQUIRED, INT64_MIN, INT64_MAX, &id, err) < 0)
                return -EPROTO;
        if (id != answer->id)
                return ++answer->stale > STALE_MAX ? sbx_error_set(err, -EPROTO, SBX_GUEST_ORIGIN, NULL,
                                                                   "more than %d results of other requests", STALE_MAX)
                                                   : 0;
        if (answer->blob != NULL) {
                r = sbx_buffer_append(answer->blob, frame->blob.data, frame->blob.size);
                if (r < 0)
                        return r == -EFBIG ? sbx_error_set(err, -EPROTO, SBX_GUEST_ORIGIN, NULL,
                                                           "%zu bytes of content; at most %zu were asked for",
                                                           frame->blob.size, answer->blob->max)
                                           : SBX_NOMEM(err, SBX_GUEST_ORIGIN);
        }
        answer->json = steal_pointer(json);
        return 1;
}

/* Names and not numbers: those of a guest need not be the host's. */
static int code_of(const char *name) {
        static const struct {
                const char *name;
                int code;
        } codes[] = {{"ENOENT", ENOENT},   {"EACCES", EACCES},       {"EPERM", EPERM},
                     {"EISDIR", EISDIR},   {"ENOTDIR", ENOTDIR},     {"EFBIG", EFBIG},
                     {"ENOSPC", ENOSPC},   {"EDQUOT", EDQUOT},       {"EROFS", EROFS},
                     {"ELOOP", ELOOP},     {"EEXIST", EEXIST},       {"ENAMETOOLONG", ENAMETOOLONG},
                     {"ENXIO", ENXIO},     {"ETXTBSY", ETXTBSY},     {"EINVAL", EINVAL},
                     {"ENODEV", ENODEV},   {"ENOMEM", ENOMEM},       {"EBUSY", EBUSY},
                     {"EBADMSG", EBADMSG}, {"ETIMEDOUT", ETIMEDOUT}, {"EPROTONOSUPPORT", EPROTONOSUPPORT}};

        for (size_t i = 0; name != NULL && i < sizeof(codes) / sizeof(codes[0]); i++)
                if (strcmp(codes[i].name, name) == 0)
                        return -codes[i].code;
        return -EIO;
}

/* What the guest answered, as the caller's error. */
static int judge(struct sbx_exchange *exchange, const json_t *json, struct sbx_error *err) {
        const char *end = NULL;
        struct sbx_bytes type = {"error", 5}, message = {"", 0};
        const json_t *problem = json_object_get(json, "error");
        int code = code_of(json_string_value(json_object_get(problem, "errno")));

        if (sbx_json_get_string(json, "result", "end", SBX_JSON_REQUIRED, &end, err) < 0)
                return -EPROTO;
        if (strcmp(end, "ok") == 0)
                return 0;
        if (exchange->stop == SBX_STOP_CANCELLED)
                return sbx_error_set(err, -ECANCELED, SBX_GUEST_ORIGIN, NULL, "the request was cancelled");
        if (exchange->stop != SBX_STOP_NONE)
                return sbx_error_set(err, -ETIMEDOUT, SBX_GUEST_ORIGIN, NULL, "the guest did not answer in time");
        if (json_is_object(problem) && (sbx_json_get_text(problem, "error", "type", 0, &type, err) < 0 ||
                                        sbx_json_get_text(problem, "error", "message", 0, &message, err) < 0))
                return -EPROTO;
        if (code != -EIO)
                return sbx_error_set(err, code, SBX_GUEST_ORIGIN, NULL, "%.*s",
                                     (int)(message.size < SBX_ERROR_MESSAGE_MAX ? message.size : SBX_ERROR_MESSAGE_MAX),
                                     (const char *)message.data);
        return sbx_error_set(err, -EIO, SBX_GUEST_ORIGIN, NULL, "%.*s: %.*s",
                             (int)(type.size < TYPE_SHOWN_MAX ? type.size : TYPE_SHOWN_MAX), (const char *)type.data,
                             (int)(message.size < SBX_ERROR_MESSAGE_MAX ? message.size : SBX_ERROR_MESSAGE_MAX),
                             (const char *)message.data);
}

/* The guest is of no use any more. */
static int give_up(struct sbx_guest_process *guest, const struct sbx_exchange *exchange, int r, struct sbx_error *err) {
        sbx_guest_kill(guest);
        if (r == -EPIPE && sbx_channel_untouched(exchange))
                return sbx_error_set(err, -ESRCH, SBX_GUEST_ORIGIN, NULL, "the guest is dead");
        if (r == -EPIPE)
                return sbx_error_set(err, -ESRCH, SBX_GUEST_ORIGIN, NULL, "the guest died before it answered");
        if (r == -ETIMEDOUT && exchange->stop == SBX_STOP_CANCELLED)
                return sbx_error_set(err, -ECANCELED, SBX_GUEST_ORIGIN, NULL,
                                     "the request was cancelled; the guest did not stop and was killed");
        if (r == -ETIMEDOUT)
                return sbx_error_set(err, -ETIMEDOUT, SBX_GUEST_ORIGIN, NULL,
                                     "the guest did not answer in time, did not stop, and was killed");
        if (r == -EPROTO) {
                sbx_error_wrap(err, "the guest broke the protocol and was killed");
                if (err != NULL)
                        err->code = r;
        }
        return r;
}

static int encode_request(struct sbx_guest_process *guest, uint8_t type, json_t *request, struct sbx_bytes blob,
                          struct sbx_buffer *head, struct sbx_error *err) {
        _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(REQUEST_MAX);
        int r;

        if (request == NULL || json_object_set_new(request, "id", json_integer(++guest->last_id)) < 0)
                return SBX_NOMEM(err, SBX_GUEST_ORIGIN);
        r = sbx_json_encode(request, &text);
        if (r == 0)
                r = sbx_frame_encode_head(type, sbx_buffer_bytes(&text), blob.size, head);
        if (r == -EFBIG)
                return sbx_error_set(err, r, SBX_GUEST_ORIGIN, NULL, "the request is too large for a guest");
        return r < 0 ? SBX_NOMEM(err, SBX_GUEST_ORIGIN) : 0;
}

int sbx_guest_check_text(const char *what, const char *text, struct sbx_error *err) {
        if (sbx_utf8_valid((struct sbx_bytes){text, strlen(text)}))
                return 0;
        return sbx_error_set(err, -EINVAL, SBX_GUEST_ORIGIN, "Rename it.", "the %s is not valid UTF-8", what);
}

/* What comes before the request is sent as the dialog gives it, the request at last. */
static int send_next(struct sbx_exchange *exchange, struct sbx_error *err) {
        struct answer *answer = exchange->data;
        const struct sbx_guest_dialog *dialog = answer->dialog;
        struct sbx_bytes head = {0}, blob = {0};
        int r = answer->asked ? 0 : dialog->give(dialog->data, &head, &blob, err);

        if (r < 0 || answer->asked)
                return r;
        answer->asked = r == 0;
        exchange->head = r > 0 ? head : answer->head;
        exchange->blob = r > 0 ? blob : answer->request_blob;
        exchange->sent = 0;
        return 1;
}

int sbx_guest_ask(struct sbx_guest_process *guest, uint8_t type, json_t *request, struct sbx_bytes blob,
                  const struct sbx_guest_dialog *dialog, const struct sbx_call *call, json_t **ret_answer,
                  struct sbx_buffer *ret_blob, struct sbx_error *err) {
        _cleanup_buffer_ struct sbx_buffer head = SBX_BUFFER(REQUEST_MAX);
        struct answer answer = {.dialog = dialog, .blob = ret_blob, .request_blob = blob};
        bool gives = dialog != NULL && dialog->give != NULL;
        struct sbx_exchange exchange = {
                .deadline_ns = call != NULL && call->deadline_ns != 0 ? call->deadline_ns
                                                                      : sbx_clock_deadline_ms(REQUEST_TIMEOUT_MS),
                .grace_ns = SBX_GUEST_GRACE_NS,
                .cancel_fd = call != NULL ? call->cancel_fd : -1,
                .frame_max = ((size_t)17 << 20) + (ret_blob != NULL ? ret_blob->max : 0),
                .take = take_answer,
                .refill = gives ? send_next : NULL,
                .data = &answer,
        };
        _cleanup_json_ json_t *json = NULL;
        int r;

        if (guest->dead)
                return sbx_error_set(err, -ESRCH, SBX_GUEST_ORIGIN, NULL, "the guest is dead");
        r = encode_request(guest, type, request, blob, &head, err);
        if (r < 0)
                return r;
        answer.id = guest->last_id;
        answer.head = sbx_buffer_bytes(&head);
        if (!gives) {
                exchange.head = answer.head;
                exchange.blob = blob;
        }
        if (dialog != NULL && dialog->deadline_ns != 0 && dialog->deadline_ns < exchange.deadline_ns)
                exchange.deadline_ns = dialog->deadline_ns;
        r = sbx_channel_run(guest, &exchange, err);
        json = answer.json;
        if (r == 0)
                r = judge(&exchange, json, err);
        if (r == 0)
                r = sbx_guest_take_names(guest, json, err);
        if (r < 0 && (json == NULL || r == -EPROTO))
                return give_up(guest, &exchange, r, err);
        if (r < 0)
                return r;
        *ret_answer = steal_pointer(json);
        return 0;
}

int sbx_guest_request(struct sbx_guest_process *guest, uint8_t type, json_t *request, struct sbx_bytes blob,
                      const struct sbx_call *call, json_t **ret_answer, struct sbx_buffer *ret_blob,
                      struct sbx_error *err) {
        return sbx_guest_ask(guest, type, request, blob, NULL, call, ret_answer, ret_blob, err);
}

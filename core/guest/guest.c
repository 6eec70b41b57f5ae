/* SPDX-License-Identifier: Apache-2.0 */
/* A guest from its start to its end: descriptors, handshake, report, limits, death. */
#include "guest/channel.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/utf8.h"

#define READY_TIMEOUT_MS 30000 /* a container on a busy machine, its image not in memory */
#define READY_FRAME_MAX ((size_t)128 << 10)
#define INPUT_MAX ((size_t)70 << 20) /* the largest frame and a chunk */
#define REPORT_MAX ((size_t)256 << 10)
#define START_OUTPUT_MAX ((size_t)4096)
#define NAMES_MAX 200
#define DEATH_WAIT_MS 500

/* ---- death ---- */

static bool exited(const struct sbx_guest_process *guest, int timeout_ms) {
        struct pollfd fd = {.fd = guest->handle.exit_fd, .events = POLLIN};

        return guest->handle.exit_fd >= 0 && poll(&fd, 1, timeout_ms) > 0;
}

void sbx_guest_kill(struct sbx_guest_process *guest) {
        if (!guest->dead)
                guest->ops->guest_kill(guest->backend->state, guest->handle.handle);
        guest->dead = true;
}

void sbx_guest_usage(const struct sbx_guest_process *guest, struct sbx_guest_usage *ret_usage) {
        struct sbx_guest_usage usage = {.struct_size = sizeof(usage), .exit_code = INT32_MIN};

        if (guest->ops->guest_usage == NULL ||
            guest->ops->guest_usage(guest->backend->state, guest->handle.handle, &usage, NULL) < 0)
                usage = (struct sbx_guest_usage){.struct_size = sizeof(usage), .exit_code = INT32_MIN};
        *ret_usage = usage;
}

void sbx_guest_bury(struct sbx_guest_process *guest, const struct sbx_guest_usage *before,
                    struct sbx_guest_usage *ret_usage, struct sbx_guest_death *ret_death) {
        uint64_t deadline = sbx_clock_deadline_ms(DEATH_WAIT_MS);

        while (guest->handle.exit_fd >= 0 && sbx_clock_ns() < deadline && !exited(guest, sbx_clock_poll_ms(deadline)))
                continue;
        sbx_guest_usage(guest, ret_usage);
        ret_death->exit_code = ret_usage->exit_code;
        /* Of an older kill, which a child of the guest may have met, the flag is still up. */
        ret_death->oom = ret_usage->oom_killed != 0 && (before->oom_killed == 0 || ret_usage->exit_code == -SIGKILL);
        sbx_guest_kill(guest);
}

/* Without a descriptor for its end, the end of its stream tells. */
static bool hung_up(const struct sbx_guest_process *guest) {
        struct pollfd fd = {.fd = guest->handle.control_fd};

        return guest->handle.exit_fd < 0 && poll(&fd, 1, 0) > 0;
}

bool sbx_guest_alive(const struct sbx_guest_process *guest) {
        return !guest->dead && !exited(guest, 0) && !hung_up(guest);
}

static void close_descriptor(int32_t *fd) {
        if (*fd >= 0)
                close(*fd);
        *fd = -1;
}

/* Also one that is known to be dead: what it has started may live on. */
void sbx_guest_end(struct sbx_guest_process *guest) {
        guest->ops->guest_kill(guest->backend->state, guest->handle.handle);
        guest->dead = true;
}

void sbx_guest_free(struct sbx_guest_process *guest) {
        if (guest == NULL)
                return;
        if (guest->started) {
                sbx_guest_kill(guest);
                close_descriptor(&guest->handle.control_fd);
                close_descriptor(&guest->handle.stdout_fd);
                close_descriptor(&guest->handle.stderr_fd);
                close_descriptor(&guest->handle.exit_fd);
                guest->ops->guest_close(guest->backend->state, guest->handle.handle);
        }
        sbx_buffer_free(&guest->input);
        sbx_buffer_free(&guest->report);
        free(guest->isolation);
        json_decref(guest->info);
        json_decref(guest->names);
        free(guest);
}

void sbx_guest_cleanup(struct sbx_guest_process **guest) {
        sbx_guest_free(*guest);
}

/* ---- what is known of it ---- */

struct sbx_bytes sbx_guest_report(const struct sbx_guest_process *guest) {
        return sbx_buffer_bytes(&guest->report);
}

const char *sbx_guest_isolation(const struct sbx_guest_process *guest) {
        return guest->isolation;
}

const json_t *sbx_guest_info(const struct sbx_guest_process *guest) {
        return guest->info;
}

const json_t *sbx_guest_names(const struct sbx_guest_process *guest) {
        return guest->names;
}

int sbx_guest_take_names(struct sbx_guest_process *guest, const json_t *result, struct sbx_error *err) {
        json_t *names = json_object_get(result, "names"), *name;
        size_t i;

        if (names == NULL)
                return 0;
        if (!json_is_array(names) || json_array_size(names) > NAMES_MAX)
                return sbx_error_set(err, -EPROTO, SBX_GUEST_ORIGIN, NULL, "`names` is no list of at most %d",
                                     NAMES_MAX);
        json_array_foreach (names, i, name)
                if (!json_is_string(name))
                        return sbx_error_set(err, -EPROTO, SBX_GUEST_ORIGIN, NULL, "names[%zu] is not a string", i);
        json_decref(guest->names);
        guest->names = json_incref(names);
        return 0;
}

/* ---- start ---- */

static int keep_report(struct sbx_guest_process *guest, struct sbx_error *err) {
        _cleanup_json_ json_t *report = NULL;
        const char *isolation = NULL;
        int r = sbx_json_parse(guest->handle.report, REPORT_MAX, "isolation report", &report, err);

        if (r == 0)
                r = sbx_json_get_string(report, "isolation report", "isolation", SBX_JSON_REQUIRED, &isolation, err);
        if (r < 0)
                return r;
        guest->isolation = strdup(isolation);
        if (guest->isolation == NULL ||
            sbx_buffer_append(&guest->report, guest->handle.report.data, guest->handle.report.size) < 0)
                return SBX_NOMEM(err, SBX_GUEST_ORIGIN);
        return 0;
}

static int set_nonblocking(struct sbx_guest_process *guest, struct sbx_error *err) {
        const int32_t fds[] = {guest->handle.control_fd, guest->handle.stdout_fd, guest->handle.stderr_fd};

        for (size_t i = 0; i < 3; i++) {
                int r = fds[i] >= 0 ? sbx_fd_set_nonblocking(fds[i], true) : 0;

                if (r < 0)
                        return sbx_error_set(err, r, SBX_GUEST_ORIGIN, NULL, "can't use a descriptor of the guest: %s",
                                             SBX_ERRNO_TEXT(r));
        }
        return 0;
}

static int take_ready(struct sbx_exchange *exchange, const struct sbx_frame *frame, struct sbx_error *err) {
        struct sbx_guest_process *guest = exchange->data;
        int64_t protocol;
        const char *text;
        int r;

        if (frame->type == SBX_FRAME_STDOUT || frame->type == SBX_FRAME_STDERR)
                return sbx_channel_output(exchange, frame->type == SBX_FRAME_STDOUT ? 1 : 2, frame->blob, err);
        if (frame->type != SBX_FRAME_READY)
                return sbx_error_set(err, -EPROTO, SBX_GUEST_ORIGIN, NULL, "frame 0x%02x came before `ready`",
                                     frame->type);
        r = sbx_json_parse(frame->json, READY_FRAME_MAX, "ready", &guest->info, err);
        if (r < 0)
                return r == -ENOMEM ? r : -EPROTO;
        if (sbx_json_get_int(guest->info, "ready", "protocol", SBX_JSON_REQUIRED, 0, INT32_MAX, &protocol, err) < 0 ||
            sbx_json_get_string(guest->info, "ready", "runtime", SBX_JSON_REQUIRED, &text, err) < 0 ||
            sbx_json_get_string(guest->info, "ready", "version", SBX_JSON_REQUIRED, &text, err) < 0)
                return -EPROTO;
        if (protocol != SBX_GUEST_PROTOCOL)
                return sbx_error_set(err, -EPROTO, SBX_GUEST_ORIGIN, "Update the guest's image to this release.",
                                     "the guest speaks version %lld of the protocol, not %d", (long long)protocol,
                                     SBX_GUEST_PROTOCOL);
        r = sbx_guest_take_names(guest, guest->info, err);
        return r < 0 ? r : 1;
}

/* The last line that a worker that did not come up wrote, for the error. */
static void append_complaint(struct sbx_error *err, const struct sbx_capture *capture) {
        const char *text = capture->text.data, *start;
        size_t size = capture->text.size;

        while (size > 0 && (text[size - 1] == '\n' || text[size - 1] == '\0'))
                size--;
        if (err == NULL || size == 0 || !sbx_utf8_valid((struct sbx_bytes){text, size}))
                return;
        start = memrchr(text, '\n', size);
        start = start != NULL ? start + 1 : text;
        size -= (size_t)(start - text);
        if (err->hint[0] == '\0')
                snprintf(err->hint, sizeof(err->hint), "It wrote: %.*s", (int)(size < 400 ? size : 400), start);
        sbx_error_trim_(err->hint, sizeof(err->hint));
}

int sbx_guest_greet(struct sbx_guest_process *guest, const struct sbx_guest_spec *spec, const struct sbx_call *call,
                    struct sbx_error *err) {
        _cleanup_json_ json_t *hello =
                json_pack("{s:i, s:s, s:b}", "protocol", SBX_GUEST_PROTOCOL, "session",
                          spec->label != NULL ? spec->label : "", "framed_output", guest->handle.stdout_fd < 0);
        _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(READY_FRAME_MAX), head = SBX_BUFFER(READY_FRAME_MAX);
        struct sbx_capture captures[2] = {{.text = SBX_BUFFER(START_OUTPUT_MAX)},
                                          {.text = SBX_BUFFER(START_OUTPUT_MAX)}};
        struct sbx_exchange exchange = {
                .deadline_ns = sbx_clock_deadline_ms(READY_TIMEOUT_MS),
                .cancel_fd = call != NULL ? call->cancel_fd : -1,
                .frame_max = READY_FRAME_MAX,
                .captures = captures,
                .take = take_ready,
                .data = guest,
        };
        int r;

        if (call != NULL && call->deadline_ns != 0 && call->deadline_ns < exchange.deadline_ns)
                exchange.deadline_ns = call->deadline_ns;
        if (hello == NULL || sbx_json_encode(hello, &text) < 0 ||
            sbx_frame_encode(SBX_FRAME_HELLO, sbx_buffer_bytes(&text), (struct sbx_bytes){0}, &head) < 0)
                return SBX_NOMEM(err, SBX_GUEST_ORIGIN);
        exchange.head = sbx_buffer_bytes(&head);
        r = sbx_channel_run(guest, &exchange, err);
        if (r == -ETIMEDOUT && exchange.stop == SBX_STOP_CANCELLED)
                r = sbx_error_set(err, -ECANCELED, SBX_GUEST_ORIGIN, NULL, "the start of the guest was cancelled");
        else if (r == -ETIMEDOUT)
                sbx_error_set(err, r, SBX_GUEST_ORIGIN, NULL, "the guest's worker was not ready in time");
        else if (r == -EPIPE)
                sbx_error_set(err, r, SBX_GUEST_ORIGIN, NULL, "the guest ended before its worker was ready");
        if (r < 0)
                append_complaint(err, &captures[1]);
        sbx_buffer_free(&captures[0].text);
        sbx_buffer_free(&captures[1].text);
        return r;
}

struct sbx_guest_process *sbx_guest_new(const struct sbx_instance *backend) {
        struct sbx_guest_process *guest = calloc(1, sizeof(*guest));

        if (guest == NULL)
                return NULL;
        guest->backend = backend;
        guest->ops = backend->ops;
        guest->input = (struct sbx_buffer)SBX_BUFFER(INPUT_MAX);
        guest->report = (struct sbx_buffer)SBX_BUFFER(REPORT_MAX);
        guest->names = json_array();
        if (guest->names == NULL) {
                sbx_guest_free(guest);
                return NULL;
        }
        return guest;
}

int sbx_guest_adopt(struct sbx_guest_process *guest, const struct sbx_guest *started, struct sbx_error *err) {
        int r;

        guest->handle = *started;
        guest->started = true;
        r = keep_report(guest, err);
        return r < 0 ? r : set_nonblocking(guest, err);
}

int sbx_guest_start(const struct sbx_instance *backend, const struct sbx_logger *logger,
                    const struct sbx_guest_spec *spec, const struct sbx_call *call,
                    struct sbx_guest_process **ret_guest, struct sbx_error *err) {
        _cleanup_guest_ struct sbx_guest_process *guest = sbx_guest_new(backend);
        struct sbx_guest started = SBX_GUEST_NONE;
        int r;

        if (guest == NULL)
                return SBX_NOMEM(err, SBX_GUEST_ORIGIN);
        r = guest->ops->guest_start(backend->state, spec, call, &started, err);
        if (r == 0)
                r = sbx_guest_adopt(guest, &started, err);
        if (r == 0)
                r = sbx_guest_greet(guest, spec, call, err);
        if (r < 0)
                return r;
        sbx_log(logger, SBX_LOG_DEBUG, "%s: guest %s is ready", backend->name, spec->label != NULL ? spec->label : "");
        *ret_guest = steal_pointer(guest);
        return 0;
}

int sbx_guest_limit(struct sbx_guest_process *guest, const struct sbx_limits *limits, struct sbx_error *err) {
        if (guest->dead)
                return sbx_error_set(err, -ESRCH, SBX_GUEST_ORIGIN, NULL, "the guest is dead");
        if (guest->ops->guest_limit == NULL)
                return sbx_error_set(err, -ENOTSUP, SBX_GUEST_ORIGIN, NULL,
                                     "backend '%s' can't change the limits of a running guest", guest->backend->name);
        return guest->ops->guest_limit(guest->backend->state, guest->handle.handle, limits, err);
}

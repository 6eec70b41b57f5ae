/* SPDX-License-Identifier: Apache-2.0 */
/* A session's state outside of its guest: taken byte for byte where the backend can, by the guest's worker elsewhere;
 * and given to a new guest the way it was taken. */
#include "session/states.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"

#define ORIGIN "session"

/* An empty part at the end, which may take up to `max` bytes; NULL: no memory, or too many. */
static struct sbx_buffer *add_part(struct sbx_session_state *state, size_t max) {
        struct sbx_buffer *parts;

        if (state->part_count >= SBX_STATE_PARTS_MAX)
                return NULL;
        parts = reallocarray(state->parts, state->part_count + 1, sizeof(*parts));
        if (parts == NULL)
                return NULL;
        state->parts = parts;
        parts[state->part_count] = (struct sbx_buffer)SBX_BUFFER(max);
        return &parts[state->part_count++];
}

/* ---- what it holds ---- */

/* Names of variables are the guest's, and may be of any length. */
static json_t *short_names(const json_t *names) {
        json_t *list = json_array();
        size_t count = json_array_size(names);

        for (size_t i = 0; list != NULL && i < count && i < SBX_ABOUT_NAMES_MAX; i++) {
                const json_t *name = json_array_get(names, i);
                struct sbx_bytes text = {json_string_value(name), json_string_length(name)};

                if (json_array_append_new(list, json_stringn(text.data, sbx_utf8_cut(text, SBX_ABOUT_TEXT_MAX))) < 0) {
                        json_decref(list);
                        return NULL;
                }
        }
        return list;
}

json_t *sbx_state_about(const struct sbx_guest_process *guest) {
        const json_t *info = sbx_guest_info(guest), *names = sbx_guest_names(guest);
        const char *runtime = json_string_value(json_object_get(info, "runtime"));
        const char *version = json_string_value(json_object_get(info, "version"));

        return json_pack("{s:s*, s:s*, s:I, s:o, s:[]}", "runtime", runtime, "version", version, "variables",
                         (json_int_t)json_array_size(names), "names", short_names(names), "unsaved");
}

/* With the guest's own account of a portable state. */
static int describe(const struct sbx_guest_process *guest, const json_t *told, json_t **ret_about,
                    struct sbx_error *err) {
        static const char *const members[] = {"variables", "names", "unsaved", "files", "digest"};
        _cleanup_json_ json_t *about = sbx_state_about(guest);
        int r;

        if (about == NULL)
                return SBX_NOMEM(err, ORIGIN);
        for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
                json_t *member = json_object_get(told, members[i]);

                if (member != NULL && json_object_set_new(about, members[i], json_deep_copy(member)) < 0)
                        return SBX_NOMEM(err, ORIGIN);
        }
        r = sbx_checkpoint_check_about(about, "state", err);
        if (r == 0)
                *ret_about = steal_pointer(about);
        return r;
}

/* ---- taking ---- */

static uint64_t bytes_limit(const struct sbx_state_budget *budget) {
        return budget->bytes_max > 0 && budget->bytes_max < SBX_STATE_BYTES_MAX ? budget->bytes_max
                                                                                : SBX_STATE_BYTES_MAX;
}

static int take_exact(struct sbx_guest_process *guest, const struct sbx_state_budget *budget,
                      const struct sbx_call *call, struct sbx_session_state *state, struct sbx_error *err) {
        struct sbx_buffer *part = add_part(state, bytes_limit(budget));
        int r;

        if (part == NULL)
                return SBX_NOMEM(err, ORIGIN);
        r = sbx_guest_save(guest, call, part, err);
        if (r < 0)
                return r;
        state->mechanism = SBX_MECHANISM_BYTE_EXACT;
        return describe(guest, NULL, &state->about, err);
}

/* Whole, and taken over: nothing is copied. */
static int take_part(void *data, struct sbx_buffer *given) {
        struct sbx_session_state *state = data;
        struct sbx_buffer *part;

        if (state->part_count >= SBX_STATE_PARTS_MAX)
                return -EFBIG;
        part = add_part(state, given->max);
        if (part == NULL)
                return -ENOMEM;
        *part = *given;
        *given = (struct sbx_buffer)SBX_BUFFER(part->max);
        return 0;
}

static int take_portable(struct sbx_guest_process *guest, const struct sbx_state_budget *budget,
                         const struct sbx_call *call, struct sbx_session_state *state, struct sbx_error *err) {
        struct sbx_guest_portable request = {.max_bytes = bytes_limit(budget),
                                             .max_ms = budget->time_ms,
                                             .known_digest = budget->known_digest,
                                             .data = state,
                                             .part = take_part};
        _cleanup_json_ json_t *told = NULL;
        int r = sbx_guest_save_portable(guest, &request, call, &told, err);

        if (r < 0)
                return r;
        if (json_is_true(json_object_get(told, "unchanged")) && budget->known_digest != NULL)
                return 1;
        state->mechanism = SBX_MECHANISM_PORTABLE;
        return describe(guest, told, &state->about, err);
}

int sbx_state_take(struct sbx_guest_process *guest, const struct sbx_state_budget *budget, const struct sbx_call *call,
                   struct sbx_session_state *ret_state, struct sbx_error *err) {
        _cleanup_state_ struct sbx_session_state state = {0};
        struct sbx_call limited = {.struct_size = sizeof(limited), .cancel_fd = -1};
        struct sbx_error problem = {0};
        int r;

        if (call != NULL)
                limited = *call;
        if (budget->time_ms > 0) {
                uint64_t latest = sbx_clock_deadline_ms(budget->time_ms);

                if (limited.deadline_ns == 0 || latest < limited.deadline_ns)
                        limited.deadline_ns = latest;
        }
        r = take_exact(guest, budget, &limited, &state, &problem);
        if (r == -ENOTSUP) {
                sbx_state_clear(&state);
                problem = (struct sbx_error){0};
                r = take_portable(guest, budget, call, &state, &problem);
        }
        if (r < 0 && err != NULL && err->code == 0)
                *err = problem;
        if (r != 0)
                return r;
        *ret_state = state;
        state = (struct sbx_session_state){0};
        return 0;
}

/* ---- giving ---- */

static int give_exact(const struct sbx_instance *backend, const struct sbx_guest_spec *spec,
                      const struct sbx_session_state *state, const struct sbx_call *call,
                      struct sbx_guest_process **ret_guest, struct sbx_error *err) {
        int r;

        if (state->part_count != 1)
                return sbx_error_set(err, -EINVAL, ORIGIN, NULL, "a byte-exact state has %zu parts and not one",
                                     state->part_count);
        r = sbx_guest_restore(backend, spec, sbx_buffer_bytes(&state->parts[0]), call, ret_guest, err);
        return r == -ENOTSUP ? -EXDEV : r; /* of a backend that could, by another */
}

static int give_portable(const struct sbx_session_state *state, const struct sbx_state_start *start,
                         const struct sbx_call *call, struct sbx_guest_process **ret_guest, json_t **ret_missing,
                         struct sbx_error *err) {
        _cleanup_free_ struct sbx_bytes *parts = calloc(state->part_count + 1, sizeof(*parts));
        _cleanup_json_ json_t *told = NULL;
        struct sbx_guest_process *guest = NULL;
        json_t *missing;
        int r;

        if (parts == NULL)
                return SBX_NOMEM(err, ORIGIN);
        for (size_t i = 0; i < state->part_count; i++)
                parts[i] = sbx_buffer_bytes(&state->parts[i]);
        r = start->start(start->data, call, &guest, err);
        if (r < 0)
                return r;
        r = sbx_guest_restore_portable(guest, parts, state->part_count, call, &told, err);
        if (r == 0) {
                missing = json_object_get(told, "missing");
                *ret_missing = json_is_array(missing) ? json_incref(missing) : json_array();
                if (*ret_missing == NULL)
                        r = SBX_NOMEM(err, ORIGIN);
        }
        if (r < 0) {
                sbx_guest_free(guest);
                return r == -ENOTSUP ? -EXDEV : r;
        }
        *ret_guest = guest;
        return 0;
}

int sbx_state_give(const struct sbx_instance *backend, const struct sbx_guest_spec *spec,
                   const struct sbx_session_state *state, const struct sbx_state_start *start,
                   const struct sbx_call *call, struct sbx_guest_process **ret_guest, json_t **ret_missing,
                   struct sbx_error *err) {
        _cleanup_json_ json_t *missing = NULL;
        int r;

        switch (state->mechanism) {
        case SBX_MECHANISM_BYTE_EXACT:
                missing = json_array();
                r = missing != NULL ? give_exact(backend, spec, state, call, ret_guest, err) : SBX_NOMEM(err, ORIGIN);
                break;
        case SBX_MECHANISM_PORTABLE:
                r = give_portable(state, start, call, ret_guest, &missing, err);
                break;
        default:
                r = sbx_error_set(err, -EINVAL, ORIGIN, NULL, "a state of mechanism %d can't be given to a guest",
                                  (int)state->mechanism);
        }
        if (r == 0)
                *ret_missing = steal_pointer(missing);
        return r;
}

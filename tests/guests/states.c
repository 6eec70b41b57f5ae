/* SPDX-License-Identifier: Apache-2.0 */
/* Commands of drive-guests: states that are forked, saved to files and restored from them. */
#include <fcntl.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "guest/process.h"
#include "guests/driver.h"

#define ORIGIN "drive-guests"
#define STATE_MAX_BYTES ((size_t)1 << 30)

int driver_fork(const json_t *command, const struct sbx_call *call, json_t *answer, struct sbx_error *err) {
        struct sbx_guest_process **guest = NULL, *copy = NULL;
        struct sbx_guest_spec spec;
        bool frozen = false;
        int r = driver_guest(command, &guest, err);

        if (r == 0)
                r = driver_spec(command, &spec, err);
        if (r == 0)
                r = sbx_json_get_bool(command, "", "frozen", 0, &frozen, err);
        if (frozen)
                spec.flags |= SBX_GUEST_FROZEN;
        if (r == 0)
                r = sbx_guest_fork(*guest, &spec, call, &copy, err);
        return r == 0 ? driver_keep(copy, answer, err) : r;
}

int driver_save(const json_t *command, const struct sbx_call *call, json_t *answer, struct sbx_error *err) {
        _cleanup_buffer_ struct sbx_buffer state = SBX_BUFFER(STATE_MAX_BYTES);
        struct sbx_guest_process **guest = NULL;
        const char *to = NULL;
        int r = driver_guest(command, &guest, err);

        if (r == 0)
                r = sbx_json_get_string(command, "", "to", SBX_JSON_REQUIRED, &to, err);
        if (r == 0)
                r = sbx_guest_save(*guest, call, &state, err);
        if (r == 0)
                r = driver_put_file(to, sbx_buffer_bytes(&state), err);
        return r < 0 || json_object_set_new(answer, "size", json_integer((json_int_t)state.size)) == 0
                       ? r
                       : SBX_NOMEM(err, ORIGIN);
}

int driver_restore(const json_t *command, const struct sbx_call *call, json_t *answer, struct sbx_error *err) {
        _cleanup_buffer_ struct sbx_buffer state = SBX_BUFFER(STATE_MAX_BYTES);
        struct sbx_guest_process *guest = NULL;
        struct sbx_guest_spec spec;
        const char *from = NULL;
        int r = driver_spec(command, &spec, err);

        if (r == 0)
                r = sbx_json_get_string(command, "", "from", SBX_JSON_REQUIRED, &from, err);
        if (r == 0)
                r = sbx_file_read(AT_FDCWD, from, STATE_MAX_BYTES, &state, err);
        if (r == 0)
                r = sbx_guest_restore(driver.backend, &spec, sbx_buffer_bytes(&state), call, &guest, err);
        return r == 0 ? driver_keep(guest, answer, err) : r;
}

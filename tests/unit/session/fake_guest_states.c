/* SPDX-License-Identifier: Apache-2.0 */
/* States of fake guests: copies, what is saved byte for byte, and what a worker tells. */
#include "fake_guest_internal.h"

#include <stdlib.h>

#include "base/error.h"

/* ---- copies ---- */

static int check_fork_locked(const struct sbx_guest_process *guest, uint32_t flags, struct sbx_error *err) {
        if (!guest->alive)
                return sbx_error_set(err, -ESRCH, "fake", NULL, "the guest is dead");
        if (fake.families && (flags & SBX_GUEST_FROZEN) == 0)
                return sbx_error_set(err, -ENOTSUP, "fake", NULL, "no copy runs beside its original");
        return 0;
}

int sbx_guest_fork(struct sbx_guest_process *guest, const struct sbx_guest_spec *spec, const struct sbx_call *call,
                   struct sbx_guest_process **ret_guest, struct sbx_error *err) {
        struct sbx_guest_process *copy;
        int r;

        if ((fake_operations.features & SBX_BACKEND_FORK) == 0)
                return sbx_error_set(err, -ENOTSUP, "fake", NULL, "no copies here");
        pthread_mutex_lock(&fake.lock);
        r = check_fork_locked(guest, spec->flags, err);
        pthread_mutex_unlock(&fake.lock);
        if (r < 0)
                return r;
        copy = fake_guest_new();
        if (copy == NULL)
                return SBX_NOMEM(err, "fake");
        copy->executions = guest->executions;
        json_decref(copy->names);
        json_decref(copy->files);
        copy->names = json_deep_copy(guest->names);
        copy->files = json_deep_copy(guest->files);
        copy->frozen = fake.families;
        copy->family = guest->family;
        pthread_mutex_lock(&fake.lock);
        fake.counts.started++;
        fake.counts.forked++;
        r = fake_guest_enlist(copy);
        pthread_mutex_unlock(&fake.lock);
        *ret_guest = copy;
        return r;
}

/* ---- states ---- */

static int begin_save(struct sbx_error *err) {
        int r;

        pthread_mutex_lock(&fake.lock);
        fake.counts.saved++;
        r = fake.save_failure;
        pthread_mutex_unlock(&fake.lock);
        return r < 0 ? sbx_error_set(err, r, "fake", NULL, "this state can't be saved") : 0;
}

static int write_state(const struct sbx_guest_process *guest, struct sbx_buffer *out) {
        json_t *state = json_pack("{s:i, s:O, s:O}", "executions", (int)guest->executions, "names", guest->names,
                                  "files", guest->files);
        char *text = json_dumps(state, JSON_SORT_KEYS);
        int r = text != NULL ? sbx_buffer_append_text(out, text) : -ENOMEM;

        while (r == 0 && out->size < fake.state_bytes) /* blanks, which JSON does not mind */
                r = sbx_buffer_append(out, "                ", 16);
        free(text);
        json_decref(state);
        return r;
}

static int read_state(struct sbx_guest_process *guest, struct sbx_bytes bytes, struct sbx_error *err) {
        json_t *state = json_loadb(bytes.data, bytes.size, 0, NULL);

        if (state == NULL)
                return sbx_error_set(err, -EINVAL, "fake", NULL, "this is no state");
        guest->executions = (unsigned)json_integer_value(json_object_get(state, "executions"));
        json_decref(guest->names);
        json_decref(guest->files);
        guest->names = json_deep_copy(json_object_get(state, "names"));
        guest->files = json_deep_copy(json_object_get(state, "files"));
        json_decref(state);
        return 0;
}

int sbx_guest_save(struct sbx_guest_process *guest, const struct sbx_call *call, struct sbx_buffer *ret_state,
                   struct sbx_error *err) {
        int r;

        if ((fake_operations.features & SBX_BACKEND_SAVE) == 0)
                return sbx_error_set(err, -ENOTSUP, "fake", NULL, "nothing is saved here");
        r = begin_save(err);
        return r < 0 ? r : write_state(guest, ret_state);
}

int sbx_guest_restore(const struct sbx_instance *backend, const struct sbx_guest_spec *spec, struct sbx_bytes state,
                      const struct sbx_call *call, struct sbx_guest_process **ret_guest, struct sbx_error *err) {
        struct sbx_guest_process *guest;
        int r;

        if ((fake_operations.features & SBX_BACKEND_SAVE) == 0)
                return sbx_error_set(err, -ENOTSUP, "fake", NULL, "nothing is restored here");
        guest = fake_guest_new();
        pthread_mutex_lock(&fake.lock);
        fake.counts.started++;
        fake.counts.restored++;
        r = fake_guest_enlist(guest);
        pthread_mutex_unlock(&fake.lock);
        if (r == 0)
                r = read_state(guest, state, err);
        if (r < 0)
                sbx_guest_free(guest);
        else
                *ret_guest = guest;
        return r;
}

bool sbx_guest_portable(const struct sbx_guest_process *guest) {
        return fake.portable;
}

/* Names that begin with "gen" are those of generators. */
static json_t *unsaved_of(const struct sbx_guest_process *guest) {
        json_t *list = json_array(), *name;
        size_t i;

        json_array_foreach (guest->names, i, name)
                if (strncmp(json_string_value(name), "gen", 3) == 0)
                        json_array_append_new(list, json_pack("{s:O, s:s, s:s}", "name", name, "type", "generator",
                                                              "reason", "it runs"));
        return list;
}

int sbx_guest_save_portable(struct sbx_guest_process *guest, const struct sbx_guest_portable *request,
                            const struct sbx_call *call, json_t **ret_told, struct sbx_error *err) {
        struct sbx_buffer part = SBX_BUFFER(8 << 20);
        char digest[64];
        bool unchanged;
        int r;

        if (!fake.portable)
                return sbx_error_set(err, -ENOTSUP, "fake", NULL, "this worker can't");
        r = begin_save(err);
        if (r < 0)
                return r;
        snprintf(digest, sizeof(digest), "%zu/%zu", json_array_size(guest->names), json_object_size(guest->files));
        unchanged = request->known_digest != NULL && strcmp(request->known_digest, digest) == 0;
        if (!unchanged)
                r = write_state(guest, &part);
        if (r == 0 && !unchanged)
                r = request->part(request->data, &part);
        sbx_buffer_free(&part);
        *ret_told = json_pack("{s:I, s:o, s:s, s:b}", "variables", (json_int_t)json_array_size(guest->names), "unsaved",
                              unsaved_of(guest), "digest", digest, "unchanged", (int)unchanged);
        return r;
}

int sbx_guest_restore_portable(struct sbx_guest_process *guest, const struct sbx_bytes *parts, size_t count,
                               const struct sbx_call *call, json_t **ret_told, struct sbx_error *err) {
        json_t *missing, *name;
        size_t i;
        int r = fake.portable && count == 1 ? read_state(guest, parts[0], err) : -ENOTSUP;

        if (r < 0)
                return r;
        pthread_mutex_lock(&fake.lock);
        fake.counts.restored++;
        pthread_mutex_unlock(&fake.lock);
        missing = unsaved_of(guest);
        json_array_foreach (missing, i, name)
                for (size_t at = 0; at < json_array_size(guest->names); at++)
                        if (json_equal(json_array_get(guest->names, at), json_object_get(name, "name")))
                                json_array_remove(guest->names, at--);
        *ret_told = json_pack("{s:o}", "missing", missing);
        return 0;
}

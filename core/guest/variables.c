/* SPDX-License-Identifier: Apache-2.0 */
/* Variables of a guest: read, set, clear. */
#include "guest/process.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"

/* {name: {"type": str, "repr": str, "json": any}} and nothing else: what a guest sends goes to clients. */
static int check_variables(const json_t *variables, struct sbx_error *err) {
        const char *name;
        json_t *variable;

        if (!json_is_object(variables))
                return sbx_error_set(err, -EPROTO, SBX_GUEST_ORIGIN, NULL, "`variables` is not an object");
        json_object_foreach((json_t *)(uintptr_t)variables, name, variable) {
                if (!json_is_object(variable) || !json_is_string(json_object_get(variable, "type")) ||
                    !json_is_string(json_object_get(variable, "repr")))
                        return sbx_error_set(err, -EPROTO, SBX_GUEST_ORIGIN, NULL,
                                             "a variable without `type` and `repr`");
        }
        return 0;
}

int sbx_guest_get(struct sbx_guest_process *guest, const json_t *names, const struct sbx_call *call, json_t **ret,
                  struct sbx_error *err) {
        _cleanup_json_ json_t *request =
                json_pack("{s:o}", "names", names != NULL ? json_deep_copy(names) : json_null());
        _cleanup_json_ json_t *answer = NULL;
        json_t *variables;
        int r = sbx_guest_request(guest, SBX_FRAME_GET, request, (struct sbx_bytes){0}, call, &answer, NULL, err);

        if (r < 0)
                return r;
        variables = json_object_get(answer, "variables");
        r = check_variables(variables, err);
        if (r < 0) {
                sbx_guest_kill(guest);
                return r;
        }
        *ret = json_incref(variables);
        return 0;
}

int sbx_guest_set(struct sbx_guest_process *guest, const char *name, const json_t *value, const struct sbx_call *call,
                  char **ret_repr, struct sbx_error *err) {
        _cleanup_json_ json_t *request = json_pack("{s:s, s:O}", "name", name, "value", (json_t *)(uintptr_t)value);
        _cleanup_json_ json_t *answer = NULL;
        struct sbx_bytes repr = {"", 0};
        int r = sbx_guest_check_text("name of the variable", name, err);

        if (r == 0)
                r = sbx_guest_request(guest, SBX_FRAME_SET, request, (struct sbx_bytes){0}, call, &answer, NULL, err);
        if (r < 0 || ret_repr == NULL)
                return r;
        if (sbx_json_get_text(answer, "result", "repr", SBX_JSON_REQUIRED, &repr, err) < 0) {
                sbx_guest_kill(guest);
                return -EPROTO;
        }
        *ret_repr = strndup(repr.data, repr.size);
        return *ret_repr != NULL ? 0 : SBX_NOMEM(err, SBX_GUEST_ORIGIN);
}

int sbx_guest_clear(struct sbx_guest_process *guest, const struct sbx_call *call, struct sbx_error *err) {
        _cleanup_json_ json_t *request = json_object();
        _cleanup_json_ json_t *answer = NULL;

        return sbx_guest_request(guest, SBX_FRAME_CLEAR, request, (struct sbx_bytes){0}, call, &answer, NULL, err);
}

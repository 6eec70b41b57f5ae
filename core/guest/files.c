/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a guest. The host never resolves a path of a guest: it asks the guest. */
#include "guest/process.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"

#define FILE_MAX ((size_t)64 << 20)
#define FILES_MAX 10000

int sbx_guest_file_read(struct sbx_guest_process *guest, const char *path, size_t max_bytes,
                        const struct sbx_call *call, struct sbx_buffer *out, struct sbx_error *err) {
        size_t most = max_bytes < FILE_MAX ? max_bytes : FILE_MAX;
        _cleanup_buffer_ struct sbx_buffer content = SBX_BUFFER(most);
        _cleanup_json_ json_t *request = json_pack("{s:s, s:I}", "path", path, "max_bytes", (json_int_t)most);
        _cleanup_json_ json_t *answer = NULL;
        int r = sbx_guest_check_text("path", path, err);

        if (r == 0)
                r = sbx_guest_request(guest, SBX_FRAME_FILE_READ, request, (struct sbx_bytes){0}, call, &answer,
                                      &content, err);
        if (r < 0)
                return r;
        r = sbx_buffer_append(out, content.data, content.size);
        return r < 0 ? sbx_error_set(err, r, SBX_GUEST_ORIGIN, NULL, "no room for the %zu bytes of '%s'", content.size,
                                     path)
                     : 0;
}

int sbx_guest_file_write(struct sbx_guest_process *guest, const char *path, struct sbx_bytes content,
                         const struct sbx_call *call, struct sbx_error *err) {
        _cleanup_json_ json_t *request = json_pack("{s:s}", "path", path);
        _cleanup_json_ json_t *answer = NULL;
        int r = sbx_guest_check_text("path", path, err);

        if (r < 0)
                return r;
        if (content.size > FILE_MAX)
                return sbx_error_set(err, -EFBIG, SBX_GUEST_ORIGIN, "Write it in parts.",
                                     "'%s' has %zu bytes; at most %zu can be written at once", path, content.size,
                                     FILE_MAX);
        return sbx_guest_request(guest, SBX_FRAME_FILE_WRITE, request, content, call, &answer, NULL, err);
}

/* A file of the list, rebuilt from the members that are known. NULL: the guest sent something else. */
static json_t *check_file(const json_t *file) {
        static const char *const types[] = {"file", "directory", "link", "other"};
        const char *type = NULL, *path = NULL;
        int64_t size = 0, mode = 0, mtime_ms = 0;
        size_t i = 0;

        if (!json_is_object(file) || sbx_json_get_string(file, "file", "path", SBX_JSON_REQUIRED, &path, NULL) < 0 ||
            sbx_json_get_int(file, "file", "size", SBX_JSON_REQUIRED, 0, INT64_MAX, &size, NULL) < 0 ||
            sbx_json_get_int(file, "file", "mode", SBX_JSON_REQUIRED, 0, 07777, &mode, NULL) < 0 ||
            sbx_json_get_int(file, "file", "mtime_ms", SBX_JSON_REQUIRED, INT64_MIN, INT64_MAX, &mtime_ms, NULL) < 0 ||
            sbx_json_get_string(file, "file", "type", SBX_JSON_REQUIRED, &type, NULL) < 0)
                return NULL;
        while (i < 4 && strcmp(type, types[i]) != 0)
                i++;
        if (i == 4)
                return NULL;
        return json_pack("{s:s, s:I, s:I, s:I, s:s}", "path", path, "size", (json_int_t)size, "mode",
                         (json_int_t)mode, "mtime_ms", (json_int_t)mtime_ms, "type", type);
}

int sbx_guest_file_list(struct sbx_guest_process *guest, const char *path, const struct sbx_call *call, json_t **ret,
                        bool *ret_truncated, struct sbx_error *err) {
        _cleanup_json_ json_t *request = json_pack("{s:s}", "path", path);
        _cleanup_json_ json_t *answer = NULL, *list = json_array();
        json_t *files, *file;
        size_t i;
        int r;

        if (list == NULL)
                return SBX_NOMEM(err, SBX_GUEST_ORIGIN);
        r = sbx_guest_check_text("path", path, err);
        if (r == 0)
                r = sbx_guest_request(guest, SBX_FRAME_FILE_LIST, request, (struct sbx_bytes){0}, call, &answer, NULL,
                                      err);
        if (r < 0)
                return r;
        files = json_object_get(answer, "files");
        if (!json_is_array(files) || json_array_size(files) > FILES_MAX) {
                sbx_guest_kill(guest);
                return sbx_error_set(err, -EPROTO, SBX_GUEST_ORIGIN, NULL, "`files` is no list of at most %d",
                                     FILES_MAX);
        }
        json_array_foreach (files, i, file)
                if (json_array_append_new(list, check_file(file)) < 0) {
                        sbx_guest_kill(guest);
                        return sbx_error_set(err, -EPROTO, SBX_GUEST_ORIGIN, NULL, "files[%zu] is not what a file is",
                                             i);
                }
        if (ret_truncated != NULL)
                *ret_truncated = json_is_true(json_object_get(answer, "truncated"));
        *ret = steal_pointer(list);
        return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a session's workspace, through its guest: each request waits for the session's turn like an execution. */
#include "session/state.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"

#define ORIGIN SBX_SESSION_ORIGIN
#define FILES_TIMEOUT_MS UINT64_C(30000) /* from the turn on; a workspace may be a slow disk */
#define LOOK_TIMEOUT_MS UINT64_C(10000)
#define PATH_MAX_BYTES 4096u /* of a path in a guest */

struct request {
        const char *path;
        size_t max_bytes;
        struct sbx_bytes content;
        struct sbx_buffer *out;
        json_t *list;
        bool truncated;
};

static int check_path(const char *path, bool may_be_empty, struct sbx_error *err) {
        size_t length = path != NULL ? strlen(path) : 0;

        if ((length > 0 || may_be_empty) && length <= PATH_MAX_BYTES &&
            sbx_utf8_valid((struct sbx_bytes){path, length}))
                return 0;
        return sbx_error_set(err, -EINVAL, ORIGIN, NULL, "path: must be UTF-8 of %d to %u bytes", may_be_empty ? 0 : 1,
                             PATH_MAX_BYTES);
}

static int run_read(struct sbx_session *session, void *data, const struct sbx_call *call, struct sbx_error *err) {
        struct request *request = data;

        return sbx_guest_file_read(session->guest, request->path, request->max_bytes, call, request->out, err);
}

static int run_write(struct sbx_session *session, void *data, const struct sbx_call *call, struct sbx_error *err) {
        struct request *request = data;

        return sbx_guest_file_write(session->guest, request->path, request->content, call, err);
}

static int run_list(struct sbx_session *session, void *data, const struct sbx_call *call, struct sbx_error *err) {
        struct request *request = data;

        json_decref(request->list); /* of an attempt that did not end well */
        request->list = NULL;
        return sbx_guest_file_list(session->guest, request->path, call, &request->list, &request->truncated, err);
}

/* ---- reading and writing ---- */

static int read_on(struct sbx_sessions *sessions, enum sbx_operation_on on, const char *principal, const char *id,
                   const char *path, size_t max_bytes, const struct sbx_call *call, struct sbx_buffer *out,
                   struct sbx_error *err) {
        struct request request = {.path = path, .max_bytes = max_bytes, .out = out};
        struct sbx_operation operation = {.principal = principal,
                                          .id = id,
                                          .on = on,
                                          .limit_ms = FILES_TIMEOUT_MS,
                                          .what = "a file was read",
                                          .run = run_read,
                                          .data = &request};
        size_t before = out->size;
        int r = check_path(path, false, err);

        if (max_bytes > SBX_SESSION_FILE_MAX)
                request.max_bytes = SBX_SESSION_FILE_MAX;
        if (r == 0)
                r = sbx_session_operate(sessions, &operation, call, err);
        if (r == 0)
                SBX_COUNT(sessions->metrics, file_bytes_out, out->size - before);
        return r;
}

int sbx_sessions_file_read(struct sbx_sessions *sessions, const char *principal, const char *id, const char *path,
                           size_t max_bytes, const struct sbx_call *call, struct sbx_buffer *out,
                           struct sbx_error *err) {
        return read_on(sessions, SBX_ON_ANY, principal, id, path, max_bytes, call, out, err);
}

int sbx_sessions_file_read_running(struct sbx_sessions *sessions, const char *principal, const char *id,
                                   const char *path, size_t max_bytes, const struct sbx_call *call,
                                   struct sbx_buffer *out, struct sbx_error *err) {
        return read_on(sessions, SBX_ON_RUNNING, principal, id, path, max_bytes, call, out, err);
}

int sbx_sessions_file_write(struct sbx_sessions *sessions, const char *principal, const char *id, const char *path,
                            struct sbx_bytes content, const struct sbx_call *call, struct sbx_error *err) {
        struct request request = {.path = path, .content = content};
        struct sbx_operation operation = {.principal = principal,
                                          .id = id,
                                          .limit_ms = FILES_TIMEOUT_MS,
                                          .changes = true,
                                          .what = "a file was written",
                                          .run = run_write,
                                          .data = &request};
        int r = check_path(path, false, err);

        if (r == 0 && content.size > SBX_SESSION_FILE_MAX)
                r = sbx_error_set(err, -EFBIG, ORIGIN, "Write it in parts, and put them together with code.",
                                  "'%s' would have %zu bytes; at most %zu can be written at once", path, content.size,
                                  SBX_SESSION_FILE_MAX);
        if (r < 0)
                return r;
        r = sbx_session_operate(sessions, &operation, call, err);
        sbx_session_tell(sessions, principal, id); /* one that failed may have left a part */
        if (r == 0)
                SBX_COUNT(sessions->metrics, file_bytes_in, content.size);
        return r;
}

/* ---- listing ---- */

static const char *path_of(const json_t *entry) {
        return json_string_value(json_object_get(entry, "path"));
}

static int compare_paths(const void *left, const void *right) {
        return strcmp(path_of(*(json_t *const *)left), path_of(*(json_t *const *)right));
}

/* The order is the host's: a guest may send what it likes. */
static int sort_list(const json_t *list, json_t **ret_sorted) {
        _cleanup_json_ json_t *sorted = json_array();
        size_t count = json_array_size(list);
        _cleanup_free_ json_t **entries = calloc(count + 1, sizeof(*entries));

        if (sorted == NULL || entries == NULL)
                return -ENOMEM;
        for (size_t i = 0; i < count; i++)
                entries[i] = json_array_get(list, i);
        qsort(entries, count, sizeof(*entries), compare_paths);
        for (size_t i = 0; i < count; i++)
                if (json_array_append(sorted, entries[i]) < 0)
                        return -ENOMEM;
        *ret_sorted = steal_pointer(sorted);
        return 0;
}

static int list_on(struct sbx_sessions *sessions, enum sbx_operation_on on, const char *principal, const char *id,
                   const char *path, const struct sbx_call *call, json_t **ret_list, bool *ret_truncated,
                   struct sbx_error *err) {
        struct request request = {.path = path};
        struct sbx_operation operation = {.principal = principal,
                                          .id = id,
                                          .on = on,
                                          .limit_ms = on == SBX_ON_IDLE ? LOOK_TIMEOUT_MS : FILES_TIMEOUT_MS,
                                          .what = "its files were listed",
                                          .run = run_list,
                                          .data = &request};
        int r = check_path(path, true, err);

        if (r == 0)
                r = sbx_session_operate(sessions, &operation, call, err);
        if (r == 0 && sort_list(request.list, ret_list) < 0)
                r = SBX_NOMEM(err, ORIGIN);
        json_decref(request.list);
        if (r == 0 && ret_truncated != NULL)
                *ret_truncated = request.truncated;
        return r;
}

int sbx_sessions_file_list(struct sbx_sessions *sessions, const char *principal, const char *id, const char *path,
                           const struct sbx_call *call, json_t **ret_list, bool *ret_truncated, struct sbx_error *err) {
        return list_on(sessions, SBX_ON_ANY, principal, id, path, call, ret_list, ret_truncated, err);
}

int sbx_sessions_file_list_idle(struct sbx_sessions *sessions, const char *principal, const char *id, const char *path,
                                const struct sbx_call *call, json_t **ret_list, bool *ret_truncated,
                                struct sbx_error *err) {
        return list_on(sessions, SBX_ON_IDLE, principal, id, path, call, ret_list, ret_truncated, err);
}

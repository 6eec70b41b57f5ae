/* SPDX-License-Identifier: Apache-2.0 */
/* upload_file, download_file, list_files: files of a session's workspace, for clients. */
#include "tools/builtin.h"

#include <time.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "base/mime.h"
#include "session/uri.h"
#include "tools/content.h"

#define ORIGIN "tools"
#define LIST_TEXT_MAX (29u * 1024u) /* bytes of the list's JSON, so that its text is never cut */

/* ---- arguments ---- */

struct place {
        const char *session_id;
        char path[SBX_SESSION_PATH_MAX + 1];
};

static int get_place(json_t *arguments, bool may_be_empty, struct place *ret_place, struct sbx_error *err) {
        const char *path = "";
        int r = sbx_builtin_session_id(arguments, &ret_place->session_id, err);

        if (r == 0)
                r = sbx_json_get_string(arguments, "arguments", "path", may_be_empty ? 0 : SBX_JSON_REQUIRED, &path,
                                        err);
        if (r == 0 && path[0] == '\0' && !may_be_empty)
                return sbx_error_set(err, -EINVAL, ORIGIN, NULL, "No path provided");
        if (r == 0)
                r = sbx_session_path(path, may_be_empty, ret_place->path, err);
        if (r < 0)
                sbx_error_wrap(err, "arguments");
        return r;
}

static int add_link(json_t *result, const struct place *place, const char *mime_type, size_t size) {
        _cleanup_buffer_ struct sbx_buffer uri = SBX_BUFFER(SBX_SESSION_URI_MAX);
        const char *slash = strrchr(place->path, '/');

        if (sbx_session_uri(place->session_id, SBX_AREA_FILES, place->path, &uri) < 0)
                return -ENOMEM;
        return sbx_content_add_link(result, &(struct sbx_content_link){.uri = uri.data,
                                                                       .name = slash != NULL ? slash + 1 : place->path,
                                                                       .mime_type = mime_type,
                                                                       .size = size});
}

static int finish(int r, json_t **result, json_t **ret_result, struct sbx_error *err) {
        if (r < 0)
                return SBX_NOMEM(err, ORIGIN);
        *ret_result = steal_pointer(*result);
        return 0;
}

/* ---- upload ---- */

static int decode_content(struct sbx_bytes base64, struct sbx_buffer *out, struct sbx_error *err) {
        size_t position = 0;
        int r = sbx_base64_decode(base64, out, &position);

        if (r == -EINVAL && position < base64.size)
                return sbx_error_set(err, r, ORIGIN, "Use the alphabet A-Z a-z 0-9 + / and = at the end, nothing else.",
                                     "arguments.content_base64: character %zu is not base64", position + 1);
        if (r == -EINVAL)
                return sbx_error_set(err, r, ORIGIN, "Pad it with =, and leave no spaces or line breaks in it.",
                                     "arguments.content_base64: %zu characters are no whole groups of 4", base64.size);
        return r < 0 ? sbx_error_set(err, r, ORIGIN, NULL, "arguments.content_base64: %s", SBX_ERRNO_TEXT(r)) : 0;
}

static int check_size(size_t size, struct sbx_error *err) {
        if (size <= SBX_SESSION_FILE_MAX)
                return 0;
        return sbx_error_set(err, -EFBIG, ORIGIN, "Upload it in parts, and let execute_python put them together.",
                             "the content has %zu bytes; at most %zu are taken", size, SBX_SESSION_FILE_MAX);
}

/* The bytes to write: `*ret_content` is borrowed from the arguments, or from `decoded`. */
static int get_content(json_t *arguments, struct sbx_buffer *decoded, struct sbx_bytes *ret_content,
                       struct sbx_error *err) {
        struct sbx_bytes text = {0}, base64 = {0};
        bool has_text = json_object_get(arguments, "content") != NULL;
        bool has_base64 = json_object_get(arguments, "content_base64") != NULL;
        int r = sbx_json_get_text(arguments, "arguments", "content", 0, &text, err);

        if (r == 0)
                r = sbx_json_get_text(arguments, "arguments", "content_base64", 0, &base64, err);
        if (r < 0)
                return r;
        if (has_text == has_base64)
                return sbx_error_set(err, -EINVAL, ORIGIN, NULL,
                                     "arguments: give either content (text) or content_base64 (anything)%s",
                                     has_text ? ", not both" : "");
        r = check_size(has_text ? text.size : base64.size / 4 * 3 > 2 ? base64.size / 4 * 3 - 2 : 0, err);
        if (r == 0 && has_base64)
                r = decode_content(base64, decoded, err);
        if (r < 0)
                return r;
        *ret_content = has_text ? text : sbx_buffer_bytes(decoded);
        return check_size(ret_content->size, err);
}

SBX_BUILTIN(sbx_builtin_upload_file) {
        _cleanup_buffer_ struct sbx_buffer decoded = SBX_BUFFER(SBX_SESSION_FILE_MAX + 4);
        _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(4096);
        _cleanup_json_ json_t *result = NULL;
        struct place place = {0};
        struct sbx_bytes content = {0};
        int r = get_place(arguments, false, &place, err);

        if (r == 0)
                r = get_content(arguments, &decoded, &content, err);
        if (r == 0)
                r = sbx_sessions_file_write(context->data, context->principal, place.session_id, place.path, content,
                                            context->call, err);
        if (r < 0)
                return r;
        r = sbx_buffer_printf(&text, "Wrote %zu bytes to %s in the workspace of session '%s'", content.size, place.path,
                              place.session_id);
        if (r == 0)
                result = sbx_content_text(false, text.data);
        r = result != NULL ? add_link(result, &place, sbx_mime_of(place.path, content), content.size) : -ENOMEM;
        return finish(r, &result, ret_result, err);
}

/* ---- download ---- */

/* Too large to be shown: the text says what comes, for clients that do not show it. */
static int add_embedded(json_t *result, const struct place *place, const char *mime_type, struct sbx_bytes content) {
        _cleanup_buffer_ struct sbx_buffer uri = SBX_BUFFER(SBX_SESSION_URI_MAX);
        _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(4096);
        int r = sbx_session_uri(place->session_id, SBX_AREA_FILES, place->path, &uri);

        if (r == 0)
                r = sbx_buffer_printf(&text, "%s: %s, %zu bytes, attached as a resource", place->path, mime_type,
                                      content.size);
        if (r == 0)
                r = sbx_content_add_text(result, sbx_buffer_bytes(&text));
        return r < 0 ? r : sbx_content_add_blob(result, uri.data, mime_type, content);
}

static int add_content(json_t *result, const struct place *place, struct sbx_bytes content) {
        const char *mime_type = sbx_mime_of(place->path, content), *image = sbx_mime_image(content);
        _cleanup_buffer_ struct sbx_buffer base64 = SBX_BUFFER(SIZE_MAX / 2);
        int r;

        if (content.size == 0) {
                r = sbx_content_add_text(result, (struct sbx_bytes){"(the file is empty)", 19});
        } else if (image != NULL && content.size <= SBX_BUILTIN_IMAGE_MAX) {
                r = sbx_base64_encode(content, &base64);
                if (r == 0)
                        r = sbx_content_add_image(result, image, sbx_buffer_bytes(&base64));
        } else if (sbx_mime_is_text(content) && !sbx_text_is_longer(content, SBX_BUILTIN_TEXT_MAX)) {
                r = sbx_content_add_text(result, content);
        } else {
                r = add_embedded(result, place, mime_type, content);
        }
        return r < 0 ? r : add_link(result, place, mime_type, content.size);
}

SBX_BUILTIN(sbx_builtin_download_file) {
        _cleanup_buffer_ struct sbx_buffer content = SBX_BUFFER(SBX_BUILTIN_DOWNLOAD_MAX);
        _cleanup_json_ json_t *result = sbx_content_new(false);
        struct sbx_error problem = {0};
        struct place place = {0};
        int r = get_place(arguments, false, &place, err);

        if (r < 0)
                return r;
        r = sbx_sessions_file_read(context->data, context->principal, place.session_id, place.path,
                                   SBX_BUILTIN_DOWNLOAD_MAX, context->call, &content, &problem);
        if (r == -EFBIG)
                return sbx_error_set(err, r, ORIGIN,
                                     "Let execute_python read a part of it (open, seek, read), or write it as several "
                                     "smaller files.",
                                     "'%s' is larger than %zu bytes, the most that can be downloaded at once",
                                     place.path, SBX_BUILTIN_DOWNLOAD_MAX);
        if (r < 0) {
                *err = problem;
                return r;
        }
        r = result != NULL ? add_content(result, &place, sbx_buffer_bytes(&content)) : -ENOMEM;
        return finish(r, &result, ret_result, err);
}

/* ---- list ---- */

static json_t *describe(const json_t *file) {
        time_t seconds = (time_t)(json_integer_value(json_object_get(file, "mtime_ms")) / 1000);
        char modified[40] = "";
        struct tm utc;

        /* What the guest says may be no time at all. */
        if (gmtime_r(&seconds, &utc) == NULL || utc.tm_year < -1900 || utc.tm_year > 8099 ||
            strftime(modified, sizeof(modified), "%Y-%m-%dT%H:%M:%SZ", &utc) == 0)
                modified[0] = '\0';
        return json_pack("{s:O, s:O, s:O, s:s*}", "path", json_object_get(file, "path"), "type",
                         json_object_get(file, "type"), "size", json_object_get(file, "size"), "modified",
                         modified[0] != '\0' ? modified : NULL);
}

/* As many as the text has room for. */
static int add_files(const json_t *list, json_t *files, bool *ret_truncated) {
        size_t room = LIST_TEXT_MAX;

        for (size_t i = 0; i < json_array_size(list); i++) {
                _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(SIZE_MAX / 2);
                _cleanup_json_ json_t *entry = describe(json_array_get(list, i));

                if (entry == NULL || sbx_json_encode(entry, &text) < 0)
                        return -ENOMEM;
                if (text.size + 1 > room) {
                        *ret_truncated = true;
                        return 0;
                }
                room -= text.size + 1;
                if (json_array_append(files, entry) < 0)
                        return -ENOMEM;
        }
        return 0;
}

SBX_BUILTIN(sbx_builtin_list_files) {
        _cleanup_json_ json_t *list = NULL, *files = json_array(), *report = NULL;
        _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(SIZE_MAX / 2);
        struct place place = {0};
        bool truncated = false;
        int r = get_place(arguments, true, &place, err);

        if (r == 0)
                r = sbx_sessions_file_list(context->data, context->principal, place.session_id, place.path,
                                           context->call, &list, &truncated, err);
        if (r < 0)
                return r;
        if (files == NULL || add_files(list, files, &truncated) < 0)
                return SBX_NOMEM(err, ORIGIN);
        report = json_pack("{s:s, s:s, s:O, s:I, s:b, s:s*}", "session_id", place.session_id, "path", place.path,
                           "files", files, "count", (json_int_t)json_array_size(files), "truncated", (int)truncated,
                           "hint", truncated ? "There is more: give the path of a directory." : NULL);
        if (report == NULL || sbx_json_encode(report, &text) < 0)
                return SBX_NOMEM(err, ORIGIN);
        return sbx_builtin_text(false, text.data, ret_result, err);
}

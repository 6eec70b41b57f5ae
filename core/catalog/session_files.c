/* SPDX-License-Identifier: Apache-2.0 */
/* The resources of sessions: the files of their workspaces, and their artifacts. Who lists them waits for no execution,
 * starts nothing, and keeps no session alive. */
#include "catalog/catalog.h"

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/mime.h"
#include "catalog/complete.h"
#include "session/session.h"
#include "session/uri.h"

#define ORIGIN "resources"
#define FILES_TEMPLATE "repl://{session}/files/{+path}"
#define ARTIFACTS_TEMPLATE "repl://{session}/artifacts/{name}"
#define FILES_OF_SESSION_MAX 1000u
#define RESOURCES_MAX 5000u
#define LIST_TIMEOUT_MS UINT64_C(10000) /* of all guests together */
#define READ_MAX ((size_t)8 << 20)

/* ---- templates ---- */

static int templates(void *data, json_t **ret_list, struct sbx_error *err) {
        *ret_list = json_pack(
                "[{s:s, s:s, s:s, s:s}, {s:s, s:s, s:s, s:s}]", "uriTemplate", FILES_TEMPLATE, "name", "session-files",
                "title", "Files of a session", "description",
                "A file in the workspace of a session: what its code wrote, or upload_file put there. `path` is "
                "relative "
                "to the workspace. The session must be running.",
                "uriTemplate", ARTIFACTS_TEMPLATE, "name", "session-artifacts", "title", "Artifacts of a session",
                "description",
                "Output, images and other displays that executions made, as results of execute_python link to them. A "
                "session keeps its latest 64, of at most 32 MiB together, until it ends.");
        return *ret_list != NULL ? 0 : SBX_NOMEM(err, ORIGIN);
}

/* ---- the list ---- */

struct listing {
        struct sbx_sessions *sessions;
        const char *principal;
        struct sbx_call call;
        json_t *resources;
};

/* People and logs get to see a name: not one with control characters, or longer than a line. */
static bool is_presentable(const char *name) {
        size_t length = strlen(name);

        for (size_t i = 0; i < length; i++)
                if ((unsigned char)name[i] < 0x20 || name[i] == 0x7F)
                        return false;
        return length <= 256;
}

static int add_resource(struct listing *listing, const char *id, enum sbx_session_area area, const char *path,
                        const char *mime_type, const json_t *size) {
        _cleanup_buffer_ struct sbx_buffer uri = SBX_BUFFER(SBX_SESSION_URI_MAX);
        const char *name = path;

        if (json_array_size(listing->resources) >= RESOURCES_MAX ||
            sbx_session_uri(id, area, path, &uri) == -EFBIG) /* no address that could be asked for */
                return 0;
        if (!is_presentable(name))
                name = uri.size <= 256 ? uri.data : "(a long name)";
        return json_array_append_new(listing->resources, json_pack("{s:s, s:s, s:s*, s:O}", "uri", uri.data, "name",
                                                                   name, "mimeType", mime_type, "size", size)) < 0
                       ? -ENOMEM
                       : 0;
}

static int add_artifacts(struct listing *listing, const char *id) {
        _cleanup_json_ json_t *list = NULL;
        json_t *artifact;
        size_t index;
        int r = sbx_sessions_artifact_list(listing->sessions, listing->principal, id, &list, NULL);

        if (r < 0)
                return r == -ENOENT ? 0 : r;
        json_array_foreach (list, index, artifact) {
                r = add_resource(listing, id, SBX_AREA_ARTIFACTS, json_string_value(json_object_get(artifact, "name")),
                                 json_string_value(json_object_get(artifact, "mime_type")),
                                 json_object_get(artifact, "size"));
                if (r < 0)
                        return r;
        }
        return 0;
}

/* Of a guest, which may have sent any path: only one that means a file in the workspace becomes a resource. */
static int add_files(struct listing *listing, const char *id) {
        _cleanup_json_ json_t *list = NULL;
        unsigned count = 0;
        json_t *file;
        size_t index;
        int r = sbx_sessions_file_list_idle(listing->sessions, listing->principal, id, "", &listing->call, &list, NULL,
                                            NULL);

        if (r < 0)
                return r == -ENOMEM || r == -ECANCELED ? r : 0; /* busy, ended, or a guest with troubles of its own */
        json_array_foreach (list, index, file) {
                const char *path = json_string_value(json_object_get(file, "path"));
                char plain[SBX_SESSION_PATH_MAX + 1];

                if (strcmp(json_string_value(json_object_get(file, "type")), "file") != 0 ||
                    sbx_session_path(path, false, plain, NULL) < 0)
                        continue;
                if (++count > FILES_OF_SESSION_MAX)
                        break;
                r = add_resource(listing, id, SBX_AREA_FILES, plain, sbx_mime_of_name(plain),
                                 json_object_get(file, "size"));
                if (r < 0)
                        return r;
        }
        return 0;
}

static int list_all(struct listing *listing, struct sbx_error *err) {
        _cleanup_json_ json_t *list = NULL;
        json_t *session;
        size_t index;
        int r = sbx_sessions_list(listing->sessions, listing->principal, &list, err);

        if (r < 0)
                return r;
        json_array_foreach (list, index, session) {
                const char *id = json_string_value(json_object_get(session, "id"));

                r = add_artifacts(listing, id);
                if (r == 0 && json_is_string(json_object_get(session, "isolation")) &&
                    !json_is_true(json_object_get(session, "busy")))
                        r = add_files(listing, id);
                if (r < 0)
                        return sbx_error_set(err, r, ORIGIN, NULL, "the list of resources: %s", SBX_ERRNO_TEXT(r));
        }
        return 0;
}

static int list_resources(struct sbx_sessions *sessions, const struct sbx_request *request, const struct sbx_call *call,
                          json_t **ret_result, struct sbx_error *err) {
        uint64_t latest_ns = sbx_clock_deadline_ms(LIST_TIMEOUT_MS);
        struct listing listing = {.sessions = sessions,
                                  .principal = request->principal,
                                  .call = {.struct_size = sizeof(listing.call), .cancel_fd = -1},
                                  .resources = json_array()};
        int r;

        if (listing.resources == NULL)
                return SBX_NOMEM(err, ORIGIN);
        if (call != NULL)
                listing.call = *call;
        if (listing.call.deadline_ns == 0 || listing.call.deadline_ns > latest_ns)
                listing.call.deadline_ns = latest_ns;
        r = list_all(&listing, err);
        if (r == 0) {
                *ret_result = json_pack("{s:O}", "resources", listing.resources);
                r = *ret_result != NULL ? 0 : SBX_NOMEM(err, ORIGIN);
        }
        json_decref(listing.resources);
        return r;
}

/* ---- reading ---- */

static int make_contents(const char *uri, const char *mime_type, struct sbx_bytes content, json_t **ret_result,
                         struct sbx_error *err) {
        _cleanup_buffer_ struct sbx_buffer base64 = SBX_BUFFER(SIZE_MAX / 2);
        bool text = sbx_mime_is_text(content);
        json_t *body = NULL;

        if (text)
                body = json_stringn(content.size > 0 ? content.data : "", content.size);
        else if (sbx_base64_encode(content, &base64) == 0)
                body = json_stringn_nocheck(base64.data, base64.size);
        *ret_result = json_pack("{s:[{s:s, s:s, s:o}]}", "contents", "uri", uri, "mimeType", mime_type,
                                text ? "text" : "blob", body);
        return *ret_result != NULL ? 0 : SBX_NOMEM(err, ORIGIN);
}

/* What the guest can't give because of what the path is, is no resource. */
static bool is_no_file(int r) {
        return r == -ENOENT || r == -EISDIR || r == -ENOTDIR || r == -EINVAL || r == -EACCES || r == -EPERM ||
               r == -ELOOP || r == -ENAMETOOLONG || r == -ENXIO;
}

static int read_file(struct sbx_sessions *sessions, const struct sbx_request *request,
                     const struct sbx_session_address *address, const struct sbx_call *call, json_t **ret_result,
                     struct sbx_error *err) {
        _cleanup_buffer_ struct sbx_buffer content = SBX_BUFFER(READ_MAX);
        struct sbx_error problem = {0};
        int r = sbx_sessions_file_read_running(sessions, request->principal, address->id, address->path, READ_MAX, call,
                                               &content, &problem);

        if (r == 0)
                return make_contents(request->name, sbx_mime_of(address->path, sbx_buffer_bytes(&content)),
                                     sbx_buffer_bytes(&content), ret_result, err);
        if (is_no_file(r))
                return sbx_error_set(err, -ENOENT, ORIGIN, "resources/list shows those that can be read.",
                                     "there is no resource '%.200s': %s", request->name, problem.message);
        if (r == -EFBIG)
                return sbx_error_set(
                        err, r, ORIGIN, "Let execute_python read a part of it, or write it as several smaller files.",
                        "'%s' is larger than %zu bytes, the most that can be read at once", address->path, READ_MAX);
        if (err != NULL)
                *err = problem;
        return r;
}

static int read_artifact(struct sbx_sessions *sessions, const struct sbx_request *request,
                         const struct sbx_session_address *address, json_t **ret_result, struct sbx_error *err) {
        _cleanup_buffer_ struct sbx_buffer content = SBX_BUFFER(SBX_ARTIFACT_BYTES_MAX);
        _cleanup_free_ char *mime_type = NULL;
        int r = sbx_sessions_artifact_read(sessions, request->principal, address->id, address->path, &content,
                                           &mime_type, err);

        return r < 0 ? r : make_contents(request->name, mime_type, sbx_buffer_bytes(&content), ret_result, err);
}

static int read_resource(struct sbx_sessions *sessions, const struct sbx_request *request, const struct sbx_call *call,
                         json_t **ret_result, struct sbx_error *err) {
        struct sbx_session_address address = {0};
        int r = sbx_session_uri_parse(request->name, &address, err);

        if (r < 0)
                return r;
        return address.area == SBX_AREA_FILES ? read_file(sessions, request, &address, call, ret_result, err)
                                              : read_artifact(sessions, request, &address, ret_result, err);
}

/* ---- completions ---- */

static int complete_path(struct sbx_sessions *sessions, const char *principal, const char *id, const char *prefix,
                         const struct sbx_call *call, struct sbx_catalog_values *completion, struct sbx_error *err) {
        _cleanup_json_ json_t *list = NULL;
        json_t *file;
        size_t index;
        int r = sbx_sessions_file_list_idle(sessions, principal, id, "", call, &list, NULL, NULL);

        if (r < 0)
                return r == -ENOMEM || r == -ECANCELED ? sbx_error_set(err, r, ORIGIN, NULL, "%s", SBX_ERRNO_TEXT(r))
                                                       : 0;
        json_array_foreach (list, index, file) {
                const char *path = json_string_value(json_object_get(file, "path"));
                char plain[SBX_SESSION_PATH_MAX + 1];

                if (strcmp(json_string_value(json_object_get(file, "type")), "file") == 0 &&
                    sbx_session_path(path, false, plain, NULL) == 0 &&
                    sbx_catalog_values_offer(completion, plain, prefix) < 0)
                        return SBX_NOMEM(err, ORIGIN);
        }
        return 0;
}

static int complete_name(struct sbx_sessions *sessions, const char *principal, const char *id, const char *prefix,
                         struct sbx_catalog_values *completion, struct sbx_error *err) {
        _cleanup_json_ json_t *list = NULL;
        json_t *artifact;
        size_t index;
        int r = sbx_sessions_artifact_list(sessions, principal, id, &list, NULL);

        if (r < 0)
                return r == -ENOENT ? 0 : SBX_NOMEM(err, ORIGIN);
        json_array_foreach (list, index, artifact)
                if (sbx_catalog_values_offer(completion, json_string_value(json_object_get(artifact, "name")), prefix) <
                    0)
                        return SBX_NOMEM(err, ORIGIN);
        return 0;
}

static int complete(struct sbx_sessions *sessions, const struct sbx_request *request, json_t *arguments,
                    const struct sbx_call *call, json_t **ret_result, struct sbx_error *err) {
        const json_t *ref = json_object_get(arguments, "ref"), *argument = json_object_get(arguments, "argument"),
                     *given = json_object_get(json_object_get(arguments, "context"), "arguments");
        const char *uri = json_string_value(json_object_get(ref, "uri"));
        const char *name = json_string_value(json_object_get(argument, "name"));
        const char *prefix = json_string_value(json_object_get(argument, "value"));
        const char *id = json_string_value(json_object_get(given, "session"));
        _cleanup_completion_ struct sbx_catalog_values completion = {0};
        bool files = uri != NULL && strcmp(uri, FILES_TEMPLATE) == 0;
        int r = 0;

        if (name == NULL || prefix == NULL || (!files && (uri == NULL || strcmp(uri, ARTIFACTS_TEMPLATE) != 0)))
                return -ENOENT;
        if (strcmp(name, "session") == 0)
                r = sbx_complete_sessions(sessions, request->principal, prefix, &completion, err);
        else if (id != NULL && files && strcmp(name, "path") == 0)
                r = complete_path(sessions, request->principal, id, prefix, call, &completion, err);
        else if (id != NULL && !files && strcmp(name, "name") == 0)
                r = complete_name(sessions, request->principal, id, prefix, &completion, err);
        return r < 0 ? r : sbx_catalog_values_result(&completion, ret_result, err);
}

/* ---- the part ---- */

static int answer(void *data, const struct sbx_request *request, json_t *arguments, const struct sbx_client *client,
                  const struct sbx_call *call, json_t **ret_result, struct sbx_error *err) {
        switch (request->kind) {
        case SBX_REQUEST_RESOURCES:
                return list_resources(data, request, call, ret_result, err);
        case SBX_REQUEST_READ:
                return read_resource(data, request, call, ret_result, err);
        case SBX_REQUEST_COMPLETION:
                return complete(data, request, arguments, call, ret_result, err);
        default:
                return -ENOENT;
        }
}

int sbx_catalog_add_sessions(struct sbx_catalog *catalog, struct sbx_sessions *sessions, struct sbx_error *err) {
        const struct sbx_catalog_part part = {
                .name = "sessions", .data = sessions, .templates = templates, .request = answer};

        return sbx_catalog_add(catalog, &part, err);
}

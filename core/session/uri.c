/* SPDX-License-Identifier: Apache-2.0 */
/* The addresses of a session's resources, and the paths of a workspace. */
#include "session/uri.h"

#include <string.h>

#include "base/error.h"
#include "base/utf8.h"

#define ORIGIN "session"
#define SCHEME "repl://"

static const char *const areas[] = {[SBX_AREA_FILES] = "/files/", [SBX_AREA_ARTIFACTS] = "/artifacts/"};

/* ---- making ---- */

static bool is_unreserved(char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
               c == '_' || c == '~';
}

static int add_encoded(const char *text, bool keep_slashes, struct sbx_buffer *out) {
        static const char digits[] = "0123456789ABCDEF";
        int r = 0;

        for (; *text != '\0' && r == 0; text++) {
                unsigned char byte = (unsigned char)*text;
                const char escape[3] = {'%', digits[byte >> 4], digits[byte & 15]};

                r = is_unreserved(*text) || (keep_slashes && *text == '/') ? sbx_buffer_append(out, text, 1)
                                                                           : sbx_buffer_append(out, escape, 3);
        }
        return r;
}

int sbx_session_uri(const char *id, enum sbx_session_area area, const char *path, struct sbx_buffer *out) {
        int r = sbx_buffer_append_text(out, SCHEME);

        if (r == 0)
                r = add_encoded(id, false, out);
        if (r == 0)
                r = sbx_buffer_append_text(out, path != NULL ? areas[area] : "/");
        return r < 0 || path == NULL ? r : add_encoded(path, true, out);
}

/* ---- taking apart ---- */

static int hex_value(char c) {
        if (c >= '0' && c <= '9')
                return c - '0';
        if (c >= 'a' && c <= 'f')
                return c - 'a' + 10;
        return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* `text`, up to `size` bytes of it, into `out` of `room` bytes and a NUL. */
static int decode(const char *text, size_t size, char *out, size_t room, const char *what, struct sbx_error *err) {
        size_t length = 0;

        for (size_t i = 0; i < size; i++) {
                char c = text[i];

                if (c == '%') {
                        int high = i + 2 < size ? hex_value(text[i + 1]) : -1;
                        int low = i + 2 < size ? hex_value(text[i + 2]) : -1;

                        if (high < 0 || low < 0 || (high == 0 && low == 0))
                                return sbx_error_set(err, -EINVAL, ORIGIN,
                                                     "Encode it as RFC 3986 says: %25 is a percent sign.",
                                                     "the %s in the URI has a bad escape at byte %zu", what, i + 1);
                        c = (char)(high << 4 | low);
                        i += 2;
                }
                if (length == room)
                        return sbx_error_set(err, -EINVAL, ORIGIN, NULL, "the %s in the URI is longer than %zu bytes",
                                             what, room);
                out[length++] = c;
        }
        out[length] = '\0';
        return 0;
}

/* A name is one that the host made: anything else can't be there. */
static int check_name(const char *name, struct sbx_error *err) {
        if (name[0] != '\0' && strchr(name, '/') == NULL)
                return 0;
        return sbx_error_set(err, -EINVAL, ORIGIN, NULL, "the URI names no artifact");
}

int sbx_session_uri_parse(const char *uri, struct sbx_session_address *ret_address, struct sbx_error *err) {
        struct sbx_session_address address = {.area = SBX_AREA_FILES};
        char raw[SBX_SESSION_PATH_MAX + 1];
        const char *id = uri + strlen(SCHEME), *slash, *rest = NULL;
        int r;

        slash = strncmp(uri, SCHEME, strlen(SCHEME)) == 0 ? strchr(id, '/') : NULL;
        for (unsigned i = 0; slash != NULL && i < sizeof(areas) / sizeof(areas[0]); i++)
                if (strncmp(slash, areas[i], strlen(areas[i])) == 0) {
                        address.area = (enum sbx_session_area)i;
                        rest = slash + strlen(areas[i]);
                }
        if (rest == NULL)
                return sbx_error_set(err, -ENOENT, ORIGIN,
                                     "Those of sessions are repl://SESSION/files/PATH and "
                                     "repl://SESSION/artifacts/NAME.",
                                     "there is no resource of this URI");
        r = decode(id, (size_t)(slash - id), address.id, sizeof(address.id) - 1, "session", err);
        if (r == 0)
                r = decode(rest, strlen(rest), raw, sizeof(raw) - 1, "path", err);
        if (r == 0 && address.id[0] == '\0')
                r = sbx_error_set(err, -EINVAL, ORIGIN, NULL, "the URI names no session");
        if (r == 0)
                r = sbx_session_path(raw, false, address.path, err);
        if (r == 0 && address.area == SBX_AREA_ARTIFACTS)
                r = check_name(address.path, err);
        if (r == 0)
                *ret_address = address;
        return r;
}

/* ---- paths ---- */

static int refuse_path(const char *why, struct sbx_error *err) {
        return sbx_error_set(err, -EINVAL, ORIGIN,
                             "Give a path relative to the session's workspace, such as data/table.csv; code of the "
                             "session can copy there what is elsewhere.",
                             "path: %s", why);
}

int sbx_session_path(const char *path, bool may_be_empty, char ret_path[SBX_SESSION_PATH_MAX + 1],
                     struct sbx_error *err) {
        char out[SBX_SESSION_PATH_MAX + 1];
        size_t length = 0;

        if (path[0] == '/')
                return refuse_path("it is absolute", err);
        if (strlen(path) > SBX_SESSION_PATH_MAX)
                return refuse_path("it is longer than 1024 bytes", err);
        if (!sbx_utf8_valid((struct sbx_bytes){path, strlen(path)}))
                return refuse_path("it is not UTF-8", err);
        while (*path != '\0') {
                size_t size = strcspn(path, "/");

                if (size == 2 && memcmp(path, "..", 2) == 0)
                        return refuse_path("'..' leads out of the workspace", err);
                if (size > 0 && !(size == 1 && path[0] == '.')) {
                        if (length > 0)
                                out[length++] = '/';
                        memcpy(out + length, path, size);
                        length += size;
                }
                path += size + (path[size] == '/');
        }
        out[length] = '\0';
        if (length == 0 && !may_be_empty)
                return refuse_path("it names no file", err);
        memcpy(ret_path, out, length + 1);
        return 0;
}

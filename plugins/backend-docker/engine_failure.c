/* SPDX-License-Identifier: Apache-2.0 */
/* Why an engine can't be had, or did not do what it was asked, and what to type next. */
#include <snipara-sandbox/utf8.h>

#include "engine_internal.h"

#define SAID_MAX 640
#define PATH_MAX_SHOWN 160

/* What an engine says may quote anybody: one line of valid text. */
static void repair(const char *data, size_t size, char *text, size_t capacity) {
        size_t used = 0, length;

        for (size_t i = 0; i < size; i += length) {
                unsigned char c = (unsigned char)data[i];
                const char *shown = data + i;
                size_t shown_size;

                length = sbx_utf8_length(data + i, size - i);
                shown_size = length;
                if (length == 0) {
                        length = 1;
                        shown = SBX_UTF8_REPLACEMENT;
                        shown_size = 3;
                } else if (c < 0x20 || c == 0x7F || (c == 0xC2 && (unsigned char)data[i + 1] < 0xA0)) {
                        shown = " ";
                        shown_size = 1;
                }
                if (used + shown_size >= capacity)
                        break;
                memcpy(text + used, shown, shown_size);
                used += shown_size;
        }
        while (used > 0 && text[used - 1] == ' ')
                used--;
        text[used] = '\0';
}

/* {"message": "..."}, or bare text. */
static void said(struct sbx_bytes body, char *text, size_t capacity) {
        _cleanup_json_ json_t *answer = body.size > 0 ? json_loadb(body.data, body.size, 0, NULL) : NULL;
        const json_t *message = json_object_get(answer, "message");

        if (json_is_string(message))
                repair(json_string_value(message), json_string_length(message), text, capacity);
        else
                repair(body.data, body.size, text, capacity);
        if (text[0] == '\0')
                snprintf(text, capacity, "%s", "(it gave no reason)");
}

static int code_of(unsigned status) {
        switch (status) {
        case 400:
                return -EINVAL;
        case 401:
        case 403:
        case 407:
                return -EACCES;
        case 404:
                return -ENOENT;
        case 409:
                return -EBUSY;
        default:
                return status >= 500 ? -EIO : -EPROTO;
        }
}

static const char *hint_of(const struct engine *engine, int code, const char *text) {
        bool podman = strcmp(engine->info.name, "podman") == 0;

        if (strcasestr(text, "no space left on device") != NULL || strcasestr(text, "disk quota exceeded") != NULL)
                return podman ? "Make room on the engine's disk: podman system df, then podman system prune."
                              : "Make room on the engine's disk: docker system df, then docker system prune.";
        if (strcasestr(text, "HTTP request to an HTTPS server") != NULL)
                return "The engine wants TLS: set tls.ca, tls.certificate and tls.key of backend-docker, or "
                       "DOCKER_TLS_VERIFY=1 and DOCKER_CERT_PATH.";
        switch (code) {
        case -EINVAL:
                return "The engine does not take an option of backend-docker: see its message, and type "
                       "snipara-sandbox plugins info backend-docker.";
        case -EACCES:
                return "Look at the engine's authorization plugins, and at the registry's credentials (docker login).";
        case -ENOENT:
                return "Type snipara-sandbox doctor, to see the engine and its images.";
        case -EBUSY:
                return "Try again in a moment; if it stays, type snipara-sandbox doctor.";
        default:
                return podman ? "Look at the engine's log: journalctl -u podman (rootless: journalctl --user -u podman)."
                              : "Look at the engine's log: journalctl -u docker (rootless: journalctl --user -u docker).";
        }
}

/* Without the query, and with ids as short as engines show them to people. */
static void shorten(const char *path, char *text, size_t capacity) {
        size_t size = strcspn(path, "?"), used = 0;

        for (size_t i = 0; i < size && used + 1 < capacity; i++) {
                size_t digits = i == 0 || path[i - 1] == '/' ? strspn(path + i, "0123456789abcdef") : 0;

                if (digits == 64 && used + 12 < capacity) {
                        memcpy(text + used, path + i, 12);
                        used += 12;
                        i += 63;
                } else
                        text[used++] = path[i];
        }
        text[used] = '\0';
}

int engine_refused(const struct engine *engine, const char *method, const char *path, unsigned status,
                   struct sbx_bytes body, struct sbx_error *err) {
        char text[SAID_MAX], shown[PATH_MAX_SHOWN];
        int code = code_of(status);

        shorten(path, shown, sizeof(shown));
        said(body, text, sizeof(text));
        return sbx_error_set(err, code, ENGINE_ORIGIN, hint_of(engine, code, text), "%s answered %u to %s %s: %s",
                             engine->info.name[0] != '\0' ? engine->info.name : engine->info.place.address, status,
                             method, shown, text);
}

/* A socket of the local engine, by its name. */
static const char *start_it(const struct engine_place *place) {
        bool rootless = strstr(place->found_by, "rootless") != NULL || strstr(place->address, "/user/") != NULL;

        if (strstr(place->address, "podman") != NULL)
                return rootless ? "Start it: systemctl --user start podman.socket"
                                : "Start it: sudo systemctl start podman.socket";
        if (strncmp(place->address, "tcp://", 6) == 0)
                return "Check that the engine runs and listens there (dockerd -H tcp://...), and the address and port.";
        return rootless ? "Start it: systemctl --user start docker" : "Start it: sudo systemctl start docker";
}

static const char *let_in(const struct engine_place *place) {
        if (strstr(place->address, "podman") != NULL)
                return "Use rootless Podman: systemctl --user start podman.socket";
        return "Join the socket's group: sudo usermod -aG docker $USER, then log in again (it is as good as root); or use "
               "a rootless engine.";
}

static const char *check_tls(const struct engine_place *place) {
        if (!place->tls)
                return "Check that an engine listens there; if it wants TLS: set tls.ca, tls.certificate and tls.key of "
                       "backend-docker, or DOCKER_TLS_VERIFY=1 and DOCKER_CERT_PATH.";
        return "Check tls.ca, tls.certificate and tls.key of backend-docker (or ca.pem, cert.pem and key.pem in "
               "DOCKER_CERT_PATH): the engine's certificate must name its host, and ours be signed by what it trusts.";
}

int engine_unreachable(const struct engine_place *place, int code, const struct sbx_error *cause,
                       struct sbx_error *err) {
        const char *hint = cause->hint;

        switch (code) {
        case -ENOENT:
        case -ECONNREFUSED:
                hint = start_it(place);
                break;
        case -EACCES:
                hint = let_in(place);
                break;
        case -ECONNRESET:
                hint = place->tls ? check_tls(place) : "Look whether the engine runs still: snipara-sandbox doctor.";
                break;
        case -EPROTO:
                hint = check_tls(place);
                break;
        case -EHOSTUNREACH:
                hint = "Check the name and the network: an engine is reached directly, without a proxy.";
                break;
        case -ETIMEDOUT:
                hint = "The engine hangs or is busy: look at its log, restart it, or allow more with the option timeout.";
                break;
        case -EFBIG:
                hint = "This is no engine, or one that misbehaves: look at its log.";
                break;
        case -ECANCELED:
                hint = "Ask again when it is wanted.";
                break;
        default:
                if (hint[0] == '\0')
                        hint = "Type snipara-sandbox doctor.";
        }
        return sbx_error_set(err, code, ENGINE_ORIGIN, hint, "%s: %s", place->found_by,
                             cause->message[0] != '\0' ? cause->message : strerror(-code));
}

/* Of an engine that was found: -ENOENT is what itself says of a container or an image. Whoever takes the one for the
 * other gives up sessions that could be kept, and believes removed what is not. */
int engine_away(const struct engine *engine, int code, const struct sbx_error *cause, struct sbx_error *err) {
        if (code == -ENOENT && engine->info.api_version[0] != '\0')
                code = -ECONNREFUSED;
        return engine_unreachable(&engine->info.place, code, cause, err);
}

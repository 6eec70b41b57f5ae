/* SPDX-License-Identifier: Apache-2.0 */
/* The displays of an execution in its result: a few images and texts inline, and links to all that the session keeps.
 */
#include "tools/render.h"

#include <string.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "base/mime.h"
#include "guest/result.h"
#include "session/uri.h"
#include "tools/content.h"

#define UNBOUNDED (SIZE_MAX / 2)
#define MIME_MAX 127u

/* ---- keeping ---- */

/* A type is what the guest says; it must at least look like one. */
static const char *good_type(const char *mime_type) {
        static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$&^_.+-/;=";
        size_t length = strlen(mime_type);
        const char *slash = strchr(mime_type, '/');

        if (length <= MIME_MAX && strspn(mime_type, allowed) == length && slash != NULL && slash != mime_type &&
            slash[1] != '\0')
                return mime_type;
        return "application/octet-stream";
}

static const char *extension_of(const char *mime_type) {
        static const struct {
                const char *type, *extension;
        } known[] = {{"image/png", ".png"},       {"image/jpeg", ".jpg"},    {"image/gif", ".gif"},
                     {"image/webp", ".webp"},     {"image/svg+xml", ".svg"}, {"text/html", ".html"},
                     {"text/markdown", ".md"},    {"text/latex", ".tex"},    {"application/json", ".json"},
                     {"application/pdf", ".pdf"}, {"text/csv", ".csv"},      {"audio/wav", ".wav"},
                     {"audio/mpeg", ".mp3"},      {"video/mp4", ".mp4"}};

        for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
                if (strcmp(known[i].type, mime_type) == 0)
                        return known[i].extension;
        return strncmp(mime_type, "text/", 5) == 0 ? ".txt" : ".bin";
}

int sbx_keep_add(struct sbx_keep *keep, const char *prefix, const char *mime_type, struct sbx_bytes bytes,
                 const char *description, json_t *content) {
        _cleanup_buffer_ struct sbx_buffer uri = SBX_BUFFER(SBX_SESSION_URI_MAX);
        const char *type = good_type(mime_type);
        char name[SBX_ARTIFACT_NAME_SIZE];
        int r;

        if (keep->links == SBX_RENDER_LINKS_MAX)
                return 1;
        r = sbx_sessions_artifact_add(keep->sessions, keep->principal, keep->session_id, prefix, extension_of(type),
                                      type, bytes, name, NULL);
        if (r < 0)
                return r == -ENOMEM ? r : 1;
        keep->links++;
        if (sbx_session_uri(keep->session_id, SBX_AREA_ARTIFACTS, name, &uri) < 0)
                return -ENOMEM;
        return sbx_content_add_link(content, &(struct sbx_content_link){.uri = uri.data,
                                                                        .name = name,
                                                                        .mime_type = type,
                                                                        .description = description,
                                                                        .size = bytes.size});
}

static int keep_base64(struct sbx_keep *keep, const char *prefix, const struct sbx_display *display,
                       const char *description, json_t *content) {
        _cleanup_buffer_ struct sbx_buffer bytes = SBX_BUFFER(UNBOUNDED);
        int r = sbx_base64_decode(display->data, &bytes, NULL);

        if (r < 0)
                return r == -ENOMEM ? r : 1;
        return sbx_keep_add(keep, prefix, display->mime_type, sbx_buffer_bytes(&bytes), description, content);
}

/* ---- showing ---- */

struct displays {
        struct sbx_keep *keep;
        json_t *content;
        unsigned images, texts;               /* shown */
        unsigned too_many, too_large, broken; /* not shown */
        unsigned linked;                      /* of those that are not shown whole */
};

static bool is_image(const char *mime_type) {
        return strcmp(mime_type, "image/png") == 0 || strcmp(mime_type, "image/jpeg") == 0 ||
               strcmp(mime_type, "image/gif") == 0 || strcmp(mime_type, "image/webp") == 0;
}

static bool is_text(const char *mime_type) {
        return strncmp(mime_type, "text/", 5) == 0 || strcmp(mime_type, "image/svg+xml") == 0 ||
               strcmp(mime_type, "application/json") == 0;
}

/* Do the first bytes say what the guest says? The whole is never decoded. */
static bool is_what_it_says(const struct sbx_display *display) {
        char bytes[12 + 1];
        struct sbx_buffer head = {.data = bytes, .capacity = sizeof(bytes), .max = sizeof(bytes) - 1};
        struct sbx_bytes begin = {display->data.data, display->data.size < 16 ? display->data.size : 16};
        const char *found = sbx_base64_decode(begin, &head, NULL) == 0 ? sbx_mime_image(sbx_buffer_bytes(&head)) : NULL;

        return found != NULL && strcmp(found, display->mime_type) == 0;
}

static int link_unshown(struct displays *seen, int r) {
        seen->linked += r == 0;
        return r < 0 ? r : 0;
}

static int add_image(const struct sbx_display *display, struct displays *seen) {
        bool shown = false;
        int r = 0;

        if (display->data.size / 4 * 3 > SBX_RENDER_IMAGE_BYTES_MAX)
                seen->too_large++;
        else if (seen->images == SBX_RENDER_IMAGES_MAX)
                seen->too_many++;
        else if (!is_what_it_says(display))
                seen->broken++;
        else
                shown = true;
        if (shown) {
                seen->images++;
                r = sbx_content_add_image(seen->content, display->mime_type, display->data);
        }
        if (r < 0 || seen->keep == NULL)
                return r;
        r = keep_base64(seen->keep, "plot", display,
                        shown ? "The image above, as a file." : "An image that is not shown.", seen->content);
        return shown ? (r < 0 ? r : 0) : link_unshown(seen, r);
}

static int add_text_display(const struct sbx_display *display, struct displays *seen) {
        bool shown = seen->texts < SBX_RENDER_TEXTS_MAX;
        _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(UNBOUNDED);
        int r = 0;

        if (shown) {
                seen->texts++;
                if (strcmp(display->mime_type, "text/plain") != 0)
                        r = sbx_buffer_printf(&text, "[%s]\n", display->mime_type);
                if (r == 0)
                        r = sbx_text_clip(display->data, SBX_RENDER_TEXT_MAX, &text);
                if (r == 0)
                        r = sbx_content_add_text(seen->content, sbx_buffer_bytes(&text));
        } else {
                seen->too_many++;
        }
        if (r < 0 || seen->keep == NULL || (shown && !sbx_text_is_longer(display->data, SBX_RENDER_TEXT_MAX)))
                return r;
        r = sbx_keep_add(seen->keep, "display", display->mime_type, display->data,
                         shown ? "The whole of what the text above shows a part of." : "A display that is not shown.",
                         seen->content);
        return shown ? (r < 0 ? r : 0) : link_unshown(seen, r);
}

static int add_other(const struct sbx_display *display, struct displays *seen) {
        seen->too_many++;
        if (seen->keep == NULL)
                return 0;
        if (sbx_result_is_text(display->mime_type))
                return link_unshown(seen, sbx_keep_add(seen->keep, "display", display->mime_type, display->data,
                                                       "A display that is not shown.", seen->content));
        return link_unshown(seen,
                            keep_base64(seen->keep, "display", display, "A display that is not shown.", seen->content));
}

/* ---- what is missing ---- */

static int add_note(const struct displays *seen, uint64_t dropped) {
        _cleanup_buffer_ struct sbx_buffer note = SBX_BUFFER(1024);
        int r = 0;

        if (seen->too_large > 0)
                r = sbx_buffer_printf(&note,
                                      "[%u image(s) larger than %zu kB not shown: make the figure smaller or lower "
                                      "its dpi]\n",
                                      seen->too_large, SBX_RENDER_IMAGE_BYTES_MAX / 1000);
        if (r == 0 && seen->broken > 0)
                r = sbx_buffer_printf(&note, "[%u image(s) not shown: the data is not of the type that it came as]\n",
                                      seen->broken);
        if (r == 0 && seen->too_many + dropped > 0)
                r = sbx_buffer_printf(&note,
                                      "[%llu display(s) not shown: at most %u images and %u texts are, and "
                                      "max_display_bytes of data]\n",
                                      (unsigned long long)(seen->too_many + dropped), SBX_RENDER_IMAGES_MAX,
                                      SBX_RENDER_TEXTS_MAX);
        if (r == 0 && seen->linked > 0)
                r = sbx_buffer_printf(&note, "[%u of what is not shown can be read as resources: see the links]\n",
                                      seen->linked);
        return r < 0 || note.size == 0 ? r : sbx_content_add_text(seen->content, sbx_buffer_bytes(&note));
}

int sbx_render_displays(const struct sbx_result *result, struct sbx_keep *keep, json_t *content) {
        struct displays seen = {.keep = keep, .content = content};
        int r = 0;

        for (size_t i = 0; i < result->display_count && r == 0; i++) {
                const struct sbx_display *display = &result->displays[i];

                if (is_image(display->mime_type))
                        r = add_image(display, &seen);
                else if (is_text(display->mime_type))
                        r = add_text_display(display, &seen);
                else
                        r = add_other(display, &seen);
        }
        return r < 0 ? r : add_note(&seen, result->display_dropped_count);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of content: a table of extensions, four signatures, and a test for text. */
#include "base/mime.h"

#include <string.h>
#include <strings.h>

#include "base/utf8.h"

const char *sbx_mime_image(struct sbx_bytes content) {
        const char *bytes = content.data;

        if (content.size >= 8 && memcmp(bytes, "\x89PNG\r\n\x1a\n", 8) == 0)
                return "image/png";
        if (content.size >= 3 && memcmp(bytes, "\xff\xd8\xff", 3) == 0)
                return "image/jpeg";
        if (content.size >= 6 && (memcmp(bytes, "GIF87a", 6) == 0 || memcmp(bytes, "GIF89a", 6) == 0))
                return "image/gif";
        if (content.size >= 12 && memcmp(bytes, "RIFF", 4) == 0 && memcmp(bytes + 8, "WEBP", 4) == 0)
                return "image/webp";
        return NULL;
}

const char *sbx_mime_of_name(const char *name) {
        static const struct {
                const char *extension, *type;
        } types[] = {
                {"csv", "text/csv"},
                {"css", "text/css"},
                {"gif", "image/gif"},
                {"gz", "application/gzip"},
                {"htm", "text/html"},
                {"html", "text/html"},
                {"ipynb", "application/x-ipynb+json"},
                {"jpeg", "image/jpeg"},
                {"jpg", "image/jpeg"},
                {"js", "text/javascript"},
                {"json", "application/json"},
                {"jsonl", "application/jsonl"},
                {"log", "text/plain"},
                {"md", "text/markdown"},
                {"mp3", "audio/mpeg"},
                {"mp4", "video/mp4"},
                {"parquet", "application/vnd.apache.parquet"},
                {"pdf", "application/pdf"},
                {"png", "image/png"},
                {"py", "text/x-python"},
                {"svg", "image/svg+xml"},
                {"tar", "application/x-tar"},
                {"toml", "application/toml"},
                {"tsv", "text/tab-separated-values"},
                {"txt", "text/plain"},
                {"wav", "audio/wav"},
                {"webp", "image/webp"},
                {"xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
                {"xml", "application/xml"},
                {"yaml", "application/yaml"},
                {"yml", "application/yaml"},
                {"zip", "application/zip"},
        };
        const char *slash = strrchr(name, '/'), *dot = strrchr(slash != NULL ? slash : name, '.');

        for (size_t i = 0; dot != NULL && i < sizeof(types) / sizeof(types[0]); i++)
                if (strcasecmp(dot + 1, types[i].extension) == 0)
                        return types[i].type;
        return NULL;
}

bool sbx_mime_is_text(struct sbx_bytes content) {
        return (content.size == 0 || memchr(content.data, '\0', content.size) == NULL) && sbx_utf8_valid(content);
}

const char *sbx_mime_of(const char *name, struct sbx_bytes content) {
        const char *image = sbx_mime_image(content), *named = sbx_mime_of_name(name);

        if (image != NULL)
                return image;
        if (named != NULL && (strncmp(named, "image/", 6) != 0 || strcmp(named, "image/svg+xml") == 0))
                return named;
        return sbx_mime_is_text(content) ? "text/plain" : "application/octet-stream";
}

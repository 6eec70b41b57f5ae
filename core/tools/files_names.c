/* SPDX-License-Identifier: Apache-2.0 */
/* Names of files: patterns, the names of secrets, and how long a text becomes in JSON. */
#include "tools/files.h"

#include <ctype.h>

/* ---- patterns ---- */

static bool is_continuation(char c) {
        return ((unsigned char)c & 0xC0) == 0x80;
}

/* Bytes of the character at `text`, which is not at its end. */
static size_t character_size(const char *text) {
        size_t size = 1;

        while (is_continuation(text[size]))
                size++;
        return size;
}

/* `[a-c]` and `[!a]` at the front of the pattern: its length, or 0 when it is not closed, and then a plain `[`. Ranges
 * are of ASCII; another character is looked for as it is. */
static size_t match_set(const char *pattern, size_t size, const char *name, size_t name_size, bool *ret_matches) {
        size_t at = 1, end;
        bool negated = at < size && (pattern[at] == '!' || pattern[at] == '^'), found = false;

        at += negated;
        for (end = at + 1; end < size && pattern[end] != ']';)
                end++;
        if (end >= size)
                return 0;
        while (at < end) {
                size_t length = 1;

                if (at + 2 < end && pattern[at + 1] == '-') {
                        found |= name_size == 1 && (unsigned char)pattern[at] <= (unsigned char)*name &&
                                 (unsigned char)*name <= (unsigned char)pattern[at + 2];
                        length = 3;
                } else {
                        while (at + length < end && is_continuation(pattern[at + length]))
                                length++;
                        found |= length == name_size && memcmp(pattern + at, name, length) == 0;
                }
                at += length;
        }
        *ret_matches = found != negated;
        return end + 1;
}

/* One character of the name against the front of the pattern: how much of the pattern it took, 0: none. */
static size_t match_one(const char *pattern, size_t size, const char *name, size_t name_size) {
        bool matched = false;
        size_t length;

        if (size == 0)
                return 0;
        if (*pattern == '?')
                return 1;
        if (*pattern == '[') {
                length = match_set(pattern, size, name, name_size, &matched);
                if (length > 0)
                        return matched ? length : 0;
        }
        return size >= name_size && memcmp(pattern, name, name_size) == 0 ? name_size : 0;
}

bool sbx_files_match(const char *pattern, size_t size, const char *name) {
        size_t at = 0, after_star = SIZE_MAX;
        const char *retry = NULL; /* where the last `*` may go on */

        while (*name != '\0') {
                size_t length = character_size(name), used;

                if (at < size && pattern[at] == '*') {
                        after_star = ++at;
                        retry = name;
                        continue;
                }
                used = match_one(pattern + at, size - at, name, length);
                if (used > 0) {
                        at += used;
                        name += length;
                        continue;
                }
                if (retry == NULL)
                        return false;
                retry += character_size(retry);
                name = retry;
                at = after_star;
        }
        while (at < size && pattern[at] == '*')
                at++;
        return at == size;
}

/* ---- secrets ---- */

/* Of the last component; in lower case. docs/tools.md lists them. */
static const char *const secret_files[] = {
        ".env",
        ".env.*",
        "*.env",
        ".envrc",
        "*.pem",
        "*.key",
        "*.p12",
        "*.pfx",
        "*.p8",
        "*.jks",
        "*.keystore",
        "*.kdbx",
        "*.ppk",
        "*.gpg",
        "id_rsa",
        "id_dsa",
        "id_ecdsa",
        "id_ed25519",
        "id_*_sk",
        ".netrc",
        "_netrc",
        ".npmrc",
        ".yarnrc.yml",
        ".pypirc",
        ".pgpass",
        ".my.cnf",
        ".htpasswd",
        ".git-credentials",
        ".dockercfg",
        ".boto",
        ".s3cfg",
        ".vault-token",
        "credentials",
        "credentials.json",
        "credentials.toml",
        "credentials.db",
        "application_default_credentials.json",
        "client_secret*.json",
        "service-account*.json",
        "service_account*.json",
        "*.tfstate",
        "*.tfstate.backup",
        "*.tfvars",
        "secrets.json",
        "secrets.toml",
        "secrets.yaml",
        "secrets.yml",
        "snipara-sandbox.cfg",
        "rlm.toml",
};
/* They are made to be shared. */
static const char *const shared_files[] = {
        ".env.example", ".env.sample", ".env.template", ".env.dist", "example.env", "sample.env", "template.env",
};
/* Of any component before the last, and of the last itself. */
static const char *const secret_directories[] = {
        ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".snipara", ".password-store", ".git",
};

static bool is_one_of(const char *const *patterns, size_t count, const char *name) {
        for (size_t i = 0; i < count; i++)
                if (sbx_files_match(patterns[i], strlen(patterns[i]), name))
                        return true;
        return false;
}
#define IS_ONE_OF(patterns, name) is_one_of(patterns, sizeof(patterns) / sizeof((patterns)[0]), name)

bool sbx_files_is_secret(const char *below) {
        while (*below != '\0') {
                char name[256];
                size_t size = strcspn(below, "/");
                bool last = below[size] == '\0';

                if (size >= sizeof(name))
                        return false; /* no file system has it */
                for (size_t i = 0; i < size; i++)
                        name[i] = (char)tolower((unsigned char)below[i]);
                name[size] = '\0';
                if (IS_ONE_OF(secret_directories, name))
                        return true;
                if (last && IS_ONE_OF(secret_files, name) && !IS_ONE_OF(shared_files, name))
                        return true;
                below += size + !last;
        }
        return false;
}

/* ---- JSON ---- */

size_t sbx_files_json_cost(struct sbx_bytes text, bool in_bytes) {
        const unsigned char *bytes = text.data;
        size_t cost = 0;

        for (size_t i = 0; i < text.size; i++) {
                unsigned char c = bytes[i];

                if (c == '"' || c == '\\' || c == '\n' || c == '\r' || c == '\t')
                        cost += 2;
                else if (c < 0x20)
                        cost += 6;
                else if (in_bytes || !is_continuation((char)c))
                        cost++;
        }
        return cost;
}

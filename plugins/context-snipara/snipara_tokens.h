/* SPDX-License-Identifier: Apache-2.0 */
/* The OAuth tokens that `snipara-mcp-login` leaves in ~/.snipara/tokens.json: reading the file, choosing one. The
 * command `snipara-status` is built with this file too. Pure functions but for the one that reads. */
#pragma once

#include <stdbool.h>

#include <snipara-sandbox/types.h>

#define SNIPARA_TOKENS_PATH ".snipara/tokens.json" /* below the home directory */
#define SNIPARA_TOKENS_MAX_BYTES ((size_t)1 << 20)
#define SNIPARA_TOKENS_MAX 1000u
#define SNIPARA_SECRET_MAX_BYTES 16384u
#define SNIPARA_SLUG_MAX_BYTES 128u

struct snipara_token {
        char *id;            /* key of the file's object: the project's id */
        char *slug;          /* the project's name in addresses: "project_slug", else "project_id", else the key */
        char *access;        /* secret */
        bool expires;        /* false: the file states no time that could be read */
        bool expiry_unknown; /* it states one that could not be read */
        int64_t expires_s;   /* seconds since 1970 */
};

struct snipara_tokens {
        struct snipara_token *items; /* in the order of the file */
        size_t count;
        size_t unusable; /* entries without an access token that could be sent */
};

/* What tells that a file is not the one that was read before. */
struct snipara_stamp {
        bool present;
        uint64_t device, inode, size;
        int64_t changed_ns, modified_ns;
        uint32_t mode;
};

/* A time in RFC 3339, or as Python's datetime.isoformat() writes it: without a zone it is in UTC. -EINVAL. */
int snipara_time_parse(const char *text, int64_t *ret_s);

/* A JSON object of {"<project id>": {"access_token", "project_slug", "project_id", "expires_at"}}. -EINVAL, -E2BIG,
 * -ENOMEM. No error shows anything of the text. */
int snipara_tokens_parse(struct sbx_bytes text, struct snipara_tokens *ret_tokens, struct sbx_error *err);
/* Reads a file that must be regular, owned by this user, not writable by everybody, and not too large. -ENOENT: there
 * is none, or it is empty of tokens; -EPERM, -EINVAL, -EFBIG, -errno. The stamp is set in any case. */
int snipara_tokens_load(const char *path, struct snipara_tokens *ret_tokens, struct snipara_stamp *ret_stamp,
                        struct sbx_error *err);
/* Wipes and frees; leaves it empty. */
void snipara_tokens_clear(struct snipara_tokens *tokens);

void snipara_stamp_take(const char *path, struct snipara_stamp *ret_stamp);
bool snipara_stamp_same(const struct snipara_stamp *a, const struct snipara_stamp *b);

/* Of `project` (its id, or its slug); NULL: the first that is valid at `now_s`, else the first at all. NULL: none. The
 * one that is returned may have expired. */
const struct snipara_token *snipara_tokens_choose(const struct snipara_tokens *tokens, const char *project,
                                                  int64_t now_s);
bool snipara_token_valid(const struct snipara_token *token, int64_t now_s);

/* Can be a part of an address: 1 to 128 of [A-Za-z0-9._-], and neither "." nor "..". */
bool snipara_slug_valid(const char *text);
/* Can be sent in a header: 1 to 16384 visible ASCII characters. */
bool snipara_secret_valid(const char *text);

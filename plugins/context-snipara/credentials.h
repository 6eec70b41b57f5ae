/* SPDX-License-Identifier: Apache-2.0 */
/* Which credential goes with a request: OAuth tokens of ~/.snipara/tokens.json, else an API key of the environment or
 * the configuration. Thread-safe. */
#pragma once

#include <stdbool.h>

#include <snipara-sandbox/plugin.h>

#include "snipara_tokens.h"

enum snipara_source { SNIPARA_OAUTH = 1, SNIPARA_ENVIRONMENT, SNIPARA_CONFIGURATION };

/* Copies, to be cleared by whoever got them. */
struct snipara_credential {
        enum snipara_source source;
        char *secret;
        char *slug; /* the project's part of the address */
        bool expires;
        int64_t expires_s;
};
void snipara_credential_clear(struct snipara_credential *credential);
#define _cleanup_credential_ __attribute__((cleanup(snipara_credential_clear)))
/* "the OAuth token of /home/u/.snipara/tokens.json": where a credential came from, never what it is. */
const char *snipara_source_name(enum snipara_source source);

struct snipara_credentials;
int snipara_credentials_new(const struct sbx_host *host, struct snipara_credentials **ret_credentials,
                            struct sbx_error *err);
void snipara_credentials_free(struct snipara_credentials *credentials);

/* The credential in force, after a look whether the file changed; `again`: reads it whatever it looks like.
 * -ENOENT: there is none; -EKEYEXPIRED: a token, but an old one, and no key; -EINVAL: a credential without a project,
 * or with one that can't be part of an address, or that can't be sent. */
int snipara_credentials_get(struct snipara_credentials *credentials, bool again,
                            struct snipara_credential *ret_credential, struct sbx_error *err);
/* Is there a token in the file that has not expired, whichever project it is for? Memory tools come with it. */
bool snipara_credentials_logged_in(struct snipara_credentials *credentials);
/* What is wrong with the tokens' file. 0, -ENOENT (there is none), or what snipara_tokens_load says. */
int snipara_credentials_file_problem(struct snipara_credentials *credentials, struct sbx_error *err);

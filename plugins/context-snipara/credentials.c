/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the credential of a request and keeps what was read of the tokens' file until that changes. */
#include "credentials.h"

#include <pthread.h>
#include <pwd.h>
#include <sys/stat.h>
#include <time.h>

#include "log.h"
#include "util.h"

struct snipara_credentials {
        const struct sbx_host *host;
        char *path;           /* NULL: no home directory */
        pthread_mutex_t lock; /* protects what follows */
        bool loaded;
        struct snipara_stamp stamp;
        struct snipara_tokens tokens;
        struct sbx_error problem; /* code 0: the file could be read; -ENOENT: there is none */
};

void snipara_credential_clear(struct snipara_credential *credential) {
        if (credential->secret != NULL)
                explicit_bzero(credential->secret, strlen(credential->secret));
        free(credential->secret);
        free(credential->slug);
        *credential = (struct snipara_credential){0};
}

const char *snipara_source_name(enum snipara_source source) {
        switch (source) {
        case SNIPARA_OAUTH:
                return "the OAuth token of ~/" SNIPARA_TOKENS_PATH;
        case SNIPARA_ENVIRONMENT:
                return "the API key of SNIPARA_API_KEY";
        default:
                return "the API key of the setting snipara_api_key";
        }
}

/* ---- the file -------------------------------------------------------------------------------------------- */

/* Below HOME, or below what the system has as the user's home. NULL: neither; or no memory. */
static char *find_path(const struct sbx_host *host) {
        const char *home = host->environment(host->self, "HOME");
        char buffer[4096], *path = NULL;
        struct passwd entry, *found = NULL;

        if ((home == NULL || home[0] != '/') && getpwuid_r(geteuid(), &entry, buffer, sizeof(buffer), &found) == 0 &&
            found != NULL)
                home = found->pw_dir;
        if (home == NULL || home[0] != '/')
                return NULL;
        return asprintf(&path, "%s/%s", home, SNIPARA_TOKENS_PATH) < 0 ? NULL : path;
}

/* Under the lock. What is odd about the file is told once for each state of it. */
static void load(struct snipara_credentials *credentials) {
        snipara_tokens_clear(&credentials->tokens);
        credentials->problem = (struct sbx_error){0};
        credentials->loaded = true;
        if (snipara_tokens_load(credentials->path, &credentials->tokens, &credentials->stamp, &credentials->problem) <
            0) {
                if (credentials->problem.code != -ENOENT)
                        snipara_log(credentials->host, SBX_LOG_WARNING, "%s. %s", credentials->problem.message,
                                    credentials->problem.hint);
                return;
        }
        if ((credentials->stamp.mode & S_IROTH) != 0)
                snipara_log(credentials->host, SBX_LOG_WARNING,
                            "%s can be read by every user of this machine (mode %03o): chmod 600 it, and log in again",
                            credentials->path, credentials->stamp.mode & 07777);
        if (credentials->tokens.unusable > 0)
                snipara_log(credentials->host, SBX_LOG_WARNING,
                            "%s: %zu entries without a usable access token are passed over", credentials->path,
                            credentials->tokens.unusable);
}

/* Under the lock. */
static void refresh(struct snipara_credentials *credentials, bool again) {
        struct snipara_stamp now = {0};

        if (credentials->path == NULL)
                return;
        snipara_stamp_take(credentials->path, &now);
        if (!credentials->loaded || again || !snipara_stamp_same(&now, &credentials->stamp))
                load(credentials);
}

/* ---- choosing -------------------------------------------------------------------------------------------- */

static const char *setting(const struct snipara_credentials *credentials, const char *name) {
        const struct sbx_host *host = credentials->host;
        const char *value = host->setting(host->self, name);

        return value != NULL && value[0] != '\0' ? value : NULL;
}

/* The setting holds what flag, environment, .env or file say, in that order; the variable is for a host that keeps the
 * environment out of its settings. */
static const char *find_key(const struct snipara_credentials *credentials, enum snipara_source *ret_source) {
        const struct sbx_host *host = credentials->host;
        const char *variable = host->environment(host->self, "SNIPARA_API_KEY");
        const char *key = setting(credentials, "snipara_api_key");

        if (key == NULL)
                key = variable;
        *ret_source = key != NULL && variable != NULL && strcmp(key, variable) == 0 ? SNIPARA_ENVIRONMENT
                                                                                    : SNIPARA_CONFIGURATION;
        return key;
}

static int fill(enum snipara_source source, const char *secret, const char *slug,
                struct snipara_credential *ret_credential, struct sbx_error *err) {
        struct snipara_credential credential = {.source = source};

        if (!snipara_secret_valid(secret))
                return sbx_error_set(err, -EINVAL, SNIPARA_ORIGIN,
                                     "Copy it again: a key is one word of letters, digits and signs.",
                                     "%s can't be sent: it holds blanks, line ends or other characters",
                                     snipara_source_name(source));
        if (slug == NULL)
                return sbx_error_set(err, -EINVAL, SNIPARA_ORIGIN,
                                     "Set SNIPARA_PROJECT_SLUG, or snipara_project_slug in the configuration.",
                                     "there is a credential (%s), but no project to use it for",
                                     snipara_source_name(source));
        if (!snipara_slug_valid(slug))
                return sbx_error_set(err, -EINVAL, SNIPARA_ORIGIN,
                                     "A project's slug is made of letters, digits, '.', '_' and '-'; the dashboard at "
                                     "snipara.com shows it.",
                                     "the project's slug can't be part of an address");
        credential.secret = strdup(secret);
        credential.slug = strdup(slug);
        if (credential.secret == NULL || credential.slug == NULL) {
                snipara_credential_clear(&credential);
                return sbx_error_set(err, -ENOMEM, SNIPARA_ORIGIN, NULL, "out of memory");
        }
        *ret_credential = credential;
        return 0;
}

/* Under the lock. */
static int choose(const struct snipara_credentials *credentials, struct snipara_credential *ret_credential,
                  struct sbx_error *err) {
        const char *project = setting(credentials, "snipara_project_slug"), *key;
        int64_t now_s = (int64_t)time(NULL);
        const struct snipara_token *token = snipara_tokens_choose(&credentials->tokens, project, now_s);
        enum snipara_source source;
        int r;

        if (token != NULL && snipara_token_valid(token, now_s)) {
                r = fill(SNIPARA_OAUTH, token->access, token->slug, ret_credential, err);
                if (r == 0) {
                        ret_credential->expires = token->expires;
                        ret_credential->expires_s = token->expires_s;
                }
                return r;
        }
        key = find_key(credentials, &source);
        if (key != NULL)
                return fill(source, key, project, ret_credential, err);
        if (token != NULL)
                return sbx_error_set(err, -EKEYEXPIRED, SNIPARA_ORIGIN, "Run snipara-mcp-login to log in again.",
                                     "%s has expired, and there is no API key", snipara_source_name(SNIPARA_OAUTH));
        return sbx_error_set(err, -ENOENT, SNIPARA_ORIGIN,
                             "Run snipara-mcp-login, or set SNIPARA_API_KEY and SNIPARA_PROJECT_SLUG.",
                             "no credentials for Snipara%s%s", credentials->tokens.count > 0 ? " for this project" : "",
                             credentials->problem.code != 0 && credentials->problem.code != -ENOENT
                                     ? ": the tokens' file could not be used"
                                     : "");
}

int snipara_credentials_get(struct snipara_credentials *credentials, bool again,
                            struct snipara_credential *ret_credential, struct sbx_error *err) {
        int r;

        pthread_mutex_lock(&credentials->lock);
        refresh(credentials, again);
        r = choose(credentials, ret_credential, err);
        pthread_mutex_unlock(&credentials->lock);
        return r;
}

bool snipara_credentials_logged_in(struct snipara_credentials *credentials) {
        const struct snipara_token *token;
        int64_t now_s = (int64_t)time(NULL);
        bool valid;

        pthread_mutex_lock(&credentials->lock);
        refresh(credentials, false);
        token = snipara_tokens_choose(&credentials->tokens, NULL, now_s);
        valid = token != NULL && snipara_token_valid(token, now_s);
        pthread_mutex_unlock(&credentials->lock);
        return valid;
}

/* ---- the rest -------------------------------------------------------------------------------------------- */

int snipara_credentials_file_problem(struct snipara_credentials *credentials, struct sbx_error *err) {
        int r;

        pthread_mutex_lock(&credentials->lock);
        refresh(credentials, false);
        r = credentials->problem.code;
        if (r < 0 && err != NULL && err->code == 0)
                *err = credentials->problem;
        pthread_mutex_unlock(&credentials->lock);
        return r;
}

int snipara_credentials_new(const struct sbx_host *host, struct snipara_credentials **ret_credentials,
                            struct sbx_error *err) {
        struct snipara_credentials *credentials = calloc(1, sizeof(*credentials));

        if (credentials == NULL)
                return sbx_error_set(err, -ENOMEM, SNIPARA_ORIGIN, NULL, "out of memory");
        credentials->host = host;
        credentials->path = find_path(host);
        pthread_mutex_init(&credentials->lock, NULL);
        *ret_credentials = credentials;
        return 0;
}

void snipara_credentials_free(struct snipara_credentials *credentials) {
        if (credentials == NULL)
                return;
        snipara_tokens_clear(&credentials->tokens);
        pthread_mutex_destroy(&credentials->lock);
        free(credentials->path);
        free(credentials);
}

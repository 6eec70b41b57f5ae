/* SPDX-License-Identifier: Apache-2.0 */
/* Reads ~/.snipara/tokens.json: hostile until its owner and its shape have been checked. */
#include "snipara_tokens.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include "util.h"

/* ---- texts ----------------------------------------------------------------------------------------------- */

bool snipara_slug_valid(const char *text) {
        size_t size = strlen(text);

        return size > 0 && size <= SNIPARA_SLUG_MAX_BYTES && strcmp(text, ".") != 0 && strcmp(text, "..") != 0 &&
               strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == size;
}

bool snipara_secret_valid(const char *text) {
        size_t size = 0;

        for (; text[size] != '\0'; size++)
                if (text[size] < 0x21 || text[size] > 0x7e || size >= SNIPARA_SECRET_MAX_BYTES)
                        return false;
        return size > 0;
}

/* ---- time ------------------------------------------------------------------------------------------------ */

/* Exactly `count` digits. */
static bool take_digits(const char **text, int count, int *ret) {
        int number = 0;

        for (int i = 0; i < count; i++, (*text)++) {
                if (**text < '0' || **text > '9')
                        return false;
                number = number * 10 + (**text - '0');
        }
        *ret = number;
        return true;
}

static bool take_character(const char **text, char character) {
        if (**text != character)
                return false;
        (*text)++;
        return true;
}

/* ":MM" or ":MM:SS", with or without a fraction. */
static bool take_clock(const char **text, struct tm *time) {
        int ignored;

        if (!take_digits(text, 2, &time->tm_hour) || !take_character(text, ':') || !take_digits(text, 2, &time->tm_min))
                return false;
        if (!take_character(text, ':'))
                return true;
        if (!take_digits(text, 2, &time->tm_sec))
                return false;
        if (take_character(text, '.')) {
                if (!take_digits(text, 1, &ignored))
                        return false;
                while (take_digits(text, 1, &ignored))
                        ;
        }
        return true;
}

/* "", "Z", "+01:00", "-0130", "+01": seconds east of UTC. */
static bool take_zone(const char **text, int64_t *ret_s) {
        int hours = 0, minutes = 0, sign = **text == '-' ? -1 : 1;

        *ret_s = 0;
        if (**text == '\0' || take_character(text, 'Z') || take_character(text, 'z'))
                return true;
        if (!take_character(text, '+') && !take_character(text, '-'))
                return false;
        if (!take_digits(text, 2, &hours))
                return false;
        (void)take_character(text, ':');
        if (**text != '\0' && !take_digits(text, 2, &minutes))
                return false;
        *ret_s = sign * (hours * 3600 + minutes * 60);
        return hours < 24 && minutes < 60;
}

int snipara_time_parse(const char *text, int64_t *ret_s) {
        struct tm time = {0};
        int64_t zone_s = 0;

        if (!take_digits(&text, 4, &time.tm_year) || !take_character(&text, '-') ||
            !take_digits(&text, 2, &time.tm_mon) || !take_character(&text, '-') ||
            !take_digits(&text, 2, &time.tm_mday))
                return -EINVAL;
        if (*text != '\0') {
                if (!take_character(&text, 'T') && !take_character(&text, 't') && !take_character(&text, ' '))
                        return -EINVAL;
                if (!take_clock(&text, &time) || !take_zone(&text, &zone_s) || *text != '\0')
                        return -EINVAL;
        }
        /* 60: a leap second. */
        if (time.tm_mon < 1 || time.tm_mon > 12 || time.tm_mday < 1 || time.tm_mday > 31 || time.tm_hour > 23 ||
            time.tm_min > 59 || time.tm_sec > 60)
                return -EINVAL;
        time.tm_year -= 1900;
        time.tm_mon -= 1;
        *ret_s = (int64_t)timegm(&time) - zone_s;
        return 0;
}

/* ---- one entry ------------------------------------------------------------------------------------------- */

static void token_clear(struct snipara_token *token) {
        if (token->access != NULL)
                explicit_bzero(token->access, strlen(token->access));
        free(token->access);
        free(token->slug);
        free(token->id);
        *token = (struct snipara_token){0};
}

void snipara_tokens_clear(struct snipara_tokens *tokens) {
        for (size_t i = 0; i < tokens->count; i++)
                token_clear(&tokens->items[i]);
        free(tokens->items);
        *tokens = (struct snipara_tokens){0};
}

static void read_expiry(const json_t *entry, struct snipara_token *token) {
        const json_t *member = json_object_get(entry, "expires_at");

        if (member == NULL || json_is_null(member))
                return;
        if (json_is_integer(member)) {
                token->expires_s = json_integer_value(member);
                token->expires = true;
        } else if (json_is_string(member) && json_string_value(member)[0] != '\0') {
                token->expires = snipara_time_parse(json_string_value(member), &token->expires_s) == 0;
                token->expiry_unknown = !token->expires;
        } else {
                token->expiry_unknown = true;
        }
}

static const char *read_slug(const json_t *entry, const char *id) {
        const char *slug = json_string_value(json_object_get(entry, "project_slug"));

        if (slug == NULL || slug[0] == '\0')
                slug = json_string_value(json_object_get(entry, "project_id"));
        return slug != NULL && slug[0] != '\0' ? slug : id;
}

/* 1: the entry can be used; 0: it can't. */
static int read_entry(const char *id, const json_t *entry, struct snipara_token *ret_token) {
        const char *access = json_string_value(json_object_get(entry, "access_token"));
        struct snipara_token token = {0};

        if (access == NULL || !snipara_secret_valid(access))
                return 0;
        token.id = strdup(id);
        token.slug = strdup(read_slug(entry, id));
        token.access = strdup(access);
        if (token.id == NULL || token.slug == NULL || token.access == NULL) {
                token_clear(&token);
                return -ENOMEM;
        }
        read_expiry(entry, &token);
        *ret_token = token;
        return 1;
}

/* ---- the whole ------------------------------------------------------------------------------------------- */

#define LOGIN_HINT "Run snipara-mcp-login: it writes the file anew."

static int collect(const json_t *document, struct snipara_tokens *tokens) {
        const char *id;
        json_t *entry;

        tokens->items = calloc(json_object_size(document) + 1, sizeof(*tokens->items));
        if (tokens->items == NULL)
                return -ENOMEM;
        json_object_foreach ((json_t *)document, id, entry) {
                int r = read_entry(id, entry, &tokens->items[tokens->count]);

                if (r < 0)
                        return r;
                tokens->count += (size_t)r;
                tokens->unusable += r == 0;
        }
        return 0;
}

int snipara_tokens_parse(struct sbx_bytes text, struct snipara_tokens *ret_tokens, struct sbx_error *err) {
        struct snipara_tokens tokens = {0};
        _cleanup_json_ json_t *document = NULL;
        json_error_t where = {0};
        int r;

        /* jansson's message may quote the text, which is secret: the line alone is told. */
        document = json_loadb(text.data != NULL ? text.data : "", text.size, JSON_REJECT_DUPLICATES, &where);
        if (document == NULL && (where.text[0] == '\0' || json_error_code(&where) == json_error_out_of_memory))
                return sbx_error_set(err, -ENOMEM, SNIPARA_ORIGIN, NULL, "out of memory");
        if (document == NULL)
                return sbx_error_set(err, -EINVAL, SNIPARA_ORIGIN, LOGIN_HINT, "not valid JSON, line %d", where.line);
        if (!json_is_object(document))
                return sbx_error_set(err, -EINVAL, SNIPARA_ORIGIN, LOGIN_HINT, "not a JSON object of tokens");
        if (json_object_size(document) > SNIPARA_TOKENS_MAX)
                return sbx_error_set(err, -E2BIG, SNIPARA_ORIGIN, LOGIN_HINT, "more than %u tokens",
                                     SNIPARA_TOKENS_MAX);
        r = collect(document, &tokens);
        if (r < 0) {
                snipara_tokens_clear(&tokens);
                return sbx_error_set(err, r, SNIPARA_ORIGIN, NULL, "out of memory");
        }
        *ret_tokens = tokens;
        return 0;
}

bool snipara_token_valid(const struct snipara_token *token, int64_t now_s) {
        return !token->expires || token->expires_s > now_s;
}

const struct snipara_token *snipara_tokens_choose(const struct snipara_tokens *tokens, const char *project,
                                                  int64_t now_s) {
        for (size_t i = 0; project != NULL && i < tokens->count; i++)
                if (strcmp(tokens->items[i].id, project) == 0)
                        return &tokens->items[i];
        for (size_t i = 0; i < tokens->count; i++)
                if (project != NULL ? strcmp(tokens->items[i].slug, project) == 0
                                    : snipara_token_valid(&tokens->items[i], now_s))
                        return &tokens->items[i];
        return project == NULL && tokens->count > 0 ? &tokens->items[0] : NULL;
}

/* ---- the file -------------------------------------------------------------------------------------------- */

static void stamp_fill(const struct stat *st, struct snipara_stamp *stamp) {
        *stamp = (struct snipara_stamp){
                .present = true,
                .device = st->st_dev,
                .inode = st->st_ino,
                .size = (uint64_t)st->st_size,
                .changed_ns = (int64_t)st->st_ctim.tv_sec * 1000000000 + st->st_ctim.tv_nsec,
                .modified_ns = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec,
                .mode = st->st_mode,
        };
}

void snipara_stamp_take(const char *path, struct snipara_stamp *ret_stamp) {
        struct stat st;

        *ret_stamp = (struct snipara_stamp){0};
        if (stat(path, &st) == 0)
                stamp_fill(&st, ret_stamp);
}

bool snipara_stamp_same(const struct snipara_stamp *a, const struct snipara_stamp *b) {
        return a->present == b->present && a->device == b->device && a->inode == b->inode && a->size == b->size &&
               a->changed_ns == b->changed_ns && a->modified_ns == b->modified_ns && a->mode == b->mode;
}

/* Who else could have written the file, could have all that is asked of Snipara. */
static int check_file(const char *path, const struct stat *st, struct sbx_error *err) {
        if (!S_ISREG(st->st_mode))
                return sbx_error_set(err, -EINVAL, SNIPARA_ORIGIN, LOGIN_HINT, "%s is not a regular file", path);
        if (st->st_uid != geteuid())
                return sbx_error_set(err, -EPERM, SNIPARA_ORIGIN,
                                     "Run snipara-mcp-login as the user that runs snipara-sandbox.",
                                     "%s belongs to user %u, not to %u: it is not read", path, (unsigned)st->st_uid,
                                     (unsigned)geteuid());
        if ((st->st_mode & S_IWOTH) != 0)
                return sbx_error_set(err, -EPERM, SNIPARA_ORIGIN, "Make it yours alone: chmod 600, then log in again.",
                                     "%s can be written by everybody (mode %03o): it is not read", path,
                                     (unsigned)st->st_mode & 07777);
        if ((uint64_t)st->st_size > SNIPARA_TOKENS_MAX_BYTES)
                return sbx_error_set(err, -EFBIG, SNIPARA_ORIGIN, LOGIN_HINT, "%s is larger than %zu bytes", path,
                                     SNIPARA_TOKENS_MAX_BYTES);
        return 0;
}

/* Up to `size` bytes; a file that grows meanwhile is cut, and then no valid JSON. */
static int read_text(int fd, char *text, size_t size, size_t *ret_used) {
        size_t used = 0;

        while (used < size) {
                ssize_t n = read(fd, text + used, size - used);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                if (n == 0)
                        break;
                used += (size_t)n;
        }
        *ret_used = used;
        return 0;
}

static int load_open_file(int fd, const char *path, size_t size, struct snipara_tokens *ret_tokens,
                          struct sbx_error *err) {
        struct sbx_error problem = {0};
        _cleanup_free_ char *text = malloc(size + 1);
        size_t used = 0;
        int r;

        if (text == NULL)
                return sbx_error_set(err, -ENOMEM, SNIPARA_ORIGIN, NULL, "out of memory");
        r = read_text(fd, text, size, &used);
        if (r < 0)
                return sbx_error_set(err, r, SNIPARA_ORIGIN, NULL, "can't read %s (error %d)", path, -r);
        r = snipara_tokens_parse((struct sbx_bytes){text, used}, ret_tokens, &problem);
        explicit_bzero(text, size);
        return r == 0 ? 0 : sbx_error_set(err, r, SNIPARA_ORIGIN, problem.hint, "%s: %s", path, problem.message);
}

int snipara_tokens_load(const char *path, struct snipara_tokens *ret_tokens, struct snipara_stamp *ret_stamp,
                        struct sbx_error *err) {
        /* A pipe of that name must not make anybody wait. */
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        struct stat st;
        int r;

        *ret_stamp = (struct snipara_stamp){0};
        if (fd < 0) {
                r = errno == ENOTDIR ? -ENOENT : -errno;
                snipara_stamp_take(path, ret_stamp);
                return sbx_error_set(err, r, SNIPARA_ORIGIN, LOGIN_HINT,
                                     r == -ENOENT ? "there is no %s" : "can't open %s", path);
        }
        if (fstat(fd, &st) < 0)
                return sbx_error_set(err, -errno, SNIPARA_ORIGIN, NULL, "can't look at %s", path);
        stamp_fill(&st, ret_stamp);
        r = check_file(path, &st, err);
        return r < 0 ? r : load_open_file(fd, path, (size_t)st.st_size, ret_tokens, err);
}

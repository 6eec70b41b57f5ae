/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and compares the tokens of a file. */
#include "tokens.h"

#include <pthread.h>
#include <sha2.h>
#include <stdlib.h>
#include <time.h>

#include "file.h"
#include "internal.h"

#define FILE_MAX (1024u * 1024u)
#define TOKENS_MAX 4096
#define TOKEN_BYTES_MIN 16 /* fewer can be guessed */
#define LOOK_EVERY_NS (UINT64_C(200) * HS_NS_PER_MS)

struct entry {
        char name[HS_TOKEN_NAME_MAX + 1];
        uint8_t digest[SHA256_DIGEST_LENGTH];
};

struct list {
        struct entry *entries;
        size_t count;
};

struct hs_tokens {
        char *path;
        void (*log)(void *data, int level, const char *message);
        void *log_data;
        pthread_mutex_t lock; /* protects what follows */
        struct list list;
        struct stat seen; /* the file as it was when it was last read, well or not */
        uint64_t looked_ns;
};

static int parse_hex(const char *text, uint8_t digest[SHA256_DIGEST_LENGTH]) {
        for (size_t i = 0; i < SHA256_DIGEST_LENGTH * 2u; i++) {
                char c = text[i];
                int value = c >= '0' && c <= '9'   ? c - '0'
                            : c >= 'a' && c <= 'f' ? c - 'a' + 10
                            : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                   : -1;

                if (value < 0)
                        return -EINVAL;
                digest[i / 2] = (uint8_t)(i % 2 == 0 ? value << 4 : digest[i / 2] | value);
        }
        return text[SHA256_DIGEST_LENGTH * 2u] == '\0' ? 0 : -EINVAL;
}

static void digest_of(const char *text, uint8_t digest[SHA256_DIGEST_LENGTH]) {
        SHA2_CTX context;

        SHA256Init(&context);
        SHA256Update(&context, (const uint8_t *)text, strlen(text));
        SHA256Final(digest, &context);
}

/* Why a line is malformed; NULL: it is not. */
static const char *parse_line(char *line, struct entry *ret) {
        char *token = line;
        const char *name = strsep(&token, " \t");
        size_t size = strlen(name);

        if (token != NULL)
                token += strspn(token, " \t");
        if (token == NULL || *token == '\0')
                return "it has no token";
        token[strcspn(token, " \t")] = '\0';
        if (size == 0 || size > HS_TOKEN_NAME_MAX ||
            strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") != size)
                return "its name is not made of A-Z a-z 0-9 . _ -";
        memcpy(ret->name, name, size + 1);
        if (strncmp(token, "sha256:", 7) == 0)
                return parse_hex(token + 7, ret->digest) == 0 ? NULL : "sha256: wants 64 hexadecimal digits";
        if (strlen(token) < TOKEN_BYTES_MIN)
                return "its token has fewer than 16 characters";
        for (const char *c = token; *c != '\0'; c++)
                if (*c <= 0x20 || *c >= 0x7f)
                        return "its token has characters that a header can't carry";
        digest_of(token, ret->digest);
        return NULL;
}

static int add_entry(struct list *list, const struct entry *entry) {
        struct entry *grown;

        if ((list->count & (list->count - 1)) == 0) { /* a power of two: full */
                grown = reallocarray(list->entries, list->count > 0 ? 2 * list->count : 1, sizeof(*grown));
                if (grown == NULL)
                        return -ENOMEM;
                list->entries = grown;
        }
        list->entries[list->count++] = *entry;
        return 0;
}

static bool has_name(const struct list *list, const char *name) {
        for (size_t i = 0; i < list->count; i++)
                if (strcmp(list->entries[i].name, name) == 0)
                        return true;
        return false;
}

static int parse(char *text, const char *path, struct list *list, struct sbx_error *err) {
        char *rest = text, *line;

        for (unsigned number = 1; (line = strsep(&rest, "\n")) != NULL; number++) {
                struct entry entry = {0};
                const char *wrong;

                line[strcspn(line, "\r")] = '\0';
                line += strspn(line, " \t");
                if (*line == '\0' || *line == '#')
                        continue;
                wrong = parse_line(line, &entry);
                if (wrong == NULL && has_name(list, entry.name))
                        wrong = "its name is there twice";
                if (wrong == NULL && list->count == TOKENS_MAX)
                        wrong = "there are too many tokens";
                if (wrong != NULL)
                        return sbx_error_set(err, -EINVAL, HS_ORIGIN,
                                             "A line is \"NAME TOKEN\" or \"NAME sha256:HEX\"; `openssl rand -hex 32` "
                                             "makes a token.",
                                             "line %u of the token file %s is malformed: %s", number, path, wrong);
                if (add_entry(list, &entry) < 0)
                        return sbx_error_set(err, -ENOMEM, HS_ORIGIN, NULL, "out of memory");
        }
        return 0;
}

static int load(const char *path, struct list *ret_list, struct stat *ret_st, struct sbx_error *err) {
        struct list list = {0};
        char *text = NULL;
        size_t size = 0;
        int r = hs_file_read(path, "token file", FILE_MAX, true, &text, &size, ret_st, err);

        if (r == 0 && memchr(text, '\0', size) != NULL)
                r = sbx_error_set(err, -EINVAL, HS_ORIGIN, NULL, "the token file %s is no text", path);
        if (r == 0)
                r = parse(text, path, &list, err);
        hs_wipe(text, size);
        free(text);
        if (r < 0) {
                free(list.entries);
                return r;
        }
        *ret_list = list;
        return 0;
}

int hs_tokens_new(const char *path, void (*log)(void *data, int level, const char *message), void *log_data,
                  struct hs_tokens **ret_tokens, struct sbx_error *err) {
        struct hs_tokens *tokens = calloc(1, sizeof(*tokens));
        int r;

        if (tokens == NULL)
                return sbx_error_set(err, -ENOMEM, HS_ORIGIN, NULL, "out of memory");
        pthread_mutex_init(&tokens->lock, NULL);
        tokens->log = log;
        tokens->log_data = log_data;
        tokens->path = strdup(path);
        r = tokens->path == NULL ? sbx_error_set(err, -ENOMEM, HS_ORIGIN, NULL, "out of memory")
                                 : load(path, &tokens->list, &tokens->seen, err);
        if (r == 0 && tokens->list.count == 0)
                r = sbx_error_set(err, -EINVAL, HS_ORIGIN, "Put a line \"NAME TOKEN\" into it.",
                                  "the token file %s has no token", path);
        if (r < 0) {
                hs_tokens_free(tokens);
                return r;
        }
        *ret_tokens = tokens;
        return 0;
}

void hs_tokens_free(struct hs_tokens *tokens) {
        if (tokens == NULL)
                return;
        pthread_mutex_destroy(&tokens->lock);
        free(tokens->list.entries);
        free(tokens->path);
        free(tokens);
}

static bool is_same_file(const struct stat *a, const struct stat *b) {
        return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
               a->st_mode == b->st_mode && a->st_uid == b->st_uid && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
               a->st_mtim.tv_nsec == b->st_mtim.tv_nsec && a->st_ctim.tv_sec == b->st_ctim.tv_sec &&
               a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* The lock is held. */
static void look_again(struct hs_tokens *tokens) {
        struct sbx_error err = {0};
        struct list list = {0};
        struct stat st = {0};
        uint64_t now = hs_now_ns();

        if (now - tokens->looked_ns < LOOK_EVERY_NS)
                return;
        tokens->looked_ns = now;
        if (stat(tokens->path, &st) < 0 || is_same_file(&st, &tokens->seen))
                return;
        tokens->seen = st;
        if (load(tokens->path, &list, &tokens->seen, &err) < 0) {
                if (tokens->log != NULL)
                        tokens->log(tokens->log_data, SBX_LOG_ERROR, err.message);
                return;
        }
        free(tokens->list.entries);
        tokens->list = list;
}

bool hs_tokens_find(struct hs_tokens *tokens, const char *token, char ret_name[HS_TOKEN_NAME_MAX + 1]) {
        uint8_t digest[SHA256_DIGEST_LENGTH];
        const struct entry *found = NULL;

        digest_of(token, digest);
        pthread_mutex_lock(&tokens->lock);
        look_again(tokens);
        for (size_t i = 0; i < tokens->list.count; i++) {
                const struct entry *entry = &tokens->list.entries[i];
                uint8_t difference = 0;

                for (size_t j = 0; j < sizeof(digest); j++)
                        difference |= entry->digest[j] ^ digest[j];
                if (difference == 0)
                        found = entry;
        }
        if (found != NULL)
                memcpy(ret_name, found->name, sizeof(found->name));
        pthread_mutex_unlock(&tokens->lock);
        return found != NULL;
}

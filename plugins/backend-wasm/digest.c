/* SPDX-License-Identifier: Apache-2.0 */
/* The hash of what an image is to be built of: equal exactly when the image that is there already is the one. */
#include "digest.h"

#include <fcntl.h>
#include <fts.h>
#include <sha2.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "util.h"

#define FILES_MAX 20000u
#define BYTES_MAX ((uint64_t)256 << 20)

struct digest {
        SHA2_CTX hash;
        uint32_t files;
        uint64_t bytes;
};

/* With its length, so that neighbours can't be shifted into each other. */
static void add_bytes(struct digest *digest, const void *data, size_t size) {
        uint64_t length = size;

        SHA256Update(&digest->hash, (const uint8_t *)&length, sizeof(length));
        SHA256Update(&digest->hash, data, size);
}

static int add_file(struct digest *digest, const char *path) {
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
        uint64_t total = 0;
        uint8_t chunk[65536];
        ssize_t n;

        if (fd < 0)
                return -errno;
        while ((n = read(fd, chunk, sizeof(chunk))) != 0) {
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                SHA256Update(&digest->hash, chunk, (size_t)n);
                total += (uint64_t)n;
                digest->bytes += (uint64_t)n;
                if (digest->bytes > BYTES_MAX)
                        return -EFBIG;
        }
        SHA256Update(&digest->hash, (const uint8_t *)&total, sizeof(total));
        return ++digest->files > FILES_MAX ? -EFBIG : 0;
}

static int by_name(const FTSENT **a, const FTSENT **b) {
        return strcmp((*a)->fts_name, (*b)->fts_name);
}

static bool is_left_out(const FTSENT *entry) {
        return entry->fts_level > 0 && (entry->fts_name[0] == '.' || strcmp(entry->fts_name, "__pycache__") == 0);
}

/* Files in the order of their names; byte code and what is hidden do not count. */
static int add_tree(struct digest *digest, const char *path) {
        char *const roots[] = {(char *)path, NULL};
        FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, by_name);
        FTSENT *entry;
        int r = tree != NULL ? 0 : -errno;

        while (r == 0 && (entry = fts_read(tree)) != NULL) {
                if (entry->fts_info == FTS_D && is_left_out(entry))
                        fts_set(tree, entry, FTS_SKIP);
                else if (entry->fts_info == FTS_F && !is_left_out(entry)) {
                        add_bytes(digest, entry->fts_path + strlen(path), strlen(entry->fts_path + strlen(path)));
                        r = add_file(digest, entry->fts_path);
                } else if (entry->fts_info == FTS_DNR || entry->fts_info == FTS_ERR || entry->fts_info == FTS_NS)
                        r = -entry->fts_errno;
        }
        if (tree != NULL)
                fts_close(tree);
        return r;
}

int digest_packages(const uint8_t *base, size_t base_size, const char *const packages[], const char *project,
                    char ret_text[DIGEST_TEXT], const char **ret_failed) {
        struct digest digest = {.files = 0};
        int r = 0;

        SHA256Init(&digest.hash);
        add_bytes(&digest, base, base_size);
        for (size_t i = 0; r == 0 && packages[i] != NULL; i++) {
                _cleanup_free_ char *path = NULL;

                *ret_failed = packages[i];
                add_bytes(&digest, packages[i], strlen(packages[i]));
                if (!package_is_path(packages[i]))
                        continue;
                if (asprintf(&path, "%s%s%s", packages[i][0] == '/' ? "" : project, packages[i][0] == '/' ? "" : "/",
                             packages[i]) < 0) {
                        path = NULL;
                        return -ENOMEM;
                }
                r = add_tree(&digest, path);
        }
        if (r == 0)
                SHA256End(&digest.hash, ret_text);
        return r;
}

bool package_is_path(const char *package) {
        size_t length = strlen(package);

        return strchr(package, '/') != NULL || strcmp(package, ".") == 0 ||
               (length > 4 && strcmp(package + length - 4, ".whl") == 0) ||
               (length > 3 && strcmp(package + length - 3, ".py") == 0);
}

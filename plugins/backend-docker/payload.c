/* SPDX-License-Identifier: Apache-2.0 */
/* Workers as they go into containers: read from the installation once, as one block of bytes for each family. */
#include "payload.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "payload_programs.h"
#include "programs.h"
#include "util.h"

#define FILE_MAX_BYTES ((size_t)512 << 10)
#define FILES_MAX 128
#define PAYLOAD_MAX_BYTES ((size_t)8 << 20)

/* Directories of the installation, and what workers call them. */
struct source {
        const char *directory; /* below "guests" */
        const char *name;
        const char *suffix;
};

static const struct family {
        const char *entry;
        struct source sources[2];
} families[PAYLOAD_FAMILIES] = {
        [DOCKER_PYTHON] = {"sbx_guest.worker", {{"python/sbx_guest", "sbx_guest", ".py"}}},
        [DOCKER_NODE] = {"sbx_node/worker.js", {{"node/sbx_node", "sbx_node", ".js"}}},
        [DOCKER_BASH] = {"sbx_bash.worker",
                         {{"python/sbx_guest", "sbx_guest", ".py"}, {"bash/sbx_bash", "sbx_bash", ".py"}}},
};

struct payloads {
        const char *directory;
        pthread_mutex_t lock;                   /* protects what follows */
        struct payload ready[PAYLOAD_FAMILIES]; /* argv NULL: not read yet */
};

static void cleanup_directory(DIR **directory) {
        if (*directory != NULL)
                closedir(*directory);
}

static int unreadable(const char *where, const char *name, int r, struct sbx_error *err) {
        return sbx_error_set(err, r, DOCKER_ORIGIN, "Install snipara-sandbox again.", "can't read the worker %s/%s: %s",
                             where, name, strerror(-r));
}

/* A whole regular file as a JSON string. */
static int read_source(int directory_fd, const char *name, json_t **ret_text) {
        _cleanup_close_ int fd = openat(directory_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        _cleanup_free_ char *text = NULL;
        size_t size = 0;
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode) || st.st_size < 0 || (uint64_t)st.st_size > FILE_MAX_BYTES)
                return -EFBIG;
        text = malloc((size_t)st.st_size + 1);
        if (text == NULL)
                return -ENOMEM;
        while (size < (size_t)st.st_size) {
                ssize_t n = read(fd, text + size, (size_t)st.st_size - size);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                if (n == 0)
                        break;
                size += (size_t)n;
        }
        *ret_text = json_stringn(text, size);
        return *ret_text != NULL ? 0 : -EILSEQ;
}

static bool is_source(const char *name, const char *suffix) {
        size_t length = strlen(name), end = strlen(suffix);

        return name[0] != '.' && length > end && strcmp(name + length - end, suffix) == 0;
}

static int add_sources(const char *guests, const struct source *source, json_t *files, struct sbx_error *err) {
        char path[PATH_MAX], name[NAME_MAX + 64];
        _cleanup_(cleanup_directory) DIR *directory = NULL;
        const struct dirent *entry;
        size_t before = json_object_size(files);

        if (snprintf(path, sizeof(path), "%s/%s", guests, source->directory) >= (int)sizeof(path))
                return unreadable(guests, source->directory, -ENAMETOOLONG, err);
        directory = opendir(path);
        if (directory == NULL)
                return unreadable(guests, source->directory, -errno, err);
        while ((entry = readdir(directory)) != NULL) {
                json_t *text = NULL;
                int r;

                if (!is_source(entry->d_name, source->suffix))
                        continue;
                if (json_object_size(files) == FILES_MAX)
                        return unreadable(path, entry->d_name, -E2BIG, err);
                r = read_source(dirfd(directory), entry->d_name, &text);
                if (r < 0)
                        return unreadable(path, entry->d_name, r, err);
                snprintf(name, sizeof(name), "%s/%s", source->name, entry->d_name);
                if (json_object_set_new(files, name, text) < 0)
                        return sbx_error_set(err, -ENOMEM, DOCKER_ORIGIN, NULL, "out of memory");
        }
        return json_object_size(files) > before ? 0 : unreadable(guests, source->directory, -ENOENT, err);
}

/* u32 LE size, JSON. */
static int frame(json_t *files, const char *entry, struct sbx_bytes *ret_bytes, struct sbx_error *err) {
        _cleanup_json_ json_t *told = json_pack("{s:s, s:O}", "entry", entry, "files", files);
        size_t size = told != NULL ? json_dumpb(told, NULL, 0, JSON_COMPACT) : 0;
        _cleanup_free_ unsigned char *bytes = NULL;

        if (size > PAYLOAD_MAX_BYTES)
                return sbx_error_set(err, -EFBIG, DOCKER_ORIGIN, "Install snipara-sandbox again.",
                                     "the worker %s has %zu bytes", entry, size);
        bytes = size > 0 ? malloc(size + 4) : NULL;
        if (bytes == NULL || json_dumpb(told, (char *)bytes + 4, size, JSON_COMPACT) != size)
                return sbx_error_set(err, -ENOMEM, DOCKER_ORIGIN, NULL, "out of memory");
        for (int i = 0; i < 4; i++)
                bytes[i] = (unsigned char)(size >> (8 * i));
        *ret_bytes = (struct sbx_bytes){steal_pointer(bytes), size + 4};
        return 0;
}

static int read_family(const struct payloads *payloads, enum docker_family family, struct sbx_bytes *ret_bytes,
                       struct sbx_error *err) {
        const struct family *from = &families[family];
        _cleanup_json_ json_t *files = json_object();
        int r = 0;

        if (files == NULL)
                return sbx_error_set(err, -ENOMEM, DOCKER_ORIGIN, NULL, "out of memory");
        for (size_t i = 0; r == 0 && i < 2 && from->sources[i].name != NULL; i++)
                r = add_sources(payloads->directory, &from->sources[i], files, err);
        return r < 0 ? r : frame(files, from->entry, ret_bytes, err);
}

int payloads_new(const struct sbx_host *host, struct payloads **ret_payloads, struct sbx_error *err) {
        const char *directory = host->directory(host->self, "guests");
        struct payloads *payloads;

        if (directory == NULL)
                return sbx_error_set(err, -ENOENT, DOCKER_ORIGIN, "Install snipara-sandbox again.",
                                     "the directory of workers is not there");
        payloads = calloc(1, sizeof(*payloads));
        if (payloads == NULL)
                return sbx_error_set(err, -ENOMEM, DOCKER_ORIGIN, NULL, "out of memory");
        payloads->directory = directory;
        pthread_mutex_init(&payloads->lock, NULL);
        *ret_payloads = payloads;
        return 0;
}

void payloads_free(struct payloads *payloads) {
        if (payloads == NULL)
                return;
        for (size_t i = 0; i < PAYLOAD_FAMILIES; i++)
                free((void *)(uintptr_t)payloads->ready[i].bytes.data);
        pthread_mutex_destroy(&payloads->lock);
        free(payloads);
}

int payload_get(struct payloads *payloads, enum docker_family family, const struct payload **ret_payload,
                struct sbx_error *err) {
        struct payload *payload = &payloads->ready[family];
        DOCKER_LOCKED(&payloads->lock);

        if (payload->argv == NULL) {
                int r = read_family(payloads, family, &payload->bytes, err);

                if (r < 0)
                        return r;
                payload->keeper = program_keeper(family);
                payload->killer = program_killer_of(family);
                payload->pump = payload_pumps[family];
                payload->argv = payload_boots[family];
        }
        *ret_payload = payload;
        return 0;
}

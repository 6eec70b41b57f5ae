/* SPDX-License-Identifier: Apache-2.0 */
/* Which images there are, and removing those that nobody asks for any more. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "cache.h"
#include "engine/image.h"
#include "images.h"
#include "util.h"

#define PROBLEM_MAX 256
#define TIME_MAX 32
#define ABANDONED_SECONDS (24 * 3600) /* nothing takes that long to build */

static int nomem(struct sbx_error *err) {
        return sbx_error_set(err, -ENOMEM, WASM_ORIGIN, NULL, "out of memory");
}

static int answer(const struct backend *backend, const json_t *value, struct sbx_output *ret_json,
                  struct sbx_error *err) {
        _cleanup_free_ char *text = json_dumps(value, JSON_COMPACT);
        int r = text != NULL ? backend->host.output_append(backend->host.self, ret_json, text, strlen(text)) : -ENOMEM;

        return r < 0 ? sbx_error_set(err, r, WASM_ORIGIN, NULL, "the answer can't be given: %s", strerror(-r)) : 0;
}

/* ---- what guests are made of ---- */

struct wanted {
        char *paths[RUNTIME_COUNT];                  /* of the packed images; NULL: none */
        char hashes[RUNTIME_COUNT][IMAGE_HASH_TEXT]; /* "": not there */
        char *prepared;                              /* of Python's, NULL: without packages */
        char prepared_hash[IMAGE_HASH_TEXT];
};

static void wanted_clear(struct wanted *wanted) {
        for (size_t i = 0; i < RUNTIME_COUNT; i++)
                free(wanted->paths[i]);
        free(wanted->prepared);
}

static int read_hash(int fd, char ret_hash[IMAGE_HASH_TEXT]) {
        _cleanup_free_ char *manifest = NULL;
        uint8_t hash[WASM_IMAGE_HASH_SIZE];
        char problem[PROBLEM_MAX];
        int r = fd < 0 ? -ENOENT : image_describe(fd, hash, &manifest, problem, sizeof(problem));

        ret_hash[0] = '\0';
        for (size_t i = 0; r == 0 && i < sizeof(hash); i++)
                snprintf(ret_hash + 2 * i, 3, "%02x", hash[i]);
        return r;
}

static int find_wanted(struct backend *backend, struct wanted *wanted, struct sbx_error *err) {
        struct guest_image *image = NULL;
        _cleanup_close_ int fd = -1;
        int r;

        for (size_t i = 0; i < RUNTIME_COUNT; i++) {
                if (runtime_installed(backend, i, &image, NULL) < 0)
                        continue;
                wanted->paths[i] = strdup(image->packed_path);
                if (wanted->paths[i] == NULL)
                        return nomem(err);
                memcpy(wanted->hashes[i], image->hash_text, IMAGE_HASH_TEXT);
        }
        if (backend->options.package_count == 0 || runtime_installed(backend, RUNTIME_PYTHON, &image, NULL) < 0)
                return 0;
        r = prepared_path(backend, image, &wanted->prepared, err);
        if (r < 0)
                return r;
        fd = open(wanted->prepared, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        (void)read_hash(fd, wanted->prepared_hash); /* "": not built */
        return 0;
}

/* ---- list ---- */

static void format_time(time_t when, char text[TIME_MAX]) {
        struct tm parts;

        if (gmtime_r(&when, &parts) == NULL || strftime(text, TIME_MAX, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
                text[0] = '\0';
}

static int add_row(json_t *rows, const char *path, const char *name, const char *runtime, const char *hash,
                   bool prepared, bool in_use, struct sbx_error *err) {
        char created[TIME_MAX] = "";
        struct stat st;
        bool there = hash[0] != '\0' && stat(path, &st) == 0;
        json_t *row;

        if (there)
                format_time(st.st_mtime, created);
        row = json_pack("{s:s?, s:s, s:s, s:o, s:s?, s:b, s:b}", "id", there ? hash : NULL, "name", name, "runtime",
                        runtime, "size", there ? json_integer(st.st_size) : json_null(), "created",
                        there ? created : NULL, "prepared", prepared, "in_use", in_use && there);
        return json_array_append_new(rows, row) < 0 ? nomem(err) : 0;
}

static const char *base_name(const char *path) {
        const char *slash = strrchr(path, '/');

        return slash != NULL ? slash + 1 : path;
}

static bool has_ending(const char *name, const char *ending) {
        size_t length = strlen(name), tail = strlen(ending);

        return length > tail && strcmp(name + length - tail, ending) == 0;
}

/* Those of other packages than the configuration's. */
static int add_others(struct backend *backend, const struct wanted *wanted, json_t *rows, struct sbx_error *err) {
        _cleanup_free_ char *path = NULL;
        _cleanup_close_ int fd = -1;
        DIR *directory;
        int r = 0;

        if (cache_directory_path(backend, &path) < 0 || cache_directory_open(backend, &fd, NULL) < 0)
                return 0; /* nothing was ever kept */
        directory = fdopendir(fd);
        if (directory == NULL)
                return sbx_error_set(err, -errno, WASM_ORIGIN, NULL, "%s: %s", path, strerror(errno));
        steal_fd(&fd);
        for (const struct dirent *entry; r == 0 && (entry = readdir(directory)) != NULL;) {
                _cleanup_free_ char *full = NULL;
                _cleanup_close_ int file = -1;
                char hash[IMAGE_HASH_TEXT];

                if (!has_ending(entry->d_name, CACHE_PACKED) ||
                    (wanted->prepared != NULL && strcmp(entry->d_name, base_name(wanted->prepared)) == 0))
                        continue;
                file = openat(dirfd(directory), entry->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
                if (read_hash(file, hash) < 0 || asprintf(&full, "%s/%s", path, entry->d_name) < 0)
                        continue;
                r = add_row(rows, full, entry->d_name, "python", hash, true, false, err);
        }
        closedir(directory);
        return r;
}

int images_list(void *instance, const struct sbx_call *call, struct sbx_output *ret_json, struct sbx_error *err) {
        _cleanup_(wanted_clear) struct wanted wanted = {0};
        _cleanup_json_ json_t *rows = json_array();
        struct backend *backend = instance;
        int r = rows != NULL ? find_wanted(backend, &wanted, err) : nomem(err);

        for (size_t i = 0; r == 0 && i < RUNTIME_COUNT; i++)
                if (wanted.paths[i] != NULL)
                        r = add_row(rows, wanted.paths[i], base_name(wanted.paths[i]), runtime_name(i),
                                    wanted.hashes[i], false, i != RUNTIME_PYTHON || wanted.prepared == NULL, err);
        if (r == 0 && wanted.prepared != NULL)
                r = add_row(rows, wanted.prepared, base_name(wanted.prepared), runtime_name(RUNTIME_PYTHON),
                            wanted.prepared_hash, true, true, err);
        if (r == 0)
                r = add_others(backend, &wanted, rows, err);
        return r < 0 ? r : answer(backend, rows, ret_json, err);
}

/* ---- prune ---- */

/* Of an image that guests may be made of, packed or expanded. */
static bool is_wanted(const struct wanted *wanted, const char *name) {
        size_t digits = IMAGE_HASH_TEXT - 1;

        if (wanted->prepared != NULL && strcmp(name, base_name(wanted->prepared)) == 0)
                return true;
        if (!has_ending(name, CACHE_EXPANDED))
                return false;
        for (size_t i = 0; i < RUNTIME_COUNT; i++)
                if (wanted->hashes[i][0] != '\0' && strncmp(name, wanted->hashes[i], digits) == 0)
                        return true;
        return wanted->prepared_hash[0] != '\0' && strncmp(name, wanted->prepared_hash, digits) == 0;
}

/* What a build left that was killed. */
static void remove_abandoned(struct backend *backend, DIR *directory, const char *name) {
        _cleanup_free_ char *path = NULL, *full = NULL;
        struct stat st;

        if (fstatat(dirfd(directory), name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
            time(NULL) - st.st_mtime < ABANDONED_SECONDS)
                return;
        if (cache_directory_path(backend, &path) < 0 || asprintf(&full, "%s/%s", path, name) < 0) {
                full = NULL;
                return;
        }
        images_remove_tree(full);
}

static int prune(struct backend *backend, int fd, const struct wanted *wanted, json_t *removed, int64_t *bytes,
                 struct sbx_error *err) {
        DIR *directory = fdopendir(fd);

        if (directory == NULL) {
                close(fd);
                return sbx_error_set(err, -errno, WASM_ORIGIN, NULL, "the cache can't be read: %s", strerror(errno));
        }
        for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
                bool packed = has_ending(entry->d_name, CACHE_PACKED);
                struct stat st;

                if (strncmp(entry->d_name, CACHE_TEMPORARY, strlen(CACHE_TEMPORARY)) == 0)
                        remove_abandoned(backend, directory, entry->d_name);
                if ((!packed && !has_ending(entry->d_name, CACHE_EXPANDED)) || is_wanted(wanted, entry->d_name) ||
                    fstatat(dirfd(directory), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode) ||
                    unlinkat(dirfd(directory), entry->d_name, 0) < 0)
                        continue;
                *bytes += st.st_size;
                if (json_array_append_new(removed, json_string(entry->d_name)) < 0) {
                        closedir(directory);
                        return nomem(err);
                }
        }
        closedir(directory);
        return 0;
}

int images_prune(void *instance, const struct sbx_call *call, struct sbx_output *ret_json, struct sbx_error *err) {
        _cleanup_(wanted_clear) struct wanted wanted = {0};
        _cleanup_json_ json_t *result = NULL, *removed = json_array();
        struct backend *backend = instance;
        int64_t bytes = 0;
        int fd = -1, r = lock_for(&backend->prepare_lock, call);

        if (r < 0)
                return gave_up(r, "waiting for an image that is being built", err);
        r = removed != NULL ? find_wanted(backend, &wanted, err) : nomem(err);
        if (r == 0 && cache_directory_open(backend, &fd, NULL) == 0)
                r = prune(backend, fd, &wanted, removed, &bytes, err);
        pthread_mutex_unlock(&backend->prepare_lock);
        if (r < 0)
                return r;
        result = json_pack("{s:O, s:I}", "removed", removed, "bytes", (json_int_t)bytes);
        return result != NULL ? answer(backend, result, ret_json, err) : nomem(err);
}

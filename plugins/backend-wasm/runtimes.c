/* SPDX-License-Identifier: Apache-2.0 */
/* Which runtimes there are, and which image guests of each are made of. */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "cache.h"
#include "engine/image.h"
#include "images.h"
#include "util.h"

#define IMAGES_MAX 64
#define PROBLEM_MAX 256

/* By the name of their files in the directory of guests, and the name that the core has for the language. */
static const struct {
        const char *name, *family;
} known[RUNTIME_COUNT] = {{"python", "python"}, {"javascript", "node"}};

const char *runtime_name(size_t index) {
        return known[index].name;
}

bool runtime_is(const char *name, const char *wanted) {
        bool same = wanted == NULL || strcmp(name, wanted) == 0;

        for (size_t i = 0; i < RUNTIME_COUNT && !same; i++)
                same = strcmp(known[i].name, name) == 0 && strcmp(known[i].family, wanted) == 0;
        return same;
}

/* ---- reading ---- */

/* They go into reports and file names. */
static bool is_word(const char *text, size_t size) {
        size_t length = text != NULL ? strlen(text) : 0;

        for (size_t i = 0; i < length; i++)
                if (!isalnum((unsigned char)text[i]) && strchr("._+-", text[i]) == NULL)
                        return false;
        return length > 0 && length < size && text[0] != '.';
}

static int read_manifest(const char *text, const char *path, struct guest_image *image, struct sbx_error *err) {
        _cleanup_json_ json_t *manifest = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
        const char *runtime = json_string_value(json_object_get(manifest, "runtime")),
                   *version = json_string_value(json_object_get(manifest, "version"));

        if (!is_word(runtime, sizeof(image->runtime)) || !is_word(version, sizeof(image->version)))
                return sbx_error_set(err, -EINVAL, WASM_ORIGIN, "reinstall the program",
                                     "%s: its manifest names no runtime and version", path);
        snprintf(image->runtime, sizeof(image->runtime), "%s", runtime);
        snprintf(image->version, sizeof(image->version), "%s", version);
        return 0;
}

/* Sessions run what is in it: somebody else's is not taken. */
static int check_file(int fd, const char *path, struct sbx_error *err) {
        struct stat st;

        if (fstat(fd, &st) < 0)
                return sbx_error_set(err, -errno, WASM_ORIGIN, NULL, "%s: %s", path, strerror(errno));
        if (!S_ISREG(st.st_mode) || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0 ||
            (st.st_uid != 0 && st.st_uid != geteuid()))
                return sbx_error_set(err, -EPERM, WASM_ORIGIN, "it must belong to root or you: chmod go-w, chown",
                                     "%s is not used: others than root and you can write it (owner %u, mode %03o)",
                                     path, st.st_uid, st.st_mode & 07777);
        return 0;
}

static int read_image(const char *path, struct guest_image *image, struct sbx_error *err) {
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        _cleanup_free_ char *manifest = NULL;
        char problem[PROBLEM_MAX] = "";
        int r;

        if (fd < 0)
                return sbx_error_set(err, -errno, WASM_ORIGIN, "reinstall the program", "%s: %s", path,
                                     strerror(errno));
        r = check_file(fd, path, err);
        if (r < 0)
                return r;
        r = image_describe(fd, image->hash, &manifest, problem, sizeof(problem));
        if (r < 0)
                return sbx_error_set(err, r, WASM_ORIGIN, "reinstall the program", "%s is no image: %s", path,
                                     problem[0] != '\0' ? problem : strerror(-r));
        for (size_t i = 0; i < IMAGE_HASH_SIZE; i++)
                snprintf(image->hash_text + 2 * i, 3, "%02x", image->hash[i]);
        return read_manifest(manifest, path, image, err);
}

static void free_image(struct guest_image *image) {
        if (image == NULL)
                return;
        free(image->code_path);
        free(image->packed_path);
        free(image);
}

static void cleanup_image(struct guest_image **image) {
        free_image(*image);
}

/* ---- the list; called with images_lock held ---- */

static struct guest_image *find_hash(const struct backend *backend, const uint8_t hash[IMAGE_HASH_SIZE]) {
        struct guest_image *image = backend->images;

        while (image != NULL && memcmp(image->hash, hash, IMAGE_HASH_SIZE) != 0)
                image = image->next;
        return image;
}

static int load(struct backend *backend, const char *code_path, const char *packed_path, struct guest_image **ret_image,
                struct sbx_error *err) {
        _cleanup_(cleanup_image) struct guest_image *image = calloc(1, sizeof(*image));
        struct guest_image *there;
        size_t count = 0;
        int r;

        if (image == NULL || (image->code_path = strdup(code_path)) == NULL ||
            (image->packed_path = strdup(packed_path)) == NULL)
                return sbx_error_set(err, -ENOMEM, WASM_ORIGIN, NULL, "out of memory");
        r = read_image(packed_path, image, err);
        if (r < 0)
                return r;
        there = find_hash(backend, image->hash);
        if (there == NULL) {
                for (const struct guest_image *other = backend->images; other != NULL; other = other->next)
                        count++;
                if (count >= IMAGES_MAX)
                        return sbx_error_set(err, -EAGAIN, WASM_ORIGIN, "restart the server",
                                             "more than %d images were used", IMAGES_MAX);
                image->next = backend->images;
                backend->images = there = steal_pointer(image);
        }
        *ret_image = there;
        return 0;
}

static int installed_paths(const struct backend *backend, const char *name, char **ret_code, char **ret_packed) {
        const char *guests = backend->host.directory(backend->host.self, "guests");

        if (guests == NULL)
                return -ENOENT;
        if (asprintf(ret_code, "%s/wasm/%s.so", guests, name) < 0) {
                *ret_code = NULL;
                return -ENOMEM;
        }
        if (asprintf(ret_packed, "%s/wasm/%s" CACHE_PACKED, guests, name) < 0) {
                *ret_packed = NULL;
                return -ENOMEM;
        }
        return 0;
}

static int load_installed(struct backend *backend, size_t index, struct guest_image **ret_image,
                          struct sbx_error *err) {
        _cleanup_free_ char *code = NULL, *packed = NULL;
        int r = installed_paths(backend, known[index].name, &code, &packed);

        if (r == 0 && access(packed, F_OK) < 0)
                r = -errno;
        if (r < 0)
                return sbx_error_set(err, r, WASM_ORIGIN,
                                     "reinstall the program, or build the guest: guests/wasm/README.md",
                                     "there is no image of %s: %s: %s", known[index].name, packed != NULL ? packed : "",
                                     strerror(-r));
        return load(backend, code, packed, ret_image, err);
}

static bool is_installed(const struct backend *backend, size_t index) {
        _cleanup_free_ char *code = NULL, *packed = NULL;

        return installed_paths(backend, known[index].name, &code, &packed) == 0 && access(packed, F_OK) == 0;
}

static int load_prepared(struct backend *backend, const struct guest_image *base, struct guest_image **ret_image,
                         struct sbx_error *err) {
        _cleanup_free_ char *path = NULL;
        int r = prepared_path(backend, base, &path, err);

        if (r == 0 && access(path, F_OK) < 0)
                r = sbx_error_set(err, -ENOENT, WASM_ORIGIN, "run `snipara-sandbox image build`",
                                  "the image with the packages that the configuration names was not built yet");
        return r < 0 ? r : load(backend, base->code_path, path, ret_image, err);
}

/* ---- finding ---- */

int runtime_installed(struct backend *backend, size_t index, struct guest_image **ret_image, struct sbx_error *err) {
        int r;

        pthread_mutex_lock(&backend->images_lock);
        r = load_installed(backend, index, ret_image, err);
        pthread_mutex_unlock(&backend->images_lock);
        return r;
}

static int find_current(struct backend *backend, size_t index, struct guest_image **ret_image, struct sbx_error *err) {
        struct guest_image *image = backend->current[index];
        int r = 0;

        if (image == NULL) {
                r = load_installed(backend, index, &image, err);
                if (r == 0 && index == RUNTIME_PYTHON && backend->options.package_count > 0)
                        r = load_prepared(backend, image, &image, err);
        }
        if (r == 0)
                *ret_image = backend->current[index] = image;
        return r;
}

void runtimes_forget(struct backend *backend) {
        pthread_mutex_lock(&backend->images_lock);
        memset(backend->current, 0, sizeof(backend->current));
        pthread_mutex_unlock(&backend->images_lock);
}

/* "python 3.11.2, javascript 2023.01" */
static void list_runtimes(struct backend *backend, char *text, size_t size) {
        size_t used = 0;

        snprintf(text, size, "none");
        for (size_t i = 0; i < RUNTIME_COUNT && used < size; i++) {
                struct guest_image *image = NULL;

                if (load_installed(backend, i, &image, NULL) == 0)
                        used += (size_t)snprintf(text + used, size - used, "%s%s %s", used > 0 ? ", " : "",
                                                 known[i].name, image->version);
        }
}

static int refuse(struct backend *backend, const char *runtime, const char *version, struct sbx_error *err) {
        char there[RUNTIME_COUNT * (RUNTIME_NAME_MAX + RUNTIME_VERSION_MAX + 4)];

        list_runtimes(backend, there, sizeof(there));
        return sbx_error_set(err, -ENOENT, WASM_ORIGIN, "use another runtime, or another backend (local, docker)",
                             "no runtime \"%s%s\" in WebAssembly; there is %s", runtime, version != NULL ? version : "",
                             there);
}

/* Is 3.11.2 a "3.11"? */
static bool is_version(const char *found, const char *wanted) {
        size_t length = strlen(wanted);

        return strncmp(found, wanted, length) == 0 && (found[length] == '\0' || found[length] == '.');
}

int image_for_runtime(struct backend *backend, const char *runtime, const char *version, struct guest_image **ret_image,
                      struct sbx_error *err) {
        struct guest_image *image = NULL;
        size_t index = 0;
        int r = 0;

        if (runtime == NULL)
                runtime = known[RUNTIME_PYTHON].name;
        while (index < RUNTIME_COUNT && strcmp(runtime, known[index].name) != 0 &&
               strcmp(runtime, known[index].family) != 0)
                index++;
        pthread_mutex_lock(&backend->images_lock);
        if (index < RUNTIME_COUNT && (index == RUNTIME_PYTHON || is_installed(backend, index)))
                r = find_current(backend, index, &image, err);
        if (r == 0 && (image == NULL || (version != NULL && !is_version(image->version, version))))
                r = refuse(backend, runtime, version, err);
        pthread_mutex_unlock(&backend->images_lock);
        if (r == 0)
                *ret_image = image;
        return r;
}

/* Of those that were built for other packages; called with the lock held. */
static void load_kept(struct backend *backend, const struct guest_image *base) {
        _cleanup_close_ int fd = -1;
        _cleanup_free_ char *directory = NULL;
        struct guest_image *ignored = NULL;
        DIR *entries;

        if (cache_directory_open(backend, &fd, NULL) < 0 || cache_directory_path(backend, &directory) < 0)
                return;
        entries = fdopendir(fd);
        if (entries == NULL)
                return;
        fd = -1;
        for (const struct dirent *entry; (entry = readdir(entries)) != NULL;) {
                size_t length = strlen(entry->d_name), tail = strlen(CACHE_PACKED);
                char *path = NULL;

                if (length <= tail || strcmp(entry->d_name + length - tail, CACHE_PACKED) != 0 ||
                    asprintf(&path, "%s/%s", directory, entry->d_name) < 0)
                        continue;
                load(backend, base->code_path, path, &ignored, NULL);
                free(path);
        }
        closedir(entries);
}

int image_for_hash(struct backend *backend, const uint8_t hash[IMAGE_HASH_SIZE], struct guest_image **ret_image,
                   struct sbx_error *err) {
        struct guest_image *image, *installed = NULL;

        pthread_mutex_lock(&backend->images_lock);
        image = find_hash(backend, hash);
        for (size_t i = 0; image == NULL && i < RUNTIME_COUNT; i++)
                if (load_installed(backend, i, &installed, NULL) == 0)
                        image = find_hash(backend, hash);
        if (image == NULL && load_installed(backend, RUNTIME_PYTHON, &installed, NULL) == 0) {
                load_kept(backend, installed);
                image = find_hash(backend, hash);
        }
        pthread_mutex_unlock(&backend->images_lock);
        if (image == NULL)
                return sbx_error_set(err, -EXDEV, WASM_ORIGIN,
                                     "restore it where it was saved, or install the same version of the program",
                                     "the saved state belongs to an image that is not here");
        *ret_image = image;
        return 0;
}

void runtimes_free(struct backend *backend) {
        while (backend->images != NULL) {
                struct guest_image *image = backend->images;

                backend->images = image->next;
                free_image(image);
        }
        memset(backend->current, 0, sizeof(backend->current));
}

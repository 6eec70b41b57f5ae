/* SPDX-License-Identifier: Apache-2.0 */
/* Images with packages of the configuration: found and laid out by sbx-wasm-packages.py, baked by sbx-wasm. Code of the
 * packages runs in a guest, also then. */
#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <sys/stat.h>

#include "cache.h"
#include "digest.h"
#include "engine/image.h"
#include "images.h"
#include "program.h"
#include "util.h"

#define KEY_DIGITS 32
#define PROBLEM_MAX 256
#define PACKAGES_PROGRAM "sbx-wasm-packages.py"

static int nomem(struct sbx_error *err) {
        return sbx_error_set(err, -ENOMEM, WASM_ORIGIN, NULL, "out of memory");
}

/* ---- its name ---- */

static int project_of(const struct backend *backend, const char **ret_path, struct sbx_error *err) {
        *ret_path = backend->host.directory(backend->host.self, "project");
        return *ret_path != NULL ? 0
                                 : sbx_error_set(err, -ENOENT, WASM_ORIGIN, "write absolute paths",
                                                 "no directory is known as the project that packages could be in");
}

int prepared_path(const struct backend *backend, const struct guest_image *base, char **ret_path,
                  struct sbx_error *err) {
        _cleanup_free_ char *directory = NULL;
        const char *project, *failed = "";
        char digest[DIGEST_TEXT];
        int r = project_of(backend, &project, err);

        if (r < 0)
                return r;
        r = digest_packages(base->hash, sizeof(base->hash), backend->options.packages, project, digest, &failed);
        if (r == -EFBIG)
                return sbx_error_set(err, r, WASM_ORIGIN, "name what is needed of it",
                                     "packages: %s: more than 256 MiB, or 20,000 files", failed);
        if (r < 0)
                return sbx_error_set(err, r == -ENOENT ? -EINVAL : r, WASM_ORIGIN,
                                     "paths are relative to the project's directory", "packages: %s: %s", failed,
                                     strerror(-r));
        r = cache_directory_path(backend, &directory);
        if (r < 0)
                return sbx_error_set(err, r == -ENOENT ? -ENOTDIR : r, WASM_ORIGIN, "set cache_directory",
                                     "there is no directory to keep images in");
        if (asprintf(ret_path, "%s/%s-%.*s" CACHE_PACKED, directory, base->runtime, KEY_DIGITS, digest) < 0) {
                *ret_path = NULL;
                return nomem(err);
        }
        return 0;
}

/* ---- a place to work in ---- */

struct workshop {
        char *directory, *tree, *preload, *manifest, *facts, *out;
};

void images_remove_tree(const char *path) {
        char *const roots[] = {(char *)path, NULL};
        FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
        FTSENT *entry;

        while (tree != NULL && (entry = fts_read(tree)) != NULL) {
                if (entry->fts_info == FTS_DP)
                        (void)rmdir(entry->fts_accpath);
                else if (entry->fts_info != FTS_D)
                        (void)unlink(entry->fts_accpath);
        }
        if (tree != NULL)
                fts_close(tree);
}

static void close_workshop(struct workshop *workshop) {
        if (workshop->directory != NULL)
                images_remove_tree(workshop->directory);
        free(workshop->directory);
        free(workshop->tree);
        free(workshop->preload);
        free(workshop->manifest);
        free(workshop->facts);
        free(workshop->out);
}

static int below(const char *directory, const char *name, char **ret_path) {
        if (asprintf(ret_path, "%s/%s", directory, name) >= 0)
                return 0;
        *ret_path = NULL;
        return -ENOMEM;
}

static int open_workshop(const struct backend *backend, struct workshop *workshop, struct sbx_error *err) {
        _cleanup_free_ char *cache = NULL, *template = NULL;
        _cleanup_close_ int fd = -1;
        int r = cache_directory_open(backend, &fd, err);

        if (r < 0)
                return r;
        if (cache_directory_path(backend, &cache) < 0 || below(cache, CACHE_TEMPORARY "bake-XXXXXX", &template) < 0)
                return nomem(err);
        if (mkdtemp(template) == NULL)
                return sbx_error_set(err, -errno, WASM_ORIGIN, "set cache_directory", "%s: %s", template,
                                     strerror(errno));
        workshop->directory = steal_pointer(template);
        if (below(workshop->directory, "tree", &workshop->tree) < 0 ||
            below(workshop->directory, "preload", &workshop->preload) < 0 ||
            below(workshop->directory, "manifest.json", &workshop->manifest) < 0 ||
            below(workshop->directory, "packages.json", &workshop->facts) < 0 ||
            below(workshop->directory, "image", &workshop->out) < 0)
                return nomem(err);
        return 0;
}

/* ---- packages ---- */

static int helper_path(const struct backend *backend, const char *name, char **ret_path, struct sbx_error *err) {
        const char *directory = backend->host.directory(backend->host.self, "libexec");

        if (directory == NULL)
                return sbx_error_set(err, -ENOENT, WASM_ORIGIN, "reinstall the program",
                                     "the directory of helper programs is missing");
        return below(directory, name, ret_path) < 0 ? nomem(err) : 0;
}

/* The last line says what went wrong; before that of sbx-wasm, that the bake has failed, Python says why. */
static const char *last_words(char *tail) {
        static const char own[] = "sbx-wasm bake:";
        char *end = tail + strlen(tail), *line = end;

        while (line > tail) {
                *--end = '\0'; /* each line ends with one */
                line = strrchr(tail, '\n');
                line = line != NULL ? line + 1 : tail;
                if (strncmp(line, own, strlen(own)) != 0 || line == tail)
                        break;
                end = line;
        }
        return line;
}

static int check_ended(const struct backend *backend, int r, struct program_result *result, const char *doing,
                       const char *hint, struct sbx_error *err) {
        if (r == -ECANCELED || r == -ETIMEDOUT)
                return gave_up(r, doing, err);
        if (r < 0)
                return sbx_error_set(err, r, WASM_ORIGIN, "reinstall the program", "%s: %s", doing, strerror(-r));
        if (result->exit_code == 0)
                return 0;
        backend_log(backend, SBX_LOG_DEBUG, result->tail);
        return sbx_error_set(err, -EIO, WASM_ORIGIN, hint, "%s failed: %s", doing,
                             result->tail[0] != '\0' ? last_words(result->tail) : "it said nothing");
}

static int collect_packages(const struct backend *backend, const struct guest_image *base,
                            const struct workshop *workshop, const struct sbx_call *call, struct sbx_error *err) {
        static const char doing[] = "collecting packages";
        size_t count = backend->options.package_count, used = 0;
        _cleanup_free_ const char **argv = calloc(count + 16, sizeof(*argv));
        _cleanup_free_ char *python = program_find("python3"), *script = NULL;
        struct program_result result;
        const char *project;
        int r = argv != NULL ? project_of(backend, &project, err) : nomem(err);

        if (r == 0)
                r = helper_path(backend, PACKAGES_PROGRAM, &script, err);
        if (r < 0)
                return r;
        if (python == NULL)
                return sbx_error_set(err, -ENOENT, WASM_ORIGIN, "install it: apt install python3",
                                     "collecting packages needs python3 on this machine");
        argv[used++] = python;
        argv[used++] = "-I";
        argv[used++] = script;
        argv[used++] = "--project";
        argv[used++] = project;
        argv[used++] = "--python";
        argv[used++] = base->version;
        argv[used++] = "--out";
        argv[used++] = workshop->directory;
        argv[used++] = "--";
        for (size_t i = 0; i < count; i++)
                argv[used++] = backend->options.packages[i];
        r = program_run(argv, doing, call, &result);
        return check_ended(backend, r, &result, doing,
                           "mend the option packages; native code runs in the backends local and docker", err);
}

/* ---- baking ---- */

static int base_manifest(const struct guest_image *base, json_t **ret_manifest, struct sbx_error *err) {
        _cleanup_close_ int fd = open(base->packed_path, O_RDONLY | O_CLOEXEC);
        _cleanup_free_ char *text = NULL;
        uint8_t hash[WASM_IMAGE_HASH_SIZE];
        char problem[PROBLEM_MAX] = "";
        int r = fd < 0 ? -errno : image_describe(fd, hash, &text, problem, sizeof(problem));

        if (r < 0)
                return sbx_error_set(err, r, WASM_ORIGIN, "reinstall the program", "%s: %s", base->packed_path,
                                     problem[0] != '\0' ? problem : strerror(-r));
        *ret_manifest = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
        return json_is_object(*ret_manifest) ? 0
                                             : sbx_error_set(err, -EINVAL, WASM_ORIGIN, "reinstall the program",
                                                             "%s: its manifest is none", base->packed_path);
}

static int write_manifest(const struct guest_image *base, const struct workshop *workshop, struct sbx_error *err) {
        _cleanup_json_ json_t *manifest = NULL, *facts = json_load_file(workshop->facts, JSON_REJECT_DUPLICATES, NULL);
        int r = base_manifest(base, &manifest, err);

        if (r < 0)
                return r;
        if (!json_is_array(facts))
                return sbx_error_set(err, -EIO, WASM_ORIGIN, "reinstall the program", "no packages were collected");
        if (json_object_set(manifest, "packages", facts) < 0 ||
            json_object_set_new(manifest, "base", json_string(base->hash_text)) < 0 ||
            json_dump_file(manifest, workshop->manifest, JSON_COMPACT | JSON_SORT_KEYS) < 0)
                return sbx_error_set(err, -EIO, WASM_ORIGIN, "make room", "%s can't be written", workshop->manifest);
        return 0;
}

static int bake(const struct backend *backend, const struct guest_image *base, const struct workshop *workshop,
                const struct sbx_call *call, struct sbx_error *err) {
        static const char doing[] = "baking an image";
        _cleanup_free_ char *program = NULL;
        struct program_result result;
        int r = helper_path(backend, "sbx-wasm", &program, err);

        if (r == 0)
                r = write_manifest(base, workshop, err);
        if (r < 0)
                return r;
        r = program_run((const char *const[]){program, "bake", "--code", base->code_path, "--image", base->packed_path,
                                              "--add", workshop->tree, "--preload", workshop->preload, "--manifest",
                                              workshop->manifest, "--out", workshop->out, NULL},
                        doing, call, &result);
        return check_ended(backend, r, &result, doing,
                           "a package that can't be imported in WebAssembly can't be in the image", err);
}

static int build(struct backend *backend, const struct guest_image *base, const char *path, const struct sbx_call *call,
                 struct sbx_error *err) {
        _cleanup_(close_workshop) struct workshop workshop = {NULL};
        int r = open_workshop(backend, &workshop, err);

        if (r == 0)
                r = collect_packages(backend, base, &workshop, call, err);
        if (r == 0)
                r = bake(backend, base, &workshop, call, err);
        if (r == 0 && rename(workshop.out, path) < 0)
                r = sbx_error_set(err, -errno, WASM_ORIGIN, "set cache_directory", "%s: %s", path, strerror(errno));
        return r;
}

/* ---- the operation ---- */

static int build_if_missing(struct backend *backend, const struct sbx_call *call, struct sbx_error *err) {
        _cleanup_free_ char *path = NULL;
        struct guest_image *base = NULL;
        int r = runtime_installed(backend, RUNTIME_PYTHON, &base, err);

        if (r == 0)
                r = prepared_path(backend, base, &path, err);
        if (r == 0 && access(path, F_OK) < 0)
                r = build(backend, base, path, call, err);
        return r;
}

/* Expanded as well, so that the first session does not wait for it. */
static int expand_current(struct backend *backend, size_t index, const struct sbx_call *call, struct sbx_error *err) {
        struct guest_image *image = NULL;
        _cleanup_close_ int fd = -1;
        int r = image_for_runtime(backend, runtime_name(index), NULL, &image, err);

        return r < 0 ? r : cache_open(backend, image, call, &fd, err);
}

int images_prepare(void *instance, const struct sbx_call *call, struct sbx_error *err) {
        struct backend *backend = instance;
        int r = lock_for(&backend->prepare_lock, call);

        if (r < 0)
                return gave_up(r, "waiting for an image that is being built", err);
        if (backend->options.package_count > 0)
                r = build_if_missing(backend, call, err);
        runtimes_forget(backend);
        if (r == 0)
                r = expand_current(backend, RUNTIME_PYTHON, call, err);
        for (size_t i = RUNTIME_PYTHON + 1; r == 0 && i < RUNTIME_COUNT; i++) {
                struct guest_image *image = NULL;

                if (runtime_installed(backend, i, &image, NULL) == 0)
                        r = expand_current(backend, i, call, err);
        }
        pthread_mutex_unlock(&backend->prepare_lock);
        return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* file_list: the files below a directory whose paths match a pattern, in a result of bounded size. */
#include "tools/files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"

#define ORIGIN SBX_FILES_ORIGIN
#define PARTS_MAX 16u /* of a pattern */
#define DEPTH_MAX 32u /* of directories: each that is open takes a descriptor */
#define VISITS_MAX 200000u
#define NAMES_MAX ((size_t)32 << 20) /* bytes of all paths that matched */

struct part {
        const char *text;
        size_t size;
        bool any_depth; /* "**" */
};

struct listing {
        const struct sbx_call *call;
        const struct sbx_files *files;
        const char *root; /* the allowed path that the directory is in */
        struct part parts[PARTS_MAX];
        unsigned part_count;
        char **found; /* paths below the directory */
        size_t count, capacity, names_size;
        unsigned visits;
        bool incomplete; /* a limit was reached */
};

static void cleanup_listing(struct listing *listing) {
        for (size_t i = 0; i < listing->count; i++)
                free(listing->found[i]);
        free(listing->found);
}

/* ---- the pattern ---- */

static int add_part(struct listing *listing, const char *text, size_t size, struct sbx_error *err) {
        struct part part = {text, size, size == 2 && memcmp(text, "**", 2) == 0};

        if ((size == 2 && memcmp(text, "..", 2) == 0) || listing->part_count == PARTS_MAX)
                return sbx_error_set(err, -EINVAL, ORIGIN, NULL, "pattern: at most %u parts, and no '..'", PARTS_MAX);
        if (part.any_depth && listing->part_count > 0 && listing->parts[listing->part_count - 1].any_depth)
                return 0; /* twice is once */
        listing->parts[listing->part_count++] = part;
        return 0;
}

static int split_pattern(struct listing *listing, const char *pattern, bool recursive, struct sbx_error *err) {
        int r = recursive ? add_part(listing, "**", 2, err) : 0;

        if (pattern[0] == '/')
                return sbx_error_set(err, -EINVAL, ORIGIN, NULL,
                                     "pattern: it is relative to path, and begins with no '/'");
        while (*pattern != '\0' && r == 0) {
                size_t size = strcspn(pattern, "/");

                if (size > 0 && !(size == 1 && pattern[0] == '.'))
                        r = add_part(listing, pattern, size, err);
                pattern += size + (pattern[size] == '/');
        }
        return r;
}

/* A set of parts: where in the pattern the matching of a path may stand, so that it is never done twice. */
typedef uint32_t places;

/* A `**` may stand for nothing. */
static places pass_any_depth(const struct listing *listing, places at) {
        for (unsigned i = 0; i < listing->part_count; i++)
                if ((at & (1u << i)) != 0 && listing->parts[i].any_depth)
                        at |= 1u << (i + 1);
        return at;
}

static places step(const struct listing *listing, places at, const char *name) {
        places next = 0;

        for (unsigned i = 0; i < listing->part_count; i++) {
                const struct part *part = &listing->parts[i];

                if ((at & (1u << i)) == 0)
                        continue;
                if (part->any_depth)
                        next |= 1u << i;
                else if (sbx_files_match(part->text, part->size, name))
                        next |= 1u << (i + 1);
        }
        return pass_any_depth(listing, next);
}

/* A path ends the pattern; after a `**` at its very end that is true of directories, as in Python. */
static bool is_match(const struct listing *listing, places at, bool is_directory) {
        bool last_is_any = listing->part_count > 0 && listing->parts[listing->part_count - 1].any_depth;

        return (at & (1u << listing->part_count)) != 0 && (is_directory || !last_is_any);
}

/* ---- the walk ---- */

static int add_found(struct listing *listing, const char *path, struct sbx_error *err) {
        size_t size = strlen(path) + 1;

        if (size > NAMES_MAX - listing->names_size) {
                listing->incomplete = true;
                return 0;
        }
        if (listing->count == listing->capacity) {
                size_t capacity = listing->capacity > 0 ? 2 * listing->capacity : 64;
                char **grown = reallocarray(listing->found, capacity, sizeof(*grown));

                if (grown == NULL)
                        return SBX_NOMEM(err, ORIGIN);
                listing->found = grown;
                listing->capacity = capacity;
        }
        listing->found[listing->count] = strdup(path);
        if (listing->found[listing->count] == NULL)
                return SBX_NOMEM(err, ORIGIN);
        listing->count++;
        listing->names_size += size;
        return 0;
}

static bool is_directory(int directory_fd, const struct dirent *entry) {
        struct stat status;

        if (entry->d_type != DT_UNKNOWN)
                return entry->d_type == DT_DIR;
        return fstatat(directory_fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(status.st_mode);
}

static int walk(struct listing *listing, int fd, places at, unsigned depth, struct sbx_buffer *path,
                struct sbx_error *err);

/* Symbolic links are not entered, so there are no loops. One that can't be opened is passed over. */
static int enter(struct listing *listing, int directory_fd, const char *name, places at, unsigned depth,
                 struct sbx_buffer *path, struct sbx_error *err) {
        int fd;

        if ((at & ~(1u << listing->part_count)) == 0 || sbx_files_is_secret(path->data))
                return 0; /* nothing below can match, or shall */
        if (depth == DEPTH_MAX) {
                listing->incomplete = true;
                return 0;
        }
        fd = openat(directory_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
        if (fd >= 0 && sbx_files_is_log(listing->files, listing->root, fd)) {
                close(fd);
                return 0;
        }
        return fd >= 0 ? walk(listing, fd, at, depth + 1, path, err) : 0;
}

static int visit(struct listing *listing, int directory_fd, const struct dirent *entry, places at, unsigned depth,
                 struct sbx_buffer *path, struct sbx_error *err) {
        bool directory = is_directory(directory_fd, entry);
        size_t before = path->size;
        places next = step(listing, at, entry->d_name);
        int r = 0;

        if (next == 0)
                return 0;
        if ((before > 0 && sbx_buffer_append(path, "/", 1) < 0) || sbx_buffer_append_text(path, entry->d_name) < 0) {
                listing->incomplete = true; /* longer than any path can be */
        } else {
                if (is_match(listing, next, directory))
                        r = add_found(listing, path->data, err);
                if (r == 0 && directory)
                        r = enter(listing, directory_fd, entry->d_name, next, depth, path, err);
        }
        path->size = before;
        if (path->data != NULL)
                path->data[before] = '\0';
        return r;
}

/* Takes `fd` over. `path`: of the directory, below the one that is listed. */
static int walk(struct listing *listing, int fd, places at, unsigned depth, struct sbx_buffer *path,
                struct sbx_error *err) {
        _cleanup_closedir_ DIR *directory = fdopendir(fd);
        const struct dirent *entry;
        int r = 0;

        if (directory == NULL) {
                close(fd);
                return SBX_NOMEM(err, ORIGIN);
        }
        while (r == 0 && (entry = readdir(directory)) != NULL) {
                if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
                        continue;
                if (++listing->visits > VISITS_MAX) {
                        listing->incomplete = true;
                        break;
                }
                if (listing->visits % 256 == 0)
                        r = sbx_files_may_go_on(listing->call, err);
                if (r == 0)
                        r = visit(listing, dirfd(directory), entry, at, depth, path, err);
        }
        return r;
}

/* ---- the result ---- */

/* Component by component, so that what is in a directory stands together. */
static int compare_paths(const void *left, const void *right) {
        const unsigned char *a = *(const unsigned char *const *)left, *b = *(const unsigned char *const *)right;

        while (*a != '\0' && *a == *b)
                a++, b++;
        return (*a == '/' ? 1 : *a == '\0' ? 0 : *a + 1) - (*b == '/' ? 1 : *b == '\0' ? 0 : *b + 1);
}

/* What a path is; a link counts as what it leads to, if that is beneath the root. */
static json_t *describe(const struct sbx_files *files, const struct sbx_file_place *directory, const char *found) {
        __attribute__((cleanup(sbx_file_place_clear))) struct sbx_file_place place = {0};
        _cleanup_buffer_ struct sbx_buffer path = SBX_BUFFER(2 * SBX_FILES_PATH_MAX);
        const char *slash = strrchr(found, '/'), *name = slash != NULL ? slash + 1 : found;
        struct stat status = {0};
        int fd = -1;

        if (sbx_buffer_printf(&path, "%s/%s", strcmp(directory->path, "/") == 0 ? "" : directory->path, found) < 0)
                return NULL;
        if (sbx_files_locate(files, path.data, &place, NULL) == 0 && sbx_files_look(&place, &fd, NULL) == 0) {
                if (fstat(fd, &status) < 0)
                        status.st_mode = 0;
                close(fd);
        }
        return json_pack("{s:o, s:o, s:b, s:o}", "path", sbx_json_text(sbx_buffer_bytes(&path)), "name",
                         sbx_json_text((struct sbx_bytes){name, strlen(name)}), "is_dir", (int)S_ISDIR(status.st_mode),
                         "size", S_ISREG(status.st_mode) ? json_integer((json_int_t)status.st_size) : json_null());
}

/* The bytes that the entry takes in the result. */
static int cost_of(const json_t *entry, bool in_bytes, size_t *ret_cost) {
        _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(16 * SBX_FILES_PATH_MAX);
        int r = sbx_json_encode(entry, &text);

        if (r == 0)
                *ret_cost = 1 + (in_bytes ? text.size : sbx_files_json_cost(sbx_buffer_bytes(&text), false));
        return r;
}

static int make_report(const struct sbx_tool_context *context, const struct sbx_file_place *place,
                       const struct listing *listing, size_t max_results, json_t **ret_report, struct sbx_error *err) {
        bool is_code = context->caller == SBX_CALLER_CODE;
        size_t budget = is_code ? SBX_FILES_CODE_BUDGET : SBX_FILES_TEXT_BUDGET;
        size_t cost = sbx_files_json_cost((struct sbx_bytes){place->path, strlen(place->path)}, is_code), i;
        _cleanup_json_ json_t *files = json_array();
        int r = files != NULL ? 0 : -ENOMEM;

        budget -= cost < budget ? cost : budget;
        for (i = 0; i < listing->count && i < max_results && r == 0; i++) {
                json_t *entry = describe(context->data, place, listing->found[i]);

                r = entry != NULL ? cost_of(entry, is_code, &cost) : -ENOMEM;
                if (r < 0 || cost > budget) {
                        json_decref(entry);
                        break;
                }
                budget -= cost;
                r = json_array_append_new(files, entry) < 0 ? -ENOMEM : 0;
        }
        if (r == 0)
                *ret_report =
                        json_pack("{s:O, s:I, s:b, s:o}", "files", files, "count", (json_int_t)json_array_size(files),
                                  "truncated", (int)(i < listing->count || listing->incomplete), "directory",
                                  sbx_json_text((struct sbx_bytes){place->path, strlen(place->path)}));
        return r < 0 || *ret_report == NULL ? SBX_NOMEM(err, ORIGIN) : 0;
}

/* ---- the tool ---- */

static int get_arguments(json_t *arguments, const char **ret_path, struct listing *listing, size_t *ret_max_results,
                         struct sbx_error *err) {
        const char *pattern = "*";
        int64_t max_results = 100;
        bool recursive = false;
        int r = sbx_json_get_string(arguments, "arguments", "path", 0, ret_path, err);

        if (r == 0)
                r = sbx_json_get_string(arguments, "arguments", "pattern", 0, &pattern, err);
        if (r == 0)
                r = sbx_json_get_bool(arguments, "arguments", "recursive", 0, &recursive, err);
        if (r == 0)
                r = sbx_json_get_int(arguments, "arguments", "max_results", 0, 1, INT32_MAX, &max_results, err);
        if (r == 0)
                r = split_pattern(listing, pattern, recursive, err);
        *ret_max_results = (size_t)max_results;
        return r;
}

static int list_files(const struct sbx_tool_context *context, json_t *arguments, json_t **ret_result,
                      struct sbx_error *err) {
        __attribute__((cleanup(cleanup_listing))) struct listing listing = {.call = context->call};
        __attribute__((cleanup(sbx_file_place_clear))) struct sbx_file_place place = {0};
        _cleanup_buffer_ struct sbx_buffer path = SBX_BUFFER(SBX_FILES_PATH_MAX);
        _cleanup_close_ int seen = -1;
        const char *wanted = ".";
        json_t *report = NULL;
        size_t max_results = 0;
        char summary[64];
        int fd = -1, r = get_arguments(arguments, &wanted, &listing, &max_results, err);

        if (r == 0)
                r = sbx_files_locate(context->data, wanted, &place, err);
        if (r == 0)
                r = sbx_files_look(&place, &seen, err);
        if (r == 0)
                r = sbx_files_open(&place, seen, S_IFDIR, &fd, err);
        listing.files = context->data;
        listing.root = place.root;
        if (r == 0)
                r = walk(&listing, fd, pass_any_depth(&listing, 1), 0, &path, err);
        if (r < 0)
                return r;
        if (listing.count > 0)
                qsort(listing.found, listing.count, sizeof(*listing.found), compare_paths);
        r = make_report(context, &place, &listing, max_results, &report, err);
        if (r < 0)
                return r;
        snprintf(summary, sizeof(summary), "%zu files", json_array_size(json_object_get(report, "files")));
        return sbx_files_result(context, report, summary, ret_result, err);
}

SBX_BUILTIN(sbx_builtin_file_list) {
        struct sbx_error problem = {0};
        int r = list_files(context, arguments, ret_result, &problem);

        if (r == 0)
                return 0;
        if (r == -ENOMEM || r == -ECANCELED || r == -ETIMEDOUT) {
                *err = problem;
                return r;
        }
        return sbx_files_failure(&problem, "files", json_array(), ret_result, err);
}

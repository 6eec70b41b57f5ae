/* SPDX-License-Identifier: Apache-2.0 */
/* Walks the project and packs it: libarchive writes the tar, libmd the hash. */
#include "context.h"

#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>

#include "docker.h"
#include "util.h"

#define BUFFER_FIRST ((size_t)64 << 10)
#define BEGINNING 4096u

struct packer {
        struct context *context;
        enum context_what what;
        struct archive *archive; /* NULL: only the hash */
        size_t capacity;
        SHA2_CTX hash;
        dev_t device;
        const struct sbx_call *call;
        struct sbx_error *err;
};

/* ---- the archive ---- */

static la_ssize_t take_bytes(struct archive *archive, void *data, const void *bytes, size_t size) {
        struct packer *packer = data;
        struct context *context = packer->context;
        size_t needed = context->tar_size + size, capacity = packer->capacity;
        void *grown;

        if (size > CONTEXT_BYTES_MAX - context->tar_size) {
                archive_set_error(archive, EFBIG, "too large");
                return -1;
        }
        while (capacity < needed)
                capacity = capacity == 0 ? BUFFER_FIRST : 2 * capacity;
        if (capacity != packer->capacity) {
                grown = realloc(context->tar, capacity);
                if (grown == NULL) {
                        archive_set_error(archive, ENOMEM, "out of memory");
                        return -1;
                }
                context->tar = grown;
                packer->capacity = capacity;
        }
        memcpy((char *)context->tar + context->tar_size, bytes, size);
        context->tar_size = needed;
        return (la_ssize_t)size;
}

static int archive_failed(struct packer *packer) {
        int code = archive_errno(packer->archive);

        if (code == EFBIG)
                return sbx_error_set(
                        packer->err, -EFBIG, DOCKER_ORIGIN,
                        "Set workspace_setup = \"tests-only\", which needs no files, or move data out of it.",
                        "the project's files have more than %zu MiB together", CONTEXT_BYTES_MAX >> 20);
        return sbx_error_set(packer->err, code > 0 ? -code : -ENOMEM, DOCKER_ORIGIN, NULL,
                             "can't pack the project's files: %s", strerror(code > 0 ? code : ENOMEM));
}

/* Owner, times and all bits of the mode but "executable" are not the host's: the same content gives the same layer. */
static int put_entry(struct packer *packer, const char *path, mode_t type, mode_t mode, const char *target,
                     struct sbx_bytes content) {
        struct archive_entry *entry;
        int r;

        if (packer->archive == NULL)
                return 0;
        entry = archive_entry_new();
        if (entry == NULL)
                return sbx_error_set(packer->err, -ENOMEM, DOCKER_ORIGIN, NULL, "out of memory");
        archive_entry_set_pathname(entry, path);
        archive_entry_set_filetype(entry, type);
        archive_entry_set_perm(entry, type == AE_IFREG && (mode & 0111) == 0 ? 0644 : 0755);
        archive_entry_set_size(entry, (la_int64_t)content.size);
        if (target != NULL)
                archive_entry_set_symlink(entry, target);
        r = archive_write_header(packer->archive, entry);
        archive_entry_free(entry);
        if (r < ARCHIVE_WARN ||
            (content.size > 0 && archive_write_data(packer->archive, content.data, content.size) < 0))
                return archive_failed(packer);
        return 0;
}

/* Lengths stand before what they are of, so that no two projects give the same bytes. */
static void hash_text(struct packer *packer, struct sbx_bytes bytes) {
        unsigned char length[8];

        for (size_t i = 0; i < sizeof(length); i++)
                length[i] = (unsigned char)((uint64_t)bytes.size >> (8 * i));
        SHA256Update(&packer->hash, length, sizeof(length));
        if (bytes.size > 0)
                SHA256Update(&packer->hash, bytes.data, bytes.size);
}

static void hash_entry(struct packer *packer, char type, const char *path, struct sbx_bytes content) {
        hash_text(packer, (struct sbx_bytes){&type, 1});
        hash_text(packer, (struct sbx_bytes){path, strlen(path)});
        hash_text(packer, content);
}

/* ---- one entry ---- */

static int unreadable(struct packer *packer, const char *path, int code) {
        return sbx_error_set(packer->err, code, DOCKER_ORIGIN,
                             "Make it readable, or set workspace_setup = \"tests-only\", which needs no files.",
                             "can't read the project's %.300s: %s", path, strerror(-code));
}

static int read_content(int fd, size_t size, char **ret_content, size_t *ret_size) {
        _cleanup_free_ char *content = malloc(size + 1);
        size_t done = 0;

        if (content == NULL)
                return -ENOMEM;
        while (done < size) {
                ssize_t n = read(fd, content + done, size - done);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                if (n == 0)
                        break; /* it shrank meanwhile */
                done += (size_t)n;
        }
        *ret_content = steal_pointer(content);
        *ret_size = done;
        return 0;
}

static int too_large(struct packer *packer, const char *path) {
        if (packer->what != CONTEXT_WHOLE) {
                packer->context->left_out++;
                return 0;
        }
        return sbx_error_set(packer->err, -EFBIG, DOCKER_ORIGIN,
                             "Show the project to code (workspace = \"ro\"), so that it need not be in the image, or "
                             "move the file out of it.",
                             "the project's %.300s is larger than %lld MiB", path, (long long)(CONTEXT_FILE_MAX >> 20));
}

static int add_file(struct packer *packer, int directory_fd, const char *name, const char *path) {
        _cleanup_close_ int fd = openat(directory_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        _cleanup_free_ char *content = NULL;
        struct sbx_bytes bytes;
        struct stat st;
        size_t size = 0;
        int r;

        if (fd < 0)
                return errno == ENOENT || errno == ELOOP ? 0 : unreadable(packer, path, -errno);
        if (fstat(fd, &st) < 0)
                return unreadable(packer, path, -errno);
        if (!S_ISREG(st.st_mode))
                return 0;
        if (st.st_size > CONTEXT_FILE_MAX)
                return too_large(packer, path);
        r = read_content(fd, (size_t)st.st_size, &content, &size);
        if (r < 0)
                return unreadable(packer, path, r);
        bytes = (struct sbx_bytes){content, size};
        if (context_is_key(name, (struct sbx_bytes){content, size < BEGINNING ? size : BEGINNING}))
                return 0;
        packer->context->files++;
        if (packer->what == CONTEXT_WHOLE || context_declares(path + strlen(CONTEXT_PREFIX)))
                hash_entry(packer, (st.st_mode & 0111) != 0 ? 'x' : 'f', path, bytes);
        return put_entry(packer, path, AE_IFREG, st.st_mode, NULL, bytes);
}

/* As it is: what it means is decided inside the build's own container. */
static int add_link(struct packer *packer, int directory_fd, const char *name, const char *path) {
        char target[4096];
        ssize_t n = readlinkat(directory_fd, name, target, sizeof(target) - 1);

        if (n <= 0)
                return 0;
        target[n] = '\0';
        if (packer->what == CONTEXT_WHOLE)
                hash_entry(packer, 'l', path, (struct sbx_bytes){target, (size_t)n});
        return put_entry(packer, path, AE_IFLNK, 0777, target, (struct sbx_bytes){NULL, 0});
}

/* ---- directories ---- */

static int compare_names(const void *a, const void *b) {
        return strcmp(*(char *const *)a, *(char *const *)b);
}

static void names_free(char **names, size_t count) {
        for (size_t i = 0; i < count; i++)
                free(names[i]);
        free(names);
}

static int grow_names(char ***names, size_t count, size_t *capacity) {
        size_t more = *capacity == 0 ? 64 : 2 * *capacity;
        char **grown;

        if (count < *capacity)
                return 0;
        grown = reallocarray(*names, more, sizeof(*grown));
        if (grown == NULL)
                return -ENOMEM;
        *names = grown;
        *capacity = more;
        return 0;
}

/* The names in the directory, sorted: its order is not the same everywhere. Takes the descriptor over. */
static int list_names(int fd, char ***ret_names, size_t *ret_count) {
        size_t count = 0, capacity = 0;
        struct dirent *entry;
        char **names = NULL;
        DIR *directory = fdopendir(fd);
        int r = directory != NULL ? 0 : -errno;

        if (directory == NULL)
                close(fd);
        while (r == 0 && (entry = readdir(directory)) != NULL) {
                if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
                        continue;
                r = count < CONTEXT_FILES_MAX ? grow_names(&names, count, &capacity) : -EFBIG;
                if (r == 0 && (names[count] = strdup(entry->d_name)) == NULL)
                        r = -ENOMEM;
                count += r == 0;
        }
        if (directory != NULL)
                closedir(directory);
        if (r < 0) {
                names_free(names, count);
                return r;
        }
        if (count > 0)
                qsort(names, count, sizeof(*names), compare_names);
        *ret_names = names;
        *ret_count = count;
        return 0;
}

static int call_state(const struct sbx_call *call) {
        struct pollfd ready;

        if (call == NULL)
                return 0;
        ready = (struct pollfd){.fd = call->cancel_fd, .events = POLLIN};
        if (call->cancel_fd >= 0 && poll(&ready, 1, 0) > 0)
                return -ECANCELED;
        return call->deadline_ns != 0 && monotonic_ns() >= call->deadline_ns ? -ETIMEDOUT : 0;
}

static int add_directory(struct packer *packer, int parent_fd, const char *name, const char *path, unsigned depth);

static int add_entry(struct packer *packer, int directory_fd, const char *name, const char *parent, unsigned depth) {
        _cleanup_free_ char *path = NULL;
        struct stat st;
        int r = call_state(packer->call);

        if (r < 0)
                return sbx_error_set(packer->err, r, DOCKER_ORIGIN, NULL, "packing the project's files was given up");
        if (fstatat(directory_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || context_leaves_out(name, S_ISDIR(st.st_mode)))
                return 0;
        if (asprintf(&path, "%s%s", parent, name) < 0) {
                path = NULL;
                return sbx_error_set(packer->err, -ENOMEM, DOCKER_ORIGIN, NULL, "out of memory");
        }
        if (packer->context->files >= CONTEXT_FILES_MAX)
                return sbx_error_set(
                        packer->err, -EFBIG, DOCKER_ORIGIN,
                        "Set workspace_setup = \"tests-only\", which needs no files, or move data out of it.",
                        "the project has more than %u files", CONTEXT_FILES_MAX);
        if (S_ISDIR(st.st_mode))
                return add_directory(packer, directory_fd, name, path, depth + 1);
        if (S_ISLNK(st.st_mode))
                return add_link(packer, directory_fd, name, path);
        return S_ISREG(st.st_mode) ? add_file(packer, directory_fd, name, path) : 0;
}

/* `path` ends with a slash. */
static int add_names(struct packer *packer, int fd, const char *path, unsigned depth) {
        size_t count = 0;
        char **names = NULL;
        int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3), r;

        r = copy < 0 ? -errno : list_names(copy, &names, &count);
        if (r < 0)
                return unreadable(packer, path, r);
        for (size_t i = 0; i < count && r == 0; i++)
                r = add_entry(packer, fd, names[i], path, depth);
        names_free(names, count);
        return r;
}

static bool has(int fd, const char *name) {
        return faccessat(fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static int add_directory(struct packer *packer, int parent_fd, const char *name, const char *path, unsigned depth) {
        _cleanup_close_ int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        _cleanup_free_ char *below = NULL;
        struct stat st;
        int r;

        if (fd < 0)
                return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? 0 : unreadable(packer, path, -errno);
        /* A virtual environment may have any name; what is mounted into the project is not the project. */
        if (fstat(fd, &st) < 0 || st.st_dev != packer->device || has(fd, "pyvenv.cfg"))
                return 0;
        if (depth > CONTEXT_DEPTH_MAX)
                return sbx_error_set(packer->err, -EFBIG, DOCKER_ORIGIN, "Set workspace_setup = \"tests-only\".",
                                     "the project's directories are more than %u deep", CONTEXT_DEPTH_MAX);
        if (asprintf(&below, "%s/", path) < 0) {
                below = NULL;
                return sbx_error_set(packer->err, -ENOMEM, DOCKER_ORIGIN, NULL, "out of memory");
        }
        /* Which packages there are decides what an editable installation shows. */
        if (packer->what == CONTEXT_WHOLE || (depth <= 2 && has(fd, "__init__.py")))
                hash_entry(packer, 'd', path, (struct sbx_bytes){NULL, 0});
        r = put_entry(packer, below, AE_IFDIR, 0755, NULL, (struct sbx_bytes){NULL, 0});
        return r == 0 ? add_names(packer, fd, below, depth) : r;
}

/* ---- the whole ---- */

static int open_archive(struct packer *packer) {
        packer->archive = archive_write_new();
        if (packer->archive == NULL)
                return sbx_error_set(packer->err, -ENOMEM, DOCKER_ORIGIN, NULL, "out of memory");
        if (archive_write_set_format_pax_restricted(packer->archive) < ARCHIVE_WARN ||
            archive_write_set_options(packer->archive, "hdrcharset=BINARY") < ARCHIVE_FAILED ||
            archive_write_open(packer->archive, packer, NULL, take_bytes, NULL) < ARCHIVE_WARN)
                return archive_failed(packer);
        return 0;
}

static int pack_project(struct packer *packer, const char *directory) {
        _cleanup_close_ int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct stat st;
        int r;

        if (fd < 0 || fstat(fd, &st) < 0)
                return sbx_error_set(packer->err, -errno, DOCKER_ORIGIN,
                                     "Set workspace_path to the project's directory, or workspace_setup = \"none\".",
                                     "can't read the project %s: %s", directory, strerror(errno));
        packer->device = st.st_dev;
        r = put_entry(packer, CONTEXT_PREFIX, AE_IFDIR, 0755, NULL, (struct sbx_bytes){NULL, 0});
        return r == 0 ? add_names(packer, fd, CONTEXT_PREFIX, 0) : r;
}

int context_make(const char *directory, enum context_what what, struct sbx_bytes build_file, bool archive,
                 const struct sbx_call *call, struct context *ret_context, struct sbx_error *err) {
        struct context context = {0};
        struct packer packer = {.context = &context, .what = what, .call = call, .err = err};
        int r = archive ? open_archive(&packer) : 0;

        SHA256Init(&packer.hash);
        hash_text(&packer, build_file);
        if (r == 0)
                r = put_entry(&packer, "Dockerfile", AE_IFREG, 0644, NULL, build_file);
        if (r == 0 && what != CONTEXT_NOTHING)
                r = pack_project(&packer, directory);
        if (r == 0 && archive && archive_write_close(packer.archive) < ARCHIVE_WARN)
                r = archive_failed(&packer);
        if (packer.archive != NULL)
                archive_write_free(packer.archive);
        SHA256End(&packer.hash, context.hash);
        if (r < 0) {
                context_clear(&context);
                return r;
        }
        *ret_context = context;
        return 0;
}

void context_clear(struct context *context) {
        free(context->tar);
        *context = (struct context){0};
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Opens or makes the directory of a store, with its identity. */
#include "store.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "files.h"

#define IDENTITY "store"
#define IDENTITY_COPY "store.copy"
#define PATH_HINT "Set the option `directory` to a directory of this user's own, or to one that can be made."

void store_log(const struct dir_store *store, int level, const char *format, ...) {
        char text[1024];
        va_list args;

        va_start(args, format);
        vsnprintf(text, sizeof(text), format, args);
        va_end(args);
        store->host->log(store->host->self, level, text);
}

int store_error(const struct dir_store *store, int code, const char *what, const char *directory, const char *file,
                struct sbx_error *err) {
        char reason[96];
        const char *hint = code == -ENOSPC || code == -EDQUOT
                                   ? "Make room on the disk; `sessions gc` removes old sessions."
                           : code == -EPERM || code == -EBADMSG
                                   ? "Something that this program has not made stands there; look at it, move it away."
                                   : NULL;

        return sbx_error_set(err, code == -EDQUOT ? -ENOSPC : code, DIR_ORIGIN, hint, "can't %s %s/%s%s%s: %s", what,
                             store->path, directory, file != NULL ? "/" : "", file != NULL ? file : "",
                             code == -EBADMSG ? "it is no regular file of this user"
                                              : strerror_r(-code, reason, sizeof(reason)));
}

/* ---- the directory ---- */

/* Each directory of the path that is not there. */
static int make_path(const char *path, struct sbx_error *err) {
        _cleanup_free_ char *copy = strdup(path);

        if (copy == NULL)
                return no_memory(err);
        for (char *slash = strchr(copy + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
                *slash = '\0';
                if (mkdir(copy, 0700) < 0 && errno != EEXIST)
                        return sbx_error_set(err, -errno, DIR_ORIGIN, PATH_HINT, "can't make %s: %m", copy);
                *slash = '/';
        }
        if (mkdir(copy, 0700) < 0 && errno != EEXIST)
                return sbx_error_set(err, -errno, DIR_ORIGIN, PATH_HINT, "can't make %s: %m", path);
        return 0;
}

static int check_root(const struct dir_store *store, int fd, struct sbx_error *err) {
        struct stat st;

        if (fstat(fd, &st) < 0)
                return sbx_error_set(err, -errno, DIR_ORIGIN, NULL, "can't look at %s: %m", store->path);
        if (st.st_uid != geteuid())
                return sbx_error_set(err, -EPERM, DIR_ORIGIN, PATH_HINT, "%s belongs to user %u, not to this one",
                                     store->path, (unsigned)st.st_uid);
        if ((st.st_mode & 077) != 0)
                return sbx_error_set(err, -EPERM, DIR_ORIGIN, "Take the others' permissions away: chmod 700 DIRECTORY.",
                                     "others than its owner have access to %s (mode %03o)", store->path,
                                     (unsigned)st.st_mode & 0777);
        return 0;
}

static int open_root(struct dir_store *store, bool create, int *ret_fd, struct sbx_error *err) {
        const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
        _cleanup_close_ int fd = open(store->path, flags);
        int r;

        if (fd < 0 && errno == ENOENT && create) {
                r = make_path(store->path, err);
                if (r < 0)
                        return r;
                fd = open(store->path, flags);
        }
        if (fd < 0 && errno == ENOENT)
                return create ? sbx_error_set(err, -ENOENT, DIR_ORIGIN, PATH_HINT, "can't make %s", store->path)
                              : -ENOENT;
        if (fd < 0)
                return sbx_error_set(err, -errno, DIR_ORIGIN, PATH_HINT, "can't open %s: %s", store->path,
                                     errno == ELOOP || errno == ENOTDIR ? "it is a symbolic link, or no directory"
                                                                        : strerror(errno));
        r = check_root(store, fd, err);
        if (r == 0)
                *ret_fd = steal_fd(&fd);
        return r;
}

/* ---- identity ---- */

static int visit_foreign(void *data, int fd, const char *name) {
        (void)data;
        (void)fd;
        /* What another process that makes the store at this moment may have made already. */
        return strncmp(name, IDENTITY, strlen(IDENTITY)) == 0 || strncmp(name, "new.", 4) == 0 ? 0 : -EEXIST;
}

/* Written under another name, and given its own only if nobody else was faster. */
static int write_identity(int root_fd, const char *name, const char *text) {
        char temporary[FILE_NAME_RANDOM + 4] = "new.";
        _cleanup_close_ int fd = -1;
        int r;

        file_random_name(temporary + 4);
        r = file_open(root_fd, temporary, O_WRONLY | O_CREAT | O_EXCL, &fd, NULL);
        if (r < 0)
                return r;
        r = write_at(fd, text, strlen(text), 0);
        if (r == 0 && fsync(fd) < 0)
                r = -errno;
        if (r == 0 && renameat2(root_fd, temporary, root_fd, name, RENAME_NOREPLACE) < 0)
                r = errno == EINVAL && linkat(root_fd, temporary, root_fd, name, 0) == 0 ? 0 : -errno;
        (void)unlinkat(root_fd, temporary, 0);
        if (r == 0 && fsync(root_fd) < 0)
                r = -errno;
        return r;
}

/* -EEXIST: there are other files. */
static int make_identity(struct dir_store *store, int root_fd, struct sbx_error *err) {
        char text[SEALING_IDENTITY_MAX];
        struct sealing made;
        int r = directory_visit(root_fd, visit_foreign, NULL);

        if (r == -EEXIST)
                return r;
        if (r < 0)
                return store_error(store, r, "read", "", NULL, err);
        r = sealing_create(store->key_file, DIR_ORIGIN, text, &made, err);
        if (r < 0)
                return r;
        sealing_clear(&made); /* what is read counts: perhaps another process is making it too */
        r = write_identity(root_fd, IDENTITY, text);
        return r < 0 && r != -EEXIST ? store_error(store, r, "write", IDENTITY, NULL, err) : 0;
}

/* -ENODATA: there is none. */
static int read_identity(struct dir_store *store, int root_fd, const char *name, struct bytes *ret_text,
                         struct sbx_error *err) {
        _cleanup_bytes_ struct bytes text = {0};
        char place[4096];
        int r = file_read(root_fd, name, SEALING_IDENTITY_MAX, &text, NULL);

        if (r == -ENOENT)
                return -ENODATA;
        snprintf(place, sizeof(place), "%s/%s", store->path, name);
        if (r < 0 && r != -EFBIG)
                return store_error(store, r, "read", name, NULL, err);
        r = sealing_open((struct sbx_bytes){text.data, r < 0 ? SEALING_IDENTITY_MAX : text.size}, store->key_file,
                         place, DIR_ORIGIN, &store->sealing, err);
        if (r == 0) {
                *ret_text = text;
                text = (struct bytes){0};
        }
        return r;
}

static int restore_identity(struct dir_store *store, int root_fd, const char *name, const struct bytes *good) {
        char text[SEALING_IDENTITY_MAX];

        snprintf(text, sizeof(text), "%.*s", (int)good->size, (const char *)good->data);
        if (unlinkat(root_fd, name, 0) == 0)
                store_log(store, SBX_LOG_WARNING, "%s/%s was damaged; it is made anew from its copy", store->path,
                          name);
        return write_identity(root_fd, name, text);
}

/* From the one file or, if it is damaged or missing, the other, which is then put in its place. -ENODATA: neither is
 * there. */
static int find_identity(struct dir_store *store, int root_fd, struct sbx_error *err) {
        _cleanup_bytes_ struct bytes text = {0};
        struct sbx_error first = {0}, second = {0};
        struct stat st;
        int r = read_identity(store, root_fd, IDENTITY, &text, &first), copy;

        if (r == 0) {
                if (fstatat(root_fd, IDENTITY_COPY, &st, AT_SYMLINK_NOFOLLOW) < 0)
                        (void)restore_identity(store, root_fd, IDENTITY_COPY, &text);
                return 0;
        }
        copy = read_identity(store, root_fd, IDENTITY_COPY, &text, &second);
        if (copy == 0) {
                (void)restore_identity(store, root_fd, IDENTITY, &text); /* else the copy serves again the next time */
                return 0;
        }
        if (r == -ENODATA && copy != -ENODATA) {
                r = copy;
                first = second;
        }
        return r == -ENODATA ? r : sbx_error_set(err, r, first.origin, first.hint, "%s", first.message);
}

/* ---- all of it ---- */

static int open_parts(struct dir_store *store, int root_fd, struct sbx_error *err) {
        const struct {
                const char *name;
                int *fd;
        } parts[] = {
                {"names", &store->names_fd}, {"objects", &store->objects_fd}, {"leases", &store->leases_fd},
                {"locks", &store->locks_fd}, {"tmp", &store->tmp_fd},         {"trash", &store->trash_fd},
        };

        for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
                int r = directory_open(root_fd, parts[i].name, true, parts[i].fd);

                if (r < 0)
                        return store_error(store, r, "open the directory", parts[i].name, NULL, err);
        }
        return 0;
}

static void close_parts(struct dir_store *store) {
        int *const fds[] = {&store->root_fd,  &store->names_fd, &store->objects_fd, &store->leases_fd,
                            &store->locks_fd, &store->tmp_fd,   &store->trash_fd};

        for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
                close_fd(fds[i]);
}

static int open_store(struct dir_store *store, bool create, struct sbx_error *err) {
        _cleanup_close_ int root_fd = -1;
        int r = open_root(store, create, &root_fd, err);

        if (r < 0)
                return r;
        r = find_identity(store, root_fd, err);
        if (r == -ENODATA && create) {
                r = make_identity(store, root_fd, err);
                if (r == 0 || r == -EEXIST) /* files of another process that has made it at this moment, perhaps */
                        r = find_identity(store, root_fd, err);
                if (r == -ENODATA)
                        r = sbx_error_set(
                                err, -EINVAL, DIR_ORIGIN,
                                "Set the option `directory` to a directory of its own; if this one was a store, its "
                                "file `store` is missing: put it back from a copy.",
                                "%s is not a store: there are other files in it", store->path);
        }
        if (r == 0)
                r = open_parts(store, root_fd, err);
        if (r < 0) {
                close_parts(store);
                return r == -ENODATA ? -ENOENT : r; /* an empty directory: nobody has stored anything */
        }
        store->root_fd = steal_fd(&root_fd);
        store->opened = true;
        return 0;
}

int store_ready(struct dir_store *store, bool create, struct sbx_error *err) {
        _cleanup_unlock_ pthread_mutex_t *locked = lock_mutex(&store->mutex);
        struct stat st;

        (void)locked;
        if (store->opened && fstat(store->root_fd, &st) == 0 && st.st_nlink > 0)
                return 0;
        if (store->opened)
                return sbx_error_set(err, -EIO, DIR_ORIGIN, "Start the program again.",
                                     "%s was removed while it was used", store->path);
        return open_store(store, create, err);
}

void store_close(struct dir_store *store) {
        close_parts(store);
        sealing_clear(&store->sealing);
        store->opened = false;
}

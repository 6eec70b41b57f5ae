/* SPDX-License-Identifier: Apache-2.0 */
/* The session's file system against the one of the machine: the same random calls on both, the same results and errors,
 * the same files at the end. In between it goes through a snapshot, with its descriptors open.
 *
 * Both sides work in a directory so deep that no path of the test, whatever links it follows, leads out of the part
 * that both have. */
#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vfs_help.h"

#define DEPTH (VFS_LINKS_MAX + 8)
#define STEPS 30000
#define FILES 6
#define SIZE_MAX_FILE 300000

struct pair { /* one open file, or -1 */
        int host;
        uint32_t guest;
};
struct model {
        uint64_t random;
        struct vfs *vfs;
        int root; /* of the machine's side */
        uint32_t guest_root;
        char base[64];
        struct pair files[FILES];
        unsigned agreed, failed; /* calls with the same success, the same error */
};

static const struct vfs_limits limits = {.bytes = UINT64_C(1) << 32, .entries = 100000, .open_files = 100};

static uint32_t draw(struct model *model, uint32_t below) {
        model->random = model->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        return (uint32_t)(model->random >> 33) % below;
}

static int wasi_of(int error) {
        static const struct {
                int host, wasi;
        } table[] = {
                {0, 0},
                {EACCES, WASI_EACCES},
                {EBADF, WASI_EBADF},
                {EBUSY, WASI_EBUSY},
                {EEXIST, WASI_EEXIST},
                {EFBIG, WASI_EFBIG},
                {EINVAL, WASI_EINVAL},
                {EISDIR, WASI_EISDIR},
                {ELOOP, WASI_ELOOP},
                {ENAMETOOLONG, WASI_ENAMETOOLONG},
                {ENOENT, WASI_ENOENT},
                {ENOTDIR, WASI_ENOTDIR},
                {ENOTEMPTY, WASI_ENOTEMPTY},
                {EPERM, WASI_EPERM},
                {EXDEV, WASI_EXDEV},
        };

        for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
                if (table[i].host == error)
                        return table[i].wasi;
        fail_msg("the machine answered %s", strerror(error));
        return -1;
}

/* The host's result is -1 with errno, or not negative. */
static bool same(struct model *model, const char *what, const char *path, int64_t host, int guest) {
        int expected = host < 0 ? wasi_of(errno) : 0;

        if (expected != guest)
                fail_msg("%s %s: %d, and %d on the machine (%s)", what, path, guest, expected,
                         host < 0 ? strerror(errno) : "success");
        if (guest == 0)
                model->agreed++;
        else
                model->failed++;
        return guest == 0;
}

/* A path of up to three names: "a" to "d", ".", "..", at times with slashes too many. */
static const char *draw_path(struct model *model, char path[64]) {
        static const char *const names[] = {"a", "a", "b", "b", "c", "c", "d", "d", ".", ".."};
        uint32_t count = 1 + draw(model, 3), ups = 0;
        size_t used = 0;

        for (uint32_t i = 0; i < count; i++) {
                uint32_t number = draw(model, 10);

                if (number == 9 && ups++ >= 2)
                        number = 0;
                used += (size_t)snprintf(path + used, 64 - used, "%s%s", i > 0 ? "/" : "", names[number]);
        }
        if (draw(model, 12) == 0)
                snprintf(path + used, 64 - used, "/");
        return path;
}

static struct vfs_at guest_at(const struct model *model, const char *path, bool follow) {
        return (struct vfs_at){.fd = model->guest_root, .path = path, .size = strlen(path), .follow = follow};
}

static void do_open(struct model *model) {
        struct pair *file = &model->files[draw(model, FILES)];
        uint32_t access = draw(model, 3), kind = draw(model, 8);
        bool follow = draw(model, 4) > 0;
        struct vfs_open_how how = {.read = access != 1, .write = access != 0};
        int flags = access == 0 ? O_RDONLY : access == 1 ? O_WRONLY : O_RDWR;
        char path[64];
        struct vfs_at at;

        if (file->host >= 0)
                return;
        draw_path(model, path);
        if (kind < 3) {
                how.create = true;
                flags |= O_CREAT;
        }
        if (kind == 1) {
                how.exclusive = true;
                flags |= O_EXCL;
        }
        if (kind == 2 && access != 0) {
                how.truncate = true;
                flags |= O_TRUNC;
        }
        if (kind == 3) {
                how.directory = true;
                flags |= O_DIRECTORY;
        }
        if (kind == 4) {
                how.flags = WASI_FD_APPEND;
                flags |= O_APPEND;
        }
        at = guest_at(model, path, follow);
        file->host = openat(model->root, path, flags | (follow ? 0 : O_NOFOLLOW) | O_CLOEXEC, 0666);
        same(model, "open", path, file->host, vfs_open(model->vfs, &at, &how, &file->guest));
}

static void do_close(struct model *model, struct pair *file) {
        if (file->host < 0)
                return;
        same(model, "close", "", close(file->host), vfs_close(model->vfs, file->guest));
        file->host = -1;
}

static void do_write(struct model *model, const struct pair *file) {
        char data[3000];
        size_t size = draw(model, 10) == 0 ? 0 : 1 + draw(model, sizeof(data) - 1), done = 0;
        off_t offset = (off_t)draw(model, SIZE_MAX_FILE);
        ssize_t n;

        memset(data, 'a' + (int)draw(model, 26), size);
        if (draw(model, 2) == 0) {
                n = write(file->host, data, size);
                same(model, "write", "", n, vfs_write(model->vfs, file->guest, data, size, &done));
        } else if (vfs_describe(model->vfs, file->guest, &(struct vfs_descriptor){0}) == 0) {
                struct vfs_descriptor descriptor;

                vfs_describe(model->vfs, file->guest, &descriptor);
                if ((descriptor.flags & WASI_FD_APPEND) != 0)
                        return; /* Linux appends where POSIX would not */
                n = pwrite(file->host, data, size, offset);
                same(model, "pwrite", "", n, vfs_pwrite(model->vfs, file->guest, (uint64_t)offset, data, size, &done));
        } else {
                return;
        }
        if (n >= 0)
                assert_int_equal(done, n);
}

static void do_read(struct model *model, const struct pair *file) {
        char host[3000], guest[3000];
        size_t size = draw(model, sizeof(host)), done = 0;
        off_t offset = (off_t)draw(model, SIZE_MAX_FILE);
        ssize_t n;

        if (draw(model, 2) == 0) {
                n = read(file->host, host, size);
                same(model, "read", "", n, vfs_read(model->vfs, file->guest, guest, size, &done));
        } else {
                n = pread(file->host, host, size, offset);
                same(model, "pread", "", n, vfs_pread(model->vfs, file->guest, (uint64_t)offset, guest, size, &done));
        }
        if (n < 0)
                return;
        assert_int_equal(done, n);
        assert_memory_equal(host, guest, done);
}

static void do_seek(struct model *model, const struct pair *file) {
        int64_t offset = (int64_t)draw(model, SIZE_MAX_FILE) - SIZE_MAX_FILE / 3;
        uint32_t whence = draw(model, 3);
        uint64_t position = 0;
        struct stat st;
        off_t n;

        fstat(file->host, &st);
        if (S_ISDIR(st.st_mode))
                return; /* what a position in a directory is, is its file system's affair */
        n = lseek(file->host, offset,
                  whence == WASI_WHENCE_SET   ? SEEK_SET
                  : whence == WASI_WHENCE_CUR ? SEEK_CUR
                                              : SEEK_END);
        if (same(model, "seek", "", n, vfs_seek(model->vfs, file->guest, offset, whence, &position)))
                assert_int_equal(position, n);
}

static void do_resize(struct model *model, const struct pair *file) {
        off_t size = (off_t)draw(model, SIZE_MAX_FILE), length = 1 + (off_t)draw(model, 70000);
        struct stat st;

        fstat(file->host, &st);
        if (!S_ISREG(st.st_mode) || (fcntl(file->host, F_GETFL) & O_ACCMODE) == O_RDONLY)
                return; /* EINVAL on Linux, EBADF elsewhere: POSIX leaves the choice */
        if (draw(model, 3) > 0)
                same(model, "truncate", "", ftruncate(file->host, size),
                     vfs_set_size(model->vfs, file->guest, (uint64_t)size));
        else
                same(model, "allocate", "", -!!posix_fallocate(file->host, size, length),
                     vfs_allocate(model->vfs, file->guest, (uint64_t)size, (uint64_t)length));
}

static uint8_t type_of(mode_t mode) {
        return S_ISDIR(mode)   ? WASI_FILETYPE_DIRECTORY
               : S_ISLNK(mode) ? WASI_FILETYPE_SYMBOLIC_LINK
                               : WASI_FILETYPE_REGULAR_FILE;
}

static void compare_stat(const struct stat *host, const struct vfs_stat *guest) {
        assert_int_equal(guest->type, type_of(host->st_mode));
        if (S_ISDIR(host->st_mode))
                return;
        assert_int_equal(guest->size, host->st_size);
        assert_int_equal(guest->links, host->st_nlink);
}

static void do_stat(struct model *model) {
        bool follow = draw(model, 2) == 0;
        struct vfs_stat guest = {0};
        struct stat host;
        char path[64];
        struct vfs_at at = guest_at(model, draw_path(model, path), follow);
        int r = fstatat(model->root, path, &host, follow ? 0 : AT_SYMLINK_NOFOLLOW);

        if (same(model, "stat", path, r, vfs_stat_at(model->vfs, &at, &guest)))
                compare_stat(&host, &guest);
}

static void do_fstat(struct model *model, const struct pair *file) {
        struct vfs_stat guest = {0};
        struct stat host;

        if (same(model, "fstat", "", fstat(file->host, &host), vfs_stat_fd(model->vfs, file->guest, &guest)))
                compare_stat(&host, &guest);
}

static void do_times(struct model *model) {
        struct timespec spec[2] = {{.tv_sec = draw(model, 1000000)}, {.tv_sec = 1, .tv_nsec = draw(model, 1000000)}};
        struct vfs_times times = {.set_accessed = true,
                                  .accessed_ns = (uint64_t)spec[0].tv_sec * 1000000000,
                                  .set_modified = true,
                                  .modified_ns = 1000000000 + (uint64_t)spec[1].tv_nsec};
        struct vfs_stat guest = {0};
        struct stat host;
        char path[64];
        struct vfs_at at = guest_at(model, draw_path(model, path), true);

        if (!same(model, "utime", path, utimensat(model->root, path, spec, 0),
                  vfs_set_times_at(model->vfs, &at, &times)))
                return;
        assert_int_equal(fstatat(model->root, path, &host, 0), 0);
        assert_int_equal(vfs_stat_at(model->vfs, &at, &guest), 0);
        assert_int_equal(guest.modified_ns,
                         (uint64_t)host.st_mtim.tv_sec * 1000000000 + (uint64_t)host.st_mtim.tv_nsec);
        assert_int_equal(guest.accessed_ns,
                         (uint64_t)host.st_atim.tv_sec * 1000000000 + (uint64_t)host.st_atim.tv_nsec);
}

static void do_names(struct model *model) {
        char one[64], two[64];
        struct vfs_at first = guest_at(model, draw_path(model, one), false);
        struct vfs_at second = guest_at(model, draw_path(model, two), false);
        char host[192], guest[64];
        size_t done = 0;
        ssize_t n;

        switch (draw(model, 7)) {
        case 0:
                same(model, "mkdir", one, mkdirat(model->root, one, 0777), vfs_make_directory(model->vfs, &first));
                break;
        case 1:
                same(model, "rmdir", one, unlinkat(model->root, one, AT_REMOVEDIR),
                     vfs_remove_directory(model->vfs, &first));
                break;
        case 2:
                same(model, "unlink", one, unlinkat(model->root, one, 0), vfs_unlink(model->vfs, &first));
                break;
        case 3:
                snprintf(host, sizeof(host), "%s to %s", one, two);
                same(model, "rename", host, renameat(model->root, one, model->root, two),
                     vfs_rename(model->vfs, &first, &second));
                break;
        case 4:
                snprintf(host, sizeof(host), "%s to %s", one, two);
                same(model, "link", host, linkat(model->root, one, model->root, two, 0),
                     vfs_link(model->vfs, &first, &second));
                break;
        case 5:
                if (strstr(one, "..") != NULL && strstr(strstr(one, "..") + 2, "..") != NULL)
                        break; /* at most one step up a link, so that all of them stay below the depth */
                snprintf(host, sizeof(host), "%s as %s", one, two);
                same(model, "symlink", host, symlinkat(one, model->root, two),
                     vfs_symlink(model->vfs, one, strlen(one), &second));
                break;
        default:
                n = readlinkat(model->root, one, host, sizeof(guest));
                if (same(model, "readlink", one, n, vfs_readlink(model->vfs, &first, guest, sizeof(guest), &done))) {
                        assert_int_equal(done, n);
                        assert_memory_equal(host, guest, done);
                }
        }
}

/* Into a snapshot and back. */
static void do_snapshot(struct model *model) {
        struct snapshot_writer writer = {0}, again = {0};
        struct snapshot_reader reader;
        struct vfs_usage before, after;
        struct vfs *loaded = NULL;

        assert_int_equal(vfs_save(model->vfs, &writer), 0);
        reader = (struct snapshot_reader){.data = writer.data, .size = writer.size};
        assert_int_equal(vfs_load(NULL, &limits, &reader, &loaded), 0);
        assert_int_equal(reader.at, reader.size);
        vfs_get_usage(model->vfs, &before);
        vfs_get_usage(loaded, &after);
        assert_in_range(after.bytes, 0, before.bytes);
        assert_int_equal(after.entries, before.entries);
        assert_int_equal(after.open_files, before.open_files);
        assert_int_equal(vfs_save(loaded, &again), 0);
        assert_int_equal(again.size, writer.size);
        assert_memory_equal(again.data, writer.data, writer.size);
        free(writer.data);
        free(again.data);
        vfs_free(model->vfs);
        model->vfs = loaded;
}

static int compare_names(const void *a, const void *b) {
        return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Names of the guest's directory, sorted. */
static size_t guest_names(struct vfs *vfs, uint32_t fd, char *names[64]) {
        struct vfs_dirent entry;
        uint64_t cookie = 0;
        size_t count = 0;

        for (;;) {
                assert_int_equal(vfs_readdir(vfs, fd, cookie, &entry), 0);
                if (entry.name_size == 0)
                        break;
                assert_true(count < 64);
                names[count++] = strndup(entry.name, entry.name_size);
                cookie = entry.next;
        }
        qsort(names, count, sizeof(*names), compare_names);
        return count;
}

/* All that is below both directories; takes `host` over. */
static void compare_below(struct vfs *vfs, int host, uint32_t guest) {
        struct vfs_open_how how = {.read = true, .directory = true};
        char *names[64], *others[64];
        size_t count = guest_names(vfs, guest, names), other_count = 0;
        DIR *directory = fdopendir(host);
        struct dirent *entry;

        while ((entry = readdir(directory)) != NULL && other_count < 64)
                others[other_count++] = strdup(entry->d_name);
        qsort(others, other_count, sizeof(*others), compare_names);
        assert_int_equal(count, other_count);
        for (size_t i = 0; i < count; i++) {
                struct vfs_stat guest_stat = {0};
                struct stat host_stat;
                uint32_t fd = 0;

                assert_string_equal(names[i], others[i]);
                assert_int_equal(fstatat(host, names[i], &host_stat, AT_SYMLINK_NOFOLLOW), 0);
                assert_int_equal(vfs_stat_at(vfs, AT_FD(guest, names[i]), &guest_stat), 0);
                compare_stat(&host_stat, &guest_stat);
                if (S_ISDIR(host_stat.st_mode) && names[i][0] != '.') {
                        assert_int_equal(vfs_open(vfs, AT_FD(guest, names[i]), &how, &fd), 0);
                        compare_below(vfs, openat(host, names[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd);
                        vfs_close(vfs, fd);
                } else if (S_ISREG(host_stat.st_mode)) {
                        char *host_data = calloc(2, (size_t)host_stat.st_size + 1);
                        char *guest_data = host_data + host_stat.st_size;
                        size_t done = 0;
                        int file = openat(host, names[i], O_RDONLY | O_CLOEXEC);

                        assert_int_equal(read(file, host_data, (size_t)host_stat.st_size), host_stat.st_size);
                        close(file);
                        assert_int_equal(
                                vfs_open(vfs, AT_FD(guest, names[i]), &(struct vfs_open_how){.read = true}, &fd), 0);
                        assert_int_equal(vfs_read(vfs, fd, guest_data, (size_t)host_stat.st_size, &done), 0);
                        assert_int_equal(done, host_stat.st_size);
                        assert_memory_equal(host_data, guest_data, done);
                        vfs_close(vfs, fd);
                        free(host_data);
                }
                free(names[i]);
                free(others[i]);
        }
        closedir(directory);
}

static void begin(struct model *model, uint64_t seed) {
        const char *temporary = getenv("TMPDIR");
        struct vfs_open_how how = {.read = true, .directory = true};
        int fd;

        *model = (struct model){.random = seed, .guest_root = VFS_ROOT_FD};
        for (int i = 0; i < FILES; i++)
                model->files[i].host = -1;
        snprintf(model->base, sizeof(model->base), "%s/vfs-model-XXXXXX", temporary != NULL ? temporary : "/tmp");
        assert_non_null(mkdtemp(model->base));
        assert_int_equal(vfs_new(NULL, &limits, &model->vfs), 0);
        model->root = open(model->base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        for (int i = 0; i < DEPTH; i++) {
                uint32_t next = 0;
                const char *name = i == 0 ? "work" : "p";

                assert_int_equal(mkdirat(model->root, name, 0777), 0);
                fd = openat(model->root, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                close(model->root);
                model->root = fd;
                if (i > 0)
                        assert_int_equal(vfs_make_directory(model->vfs, AT_FD(model->guest_root, name)), 0);
                assert_int_equal(vfs_open(model->vfs, AT_FD(model->guest_root, name), &how, &next), 0);
                if (i > 0)
                        vfs_close(model->vfs, model->guest_root);
                model->guest_root = next;
        }
}

static void end(struct model *model) {
        uint32_t work = 0;
        char command[128];

        for (int i = 0; i < FILES; i++)
                do_close(model, &model->files[i]);
        vfs_close(model->vfs, model->guest_root);
        close(model->root);
        model->root = open(model->base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_int_equal(
                vfs_open(model->vfs, AT("work"), &(struct vfs_open_how){.read = true, .directory = true}, &work), 0);
        compare_below(model->vfs, openat(model->root, "work", O_RDONLY | O_DIRECTORY | O_CLOEXEC), work);
        close(model->root);
        vfs_free(model->vfs);
        snprintf(command, sizeof(command), "rm -rf '%s'", model->base);
        assert_int_equal(system(command), 0);
}

static void run(uint64_t seed) {
        struct model model;

        begin(&model, seed);
        for (unsigned step = 0; step < STEPS; step++) {
                struct pair *file = &model.files[draw(&model, FILES)];
                uint32_t what = draw(&model, 20);

                if (what < 8)
                        do_names(&model);
                else if (what < 10)
                        do_open(&model);
                else if (what == 10)
                        do_stat(&model);
                else if (what == 11)
                        do_times(&model);
                else if (what == 12 && draw(&model, 50) == 0)
                        do_snapshot(&model);
                else if (file->host < 0)
                        continue;
                else if (what == 13 && draw(&model, 3) == 0)
                        do_close(&model, file);
                else if (what < 15)
                        do_write(&model, file);
                else if (what < 17)
                        do_read(&model, file);
                else if (what == 17)
                        do_seek(&model, file);
                else if (what == 18)
                        do_resize(&model, file);
                else
                        do_fstat(&model, file);
        }
        /* It has been somewhere: most calls did something, and many were refused. */
        assert_true(model.agreed > STEPS / 10);
        assert_true(model.failed > STEPS / 10);
        end(&model);
}

static void test_first(void **state) {
        (void)state;
        run(1);
}

static void test_second(void **state) {
        (void)state;
        run(20260101);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_first), cmocka_unit_test(test_second)};

        umask(0);
        if (argc > 1) { /* by hand: with a seed */
                run(strtoull(argv[1], NULL, 0));
                return 0;
        }
        return cmocka_run_group_tests(tests, NULL, NULL);
}

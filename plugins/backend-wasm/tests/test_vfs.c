/* SPDX-License-Identifier: Apache-2.0 */
/* The file system of a session: what can be done, what can't and with which error. */
#include "vfs_fixture.h"

static void test_read_tree(void **state) {
        struct vfs *vfs = vfs_of(state);
        struct vfs_stat stat;
        char text[20] = "";
        uint32_t fd;

        assert_int_equal(read_file(vfs, "usr/lib/a.py", text, sizeof(text)), 9);
        assert_memory_equal(text, "print(1)\n", 9);
        assert_int_equal(read_file(vfs, "/usr/lib/package/../b.py", text, sizeof(text)), 9);
        assert_memory_equal(text, "print(2)\n", 9);
        assert_int_equal(read_file(vfs, "../../etc/./name", text, sizeof(text)), 3);
        assert_int_equal(read_file(vfs, "usr/lib/package/__init__.py", text, sizeof(text)), 0);
        assert_int_equal(vfs_stat_at(vfs, AT("usr/lib/a.py"), &stat), 0);
        assert_int_equal(stat.size, 9);
        assert_int_equal(stat.modified_ns, MTIME);
        assert_int_equal(stat.type, WASI_FILETYPE_REGULAR_FILE);
        assert_int_equal(open_as(vfs, "usr/lib/c.py", "r", &fd), WASI_ENOENT);
        assert_int_equal(open_as(vfs, "usr/lib/a.py/x", "r", &fd), WASI_ENOTDIR);
        assert_int_equal(open_as(vfs, "usr/lib/a.py/", "r", &fd), WASI_ENOTDIR);
        assert_int_equal(open_as(vfs, "tmp/hidden", "r", &fd), WASI_ENOENT);
}

static void test_tree_is_read_only(void **state) {
        struct vfs *vfs = vfs_of(state);
        struct vfs_times times = {.set_modified = true};
        uint32_t fd;

        assert_int_equal(open_as(vfs, "usr/lib/a.py", "w", &fd), WASI_EROFS);
        assert_int_equal(open_as(vfs, "usr/lib/a.py", "r+", &fd), WASI_EROFS);
        assert_int_equal(open_as(vfs, "usr/lib/new.py", "w", &fd), WASI_EROFS);
        assert_int_equal(open_as(vfs, "new", "x", &fd), WASI_EROFS);
        assert_int_equal(vfs_make_directory(vfs, AT("home")), WASI_EROFS);
        assert_int_equal(vfs_make_directory(vfs, AT("usr")), WASI_EEXIST);
        assert_int_equal(vfs_unlink(vfs, AT("etc/name")), WASI_EROFS);
        assert_int_equal(vfs_unlink(vfs, AT("etc/none")), WASI_ENOENT);
        assert_int_equal(vfs_unlink(vfs, AT("etc")), WASI_EISDIR);
        assert_int_equal(vfs_remove_directory(vfs, AT("etc")), WASI_EROFS);
        assert_int_equal(vfs_remove_directory(vfs, AT("work")), WASI_EBUSY);
        assert_int_equal(vfs_remove_directory(vfs, AT("/")), WASI_EBUSY);
        assert_int_equal(vfs_rename(vfs, AT("etc/name"), AT("etc/name2")), WASI_EROFS);
        assert_int_equal(vfs_rename(vfs, AT("etc/name"), AT("work/name")), WASI_EXDEV);
        assert_int_equal(vfs_rename(vfs, AT("work"), AT("tmp/work")), WASI_EBUSY);
        assert_int_equal(vfs_rename(vfs, AT("work"), AT("usr")), WASI_EBUSY);
        assert_int_equal(vfs_link(vfs, AT("etc/name"), AT("work/name")), WASI_EXDEV);
        assert_int_equal(vfs_symlink(vfs, "x", 1, AT("etc/x")), WASI_EROFS);
        assert_int_equal(vfs_set_times_at(vfs, AT("etc/name"), &times), WASI_EROFS);
        assert_int_equal(open_as(vfs, "etc/name", "r", &fd), 0);
        assert_int_equal(vfs_set_times_fd(vfs, fd, &times), WASI_EROFS);
        assert_int_equal(vfs_set_size(vfs, fd, 0), WASI_EBADF);
}

static void test_null_device(void **state) {
        struct vfs *vfs = vfs_of(state);
        struct vfs_stat stat;
        uint64_t position;
        size_t done;
        uint32_t fd;
        char byte;

        assert_int_equal(open_as(vfs, "dev/null", "w", &fd), 0);
        assert_int_equal(vfs_write(vfs, fd, "abc", 3, &done), 0);
        assert_int_equal(done, 3);
        assert_int_equal(vfs_seek(vfs, fd, 5, WASI_WHENCE_SET, &position), 0);
        assert_int_equal(position, 0);
        assert_int_equal(vfs_close(vfs, fd), 0);
        assert_int_equal(open_as(vfs, "dev/null", "r", &fd), 0);
        assert_int_equal(vfs_read(vfs, fd, &byte, 1, &done), 0);
        assert_int_equal(done, 0);
        assert_int_equal(vfs_stat_fd(vfs, fd, &stat), 0);
        assert_int_equal(stat.type, WASI_FILETYPE_CHARACTER_DEVICE);
        assert_int_equal(vfs_unlink(vfs, AT("dev/null")), WASI_EROFS);
}

static void test_write_and_read(void **state) {
        struct vfs *vfs = vfs_of(state);
        uint64_t position;
        char text[20];
        size_t done;
        uint32_t fd;

        assert_int_equal(open_as(vfs, "work/f", "w", &fd), 0);
        assert_int_equal(fd, VFS_FIRST_FD);
        assert_int_equal(vfs_write(vfs, fd, "hello", 5, &done), 0);
        assert_int_equal(vfs_read(vfs, fd, text, 1, &done), WASI_EBADF);
        assert_int_equal(vfs_seek(vfs, fd, -2, WASI_WHENCE_END, &position), 0);
        assert_int_equal(position, 3);
        assert_int_equal(vfs_seek(vfs, fd, -4, WASI_WHENCE_CUR, &position), WASI_EINVAL);
        assert_int_equal(vfs_seek(vfs, fd, INT64_MAX, WASI_WHENCE_CUR, &position), WASI_EOVERFLOW);
        assert_int_equal(vfs_seek(vfs, fd, 0, 7, &position), WASI_EINVAL);
        assert_int_equal(vfs_write(vfs, fd, "p!", 2, &done), 0);
        assert_int_equal(vfs_pwrite(vfs, fd, 7, "z", 1, &done), 0);
        assert_int_equal(vfs_close(vfs, fd), 0);
        assert_int_equal(vfs_close(vfs, fd), WASI_EBADF);
        assert_int_equal(read_file(vfs, "work/f", text, sizeof(text)), 8);
        assert_memory_equal(text, "help!\0\0z", 8);
        assert_int_equal(open_as(vfs, "work/f", "a", &fd), 0);
        assert_int_equal(vfs_write(vfs, fd, "++", 2, &done), 0);
        assert_int_equal(vfs_seek(vfs, fd, 0, WASI_WHENCE_SET, &position), 0);
        assert_int_equal(vfs_write(vfs, fd, "=", 1, &done), 0);
        assert_int_equal(vfs_set_size(vfs, fd, 12), 0);
        assert_int_equal(vfs_close(vfs, fd), 0);
        assert_int_equal(read_file(vfs, "work/f", text, sizeof(text)), 12);
        assert_memory_equal(text, "help!\0\0z++=\0", 12);
        assert_int_equal(open_as(vfs, "work/f", "r", &fd), 0);
        assert_int_equal(vfs_pread(vfs, fd, 3, text, 2, &done), 0);
        assert_memory_equal(text, "p!", 2);
        assert_int_equal(vfs_pread(vfs, fd, UINT64_MAX, text, 2, &done), 0);
        assert_int_equal(done, 0);
        assert_int_equal(vfs_write(vfs, fd, "x", 1, &done), WASI_EBADF);
        assert_int_equal(vfs_set_size(vfs, fd, 1), WASI_EBADF);
}

/* What was cut off does not come back. */
static void test_truncate_forgets(void **state) {
        struct vfs *vfs = vfs_of(state);
        char text[16], zeros[16] = "";
        size_t done;
        uint32_t fd;

        for (uint64_t offset = 0; offset < 200000; offset += 65530) {
                assert_int_equal(open_as(vfs, "work/f", "w", &fd), 0);
                assert_int_equal(vfs_pwrite(vfs, fd, offset, "0123456789abcdef", 16, &done), 0);
                assert_int_equal(vfs_set_size(vfs, fd, offset + 4), 0);
                assert_int_equal(vfs_set_size(vfs, fd, offset + 16), 0);
                vfs_close(vfs, fd);
                assert_int_equal(open_as(vfs, "work/f", "r", &fd), 0);
                assert_int_equal(vfs_pread(vfs, fd, offset, text, 16, &done), 0);
                assert_int_equal(done, 16);
                assert_memory_equal(text, "0123", 4);
                assert_memory_equal(text + 4, zeros, 12);
                vfs_close(vfs, fd);
        }
}

static void test_open_errors(void **state) {
        struct vfs *vfs = vfs_of(state);
        char name[300];
        uint32_t fd;

        memset(name, 'n', sizeof(name));
        memcpy(name, "tmp/", 4);
        name[4 + VFS_NAME_MAX + 1] = '\0';
        assert_int_equal(open_as(vfs, name, "w", &fd), WASI_ENAMETOOLONG);
        name[4 + VFS_NAME_MAX] = '\0';
        assert_int_equal(open_as(vfs, name, "w", &fd), 0);
        assert_int_equal(open_as(vfs, "", "r", &fd), WASI_ENOENT);
        assert_int_equal(open_as(vfs, "work", "w", &fd), WASI_EISDIR);
        assert_int_equal(open_as(vfs, "work/new/", "w", &fd), WASI_EISDIR);
        assert_int_equal(open_as(vfs, "work/none/f", "w", &fd), WASI_ENOENT);
        assert_int_equal(open_as(vfs, "work/f", "x", &fd), 0);
        assert_int_equal(open_as(vfs, "work/f", "x", &fd), WASI_EEXIST);
        assert_int_equal(open_as(vfs, "work/f", "d", &fd), WASI_ENOTDIR);
        assert_int_equal(open_as(vfs, "work/f/..", "r", &fd), WASI_ENOTDIR);
        assert_int_equal(open_as(vfs, "work", "d", &fd), 0);
        assert_int_equal(vfs_read(vfs, fd, name, 1, &(size_t){0}), WASI_EISDIR);
        assert_int_equal(vfs_write(vfs, fd, name, 1, &(size_t){0}), WASI_EBADF);
        assert_int_equal(vfs_open(vfs, &(struct vfs_at){.fd = VFS_ROOT_FD, .path = "work/a\0b", .size = 8},
                                  &(struct vfs_open_how){.create = true, .write = true}, &fd),
                         WASI_EILSEQ);
        assert_int_equal(vfs_make_directory(vfs, AT_FD(77, "x")), WASI_EBADF);
        assert_int_equal(vfs_make_directory(vfs, AT_FD(1, "x")), WASI_ENOTDIR);
        assert_int_equal(vfs_make_directory(vfs, AT_FD(fd, "sub")), 0);
        assert_int_equal(vfs_make_directory(vfs, AT("work/sub")), WASI_EEXIST);
}

static void test_descriptors(void **state) {
        struct vfs *vfs = vfs_of(state);
        struct vfs_descriptor descriptor;
        uint32_t fd, last = 0;
        int host_fd;

        vfs_set_streams(vfs, -1, 101, 102, 104);
        assert_int_equal(vfs_host_fd(vfs, 1, &host_fd), 0);
        assert_int_equal(host_fd, 101);
        assert_int_equal(vfs_host_fd(vfs, VFS_CONTROL_FD, &host_fd), 0);
        assert_int_equal(host_fd, 104);
        assert_int_equal(vfs_host_fd(vfs, VFS_ROOT_FD, &host_fd), 0);
        assert_int_equal(host_fd, -1);
        assert_int_equal(vfs_host_fd(vfs, 9, &host_fd), WASI_EBADF);
        assert_int_equal(vfs_close(vfs, VFS_ROOT_FD), WASI_EBADF);
        for (uint32_t stream = 0; stream <= VFS_CONTROL_FD; stream++)
                assert_int_equal(vfs_close(vfs, stream), stream == VFS_ROOT_FD ? WASI_EBADF : 0);
        assert_int_equal(vfs_host_fd(vfs, 1, &host_fd), 0);
        assert_int_equal(host_fd, 101);
        for (uint32_t i = 0; i < OPEN_MAX_FILES; i++)
                assert_int_equal(open_as(vfs, "work/f", "a", &last), 0);
        assert_int_equal(last, VFS_FIRST_FD + OPEN_MAX_FILES - 1);
        assert_int_equal(open_as(vfs, "work/f", "r", &fd), WASI_EMFILE);
        assert_int_equal(open_as(vfs, "work/g", "w", &fd), WASI_EMFILE);
        assert_int_equal(vfs_stat_at(vfs, AT("work/g"), &(struct vfs_stat){0}), WASI_ENOENT);
        assert_int_equal(vfs_close(vfs, 9), 0);
        assert_int_equal(open_as(vfs, "work/f", "r", &fd), 0);
        assert_int_equal(fd, 9);
        assert_int_equal(vfs_renumber(vfs, 9, 10), 0);
        assert_int_equal(vfs_describe(vfs, 10, &descriptor), 0);
        assert_true(descriptor.read && !descriptor.write);
        assert_int_equal(vfs_describe(vfs, 9, &descriptor), WASI_EBADF);
        assert_int_equal(vfs_renumber(vfs, 10, 9), WASI_EBADF);
        assert_int_equal(vfs_renumber(vfs, 10, VFS_CONTROL_FD), WASI_ENOTSUP);
        assert_int_equal(open_as(vfs, "work/f", "a", &fd), 0);
        assert_int_equal(fd, 9);
        assert_int_equal(vfs_set_flags(vfs, fd, 0), 0);
}

static void test_symlinks(void **state) {
        struct vfs *vfs = vfs_of(state);
        struct vfs_stat stat;
        char text[64], target[VFS_PATH_MAX + 1];
        size_t done;
        uint32_t fd;

        assert_int_equal(write_file(vfs, "work/f", "data", 4), 0);
        assert_int_equal(vfs_symlink(vfs, "f", 1, AT("work/link")), 0);
        assert_int_equal(vfs_symlink(vfs, "/work/link", 10, AT("tmp/again")), 0);
        assert_int_equal(vfs_symlink(vfs, "f", 1, AT("work/link")), WASI_EEXIST);
        assert_int_equal(read_file(vfs, "tmp/again", text, sizeof(text)), 4);
        assert_int_equal(vfs_stat_at(vfs, AT("tmp/again"), &stat), 0);
        assert_int_equal(stat.type, WASI_FILETYPE_SYMBOLIC_LINK);
        assert_int_equal(stat.size, 10);
        assert_int_equal(vfs_stat_at(vfs, AT_FOLLOW("tmp/again"), &stat), 0);
        assert_int_equal(stat.type, WASI_FILETYPE_REGULAR_FILE);
        assert_int_equal(vfs_readlink(vfs, AT("tmp/again"), text, 5, &done), 0);
        assert_int_equal(done, 5);
        assert_memory_equal(text, "/work", 5);
        assert_int_equal(vfs_readlink(vfs, AT("work/f"), text, 5, &done), WASI_EINVAL);
        assert_int_equal(vfs_open(vfs, AT("work/link"), &(struct vfs_open_how){.read = true}, &fd), WASI_ELOOP);
        /* One that leads nowhere: what it names is made, unless the name has to be new. */
        assert_int_equal(vfs_symlink(vfs, "../work/target", 14, AT("tmp/dangling")), 0);
        assert_int_equal(open_as(vfs, "tmp/dangling", "r", &fd), WASI_ENOENT);
        assert_int_equal(open_as(vfs, "tmp/dangling", "x", &fd), WASI_EEXIST);
        assert_int_equal(vfs_make_directory(vfs, AT("tmp/dangling")), WASI_EEXIST);
        assert_int_equal(write_file(vfs, "tmp/dangling", "made", 4), 0);
        assert_int_equal(read_file(vfs, "work/target", text, sizeof(text)), 4);
        /* To itself, and through "..": out of "/" leads nothing. */
        assert_int_equal(vfs_symlink(vfs, "self/x", 6, AT("work/self")), 0);
        assert_int_equal(open_as(vfs, "work/self", "r", &fd), WASI_ELOOP);
        assert_int_equal(vfs_symlink(vfs, "../../../../../..", 17, AT("work/up")), 0);
        assert_int_equal(read_file(vfs, "work/up/../../etc/name", text, sizeof(text)), 3);
        /* A directory's: a slash follows it, removing does not. */
        assert_int_equal(vfs_symlink(vfs, "/work", 5, AT("tmp/dir")), 0);
        assert_int_equal(vfs_stat_at(vfs, AT("tmp/dir/"), &stat), 0);
        assert_int_equal(stat.type, WASI_FILETYPE_DIRECTORY);
        assert_int_equal(vfs_remove_directory(vfs, AT("tmp/dir/")), WASI_ENOTDIR);
        assert_int_equal(vfs_unlink(vfs, AT("tmp/dir")), 0);
        memset(target, 'a', sizeof(target));
        assert_int_equal(vfs_symlink(vfs, target, VFS_PATH_MAX + 1, AT("tmp/long")), WASI_ENAMETOOLONG);
        assert_int_equal(vfs_symlink(vfs, target, 0, AT("tmp/long")), WASI_ENOENT);
        memset(target, '/', sizeof(target));
        assert_int_equal(vfs_symlink(vfs, target, VFS_PATH_MAX, AT("tmp/slashes")), 0);
        assert_int_equal(read_file(vfs, "tmp/slashes/tmp/slashes/etc/name", text, sizeof(text)), 3);
}

/* Links that grow the path as they are followed end at its limit. */
static void test_link_bomb(void **state) {
        struct vfs *vfs = vfs_of(state);
        char target[2001];
        uint32_t fd;
        int r;

        for (size_t i = 0; i < 2000; i += 2)
                memcpy(target + i, "b/", 2);
        target[2000] = '\0';
        assert_int_equal(vfs_symlink(vfs, target, 2000, AT("work/b")), 0);
        r = open_as(vfs, "work/b", "r", &fd);
        assert_true(r == WASI_ELOOP || r == WASI_ENAMETOOLONG);
}

static void test_hard_links(void **state) {
        struct vfs *vfs = vfs_of(state);
        struct vfs_stat one, two;
        char text[8];

        assert_int_equal(write_file(vfs, "work/f", "1", 1), 0);
        assert_int_equal(vfs_link(vfs, AT("work/f"), AT("tmp/g")), 0);
        assert_int_equal(write_file(vfs, "tmp/g", "22", 2), 0);
        assert_int_equal(vfs_stat_at(vfs, AT("work/f"), &one), 0);
        assert_int_equal(vfs_stat_at(vfs, AT("tmp/g"), &two), 0);
        assert_int_equal(one.inode, two.inode);
        assert_int_equal(one.links, 2);
        assert_int_equal(one.size, 2);
        assert_int_equal(vfs_link(vfs, AT("work/f"), AT("tmp/g")), WASI_EEXIST);
        assert_int_equal(vfs_link(vfs, AT("work"), AT("tmp/w")), WASI_EPERM);
        assert_int_equal(vfs_link(vfs, AT("work/none"), AT("tmp/w")), WASI_ENOENT);
        assert_int_equal(vfs_rename(vfs, AT("work/f"), AT("tmp/g")), 0); /* one file: nothing to do */
        assert_int_equal(vfs_unlink(vfs, AT("work/f")), 0);
        assert_int_equal(read_file(vfs, "tmp/g", text, sizeof(text)), 2);
}

static void test_rename(void **state) {
        struct vfs *vfs = vfs_of(state);
        struct vfs_stat before, after;
        char text[8];

        assert_int_equal(vfs_make_directory(vfs, AT("work/a")), 0);
        assert_int_equal(vfs_make_directory(vfs, AT("work/a/b")), 0);
        assert_int_equal(vfs_make_directory(vfs, AT("tmp/empty")), 0);
        assert_int_equal(write_file(vfs, "work/a/b/f", "1", 1), 0);
        assert_int_equal(write_file(vfs, "work/g", "22", 2), 0);
        assert_int_equal(vfs_stat_at(vfs, AT("work/a/b"), &before), 0);
        assert_int_equal(vfs_rename(vfs, AT("work/a"), AT("work/a/b/c")), WASI_EINVAL);
        assert_int_equal(vfs_rename(vfs, AT("work/a"), AT("work/a")), 0);
        assert_int_equal(vfs_rename(vfs, AT("tmp/empty"), AT("work/a")), WASI_ENOTEMPTY);
        assert_int_equal(vfs_rename(vfs, AT("work/a"), AT("work/g")), WASI_ENOTDIR);
        assert_int_equal(vfs_rename(vfs, AT("work/g"), AT("work/a")), WASI_EISDIR);
        assert_int_equal(vfs_rename(vfs, AT("work/g/"), AT("work/h")), WASI_ENOTDIR);
        assert_int_equal(vfs_rename(vfs, AT("work/none"), AT("work/h")), WASI_ENOENT);
        assert_int_equal(vfs_rename(vfs, AT("work/."), AT("work/h")), WASI_EBUSY);
        assert_int_equal(vfs_rename(vfs, AT("work/a/b"), AT("tmp/empty")), 0);
        assert_int_equal(vfs_stat_at(vfs, AT("tmp/empty"), &after), 0);
        assert_int_equal(after.inode, before.inode);
        assert_int_equal(read_file(vfs, "tmp/empty/../empty/f", text, sizeof(text)), 1);
        assert_int_equal(vfs_rename(vfs, AT("work/g"), AT("tmp/empty/f")), 0);
        assert_int_equal(read_file(vfs, "tmp/empty/f", text, sizeof(text)), 2);
        assert_int_equal(vfs_stat_at(vfs, AT("work/g"), &after), WASI_ENOENT);
        assert_int_equal(vfs_remove_directory(vfs, AT("tmp/empty")), WASI_ENOTEMPTY);
        assert_int_equal(vfs_unlink(vfs, AT("tmp/empty")), WASI_EISDIR);
        assert_int_equal(vfs_remove_directory(vfs, AT("tmp/empty/f")), WASI_ENOTDIR);
}

/* An unlinked file lives until it is closed; a removed directory takes no more names. */
static void test_unlinked(void **state) {
        struct vfs *vfs = vfs_of(state);
        uint64_t before = bytes_of(vfs), position;
        struct vfs_dirent entry;
        struct vfs_stat stat;
        char text[8];
        size_t done;
        uint32_t file, directory;

        assert_int_equal(open_as(vfs, "work/f", "w", &file), 0);
        assert_int_equal(vfs_unlink(vfs, AT("work/f")), 0);
        assert_int_equal(vfs_write(vfs, file, "still", 5, &done), 0);
        assert_int_equal(vfs_stat_fd(vfs, file, &stat), 0);
        assert_int_equal(stat.links, 0);
        assert_int_equal(stat.size, 5);
        assert_int_equal(vfs_seek(vfs, file, 0, WASI_WHENCE_SET, &position), 0);
        assert_int_equal(vfs_read(vfs, file, text, 5, &done), WASI_EBADF);
        assert_true(bytes_of(vfs) > before);
        assert_int_equal(vfs_close(vfs, file), 0);
        assert_int_equal(bytes_of(vfs), before);
        assert_int_equal(vfs_make_directory(vfs, AT("work/d")), 0);
        assert_int_equal(open_as(vfs, "work/d", "d", &directory), 0);
        assert_int_equal(vfs_remove_directory(vfs, AT("work/d")), 0);
        assert_int_equal(vfs_make_directory(vfs, AT_FD(directory, "x")), WASI_ENOENT);
        assert_int_equal(vfs_rename(vfs, AT("work"), AT_FD(directory, "x")), WASI_EBUSY);
        assert_int_equal(write_file(vfs, "work/g", "", 0), 0);
        assert_int_equal(vfs_rename(vfs, AT("work/g"), AT_FD(directory, "x")), WASI_ENOENT);
        assert_int_equal(vfs_readdir(vfs, directory, 0, &entry), 0);
        assert_int_equal(entry.name_size, 0);
        assert_int_equal(vfs_close(vfs, directory), 0);
        assert_int_equal(vfs_unlink(vfs, AT("work/g")), 0);
        assert_int_equal(bytes_of(vfs), before);
}

static void test_times(void **state) {
        struct vfs *vfs = vfs_of(state);
        struct vfs_times times = {
                .set_accessed = true, .accessed_ns = 7, .set_modified = true, .modified_ns = UINT64_MAX};
        struct vfs_stat stat;
        uint32_t fd;

        assert_int_equal(write_file(vfs, "work/f", "1", 1), 0);
        vfs_set_time(vfs, 2000);
        assert_int_equal(write_file(vfs, "work/g", "1", 1), 0);
        assert_int_equal(vfs_stat_at(vfs, AT("work"), &stat), 0);
        assert_int_equal(stat.modified_ns, 2000);
        assert_int_equal(vfs_stat_at(vfs, AT("work/f"), &stat), 0);
        assert_int_equal(stat.modified_ns, 1000);
        assert_int_equal(vfs_set_times_at(vfs, AT("work/f"), &times), 0);
        assert_int_equal(vfs_stat_at(vfs, AT("work/f"), &stat), 0);
        assert_int_equal(stat.accessed_ns, 7);
        assert_int_equal(stat.modified_ns, UINT64_MAX);
        assert_int_equal(stat.changed_ns, 2000);
        times.set_modified = false;
        times.accessed_ns = 8;
        assert_int_equal(open_as(vfs, "work/f", "r", &fd), 0);
        assert_int_equal(vfs_set_times_fd(vfs, fd, &times), 0);
        assert_int_equal(vfs_stat_fd(vfs, fd, &stat), 0);
        assert_int_equal(stat.accessed_ns, 8);
        assert_int_equal(stat.modified_ns, UINT64_MAX);
        assert_int_equal(vfs_set_times_fd(vfs, 1, &times), WASI_EINVAL);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_read_tree, setup, teardown),
                cmocka_unit_test_setup_teardown(test_tree_is_read_only, setup, teardown),
                cmocka_unit_test_setup_teardown(test_null_device, setup, teardown),
                cmocka_unit_test_setup_teardown(test_write_and_read, setup, teardown),
                cmocka_unit_test_setup_teardown(test_truncate_forgets, setup, teardown),
                cmocka_unit_test_setup_teardown(test_open_errors, setup, teardown),
                cmocka_unit_test_setup_teardown(test_descriptors, setup, teardown),
                cmocka_unit_test_setup_teardown(test_symlinks, setup, teardown),
                cmocka_unit_test_setup_teardown(test_link_bomb, setup, teardown),
                cmocka_unit_test_setup_teardown(test_hard_links, setup, teardown),
                cmocka_unit_test_setup_teardown(test_rename, setup, teardown),
                cmocka_unit_test_setup_teardown(test_unlinked, setup, teardown),
                cmocka_unit_test_setup_teardown(test_times, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

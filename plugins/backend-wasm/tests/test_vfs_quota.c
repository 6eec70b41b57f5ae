/* SPDX-License-Identifier: Apache-2.0 */
/* The file system of a session: directories that change while they are read, quotas, many files. */
#include "vfs_fixture.h"

#include <stdio.h>

static unsigned list(struct vfs *vfs, uint32_t fd, char *names, size_t size) {
        struct vfs_dirent entry;
        uint64_t cookie = 0;
        unsigned count = 0;

        names[0] = '\0';
        for (;;) {
                size_t used = strlen(names);

                assert_int_equal(vfs_readdir(vfs, fd, cookie, &entry), 0);
                if (entry.name_size == 0)
                        return count;
                assert_true(entry.next > cookie);
                cookie = entry.next;
                snprintf(names + used, size - used, "%.*s ", (int)entry.name_size, entry.name);
                count++;
        }
}

static void test_list(void **state) {
        struct vfs *vfs = vfs_of(state);
        char names[256];
        uint32_t fd;

        assert_int_equal(list(vfs, VFS_ROOT_FD, names, sizeof(names)), 7);
        assert_string_equal(names, ". .. dev etc usr work tmp ");
        assert_int_equal(open_as(vfs, "usr/lib", "d", &fd), 0);
        assert_int_equal(list(vfs, fd, names, sizeof(names)), 5);
        assert_string_equal(names, ". .. a.py b.py package ");
        assert_int_equal(open_as(vfs, "tmp", "d", &fd), 0);
        assert_int_equal(list(vfs, fd, names, sizeof(names)), 2);
        assert_int_equal(write_file(vfs, "tmp/z", "", 0), 0);
        assert_int_equal(vfs_symlink(vfs, "z", 1, AT("tmp/y")), 0);
        list(vfs, fd, names, sizeof(names));
        assert_string_equal(names, ". .. z y ");
        assert_int_equal(vfs_readdir(vfs, fd, UINT64_MAX, &(struct vfs_dirent){0}), 0);
        assert_int_equal(vfs_readdir(vfs, 1, 0, &(struct vfs_dirent){0}), WASI_ENOTDIR);
}

/* While a directory is read, names come and go: those that stay are met once each. */
static void test_list_while_changing(void **state) {
        struct vfs *vfs = vfs_of(state);
        bool met[100] = {false};
        struct vfs_dirent entry;
        uint64_t cookie = 0;
        unsigned number, others = 0;
        char path[32];
        uint32_t fd;

        assert_int_equal(open_as(vfs, "work", "d", &fd), 0);
        for (unsigned i = 0; i < 100; i++) {
                snprintf(path, sizeof(path), "work/keep%u", i);
                assert_int_equal(write_file(vfs, path, "", 0), 0);
        }
        for (unsigned i = 0;; i++) {
                assert_int_equal(vfs_readdir(vfs, fd, cookie, &entry), 0);
                if (entry.name_size == 0)
                        break;
                cookie = entry.next;
                snprintf(path, sizeof(path), "%.*s", (int)entry.name_size, entry.name);
                if (sscanf(path, "keep%u", &number) == 1) {
                        assert_false(met[number]);
                        met[number] = true;
                } else {
                        others++;
                }
                if (i < 60) {
                        snprintf(path, sizeof(path), "work/new%u", i);
                        assert_int_equal(write_file(vfs, path, "", 0), 0);
                        if (i > 2) {
                                snprintf(path, sizeof(path), "work/new%u", i - 2);
                                assert_int_equal(vfs_unlink(vfs, AT(path)), 0);
                        }
                }
        }
        for (unsigned i = 0; i < 100; i++)
                assert_true(met[i]);
        assert_true(others < 60);
}

static void test_byte_quota(void **state) {
        static char block[100000];
        struct vfs *vfs = vfs_of(state);
        uint64_t before = bytes_of(vfs), total = 0;
        struct vfs_usage usage;
        size_t done = 0;
        uint32_t fd;
        int r;

        assert_int_equal(open_as(vfs, "work/f", "w", &fd), 0);
        while ((r = vfs_write(vfs, fd, block, sizeof(block), &done)) == 0)
                total += done;
        assert_int_equal(r, WASI_ENOSPC);
        assert_in_range(total, BYTES_MAX - 2 * 65536, BYTES_MAX);
        vfs_get_usage(vfs, &usage);
        assert_in_range(usage.bytes, total, BYTES_MAX);
        assert_in_range(usage.bytes_peak, usage.bytes, BYTES_MAX);
        assert_int_equal(vfs_allocate(vfs, fd, 0, BYTES_MAX), WASI_ENOSPC);
        assert_int_equal(vfs_set_size(vfs, fd, 0), 0);
        assert_int_equal(vfs_write(vfs, fd, block, sizeof(block), &done), 0);
        assert_int_equal(vfs_unlink(vfs, AT("work/f")), 0);
        assert_int_equal(vfs_close(vfs, fd), 0);
        assert_int_equal(bytes_of(vfs), before);
}

/* A hole takes nothing, however large; what is allocated is charged. */
static void test_sparse(void **state) {
        struct vfs *vfs = vfs_of(state);
        uint64_t before;
        size_t done;
        uint32_t fd;
        char byte = 'x';

        assert_int_equal(open_as(vfs, "work/f", "w", &fd), 0);
        before = bytes_of(vfs);
        assert_int_equal(vfs_set_size(vfs, fd, UINT64_C(1) << 32), 0);
        assert_int_equal(bytes_of(vfs), before);
        assert_int_equal(vfs_set_size(vfs, fd, (UINT64_C(1) << 32) + 1), WASI_EFBIG);
        assert_int_equal(vfs_pwrite(vfs, fd, UINT64_C(1) << 32, &byte, 1, &done), WASI_EFBIG);
        assert_int_equal(vfs_pwrite(vfs, fd, UINT64_MAX, &byte, 1, &done), WASI_EFBIG);
        assert_int_equal(vfs_allocate(vfs, fd, UINT64_MAX, 2), WASI_EFBIG);
        assert_int_equal(vfs_pwrite(vfs, fd, 5 * 65536 + 1, &byte, 1, &done), 0);
        assert_in_range(bytes_of(vfs), before + 64, before + 1024);
        assert_int_equal(vfs_allocate(vfs, fd, 0, 100000), 0);
        assert_in_range(bytes_of(vfs), before + 100000, before + 140000);
        assert_int_equal(vfs_set_size(vfs, fd, 0), 0);
        assert_int_equal(bytes_of(vfs), before);
}

static void test_entry_quota(void **state) {
        struct vfs *vfs = vfs_of(state);
        struct vfs_usage usage;
        uint64_t before = bytes_of(vfs);
        char path[32], other[32];
        uint32_t fd;

        for (unsigned i = 0; i < ENTRIES_MAX; i++) {
                snprintf(path, sizeof(path), "work/%u", i);
                assert_int_equal(i % 2 == 0 ? vfs_make_directory(vfs, AT(path)) : vfs_symlink(vfs, "x", 1, AT(path)),
                                 0);
        }
        assert_int_equal(vfs_make_directory(vfs, AT("work/more")), WASI_ENOSPC);
        assert_int_equal(vfs_symlink(vfs, "x", 1, AT("work/more")), WASI_ENOSPC);
        assert_int_equal(open_as(vfs, "work/more", "w", &fd), WASI_ENOSPC);
        vfs_get_usage(vfs, &usage);
        assert_int_equal(usage.entries, ENTRIES_MAX);
        assert_int_equal(vfs_rename(vfs, AT("work/0"), AT("tmp/renamed")), 0); /* needs no room */
        assert_int_equal(vfs_rename(vfs, AT("tmp/renamed"), AT("work/0")), 0);
        for (unsigned i = 0; i < ENTRIES_MAX; i++) {
                snprintf(path, sizeof(path), "work/%u", i);
                snprintf(other, sizeof(other), "work/%u", (i + 1) % ENTRIES_MAX);
                if (i % 2 == 0)
                        assert_int_equal(vfs_remove_directory(vfs, AT(path)), 0);
                else
                        assert_int_equal(vfs_unlink(vfs, AT(path)), 0);
                assert_int_equal(vfs_stat_at(vfs, AT(path), &(struct vfs_stat){0}), WASI_ENOENT);
                if (i + 1 < ENTRIES_MAX)
                        assert_int_equal(vfs_stat_at(vfs, AT(other), &(struct vfs_stat){0}), 0);
        }
        assert_int_equal(bytes_of(vfs), before);
}

/* Many names: finding one does not look at all of them. Counted by what the whole takes, within the test's own limit.
 */
static void test_many_names(void **state) {
        struct vfs_limits limits = {.bytes = UINT64_MAX, .entries = 200000, .open_files = 4};
        struct vfs *vfs = NULL;
        struct vfs_stat stat;
        char path[32];

        (void)state;
        assert_int_equal(vfs_new(NULL, &limits, &vfs), 0);
        for (unsigned i = 0; i < limits.entries; i++) {
                snprintf(path, sizeof(path), "work/%u", i);
                assert_int_equal(vfs_make_directory(vfs, AT(path)), 0);
        }
        for (unsigned i = 0; i < 1000000; i++) {
                snprintf(path, sizeof(path), "work/more%u", i);
                assert_int_equal(vfs_make_directory(vfs, AT(path)), WASI_ENOSPC);
        }
        for (unsigned i = limits.entries; i-- > 0;) {
                snprintf(path, sizeof(path), "work/%u", i);
                assert_int_equal(vfs_stat_at(vfs, AT(path), &stat), 0);
                assert_int_equal(vfs_remove_directory(vfs, AT(path)), 0);
        }
        vfs_free(vfs);
}

/* A directory in a directory, as deep as the quota goes. */
static void test_deep(void **state) {
        struct vfs *vfs = vfs_of(state);
        uint32_t fd, next;

        assert_int_equal(open_as(vfs, "work", "d", &fd), 0);
        for (unsigned i = 0; i < ENTRIES_MAX; i++) {
                assert_int_equal(vfs_make_directory(vfs, AT_FD(fd, "d")), 0);
                assert_int_equal(
                        vfs_open(vfs, AT_FD(fd, "d"), &(struct vfs_open_how){.read = true, .directory = true}, &next),
                        0);
                assert_int_equal(vfs_close(vfs, fd), 0);
                fd = next;
        }
        assert_int_equal(vfs_rename(vfs, AT("work/d"), AT_FD(fd, "x")), WASI_EINVAL);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_list, setup, teardown),
                cmocka_unit_test_setup_teardown(test_list_while_changing, setup, teardown),
                cmocka_unit_test_setup_teardown(test_byte_quota, setup, teardown),
                cmocka_unit_test_setup_teardown(test_sparse, setup, teardown),
                cmocka_unit_test_setup_teardown(test_entry_quota, setup, teardown),
                cmocka_unit_test(test_many_names),
                cmocka_unit_test_setup_teardown(test_deep, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

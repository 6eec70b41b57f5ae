/* SPDX-License-Identifier: Apache-2.0 */
/* Packed trees: what is built is what is read, and nothing of one that was altered leads beyond its bytes. */
#include "test.h"

#include <errno.h>
#include <stdio.h>

#include "vfs_help.h"

static const struct vfs_limits limits = {.bytes = 1 << 20, .entries = 100, .open_files = 20};

static void finish(struct vfs_tree_builder *builder, struct vfs_tree *ret_tree) {
        uint8_t *data = NULL;
        size_t size = 0;

        assert_int_equal(vfs_tree_builder_finish(builder, &data, &size), 0);
        assert_int_equal(vfs_tree_open(data, size, ret_tree), 0);
        vfs_tree_builder_free(builder);
}

static struct vfs_tree_builder *new_builder(void) {
        struct vfs_tree_builder *builder = NULL;

        assert_int_equal(vfs_tree_builder_new(&builder), 0);
        return builder;
}

static void add(struct vfs_tree_builder *builder, const char *path, const char *content) {
        assert_int_equal(vfs_tree_builder_add(builder, path, content, strlen(content), MTIME), 0);
}

static void test_same_bytes(void **state) {
        static const char *const paths[] = {"/b/c", "/a", "/b/d/e", "/ab", "/b/cc"};
        struct vfs_tree_builder *builders[2] = {new_builder(), new_builder()};
        struct vfs_tree trees[2];

        (void)state;
        for (int i = 0; i < 5; i++) {
                add(builders[0], paths[i], paths[i]);
                add(builders[1], paths[4 - i], "replaced");
        }
        for (int i = 0; i < 5; i++)
                add(builders[1], paths[i], paths[i]);
        finish(builders[0], &trees[0]);
        finish(builders[1], &trees[1]);
        assert_int_equal(trees[0].size, trees[1].size);
        assert_memory_equal(trees[0].data, trees[1].data, trees[0].size);
        free_tree(&trees[0]);
        free_tree(&trees[1]);
}

static void test_added_to(void **state) {
        struct vfs_tree_builder *builder = new_builder();
        struct vfs_tree old, new;
        struct vfs_stat stat;
        struct vfs *vfs = NULL;
        char text[32];

        (void)state;
        make_tree(&old);
        assert_int_equal(vfs_tree_builder_add_tree(builder, &old), 0);
        free_tree(&old);
        add(builder, "/usr/lib/a.py", "changed");
        add(builder, "/opt/new", "new");
        assert_int_equal(vfs_tree_builder_add_directory(builder, "/srv/empty", MTIME + 1), 0);
        finish(builder, &new);
        assert_int_equal(vfs_new(&new, &limits, &vfs), 0);
        assert_int_equal(read_file(vfs, "usr/lib/a.py", text, sizeof(text)), 7);
        assert_int_equal(read_file(vfs, "usr/lib/b.py", text, sizeof(text)), 9);
        assert_int_equal(read_file(vfs, "opt/new", text, sizeof(text)), 3);
        assert_int_equal(vfs_stat_at(vfs, AT("srv/empty"), &stat), 0);
        assert_int_equal(stat.type, WASI_FILETYPE_DIRECTORY);
        assert_int_equal(stat.modified_ns, MTIME + 1);
        assert_int_equal(vfs_stat_at(vfs, AT("usr/lib/b.py"), &stat), 0);
        assert_int_equal(stat.modified_ns, MTIME);
        assert_int_equal(vfs_stat_at(vfs, AT("usr"), &stat), 0); /* as young as what is in it */
        assert_int_equal(stat.modified_ns, MTIME);
        vfs_free(vfs);
        free_tree(&new);
}

static void test_refused(void **state) {
        struct vfs_tree_builder *builder = new_builder();
        char name[300];

        (void)state;
        memset(name, 'n', sizeof(name));
        name[0] = '/';
        name[257] = '\0';
        add(builder, "/file", "");
        add(builder, "/directory/file", "");
        assert_int_equal(vfs_tree_builder_add(builder, "relative", "", 0, 0), -EINVAL);
        assert_int_equal(vfs_tree_builder_add(builder, "", "", 0, 0), -EINVAL);
        assert_int_equal(vfs_tree_builder_add(builder, "/", "", 0, 0), -EINVAL);
        assert_int_equal(vfs_tree_builder_add(builder, "/a//b", "", 0, 0), -EINVAL);
        assert_int_equal(vfs_tree_builder_add(builder, "/a/../b", "", 0, 0), -EINVAL);
        assert_int_equal(vfs_tree_builder_add(builder, "/./b", "", 0, 0), -EINVAL);
        assert_int_equal(vfs_tree_builder_add(builder, name, "", 0, 0), -EINVAL);
        name[256] = '\0';
        assert_int_equal(vfs_tree_builder_add(builder, name, "", 0, 0), 0);
        assert_int_equal(vfs_tree_builder_add(builder, "/file/below", "", 0, 0), -ENOTDIR);
        assert_int_equal(vfs_tree_builder_add(builder, "/directory", "", 0, 0), -EISDIR);
        assert_int_equal(vfs_tree_builder_add_directory(builder, "/file", 0), -ENOTDIR);
        vfs_tree_builder_free(builder);
}

static void test_many_files(void **state) {
        struct vfs_tree_builder *builder = new_builder();
        struct vfs_tree tree;
        struct vfs *vfs = NULL;
        char path[64], text[64];

        (void)state;
        for (unsigned i = 0; i < 3000; i++) {
                snprintf(path, sizeof(path), "/lib/%u/%u", i % 50, i);
                add(builder, path, path);
        }
        finish(builder, &tree);
        assert_int_equal(vfs_new(&tree, &limits, &vfs), 0);
        for (unsigned i = 0; i < 3000; i++) {
                snprintf(path, sizeof(path), "/lib/%u/%u", i % 50, i);
                assert_int_equal(read_file(vfs, path, text, sizeof(text)), strlen(path));
                assert_memory_equal(text, path, strlen(path));
                snprintf(path, sizeof(path), "/lib/%u/%u", (i + 1) % 50, i);
                assert_int_equal(vfs_stat_at(vfs, AT(path), &(struct vfs_stat){0}), WASI_ENOENT);
        }
        vfs_free(vfs);
        free_tree(&tree);
}

/* Reads all of a tree, as guests could. */
static void read_all(struct vfs *vfs, const char *path, unsigned depth) {
        struct vfs_dirent entry = {.next = 0};
        char below[512], text[64];
        uint32_t fd;

        assert_true(depth < 20);
        if (open_as(vfs, path, "d", &fd) != 0) {
                (void)read_file(vfs, path, text, sizeof(text));
                return;
        }
        while (vfs_readdir(vfs, fd, entry.next, &entry) == 0 && entry.name_size > 0) {
                if (entry.name[0] == '.' && entry.next <= 2)
                        continue;
                assert_true(snprintf(below, sizeof(below), "%s/%.*s", path, (int)entry.name_size, entry.name) <
                            (int)sizeof(below));
                (void)vfs_stat_at(vfs, AT(below), &(struct vfs_stat){0});
                read_all(vfs, below, depth + 1);
        }
        vfs_close(vfs, fd);
}

static int open_bytes(const uint8_t *data, size_t size) {
        struct vfs_tree tree;
        struct vfs *vfs = NULL;
        int r = vfs_tree_open(data, size, &tree);

        if (r < 0)
                return r;
        assert_int_equal(vfs_new(&tree, &limits, &vfs), 0);
        read_all(vfs, "/.", 0);
        vfs_free(vfs);
        return 0;
}

static void test_altered(void **state) {
        struct vfs_tree tree;
        unsigned refused = 0, read = 0;
        uint8_t *data;

        (void)state;
        make_tree(&tree);
        data = (uint8_t *)(uintptr_t)tree.data;
        for (size_t size = 0; size < tree.size; size++) {
                uint8_t *exact = malloc(size > 0 ? size : 1);

                memcpy(exact, data, size);
                assert_int_equal(open_bytes(exact, size), -EINVAL);
                free(exact);
        }
        for (size_t at = 0; at < tree.size; at++) {
                for (unsigned bit = 0; bit < 8; bit++) {
                        int r;

                        data[at] ^= (uint8_t)(1u << bit);
                        r = open_bytes(data, tree.size);
                        data[at] ^= (uint8_t)(1u << bit);
                        assert_true(r == 0 || r == -EINVAL);
                        if (r == 0)
                                read++;
                        else
                                refused++;
                }
        }
        assert_true(refused > 500 && read > 500);
        free_tree(&tree);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_same_bytes), cmocka_unit_test(test_added_to), cmocka_unit_test(test_refused),
                cmocka_unit_test(test_many_files), cmocka_unit_test(test_altered),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Files in snapshots: what comes back, and what a snapshot that was cut, altered or made up can do: be refused, or be
 * another guest's files. */
#include "test.h"

#include <errno.h>

#include "alloc_fail.h"
#include "vfs_help.h"

static const struct vfs_limits limits = {.bytes = 1 << 20, .entries = 100, .open_files = 20};

/* One of everything, and descriptors to all that can be open. */
static struct vfs *make_files(const struct vfs_tree *tree) {
        struct vfs *vfs = NULL;
        char block[3000];
        uint64_t position;
        size_t done;
        uint32_t fd;

        memset(block, 'b', sizeof(block));
        assert_int_equal(vfs_new(tree, &limits, &vfs), 0);
        vfs_set_time(vfs, 5000);
        assert_int_equal(vfs_make_directory(vfs, AT("work/d")), 0);
        assert_int_equal(vfs_make_directory(vfs, AT("work/d/e")), 0);
        assert_int_equal(write_file(vfs, "work/d/f", block, sizeof(block)), 0);
        assert_int_equal(vfs_symlink(vfs, "d/f", 3, AT("work/l")), 0);
        assert_int_equal(vfs_link(vfs, AT("work/d/f"), AT("tmp/g")), 0);
        assert_int_equal(open_as(vfs, "work/l", "r", &fd), 0); /* 5 */
        assert_int_equal(vfs_seek(vfs, fd, 2990, WASI_WHENCE_SET, &position), 0);
        assert_int_equal(open_as(vfs, "tmp/gone", "w", &fd), 0); /* 6 */
        assert_int_equal(vfs_pwrite(vfs, fd, 200000, "tail", 4, &done), 0);
        assert_int_equal(vfs_unlink(vfs, AT("tmp/gone")), 0);
        assert_int_equal(open_as(vfs, "tmp/log", "a", &fd), 0);      /* 7 */
        assert_int_equal(open_as(vfs, "work/d", "d", &fd), 0);       /* 8 */
        assert_int_equal(open_as(vfs, "usr/lib/a.py", "r", &fd), 0); /* 9 */
        assert_int_equal(open_as(vfs, "work/d/e", "d", &fd), 0);     /* 10 */
        assert_int_equal(vfs_remove_directory(vfs, AT("work/d/e")), 0);
        assert_int_equal(open_as(vfs, "dev/null", "w", &fd), 0); /* 11 */
        return vfs;
}

static void save(const struct vfs *vfs, struct snapshot_writer *writer) {
        *writer = (struct snapshot_writer){0};
        assert_int_equal(vfs_save(vfs, writer), 0);
}

static int load_with(const struct vfs_tree *tree, const struct vfs_limits *with, const uint8_t *data, size_t size,
                     struct vfs **ret_vfs) {
        struct snapshot_reader reader = {.data = data, .size = size};

        return vfs_load(tree, with, &reader, ret_vfs);
}

static void test_round_trip(void **state) {
        struct vfs_tree tree;
        struct snapshot_writer saved;
        struct vfs *before, *vfs = NULL;
        struct vfs_descriptor descriptor;
        struct vfs_dirent entry;
        struct vfs_stat stat, stat_before;
        char text[16];
        size_t done;
        int host_fd;

        (void)state;
        make_tree(&tree);
        before = make_files(&tree);
        assert_int_equal(vfs_readdir(before, 8, 2, &entry), 0);
        save(before, &saved);
        assert_int_equal(load_with(&tree, &limits, saved.data, saved.size, &vfs), 0);
        vfs_set_time(vfs, 6000);
        assert_int_equal(vfs_read(vfs, 5, text, sizeof(text), &done), 0);
        assert_int_equal(done, 10);
        assert_int_equal(vfs_describe(vfs, 6, &descriptor), 0);
        assert_true(descriptor.write && !descriptor.read);
        assert_int_equal(vfs_stat_fd(vfs, 6, &stat), 0);
        assert_int_equal(stat.size, 200004);
        assert_int_equal(stat.links, 0);
        assert_int_equal(vfs_write(vfs, 7, "line", 4, &done), 0);
        assert_int_equal(read_file(vfs, "tmp/log", text, sizeof(text)), 4);
        assert_int_equal(vfs_make_directory(vfs, AT_FD(8, "new")), 0);
        assert_int_equal(vfs_read(vfs, 9, text, 5, &done), 0);
        assert_memory_equal(text, "print", 5);
        assert_int_equal(vfs_make_directory(vfs, AT_FD(10, "new")), WASI_ENOENT);
        assert_int_equal(vfs_write(vfs, 11, "x", 1, &done), 0);
        /* A directory that was half read goes on behind what was read, with what came after. */
        assert_int_equal(vfs_readdir(vfs, 8, entry.next, &entry), 0);
        assert_int_equal(entry.name_size, 3);
        assert_memory_equal(entry.name, "new", 3);
        assert_int_equal(vfs_stat_at(vfs, AT("tmp/g"), &stat), 0);
        assert_int_equal(vfs_stat_at(before, AT("work/d/f"), &stat_before), 0);
        assert_int_equal(stat.inode, stat_before.inode);
        assert_int_equal(stat.links, 2);
        assert_int_equal(stat.modified_ns, 5000);
        /* The host's descriptors are not in it. */
        assert_int_equal(vfs_host_fd(vfs, 1, &host_fd), 0);
        assert_int_equal(host_fd, -1);
        free(saved.data);
        vfs_free(vfs);
        vfs_free(before);
        free_tree(&tree);
}

/* The same calls give the same bytes. */
static void test_same_bytes(void **state) {
        struct vfs_tree tree;
        struct snapshot_writer one, two;
        struct vfs *first, *second;

        (void)state;
        make_tree(&tree);
        first = make_files(&tree);
        second = make_files(&tree);
        save(first, &one);
        save(second, &two);
        assert_int_equal(one.size, two.size);
        assert_memory_equal(one.data, two.data, one.size);
        free(one.data);
        free(two.data);
        vfs_free(first);
        vfs_free(second);
        free_tree(&tree);
}

static void test_limits(void **state) {
        const struct vfs_limits small[] = {
                {.bytes = 2000, .entries = 100, .open_files = 20},
                {.bytes = 1 << 20, .entries = 3, .open_files = 20},
                {.bytes = 1 << 20, .entries = 100, .open_files = 3},
                {.bytes = 0, .entries = 0, .open_files = 0},
        };
        struct vfs_tree tree;
        struct snapshot_writer saved;
        struct vfs *vfs;

        (void)state;
        make_tree(&tree);
        vfs = make_files(&tree);
        save(vfs, &saved);
        vfs_free(vfs);
        vfs = NULL;
        for (size_t i = 0; i < sizeof(small) / sizeof(small[0]); i++)
                assert_int_equal(load_with(&tree, &small[i], saved.data, saved.size, &vfs), -EDQUOT);
        assert_null(vfs);
        free(saved.data);
        free_tree(&tree);
}

/* Goes through all that is there, as a guest could. */
static void use(struct vfs *vfs) {
        static const char *const paths[] = {"work/d/f", "work/d", "work/l", "tmp/g", "tmp/log", "work/d/../d/f"};
        struct snapshot_writer saved = {0};
        char buffer[64];
        size_t done;

        for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
                (void)vfs_stat_at(vfs, AT_FOLLOW(paths[i]), &(struct vfs_stat){0});
                (void)read_file(vfs, paths[i], buffer, sizeof(buffer));
                (void)vfs_rename(vfs, AT(paths[i]), AT("tmp/other"));
                (void)vfs_rename(vfs, AT("tmp/other"), AT("work/d/f"));
        }
        for (uint32_t fd = 0; fd < 30; fd++) {
                struct vfs_dirent entry = {.next = 0};

                (void)vfs_read(vfs, fd, buffer, sizeof(buffer), &done);
                (void)vfs_write(vfs, fd, "x", 1, &done);
                (void)vfs_set_size(vfs, fd, 10);
                for (unsigned i = 0; vfs_readdir(vfs, fd, entry.next, &entry) == 0 && entry.name_size > 0; i++)
                        assert_true(i < 1000);
                (void)vfs_make_directory(vfs, AT_FD(fd, "z"));
                (void)vfs_make_directory(vfs, AT_FD(fd, "../y"));
        }
        assert_int_equal(vfs_save(vfs, &saved), 0);
        free(saved.data);
        for (uint32_t fd = 0; fd < 30; fd++)
                (void)vfs_close(vfs, fd);
}

static void test_cut(void **state) {
        struct vfs_tree tree;
        struct snapshot_writer saved;
        struct vfs *vfs;

        (void)state;
        make_tree(&tree);
        vfs = make_files(&tree);
        save(vfs, &saved);
        vfs_free(vfs);
        vfs = NULL;
        for (size_t size = 0; size < saved.size; size++) {
                uint8_t *exact = malloc(size > 0 ? size : 1); /* one byte beyond is a fault */

                memcpy(exact, saved.data, size);
                assert_int_equal(load_with(&tree, &limits, exact, size, &vfs), -EINVAL);
                free(exact);
        }
        free(saved.data);
        free_tree(&tree);
}

static void test_altered(void **state) {
        static const uint8_t flips[] = {0x01, 0x02, 0x04, 0x10, 0x80, 0xff};
        struct vfs_tree tree;
        struct snapshot_writer saved;
        unsigned refused = 0, loaded = 0;
        struct vfs *vfs;

        (void)state;
        make_tree(&tree);
        vfs = make_files(&tree);
        save(vfs, &saved);
        vfs_free(vfs);
        for (size_t at = 0; at < saved.size; at++) {
                for (size_t i = 0; i < sizeof(flips); i++) {
                        int r;

                        saved.data[at] ^= flips[i];
                        vfs = NULL;
                        r = load_with(&tree, &limits, saved.data, saved.size, &vfs);
                        saved.data[at] ^= flips[i];
                        assert_true(r == 0 || r == -EINVAL || r == -EDQUOT);
                        if (r == 0) {
                                use(vfs);
                                vfs_free(vfs);
                                loaded++;
                        } else {
                                refused++;
                        }
                }
        }
        assert_true(refused > 1000 && loaded > 1000);
        free(saved.data);
        free_tree(&tree);
}

/* ---- made up ---- */

#define DIRECTORY WASI_FILETYPE_DIRECTORY
#define REGULAR WASI_FILETYPE_REGULAR_FILE
#define LINK WASI_FILETYPE_SYMBOLIC_LINK

static uint64_t next_inode;

static void put_begin(struct snapshot_writer *writer, uint32_t count) {
        *writer = (struct snapshot_writer){0};
        next_inode = UINT64_C(1) << 32;
        snapshot_put_u64(writer, next_inode + 1000);
        snapshot_put_u32(writer, count);
}

static void put_node(struct snapshot_writer *writer, uint32_t type) {
        snapshot_put_u32(writer, type);
        snapshot_put_u64(writer, next_inode++);
        for (int i = 0; i < 3; i++)
                snapshot_put_u64(writer, 0);
        if (type == DIRECTORY)
                snapshot_put_u64(writer, 1000); /* next cookie */
        if (type == REGULAR) {
                snapshot_put_u64(writer, 0);
                snapshot_put_u32(writer, 0);
        }
        if (type == LINK) {
                snapshot_put_u32(writer, 1);
                snapshot_put(writer, "x", 1);
        }
}

static void put_name(struct snapshot_writer *writer, uint32_t directory, uint32_t node, uint64_t cookie,
                     const char *name) {
        snapshot_put_u32(writer, directory);
        snapshot_put_u32(writer, node);
        snapshot_put_u64(writer, cookie);
        snapshot_put_u32(writer, (uint32_t)strlen(name));
        snapshot_put(writer, name, strlen(name));
}

static void put_file(struct snapshot_writer *writer, uint32_t fd, uint32_t how, uint64_t position, uint32_t number) {
        snapshot_put_u32(writer, fd);
        snapshot_put_u32(writer, how);
        snapshot_put_u32(writer, 0);
        snapshot_put_u64(writer, position);
        snapshot_put_u32(writer, number);
}

#define NODE 4u
#define READ 1u
#define WRITE 2u

/* Nodes 0 and 1 are /work and /tmp. */
struct crafted {
        uint32_t types[6];
        uint32_t roots[2];
        struct {
                uint32_t directory, node;
                uint64_t cookie;
                const char *name;
        } names[4];
        struct {
                uint32_t fd, how;
                uint64_t position;
                uint32_t number;
        } files[3];
        const char *what;
        int result;
};

static const struct crafted crafted[] = {
        {{DIRECTORY, DIRECTORY}, {0, 1}, {{0}}, {{0}}, "nothing", 0},
        {{DIRECTORY, DIRECTORY, REGULAR}, {0, 1}, {{0, 2, 3, "f"}}, {{0}}, "a file", 0},
        {{DIRECTORY, DIRECTORY, REGULAR}, {0, 1}, {{0}}, {{0}}, "a file without a name", 0},
        {{DIRECTORY, DIRECTORY, REGULAR}, {0, 1}, {{0, 2, 3, "f"}, {1, 2, 3, "g"}}, {{0}}, "two names", 0},
        {{DIRECTORY, DIRECTORY}, {0, 0}, {{0}}, {{0}}, "/work is /tmp", -EINVAL},
        {{DIRECTORY, DIRECTORY}, {0, 7}, {{0}}, {{0}}, "no /tmp", -EINVAL},
        {{DIRECTORY, REGULAR}, {0, 1}, {{0}}, {{0}}, "/tmp is a file", -EINVAL},
        {{DIRECTORY}, {0, 0}, {{0}}, {{0}}, "one node", -EINVAL},
        {{DIRECTORY, DIRECTORY, DIRECTORY, DIRECTORY},
         {0, 1},
         {{2, 3, 3, "a"}, {3, 2, 3, "b"}},
         {{0}},
         "directories in each other",
         -EINVAL},
        {{DIRECTORY, DIRECTORY, DIRECTORY}, {0, 1}, {{2, 2, 3, "a"}}, {{0}}, "a directory in itself", -EINVAL},
        {{DIRECTORY, DIRECTORY, DIRECTORY}, {0, 1}, {{0, 2, 3, "a"}, {0, 2, 4, "b"}}, {{0}}, "two parents", -EINVAL},
        {{DIRECTORY, DIRECTORY}, {0, 1}, {{0, 1, 3, "tmp"}}, {{0}}, "/tmp in /work", -EINVAL},
        {{DIRECTORY, DIRECTORY, DIRECTORY, REGULAR},
         {0, 1},
         {{2, 3, 3, "f"}},
         {{5, READ | NODE, 0, 2}},
         "names in a removed directory",
         -EINVAL},
        {{DIRECTORY, DIRECTORY, REGULAR}, {0, 1}, {{0, 2, 3, "f"}, {0, 2, 4, "f"}}, {{0}}, "a name twice", -EINVAL},
        {{DIRECTORY, DIRECTORY, REGULAR}, {0, 1}, {{0, 2, 3, ".."}}, {{0}}, "the name ..", -EINVAL},
        {{DIRECTORY, DIRECTORY, REGULAR}, {0, 1}, {{0, 2, 3, "a/b"}}, {{0}}, "a slash", -EINVAL},
        {{DIRECTORY, DIRECTORY, REGULAR}, {0, 1}, {{0, 2, 2, "f"}}, {{0}}, "the cookie of ..", -EINVAL},
        {{DIRECTORY, DIRECTORY, REGULAR}, {0, 1}, {{0, 2, 1000, "f"}}, {{0}}, "a cookie to come", -EINVAL},
        {{DIRECTORY, DIRECTORY, REGULAR}, {0, 1}, {{0, 2, 9, "f"}, {0, 2, 9, "g"}}, {{0}}, "a cookie twice", -EINVAL},
        {{DIRECTORY, DIRECTORY, REGULAR}, {0, 1}, {{2, 2, 3, "f"}}, {{0}}, "a name in a file", -EINVAL},
        {{DIRECTORY, DIRECTORY, REGULAR}, {0, 1}, {{9, 2, 3, "f"}}, {{0}}, "no such directory", -EINVAL},
        {{DIRECTORY, DIRECTORY, REGULAR}, {0, 1}, {{0, 9, 3, "f"}}, {{0}}, "no such node", -EINVAL},
        {{DIRECTORY, DIRECTORY, LINK}, {0, 1}, {{0, 2, 3, "l"}}, {{5, READ | NODE, 0, 2}}, "an open link", -EINVAL},
        {{DIRECTORY, DIRECTORY}, {0, 1}, {{0}}, {{5, READ | NODE, 0, 2}}, "an open nothing", -EINVAL},
        {{DIRECTORY, DIRECTORY}, {0, 1}, {{0}}, {{5, READ, 0, 1000}}, "an open nothing of the tree", -EINVAL},
        {{DIRECTORY, DIRECTORY}, {0, 1}, {{0}}, {{5, WRITE | NODE, 0, 0}}, "a directory to write to", -EINVAL},
        {{DIRECTORY, DIRECTORY}, {0, 1}, {{0}}, {{5, WRITE, 0, 7}}, "a file of the tree to write to", -EINVAL},
        {{DIRECTORY, DIRECTORY, REGULAR}, {0, 1}, {{0}}, {{5, READ | NODE, UINT64_MAX, 2}}, "position", -EINVAL},
        {{DIRECTORY, DIRECTORY, REGULAR},
         {0, 1},
         {{0}},
         {{5, READ | NODE, 0, 2}, {5, READ | NODE, 0, 2}},
         "a descriptor twice",
         -EINVAL},
        {{DIRECTORY, DIRECTORY, REGULAR}, {0, 1}, {{0}}, {{25, READ | NODE, 0, 2}}, "descriptor 25", -EDQUOT},
        {{DIRECTORY, DIRECTORY, REGULAR}, {0, 1}, {{0}}, {{UINT32_MAX, READ | NODE, 0, 2}}, "the last one", -EDQUOT},
        {{DIRECTORY, DIRECTORY, WASI_FILETYPE_CHARACTER_DEVICE}, {0, 1}, {{0}}, {{0}}, "a device", -EINVAL},
};

static void craft(const struct crafted *from, struct snapshot_writer *writer) {
        uint32_t counts[3] = {0};

        while (counts[0] < 6 && from->types[counts[0]] != 0)
                counts[0]++;
        while (counts[1] < 4 && from->names[counts[1]].name != NULL)
                counts[1]++;
        while (counts[2] < 3 && from->files[counts[2]].fd != 0)
                counts[2]++;
        put_begin(writer, counts[0]);
        for (uint32_t i = 0; i < counts[0]; i++)
                put_node(writer, from->types[i]);
        snapshot_put_u32(writer, from->roots[0]);
        snapshot_put_u32(writer, from->roots[1]);
        snapshot_put_u32(writer, counts[1]);
        for (uint32_t i = 0; i < counts[1]; i++)
                put_name(writer, from->names[i].directory, from->names[i].node, from->names[i].cookie,
                         from->names[i].name);
        snapshot_put_u32(writer, counts[2]);
        for (uint32_t i = 0; i < counts[2]; i++)
                put_file(writer, from->files[i].fd, from->files[i].how, from->files[i].position, from->files[i].number);
}

static void test_crafted(void **state) {
        struct vfs_tree tree;

        (void)state;
        make_tree(&tree);
        for (size_t i = 0; i < sizeof(crafted) / sizeof(crafted[0]); i++) {
                struct snapshot_writer writer;
                struct vfs *vfs = NULL;
                int r;

                craft(&crafted[i], &writer);
                r = load_with(&tree, &limits, writer.data, writer.size, &vfs);
                if (r != crafted[i].result)
                        fail_msg("%s: %d", crafted[i].what, r);
                if (r == 0)
                        use(vfs);
                vfs_free(vfs);
                free(writer.data);
        }
        free_tree(&tree);
}

/* Counts that promise more than there is cost nothing before it comes. */
static void test_crafted_counts(void **state) {
        struct snapshot_writer writer;
        struct vfs *vfs = NULL;

        (void)state;
        put_begin(&writer, UINT32_MAX);
        assert_int_equal(load_with(NULL, &limits, writer.data, writer.size, &vfs), -EDQUOT);
        free(writer.data);
        put_begin(&writer, 3);
        put_node(&writer, DIRECTORY);
        put_node(&writer, DIRECTORY);
        put_node(&writer, REGULAR);
        writer.size -= 12;
        snapshot_put_u64(&writer, UINT64_C(1) << 32); /* a file of 4 GiB ... */
        snapshot_put_u32(&writer, 1);
        snapshot_put_u32(&writer, 0xffff);
        snapshot_put_u32(&writer, 65536);
        assert_int_equal(load_with(NULL, &limits, writer.data, writer.size, &vfs), -EINVAL);
        writer.size -= 8;
        snapshot_put_u32(&writer, 0x10000); /* ... and a chunk behind it */
        snapshot_put_u32(&writer, 1);
        snapshot_put(&writer, "x", 1);
        assert_int_equal(load_with(NULL, &limits, writer.data, writer.size, &vfs), -EINVAL);
        assert_null(vfs);
        free(writer.data);
}

struct sweep {
        const struct vfs_tree *tree;
        const struct snapshot_writer *saved;
};

static int sweep_load(void *data) {
        const struct sweep *sweep = data;
        struct snapshot_writer again = {0};
        struct vfs *vfs = NULL;
        int r = load_with(sweep->tree, &limits, sweep->saved->data, sweep->saved->size, &vfs);

        if (r == 0)
                r = vfs_save(vfs, &again);
        free(again.data);
        vfs_free(vfs);
        return r;
}

static int sweep_change(void *data) {
        struct vfs *vfs = NULL;
        uint64_t before, after;
        struct vfs_usage usage;
        int r = vfs_new(data, &limits, &vfs);

        if (r < 0)
                return r;
        vfs_get_usage(vfs, &usage);
        before = usage.bytes;
        r = vfs_make_directory(vfs, AT("work/d"));
        if (r == 0)
                r = write_file(vfs, "work/d/f", "some text", 9);
        if (r == 0)
                r = vfs_symlink(vfs, "f", 1, AT("work/d/l"));
        if (r == 0)
                r = vfs_rename(vfs, AT("work/d/f"), AT("tmp/a longer name"));
        if (r == 0)
                r = vfs_link(vfs, AT("tmp/a longer name"), AT("work/d/g"));
        vfs_unlink(vfs, AT("tmp/a longer name"));
        vfs_unlink(vfs, AT("work/d/g"));
        vfs_unlink(vfs, AT("work/d/l"));
        vfs_unlink(vfs, AT("work/d/f"));
        vfs_remove_directory(vfs, AT("work/d"));
        vfs_get_usage(vfs, &usage);
        after = usage.bytes;
        vfs_free(vfs);
        assert_int_equal(after, before);
        return r == WASI_ENOMEM ? -ENOMEM : r;
}

static int sweep_build(void *data) {
        struct vfs_tree_builder *builder = NULL;
        uint8_t *bytes = NULL;
        size_t size = 0;
        int r = vfs_tree_builder_new(&builder);

        if (r == 0)
                r = vfs_tree_builder_add_tree(builder, data);
        if (r == 0)
                r = vfs_tree_builder_add(builder, "/usr/lib/z/y/x", "1", 1, MTIME);
        if (r == 0)
                r = vfs_tree_builder_finish(builder, &bytes, &size);
        free(bytes);
        vfs_tree_builder_free(builder);
        return r;
}

static void test_no_memory(void **state) {
        struct vfs_tree tree;
        struct snapshot_writer saved;
        struct sweep sweep = {.tree = &tree, .saved = &saved};
        struct vfs *vfs;

        (void)state;
        make_tree(&tree);
        vfs = make_files(&tree);
        save(vfs, &saved);
        assert_true(alloc_fail_sweep(sweep_load, &sweep) > 20);
        assert_true(alloc_fail_sweep(sweep_change, &tree) > 15);
        assert_true(alloc_fail_sweep(sweep_build, &tree) > 20);
        free(saved.data);
        vfs_free(vfs);
        free_tree(&tree);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_round_trip),     cmocka_unit_test(test_same_bytes),
                cmocka_unit_test(test_limits),         cmocka_unit_test(test_cut),
                cmocka_unit_test(test_altered),        cmocka_unit_test(test_crafted),
                cmocka_unit_test(test_crafted_counts), cmocka_unit_test(test_no_memory),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

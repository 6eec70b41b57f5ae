/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions as files: whole or refused. */
#include "vaults.h"

#include <sys/mman.h>

static int memory_file(void) {
        int fd = memfd_create("session", MFD_CLOEXEC);

        assert_true(fd >= 0);
        return fd;
}

/* From its beginning on. */
static int file_of(struct sbx_bytes bytes) {
        int fd = memory_file();

        assert_int_equal(write(fd, bytes.data, bytes.size), bytes.size);
        assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
        return fd;
}

static void content_of(int fd, struct sbx_buffer *out) {
        assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
        assert_int_equal(sbx_fd_read_file(fd, "export", SIZE_MAX, out, NULL), 0);
}

/* A desk with the session "work" of three checkpoints, and the file that it is. */
static struct sbx_vault *prepare(struct desk *desk, const char *checkpoint, struct sbx_buffer *file) {
        struct sbx_vault_identity identity = {.environment = "local", .runtime = "python"};
        const struct sbx_checkpoint *made = NULL, *frozen = NULL;
        _cleanup_close_ int fd = memory_file();
        struct sbx_vault *vault;

        desk_open(desk, NULL);
        vault = open_vault(desk, "work");
        sbx_vault_identify(vault, &identity);
        add(desk, vault, "one");
        assert_int_equal(
                sbx_vault_add_frozen(vault, &(struct sbx_checkpoint){.mechanism = SBX_MECHANISM_FROZEN}, &frozen, NULL),
                0);
        assert_int_equal(add_with(desk, vault, "three", "third", false, &made), 0);
        add(desk, vault, "one");
        if (sbx_vault_export(vault, checkpoint, fd, NULL, &desk->err) < 0)
                fail_msg("no export: %s", desk->err.message);
        content_of(fd, file);
        return vault;
}

static int import_into(struct desk *desk, struct sbx_vault *vault, struct sbx_bytes bytes) {
        _cleanup_close_ int fd = file_of(bytes);

        desk->err = (struct sbx_error){0};
        return sbx_vault_import(vault, fd, NULL, &desk->err);
}

static void test_round_trip(void **state) {
        struct desk desk;
        _cleanup_buffer_ struct sbx_buffer file = SBX_BUFFER(SIZE_MAX);
        struct sbx_vault *vault = prepare(&desk, NULL, &file), *copy;
        struct sbx_vault_identity identity = {0};
        const struct sbx_tree *tree;

        copy = open_vault(&desk, "copy");
        assert_int_equal(import_into(&desk, copy, sbx_buffer_bytes(&file)), 0);
        sbx_vault_close(copy);
        copy = open_vault(&desk, "copy");
        tree = sbx_vault_tree(copy);
        assert_int_equal(tree->count, 3);
        assert_string_equal(tree->head, "c4");
        assert_string_equal(tree->items[1]->id, "c3");
        assert_string_equal(tree->items[1]->parent, "c1"); /* the copy between them is not in the file */
        assert_string_equal(tree->items[1]->label, "third");
        assert_true(sbx_vault_identity(copy, &identity));
        assert_string_equal(identity.environment, "local");
        assert_holds(&desk, copy, "c1", "one");
        assert_holds(&desk, copy, "third", "three");
        assert_holds(&desk, copy, "c4", "one");
        assert_string_equal(add(&desk, copy, "five"), "c5");
        assert_int_equal(import_into(&desk, copy, sbx_buffer_bytes(&file)), -EEXIST);
        assert_int_equal(sbx_vault_destroy(copy, NULL, &desk.err), 0);
        assert_holds(&desk, vault, "c1", "one"); /* they share nothing */
        sbx_vault_close(vault);
        desk_close(&desk);
}

static void test_one_checkpoint(void **state) {
        struct desk desk;
        _cleanup_buffer_ struct sbx_buffer file = SBX_BUFFER(SIZE_MAX);
        struct sbx_vault *vault = prepare(&desk, "third", &file), *copy;
        int fd = memory_file();

        assert_int_equal(sbx_vault_export(vault, "c2", fd, NULL, &desk.err), -ENOENT); /* a copy of a process */
        assert_int_equal(sbx_vault_export(vault, "c9", fd, NULL, NULL), -ENOENT);
        copy = open_vault(&desk, "default"); /* memory will do */
        assert_int_equal(sbx_vault_export(copy, NULL, fd, NULL, NULL), -ENOENT);
        assert_int_equal(lseek(fd, 0, SEEK_END), 0);
        close(fd);
        assert_int_equal(import_into(&desk, copy, sbx_buffer_bytes(&file)), 0);
        assert_int_equal(sbx_vault_tree(copy)->count, 1);
        assert_string_equal(sbx_vault_tree(copy)->head, "c3");
        assert_string_equal(sbx_vault_tree(copy)->items[0]->parent, "");
        assert_holds(&desk, copy, "c3", "three");
        sbx_vault_close(copy);
        sbx_vault_close(vault);
        desk_close(&desk);
}

/* Cut anywhere, and with any byte changed: refused, and nothing of it stays. */
static void test_every_byte(void **state) {
        struct desk desk;
        _cleanup_buffer_ struct sbx_buffer file = SBX_BUFFER(SIZE_MAX);
        struct sbx_vault *vault = prepare(&desk, NULL, &file), *copy;
        size_t before = gated_store_count(&desk.store);

        copy = open_vault(&desk, "copy");
        for (size_t i = 0; i < file.size; i++) {
                int r;

                assert_int_equal(import_into(&desk, copy, (struct sbx_bytes){file.data, i}), -EBADMSG);
                assert_contains(desk.err.message, i == 0 ? "ends too early" : "");
                file.data[i] ^= 1;
                r = import_into(&desk, copy, sbx_buffer_bytes(&file));
                file.data[i] ^= 1;
                assert_true(r == -EBADMSG || r == -EPROTONOSUPPORT);
        }
        assert_int_equal(import_into(&desk, copy, (struct sbx_bytes){"snipara-sandbox session 2\n", 26}),
                         -EPROTONOSUPPORT);
        assert_contains(desk.err.message, "newer version");
        assert_int_equal(gated_store_count(&desk.store), before);
        assert_int_equal(sbx_buffer_append_text(&file, "x"), 0);
        assert_int_equal(import_into(&desk, copy, sbx_buffer_bytes(&file)), -EBADMSG);
        assert_contains(desk.err.message, "something follows");
        sbx_vault_close(copy);
        sbx_vault_close(vault);
        desk_close(&desk);
}

/* A size that is a lie takes no memory: the file ends long before. */
static void test_lying_sizes(void **state) {
        static const char head[] = "snipara-sandbox session 1\n\xff\xff\xff\xff\xff\xff\xff\x7f{}";
        struct desk desk;
        struct sbx_vault *vault;

        desk_open(&desk, NULL);
        vault = open_vault(&desk, "work");
        assert_int_equal(import_into(&desk, vault, BYTES(head)), -EBADMSG);
        assert_contains(desk.err.message, "too large");
        sbx_vault_close(vault);
        desk_close(&desk);
}

static void test_store_fails(void **state) {
        struct desk desk;
        _cleanup_buffer_ struct sbx_buffer file = SBX_BUFFER(SIZE_MAX);
        struct sbx_vault *vault = prepare(&desk, NULL, &file), *copy = open_vault(&desk, "copy");
        size_t before = gated_store_count(&desk.store);
        _cleanup_close_ int full = open("/dev/full", O_WRONLY | O_CLOEXEC), out = memory_file();

        for (unsigned spared = 0; spared < 2; spared++) {
                gated_store_fail(&desk.store, GATE_COMMIT, spared, -ENOSPC);
                assert_int_equal(import_into(&desk, copy, sbx_buffer_bytes(&file)), -ENOSPC);
                assert_int_equal(sbx_vault_tree(copy)->count, 0);
                gated_store_heal(&desk.store);
        }
        assert_int_equal(import_into(&desk, copy, sbx_buffer_bytes(&file)), 0);
        assert_int_equal(sbx_vault_destroy(copy, NULL, &desk.err), 0);
        assert_int_equal(gated_store_count(&desk.store), before);
        gated_store_fail(&desk.store, GATE_GET, 1, -EIO);
        assert_int_equal(sbx_vault_export(vault, NULL, out, NULL, &desk.err), -EIO);
        gated_store_heal(&desk.store);
        desk.err = (struct sbx_error){0};
        assert_int_equal(sbx_vault_export(vault, NULL, full, NULL, &desk.err), -ENOSPC);
        assert_contains(desk.err.message, "can't be written");
        sbx_vault_close(vault);
        desk_close(&desk);
}

/* More than is stored at once, and larger than what is read at once. */
static void test_many_parts(void **state) {
        enum { PARTS = 600, LARGE = 9 << 20 };
        const struct sbx_checkpoint *checkpoint = NULL;
        struct desk desk;
        _cleanup_buffer_ struct sbx_buffer file = SBX_BUFFER(SIZE_MAX);
        _cleanup_close_ int fd = memory_file();
        _cleanup_state_ struct sbx_session_state given = {.mechanism = SBX_MECHANISM_BYTE_EXACT}, found = {0};
        _cleanup_free_ char *large = malloc(LARGE);
        struct sbx_vault *vault, *copy;

        desk_open(&desk, NULL);
        given.parts = calloc(PARTS, sizeof(*given.parts));
        for (; given.part_count < PARTS; given.part_count++) {
                given.parts[given.part_count] = (struct sbx_buffer)SBX_BUFFER(SIZE_MAX);
                assert_int_equal(sbx_buffer_printf(&given.parts[given.part_count], "part %zu", given.part_count % 500),
                                 0);
        }
        for (size_t i = 0; i < LARGE; i++)
                large[i] = (char)(i * 2654435761u >> 24);
        assert_int_equal(sbx_buffer_append(&given.parts[300], large, LARGE), 0);
        sbx_buffer_free(&given.parts[301]); /* an empty one is one, too */
        vault = open_vault(&desk, "work");
        assert_int_equal(sbx_vault_add(vault, &(struct sbx_checkpoint){0}, &given, false, NULL, &checkpoint, &desk.err),
                         0);
        assert_int_equal(sbx_vault_export(vault, NULL, fd, NULL, &desk.err), 0);
        content_of(fd, &file);
        copy = open_vault(&desk, "copy");
        assert_int_equal(import_into(&desk, copy, sbx_buffer_bytes(&file)), 0);
        assert_int_equal(sbx_vault_read(copy, "c1", NULL, &found, &desk.err), 0);
        assert_int_equal(found.part_count, PARTS);
        assert_int_equal(found.mechanism, SBX_MECHANISM_BYTE_EXACT);
        for (size_t i = 0; i < PARTS; i++) {
                assert_int_equal(found.parts[i].size, given.parts[i].size);
                if (found.parts[i].size > 0)
                        assert_memory_equal(found.parts[i].data, given.parts[i].data, found.parts[i].size);
        }
        sbx_vault_close(copy);
        sbx_vault_close(vault);
        desk_close(&desk);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_round_trip),  cmocka_unit_test(test_one_checkpoint),
                cmocka_unit_test(test_every_byte),  cmocka_unit_test(test_lying_sizes),
                cmocka_unit_test(test_store_fails), cmocka_unit_test(test_many_parts),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance: files in and out, through the guest, whatever they are called and whatever they are. */
#include "suite.h"

static int read_file(struct sbx_guest_process *guest, const char *path, size_t max_bytes, struct sbx_buffer *content) {
        struct sbx_call call = patience();

        return sbx_guest_file_read(guest, path, max_bytes, &call, content, NULL);
}

static void write_file(struct sbx_guest_process *guest, const char *path, const void *data, size_t size) {
        struct sbx_call call = patience();
        struct sbx_error err = {0};

        must(sbx_guest_file_write(guest, path, (struct sbx_bytes){data, size}, &call, &err), &err);
}

static void test_files(void **state) {
        struct sbx_guest_process *guest = start("conformance-files");
        _cleanup_buffer_ struct sbx_buffer content = SBX_BUFFER(1 << 20);
        _cleanup_json_ json_t *files = NULL;
        struct sbx_call call = patience();
        struct sbx_error err = {0};

        write_file(guest, "dir/a.bin", "\0\1\2", 3);
        must(sbx_guest_file_read(guest, "dir/a.bin", 1 << 20, &call, &content, &err), &err);
        assert_int_equal(content.size, 3);
        assert_memory_equal(content.data, "\0\1\2", 3);
        must(sbx_guest_file_list(guest, ".", &call, &files, NULL, &err), &err);
        assert_true(json_is_array(files) && json_array_size(files) >= 1);
        expect(guest, "print(open('dir/a.bin', 'rb').read())", SBX_END_OK, "b'\\x00\\x01\\x02'\n");
        sbx_guest_free(guest);
}

static void test_large_and_empty_files(void **state) {
        struct sbx_guest_process *guest = start("conformance-large");
        _cleanup_buffer_ struct sbx_buffer content = SBX_BUFFER(32 << 20);
        const size_t size = 16 << 20;
        _cleanup_free_ unsigned char *data = malloc(size);

        assert_non_null(data);
        for (size_t i = 0; i < size; i++)
                data[i] = (unsigned char)(i * 31 >> 3);
        write_file(guest, "large", data, size);
        assert_int_equal(read_file(guest, "large", 32 << 20, &content), 0);
        assert_int_equal(content.size, size);
        assert_memory_equal(content.data, data, size);
        assert_true(read_file(guest, "large", 1 << 20, &content) < 0);
        write_file(guest, "empty", "", 0);
        content.size = 0;
        assert_int_equal(read_file(guest, "empty", 1 << 20, &content), 0);
        assert_int_equal(content.size, 0);
        sbx_guest_free(guest);
}

static void test_files_that_are_none(void **state) {
        struct sbx_guest_process *guest = start("conformance-none");
        _cleanup_buffer_ struct sbx_buffer content = SBX_BUFFER(1 << 20);

        expect(guest,
               "import os, sys\nos.symlink('loop', 'loop')\nos.symlink('/dev/zero', 'zero')\nos.mkdir('directory')\n"
               "os.mkdir('closed')\nif sys.platform != 'wasi':\n    os.mkfifo('pipe')\n    os.chmod('closed', 0)",
               SBX_END_OK, "");
        assert_int_equal(read_file(guest, "absent", 1 << 20, &content), -ENOENT);
        assert_int_equal(read_file(guest, "directory", 1 << 20, &content), -EISDIR);
        assert_int_equal(read_file(guest, "loop", 1 << 20, &content), -ELOOP);
        assert_int_equal(read_file(guest, "closed/x", 1 << 20, &content), holds(guest, IS_WASI) ? -ENOENT : -EACCES);
        assert_true(read_file(guest, "pipe", 1 << 20, &content) < 0);
        assert_true(read_file(guest, "zero", 1 << 20, &content) < 0);
        assert_true(read_file(guest, "", 1 << 20, &content) < 0);
        assert_int_equal(content.size, 0);
        expect(guest, "print('alive')", SBX_END_OK, "alive\n");
        sbx_guest_free(guest);
}

/* What leads out of the workspace leads to the guest's own files, never to the host's. */
static void test_paths_stay_inside(void **state) {
        struct sbx_guest_process *guest = start("conformance-inside");
        _cleanup_buffer_ struct sbx_buffer content = SBX_BUFFER(1 << 20);
        char path[] = "/tmp/sbx-conformance-XXXXXX", climbing[128];
        int fd = mkstemp(path);

        assert_true(fd >= 0);
        assert_int_equal(write(fd, "of the host", 11), 11);
        close(fd);
        snprintf(climbing, sizeof(climbing), "../../../../../..%s", path);
        assert_true(read_file(guest, path, 1 << 20, &content) < 0);
        assert_true(read_file(guest, climbing, 1 << 20, &content) < 0);
        assert_int_equal(content.size, 0);
        unlink(path);
        sbx_guest_free(guest);
}

static void test_names_of_any_kind(void **state) {
        static const char *const names[] = {"with space", "line\nbreak", "\xc3\xa9t\xc3\xa9",
                                            "'quote\"",   "-rf",         "a/b/c/d/e/f/g",
                                            "$(touch x)", "%s%n",        "\xf0\x9f\x90\x8d"};
        struct sbx_guest_process *guest = start("conformance-names");
        _cleanup_json_ json_t *files = NULL;
        struct sbx_call call = patience();
        struct sbx_error err = {0};
        bool truncated = true;
        size_t found = 0, index;
        json_t *file;

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                _cleanup_buffer_ struct sbx_buffer content = SBX_BUFFER(1000);

                write_file(guest, names[i], names[i], strlen(names[i]));
                assert_int_equal(read_file(guest, names[i], 1000, &content), 0);
                assert_int_equal(content.size, strlen(names[i]));
                assert_memory_equal(content.data, names[i], content.size);
        }
        expect(guest, "import os\nopen(b'\\xff\\xfe', 'w').close()", SBX_END_OK, "");
        must(sbx_guest_file_list(guest, ".", &call, &files, &truncated, &err), &err);
        assert_false(truncated);
        json_array_foreach (files, index, file)
                for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                        found += strcmp(json_string_value(json_object_get(file, "path")), names[i]) == 0;
        assert_int_equal(found, sizeof(names) / sizeof(names[0]));
        sbx_guest_free(guest);
}

static void test_more_files_than_are_listed(void **state) {
        struct sbx_guest_process *guest = start("conformance-many");
        _cleanup_json_ json_t *files = NULL;
        struct sbx_call call = patience();
        struct sbx_error err = {0};
        bool truncated = false;

        expect(guest, "import os\nos.mkdir('many')\nfor i in range(10500): open('many/%d' % i, 'w').close()",
               SBX_END_OK, "");
        must(sbx_guest_file_list(guest, "many", &call, &files, &truncated, &err), &err);
        assert_int_equal(json_array_size(files), 10000);
        assert_true(truncated);
        sbx_guest_free(guest);
}

struct group files_group(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_files),
                cmocka_unit_test(test_large_and_empty_files),
                cmocka_unit_test(test_files_that_are_none),
                cmocka_unit_test(test_paths_stay_inside),
                cmocka_unit_test(test_names_of_any_kind),
                cmocka_unit_test(test_more_files_than_are_listed),
        };

        return (struct group){tests, sizeof(tests) / sizeof(tests[0])};
}

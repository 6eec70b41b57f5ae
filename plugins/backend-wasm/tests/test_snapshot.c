/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots: what is saved comes back byte for byte; damaged, cut, foreign and too large ones are refused. */
#include "test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/snapshot_stream.h"
#include "engine_help.h"

#define MANY ((uint64_t)1 << 30)

static const struct vfs_limits limits = {.bytes = 1 << 20, .entries = 100, .open_files = 20};
static struct wasm_image image;
static char message[256];

static int make_image(void **state) {
        help_image(0, &image);
        return 0;
}

static int drop_image(void **state) {
        image_close(&image);
        return 0;
}

/* A session that has done something. */
static int begin(void **state) {
        struct session *session = malloc(sizeof(*session));

        help_session(&image, session);
        help_run(session, TINY_ADD, 7, 0);
        help_run(session, TINY_FILL, TINY_FREE + 5000, 10000);
        help_run(session, TINY_GROW, 3, 0);
        help_run(session, TINY_FILL, (TINY_PAGES + 2) * WASM_PAGE + 100, 50);
        help_run(session, TINY_WRITE, TINY_DATA, (uint32_t)strlen(TINY_TEXT));
        *state = session;
        return 0;
}

static int end(void **state) {
        help_session_end(*state);
        free(*state);
        return 0;
}

/* malloc'ed */
static uint8_t *save(struct session *session, size_t *ret_size) {
        int fd = memfd_create("snapshot", MFD_CLOEXEC);
        uint64_t size = 0;
        uint8_t *data;

        assert_int_equal(snapshot_save(session->instance, fd, MANY, &size), 0);
        data = help_read(fd, ret_size);
        assert_int_equal(*ret_size, size);
        close(fd);
        return data;
}

static int restore(struct session *session, const void *data, size_t size) {
        message[0] = '\0';
        return snapshot_restore(session->instance, data, size, &limits, message, sizeof(message));
}

static int try_restore(const struct wasm_image *of, const void *data, size_t size) {
        struct session session;
        int r;

        help_session(of, &session);
        r = restore(&session, data, size);
        help_session_end(&session);
        return r;
}

static void comes_back_byte_for_byte(void **state) {
        struct session *session = *state, copy;
        size_t size, again_size;
        uint8_t *data = save(session, &size), *again;

        help_session(&image, &copy);
        assert_int_equal(restore(&copy, data, size), 0);
        assert_int_equal(copy.instance->size, session->instance->size);
        assert_memory_equal(copy.instance->globals, session->instance->globals, sizeof(copy.instance->globals));
        assert_memory_equal(copy.instance->memory + TINY_STACK_TOP, session->instance->memory + TINY_STACK_TOP,
                            copy.instance->size - TINY_STACK_TOP);
        assert_int_equal(atomic_load(&copy.status.memory), 3 * WASM_PAGE);
        again = save(&copy, &again_size);
        assert_true(again_size > size - 64 && again_size < size + 64); /* but for the clocks */
        vfs_set_streams(copy.host.vfs, -1, -1, -1, copy.guest_control);
        assert_int_equal(wasm_call_resume(copy.instance, 2), WASM_TRAP_NONE);
        assert_int_equal(help_u32(&copy, TINY_RESUMED), 2);
        assert_int_equal(help_run(&copy, TINY_ADD, 1, 0), WASM_TRAP_NONE);
        assert_int_equal(help_result(&copy), 108);
        help_session_end(&copy);
        free(data);
        free(again);
}

static void files_come_back(void **state) {
        struct vfs_at at = {.fd = VFS_ROOT_FD, .path = "work/tiny", .size = 9};
        struct session *session = *state, copy;
        struct vfs_stat stat;
        size_t size;
        uint8_t *data = save(session, &size);

        assert_int_equal(help_result(session), WASI_SUCCESS);
        help_session(&image, &copy);
        assert_int_equal(restore(&copy, data, size), 0);
        assert_int_equal(vfs_stat_at(copy.host.vfs, &at, &stat), 0);
        assert_int_equal(stat.size, strlen(TINY_TEXT));
        help_session_end(&copy);
        free(data);
}

static void is_as_small_as_what_changed(void **state) {
        struct session fresh;
        size_t size, fresh_size;
        uint8_t *data = save(*state, &size), *fresh_data;

        help_session(&image, &fresh);
        fresh_data = save(&fresh, &fresh_size);
        assert_true(fresh_size < 600);
        assert_true(size < 16384);
        help_session_end(&fresh);
        free(data);
        free(fresh_data);
}

/* The dead part of the guest's stack stays where it was. */
static void the_dead_stack_is_not_saved(void **state) {
        struct session *session = *state, copy;
        size_t size;
        uint8_t *data;

        memset(session->instance->memory + 8192, 0xaa, 4096);
        data = save(session, &size);
        help_session(&image, &copy);
        assert_int_equal(restore(&copy, data, size), 0);
        for (uint32_t i = 0; i < TINY_STACK_TOP; i++)
                assert_int_equal(copy.instance->memory[i], 0);
        help_session_end(&copy);
        free(data);
        /* A stack pointer that lies hides nothing. */
        session->instance->globals[0] = UINT32_MAX;
        data = save(session, &size);
        help_session(&image, &copy);
        assert_int_equal(restore(&copy, data, size), 0);
        assert_memory_equal(copy.instance->memory, session->instance->memory, session->instance->size);
        help_session_end(&copy);
        free(data);
}

static void time_goes_on(void **state) {
        struct session *session = *state, copy;
        size_t size;
        uint8_t *data;
        uint64_t monotonic, cpu;

        session->host.monotonic_offset_ns += UINT64_C(3600) * 1000000000; /* an hour of this session */
        session->host.cpu_offset_ns += UINT64_C(60) * 1000000000;
        monotonic = wasi_now_ns(session->instance, WASI_CLOCK_MONOTONIC);
        cpu = wasi_now_ns(session->instance, WASI_CLOCK_PROCESS_CPUTIME);
        data = save(session, &size);
        help_session(&image, &copy);
        assert_true(wasi_now_ns(copy.instance, WASI_CLOCK_MONOTONIC) < monotonic);
        assert_int_equal(restore(&copy, data, size), 0);
        assert_true(wasi_now_ns(copy.instance, WASI_CLOCK_MONOTONIC) >= monotonic);
        assert_true(wasi_now_ns(copy.instance, WASI_CLOCK_PROCESS_CPUTIME) >= cpu);
        help_session_end(&copy);
        free(data);
}

static void says_what_it_is(void **state) {
        struct snapshot_facts facts;
        size_t size;
        uint8_t *data = save(*state, &size);

        assert_int_equal(snapshot_describe(data, size, &facts), 0);
        assert_int_equal(facts.version, SNAPSHOT_VERSION);
        assert_memory_equal(facts.image_hash, image.hash, sizeof(facts.image_hash));
        assert_int_equal(facts.memory_size, (TINY_PAGES + 3) * WASM_PAGE);
        assert_int_equal(facts.packed_size, size - SNAPSHOT_HEADER_SIZE);
        data[8]++;
        assert_int_equal(snapshot_describe(data, size, &facts), -EPROTONOSUPPORT);
        assert_int_equal(try_restore(&image, data, size), -EPROTONOSUPPORT);
        assert_contains(message, "another version");
        assert_int_equal(snapshot_describe(data, SNAPSHOT_HEADER_SIZE - 1, &facts), -EINVAL);
        assert_int_equal(snapshot_describe("", 0, &facts), -EINVAL);
        free(data);
}

static void another_image_is_refused(void **state) {
        struct wasm_image other;
        size_t size;
        uint8_t *data = save(*state, &size);

        help_image(1, &other);
        assert_int_equal(try_restore(&other, data, size), -EXDEV);
        assert_contains(message, "another image");
        image_close(&other);
        free(data);
}

static void a_flipped_bit_is_found(void **state) {
        size_t size;
        uint8_t *data = save(*state, &size);
        unsigned unnoticed = 0;

        for (size_t at = 0; at < size; at++) {
                data[at] ^= (uint8_t)(1 << at % 8);
                if (try_restore(&image, data, size) == 0)
                        unnoticed++;
                else
                        assert_contains(message, "the snapshot can't be restored: ");
                data[at] ^= (uint8_t)(1 << at % 8);
        }
        /* A few bits of compressed frames mean nothing. */
        assert_true(unnoticed < 20);
        assert_int_equal(try_restore(&image, data, size), 0);
        free(data);
}

static void a_cut_or_longer_one_is_found(void **state) {
        size_t size;
        uint8_t *data = save(*state, &size);
        uint64_t packed;

        for (size_t cut = 0; cut < size; cut += cut < 200 ? 1 : 37)
                assert_int_equal(try_restore(&image, data, cut), -EINVAL);
        /* Also where the header says so. */
        for (size_t cut = SNAPSHOT_HEADER_SIZE; cut < size; cut += 13) {
                packed = cut - SNAPSHOT_HEADER_SIZE;
                memcpy(data + 56, &packed, sizeof(packed));
                assert_int_equal(try_restore(&image, data, cut), -EINVAL);
        }
        data[size] = 0;
        packed = size + 1 - SNAPSHOT_HEADER_SIZE;
        memcpy(data + 56, &packed, sizeof(packed));
        assert_int_equal(try_restore(&image, data, size + 1), -EINVAL);
        free(data);
}

static void limits_are_the_new_sessions(void **state) {
        const struct vfs_limits few = {.bytes = 10, .entries = 100, .open_files = 20};
        struct session copy;
        size_t size;
        uint8_t *data = save(*state, &size);

        help_session(&image, &copy);
        copy.host.memory_limit = 2 * WASM_PAGE;
        assert_int_equal(restore(&copy, data, size), -ENOMEM);
        assert_contains(message, "more memory");
        help_session_end(&copy);
        help_session(&image, &copy);
        assert_int_equal(snapshot_restore(copy.instance, data, size, &few, message, sizeof(message)), -EDQUOT);
        assert_contains(message, "its files");
        help_session_end(&copy);
        free(data);
}

static void only_a_fresh_instance_takes_one(void **state) {
        size_t size;
        uint8_t *data = save(*state, &size);

        assert_int_equal(restore(*state, data, size), -EINVAL); /* its memory has grown */
        free(data);
}

static void no_more_is_written_than_allowed(void **state) {
        struct session *session = *state;
        int fd = memfd_create("snapshot", MFD_CLOEXEC);
        uint64_t size = 99;

        help_run(session, TINY_RANDOM, TINY_FREE, 65536);
        assert_int_equal(snapshot_save(session->instance, fd, 30000, &size), -EFBIG);
        assert_int_equal(snapshot_save(session->instance, fd, 10, &size), -EFBIG);
        assert_int_equal(size, 99);
        assert_true(lseek(fd, 0, SEEK_END) <= 30000);
        assert_int_equal(snapshot_save(session->instance, fd, 80000, &size), 0);
        close(fd);
}

static void what_trapped_is_not_saved(void **state) {
        struct session *session = *state;
        int fd = memfd_create("snapshot", MFD_CLOEXEC);
        uint64_t size;

        help_run(session, TINY_TRAP, WASM_TRAP_UNREACHABLE, 0);
        assert_int_equal(snapshot_save(session->instance, fd, MANY, &size), -EINVAL);
        close(fd);
}

/* ---- snapshots that are whole, with a good checksum, and lie ---- */

struct run {
        uint32_t first, count;
};

/* A header for `memory_size` and a body of globals, clocks, runs of pages, and no file system. */
static int restore_crafted(uint64_t memory_size, uint32_t global_count, const struct run *runs, size_t count) {
        static const uint8_t pages[16 * 4096];
        int fd = memfd_create("crafted", MFD_CLOEXEC), r;
        struct snapshot_writer *writer;
        uint8_t header[SNAPSHOT_HEADER_SIZE] = SNAPSHOT_MAGIC, *data;
        uint32_t numbers[] = {SNAPSHOT_VERSION, SNAPSHOT_HEADER_SIZE};
        uint64_t packed;
        size_t size;

        assert_int_equal(snapshot_writer_new(fd, SNAPSHOT_HEADER_SIZE, MANY, &writer), 0);
        snapshot_put_u32(writer, global_count);
        for (uint32_t i = 0; i < global_count + 2; i++)
                snapshot_put_u64(writer, UINT64_MAX);
        for (size_t i = 0; i < count; i++) {
                snapshot_put(writer, &runs[i], sizeof(runs[i]));
                if (runs[i].count <= 16)
                        snapshot_put(writer, pages, (size_t)runs[i].count * 4096);
        }
        assert_int_equal(snapshot_writer_finish(writer), 0);
        packed = writer->offset - SNAPSHOT_HEADER_SIZE;
        memcpy(header + 8, numbers, sizeof(numbers));
        memcpy(header + 16, image.hash, sizeof(image.hash));
        memcpy(header + 48, &memory_size, sizeof(memory_size));
        memcpy(header + 56, &packed, sizeof(packed));
        assert_int_equal(pwrite(fd, header, sizeof(header), 0), sizeof(header));
        snapshot_writer_free(writer);
        data = help_read(fd, &size);
        close(fd);
        r = try_restore(&image, data, size);
        free(data);
        return r;
}

static void crafted_ones_are_refused(void **state) {
        const uint64_t size = TINY_PAGES * WASM_PAGE;
        const uint32_t end = (uint32_t)(size / 4096);
        const struct run beyond[] = {{end, 1}}, across[] = {{end - 1, 2}}, endless[] = {{0, UINT32_MAX}},
                         wrapping[] = {{end - 1, UINT32_MAX - 1}}, none[] = {{5, 0}}, twice[] = {{5, 2}, {6, 1}},
                         back[] = {{5, 1}, {4, 1}}, odd_end[] = {{UINT32_MAX, 3}}, good[] = {{5, 2}, {UINT32_MAX, 0}};

        assert_int_equal(restore_crafted(size, 1, beyond, 1), -EINVAL);
        assert_int_equal(restore_crafted(size, 1, across, 1), -EINVAL);
        assert_int_equal(restore_crafted(size, 1, endless, 1), -EINVAL);
        assert_int_equal(restore_crafted(size, 1, wrapping, 1), -EINVAL);
        assert_int_equal(restore_crafted(size, 1, none, 1), -EINVAL);
        assert_int_equal(restore_crafted(size, 1, twice, 2), -EINVAL);
        assert_int_equal(restore_crafted(size, 1, back, 2), -EINVAL);
        assert_int_equal(restore_crafted(size, 1, odd_end, 1), -EINVAL);
        assert_int_equal(restore_crafted(size, 1, good, 2), -EINVAL); /* no file system */
        assert_int_equal(restore_crafted(size, 0, good, 2), -EINVAL);
        assert_int_equal(restore_crafted(size, 200, good, 2), -EINVAL);
        assert_int_equal(restore_crafted(size - WASM_PAGE, 1, good, 2), -EINVAL);
        assert_int_equal(restore_crafted(size + 4096, 1, good, 2), -EINVAL);
        assert_int_equal(restore_crafted(UINT64_MAX - 65535, 1, good, 2), -EINVAL);
        assert_int_equal(restore_crafted((uint64_t)65536 * WASM_PAGE, 1, good, 2), -EINVAL);
        assert_int_equal(restore_crafted((uint64_t)65535 * WASM_PAGE, 1, good, 2), -ENOMEM);
}

/* ---- the stream ---- */

static void streams_carry_any_size(void **state) {
        static uint8_t bytes[3 * SNAPSHOT_PIECE];
        static const size_t sizes[] = {0, 1, SNAPSHOT_PIECE - 1, 1, 2, SNAPSHOT_PIECE, 3 * SNAPSHOT_PIECE, 5};
        int fd = memfd_create("stream", MFD_CLOEXEC);
        struct snapshot_writer *writer;
        struct snapshot_reader *reader;
        uint8_t *data, *back = malloc(sizeof(bytes));
        size_t size;

        for (size_t i = 0; i < sizeof(bytes); i++)
                bytes[i] = (uint8_t)(i * i >> 3);
        assert_int_equal(snapshot_writer_new(fd, 0, MANY, &writer), 0);
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
                assert_int_equal(snapshot_put(writer, bytes, sizes[i]), 0);
        assert_int_equal(snapshot_writer_finish(writer), 0);
        snapshot_writer_free(writer);
        data = help_read(fd, &size);
        close(fd);
        assert_int_equal(snapshot_reader_new(data, size, &reader), 0);
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
                assert_int_equal(snapshot_reader_finish(reader), -EINVAL);
                assert_int_equal(snapshot_get(reader, back, sizes[i]), 0);
                assert_memory_equal(back, bytes, sizes[i]);
        }
        assert_int_equal(snapshot_reader_finish(reader), 0);
        assert_int_equal(snapshot_get(reader, back, 1), -EINVAL);
        snapshot_reader_free(reader);
        free(data);
        free(back);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
        const struct CMUnitTest tests[] = {
                TEST(comes_back_byte_for_byte),
                TEST(files_come_back),
                TEST(is_as_small_as_what_changed),
                TEST(the_dead_stack_is_not_saved),
                TEST(time_goes_on),
                TEST(says_what_it_is),
                TEST(another_image_is_refused),
                TEST(a_flipped_bit_is_found),
                TEST(a_cut_or_longer_one_is_found),
                TEST(limits_are_the_new_sessions),
                TEST(only_a_fresh_instance_takes_one),
                TEST(no_more_is_written_than_allowed),
                TEST(what_trapped_is_not_saved),
                cmocka_unit_test(crafted_ones_are_refused),
                cmocka_unit_test(streams_carry_any_size),
        };

        return cmocka_run_group_tests(tests, make_image, drop_image);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the file system of guests in WebAssembly. The first byte says what the rest is: the packed tree of an image,
 * the files of a snapshot, or calls of a guest, one after another. For libFuzzer (-Dfuzzers=true with clang); replay.c
 * runs it on files. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>

#include "vfs_help.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_MAX 65536
#define CALLS_MAX 2000
#define BUFFER_MAX 70000

static const struct vfs_limits limits = {.bytes = 400000, .entries = 40, .open_files = 12};
static uint8_t buffer[BUFFER_MAX];

static void must(bool holds) {
        if (!holds)
                abort();
}

static void check_usage(const struct vfs *vfs) {
        struct vfs_usage usage;

        vfs_get_usage(vfs, &usage);
        must(usage.bytes <= limits.bytes && usage.bytes <= usage.bytes_peak && usage.bytes_peak <= limits.bytes);
        must(usage.entries <= limits.entries && usage.open_files <= limits.open_files);
}

/* ---- a directory and all below it ---- */

static void read_directory(struct vfs *vfs, uint32_t fd, unsigned depth);

static void read_entry(struct vfs *vfs, uint32_t fd, const struct vfs_dirent *entry, unsigned depth) {
        struct vfs_at at = {.fd = fd, .path = entry->name, .size = entry->name_size};
        struct vfs_open_how how = {.read = true};
        struct vfs_stat stat;
        uint32_t opened = 0;
        size_t done;

        must(vfs_stat_at(vfs, &at, &stat) == 0 && stat.type == entry->type && stat.inode == entry->inode);
        if (vfs_open(vfs, &at, &how, &opened) != 0)
                return;
        if (stat.type == WASI_FILETYPE_DIRECTORY)
                read_directory(vfs, opened, depth + 1);
        else
                (void)vfs_pread(vfs, opened, stat.size / 2, buffer, sizeof(buffer), &done);
        vfs_close(vfs, opened);
}

static void read_directory(struct vfs *vfs, uint32_t fd, unsigned depth) {
        struct vfs_dirent entry = {.next = 2};

        while (depth < limits.open_files) {
                uint64_t before = entry.next;

                if (vfs_readdir(vfs, fd, before, &entry) != 0 || entry.name_size == 0)
                        return;
                must(entry.next > before);
                read_entry(vfs, fd, &entry, depth);
        }
}

/* ---- a snapshot: what was loaded is saved and loaded again, the same bytes ---- */

static void save_again(struct vfs *vfs, const struct vfs_tree *tree) {
        struct snapshot_writer one = {0}, two = {0};
        struct snapshot_reader reader;
        struct vfs *again = NULL;

        must(vfs_save(vfs, &one) == 0);
        reader = (struct snapshot_reader){.data = one.data, .size = one.size};
        must(vfs_load(tree, &limits, &reader, &again) == 0 && reader.at == reader.size);
        must(vfs_save(again, &two) == 0);
        must(one.size == two.size && memcmp(one.data, two.data, one.size) == 0);
        check_usage(again);
        vfs_free(again);
        free(one.data);
        free(two.data);
}

/* ---- calls ---- */

struct input {
        const uint8_t *data;
        size_t size;
};

static uint32_t take(struct input *input) {
        uint8_t byte = input->size > 0 ? input->data[0] : 0;

        if (input->size > 0) {
                input->data++;
                input->size--;
        }
        return byte;
}

/* A path of the input, or one of a few that are likely to be there. */
static struct vfs_at take_path(struct input *input, char text[64]) {
        static const char *const known[] = {"work/a",         "work/b",       "work/a/c", "tmp/a", "work/a/..",
                                            "tmp/../work/b/", "usr/lib/a.py", "/",        "a",     "."};
        uint32_t choice = take(input);
        struct vfs_at at = {.fd = choice & 0x80 ? take(input) % 20 : VFS_ROOT_FD, .follow = (choice & 0x40) != 0};

        if ((choice & 0x3f) < sizeof(known) / sizeof(known[0])) {
                at.path = known[choice & 0x3f];
                at.size = strlen(at.path);
                return at;
        }
        at.size = take(input) % 64;
        for (size_t i = 0; i < at.size; i++)
                text[i] = (char)take(input);
        at.path = text;
        return at;
}

static void call_open(struct vfs *vfs, struct input *input) {
        uint32_t bits = take(input), fd = 0;
        struct vfs_open_how how = {
                .create = (bits & 1) != 0,
                .exclusive = (bits & 2) != 0,
                .truncate = (bits & 4) != 0,
                .directory = (bits & 8) != 0,
                .read = (bits & 16) != 0,
                .write = (bits & 32) != 0,
                .flags = bits & 64 ? WASI_FD_APPEND : 0,
        };
        char text[64];
        struct vfs_at at = take_path(input, text);

        (void)vfs_open(vfs, &at, &how, &fd);
}

static void call_path(struct vfs *vfs, struct input *input, uint32_t what) {
        char one[64], two[64];
        struct vfs_at first = take_path(input, one), second = take_path(input, two);
        struct vfs_times times = {.set_modified = true, .modified_ns = take(input)};
        struct vfs_stat stat;
        size_t done;

        switch (what) {
        case 0:
                (void)vfs_make_directory(vfs, &first);
                break;
        case 1:
                (void)vfs_remove_directory(vfs, &first);
                break;
        case 2:
                (void)vfs_unlink(vfs, &first);
                break;
        case 3:
                (void)vfs_rename(vfs, &first, &second);
                break;
        case 4:
                (void)vfs_link(vfs, &first, &second);
                break;
        case 5:
                (void)vfs_symlink(vfs, first.path, first.size, &second);
                break;
        case 6:
                (void)vfs_readlink(vfs, &first, (char *)buffer, take(input), &done);
                break;
        case 7:
                (void)vfs_stat_at(vfs, &first, &stat);
                break;
        default:
                (void)vfs_set_times_at(vfs, &first, &times);
        }
}

static void call_file(struct vfs *vfs, struct input *input, uint32_t what) {
        uint32_t fd = take(input) % 20;
        uint64_t offset = take(input);
        size_t size, done = 0;
        struct vfs_dirent entry;

        offset <<= take(input) % 60;
        size = take(input);
        size <<= take(input) % 9;
        switch (what) {
        case 0:
                (void)vfs_read(vfs, fd, buffer, size, &done);
                break;
        case 1:
                (void)vfs_write(vfs, fd, buffer, size, &done);
                break;
        case 2:
                (void)vfs_pread(vfs, fd, offset, buffer, size, &done);
                break;
        case 3:
                (void)vfs_pwrite(vfs, fd, offset, buffer, size, &done);
                break;
        case 4:
                (void)vfs_seek(vfs, fd, (int64_t)(offset - size), take(input) % 4, &offset);
                break;
        case 5:
                (void)vfs_set_size(vfs, fd, offset);
                break;
        case 6:
                (void)vfs_allocate(vfs, fd, offset, size);
                break;
        case 7:
                (void)vfs_close(vfs, fd);
                break;
        case 8:
                (void)vfs_renumber(vfs, fd, take(input) % 20);
                break;
        default:
                (void)vfs_readdir(vfs, fd, offset, &entry);
        }
        must(done <= size);
}

/* Takes all away again: then nothing is charged that was not at the beginning. */
static void remove_below(struct vfs *vfs, const char *path) {
        struct vfs_open_how how = {.read = true, .directory = true};
        struct vfs_dirent entry;
        uint32_t fd = 0;

        must(vfs_open(vfs, AT(path), &how, &fd) == 0);
        while (vfs_readdir(vfs, fd, 2, &entry) == 0 && entry.name_size > 0) {
                struct vfs_at at = {.fd = fd, .path = entry.name, .size = entry.name_size};

                if (vfs_unlink(vfs, &at) == 0 || vfs_remove_directory(vfs, &at) == 0)
                        continue;
                /* One with something in it: that goes up, so that no path gets long. */
                at.size = 0;
                must(vfs_open(vfs, &(struct vfs_at){.fd = fd, .path = entry.name, .size = entry.name_size}, &how,
                              &at.fd) == 0);
                for (struct vfs_dirent below; vfs_readdir(vfs, at.fd, 2, &below) == 0 && below.name_size > 0;) {
                        static unsigned count;
                        char name[32];

                        snprintf(name, sizeof(name), "up-%u", count++);
                        must(vfs_rename(vfs, &(struct vfs_at){.fd = at.fd, .path = below.name, .size = below.name_size},
                                        AT_FD(fd, name)) == 0);
                }
                vfs_close(vfs, at.fd);
        }
        vfs_close(vfs, fd);
}

static void run_calls(struct vfs *vfs, struct input *input) {
        struct vfs_usage before, after;

        vfs_get_usage(vfs, &before);
        for (unsigned i = 0; i < CALLS_MAX && input->size > 0; i++) {
                uint32_t what = take(input) % 22;

                vfs_set_time(vfs, i);
                if (what < 3)
                        call_open(vfs, input);
                else if (what < 12)
                        call_path(vfs, input, what - 3);
                else
                        call_file(vfs, input, what - 12);
                check_usage(vfs);
        }
        for (uint32_t fd = 0; fd < 20; fd++)
                (void)vfs_close(vfs, fd);
        remove_below(vfs, "work");
        remove_below(vfs, "tmp");
        vfs_get_usage(vfs, &after);
        must(after.entries == 0 && after.open_files == 0 && after.bytes == before.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct vfs_tree made, tree;
        struct input input;
        struct vfs *vfs = NULL;
        unsigned kind;
        int r;

        if (size == 0 || size > INPUT_MAX)
                return 0;
        kind = data[0] % 3;
        input = (struct input){.data = data + 1, .size = size - 1};
        make_tree(&made);
        tree = made;
        if (kind == 0 && vfs_tree_open(input.data, input.size, &tree) < 0)
                tree = (struct vfs_tree){0};
        if (kind == 1) {
                struct snapshot_reader reader = {.data = input.data, .size = input.size};

                r = vfs_load(&tree, &limits, &reader, &vfs);
                must(r == 0 || ((r == -EINVAL || r == -EDQUOT) && vfs == NULL));
        } else {
                must(vfs_new(&tree, &limits, &vfs) == 0);
        }
        if (vfs != NULL) {
                check_usage(vfs);
                read_directory(vfs, VFS_ROOT_FD, 0);
                if (kind == 2)
                        run_calls(vfs, &input);
                save_again(vfs, &tree);
        }
        vfs_free(vfs);
        free_tree(&made);
        return 0;
}

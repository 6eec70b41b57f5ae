/* SPDX-License-Identifier: Apache-2.0 */
/* Images of guests' processes: a guest writes all of its memory into a file in memory, and a new guest of the same
 * zygote, jailed like any other, becomes what it was (zygote_branch.c). So a branch has namespaces, files and limits of
 * its own, and shares with its original nothing but pages that neither can change any more.
 *
 * An image: the content of memory; the kernel's list of the original's memory; the ranges that have content; a trailer.
 * Whoever reads one is in the jail of the guest that it becomes, and may believe what it likes. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "syscalls.h"
#include "util.h"
#include "zygote_image.h"

#define EXPORT __attribute__((visibility("default")))
EXPORT int64_t sbx_zygote_image(struct zygote *zygote, int fd, const int *streams);

#define WINDOW_BYTES ((size_t)2 << 20) /* of the file that is in the address space at a time */
#define GAP_PAGES 32                   /* pages without content inside of a range, rather than two ranges */
#define PAGES_MAX ((size_t)1 << 26)    /* that are looked at: 256 GB of address space */
#define ENTRIES 512                    /* of /proc/self/pagemap, read at once */
#define SCRATCH_BYTES (MEMORY_MAPS_MAX + IMAGE_RANGES_MAX * sizeof(struct image_range))

/* Linux, Documentation/admin-guide/mm/pagemap.rst */
#define PAGE_PRESENT (UINT64_C(1) << 63)
#define PAGE_SWAPPED (UINT64_C(1) << 62)
#define PAGE_OF_FILE (UINT64_C(1) << 61)

struct resume zygote_resume;

/* ---- what the kernel keeps of a process ---- */

struct kernel_action {
        unsigned char bytes[64];
};

struct kernel_state {
        struct kernel_action actions[IMAGE_SIGNALS + 1];
        sigset_t mask;
        stack_t alternative;
        mode_t umask;
};

static void note_state(struct kernel_state *state) {
        sigset_t all;

        sigfillset(&all);
        sigprocmask(SIG_SETMASK, &all, &state->mask);
        for (int i = 1; i <= IMAGE_SIGNALS; i++)
                syscall(SYS_rt_sigaction, i, NULL, &state->actions[i], IMAGE_SIGNALS / 8);
        sigaltstack(NULL, &state->alternative);
        state->umask = umask(0);
        umask(state->umask);
}

/* In the new process, on the original's stack. */
static void take_over(const struct zygote *zygote, const struct kernel_state *state) {
        munmap(zygote_resume.scratch, zygote_resume.scratch_size);
        *zygote->tid_address = (int)syscall(SYS_gettid);
        if (zygote->robust_list != NULL)
                syscall(SYS_set_robust_list, zygote->robust_list, zygote->robust_list_size);
        for (int i = 1; i <= IMAGE_SIGNALS; i++)
                syscall(SYS_rt_sigaction, i, &state->actions[i], NULL, IMAGE_SIGNALS / 8);
        sigaltstack(&state->alternative, NULL);
        umask(state->umask);
        prctl(PR_SET_NAME, ZYGOTE_FROZEN_NAME, 0, 0, 0);
        sigprocmask(SIG_SETMASK, &state->mask, NULL);
}

/* ---- writing ---- */

struct writer {
        int fd, pagemap;
        size_t page;
        struct image_trailer trailer;
        struct image_range *ranges; /* IMAGE_RANGES_MAX */
        uint64_t size, most;        /* of the file: so far, and what it has room for */
        uint64_t file_limit;        /* what may be written of a file rather than mapped */
        size_t pages_seen;
        char *window;
        uint64_t window_at;
};

static int open_window(struct writer *writer, uint64_t offset) {
        void *window;

        if (writer->window != NULL)
                munmap(writer->window, WINDOW_BYTES);
        writer->window = NULL;
        window = mmap(NULL, WINDOW_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, writer->fd, (off_t)offset);
        if (window == MAP_FAILED)
                return -errno;
        writer->window = window;
        writer->window_at = offset;
        return 0;
}

/* Half the time, as long as the session's limit of files is not met, which images are not under. */
static int append_at_once(struct writer *writer, const void *data, size_t size) {
        while (size > 0) {
                ssize_t n = pwrite(writer->fd, data, size, (off_t)writer->size);

                if (n <= 0)
                        return n < 0 ? -errno : -EIO;
                writer->size += (uint64_t)n;
                data = (const char *)data + n;
                size -= (size_t)n;
        }
        return 0;
}

static int append(struct writer *writer, const void *data, size_t size) {
        if (size > writer->most - writer->size)
                return -ENOSPC;
        if (writer->size + size <= writer->file_limit)
                return append_at_once(writer, data, size);
        while (size > 0) {
                uint64_t at = writer->size - writer->size % WINDOW_BYTES;
                size_t part = (size_t)(at + WINDOW_BYTES - writer->size);
                int r = writer->window != NULL && writer->window_at == at ? 0 : open_window(writer, at);

                if (r < 0)
                        return r;
                part = part < size ? part : size;
                memcpy(writer->window + (writer->size - at), data, part);
                writer->size += part;
                data = (const char *)data + part;
                size -= part;
        }
        return 0;
}

static int add_range(struct writer *writer, const struct mapping *mapping, uintptr_t start, uintptr_t end) {
        if ((mapping->protection & PROT_READ) == 0)
                return -EACCES; /* content that can't be read */
        if (writer->trailer.range_count == IMAGE_RANGES_MAX)
                return -E2BIG;
        writer->ranges[writer->trailer.range_count++] =
                (struct image_range){.start = start,
                                     .end = end,
                                     .offset = writer->size,
                                     .protection = (uint16_t)mapping->protection,
                                     .on_stack = mapping->kind == MAPPING_STACK,
                                     .whole = mapping->kind == MAPPING_IMAGE};
        return append(writer, (const void *)start, end - start);
}

static bool has_content(uint64_t entry) {
        return (entry & PAGE_SWAPPED) != 0 || (entry & (PAGE_PRESENT | PAGE_OF_FILE)) == PAGE_PRESENT;
}

/* What is the process's own in a mapping: pages that no file has, or not any more. */
static int write_mapping(struct writer *writer, const struct mapping *mapping) {
        size_t count = (mapping->end - mapping->start) / writer->page, first = 0, last = 0;
        bool open = false;
        uint64_t entries[ENTRIES];
        int r = 0;

        writer->pages_seen += count;
        if (writer->pages_seen > PAGES_MAX)
                return -E2BIG;
        for (size_t i = 0; i < count && r == 0; i += ENTRIES) {
                size_t part = count - i < ENTRIES ? count - i : ENTRIES;
                ssize_t n = pread(writer->pagemap, entries, part * sizeof(entries[0]),
                                  (off_t)((mapping->start / writer->page + i) * sizeof(entries[0])));

                if (n != (ssize_t)(part * sizeof(entries[0])))
                        return n < 0 ? -errno : -EIO;
                for (size_t j = 0; j < part && r == 0; j++) {
                        if (!has_content(entries[j]))
                                continue;
                        if (open && i + j - last > GAP_PAGES)
                                r = add_range(writer, mapping, mapping->start + first * writer->page,
                                              mapping->start + (last + 1) * writer->page);
                        if (!open || i + j - last > GAP_PAGES)
                                first = i + j;
                        open = true;
                        last = i + j;
                }
        }
        if (open && r == 0)
                r = add_range(writer, mapping, mapping->start + first * writer->page,
                              mapping->start + (last + 1) * writer->page);
        return r;
}

static int write_memory(struct writer *writer, const char *maps, size_t size) {
        struct mapping mapping;
        int r = 0;

        for (const char *at = maps; r == 0 && (at = memory_maps_next(at, maps + size, &mapping)) != NULL;) {
                if (mapping.shared || mapping.kind == MAPPING_KERNEL)
                        continue;
                r = mapping.kind == MAPPING_IMAGE && mapping.protection != PROT_NONE
                            ? add_range(writer, &mapping, mapping.start, mapping.end)
                            : write_mapping(writer, &mapping);
        }
        return r;
}

/* Numbers that are open; those of the new process's streams apart. */
static int note_descriptors(struct image_trailer *trailer, const int *streams) {
        DIR *directory = opendir("/proc/self/fd");
        const struct dirent *entry;

        if (directory == NULL)
                return -errno;
        while ((entry = readdir(directory)) != NULL) {
                int number = atoi(entry->d_name);

                if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9' && number < IMAGE_FDS_MAX &&
                    number != dirfd(directory))
                        trailer->open[number / 8] |= (unsigned char)(1u << number % 8);
        }
        closedir(directory);
        for (int i = 0; i < IMAGE_STREAMS; i++)
                trailer->streams[i] = streams[i];
        return 0;
}

static int write_image(struct writer *writer, char *maps) {
        ssize_t size = memory_maps_read(maps, MEMORY_MAPS_MAX);
        struct image_trailer *trailer = &writer->trailer;
        struct rlimit limit;
        struct stat st;
        int r;

        if (size < 0)
                return (int)size;
        if (fstat(writer->fd, &st) < 0)
                return -errno;
        writer->most = (uint64_t)st.st_size;
        if (getrlimit(RLIMIT_FSIZE, &limit) == 0)
                writer->file_limit = limit.rlim_cur;
        trailer->brk = (uint64_t)syscall(SYS_brk, 0);
        trailer->maps_size = (uint32_t)size;
        r = write_memory(writer, maps, (size_t)size);
        trailer->maps_offset = writer->size;
        if (r == 0)
                r = append(writer, maps, (size_t)size);
        trailer->ranges_offset = writer->size;
        if (r == 0)
                r = append(writer, writer->ranges, trailer->range_count * sizeof(writer->ranges[0]));
        if (r == 0)
                r = append(writer, trailer, sizeof(*trailer));
        if (writer->window != NULL)
                munmap(writer->window, WINDOW_BYTES);
        return r;
}

/* Writes this process into `fd`, a memfd of the size that it may have. `streams`: numbers at which the new process is
 * to have its control stream, outputs and copies; they are open. In the original the image's size in bytes, or a
 * negative errno; in the new process IMAGE_BRANCH. */
int64_t sbx_zygote_image(struct zygote *zygote, int fd, const int *streams) {
        struct writer writer = {.fd = fd, .pagemap = -1, .page = (size_t)sysconf(_SC_PAGESIZE)};
        struct kernel_state state;
        char *scratch;
        int r;

        note_state(&state);
        if (sigsetjmp(zygote_resume.point, 0) != 0) {
                take_over(zygote, &state);
                return IMAGE_BRANCH;
        }
        /* Shared: the kernel joins it with no memory of ours, and the image leaves it out. */
        scratch = mmap(NULL, SCRATCH_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        r = scratch == MAP_FAILED ? -errno : note_descriptors(&writer.trailer, streams);
        if (r == 0 && (writer.pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)) < 0)
                r = -errno;
        if (r == 0) {
                writer.ranges = (struct image_range *)(scratch + MEMORY_MAPS_MAX);
                r = write_image(&writer, scratch);
        }
        if (writer.pagemap >= 0)
                close(writer.pagemap);
        if (scratch != MAP_FAILED)
                munmap(scratch, SCRATCH_BYTES);
        sigprocmask(SIG_SETMASK, &state.mask, NULL);
        return r < 0 ? r : (int64_t)writer.size;
}

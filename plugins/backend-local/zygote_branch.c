/* SPDX-License-Identifier: Apache-2.0 */
/* A guest becomes what an image tells (zygote_image.h): it has left the zygote, is locked down, and has run nothing.
 *
 * The work is done on a stack in memory that neither process has otherwise, by code that is where it was. While memory
 * is replaced what the C library keeps of this thread is nothing, then the original's: no call of it that could be
 * cancelled works until then, and no guard of a stack. */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <ucontext.h>

#include "syscalls.h"
#include "util.h"
#include "zygote_image.h"

#define STACK_BYTES ((size_t)256 << 10)
#define PLACE_FIRST UINT64_C(0x1000000000) /* where nothing is, as a rule: on every architecture */
#define PLACE_STEP UINT64_C(0x40000000)
#define PLACES_MAX 200
#define LOWEST UINT64_C(0x10000)
#define SMALL_BYTES ((size_t)128 << 10) /* below, pages are copied at once: a mapping costs more */

struct branch {
        struct image_trailer trailer;
        const struct guest_fds *fds;
        char *scratch;
        size_t scratch_size;
        char *maps, *own_maps; /* the original's list, and this process's */
        size_t own_size;
        struct image_range *ranges;
        ucontext_t context;
        char path[4096];
};

#define UNGUARDED __attribute__((no_stack_protector))

static struct branch *branch_begun; /* for the new stack's first function, which takes no argument */

UNGUARDED static char *add_text(char *at, const char *text) {
        while (*text != '\0')
                *at++ = *text++;
        return at;
}

/* The server hears why, as of a copy that failed. `what` is short; the C library's formatting may not work by now. */
UNGUARDED static _Noreturn void give_up(int copies_fd, const char *what, int code) {
        char message[GUEST_COPY_HEADER + 128] = {(char)GUEST_COPY_FAILED}, digits[8] = "", *digit = digits + 7;
        char *at = add_text(message + GUEST_COPY_HEADER, what);

        for (int left = -code; left > 0 && digit > digits; left /= 10)
                *--digit = (char)('0' + left % 10);
        at = add_text(add_text(add_text(at, " (error "), digit), ")");
        syscall(SYS_write, copies_fd, message, (size_t)(at - message));
        syscall(SYS_exit_group, 1);
        __builtin_unreachable();
}

UNGUARDED static int read_part(int fd, uint64_t offset, void *data, size_t size) {
        for (size_t have = 0; have < size;) {
                long n = syscall(SYS_pread64, fd, (char *)data + have, size - have, offset + have);

                if (n <= 0)
                        return n < 0 ? -errno : -ENODATA;
                have += (size_t)n;
        }
        return 0;
}

/* ---- a place to stand ---- */

static bool overlaps(const char *maps, size_t size, uintptr_t start, uintptr_t end) {
        struct mapping mapping;

        for (const char *at = maps; (at = memory_maps_next(at, maps + size, &mapping)) != NULL;)
                if (mapping.start < end && mapping.end > start)
                        return true;
        return false;
}

/* Memory that is free here, and was free in the original. */
static int find_place(struct branch *branch, size_t size) {
        uint32_t maps_size = branch->trailer.maps_size;

        for (int i = 0; i < PLACES_MAX; i++) {
                uintptr_t at = (uintptr_t)(PLACE_FIRST + (uint64_t)i * PLACE_STEP);
                char *place = mmap((void *)at, size, PROT_READ | PROT_WRITE,
                                   MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
                int r;

                if (place == MAP_FAILED)
                        continue;
                r = read_part(branch->fds->image, branch->trailer.maps_offset, place, maps_size);
                if (r < 0)
                        return r;
                if (!overlaps(place, maps_size, at, at + size)) {
                        branch->maps = place;
                        return 0;
                }
                munmap(place, size);
        }
        return -ENOMEM;
}

static int prepare(struct branch *branch) {
        size_t ranges_size, size;
        struct stat st;
        int r;

        if (fstat(branch->fds->image, &st) < 0)
                return -errno;
        r = st.st_size > (off_t)sizeof(branch->trailer)
                    ? read_part(branch->fds->image, (uint64_t)st.st_size - sizeof(branch->trailer), &branch->trailer,
                                sizeof(branch->trailer))
                    : -EBADMSG;
        if (r == 0 && (branch->trailer.maps_size > MEMORY_MAPS_MAX || branch->trailer.range_count > IMAGE_RANGES_MAX))
                r = -EBADMSG;
        if (r < 0)
                return r;
        ranges_size = branch->trailer.range_count * sizeof(struct image_range);
        size = 2 * MEMORY_MAPS_MAX + IMAGE_RANGES_MAX * sizeof(struct image_range) + STACK_BYTES;
        r = find_place(branch, size);
        if (r < 0)
                return r;
        branch->scratch = branch->maps;
        branch->scratch_size = size;
        branch->own_maps = branch->maps + MEMORY_MAPS_MAX;
        branch->ranges = (struct image_range *)(branch->own_maps + MEMORY_MAPS_MAX);
        return read_part(branch->fds->image, branch->trailer.ranges_offset, branch->ranges, ranges_size);
}

/* ---- memory ---- */

static void drop(uintptr_t start, uintptr_t end) {
        if (end > start)
                munmap((void *)start, end - start);
}

/* Whatever the original had nothing at. */
static void drop_own(const struct branch *branch) {
        const char *end = branch->maps + branch->trailer.maps_size;
        uintptr_t scratch = (uintptr_t)branch->scratch, scratch_end = scratch + branch->scratch_size, done = LOWEST;
        struct mapping mapping;

        for (const char *at = branch->maps; (at = memory_maps_next(at, end, &mapping)) != NULL;) {
                if (scratch >= done && scratch < mapping.start) {
                        drop(done, scratch);
                        done = scratch_end;
                }
                drop(done, mapping.start);
                if (mapping.end > done)
                        done = mapping.end;
        }
}

/* Is there the same part of the same file already? */
UNGUARDED static bool is_there(const struct branch *branch, const struct mapping *wanted) {
        const char *end = branch->own_maps + branch->own_size;
        struct mapping mapping;

        for (const char *at = branch->own_maps; (at = memory_maps_next(at, end, &mapping)) != NULL;)
                if (mapping.start <= wanted->start && mapping.end >= wanted->end)
                        return mapping.inode == wanted->inode && mapping.shared == wanted->shared &&
                               mapping.protection == wanted->protection &&
                               mapping.offset + (wanted->start - mapping.start) == wanted->offset &&
                               mapping.path_size == wanted->path_size &&
                               memcmp(mapping.path, wanted->path, wanted->path_size) == 0;
        return false;
}

UNGUARDED static int map_file(struct branch *branch, const struct mapping *wanted) {
        void *got;
        int fd, code;

        if (wanted->path_size >= sizeof(branch->path))
                return -ENAMETOOLONG;
        memcpy(branch->path, wanted->path, wanted->path_size);
        branch->path[wanted->path_size] = '\0';
        fd = (int)syscall(SYS_openat, AT_FDCWD, branch->path, O_RDONLY | O_CLOEXEC, 0);
        if (fd < 0)
                return -errno;
        got = mmap((void *)wanted->start, wanted->end - wanted->start, wanted->protection,
                   (wanted->shared ? MAP_SHARED : MAP_PRIVATE) | MAP_FIXED, fd, (off_t)wanted->offset);
        code = got == MAP_FAILED ? -errno : 0;
        syscall(SYS_close, fd);
        return code;
}

/* Empty: what it held comes from the ranges. What the original had given back must not be the zygote's here. */
UNGUARDED static int map_empty(const struct mapping *wanted) {
        void *got = mmap((void *)wanted->start, wanted->end - wanted->start, wanted->protection,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);

        return got == MAP_FAILED ? -errno : 0;
}

/* What the original had while it wrote the image; it shares no other memory. */
UNGUARDED static bool is_scratch(const struct mapping *mapping) {
        static const char name[] = "/dev/zero";

        return mapping->path_size >= sizeof(name) - 1 && memcmp(mapping->path, name, sizeof(name) - 1) == 0;
}

/* What files this process has of those that the original has: missing ones are mapped, and -ESTALE if one is another by
 * now. The kernel's list tells, whose idea of a file's number is not that of stat with every file system. */
UNGUARDED static int map_files(struct branch *branch) {
        const char *end = branch->maps + branch->trailer.maps_size;
        struct mapping mapping;
        bool complete = false;

        for (int round = 0; round < 2 && !complete; round++) {
                ssize_t size = memory_maps_read(branch->own_maps, MEMORY_MAPS_MAX);
                int r = size < 0 ? (int)size : 0;

                branch->own_size = size > 0 ? (size_t)size : 0;
                complete = true;
                for (const char *at = branch->maps; r == 0 && (at = memory_maps_next(at, end, &mapping)) != NULL;) {
                        if (mapping.kind != MAPPING_FILE || (mapping.shared && is_scratch(&mapping)) ||
                            is_there(branch, &mapping))
                                continue;
                        complete = false;
                        r = round == 0 ? map_file(branch, &mapping) : -ESTALE;
                }
                if (r < 0)
                        return r;
        }
        return 0;
}

/* What was of an image is not touched: a range has all of it, and part of it may be code's that runs now. */
UNGUARDED static int map_all(struct branch *branch) {
        const char *end = branch->maps + branch->trailer.maps_size;
        struct mapping mapping;
        int r = map_files(branch);

        for (const char *at = branch->maps; r == 0 && (at = memory_maps_next(at, end, &mapping)) != NULL;)
                if (mapping.kind == MAPPING_ANONYMOUS)
                        r = map_empty(&mapping);
        return r;
}

UNGUARDED static int fill(const struct branch *branch, const struct image_range *range) {
        size_t size = range->end - range->start;
        bool writable = (range->protection & PROT_WRITE) != 0;
        void *got;

        if (range->on_stack || (writable && !range->whole && size < SMALL_BYTES))
                return read_part(branch->fds->image, range->offset, (void *)range->start, size);
        got = mmap((void *)range->start, size, (int)range->protection, MAP_PRIVATE | MAP_FIXED, branch->fds->image,
                   (off_t)range->offset);
        return got == MAP_FAILED ? -errno : 0;
}

/* ---- descriptors ---- */

static bool was_open(const struct image_trailer *trailer, int number) {
        return (trailer->open[number / 8] >> number % 8 & 1) != 0;
}

static int find_unused(const struct image_trailer *trailer, int below) {
        while (--below > 16)
                if (!was_open(trailer, below))
                        return below;
        return -1;
}

/* The streams at the numbers that the original's worker expects, and at all others that were open /dev/null, for it to
 * close. */
static int arrange(const struct branch *branch) {
        const struct image_trailer *trailer = &branch->trailer;
        const int own[IMAGE_STREAMS] = {branch->fds->control, branch->fds->out, branch->fds->err, branch->fds->copies};
        int moved[IMAGE_STREAMS], at = IMAGE_FDS_MAX;

        for (int i = 0; i < IMAGE_STREAMS; i++) {
                at = find_unused(trailer, at);
                if (at < 0 || dup3(own[i], at, O_CLOEXEC) < 0)
                        return -EMFILE;
                moved[i] = at;
        }
        for (int number = 1; number < at; number++)
                if (!was_open(trailer, number))
                        close(number);
                else if (dup3(0, number, O_CLOEXEC) < 0)
                        return -errno;
        for (int number = at; number < IMAGE_FDS_MAX; number++)
                if (was_open(trailer, number) && dup3(0, number, O_CLOEXEC) < 0)
                        return -errno;
        for (int i = 0; i < IMAGE_STREAMS; i++) {
                if (trailer->streams[i] < 0 || trailer->streams[i] >= IMAGE_FDS_MAX ||
                    dup3(moved[i], trailer->streams[i], O_CLOEXEC) < 0)
                        return -EBADMSG;
                close(moved[i]);
        }
        return 0;
}

/* ---- all of it ---- */

UNGUARDED static void become(void) {
        struct branch *branch = branch_begun; /* on memory that stays; the variable does not */
        const struct image_trailer *trailer = &branch->trailer;
        int copies_fd = branch->fds->copies, r = 0;

        if (syscall(SYS_brk, trailer->brk) != (long)trailer->brk)
                give_up(copies_fd, "its heap can't be where it was", -ENOMEM);
        drop_own(branch);
        r = map_all(branch);
        if (r < 0)
                give_up(copies_fd, "memory can't be mapped as it was", r);
        for (uint32_t i = 0; i < trailer->range_count && r == 0; i++)
                r = fill(branch, &branch->ranges[i]);
        if (r == 0)
                r = arrange(branch);
        if (r < 0)
                give_up(copies_fd, "memory can't be what it was", r);
        zygote_resume.scratch = branch->scratch;
        zygote_resume.scratch_size = branch->scratch_size;
        siglongjmp(zygote_resume.point, 1);
}

void zygote_become(const struct guest_fds *fds) {
        struct branch begun = {.fds = fds}, *branch;
        struct guest_fds *kept;
        sigset_t all;
        char *stack;
        int r;

        sigfillset(&all);
        sigprocmask(SIG_SETMASK, &all, NULL);
        r = prepare(&begun);
        if (r < 0)
                give_up(fds->copies, "its image can't be read", r);
        stack = (char *)(begun.ranges + IMAGE_RANGES_MAX);
        branch = (struct branch *)(stack + STACK_BYTES - sizeof(*branch) - sizeof(*kept) - 64);
        branch = (struct branch *)((uintptr_t)branch & ~(uintptr_t)63);
        *branch = begun;
        kept = (struct guest_fds *)(branch + 1);
        *kept = *fds;
        branch->fds = kept;
        branch_begun = branch;
        getcontext(&branch->context);
        branch->context.uc_stack.ss_sp = stack;
        branch->context.uc_stack.ss_size = (size_t)((char *)branch - stack);
        branch->context.uc_link = NULL;
        makecontext(&branch->context, become, 0);
        setcontext(&branch->context);
        give_up(fds->copies, "there is no other stack", -errno);
}

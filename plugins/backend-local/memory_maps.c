/* SPDX-License-Identifier: Apache-2.0 */
#include "memory_maps.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "protocol.h"

ssize_t memory_maps_read(char *text, size_t size) {
        int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
        size_t have = 0;
        ssize_t n = fd < 0 ? -1 : 1;

        while (n > 0 && have < size) {
                n = read(fd, text + have, size - have);
                have += n > 0 ? (size_t)n : 0;
        }
        if (fd >= 0)
                close(fd);
        return n < 0 ? -errno : have == size ? -E2BIG : (ssize_t)have;
}

static uint64_t read_hex(const char **at) {
        uint64_t value = 0;

        for (;; (*at)++) {
                char c = **at;

                if (c >= '0' && c <= '9')
                        value = value << 4 | (uint64_t)(c - '0');
                else if (c >= 'a' && c <= 'f')
                        value = value << 4 | (uint64_t)(c - 'a' + 10);
                else
                        return value;
        }
}

static enum mapping_kind kind_of(const struct mapping *mapping) {
        static const char own[] = "/memfd:" ZYGOTE_IMAGE_NAME;

        if (strncmp(mapping->path, "[stack]", 7) == 0)
                return MAPPING_STACK;
        if (strncmp(mapping->path, "[v", 2) == 0) /* vdso, vvar, vsyscall: the kernel's */
                return MAPPING_KERNEL;
        if (strncmp(mapping->path, own, sizeof(own) - 1) == 0)
                return MAPPING_IMAGE;
        return mapping->inode == 0 ? MAPPING_ANONYMOUS : MAPPING_FILE;
}

/* "start-end rwxp offset device inode   path LF" */
const char *memory_maps_next(const char *at, const char *end, struct mapping *mapping) {
        const char *line_end = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;

        if (line_end == NULL)
                return NULL;
        mapping->start = read_hex(&at);
        at++;
        mapping->end = read_hex(&at);
        at++;
        mapping->protection =
                (at[0] == 'r' ? PROT_READ : 0) | (at[1] == 'w' ? PROT_WRITE : 0) | (at[2] == 'x' ? PROT_EXEC : 0);
        mapping->shared = at[3] == 's';
        at += 5;
        mapping->offset = read_hex(&at);
        while (*++at != ' ') /* the device's numbers are not those that stat tells with every file system */
                ;
        for (mapping->inode = 0, at++; *at >= '0' && *at <= '9'; at++)
                mapping->inode = mapping->inode * 10 + (uint64_t)(*at - '0');
        while (*at == ' ')
                at++;
        mapping->path = at;
        mapping->path_size = (size_t)(line_end - at);
        mapping->kind = kind_of(mapping);
        return line_end + 1;
}

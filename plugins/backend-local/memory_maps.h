/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's list of a process's memory, /proc/self/maps: proc(5). Nothing here allocates. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MEMORY_MAPS_MAX ((size_t)1 << 20) /* bytes of a list: what is longer is refused */

enum mapping_kind { MAPPING_ANONYMOUS, MAPPING_FILE, MAPPING_STACK, MAPPING_KERNEL, MAPPING_IMAGE };

/* A line of /proc/self/maps. */
struct mapping {
        uintptr_t start, end;
        uint64_t offset, inode;
        int protection;
        bool shared;
        enum mapping_kind kind;
        const char *path; /* not terminated */
        size_t path_size;
};

/* The list of this process's memory. Its size, or a negative errno. */
ssize_t memory_maps_read(char *text, size_t size);
/* The mapping of the line at `at`, and where the next one begins; NULL: there is none. */
const char *memory_maps_next(const char *at, const char *end, struct mapping *mapping);

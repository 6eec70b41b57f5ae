/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of a packed tree. Numbers are little endian, offsets count from its first byte.
 *
 * A header; then the entries, 0 being the root: breadth first, so that what is in a directory lies in one run, sorted
 * by name, and the runs follow each other in the order of their directories; then names and contents. */
#pragma once

#include <endian.h>
#include <stdint.h>

#define TREE_MAGIC "SBXTREE1"
#define TREE_ENTRIES_MAX (UINT32_C(1) << 22)
#define TREE_CONTENT_ALIGN 16u

struct tree_header {
        char magic[8];
        uint32_t count;
        uint32_t reserved;
        uint64_t size; /* of the whole tree */
        uint64_t reserved2;
};

enum tree_type { TREE_DIRECTORY = 1, TREE_FILE = 2, TREE_NULL_DEVICE = 3 };

struct tree_entry {
        uint64_t start;  /* a file's content; a directory's first entry */
        uint64_t length; /* of the content; how many entries */
        int64_t mtime_ns;
        uint32_t name;
        uint32_t parent;
        uint8_t type;
        uint8_t name_size;
        uint8_t reserved[6];
};
_Static_assert(sizeof(struct tree_header) == 32 && sizeof(struct tree_entry) == 40, "packed by its members' order");

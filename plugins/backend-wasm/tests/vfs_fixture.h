/* SPDX-License-Identifier: Apache-2.0 */
/* A file system with a small tree and small limits, made anew for each test. */
#pragma once

#include "test.h"

#include "vfs_help.h"

#define BYTES_MAX (1u << 20)
#define ENTRIES_MAX 200u
#define OPEN_MAX_FILES 20u

struct fixture {
        struct vfs_tree tree;
        struct vfs *vfs;
};

static inline int setup(void **state) {
        struct vfs_limits limits = {.bytes = BYTES_MAX, .entries = ENTRIES_MAX, .open_files = OPEN_MAX_FILES};
        struct fixture *fixture = calloc(1, sizeof(*fixture));

        make_tree(&fixture->tree);
        assert_int_equal(vfs_new(&fixture->tree, &limits, &fixture->vfs), 0);
        vfs_set_time(fixture->vfs, 1000);
        *state = fixture;
        return 0;
}

static inline int teardown(void **state) {
        struct fixture *fixture = *state;

        vfs_free(fixture->vfs);
        free_tree(&fixture->tree);
        free(fixture);
        return 0;
}

static inline struct vfs *vfs_of(void **state) {
        return ((struct fixture *)*state)->vfs;
}

static inline uint64_t bytes_of(const struct vfs *vfs) {
        struct vfs_usage usage;

        vfs_get_usage(vfs, &usage);
        return usage.bytes;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A temporary directory for a test program: group setup and teardown, and paths below it. */
#pragma once

#include <ftw.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../test.h"

static char scratch_directory[] = "/tmp/sbx-plugin-XXXXXX";

static inline int scratch_setup(void **state) {
        umask(022);
        return mkdtemp(scratch_directory) != NULL ? 0 : -1;
}

static inline int scratch_remove_entry(const char *path, const struct stat *st, int type, struct FTW *where) {
        return remove(path);
}

static inline int scratch_teardown(void **state) {
        return nftw(scratch_directory, scratch_remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* A path below the scratch directory; valid until the eighth call after this one. */
static inline const char *scratch_path(const char *name) {
        static char paths[8][512];
        static unsigned next;
        char *path = paths[next++ % 8];

        assert_true(snprintf(path, sizeof(paths[0]), "%s/%s", scratch_directory, name) < (int)sizeof(paths[0]));
        return path;
}

static inline void scratch_write(const char *name, const char *text) {
        FILE *file = fopen(scratch_path(name), "we");

        assert_non_null(file);
        assert_true(fputs(text, file) >= 0);
        assert_int_equal(fclose(file), 0);
}

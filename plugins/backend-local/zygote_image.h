/* SPDX-License-Identifier: Apache-2.0 */
/* Images of guests' processes, as zygote_image.c writes and zygote_branch.c reads them: both are the same program in
 * processes of the same zygote, so everything of it is where it was, and no other program ever sees one. */
#pragma once

#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "memory_maps.h"
#include "zygote_internal.h"

#define IMAGE_SIGNALS 64
#define IMAGE_STREAMS 4    /* control, stdout, stderr, copies */
#define IMAGE_FDS_MAX 1024 /* RLIMIT_NOFILE of guests: jail_limits.c */
#define IMAGE_RANGES_MAX 16384
#define IMAGE_BRANCH 1 /* what sbx_zygote_image returns in the new process */

/* Memory with content. */
struct image_range {
        uint64_t start, end, offset; /* offset: in the file, at the beginning of a page */
        uint16_t protection;
        uint8_t on_stack; /* written there: the kernel's mapping of it grows */
        uint8_t whole;    /* all of a mapping that was of an image itself */
        uint32_t reserved;
};

/* The end of the file. */
struct image_trailer {
        uint64_t maps_offset, ranges_offset;
        uint64_t brk;
        uint32_t maps_size, range_count;
        int32_t streams[IMAGE_STREAMS];
        unsigned char open[IMAGE_FDS_MAX / 8];
};

/* Where the process goes on, in memory that is part of the image. */
struct resume {
        sigjmp_buf point;
        void *scratch; /* of the new process, to be given back */
        size_t scratch_size;
};
extern struct resume zygote_resume;

/* What a guest has open before it becomes one. */
struct guest_fds {
        int control, out, err, copies, image;
};

/* ---- zygote_branch.c */

/* In a guest that is locked down: goes on where sbx_zygote_image was called. On a failure it tells the server, over its
 * copies socket, and exits. */
_Noreturn void zygote_become(const struct guest_fds *fds);

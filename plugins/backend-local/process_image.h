/* SPDX-License-Identifier: Apache-2.0 */
/* Images of guests' processes, which guests begin from (zygote_image.h): memory files, counted for the family of the
 * guest that wrote each, as long as that family and the image last. */
#pragma once

#include "family.h"

struct process_image {
        uint64_t number; /* unlike any other's of this instance */
        int fd;          /* sealed once it is written */

        /* Protected by local->images_lock. */
        uint64_t bytes;        /* what it may take; once it is written, what it takes */
        struct family *family; /* NULL: it is gone */
        struct process_image *next;
        unsigned references;
};

/* An empty one, for `bytes` at most, which the family may use from now on. -ENOMEM, -EAGAIN. */
int process_image_new(struct family *family, uint64_t bytes, struct process_image **ret, struct sbx_error *err);
/* It has been written: nobody changes it any more, not even who wrote it. -EBUSY when the writer kept its hands on it.
 */
int process_image_seal(struct local *local, struct process_image *image, uint64_t bytes, struct sbx_error *err);
struct process_image *process_image_ref(struct local *local, struct process_image *image);
void process_image_unref(struct local *local, struct process_image *image);

/* What images of its members take of a family's memory. */
uint64_t process_images_bytes(struct family *family);
/* The family goes; images that branches still need stay. */
void process_images_forget(struct family *family);

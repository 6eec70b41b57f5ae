/* SPDX-License-Identifier: Apache-2.0 */
#include "process_image.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "util.h"

int process_image_new(struct family *family, uint64_t bytes, struct process_image **ret, struct sbx_error *err) {
        struct local *local = family->local;
        struct process_image *image = calloc(1, sizeof(*image));

        if (image == NULL)
                return sbx_error_set(err, -ENOMEM, LOCAL_ORIGIN, NULL, "out of memory");
        image->fd = memfd_create(ZYGOTE_IMAGE_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (image->fd < 0 || ftruncate(image->fd, (off_t)bytes) < 0) {
                sbx_error_set(err, -errno, LOCAL_ORIGIN, NULL, "memory for an image of a session's process: %s",
                              strerror(errno));
                close_fd(&image->fd);
                free(image);
                return err != NULL ? err->code : -EAGAIN;
        }
        image->bytes = bytes;
        image->references = 1;
        pthread_mutex_lock(&local->images_lock);
        image->number = ++local->last_image;
        image->family = family;
        image->next = family->images;
        family->images = image;
        pthread_mutex_unlock(&local->images_lock);
        *ret = image;
        return 0;
}

int process_image_seal(struct local *local, struct process_image *image, uint64_t bytes, struct sbx_error *err) {
        int r = bytes <= image->bytes && ftruncate(image->fd, (off_t)bytes) == 0 &&
                                fcntl(image->fd, F_ADD_SEALS,
                                      F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0
                        ? 0
                        : -EBUSY;

        if (r < 0)
                return sbx_error_set(err, r, LOCAL_ORIGIN, NULL,
                                     "the image of a session's process is not what it says");
        pthread_mutex_lock(&local->images_lock);
        image->bytes = bytes;
        pthread_mutex_unlock(&local->images_lock);
        return 0;
}

struct process_image *process_image_ref(struct local *local, struct process_image *image) {
        pthread_mutex_lock(&local->images_lock);
        image->references++;
        pthread_mutex_unlock(&local->images_lock);
        return image;
}

static void leave_family_locked(struct process_image *image) {
        if (image->family == NULL)
                return;
        for (struct process_image **at = &image->family->images; *at != NULL; at = &(*at)->next)
                if (*at == image) {
                        *at = image->next;
                        break;
                }
        image->family = NULL;
}

void process_image_unref(struct local *local, struct process_image *image) {
        bool last;

        if (image == NULL)
                return;
        pthread_mutex_lock(&local->images_lock);
        last = --image->references == 0;
        if (last)
                leave_family_locked(image);
        pthread_mutex_unlock(&local->images_lock);
        if (!last)
                return;
        close_fd(&image->fd);
        free(image);
}

uint64_t process_images_bytes(struct family *family) {
        uint64_t bytes = 0;

        pthread_mutex_lock(&family->local->images_lock);
        for (const struct process_image *at = family->images; at != NULL; at = at->next)
                bytes += at->bytes;
        pthread_mutex_unlock(&family->local->images_lock);
        return bytes;
}

void process_images_forget(struct family *family) {
        pthread_mutex_lock(&family->local->images_lock);
        while (family->images != NULL) {
                struct process_image *image = family->images;

                family->images = image->next;
                image->family = NULL;
        }
        pthread_mutex_unlock(&family->local->images_lock);
}

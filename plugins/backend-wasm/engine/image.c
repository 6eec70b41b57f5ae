/* SPDX-License-Identifier: Apache-2.0 */
/* Reads images: checks headers, maps the expanded form. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "image_layout.h"

int image_refuse(char *message, size_t size, const char *format, ...) {
        va_list args;

        va_start(args, format);
        vsnprintf(message, size, format, args);
        va_end(args);
        return -EINVAL;
}

int image_read_at(int fd, void *data, size_t size, uint64_t offset) {
        size_t done = 0;

        while (done < size) {
                ssize_t count = pread(fd, (uint8_t *)data + done, size - done, (off_t)(offset + done));

                if (count < 0 && errno == EINTR)
                        continue;
                if (count <= 0)
                        return count < 0 ? -errno : -ENODATA;
                done += (size_t)count;
        }
        return 0;
}

uint64_t image_manifest_offset(const struct image_header *header) {
        return IMAGE_HEADER_SIZE + (uint64_t)header->hot_count * sizeof(struct wasm_hot_run);
}

uint64_t image_memory_offset(const struct image_header *header) {
        return (image_manifest_offset(header) + header->manifest_size + 1 + 4095) & ~(uint64_t)4095;
}

static uint64_t file_size(const struct image_header *header) {
        if (header->form == IMAGE_PACKED)
                return image_manifest_offset(header) + header->manifest_size + header->memory_packed +
                       header->tree_packed;
        return image_memory_offset(header) + header->memory_size + header->tree_size;
}

static bool is_hex(const char *text, size_t size) {
        for (size_t i = 0; i < size; i++)
                if (!(text[i] >= '0' && text[i] <= '9') && !(text[i] >= 'a' && text[i] <= 'f'))
                        return false;
        return true;
}

static bool sizes_valid(const struct image_header *header) {
        bool packed = header->form == IMAGE_PACKED;

        return header->manifest_size > 0 && header->manifest_size <= IMAGE_MANIFEST_MAX && header->memory_size > 0 &&
               header->memory_size <= IMAGE_MEMORY_MAX && header->memory_size % WASM_PAGE == 0 &&
               header->tree_size > 0 && header->tree_size <= IMAGE_TREE_MAX &&
               header->memory_packed <= IMAGE_MEMORY_MAX && header->tree_packed <= IMAGE_TREE_MAX &&
               packed == (header->memory_packed > 0) && packed == (header->tree_packed > 0);
}

static bool counts_valid(const struct image_header *header) {
        if (header->global_count == 0 || header->global_count > WASM_GLOBALS_MAX ||
            header->interrupt_count > WASM_INTERRUPT_WORDS_MAX || header->hot_count > IMAGE_HOT_MAX ||
            header->reserved != 0)
                return false;
        for (uint32_t i = 0; i < header->interrupt_count; i++)
                if (header->interrupt[i].address % 4 != 0 || header->interrupt[i].address > header->memory_size - 4)
                        return false;
        return true;
}

int image_read_header(int fd, struct image_header *ret_header, char *message, size_t size) {
        struct image_header header;
        struct stat st;

        if (fstat(fd, &st) < 0 || image_read_at(fd, &header, sizeof(header), 0) < 0 ||
            memcmp(header.magic, IMAGE_MAGIC, sizeof(header.magic)) != 0)
                return image_refuse(message, size, "this is no image of a guest");
        if (header.format != WASM_IMAGE_FORMAT)
                return image_refuse(message, size, "the image has format %u, this program reads %d: build it again",
                                    header.format, WASM_IMAGE_FORMAT);
        if ((header.form != IMAGE_PACKED && header.form != IMAGE_EXPANDED) || !sizes_valid(&header) ||
            !counts_valid(&header) || !is_hex(header.module_sha256, sizeof(header.module_sha256)))
                return image_refuse(message, size, "the image is damaged: its header does not hold together");
        if ((uint64_t)st.st_size != file_size(&header))
                return image_refuse(message, size, "the image is damaged: it has %lld bytes instead of %llu",
                                    (long long)st.st_size, (unsigned long long)file_size(&header));
        *ret_header = header;
        return 0;
}

static void write_hex(const uint8_t *bytes, size_t count, char *text) {
        static const char digits[] = "0123456789abcdef";

        for (size_t i = 0; i < count; i++) {
                *text++ = digits[bytes[i] >> 4];
                *text++ = digits[bytes[i] & 15];
        }
        *text = '\0';
}

static void take_header(struct wasm_image *image, const struct image_header *header) {
        memcpy(image->hash, header->hash, sizeof(image->hash));
        write_hex(image->hash, sizeof(image->hash), image->hash_text);
        memcpy(image->module_sha256, header->module_sha256, sizeof(header->module_sha256));
        image->manifest_size = header->manifest_size;
        image->memory_offset = image_memory_offset(header);
        image->memory_pages = (uint32_t)(header->memory_size / WASM_PAGE);
        image->global_count = header->global_count;
        memcpy(image->globals, header->globals, sizeof(image->globals));
        image->interrupt_count = header->interrupt_count;
        memcpy(image->interrupt, header->interrupt, sizeof(image->interrupt));
}

static bool hot_valid(const struct wasm_image *image) {
        const uint64_t end = (uint64_t)image->memory_pages * (WASM_PAGE / WASM_HOST_PAGE);
        uint64_t next = 0;

        for (uint32_t i = 0; i < image->hot_count; i++) {
                const struct wasm_hot_run *run = &image->hot[i];

                if (run->first < next || run->count == 0 || (uint64_t)run->first + run->count > end)
                        return false;
                next = (uint64_t)run->first + run->count;
        }
        return true;
}

/* The file is the server's own and nobody else writes to it: it does not get shorter while it is mapped. */
static int map_image(struct wasm_image *image, const struct image_header *header, char *message, size_t size) {
        uint8_t *map;

        image->map_size = file_size(header);
        map = mmap(NULL, image->map_size, PROT_READ, MAP_SHARED, image->fd, 0);
        if (map == MAP_FAILED)
                return image_refuse(message, size, "the image can't be mapped: %s", strerror(errno));
        image->map = map;
        image->memory = map + image->memory_offset;
        image->hot = (const struct wasm_hot_run *)(const void *)(map + IMAGE_HEADER_SIZE);
        image->hot_count = header->hot_count;
        image->manifest = (const char *)map + image_manifest_offset(header);
        if (!hot_valid(image))
                return image_refuse(message, size, "the image is damaged: its hot pages are none of its memory");
        if (memchr(image->manifest, '\0', image->manifest_size + 1) != image->manifest + image->manifest_size)
                return image_refuse(message, size, "the image is damaged: its manifest is no text");
        if (vfs_tree_open(image->memory + header->memory_size, header->tree_size, &image->tree) < 0)
                return image_refuse(message, size, "the image is damaged: its files do not hold together");
        return 0;
}

int image_open(int fd, struct wasm_image *ret_image, char *message, size_t size) {
        struct wasm_image image = {.fd = fd};
        struct image_header header;
        int r = image_read_header(fd, &header, message, size);

        if (r == 0 && header.form != IMAGE_EXPANDED)
                r = image_refuse(message, size, "the image is packed: it has to be expanded first");
        if (r == 0) {
                take_header(&image, &header);
                r = map_image(&image, &header, message, size);
        }
        if (r < 0) {
                image_close(&image);
                return r;
        }
        *ret_image = image;
        return 0;
}

void image_close(struct wasm_image *image) {
        if (image->map != NULL)
                munmap(image->map, image->map_size);
        if (image->fd >= 0)
                close(image->fd);
        *image = (struct wasm_image){.fd = -1};
}

int image_describe(int fd, uint8_t ret_hash[WASM_IMAGE_HASH_SIZE], char **ret_manifest, char *message, size_t size) {
        struct image_header header;
        char *manifest;
        int r = image_read_header(fd, &header, message, size);

        if (r < 0)
                return r;
        manifest = malloc(header.manifest_size + 1);
        if (manifest == NULL) {
                snprintf(message, size, "no memory");
                return -ENOMEM;
        }
        r = image_read_at(fd, manifest, header.manifest_size, image_manifest_offset(&header));
        if (r < 0 || memchr(manifest, '\0', header.manifest_size) != NULL) {
                free(manifest);
                return image_refuse(message, size, "the image is damaged: its manifest can't be read");
        }
        manifest[header.manifest_size] = '\0';
        memcpy(ret_hash, header.hash, WASM_IMAGE_HASH_SIZE);
        *ret_manifest = manifest;
        return 0;
}

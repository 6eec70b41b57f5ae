/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a directory of the host into the read-only files of an image. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bake_internal.h"
#include "image_layout.h"

#define DEPTH_MAX 64
#define FILE_MAX ((off_t)256 << 20)

struct walk {
        struct vfs_tree_builder *builder;
        char path[VFS_PATH_MAX + 1]; /* in the image */
        unsigned depth;
        char *message;
        size_t message_size;
};

static int add_file(struct walk *walk, int fd, const struct stat *st) {
        uint8_t *content;
        int r;

        if (st->st_size > FILE_MAX)
                return image_refuse(walk->message, walk->message_size, "%s has more than %lld bytes", walk->path,
                                    (long long)FILE_MAX);
        content = malloc((size_t)st->st_size + 1);
        r = content == NULL ? -ENOMEM : image_read_at(fd, content, (size_t)st->st_size, 0);
        if (r == 0)
                r = vfs_tree_builder_add(walk->builder, walk->path, content, (size_t)st->st_size, BAKE_MTIME_NS);
        if (r < 0)
                snprintf(walk->message, walk->message_size, "%s can't be added: %s", walk->path, strerror(-r));
        free(content);
        return r;
}

static int walk_directory(struct walk *walk, int fd);

static int walk_entry(struct walk *walk, int directory, const char *name) {
        struct stat st;
        int r, fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

        if (fd < 0)
                return image_refuse(walk->message, walk->message_size, "%s can't be read: %s", walk->path,
                                    errno == ELOOP ? "it is a symbolic link; copy what it leads to" : strerror(errno));
        if (fstat(fd, &st) < 0 || !(S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))) {
                close(fd);
                return image_refuse(walk->message, walk->message_size, "%s is neither file nor directory", walk->path);
        }
        if (S_ISDIR(st.st_mode))
                return walk_directory(walk, fd);
        r = add_file(walk, fd, &st);
        close(fd);
        return r;
}

static int walk_directory(struct walk *walk, int fd) {
        size_t length = strlen(walk->path);
        const struct dirent *entry;
        DIR *directory = fdopendir(fd);
        int r = 0;

        if (directory == NULL || walk->depth >= DEPTH_MAX) {
                if (directory == NULL)
                        close(fd);
                else
                        closedir(directory);
                return image_refuse(walk->message, walk->message_size, "%s is too deep", walk->path);
        }
        walk->depth++;
        while (r == 0 && (entry = readdir(directory)) != NULL) {
                if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
                        continue;
                if (length + 1 + strlen(entry->d_name) > VFS_PATH_MAX) {
                        r = image_refuse(walk->message, walk->message_size, "a path below %s is too long", walk->path);
                        break;
                }
                snprintf(walk->path + length, sizeof(walk->path) - length, "/%s", entry->d_name);
                r = walk_entry(walk, dirfd(directory), entry->d_name);
                walk->path[length] = '\0';
        }
        walk->depth--;
        closedir(directory);
        return r;
}

int wasm_bake_add_directory(struct vfs_tree_builder *builder, const char *path, char *message, size_t size) {
        struct walk walk = {.builder = builder, .message = message, .message_size = size};
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (fd < 0)
                return image_refuse(message, size, "%s can't be read: %s", path, strerror(errno));
        return walk_directory(&walk, fd);
}

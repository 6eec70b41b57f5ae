/* SPDX-License-Identifier: Apache-2.0 */
/* Makes, fills and removes the directory of a test. */
#include "directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void check(bool fine, const char *what) {
        if (fine)
                return;
        perror(what);
        abort();
}

void test_directory_make(struct test_directory *directory) {
        const char *parent = getenv("TMPDIR");

        snprintf(directory->path, sizeof(directory->path), "%s/transport-mcp-XXXXXX", parent != NULL ? parent : "/tmp");
        check(mkdtemp(directory->path) != NULL, directory->path);
}

static void join(const struct test_directory *directory, const char *name, char path[512]) {
        snprintf(path, 512, "%s/%s", directory->path, name);
}

static void empty(const char *path, int depth) {
        DIR *entries = opendir(path);

        check(entries != NULL, path);
        for (const struct dirent *entry; (entry = readdir(entries)) != NULL;) {
                char inner[512];

                if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
                        continue;
                snprintf(inner, sizeof(inner), "%s/%s", path, entry->d_name);
                if (unlink(inner) == 0)
                        continue;
                check(depth > 0, inner);
                empty(inner, depth - 1);
                check(rmdir(inner) == 0, inner);
        }
        closedir(entries);
}

void test_directory_remove(struct test_directory *directory) {
        empty(directory->path, 2);
        check(rmdir(directory->path) == 0, directory->path);
}

void test_directory_remove_inner(const struct test_directory *directory, const char *name) {
        char path[512];

        join(directory, name, path);
        empty(path, 1);
        check(rmdir(path) == 0, path);
}

void test_directory_write(const struct test_directory *directory, const char *name, const void *data, size_t size) {
        char path[512];
        int fd;

        join(directory, name, path);
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        check(fd >= 0, path);
        check(write(fd, data, size) == (ssize_t)size, path);
        close(fd);
}

void test_directory_age(const struct test_directory *directory, const char *name, long seconds) {
        const struct timespec then = {.tv_sec = time(NULL) - seconds};
        char path[512];

        join(directory, name, path);
        check(utimensat(AT_FDCWD, path, (const struct timespec[2]){then, then}, 0) == 0, path);
}

bool test_directory_has(const struct test_directory *directory, const char *name) {
        char path[512];
        struct stat info;

        join(directory, name, path);
        return lstat(path, &info) == 0;
}

size_t test_directory_count(const struct test_directory *directory, const char *name, const char *suffix) {
        char path[512];
        size_t count = 0;
        DIR *entries;

        join(directory, name, path);
        entries = opendir(path);
        if (entries == NULL)
                return 0;
        for (const struct dirent *entry; (entry = readdir(entries)) != NULL;) {
                size_t length = strlen(entry->d_name), end = strlen(suffix);

                count += length >= end && strcmp(entry->d_name + length - end, suffix) == 0;
        }
        closedir(entries);
        return count;
}

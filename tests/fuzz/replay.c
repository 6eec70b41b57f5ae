/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a fuzzer's function on every file of the directories that are named, without libFuzzer: a regression test of the
 * corpus, with any compiler. Prints TAP. */
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_BYTES_MAX (64 << 20)

/* 0, or -1 when the file can't be read whole. */
static int replay_file(int directory, const char *name) {
        struct stat st;
        uint8_t *data = NULL;
        ssize_t size = -1;
        int fd = openat(directory, name, O_RDONLY | O_CLOEXEC);

        if (fd < 0)
                return -1;
        if (fstat(fd, &st) == 0 && st.st_size <= INPUT_BYTES_MAX)
                data = malloc((size_t)st.st_size > 0 ? (size_t)st.st_size : 1);
        if (data != NULL)
                size = read(fd, data, (size_t)st.st_size);
        close(fd);
        if (size >= 0)
                LLVMFuzzerTestOneInput(data, (size_t)size);
        free(data);
        return size >= 0 ? 0 : -1;
}

static int replay_directory(const char *path, int *count) {
        DIR *directory = opendir(path);
        const struct dirent *entry;
        int failed = 0;

        if (directory == NULL) {
                printf("not ok %d - %s can't be opened\n", ++*count, path);
                return 1;
        }
        while ((entry = readdir(directory)) != NULL) {
                if (entry->d_name[0] == '.')
                        continue;
                if (replay_file(dirfd(directory), entry->d_name) < 0) {
                        printf("not ok %d - %s can't be read\n", ++*count, entry->d_name);
                        failed = 1;
                } else {
                        printf("ok %d - %s\n", ++*count, entry->d_name);
                }
        }
        closedir(directory);
        return failed;
}

int main(int argc, char **argv) {
        int count = 0, failed = 0;

        for (int i = 1; i < argc; i++)
                failed |= replay_directory(argv[i], &count);
        printf("1..%d\n", count);
        return failed || count == 0;
}

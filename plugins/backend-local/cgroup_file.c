/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes control files of cgroups. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "cgroup_internal.h"

#define CONTROL_TEXT_MAX 16384 /* memory.stat and its like are a tenth of it */

static int read_all(int fd, size_t maximum, char **ret, size_t *ret_size) {
        size_t size = 0, capacity = 512;
        char *text = malloc(capacity);

        if (text == NULL)
                return -ENOMEM;
        for (;;) {
                ssize_t n = read(fd, text + size, capacity - size - 1);
                char *larger;

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0) {
                        int code = -errno;

                        free(text);
                        return code;
                }
                size += (size_t)n;
                if (n == 0)
                        break;
                if (size + 1 < capacity)
                        continue;
                if (capacity > maximum || (larger = realloc(text, capacity * 2)) == NULL) {
                        free(text);
                        return capacity > maximum ? -EFBIG : -ENOMEM;
                }
                text = larger;
                capacity *= 2;
        }
        text[size] = '\0';
        *ret = text;
        *ret_size = size;
        return 0;
}

int cgroup_read_text(int dir_fd, const char *path, size_t maximum, char **ret, size_t *ret_size) {
        int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC), r;

        if (fd < 0)
                return -errno;
        r = read_all(fd, maximum, ret, ret_size);
        close(fd);
        return r;
}

int cgroup_write_text(int dir_fd, const char *path, const char *text) {
        int fd = openat(dir_fd, path, O_WRONLY | O_CLOEXEC), r = 0;
        size_t size = strlen(text);
        ssize_t n;

        if (fd < 0)
                return -errno;
        do
                n = write(fd, text, size);
        while (n < 0 && errno == EINTR);
        if (n < 0)
                r = -errno;
        else if ((size_t)n != size)
                r = -EIO;
        close(fd);
        return r;
}

int cgroup_write_u64(int dir_fd, const char *path, uint64_t value) {
        char text[24];

        snprintf(text, sizeof(text), "%" PRIu64, value);
        return cgroup_write_text(dir_fd, path, text);
}

bool cgroup_parse_u64(const char *text, uint64_t *ret, const char **ret_end) {
        uint64_t value = 0;
        const char *p = text;

        for (; *p >= '0' && *p <= '9'; p++)
                if (__builtin_mul_overflow(value, 10u, &value) ||
                    __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value))
                        return false;
        if (p == text)
                return false;
        *ret = value;
        if (ret_end != NULL)
                *ret_end = p;
        return true;
}

int cgroup_read_u64(int dir_fd, const char *path, uint64_t *ret) {
        char *text = NULL;
        size_t size;
        int r = cgroup_read_text(dir_fd, path, CONTROL_TEXT_MAX, &text, &size);

        if (r < 0)
                return r;
        r = cgroup_parse_u64(text, ret, NULL) ? 0 : -EINVAL;
        free(text);
        return r;
}

int cgroup_read_key(int dir_fd, const char *path, const char *key, uint64_t *ret) {
        size_t key_size = strlen(key), size;
        char *text = NULL;
        int r = cgroup_read_text(dir_fd, path, CONTROL_TEXT_MAX, &text, &size);

        if (r < 0)
                return r;
        r = -ENODATA;
        for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
                line += *line == '\n';
                if (strncmp(line, key, key_size) == 0 && line[key_size] == ' ') {
                        r = cgroup_parse_u64(line + key_size + 1, ret, NULL) ? 0 : -EINVAL;
                        break;
                }
        }
        free(text);
        return r;
}

struct cgroup_path cgroup_path(const struct sbx_cgroup *c, const char *file) {
        struct cgroup_path path;

        snprintf(path.text, sizeof(path.text), "%s/%s", c->name, file);
        return path;
}

bool cgroup_exists(const struct sbx_cgroup *c, const struct cgroup_tree *tree, const char *file) {
        return faccessat(tree->fd, cgroup_path(c, file).text, F_OK, 0) == 0;
}

const struct cgroup_tree *cgroup_tree_of(const struct sbx_cgroup_manager *m, unsigned controller) {
        for (int i = 0; i < m->tree_count; i++)
                if ((m->trees[i].controllers & controller) != 0)
                        return &m->trees[i];
        return NULL;
}

bool cgroup_has_word(const char *list, char divider, const char *word) {
        size_t size = strlen(word);

        while (*list != '\0' && *list != '\n') {
                const char *end = list;

                while (*end != '\0' && *end != '\n' && *end != divider)
                        end++;
                if ((size_t)(end - list) == size && memcmp(list, word, size) == 0)
                        return true;
                list = *end == divider ? end + 1 : end;
        }
        return false;
}

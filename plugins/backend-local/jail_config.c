/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes and decodes the jail's configuration: records of a key, a size and the bytes, padded to eight. */
#include "jail_config.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "util.h"

#define CONFIG_MAGIC UINT64_C(0x53425843464701ff)
#define CONFIG_MAX (1u << 20)
#define LIST_MAX 1024u

enum config_key {
        KEY_NUMBER = 1, /* + index into `number_offsets` */
        KEY_STRING = 100,
        KEY_LIST = 200,
};

static const size_t number_offsets[] = {
        offsetof(struct jail_config, server.user),   offsetof(struct jail_config, server.pid),
        offsetof(struct jail_config, server.mount),  offsetof(struct jail_config, server.network),
        offsetof(struct jail_config, server.ipc),    offsetof(struct jail_config, server.uts),
        offsetof(struct jail_config, server.cgroup), offsetof(struct jail_config, isolation),
        offsetof(struct jail_config, drop),          offsetof(struct jail_config, id),
        offsetof(struct jail_config, gid),           offsetof(struct jail_config, workspace),
        offsetof(struct jail_config, tmp_bytes),     offsetof(struct jail_config, workspace_bytes),
        offsetof(struct jail_config, cpu_percent),   offsetof(struct jail_config, memory_wall),
        offsetof(struct jail_config, pids_wall),
};
static const size_t string_offsets[] = {
        offsetof(struct jail_config, python),
        offsetof(struct jail_config, helpers),
        offsetof(struct jail_config, guests),
        offsetof(struct jail_config, workspace_path),
        offsetof(struct jail_config, node),
};
static const size_t list_offsets[] = {
        offsetof(struct jail_config, preload),
        offsetof(struct jail_config, read_only),
        offsetof(struct jail_config, links),
};
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MEMBER(type, config, offset) (*(type *)((char *)(config) + (offset)))
#define CONST_MEMBER(type, config, offset) (*(type const *)((const char *)(config) + (offset)))

struct record {
        uint32_t key, size;
};

static size_t padded(size_t size) {
        return (size + 7) & ~(size_t)7;
}

struct writer {
        char *data;
        size_t size;
        int error;
};

static void put(struct writer *writer, uint32_t key, const void *data, size_t size) {
        struct record record = {key, (uint32_t)size};
        size_t total = sizeof(record) + padded(size);
        char *larger;

        if (writer->error < 0)
                return;
        if (size > CONFIG_MAX || writer->size + total > CONFIG_MAX) {
                writer->error = -E2BIG;
                return;
        }
        larger = realloc(writer->data, writer->size + total);
        if (larger == NULL) {
                writer->error = -ENOMEM;
                return;
        }
        writer->data = larger;
        memset(larger + writer->size, 0, total);
        memcpy(larger + writer->size, &record, sizeof(record));
        if (size > 0)
                memcpy(larger + writer->size + sizeof(record), data, size);
        writer->size += total;
}

int jail_namespaces_read(struct jail_namespaces *ret) {
        static const char *const paths[JAIL_NAMESPACE_COUNT] = {
                "/proc/self/ns/user", "/proc/self/ns/pid", "/proc/self/ns/mnt",   "/proc/self/ns/net",
                "/proc/self/ns/ipc",  "/proc/self/ns/uts", "/proc/self/ns/cgroup"};
        uint64_t *const members[JAIL_NAMESPACE_COUNT] = {&ret->user, &ret->pid, &ret->mount, &ret->network,
                                                         &ret->ipc,  &ret->uts, &ret->cgroup};

        for (size_t i = 0; i < JAIL_NAMESPACE_COUNT; i++) {
                struct stat st;

                if (stat(paths[i], &st) < 0)
                        return -errno;
                *members[i] = st.st_ino;
        }
        return 0;
}

int jail_config_write(const struct jail_config *config, int *ret_fd) {
        static const unsigned seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
        uint64_t magic = CONFIG_MAGIC;
        struct writer writer = {0};
        _cleanup_free_ char *data = NULL;
        _cleanup_close_ int fd = -1;
        int r;

        put(&writer, 0, &magic, sizeof(magic));
        for (uint32_t i = 0; i < COUNT(number_offsets); i++)
                put(&writer, KEY_NUMBER + i, &CONST_MEMBER(uint64_t, config, number_offsets[i]), sizeof(uint64_t));
        for (uint32_t i = 0; i < COUNT(string_offsets); i++) {
                const char *text = CONST_MEMBER(const char *, config, string_offsets[i]);

                if (text != NULL)
                        put(&writer, KEY_STRING + i, text, strlen(text) + 1);
        }
        for (uint32_t i = 0; i < COUNT(list_offsets); i++) {
                const char *const *list = CONST_MEMBER(const char *const *, config, list_offsets[i]);

                for (size_t item = 0; list != NULL && list[item] != NULL; item++)
                        put(&writer, KEY_LIST + i, list[item], strlen(list[item]) + 1);
        }
        data = writer.data;
        if (writer.error < 0)
                return writer.error;

        fd = memfd_create("sbx-config", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (fd < 0)
                return -errno;
        r = write_whole(fd, data, writer.size);
        if (r < 0)
                return r;
        if (fcntl(fd, F_ADD_SEALS, seals) < 0)
                return -errno;
        *ret_fd = steal_fd(&fd);
        return 0;
}

static int add_item(const char ***list, const char *text) {
        const char **larger;
        size_t count = 0;

        while (*list != NULL && (*list)[count] != NULL)
                count++;
        if (count >= LIST_MAX)
                return -EBADMSG;
        larger = realloc(*list, (count + 2) * sizeof(*larger));
        if (larger == NULL)
                return -ENOMEM;
        larger[count] = text;
        larger[count + 1] = NULL;
        *list = larger;
        return 0;
}

static int take(struct jail_config *config, uint32_t key, const char *data, size_t size) {
        bool is_text = size > 0 && memchr(data, '\0', size) == data + size - 1;

        if (key >= KEY_NUMBER && key - KEY_NUMBER < COUNT(number_offsets) && size == sizeof(uint64_t)) {
                memcpy(&MEMBER(uint64_t, config, number_offsets[key - KEY_NUMBER]), data, size);
                return 0;
        }
        if (key >= KEY_STRING && key - KEY_STRING < COUNT(string_offsets) && is_text) {
                MEMBER(const char *, config, string_offsets[key - KEY_STRING]) = data;
                return 0;
        }
        if (key >= KEY_LIST && key - KEY_LIST < COUNT(list_offsets) && is_text)
                return add_item(&MEMBER(const char **, config, list_offsets[key - KEY_LIST]), data);
        return -EBADMSG;
}

static bool is_even(const char *const *list) {
        size_t count = 0;

        while (list != NULL && list[count] != NULL)
                count++;
        return count % 2 == 0;
}

static int decode(struct jail_config *config, const char *data, size_t size) {
        bool begun = false;

        while (size > 0) {
                struct record record;
                uint64_t magic;
                int r;

                if (size < sizeof(record))
                        return -EBADMSG;
                memcpy(&record, data, sizeof(record));
                data += sizeof(record);
                size -= sizeof(record);
                if (record.size > size || padded(record.size) > size)
                        return -EBADMSG;
                if (!begun) {
                        if (record.key != 0 || record.size != sizeof(magic))
                                return -EBADMSG;
                        memcpy(&magic, data, sizeof(magic));
                        if (magic != CONFIG_MAGIC)
                                return -EBADMSG;
                        begun = true;
                } else if ((r = take(config, record.key, data, record.size)) < 0)
                        return r;
                data += padded(record.size);
                size -= padded(record.size);
        }
        return begun && is_even((const char *const *)config->links) && config->python != NULL &&
                               config->helpers != NULL && config->guests != NULL
                       ? 0
                       : -EBADMSG;
}

int jail_config_read(int fd, struct jail_config *ret) {
        struct jail_config config = {0};
        struct stat st;
        ssize_t n;
        int r;

        if (fstat(fd, &st) < 0)
                return -errno;
        if (st.st_size <= 0 || st.st_size > (off_t)CONFIG_MAX)
                return -EBADMSG;
        config.storage = malloc((size_t)st.st_size);
        if (config.storage == NULL)
                return -ENOMEM;
        n = pread(fd, config.storage, (size_t)st.st_size, 0);
        r = n < 0 ? -errno : n != st.st_size ? -EBADMSG : decode(&config, config.storage, (size_t)n);
        if (r < 0) {
                jail_config_free(&config);
                return r;
        }
        *ret = config;
        return 0;
}

void jail_config_free(struct jail_config *config) {
        free(config->preload);
        free(config->read_only);
        free(config->links);
        free(config->storage);
        *config = (struct jail_config){0};
}

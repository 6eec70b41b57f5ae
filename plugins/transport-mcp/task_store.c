/* SPDX-License-Identifier: Apache-2.0 */
/* A record is two lines: a header, and the result or error as it is sent. It is written beside, made durable, and
 * renamed into its place, so that a reader sees all of it or none. Each server holds a lock on a file of its own for as
 * long as it lives, so that others can tell which tasks nobody works on any more. */
#include "task_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define HEADER_BYTES_MAX (32u << 10)
#define PRINCIPAL_BYTES_MAX 1024u
#define FILE_NAME_MAX 64u
#define LEFT_OVER_S 600 /* a file that was being written for that long is nobody's */
#define VERSION 1

struct mcp_task_store {
        int directory, lock; /* descriptors */
        char server[MCP_RANDOM_ID_SIZE];
};

static const char *const status_names[] = {
        [MCP_TASK_WORKING] = "working",     [MCP_TASK_INPUT_REQUIRED] = "input_required",
        [MCP_TASK_COMPLETED] = "completed", [MCP_TASK_FAILED] = "failed",
        [MCP_TASK_CANCELLED] = "cancelled",
};

const char *mcp_task_status_name(enum mcp_task_status status) {
        return status_names[status];
}

void mcp_task_record_free(struct mcp_task_record *record) {
        free(record->principal);
        free(record->message);
        mcp_text_free(&record->payload);
        record->principal = record->message = NULL;
}

static void close_fd(int *fd) {
        if (*fd >= 0)
                close(*fd);
}
#define _cleanup_fd_ __attribute__((cleanup(close_fd)))

static bool is_id(const char *text, size_t size) {
        if (size != MCP_RANDOM_ID_SIZE - 1)
                return false;
        for (size_t i = 0; i < size; i++)
                if (!((text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f')))
                        return false;
        return true;
}

bool mcp_task_id_is_valid(const char *id) {
        return is_id(id, strnlen(id, MCP_RANDOM_ID_SIZE));
}

static const char *file_name(char name[FILE_NAME_MAX], const char *id, const char *suffix) {
        snprintf(name, FILE_NAME_MAX, "%.32s%s", id, suffix);
        return name;
}

/* ---- writing ------------------------------------------------------------------------------------------- */

static int write_all(int fd, const char *data, size_t size) {
        while (size > 0) {
                ssize_t written = write(fd, data, size);

                if (written < 0 && errno == EINTR)
                        continue;
                if (written <= 0)
                        return written < 0 ? -errno : -EIO;
                data += written;
                size -= (size_t)written;
        }
        return 0;
}

static void append_member(struct mcp_text *text, const char *key, const char *value) {
        mcp_text_append_literal(text, ",\"");
        mcp_text_append_literal(text, key);
        mcp_text_append_literal(text, "\":");
        mcp_text_append_string(text, value, strlen(value));
}

static void append_number(struct mcp_text *text, const char *key, int64_t value) {
        mcp_text_append_literal(text, ",\"");
        mcp_text_append_literal(text, key);
        mcp_text_append_literal(text, "\":");
        mcp_text_append_int(text, value);
}

static int encode(const struct mcp_task_record *record, struct mcp_text *header) {
        mcp_text_append_literal(header, "{\"version\":");
        mcp_text_append_int(header, VERSION);
        append_member(header, "taskId", record->id);
        append_member(header, "server", record->server);
        append_member(header, "principal", record->principal);
        append_member(header, "status", mcp_task_status_name(record->status));
        append_number(header, "createdMs", record->created_ms);
        append_number(header, "updatedMs", record->updated_ms);
        append_number(header, "ttlMs", record->ttl_ms);
        if (record->message != NULL)
                append_member(header, "statusMessage", record->message);
        return mcp_text_append_literal(header, "}\n");
}

static int write_file(int fd, const struct mcp_task_record *record, const struct mcp_text *header) {
        int r = write_all(fd, header->data, header->size);

        if (r == 0)
                r = write_all(fd, record->payload.data, record->payload.size);
        if (r == 0 && record->payload.size > 0)
                r = write_all(fd, "\n", 1);
        if (r == 0 && fsync(fd) < 0)
                r = -errno;
        return r;
}

static int write_record(struct mcp_task_store *store, const struct mcp_task_record *record) {
        _cleanup_text_ struct mcp_text header = MCP_TEXT(HEADER_BYTES_MAX);
        char beside[FILE_NAME_MAX], name[FILE_NAME_MAX];
        _cleanup_fd_ int fd = -1;
        int r = encode(record, &header);

        if (r < 0)
                return r;
        if (record->payload.size > MCP_TASK_PAYLOAD_MAX)
                return -EFBIG;
        file_name(beside, record->id, ".tmp");
        fd = openat(store->directory, beside, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0)
                return -errno;
        r = write_file(fd, record, &header);
        if (r == 0 && renameat(store->directory, beside, store->directory, file_name(name, record->id, ".json")) < 0)
                r = -errno;
        if (r < 0)
                (void)unlinkat(store->directory, beside, 0);
        else if (fsync(store->directory) < 0)
                r = -errno;
        return r;
}

int mcp_task_store_write(struct mcp_task_store *store, const struct mcp_task_record *record, struct sbx_error *err) {
        int r = write_record(store, record);

        return r < 0 ? sbx_error_set(err, r, "transport-mcp", "Make room in the state directory, or mend it.",
                                     "the record of a task can't be written: %s", strerror(-r))
                     : 0;
}

void mcp_task_store_remove(struct mcp_task_store *store, const char *id) {
        char name[FILE_NAME_MAX];

        (void)unlinkat(store->directory, file_name(name, id, ".json"), 0); /* gone already: as well */
}

/* ---- reading ------------------------------------------------------------------------------------------- */

static int open_record(const struct mcp_task_store *store, const char *id, off_t *ret_size) {
        char name[FILE_NAME_MAX];
        /* O_NONBLOCK: a pipe of that name would wait for a writer. */
        int fd = openat(store->directory, file_name(name, id, ".json"),
                        O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        struct stat info;

        if (fd < 0)
                return errno == ENOENT ? -ENOENT : -EBADMSG;
        if (fstat(fd, &info) < 0 || !S_ISREG(info.st_mode) || info.st_uid != geteuid() || info.st_size <= 0 ||
            info.st_size > (off_t)(HEADER_BYTES_MAX + MCP_TASK_PAYLOAD_MAX)) {
                close(fd);
                return -EBADMSG;
        }
        *ret_size = info.st_size;
        return fd;
}

static int read_up_to(int fd, size_t size, struct mcp_text *ret) {
        int r = mcp_text_reserve(ret, size);

        while (r == 0 && ret->size < size) {
                ssize_t count = read(fd, ret->data + ret->size, size - ret->size);

                if (count < 0 && errno == EINTR)
                        continue;
                if (count < 0)
                        return -errno;
                if (count == 0)
                        break;
                ret->size += (size_t)count;
        }
        return r;
}

/* A string without NUL of at most `max` bytes; NULL: it is none. */
static const char *header_string(const json_t *header, const char *key, size_t max) {
        const json_t *value = json_object_get(header, key);

        if (!json_is_string(value) || json_string_length(value) > max ||
            strlen(json_string_value(value)) != json_string_length(value))
                return NULL;
        return json_string_value(value);
}

/* 2^53 ms are 285,000 years: sums of them do not overflow. */
static bool header_number(const json_t *header, const char *key, int64_t *ret) {
        const json_t *value = json_object_get(header, key);

        *ret = json_integer_value(value);
        return json_is_integer(value) && *ret >= 0 && *ret < (1ll << 53);
}

static bool header_id(const json_t *header, const char *key, char ret[MCP_RANDOM_ID_SIZE]) {
        const char *id = header_string(header, key, MCP_RANDOM_ID_SIZE - 1);

        if (id == NULL || !mcp_task_id_is_valid(id))
                return false;
        memcpy(ret, id, MCP_RANDOM_ID_SIZE);
        return true;
}

static enum mcp_task_status header_status(const json_t *header) {
        const char *name = header_string(header, "status", 32);

        for (enum mcp_task_status i = MCP_TASK_WORKING; name != NULL && i <= MCP_TASK_CANCELLED; i++)
                if (strcmp(status_names[i], name) == 0)
                        return i;
        return 0;
}

static int take_header(const json_t *header, const char *id, struct mcp_task_record *ret) {
        const char *principal = header_string(header, "principal", PRINCIPAL_BYTES_MAX);
        const char *message = header_string(header, "statusMessage", 4 * MCP_TASK_MESSAGE_MAX);
        int64_t version;

        ret->status = header_status(header);
        if (!header_number(header, "version", &version) || version != VERSION || principal == NULL ||
            !header_id(header, "taskId", ret->id) || strcmp(ret->id, id) != 0 ||
            !header_id(header, "server", ret->server) || ret->status == 0 ||
            !header_number(header, "createdMs", &ret->created_ms) ||
            !header_number(header, "updatedMs", &ret->updated_ms) || !header_number(header, "ttlMs", &ret->ttl_ms))
                return -EBADMSG;
        ret->principal = strdup(principal);
        if (message != NULL)
                ret->message = strdup(message);
        return ret->principal == NULL || (message != NULL && ret->message == NULL) ? -ENOMEM : 0;
}

/* The second line: an object, and nothing after it. It goes to the client as it is. */
static int take_payload(struct sbx_bytes rest, struct mcp_text *ret) {
        const char *end = memchr(rest.data != NULL ? rest.data : "", '\n', rest.size);
        json_t *payload;
        int r = 0;

        if (rest.size == 0)
                return 0;
        if (end == NULL || end + 1 != (const char *)rest.data + rest.size)
                return -EBADMSG;
        payload = json_loadb(rest.data, rest.size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
        if (!json_is_object(payload))
                r = -EBADMSG;
        json_decref(payload);
        return r < 0 ? r : mcp_text_append(ret, rest.data, rest.size - 1);
}

static int decode(struct sbx_bytes text, const char *id, bool with_payload, struct mcp_task_record *ret) {
        const char *start = text.data, *end = memchr(start, '\n', text.size);
        json_t *header;
        int r;

        if (end == NULL || end - start > (ptrdiff_t)HEADER_BYTES_MAX)
                return -EBADMSG;
        header = json_loadb(start, (size_t)(end - start), JSON_REJECT_DUPLICATES, NULL);
        if (header == NULL)
                return -EBADMSG;
        r = take_header(header, id, ret);
        json_decref(header);
        end++;
        if (r == 0 && with_payload)
                r = take_payload((struct sbx_bytes){end, text.size - (size_t)(end - start)}, &ret->payload);
        return r;
}

int mcp_task_store_read(struct mcp_task_store *store, const char *id, bool with_payload,
                        struct mcp_task_record *ret_record) {
        _cleanup_text_ struct mcp_text text = MCP_TEXT(HEADER_BYTES_MAX + MCP_TASK_PAYLOAD_MAX);
        _cleanup_record_ struct mcp_task_record record = {.payload = MCP_TEXT(MCP_TASK_PAYLOAD_MAX)};
        _cleanup_fd_ int fd = -1;
        off_t size;
        int r;

        fd = open_record(store, id, &size);
        if (fd < 0)
                return fd;
        if (!with_payload && size > (off_t)HEADER_BYTES_MAX)
                size = HEADER_BYTES_MAX;
        r = read_up_to(fd, (size_t)size, &text);
        if (r == 0)
                r = decode(mcp_text_bytes(&text), id, with_payload, &record);
        if (r < 0)
                return r;
        *ret_record = record;
        record = (struct mcp_task_record){.payload = MCP_TEXT(0)};
        return 0;
}

/* ---- the directory ------------------------------------------------------------------------------------- */

bool mcp_task_store_is_alive(struct mcp_task_store *store, const char *server) {
        char name[FILE_NAME_MAX];
        _cleanup_fd_ int fd = -1;

        if (strcmp(server, store->server) == 0)
                return true;
        fd = openat(store->directory, file_name(name, server, ".lock"), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0)
                return false;
        if (flock(fd, LOCK_SH | LOCK_NB) < 0)
                return true;
        (void)unlinkat(store->directory, name, 0);
        return false;
}

static void remove_left_over(struct mcp_task_store *store, const char *name) {
        struct stat info;

        if (fstatat(store->directory, name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
            info.st_mtime + LEFT_OVER_S < time(NULL))
                (void)unlinkat(store->directory, name, 0);
}

static void look_at(struct mcp_task_store *store, const char *name,
                    void (*found)(void *data, struct mcp_task_record *record), void *data) {
        _cleanup_record_ struct mcp_task_record record = {.payload = MCP_TEXT(0)};
        const char *suffix = strchr(name, '.');
        char id[MCP_RANDOM_ID_SIZE];
        int r;

        if (suffix == NULL || !is_id(name, (size_t)(suffix - name)))
                return; /* not ours */
        snprintf(id, sizeof(id), "%.32s", name);
        if (strcmp(suffix, ".tmp") == 0) {
                remove_left_over(store, name);
        } else if (strcmp(suffix, ".lock") == 0) {
                (void)mcp_task_store_is_alive(store, id);
        } else if (strcmp(suffix, ".json") == 0) {
                r = mcp_task_store_read(store, id, false, &record);
                if (r == 0)
                        found(data, &record);
                else if (r == -EBADMSG)
                        (void)unlinkat(store->directory, name, 0);
        }
}

int mcp_task_store_scan(struct mcp_task_store *store, void (*found)(void *data, struct mcp_task_record *record),
                        void *data) {
        int fd = openat(store->directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *directory = fd >= 0 ? fdopendir(fd) : NULL;

        if (directory == NULL) {
                int r = -errno;

                close_fd(&fd);
                return r;
        }
        for (const struct dirent *entry; (entry = readdir(directory)) != NULL;)
                look_at(store, entry->d_name, found, data);
        closedir(directory);
        return 0;
}

/* Locked before it has the name that others look for. */
static int lock_server(struct mcp_task_store *store) {
        char beside[FILE_NAME_MAX], name[FILE_NAME_MAX];

        store->lock = openat(store->directory, file_name(beside, store->server, ".tmp"),
                             O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (store->lock < 0)
                return -errno;
        if (flock(store->lock, LOCK_EX | LOCK_NB) < 0 ||
            renameat(store->directory, beside, store->directory, file_name(name, store->server, ".lock")) < 0) {
                int r = -errno;

                (void)unlinkat(store->directory, beside, 0);
                return r;
        }
        return 0;
}

static int open_directory(const char *state, int *ret_fd) {
        _cleanup_fd_ int parent = open(state, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd = -1;
        struct stat info;

        if (parent < 0 || (mkdirat(parent, "mcp-tasks", 0700) < 0 && errno != EEXIST))
                return -errno;
        fd = openat(parent, "mcp-tasks", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &info) < 0)
                return -errno;
        if (info.st_uid != geteuid() || (info.st_mode & 0022) != 0)
                return -EPERM;
        *ret_fd = fd;
        fd = -1;
        return 0;
}

static int refuse_directory(int status, struct sbx_error *err) {
        return sbx_error_set(err, status, "transport-mcp",
                             "Give the state directory to the user that the server runs as, with mode 0700.",
                             "there is no place for records of tasks (mcp-tasks in the state directory): %s",
                             strerror(-status));
}

int mcp_task_store_open(const struct sbx_host *host, const char *server, struct mcp_task_store **ret_store,
                        struct sbx_error *err) {
        const char *state = host->directory(host->self, "state");
        struct mcp_task_store *store;
        int r;

        if (state == NULL)
                return refuse_directory(-ENOENT, err);
        store = malloc(sizeof(*store));
        if (store == NULL)
                return sbx_error_set(err, -ENOMEM, "transport-mcp", NULL, "no memory for the records of tasks");
        *store = (struct mcp_task_store){.directory = -1, .lock = -1};
        memcpy(store->server, server, sizeof(store->server));
        r = open_directory(state, &store->directory);
        if (r == 0)
                r = lock_server(store);
        if (r < 0) {
                close_fd(&store->lock);
                close_fd(&store->directory);
                free(store);
                return refuse_directory(r, err);
        }
        *ret_store = store;
        return 0;
}

void mcp_task_store_close(struct mcp_task_store *store) {
        char name[FILE_NAME_MAX];

        if (store == NULL)
                return;
        (void)unlinkat(store->directory, file_name(name, store->server, ".lock"), 0);
        close_fd(&store->lock);
        close_fd(&store->directory);
        free(store);
}

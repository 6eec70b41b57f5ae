/* SPDX-License-Identifier: Apache-2.0 */
/* One pass over the project. */
#include "index.h"

#include <fcntl.h>
#include <stdio.h>

#include "index_write.h"
#include "tree.h"
#include "utf8.h"
#include "walk.h"

#define LOOK_BYTES 8192u /* decide whether a file is a text */
#define ENTRIES_MAX 2000000u
#define PROGRESS_NS (2000 * NS_PER_MS)

struct pass {
        const struct files_options *options;
        struct connection *connection;
        struct index_writer *writer;
        struct index_result *result;
        struct sbx_error *err;
        uint64_t started_ns, reported_ns;
};

static void log_line(const struct pass *pass, int level, const char *what) {
        const struct sbx_host *host = pass->options->host;
        const struct index_result *result = pass->result;
        char text[256];

        snprintf(text, sizeof(text), "%s: %llu files, %llu read, %llu gone, %llu ms", what,
                 (unsigned long long)result->files, (unsigned long long)result->indexed,
                 (unsigned long long)result->removed,
                 (unsigned long long)((monotonic_ns() - pass->started_ns) / NS_PER_MS));
        host->log(host->self, level, text);
}

static int on_stop(void *data) {
        struct pass *pass = data;
        struct connection *connection = pass->connection;
        uint64_t now = monotonic_ns();

        if (now - pass->reported_ns > PROGRESS_NS) {
                pass->reported_ns = now;
                log_line(pass, SBX_LOG_INFO, "indexing the project");
        }
        return connection->stopped != NULL && connection->stopped(connection->stopped_data) ? -ECANCELED : 0;
}

static bool is_unchanged(const struct index_row *row, const struct stat *st) {
        return row->found && row->size == st->st_size && row->inode == (int64_t)st->st_ino &&
               row->mtime_ns == (int64_t)st->st_mtim.tv_sec * INT64_C(1000000000) + st->st_mtim.tv_nsec &&
               row->ctime_ns == (int64_t)st->st_ctim.tv_sec * INT64_C(1000000000) + st->st_ctim.tv_nsec;
}

/* -EFBIG: it grew; other failures: it can't be read. The stat is of what was opened. */
static int read_file(const struct pass *pass, int directory_fd, const char *name, struct stat *ret_st, char **ret_data,
                     size_t *ret_size) {
        _cleanup_close_ int fd = -1;
        int r = tree_open_file(directory_fd, name, &fd, ret_st);

        return r < 0 ? r : tree_read(fd, pass->options->file_bytes_max, ret_data, ret_size);
}

/* The record of a run is not the project: it would answer questions with what was asked before. */
static bool is_trajectory(const char *data, size_t size) {
        static const char mark[] = "\"trajectory_metadata\"";

        return data[0] == '{' && memmem(data, size < 64 ? size : 64, mark, sizeof(mark) - 1) != NULL;
}

static int put(struct pass *pass, int directory_fd, const char *name, const char *path) {
        _cleanup_free_ char *data = NULL;
        struct sbx_bytes text;
        struct stat st;
        size_t size;
        int r = read_file(pass, directory_fd, name, &st, &data, &size);

        if (r == -ENOMEM || r == -EMFILE || r == -ENFILE)
                return sbx_error_set(pass->err, r, FILES_ORIGIN, NULL, "can't read %s: %s", path, strerrordesc_np(-r));
        if (r < 0)
                return 0;
        pass->result->indexed++;
        if (!utf8_is_text(data, size < LOOK_BYTES ? size : LOOK_BYTES, size > LOOK_BYTES) ||
            is_trajectory(data, size)) {
                pass->result->not_text++;
                return index_put(pass->writer, path, &st, NULL, pass->err);
        }
        if (!utf8_is_text(data, size, false)) {
                char *repaired = utf8_repair(data, size, &size);

                if (repaired == NULL)
                        return files_nomem(pass->err);
                free(data);
                data = repaired;
        }
        text = (struct sbx_bytes){data, size};
        pass->result->files++;
        pass->result->bytes += size;
        return index_put(pass->writer, path, &st, &text, pass->err);
}

static int on_file(void *data, int directory_fd, const char *name, const char *path, const struct stat *st) {
        struct pass *pass = data;
        struct index_result *result = pass->result;
        struct index_row row;
        int r;

        if (st->st_size == 0)
                return 0;
        if ((uint64_t)st->st_size > pass->options->file_bytes_max) {
                result->too_large++;
                return 0;
        }
        result->files_cut |= result->files >= pass->options->files_max;
        result->bytes_cut |= result->bytes + (uint64_t)st->st_size > pass->options->total_bytes_max;
        if (result->files >= pass->options->files_max ||
            result->bytes + (uint64_t)st->st_size > pass->options->total_bytes_max)
                return 0;
        r = index_find(pass->writer, path, &row, pass->err);
        if (r < 0)
                return r;
        if (!is_unchanged(&row, st))
                return put(pass, directory_fd, name, path);
        result->files += row.text;
        result->not_text += !row.text;
        result->bytes += row.text ? (uint64_t)st->st_size : 0;
        return index_seen(pass->writer, row.id, pass->err);
}

static int walk_project(struct pass *pass) {
        const struct files_options *options = pass->options;
        struct walk_limits limits = {.entries_max = ENTRIES_MAX};
        struct walk_events events = {.data = pass, .file = on_file, .stop = on_stop};
        struct walk_result walked = {0};
        struct rules *rules = NULL;
        _cleanup_close_ int fd = open(options->project, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int r;

        if (fd < 0)
                return sbx_error_set(pass->err, -errno, FILES_ORIGIN, NULL, "can't open the project %s: %s",
                                     options->project, strerrordesc_np(errno));
        r = rules_new(options->project, options->exclude, options->exclude_count, &rules);
        if (r == 0)
                r = walk(fd, rules, &limits, &events, &walked);
        rules_free(rules);
        pass->result->tree_cut = walked.cut;
        if (r < 0)
                return sbx_error_set(pass->err, r, FILES_ORIGIN, NULL, "can't index %s: %s", options->project,
                                     r == -ECANCELED ? "stopped" : strerrordesc_np(-r));
        return 0;
}

int index_pass(const struct files_options *options, struct connection *connection, struct index_result *ret_result,
               struct sbx_error *err) {
        struct pass pass = {.options = options, .connection = connection, .result = ret_result, .err = err};
        int r, committed;

        *ret_result = (struct index_result){0};
        pass.started_ns = pass.reported_ns = monotonic_ns();
        r = index_writer_new(connection, &pass.writer, err);
        if (r < 0)
                return r;
        r = walk_project(&pass);
        if (r == 0)
                r = index_sweep(pass.writer, &ret_result->removed, err);
        committed = index_commit(pass.writer, err); /* whatever ended the pass: whole files are in it */
        if (r == 0)
                r = committed;
        index_writer_free(pass.writer);
        if (r == 0 && ret_result->indexed + ret_result->removed > 0)
                log_line(&pass, SBX_LOG_INFO, "the project is indexed");
        return r;
}

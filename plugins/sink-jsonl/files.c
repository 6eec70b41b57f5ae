/* SPDX-License-Identifier: Apache-2.0 */
/* Which files are open. */
#include "files.h"

void jsonl_files_init(struct jsonl_files *files, const char *path, bool never_sync) {
        *files = (struct jsonl_files){.directory = {.path = path, .fd = -1, .never_sync = never_sync}};
}

static void move_to_front(struct jsonl_files *files, size_t index) {
        struct jsonl_file *file = files->open[index];

        memmove(&files->open[1], &files->open[0], index * sizeof(files->open[0]));
        files->open[0] = file;
}

static void remove_at(struct jsonl_files *files, size_t index) {
        jsonl_file_free(files->open[index]);
        files->count--;
        memmove(&files->open[index], &files->open[index + 1], (files->count - index) * sizeof(files->open[0]));
}

static bool is_of(const struct jsonl_file *file, const char *id) {
        size_t size = strlen(id);

        return strncmp(file->name, id, size) == 0 && strcmp(file->name + size, ".jsonl") == 0;
}

int jsonl_files_get(struct jsonl_files *files, const char *id, struct jsonl_file **ret_file, struct sbx_error *err) {
        struct jsonl_file *file = NULL;
        int r;

        for (size_t i = 0; i < files->count; i++) {
                if (!is_of(files->open[i], id))
                        continue;
                if (jsonl_file_is_lost(files->open[i])) {
                        remove_at(files, i); /* what comes now begins a new one */
                        break;
                }
                move_to_front(files, i);
                *ret_file = files->open[0];
                return 0;
        }
        if (files->count == JSONL_OPEN_MAX) {
                r = jsonl_file_sync(files->open[files->count - 1], err);
                if (r < 0)
                        return r;
                remove_at(files, files->count - 1);
        }
        r = jsonl_file_open(&files->directory, id, &file, err);
        if (r < 0)
                return r;
        files->open[files->count++] = file;
        move_to_front(files, files->count - 1);
        *ret_file = file;
        return 0;
}

int jsonl_files_close_last(struct jsonl_files *files, struct sbx_error *err) {
        int r = jsonl_file_sync(files->open[0], err);

        remove_at(files, 0);
        return r;
}

int jsonl_files_sync(struct jsonl_files *files, struct sbx_error *err) {
        int first = 0;

        for (size_t i = 0; i < files->count; i++) {
                int r = jsonl_file_sync(files->open[i], err);

                first = first < 0 ? first : r;
        }
        return first;
}

void jsonl_files_close(struct jsonl_files *files) {
        while (files->count > 0)
                remove_at(files, files->count - 1);
        jsonl_directory_close(&files->directory);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Tells `doctor` where the store is, and whether it can be opened and written. Makes nothing that stays. */
#include "probe.h"

#include <fcntl.h>
#include <sys/statvfs.h>

#include "files.h"
#include "quota.h"

static int report(const struct sbx_probe_events *events, int status, const char *detail, const char *remedy) {
        events->report(events->data, status, "session store", detail,
                       remedy != NULL && remedy[0] != '\0' ? remedy : NULL);
        return 0;
}

static int try_write(const struct dir_store *store, struct sbx_error *err) {
        char name[FILE_NAME_RANDOM];
        _cleanup_close_ int fd = -1;
        int r;

        file_random_name(name);
        r = file_open(store->tmp_fd, name, O_WRONLY | O_CREAT | O_EXCL, &fd, NULL);
        if (r == 0) {
                r = write_at(fd, "", 1, 0);
                (void)unlinkat(store->tmp_fd, name, 0);
        }
        return r < 0 ? store_error(store, r, "write in", "tmp", NULL, err) : 0;
}

/* The nearest directory above the store that is there has to let us make one in it. */
static int try_nearest(const struct dir_store *store, struct sbx_error *err) {
        _cleanup_free_ char *path = strdup(store->path);

        if (path == NULL)
                return no_memory(err);
        while (access(path, F_OK) < 0 && errno == ENOENT) {
                char *slash = strrchr(path, '/');

                if (slash == NULL || slash == path) {
                        snprintf(path, strlen(path) + 1, "%s", slash == path ? "/" : ".");
                        break;
                }
                *slash = '\0';
        }
        if (access(path, W_OK | X_OK) == 0)
                return 0;
        return sbx_error_set(err, -errno, DIR_ORIGIN, "Set the option `directory` to a directory that can be made.",
                             "can't make %s: %s can't be written: %m", store->path, path);
}

static void tell_state(struct dir_store *store, const struct sbx_probe_events *events) {
        struct statvfs disk = {0};
        uint64_t used = 0;
        char detail[4096], quota[64] = "no quota";
        unsigned long long free_mb;

        (void)quota_measure(store, &used);
        (void)fstatvfs(store->root_fd, &disk);
        free_mb = ((unsigned long long)disk.f_bavail * disk.f_frsize) >> 20;
        if (store->quota_bytes > 0)
                snprintf(quota, sizeof(quota), "quota %llu MB", (unsigned long long)(store->quota_bytes >> 20));
        snprintf(detail, sizeof(detail), "%s, %s, %llu KB used, %s, %llu MB free on the disk", store->path,
                 store->key_file != NULL ? "encrypted" : "not encrypted", (unsigned long long)((used + 1023) >> 10),
                 quota, free_mb);
        if (store->quota_bytes > 0 && used > store->quota_bytes - store->quota_bytes / 10)
                report(events, SBX_PROBE_WARNING, detail, "It is nearly full: `snipara-sandbox sessions gc`.");
        else
                report(events, SBX_PROBE_OK, detail, NULL);
}

int store_probe(struct dir_store *store, const struct sbx_probe_events *events, const struct sbx_call *call) {
        struct sbx_error err = {0};
        char detail[4096];
        int r = store_ready(store, false, &err);

        (void)call;
        if (r == -ENOENT && err.code == 0) {
                r = try_nearest(store, &err);
                if (r == 0) {
                        snprintf(detail, sizeof(detail), "%s, %s, made when the first session is stored", store->path,
                                 store->key_file != NULL ? "encrypted" : "not encrypted");
                        return report(events, SBX_PROBE_OK, detail, NULL);
                }
        } else if (r == 0) {
                r = try_write(store, &err);
                if (r == 0)
                        tell_state(store, events);
        }
        if (r < 0)
                report(events, SBX_PROBE_FAILED, err.message, err.hint);
        return r;
}

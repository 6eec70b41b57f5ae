/* SPDX-License-Identifier: Apache-2.0 */
/* Makes directories for guests that share the host's file tree. */
#include <sys/stat.h>

#include "local.h"
#include "util.h"

int scratch_create(const struct local *local, uint64_t id, char ret_path[ZYGOTE_SCRATCH_MAX], struct sbx_error *err) {
        const char *runtime = local->host.directory != NULL ? local->host.directory(local->host.self, "runtime") : NULL;
        char path[ZYGOTE_SCRATCH_MAX];
        int n;

        /* Root's own runtime directory is closed to the guests' uid. */
        if (runtime == NULL || local->drop)
                runtime = "/tmp";
        n = snprintf(path, sizeof(path), "%s/sbx-%d-%llu-XXXXXX", runtime, (int)getpid(), (unsigned long long)id);
        if (n < 0 || (size_t)n >= sizeof(path))
                return sbx_error_set(err, -ENAMETOOLONG, LOCAL_ORIGIN, NULL,
                                     "the runtime directory's path is too long");
        if (mkdtemp(path) == NULL)
                return sbx_error_set(err, -errno, LOCAL_ORIGIN, NULL, "can't make a directory in %s: %s", runtime,
                                     strerror(errno));
        if (local->drop && lchown(path, local->uid, local->gid) < 0) {
                int code = -errno;

                rmdir(path);
                return sbx_error_set(err, code, LOCAL_ORIGIN, NULL, "can't give %s to the guest: %s", path,
                                     strerror(-code));
        }
        memcpy(ret_path, path, sizeof(path));
        return 0;
}

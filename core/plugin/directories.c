/* SPDX-License-Identifier: Apache-2.0 */
/* The directories of the installation: where Meson put them, moved along when the whole prefix was moved, or those of
 * the build tree; and the user's own for state and run-time files. */
#include "plugin/internal.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pwd.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/error.h"

#define PROGRAM "snipara-sandbox"
#define BUILD_ROOT_VARIABLE "SNIPARA_SANDBOX_BUILD_ROOT"

static int join(char **ret_path, const char *directory, const char *rest) {
        char *path;

        if (asprintf(&path, "%s%s", directory, rest) < 0)
                return -ENOMEM;
        *ret_path = path;
        return 0;
}

/* ---- the installation ------------------------------------------------------------------------------------ */

/* The directory that holds the object with this code: the library, or the program that it is linked into. */
static char *own_directory(void) {
        struct link_map *map = NULL;
        Dl_info info;
        char *path, *slash;

        if (dladdr1((void *)(uintptr_t)sbx_directories_find, &info, (void **)&map, RTLD_DL_LINKMAP) == 0 || map == NULL)
                return NULL;
        /* The main program has no name there; argv[0], which dladdr() offers, may be anything. */
        path = realpath(map->l_name[0] == '\0' ? "/proc/self/exe" : map->l_name, NULL);
        slash = path != NULL ? strrchr(path, '/') : NULL;
        if (slash != NULL)
                *slash = '\0';
        return path;
}

/* If `directory` is `configured` below another prefix than SBX_PREFIX: the length of that other prefix, else 0. */
static size_t moved_prefix(const char *directory, const char *configured) {
        size_t length = strlen(directory), tail;

        if (strncmp(configured, SBX_PREFIX "/", strlen(SBX_PREFIX "/")) != 0 || strcmp(directory, configured) == 0)
                return 0;
        configured += strlen(SBX_PREFIX); /* "/lib" */
        tail = strlen(configured);
        return length > tail && strcmp(directory + length - tail, configured) == 0 ? length - tail : 0;
}

/* The prefix under which everything lies: another one than Meson's if the installation was moved as a whole. */
static int find_prefix(char **ret_prefix) {
        _cleanup_free_ char *own = own_directory(), *plugins = NULL;
        struct stat st;
        size_t length = 0;

        if (own != NULL)
                length = moved_prefix(own, SBX_LIBDIR);
        if (own != NULL && length == 0)
                length = moved_prefix(own, SBX_BINDIR);
        if (length > 0) {
                own[length] = '\0';
                if (join(&plugins, own, &SBX_PLUGINDIR[strlen(SBX_PREFIX)]) < 0)
                        return -ENOMEM;
                if (stat(plugins, &st) == 0 && S_ISDIR(st.st_mode)) {
                        *ret_prefix = steal_pointer(own);
                        return 0;
                }
        }
        return join(ret_prefix, SBX_PREFIX, "");
}

static int place(char **ret_path, const char *prefix, const char *configured) {
        if (strncmp(configured, SBX_PREFIX "/", strlen(SBX_PREFIX "/")) == 0)
                return join(ret_path, prefix, configured + strlen(SBX_PREFIX));
        return join(ret_path, "", configured); /* outside of the prefix, as /etc is for /usr */
}

static int find_installed(struct sbx_directories *found) {
        _cleanup_free_ char *prefix = NULL;
        int r = find_prefix(&prefix);

        if (r == 0)
                r = place(&found->plugins, prefix, SBX_PLUGINDIR);
        if (r == 0)
                r = place(&found->libexec, prefix, SBX_LIBEXECDIR);
        if (r == 0)
                r = place(&found->guests, prefix, SBX_GUESTDIR);
        if (r == 0)
                r = place(&found->data, prefix, SBX_DATADIR);
        if (r == 0)
                r = place(&found->config, prefix, SBX_CONFDIR);
        return r;
}

static int find_built(const char *variable, struct sbx_directories *found, struct sbx_error *err) {
        _cleanup_free_ char *root = realpath(variable, NULL);
        int r;

        if (root == NULL)
                return sbx_error_set(err, -errno, SBX_PLUGIN_ORIGIN,
                                     "Set it to the build directory, or unset it to use the installation.",
                                     BUILD_ROOT_VARIABLE " is \"%s\": %s", variable, SBX_ERRNO_TEXT(-errno));
        found->build_tree = true;
        r = join(&found->plugins, root, "/plugins");
        if (r == 0)
                r = join(&found->libexec, root, "/plugins");
        if (r == 0)
                r = join(&found->guests, root, "/guests");
        if (r == 0)
                r = join(&found->data, root, "/plugins");
        if (r == 0)
                r = join(&found->config, "", SBX_CONFDIR);
        return r;
}

/* ---- the user's own -------------------------------------------------------------------------------------- */

/* A base directory that a variable names: absolute, and the user's own if it is there already. So a variable that
 * came along through sudo or su does not lead root into another user's directory. */
static const char *own_base(const char *variable) {
        const char *path = secure_getenv(variable);
        struct stat st;

        if (path == NULL || path[0] != '/')
                return NULL;
        return stat(path, &st) < 0 || st.st_uid == geteuid() ? path : NULL;
}

static int home_directory(char **ret_home) {
        const char *variable = own_base("HOME");
        char buffer[4096];
        struct passwd entry, *found = NULL;

        if (variable != NULL)
                return join(ret_home, variable, "");
        if (getpwuid_r(geteuid(), &entry, buffer, sizeof(buffer), &found) == 0 && found != NULL &&
            found->pw_dir != NULL && found->pw_dir[0] == '/')
                return join(ret_home, found->pw_dir, "");
        return 0;
}

static int find_state(char **ret_path) {
        const char *base = own_base("XDG_STATE_HOME");
        _cleanup_free_ char *home = NULL;
        int r;

        if (base != NULL)
                return join(ret_path, base, "/" PROGRAM);
        if (geteuid() == 0)
                return join(ret_path, "", "/var/lib/" PROGRAM);
        r = home_directory(&home);
        return r < 0 || home == NULL ? r : join(ret_path, home, "/.local/state/" PROGRAM);
}

static int find_runtime(char **ret_path, const char *state) {
        const char *base = own_base("XDG_RUNTIME_DIR");

        if (base != NULL)
                return join(ret_path, base, "/" PROGRAM);
        if (geteuid() == 0)
                return join(ret_path, "", "/run/" PROGRAM);
        /* No login session (cron, a container): below the state, where nobody else can be first, unlike in /tmp. */
        return state != NULL ? join(ret_path, state, "/run") : 0;
}

int sbx_directory_create(const char *path, struct sbx_error *err) {
        _cleanup_free_ char *partial = strdup(path);
        struct stat st;

        if (partial == NULL)
                return SBX_NOMEM(err, SBX_PLUGIN_ORIGIN);
        for (char *slash = strchr(partial + 1, '/');; slash = strchr(slash + 1, '/')) {
                if (slash != NULL)
                        *slash = '\0';
                /* What is wrong with a parent shows at the last component. */
                if (mkdir(partial, 0700) < 0 && slash == NULL && errno != EEXIST)
                        return sbx_error_set(err, -errno, SBX_PLUGIN_ORIGIN,
                                             "Make it by hand, or set XDG_STATE_HOME and XDG_RUNTIME_DIR to "
                                             "directories that you can write.",
                                             "can't make the directory %s: %s", path, SBX_ERRNO_TEXT(-errno));
                if (slash == NULL)
                        break;
                *slash = '/';
        }
        if (stat(path, &st) < 0)
                return sbx_error_set(err, -errno, SBX_PLUGIN_ORIGIN, NULL, "can't use the directory %s: %s", path,
                                     SBX_ERRNO_TEXT(-errno));
        if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
                return sbx_error_set(err, -EPERM, SBX_PLUGIN_ORIGIN,
                                     "Move it away; a directory that only you can write is made in its place.",
                                     "%s is not a directory of this user's alone (owner %u, mode %03o)", path,
                                     st.st_uid, st.st_mode & 07777);
        return 0;
}

/* ---- all of them ----------------------------------------------------------------------------------------- */

int sbx_directories_find(struct sbx_directories *ret_directories, struct sbx_error *err) {
        struct sbx_directories found = {0};
        const char *build_root = secure_getenv(BUILD_ROOT_VARIABLE);
        int r;

        if (build_root != NULL && build_root[0] != '\0')
                r = find_built(build_root, &found, err);
        else
                r = find_installed(&found);
        if (r == 0)
                r = find_state(&found.state);
        if (r == 0)
                r = find_runtime(&found.runtime, found.state);
        if (r < 0) {
                sbx_directories_free(&found);
                return r == -ENOMEM ? SBX_NOMEM(err, SBX_PLUGIN_ORIGIN) : r;
        }
        *ret_directories = found;
        return 0;
}

void sbx_directories_free(struct sbx_directories *directories) {
        free(directories->plugins);
        free(directories->libexec);
        free(directories->guests);
        free(directories->data);
        free(directories->config);
        free(directories->state);
        free(directories->runtime);
        *directories = (struct sbx_directories){0};
}

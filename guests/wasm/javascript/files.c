/* SPDX-License-Identifier: Apache-2.0 */
/* Files for the worker's JavaScript: calls of libc, whose failures are exceptions with a `code` as Node has it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine.h"

#define CHUNK (64u << 10)
#define NAMES_MAX 20000u

static const char *error_name(int error) {
        static const struct {
                int number;
                const char *name;
        } names[] = {
                {EACCES, "EACCES"},
                {EBADF, "EBADF"},
                {EBUSY, "EBUSY"},
                {EDQUOT, "EDQUOT"},
                {EEXIST, "EEXIST"},
                {EFBIG, "EFBIG"},
                {EINVAL, "EINVAL"},
                {EIO, "EIO"},
                {EISDIR, "EISDIR"},
                {ELOOP, "ELOOP"},
                {EMFILE, "EMFILE"},
                {EMLINK, "EMLINK"},
                {ENAMETOOLONG, "ENAMETOOLONG"},
                {ENFILE, "ENFILE"},
                {ENOENT, "ENOENT"},
                {ENOMEM, "ENOMEM"},
                {ENOSPC, "ENOSPC"},
                {ENOSYS, "ENOSYS"},
                {ENOTDIR, "ENOTDIR"},
                {ENOTEMPTY, "ENOTEMPTY"},
                {ENOTSUP, "ENOTSUP"},
                {EPERM, "EPERM"},
                {EROFS, "EROFS"},
                {EXDEV, "EXDEV"},
                {ENOTCAPABLE, "EACCES"},
        };

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                if (names[i].number == error)
                        return names[i].name;
        return "EIO";
}

static JSValue throw_errno(JSContext *context, const char *call, const char *path, int error) {
        JSValue made = JS_NewError(context), text;
        const char *name = error_name(error);
        size_t size = strlen(name) + strlen(call) + strlen(path) + 128;
        char *message = malloc(size);

        if (message == NULL || JS_IsException(made)) {
                free(message);
                JS_FreeValue(context, made);
                return JS_ThrowOutOfMemory(context);
        }
        snprintf(message, size, "%s: %s, %s '%s'", name, strerror(error), call, path);
        text = JS_NewString(context, message);
        free(message);
        JS_DefinePropertyValueStr(context, made, "message", text, JS_PROP_WRITABLE | JS_PROP_CONFIGURABLE);
        JS_DefinePropertyValueStr(context, made, "code", JS_NewString(context, name), JS_PROP_C_W_E);
        JS_DefinePropertyValueStr(context, made, "syscall", JS_NewString(context, call), JS_PROP_C_W_E);
        JS_DefinePropertyValueStr(context, made, "path", JS_NewString(context, path), JS_PROP_C_W_E);
        return JS_Throw(context, made);
}

/* NULL: an exception is pending. */
static const char *take_path(JSContext *context, JSValueConst value) {
        size_t size;
        const char *path = JS_ToCStringLen(context, &size, value);

        if (path != NULL && strlen(path) != size) {
                JS_FreeCString(context, path);
                JS_ThrowTypeError(context, "path: a string without NUL is needed");
                return NULL;
        }
        return path;
}

/* All of an open regular file, at most `max` bytes. 0, or an errno. */
static int read_content(int fd, size_t max, uint8_t **ret_data, size_t *ret_size) {
        struct stat status;
        uint8_t *data, *more;
        size_t room, have = 0;
        ssize_t count = 0;

        if (fstat(fd, &status) < 0)
                return errno;
        if (!S_ISREG(status.st_mode))
                return S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
        if ((uint64_t)status.st_size > max)
                return EFBIG;
        room = (size_t)status.st_size + 1;
        data = malloc(room);
        while (data != NULL && have <= max && (count = read(fd, data + have, room - have)) > 0) {
                have += (size_t)count;
                if (have < room)
                        continue;
                more = realloc(data, room += CHUNK);
                if (more == NULL)
                        free(data);
                data = more;
        }
        if (data == NULL)
                return ENOMEM;
        if (count < 0 || have > max) {
                int error = count < 0 ? errno : EFBIG;

                free(data);
                return error;
        }
        *ret_data = data;
        *ret_size = have;
        return 0;
}

/* readFile(path, at most so many bytes): ArrayBuffer */
static JSValue file_read(JSContext *context, JSValueConst this, int count, JSValueConst *arguments) {
        const char *path = take_path(context, arguments[0]);
        int64_t max = 0;
        uint8_t *data = NULL;
        size_t size = 0;
        JSValue made;
        int fd, error;

        (void)this;
        (void)count;
        if (path == NULL || JS_ToInt64(context, &max, arguments[1]) < 0) {
                JS_FreeCString(context, path);
                return JS_EXCEPTION;
        }
        fd = open(path, O_RDONLY | O_CLOEXEC);
        error = fd < 0 ? errno : read_content(fd, max > 0 ? (size_t)max : 0, &data, &size);
        if (fd >= 0)
                close(fd);
        made = error != 0 ? throw_errno(context, "read", path, error) : host_new_buffer(context, data, size);
        JS_FreeCString(context, path);
        return made;
}

static int write_content(const char *path, int flags, const void *data, size_t size) {
        struct stat status;
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0644), error = 0;

        if (fd < 0)
                return errno;
        if (fstat(fd, &status) < 0)
                error = errno;
        else if (!S_ISREG(status.st_mode))
                error = EINVAL;
        else if (write_all(fd, data, size) < 0)
                error = errno;
        if (close(fd) < 0 && error == 0)
                error = errno;
        return error;
}

/* writeFile(path, text or ArrayBuffer, append?) */
static JSValue file_write(JSContext *context, JSValueConst this, int count, JSValueConst *arguments) {
        const char *path = take_path(context, arguments[0]), *text = NULL;
        const void *data = NULL;
        size_t size = 0;
        JSValue done = JS_UNDEFINED;
        int error;

        (void)this;
        (void)count;
        if (path == NULL)
                return JS_EXCEPTION;
        if (JS_IsString(arguments[1]))
                data = text = JS_ToCStringLen(context, &size, arguments[1]);
        else
                data = JS_GetArrayBuffer(context, &size, arguments[1]);
        if (data == NULL && size == 0 && JS_HasException(context))
                done = JS_EXCEPTION;
        else {
                error = write_content(path, JS_ToBool(context, arguments[2]) ? O_APPEND : O_TRUNC, data, size);
                if (error != 0)
                        done = throw_errno(context, "write", path, error);
        }
        JS_FreeCString(context, text);
        JS_FreeCString(context, path);
        return done;
}

static const char *kind_of(mode_t mode) {
        return S_ISREG(mode) ? "file" : S_ISDIR(mode) ? "directory" : S_ISLNK(mode) ? "link" : "other";
}

/* stat(path, follow links?): {kind, size, mode, time} */
static JSValue file_stat(JSContext *context, JSValueConst this, int count, JSValueConst *arguments) {
        const char *path = take_path(context, arguments[0]);
        struct stat status;
        JSValue told;
        bool follow;

        (void)this;
        (void)count;
        if (path == NULL)
                return JS_EXCEPTION;
        follow = JS_ToBool(context, arguments[1]);
        if ((follow ? stat(path, &status) : lstat(path, &status)) < 0) {
                told = throw_errno(context, follow ? "stat" : "lstat", path, errno);
                JS_FreeCString(context, path);
                return told;
        }
        JS_FreeCString(context, path);
        told = JS_NewObject(context);
        if (JS_IsException(told))
                return told;
        JS_SetPropertyStr(context, told, "kind", JS_NewString(context, kind_of(status.st_mode)));
        JS_SetPropertyStr(context, told, "size", JS_NewInt64(context, status.st_size));
        /* WASI keeps no permissions. */
        JS_SetPropertyStr(context, told, "mode", JS_NewInt32(context, S_ISDIR(status.st_mode) ? 0755 : 0644));
        JS_SetPropertyStr(context, told, "time",
                          JS_NewFloat64(context, (double)status.st_mtim.tv_sec * 1e3 +
                                                         (double)(status.st_mtim.tv_nsec / 1000000)));
        return told;
}

/* readDirectory(path): names in no order; a name that is not UTF-8 has U+FFFD in it. */
static JSValue file_names(JSContext *context, JSValueConst this, int count, JSValueConst *arguments) {
        const char *path = take_path(context, arguments[0]);
        DIR *directory;
        JSValue names;
        struct dirent *entry;
        uint32_t found = 0;

        (void)this;
        (void)count;
        if (path == NULL)
                return JS_EXCEPTION;
        directory = opendir(path);
        names = directory == NULL ? throw_errno(context, "scandir", path, errno) : JS_NewArray(context);
        while (directory != NULL && !JS_IsException(names) && found < NAMES_MAX &&
               (entry = readdir(directory)) != NULL) {
                if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
                        continue;
                if (JS_SetPropertyUint32(context, names, found++, JS_NewString(context, entry->d_name)) < 0) {
                        JS_FreeValue(context, names);
                        names = JS_EXCEPTION;
                }
        }
        if (directory != NULL)
                closedir(directory);
        JS_FreeCString(context, path);
        return names;
}

enum change { MAKE_DIRECTORY, REMOVE_DIRECTORY, REMOVE_FILE, RENAME, CHANGE_DIRECTORY };

/* The calls that take paths and return nothing. */
static JSValue file_change(JSContext *context, JSValueConst this, int count, JSValueConst *arguments, int what) {
        static const char *const calls[] = {"mkdir", "rmdir", "unlink", "rename", "chdir"};
        const char *path = take_path(context, arguments[0]), *other = NULL;
        JSValue done = JS_UNDEFINED;
        int r = 0;

        (void)this;
        (void)count;
        if (path == NULL || (what == RENAME && (other = take_path(context, arguments[1])) == NULL)) {
                JS_FreeCString(context, path);
                return JS_EXCEPTION;
        }
        switch ((enum change)what) {
        case MAKE_DIRECTORY:
                r = mkdir(path, 0755);
                break;
        case REMOVE_DIRECTORY:
                r = rmdir(path);
                break;
        case REMOVE_FILE:
                r = unlink(path);
                break;
        case RENAME:
                r = rename(path, other);
                break;
        case CHANGE_DIRECTORY:
                r = chdir(path);
                break;
        }
        if (r < 0)
                done = throw_errno(context, calls[what], path, errno);
        JS_FreeCString(context, path);
        JS_FreeCString(context, other);
        return done;
}

static JSValue file_directory(JSContext *context, JSValueConst this, int count, JSValueConst *arguments) {
        char *path = getcwd(NULL, 0);
        JSValue told = JS_NewString(context, path != NULL ? path : "/work");

        (void)this;
        (void)count;
        (void)arguments;
        free(path);
        return told;
}

int files_add_functions(JSContext *context, JSValueConst object) {
        static const struct host_function functions[] = {
                {"readFile", file_read, 2},       {"writeFile", file_write, 3}, {"stat", file_stat, 2},
                {"readDirectory", file_names, 1}, {"cwd", file_directory, 0},
        };
        static const struct {
                const char *name;
                enum change what;
        } changes[] = {{"mkdir", MAKE_DIRECTORY},
                       {"rmdir", REMOVE_DIRECTORY},
                       {"unlink", REMOVE_FILE},
                       {"rename", RENAME},
                       {"chdir", CHANGE_DIRECTORY}};

        if (host_add(context, object, functions, sizeof(functions) / sizeof(functions[0])) < 0)
                return -1;
        for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++)
                if (JS_SetPropertyStr(context, object, changes[i].name,
                                      JS_NewCFunctionMagic(context, file_change, changes[i].name, 2,
                                                           JS_CFUNC_generic_magic, (int)changes[i].what)) < 0)
                        return -1;
        return 0;
}

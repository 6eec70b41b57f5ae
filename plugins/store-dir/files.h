/* SPDX-License-Identifier: Apache-2.0 */
/* Files and directories below a descriptor: never through a symbolic link, never another user's, never a device. */
#pragma once

#include <sys/stat.h>

#include "util.h"

#define FILE_NAME_RANDOM 33u /* of a name from file_random_name, with its NUL */

/* -ELOOP, -ENOTDIR; -EPERM: another user's, or one that others may change. With `create` it is made if it is not there.
 */
int directory_open(int parent_fd, const char *name, bool create, int *ret_fd);
/* `flags` beside O_CLOEXEC and O_NOFOLLOW; with O_CREAT the mode is 0600. -EBADMSG: a link, a device, a directory or
 * another user's file stands there. `ret_stat` may be NULL. */
int file_open(int parent_fd, const char *name, int flags, int *ret_fd, struct stat *ret_stat);
/* All of a file; -EFBIG. */
int file_read(int parent_fd, const char *name, size_t max, struct bytes *ret_bytes, struct stat *ret_stat);
/* A name that nobody has. */
void file_random_name(char ret_name[FILE_NAME_RANDOM]);
/* Makes `from` be what `to` is called, where `to` is there or not. What was there is removed. Atomic. Unlike rename(2)
 * it does not make the file system write `from` out at once. */
int file_replace(int fd, const char *from, const char *to);
bool same_file(const struct stat *one, const struct stat *other);

/* Calls `visit` for each entry but "." and ".."; it returns 0, or what ends it. */
int directory_visit(int fd, int (*visit)(void *data, int fd, const char *name), void *data);
/* Removes a directory and the files in it (it has no directories in it). */
int directory_remove(int parent_fd, const char *name);

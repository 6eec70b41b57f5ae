/* SPDX-License-Identifier: Apache-2.0 */
/* Opening what is below the project's directory: one component at a time from an open directory, never through a
 * symbolic link, and never anything but a directory or a regular file, even if somebody swaps them meanwhile. */
#pragma once

#include <sys/stat.h>

#include "util.h"

#define TREE_DEPTH_MAX 64u
#define TREE_PATH_MAX 4096u

/* -ELOOP or -ENOTDIR: a link, or no directory. */
int tree_open_directory(int directory_fd, const char *name, int *ret_fd, struct stat *ret_st);
/* -EINVAL: not a regular file. Nothing else is opened, not even for a moment. */
int tree_open_file(int directory_fd, const char *name, int *ret_fd, struct stat *ret_st);
/* All of a file, at most `max` bytes, NUL-terminated beyond its size; -EFBIG. */
int tree_read(int fd, size_t max, char **ret_data, size_t *ret_size);
/* A relative path of at most TREE_DEPTH_MAX components, without "", ".", ".." and control of the reader. */
bool tree_path_valid(const char *path, size_t size);

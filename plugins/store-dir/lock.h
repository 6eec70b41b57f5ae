/* SPDX-License-Identifier: Apache-2.0 */
/* flock(2) of files, for as long as the descriptor is open; a process that is killed gives its locks back. */
#pragma once

#include "store.h"

#define _cleanup_lock_ _cleanup_close_

/* Waits for a lock on an open file, at most as long as the call goes on (a minute where it says nothing). `whose`: what
 * it stands for, in the message. */
int lock_descriptor(const struct dir_store *store, int fd, bool exclusive, const char *whose,
                    const struct sbx_call *call, struct sbx_error *err);
/* The lock under which a directory of names is changed. Readers take none: what they read is replaced as a whole. */
int lock_directory(const struct dir_store *store, const char *directory, const struct sbx_call *call, int *ret_fd,
                   struct sbx_error *err);

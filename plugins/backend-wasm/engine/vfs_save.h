/* SPDX-License-Identifier: Apache-2.0 */
/* What writing and reading the files of a snapshot share; vfs_save.c has the layout. */
#pragma once

#define VFS_SAVED_STREAM 1u
#define VFS_SAVED_READ 2u
#define VFS_SAVED_WRITE 4u
#define VFS_SAVED_NODE 8u

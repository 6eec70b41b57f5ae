/* SPDX-License-Identifier: Apache-2.0 */
/* What writing and reading the files of a snapshot share; vfs_save.c has the layout. */
#pragma once

#define VFS_SAVED_READ 1u
#define VFS_SAVED_WRITE 2u
#define VFS_SAVED_NODE 4u /* of the session's own files; else an entry of the tree */

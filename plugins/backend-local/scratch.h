/* SPDX-License-Identifier: Apache-2.0 */
/* Directories of guests that have no file tree of their own (isolation landlock, none). */
#pragma once

/* The directory and everything below it; links are not followed. The guest is dead. Any thread. */
void scratch_remove(const char *path);

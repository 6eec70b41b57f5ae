/* SPDX-License-Identifier: Apache-2.0 */
/* A directory of a test's own, and files in it. Each function aborts the test when the system says no. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct test_directory {
        char path[256];
};

void test_directory_make(struct test_directory *directory);
/* With everything in it, two levels deep. */
void test_directory_remove(struct test_directory *directory);
/* A directory in it, with its files. */
void test_directory_remove_inner(const struct test_directory *directory, const char *name);
void test_directory_write(const struct test_directory *directory, const char *name, const void *data, size_t size);
/* Makes a file look as if it was written that long ago. */
void test_directory_age(const struct test_directory *directory, const char *name, long seconds);
bool test_directory_has(const struct test_directory *directory, const char *name);
/* How many names of a directory in it end with `suffix`. */
size_t test_directory_count(const struct test_directory *directory, const char *name, const char *suffix);

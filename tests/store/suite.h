/* SPDX-License-Identifier: Apache-2.0 */
/* The store under test, and what tests ask of it. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <snipara-sandbox/store.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json.h"
#include "plugin/registry.h"

#define BLOB_MAX ((size_t)256 << 20)

struct suite {
        struct sbx_logger logger;
        struct sbx_directories directories;
        struct sbx_config *config;
        struct sbx_registry *registry;
        const struct sbx_instance *store;
        const struct sbx_store_ops *ops;
        void *state;
        char **arguments;     /* of the program, for other processes of it */
        unsigned long number; /* apart from those of other runs: names begin with it */
};
extern struct suite suite;

struct group {
        const struct CMUnitTest *tests;
        size_t count;
};
struct group blobs_group(void);
struct group commits_group(void);
struct group leases_group(void);
struct group threads_group(void);
struct group processes_group(void);
struct group collect_group(void);

/* Opens the store of the configuration; 0 or -errno, with the reason on standard error. */
int suite_open(char **arguments);
void suite_close(void);

/* A directory that no other test uses, "conformance/<number>/<test>"; lives until the next call of the thread. */
const char *directory(const char *test);
/* A name in it; as long. */
const char *name_in(const char *directory, const char *leaf);

void expect_code(int r, int wanted, const struct sbx_error *err, const char *what);
#define expect(wanted, call)                                                                                           \
        do {                                                                                                           \
                struct sbx_error err_ = {0}, *err = &err_;                                                             \
                int r_ = (call);                                                                                       \
                expect_code(r_, (wanted), err, #call);                                                                 \
        } while (0)

void sleep_ms(unsigned ms);
/* `size` bytes that only `seed` decides; those of an even one can be compressed. To be freed. */
uint8_t *contents(size_t size, unsigned seed);
void put(const char *name, const char *text);
void put_contents(const char *name, size_t size, unsigned seed);
/* What is stored, with a NUL behind it, or NULL: nothing is. To be freed. */
char *get(const char *name, size_t *ret_size);
void expect_text(const char *name, const char *text); /* NULL: it is not there */
void expect_contents(const char *name, size_t size, unsigned seed);
/* The names that begin with the prefix, one on each line. To be freed. */
char *list(const char *prefix);
struct sbx_store_change change(const char *name, const char *text); /* `text` NULL: it is removed */
json_t *collect(void);
uint64_t take(const char *lease, const char *holder, uint32_t ttl_ms); /* its token */

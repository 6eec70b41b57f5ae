/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the fake guest layer share: see fake_guest.h. */
#pragma once

#include <pthread.h>

#include "fake_guest.h"

#define GUESTS_MAX 4096

struct sbx_guest_process {
        bool alive, vanished;
        bool frozen;     /* a copy that has done nothing so far, of a backend with families */
        unsigned family; /* those that are copies of each other */
        unsigned executions;
        uint64_t peak_bytes;
        json_t *names, *files; /* files: path -> bytes */
        json_t *info;
};

struct sbx_pool {
        const struct sbx_instance *backend;
        struct sbx_metrics *metrics;
        bool warm;
};

struct fake_guests {
        pthread_mutex_t lock;
        struct fake_guest_counts counts;
        struct sbx_guest_process *guests[GUESTS_MAX];
        int start_failure, limit_answer, save_failure;
        bool families, portable;
        size_t state_bytes;
};
extern struct fake_guests fake;
extern struct sbx_backend_ops fake_operations; /* of all instances */

void fake_registry_reset(void);
struct sbx_guest_process *fake_guest_new(void);         /* NULL: no memory */
int fake_guest_enlist(struct sbx_guest_process *guest); /* with the lock held */

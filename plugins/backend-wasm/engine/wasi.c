/* SPDX-License-Identifier: Apache-2.0 */
/* WASI that is neither files nor waiting: arguments, environment, clocks, random bytes, the end, and sockets, of which
 * there are none. */
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "stack.h"
#include "wasi.h"

#define NS_PER_S UINT64_C(1000000000)
#define BAKE_TIME_NS (UINT64_C(1672531200) * NS_PER_S) /* the date of images: 2023 */
#define BAKE_MONOTONIC_NS NS_PER_S                     /* where every session's clock begins */

static uint32_t put_u32(struct wasm_instance *instance, uint32_t address, uint32_t value) {
        void *at = wasm_range(instance, address, sizeof(value));

        if (at == NULL)
                return WASI_EFAULT;
        memcpy(at, &value, sizeof(value));
        return WASI_SUCCESS;
}

static uint32_t put_u64(struct wasm_instance *instance, uint32_t address, uint64_t value) {
        void *at = wasm_range(instance, address, sizeof(value));

        if (at == NULL)
                return WASI_EFAULT;
        memcpy(at, &value, sizeof(value));
        return WASI_SUCCESS;
}

/* ---- arguments and environment: the same for every session, for they are in the image ---- */

static const char *const arguments[] = {"guest"};
static const char *const environment[] = {"HOME=/tmp", "LANG=C.UTF-8", "TMPDIR=/tmp"};
#define COUNT(list) ((uint32_t)(sizeof(list) / sizeof((list)[0])))

static uint32_t put_sizes(struct wasm_instance *instance, const char *const *list, uint32_t count, uint32_t ret_count,
                          uint32_t ret_size) {
        size_t size = 0;
        uint32_t r;

        for (uint32_t i = 0; i < count; i++)
                size += strlen(list[i]) + 1;
        r = put_u32(instance, ret_count, count);
        return r != WASI_SUCCESS ? r : put_u32(instance, ret_size, (uint32_t)size);
}

/* The strings into `buffer`, their addresses into `pointers`. */
static uint32_t put_strings(struct wasm_instance *instance, const char *const *list, uint32_t count, uint32_t pointers,
                            uint32_t buffer) {
        if (wasm_range(instance, pointers, (uint64_t)count * 4) == NULL)
                return WASI_EFAULT;
        for (uint32_t i = 0; i < count; i++) {
                size_t size = strlen(list[i]) + 1;
                void *at = wasm_range(instance, buffer, size);

                if (at == NULL)
                        return WASI_EFAULT;
                memcpy(at, list[i], size);
                put_u32(instance, pointers + 4 * i, buffer);
                buffer += (uint32_t)size;
        }
        return WASI_SUCCESS;
}

uint32_t wasi_args_sizes_get(struct wasm_instance *instance, uint32_t ret_count, uint32_t ret_size) {
        return put_sizes(instance, arguments, COUNT(arguments), ret_count, ret_size);
}

uint32_t wasi_args_get(struct wasm_instance *instance, uint32_t argv, uint32_t buffer) {
        return put_strings(instance, arguments, COUNT(arguments), argv, buffer);
}

uint32_t wasi_environ_sizes_get(struct wasm_instance *instance, uint32_t ret_count, uint32_t ret_size) {
        return put_sizes(instance, environment, COUNT(environment), ret_count, ret_size);
}

uint32_t wasi_environ_get(struct wasm_instance *instance, uint32_t pointers, uint32_t buffer) {
        return put_strings(instance, environment, COUNT(environment), pointers, buffer);
}

/* ---- clocks ---- */

static uint64_t host_now_ns(enum wasi_clock clock) {
        static const clockid_t clocks[] = {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID,
                                           CLOCK_THREAD_CPUTIME_ID};
        struct timespec now = {0};

        clock_gettime(clocks[clock], &now);
        return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* A session has one thread, so that the clocks of CPU time are one. */
static uint64_t cpu_now_ns(const struct wasm_host *host) {
        return host_now_ns(WASI_CLOCK_PROCESS_CPUTIME) + host->cpu_offset_ns;
}

uint64_t wasi_now_ns(struct wasm_instance *instance, enum wasi_clock clock) {
        struct wasm_host *host = instance->host;

        if (clock == WASI_CLOCK_REALTIME)
                return host->baking ? BAKE_TIME_NS : host_now_ns(clock);
        if (clock == WASI_CLOCK_MONOTONIC)
                return host->baking ? BAKE_MONOTONIC_NS : host_now_ns(clock) + host->monotonic_offset_ns;
        if (host->baking)
                return 0;
        host->cpu_seen_ns = cpu_now_ns(host);
        return host->cpu_seen_ns;
}

void wasi_clocks_start(struct wasm_instance *instance) {
        /* How long the host is up is none of a guest's business. */
        instance->host->monotonic_offset_ns = BAKE_MONOTONIC_NS - host_now_ns(WASI_CLOCK_MONOTONIC);
}

void wasi_clocks_resume(struct wasm_instance *instance) {
        struct wasm_host *host = instance->host;
        uint64_t now = cpu_now_ns(host);

        /* As a difference: offsets wrap around. */
        if ((int64_t)(now - host->cpu_seen_ns) < 0)
                host->cpu_offset_ns += host->cpu_seen_ns - now;
}

uint32_t wasi_clock_res_get(struct wasm_instance *instance, uint32_t clock, uint32_t ret_ns) {
        if (clock > WASI_CLOCK_THREAD_CPUTIME)
                return WASI_EINVAL;
        return put_u64(instance, ret_ns, 1);
}

uint32_t wasi_clock_time_get(struct wasm_instance *instance, uint32_t clock, uint64_t precision, uint32_t ret_ns) {
        if (clock > WASI_CLOCK_THREAD_CPUTIME)
                return WASI_EINVAL;
        return put_u64(instance, ret_ns, wasi_now_ns(instance, clock));
}

/* ---- random ---- */

/* For images alone, which are to come out the same every time: splitmix64. Sessions reseed what was seeded by it. */
static void fill_fixed(struct wasm_host *host, uint8_t *at, uint32_t size) {
        for (uint32_t i = 0; i < size; i++) {
                uint64_t mixed = host->bake_random += UINT64_C(0x9e3779b97f4a7c15);

                mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
                mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
                at[i] = (uint8_t)(mixed >> 56);
        }
}

uint32_t wasi_random_get(struct wasm_instance *instance, uint32_t buffer, uint32_t size) {
        uint8_t *at = wasm_range(instance, buffer, size);
        uint32_t done = 0;

        if (at == NULL)
                return WASI_EFAULT;
        if (instance->host->baking) {
                fill_fixed(instance->host, at, size);
                return WASI_SUCCESS;
        }
        while (done < size) {
                /* Up to 256 bytes come whole, whatever signals there are. */
                ssize_t count = getrandom(at + done, size - done < 256 ? size - done : 256, 0);

                if (count <= 0)
                        return WASI_EIO;
                done += (uint32_t)count;
        }
        return WASI_SUCCESS;
}

/* ---- the end, and what there is nothing of ---- */

_Noreturn void wasi_proc_exit(struct wasm_instance *instance, uint32_t code) {
        atomic_store(&instance->host->status->exit_code, code);
        wasm_trap(instance, WASM_TRAP_EXIT);
}

uint32_t wasi_sched_yield(struct wasm_instance *instance) {
        return WASI_SUCCESS; /* to whom? */
}

uint32_t wasi_sock_accept(struct wasm_instance *instance, uint32_t fd, uint32_t flags, uint32_t ret_fd) {
        return WASI_ENOTSOCK;
}

uint32_t wasi_sock_recv(struct wasm_instance *instance, uint32_t fd, uint32_t iovs, uint32_t count, uint32_t flags,
                        uint32_t ret_size, uint32_t ret_flags) {
        return WASI_ENOTSOCK;
}

uint32_t wasi_sock_send(struct wasm_instance *instance, uint32_t fd, uint32_t iovs, uint32_t count, uint32_t flags,
                        uint32_t ret_size) {
        return WASI_ENOTSOCK;
}

uint32_t wasi_sock_shutdown(struct wasm_instance *instance, uint32_t fd, uint32_t how) {
        return WASI_ENOTSOCK;
}

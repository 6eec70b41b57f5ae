/* SPDX-License-Identifier: Apache-2.0 */
/* One instance of this plugin, and what its parts offer each other. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <snipara-sandbox/backend.h>

#include "options.h"

#define IMAGE_HASH_SIZE 32
#define IMAGE_HASH_TEXT (2 * IMAGE_HASH_SIZE + 1)
enum { RUNTIME_PYTHON, RUNTIME_JAVASCRIPT, RUNTIME_COUNT };
#define RUNTIME_NAME_MAX 32
#define RUNTIME_VERSION_MAX 32

struct helper;

/* An image and the native code that belongs to it: what guests of a runtime are made of. Never freed before stop. */
struct guest_image {
        struct guest_image *next;
        char runtime[RUNTIME_NAME_MAX], version[RUNTIME_VERSION_MAX];
        char *code_path, *packed_path;
        uint8_t hash[IMAGE_HASH_SIZE];
        char hash_text[IMAGE_HASH_TEXT];
        struct helper *helper; /* the current one; NULL: to be started at the next request. Under `helpers_lock` */
};

struct backend {
        struct sbx_host host;
        struct wasm_options options;
        bool drop; /* the server is root: the jail runs as options.user */
        atomic_ullong next_id;

        pthread_mutex_t prepare_lock; /* held while images are built or removed */
        pthread_mutex_t images_lock;  /* protects `images` and `current`; taken before helpers_lock */
        struct guest_image *images;
        struct guest_image *current[RUNTIME_COUNT]; /* NULL: not looked for yet */

        pthread_mutex_t helpers_lock; /* protects `started` and the images' `helper` */
        bool started;
};

static inline void backend_log(const struct backend *backend, int level, const char *message) {
        if (backend->host.log != NULL)
                backend->host.log(backend->host.self, level, message);
}

/* ---- plugin.c */

int backend_start(void *instance, const struct sbx_call *call, struct sbx_error *err);
void backend_stop(void *instance);

/* ---- guest.c, usage.c, snapshots.c, images.c: the backend's operations; any thread. See <snipara-sandbox/backend.h>.
 */

extern const struct sbx_backend_ops backend_ops;
int guest_start(void *instance, const struct sbx_guest_spec *spec, const struct sbx_call *call,
                struct sbx_guest *ret_guest, struct sbx_error *err);
void guest_kill(void *instance, void *handle);
void guest_close(void *instance, void *handle);
int guest_usage(void *instance, void *handle, struct sbx_guest_usage *ret_usage, struct sbx_error *err);
int guest_fork(void *instance, void *handle, const struct sbx_guest_spec *spec, const struct sbx_call *call,
               struct sbx_guest *ret_guest, struct sbx_error *err);
int guest_save(void *instance, void *handle, const struct sbx_call *call, struct sbx_output *ret_state,
               struct sbx_error *err);
int guest_restore(void *instance, const struct sbx_guest_spec *spec, struct sbx_bytes state,
                  const struct sbx_call *call, struct sbx_guest *ret_guest, struct sbx_error *err);

int images_prepare(void *instance, const struct sbx_call *call, struct sbx_error *err);
int images_list(void *instance, const struct sbx_call *call, struct sbx_output *ret_json, struct sbx_error *err);
int images_prune(void *instance, const struct sbx_call *call, struct sbx_output *ret_json, struct sbx_error *err);

/* ---- runtimes.c: which image; any thread. The image lives until stop. */

/* Is `name`, of an image, what was asked for: by that name or the core's for its language? NULL: anything is. */
bool runtime_is(const char *name, const char *wanted);
/* -ENOENT: no such runtime (the error tells which there are), or an image that is to be prepared first. */
int image_for_runtime(struct backend *backend, const char *runtime, const char *version, struct guest_image **ret_image,
                      struct sbx_error *err);
/* -EXDEV: this installation does not have it. */
int image_for_hash(struct backend *backend, const uint8_t hash[IMAGE_HASH_SIZE], struct guest_image **ret_image,
                   struct sbx_error *err);
void runtimes_free(struct backend *backend);

/* ---- cache.c: expanded images */

/* The expanded form of an image, read-only; made if it is not there yet. */
int cache_open(struct backend *backend, const struct guest_image *image, const struct sbx_call *call, int *ret_fd,
               struct sbx_error *err);

/* ---- wait.c */

/* Until `fd` has one of `events` or `call` ends, `limit_ms` at most (-1: no limit of its own).
 * 0, -ETIMEDOUT, -ECANCELED, -errno. `call` may be NULL. */
int wait_fd(int fd, short events, const struct sbx_call *call, int limit_ms);
/* 0 while the call goes on, -ECANCELED, -ETIMEDOUT. */
int call_state(const struct sbx_call *call);
/* Who holds the lock may wait long: a call that ends meanwhile does not wait with it. -ECANCELED, -ETIMEDOUT. */
int lock_for(pthread_mutex_t *lock, const struct sbx_call *call);
/* An error's text for these. Returns `code`. */
int gave_up(int code, const char *doing, struct sbx_error *err);

/* ---- probe.c */

int probe_backend(void *instance, const struct sbx_probe_events *events, const struct sbx_call *call);

/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the JavaScript guest know of each other.
 *
 * The worker is JavaScript (worker/, and files of the Node worker) in the realm of the session's code, as it is with
 * Node; C does what JavaScript can't. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quickjs.h"

#define CONTROL_FD 4
#ifndef WORKER_DIRECTORY
#define WORKER_DIRECTORY "/usr/lib/sbx/javascript"
#endif

struct guest {
        JSRuntime *runtime;
        JSContext *context;
        JSValue handler;             /* the worker's function that takes a request */
        JSValue stopped;             /* the worker's function that ends a request that was interrupted */
        JSValue rejected;            /* the worker's function that hears of promises nobody looks at */
        JSValue rehearsed;           /* the worker's function that forgets what it did while the image was made */
        volatile uint32_t interrupt; /* stored by the engine while code runs: stop it */
        bool interrupted;            /* it was, and nothing of the session's runs until the request is over */
        bool shielded;               /* the worker ends a request: no interrupt now */
        bool exhausted;              /* memory was refused since the request began */
        bool rehearsing;             /* the image is being made: nothing is written */
        void *reserve;               /* given back when memory is exhausted, so that this can be told */
};

extern struct guest guest;

/* ---- engine.c: what needs QuickJS's insides ---- */

/* Makes names that code declared with let, const and class ordinary properties of its global object: they last, and can
 * be declared again. -1: an exception is pending. */
int engine_settle_globals(JSContext *context);
/* "Array", "Map", "Proxy", ...: what an object is, whatever its prototype says. NULL: not an object. A value to free.
 */
JSValue engine_class_of(JSContext *context, JSValueConst value);
/* Differs when a property of the global object was added or removed. */
double engine_globals_version(JSContext *context);
/* By a C function that JavaScript called: stacks of errors end above it until it returns. */
void engine_hide_callers(JSContext *context);
/* Forgets what promises have yet to do: that of code which was stopped. */
void engine_drop_jobs(JSRuntime *runtime);
void engine_seed_random(JSContext *context, uint64_t seed);
/* An exception that no code can catch. */
bool engine_is_interrupt(JSContext *context, JSValueConst error);

/* ---- memory.c ---- */

JSRuntime *engine_new_runtime(void);

/* ---- guest.c ---- */

/* 1 if the code is to stop. */
int guest_poll_interrupt(JSRuntime *runtime, void *opaque);

/* ---- host.c, files.c: functions that the worker's JavaScript calls; each adds its own to `object` ---- */
struct host_function {
        const char *name;
        JSCFunction *call;
        int arguments;
};
int host_add(JSContext *context, JSValueConst object, const struct host_function *functions, size_t count);
int host_add_functions(JSContext *context, JSValueConst object);
int files_add_functions(JSContext *context, JSValueConst object);

/* A script of WORKER_DIRECTORY, as a function (require, module, host, __filename). */
JSValue host_load_script(JSContext *context, const char *name);
/* An ArrayBuffer that owns malloc'ed `data`, also when it can't be made. */
JSValue host_new_buffer(JSContext *context, uint8_t *data, size_t size);

/* ---- frames.c ---- */

/* The next frame. 1: `ret_type` and `ret_data` (malloc'ed); 0: the host closed the
 * stream; -1 with errno: EINTR between two frames only. */
int frame_receive(uint8_t *ret_type, uint8_t **ret_data, uint32_t *ret_size);
/* JSON alone, or with a blob. -1 with errno. */
int frame_send(uint8_t type, const void *json, size_t json_size, const void *blob, size_t blob_size);
int write_all(int fd, const void *data, size_t size);

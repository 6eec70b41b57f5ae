/* SPDX-License-Identifier: Apache-2.0 */
/* The JavaScript guest: boots QuickJS and the worker inside of the WebAssembly module, and hands it what the engine
 * asks for. Exports and imports are those of plugins/backend-wasm/engine/code.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine.h"

#define EXPORT(name) __attribute__((export_name(#name)))
#define IMPORT(name) __attribute__((import_module("sbx"), import_name(#name)))

#define HELLO 0x01
#define RESERVE_SIZE (512u << 10)
#define GC_THRESHOLD (2u << 20) /* small sessions never collect: that would write to every object of the image */

IMPORT(interrupt_mark) void sbx_interrupt_mark(uint32_t phase);

EXPORT(sbx_start) uint32_t sbx_start(void);
EXPORT(sbx_prepare) uint32_t sbx_prepare(void);
EXPORT(sbx_request) uint32_t sbx_request(void);
EXPORT(sbx_resume) void sbx_resume(uint32_t how);

struct guest guest;

int guest_poll_interrupt(JSRuntime *runtime, void *opaque) {
        (void)runtime;
        (void)opaque;
        if (guest.interrupt != 0 && !guest.shielded)
                guest.interrupted = true;
        return guest.interrupted && !guest.shielded;
}

/* Says what went wrong in the worker itself. */
static void print_exception(const char *what) {
        JSValue error = JS_GetException(guest.context);
        JSValue stack = JS_GetPropertyStr(guest.context, error, "stack");
        const char *text = JS_ToCString(guest.context, error);
        const char *trace = JS_IsString(stack) ? JS_ToCString(guest.context, stack) : NULL;

        fprintf(stderr, "%s: %s\n%s", what, text != NULL ? text : "an error that can't be shown",
                trace != NULL ? trace : "");
        JS_FreeCString(guest.context, text);
        JS_FreeCString(guest.context, trace);
        JS_FreeValue(guest.context, stack);
        JS_FreeValue(guest.context, error);
}

static void on_rejection(JSContext *context, JSValueConst promise, JSValueConst reason, JS_BOOL is_handled,
                         void *opaque) {
        JSValueConst arguments[] = {promise, reason, is_handled ? JS_TRUE : JS_FALSE};
        JSValue done;

        (void)context;
        (void)opaque;
        if (!JS_IsFunction(guest.context, guest.rejected))
                return;
        done = JS_Call(guest.context, guest.rejected, JS_UNDEFINED, 3, arguments);
        if (JS_IsException(done))
                JS_FreeValue(guest.context, JS_GetException(guest.context));
        JS_FreeValue(guest.context, done);
}

/* ---- boot ---- */

/* What worker.js may ask of C. */
static JSValue make_host(void) {
        JSValue host = JS_NewObject(guest.context);

        if (JS_IsException(host))
                return host;
        if (host_add_functions(guest.context, host) < 0 || files_add_functions(guest.context, host) < 0 ||
            JS_SetPropertyStr(guest.context, host, "version", JS_NewString(guest.context, CONFIG_VERSION)) < 0) {
                JS_FreeValue(guest.context, host);
                return JS_EXCEPTION;
        }
        return host;
}

static int load_worker(void) {
        JSContext *context = guest.context;
        JSValue make = host_load_script(context, "worker.js"), host = make_host(), module = JS_NewObject(context);
        JSValueConst arguments[] = {JS_UNDEFINED, module, host};
        JSValue done = JS_EXCEPTION, made;
        int r = -1;

        if (!JS_IsException(make) && !JS_IsException(host) && !JS_IsException(module))
                done = JS_Call(context, make, JS_UNDEFINED, 3, arguments);
        if (JS_IsException(done))
                print_exception("the worker does not start");
        else {
                made = JS_GetPropertyStr(context, module, "exports");
                guest.handler = JS_GetPropertyStr(context, made, "request");
                guest.stopped = JS_GetPropertyStr(context, made, "stopped");
                guest.rejected = JS_GetPropertyStr(context, made, "rejected");
                guest.rehearsed = JS_GetPropertyStr(context, made, "rehearsed");
                JS_FreeValue(context, made);
                r = 0;
        }
        JS_FreeValue(context, done);
        JS_FreeValue(context, make);
        JS_FreeValue(context, host);
        JS_FreeValue(context, module);
        return r;
}

/* Shows the engine where it stores an interrupt. */
static void learn_interrupt(void) {
        sbx_interrupt_mark(1);
        guest.interrupt = 1;
        sbx_interrupt_mark(2);
        guest.interrupt = 0;
}

uint32_t sbx_start(void) {
        guest.runtime = engine_new_runtime();
        if (guest.runtime == NULL)
                return 1;
        JS_SetInterruptHandler(guest.runtime, guest_poll_interrupt, NULL);
        JS_SetGCThreshold(guest.runtime, GC_THRESHOLD);
        guest.handler = guest.stopped = guest.rejected = guest.rehearsed = JS_UNDEFINED;
        guest.context = JS_NewContext(guest.runtime);
        guest.reserve = malloc(RESERVE_SIZE);
        if (guest.context == NULL || guest.reserve == NULL)
                return 1;
        JS_SetHostPromiseRejectionTracker(guest.runtime, on_rejection, NULL);
        if (load_worker() < 0)
                return 1;
        learn_interrupt();
        return 0;
}

/* ---- requests ---- */

/* Memory that was kept for the moment when there is none. */
static void take_reserve(void) {
        if (guest.reserve == NULL)
                guest.reserve = malloc(RESERVE_SIZE);
}

/* The request's own code was ended by an interrupt, or by an error of the worker's. */
static int stop_request(void) {
        JSValue error = JS_GetException(guest.context), done;
        bool interrupt = guest.interrupted || engine_is_interrupt(guest.context, error);
        JSValueConst arguments[] = {interrupt ? JS_TRUE : JS_FALSE, error};
        int r = 0;

        guest.shielded = true;
        if (interrupt)
                engine_drop_jobs(guest.runtime);
        done = JS_Call(guest.context, guest.stopped, JS_UNDEFINED, 2, arguments);
        if (JS_IsException(done)) {
                print_exception("the worker ends");
                r = -1;
        }
        JS_FreeValue(guest.context, done);
        JS_FreeValue(guest.context, error);
        return r;
}

/* Math.random's, which would be the same in each session of an image. */
static void seed_random(void) {
        uint64_t seed = 0;

        if (getentropy(&seed, sizeof(seed)) == 0)
                engine_seed_random(guest.context, seed);
}

/* 0: goes on; 1: the end. */
static uint32_t serve(uint8_t type, uint8_t *data, uint32_t size) {
        JSValue arguments[] = {JS_NewInt32(guest.context, type), host_new_buffer(guest.context, data, size)};
        JSValue done;
        int r = 0;

        guest.interrupt = 0; /* one that came between two requests was meant for the first */
        guest.interrupted = guest.shielded = guest.exhausted = false;
        take_reserve();
        if (type == HELLO)
                seed_random();
        done = JS_IsException(arguments[1]) ? JS_EXCEPTION
                                            : JS_Call(guest.context, guest.handler, JS_UNDEFINED, 2, arguments);
        if (JS_IsException(done))
                r = stop_request();
        JS_FreeValue(guest.context, done);
        JS_FreeValue(guest.context, arguments[1]);
        return r < 0;
}

static int rehearse_request(uint8_t type, const char *header, const char *source) {
        size_t header_size = strlen(header), source_size = source != NULL ? strlen(source) : 0;
        size_t prefix = source != NULL ? sizeof(uint32_t) : 0, size = prefix + header_size + source_size;
        uint32_t length = (uint32_t)header_size; /* little endian, as the guest is */
        uint8_t *data = malloc(size);

        if (data == NULL)
                return -1;
        memcpy(data, &length, prefix);
        memcpy(data + prefix, header, header_size);
        if (source != NULL)
                memcpy(data + prefix + header_size, source, source_size);
        return serve(type, data, (uint32_t)size) == 0 ? 0 : -1;
}

/* Requests that every session sends, to no one: what they make for the first time is in the image then. */
static int rehearse(void) {
        static const struct {
                uint8_t type;
                const char *header, *source;
        } requests[] = {
                {HELLO, "{\"protocol\":1}", NULL},
                {0x02, "{\"id\":1,\"filename\":\"<execution>\"}",
                 "const x = {a: [1, 'b']}; console.log(x, 1, `${2}`); x"},
                {0x02, "{\"id\":2,\"filename\":\"<execution>\"}",
                 "let s = await Promise.resolve(1); function f() { return s; } f()"},
                {0x02, "{\"id\":3,\"filename\":\"<execution>\"}",
                 "class A {} ; for (const i of [1]) JSON.stringify({i}); throw new Error('e')"},
                {0x03, "{\"id\":4,\"names\":null}", NULL},
                {0x05, "{\"id\":5}", NULL},
        };
        JSValue done;
        int r = 0;

        guest.rehearsing = true;
        for (unsigned round = 0; round < 2; round++)
                for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]) && r == 0; i++)
                        r = rehearse_request(requests[i].type, requests[i].header, requests[i].source);
        guest.rehearsing = false;
        done = JS_Call(guest.context, guest.rehearsed, JS_UNDEFINED, 0, NULL);
        if (JS_IsException(done)) {
                print_exception("the rehearsal");
                r = -1;
        }
        JS_FreeValue(guest.context, done);
        return r;
}

uint32_t sbx_prepare(void) {
        if (chdir("/work") < 0) {
                fprintf(stderr, "/work: %s\n", strerror(errno));
                return 1;
        }
        if (rehearse() < 0)
                return 1;
        JS_RunGC(guest.runtime);
        JS_SetGCThreshold(guest.runtime, GC_THRESHOLD);
        return 0;
}

uint32_t sbx_request(void) {
        uint8_t type, *data;
        uint32_t size;
        int r;

        do
                r = frame_receive(&type, &data, &size);
        while (r < 0 && errno == EINTR);
        if (r < 0)
                fprintf(stderr, "the control stream: %s\n", strerror(errno));
        return r <= 0 ? 1 : serve(type, data, size);
}

void sbx_resume(uint32_t how) {
        (void)how;
        seed_random();
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What the worker's JavaScript asks of this side: running code promises, frames, clocks. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine.h"

#define SCRIPT_MAX (1u << 20)
#define RANDOM_MAX 65536u

int host_add(JSContext *context, JSValueConst object, const struct host_function *functions, size_t count) {
        for (size_t i = 0; i < count; i++)
                if (JS_SetPropertyStr(
                            context, object, functions[i].name,
                            JS_NewCFunction(context, functions[i].call, functions[i].name, functions[i].arguments)) < 0)
                        return -1;
        return 0;
}

/* An exception that code can't catch, if it is to stop. */
static bool throw_interrupt(JSContext *context) {
        JSValue error;

        if (!guest_poll_interrupt(guest.runtime, NULL))
                return false;
        JS_ThrowInternalError(context, "interrupted");
        error = JS_GetException(context);
        JS_SetUncatchableError(context, error, true);
        JS_Throw(context, error);
        return true;
}

/* ---- running code ---- */

/* compiles(source, with await?): it would. */
static JSValue host_compiles(JSContext *context, JSValueConst this, int count, JSValueConst *arguments) {
        int flags = JS_EVAL_TYPE_GLOBAL | JS_EVAL_FLAG_COMPILE_ONLY;
        const char *source;
        size_t size;
        JSValue code;
        bool good;

        (void)this;
        (void)count;
        if (JS_ToBool(context, arguments[1]))
                flags |= JS_EVAL_FLAG_ASYNC;
        source = JS_ToCStringLen(context, &size, arguments[0]);
        if (source == NULL)
                return JS_EXCEPTION;
        code = JS_Eval(context, source, size, "<test>", flags);
        JS_FreeCString(context, source);
        good = !JS_IsException(code);
        JS_FreeValue(context, good ? code : JS_GetException(context));
        return JS_NewBool(context, good);
}

/* evaluate(source, file name, with await?) */
static JSValue host_evaluate(JSContext *context, JSValueConst this, int count, JSValueConst *arguments) {
        int flags = JS_EVAL_TYPE_GLOBAL | JS_EVAL_FLAG_COMPILE_ONLY;
        const char *source, *name;
        size_t size;
        JSValue code = JS_EXCEPTION;

        (void)this;
        (void)count;
        if (JS_ToBool(context, arguments[2]))
                flags |= JS_EVAL_FLAG_ASYNC;
        source = JS_ToCStringLen(context, &size, arguments[0]);
        name = JS_ToCString(context, arguments[1]);
        if (source != NULL && name != NULL)
                code = JS_Eval(context, source, size, name, flags);
        JS_FreeCString(context, source);
        JS_FreeCString(context, name);
        if (JS_IsException(code))
                return code;
        engine_hide_callers(context);
        return JS_EvalFunction(context, code);
}

/* load(name): a script of the worker's, as a function. */
static JSValue host_load(JSContext *context, JSValueConst this, int count, JSValueConst *arguments) {
        const char *name = JS_ToCString(context, arguments[0]);
        JSValue value;

        (void)this;
        (void)count;
        if (name == NULL)
                return JS_EXCEPTION;
        value = host_load_script(context, name);
        JS_FreeCString(context, name);
        return value;
}

JSValue host_load_script(JSContext *context, const char *name) {
        static const char head[] = "(function (require, module, host, __filename) {", tail[] = "\n})";
        char path[256], *text = malloc(SCRIPT_MAX);
        FILE *file;
        size_t size;
        JSValue value;

        if (text == NULL)
                return JS_ThrowOutOfMemory(context);
        snprintf(path, sizeof(path), "%s/%s", WORKER_DIRECTORY, name);
        file = fopen(path, "r");
        if (file == NULL) {
                free(text);
                return JS_ThrowInternalError(context, "%s: %s", path, strerror(errno));
        }
        memcpy(text, head, sizeof(head) - 1);
        size = sizeof(head) - 1;
        size += fread(text + size, 1, SCRIPT_MAX - sizeof(head) - sizeof(tail), file);
        fclose(file);
        memcpy(text + size, tail, sizeof(tail));
        value = JS_Eval(context, text, size + sizeof(tail) - 1, path, JS_EVAL_TYPE_GLOBAL);
        free(text);
        return value;
}

/* Everything that promises have to do now. */
static JSValue host_run_jobs(JSContext *context, JSValueConst this, int count, JSValueConst *arguments) {
        JSContext *where;
        int r;

        (void)this;
        (void)count;
        (void)arguments;
        engine_hide_callers(context);
        while ((r = JS_ExecutePendingJob(guest.runtime, &where)) > 0)
                if (throw_interrupt(context))
                        return JS_EXCEPTION;
        return r < 0 ? JS_EXCEPTION : JS_UNDEFINED;
}

static JSValue host_settle(JSContext *context, JSValueConst this, int count, JSValueConst *arguments) {
        (void)context;
        (void)this;
        (void)count;
        (void)arguments;
        return engine_settle_globals(guest.context) < 0 ? JS_EXCEPTION : JS_UNDEFINED;
}

/* ---- values ---- */

static JSValue host_class_of(JSContext *context, JSValueConst this, int count, JSValueConst *arguments) {
        (void)this;
        (void)count;
        return engine_class_of(context, arguments[0]);
}

/* {state: "pending", "fulfilled" or "rejected", value}; null: no promise. */
static JSValue host_promise(JSContext *context, JSValueConst this, int count, JSValueConst *arguments) {
        static const char *const names[] = {"pending", "fulfilled", "rejected"};
        int state = JS_PromiseState(context, arguments[0]);
        JSValue told;

        (void)this;
        (void)count;
        if (state < JS_PROMISE_PENDING || state > JS_PROMISE_REJECTED)
                return JS_NULL;
        told = JS_NewObject(context);
        if (JS_IsException(told) ||
            JS_SetPropertyStr(context, told, "state", JS_NewString(context, names[state])) < 0 ||
            JS_SetPropertyStr(context, told, "value", JS_PromiseResult(context, arguments[0])) < 0) {
                JS_FreeValue(context, told);
                return JS_EXCEPTION;
        }
        return told;
}

static JSValue host_is_interrupt(JSContext *context, JSValueConst this, int count, JSValueConst *arguments) {
        (void)this;
        (void)count;
        return JS_NewBool(context, engine_is_interrupt(context, arguments[0]) || guest.interrupted);
}

/* UTF-8, lone surrogates replaced. */
static JSValue host_encode(JSContext *context, JSValueConst this, int count, JSValueConst *arguments) {
        size_t size;
        const char *text = JS_ToCStringLen(context, &size, arguments[0]);
        JSValue made;

        (void)this;
        (void)count;
        if (text == NULL)
                return JS_EXCEPTION;
        made = JS_NewArrayBufferCopy(context, (const uint8_t *)text, size);
        JS_FreeCString(context, text);
        return made;
}

/* decode(buffer, from, to) */
static JSValue host_decode(JSContext *context, JSValueConst this, int count, JSValueConst *arguments) {
        size_t size;
        const uint8_t *data = JS_GetArrayBuffer(context, &size, arguments[0]);
        uint32_t from, to;

        (void)this;
        (void)count;
        if (data == NULL || JS_ToUint32(context, &from, arguments[1]) < 0 ||
            JS_ToUint32(context, &to, arguments[2]) < 0)
                return JS_EXCEPTION;
        if (to > size || from > to)
                return JS_ThrowRangeError(context, "bytes %u to %u of %zu", from, to, size);
        return JS_NewStringLen(context, (const char *)data + from, to - from);
}

static JSValue host_random(JSContext *context, JSValueConst this, int count, JSValueConst *arguments) {
        uint8_t *data;
        uint32_t size;
        JSValue made;

        (void)this;
        (void)count;
        if (JS_ToUint32(context, &size, arguments[0]) < 0)
                return JS_EXCEPTION;
        if (size > RANDOM_MAX)
                return JS_ThrowRangeError(context, "at most %u random bytes at a time", RANDOM_MAX);
        data = malloc((size_t)size + 1);
        if (data == NULL)
                return JS_ThrowOutOfMemory(context);
        for (uint32_t at = 0; at < size; at += 256)
                if (getentropy(data + at, size - at < 256 ? size - at : 256) < 0) {
                        free(data);
                        return JS_ThrowInternalError(context, "no random bytes: %s", strerror(errno));
                }
        made = JS_NewArrayBufferCopy(context, data, size);
        free(data);
        return made;
}

/* ---- frames and output ---- */

/* send(type, JSON text, blob: text, ArrayBuffer or undefined) */
static JSValue host_send(JSContext *context, JSValueConst this, int count, JSValueConst *arguments) {
        size_t json_size, blob_size = 0;
        const char *json, *text = NULL;
        const void *blob = NULL;
        int32_t type;
        int r;

        (void)this;
        (void)count;
        if (JS_ToInt32(context, &type, arguments[0]) < 0)
                return JS_EXCEPTION;
        json = JS_ToCStringLen(context, &json_size, arguments[1]);
        if (json == NULL)
                return JS_EXCEPTION;
        if (JS_IsString(arguments[2]))
                blob = text = JS_ToCStringLen(context, &blob_size, arguments[2]);
        else if (!JS_IsUndefined(arguments[2]))
                blob = JS_GetArrayBuffer(context, &blob_size, arguments[2]);
        r = blob == NULL && !JS_IsUndefined(arguments[2]) ? -2
                                                          : frame_send((uint8_t)type, json, json_size, blob, blob_size);
        if (r == -1)
                JS_ThrowInternalError(context, "the control stream: %s", strerror(errno));
        JS_FreeCString(context, json);
        JS_FreeCString(context, text);
        return r < 0 ? JS_EXCEPTION : JS_UNDEFINED;
}

static void free_data(JSRuntime *runtime, void *opaque, void *data) {
        (void)runtime;
        (void)opaque;
        free(data);
}

JSValue host_new_buffer(JSContext *context, uint8_t *data, size_t size) {
        JSValue made = JS_NewArrayBuffer(context, data, size, free_data, NULL, false);

        if (JS_IsException(made))
                free(data);
        return made;
}

/* The next frame: {type, data}; null: the host closed the stream. */
static JSValue host_receive(JSContext *context, JSValueConst this, int count, JSValueConst *arguments) {
        uint8_t type, *data;
        uint32_t size;
        JSValue told;
        int r;

        (void)this;
        (void)count;
        (void)arguments;
        while ((r = frame_receive(&type, &data, &size)) < 0 && errno == EINTR)
                if (throw_interrupt(context))
                        return JS_EXCEPTION;
        if (r < 0)
                return JS_ThrowInternalError(context, "the control stream: %s", strerror(errno));
        if (r == 0)
                return JS_NULL;
        told = JS_NewObject(context);
        if (JS_IsException(told)) {
                free(data);
                return told;
        }
        if (JS_SetPropertyStr(context, told, "type", JS_NewInt32(context, type)) < 0 ||
            JS_SetPropertyStr(context, told, "data", host_new_buffer(context, data, size)) < 0) {
                JS_FreeValue(context, told);
                return JS_EXCEPTION;
        }
        return told;
}

/* write(descriptor, text) */
static JSValue host_write(JSContext *context, JSValueConst this, int count, JSValueConst *arguments) {
        size_t size;
        const char *text;
        int32_t fd;
        int r;

        (void)this;
        (void)count;
        if (JS_ToInt32(context, &fd, arguments[0]) < 0)
                return JS_EXCEPTION;
        text = JS_ToCStringLen(context, &size, arguments[1]);
        if (text == NULL)
                return JS_EXCEPTION;
        r = write_all(fd == 2 ? 2 : 1, text, size);
        JS_FreeCString(context, text);
        if (r < 0)
                return JS_ThrowInternalError(context, "output: %s", strerror(errno));
        return throw_interrupt(context) ? JS_EXCEPTION : JS_UNDEFINED;
}

/* ---- time ---- */

static double now_ms(void) {
        struct timespec now = {0};

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static JSValue host_now(JSContext *context, JSValueConst this, int count, JSValueConst *arguments) {
        (void)this;
        (void)count;
        (void)arguments;
        return JS_NewFloat64(context, now_ms());
}

/* sleep(milliseconds); an interrupt ends it. */
static JSValue host_sleep(JSContext *context, JSValueConst this, int count, JSValueConst *arguments) {
        double wanted, end;

        (void)this;
        (void)count;
        if (JS_ToFloat64(context, &wanted, arguments[0]) < 0)
                return JS_EXCEPTION;
        end = now_ms() + wanted;
        for (double left = wanted; left > 0; left = end - now_ms()) {
                double part = left < 1e6 ? left : 1e6;
                struct timespec time = {(time_t)(part / 1e3), 0};

                time.tv_nsec = (long)((part - (double)time.tv_sec * 1e3) * 1e6);
                nanosleep(&time, NULL);
                if (throw_interrupt(context))
                        return JS_EXCEPTION;
        }
        return JS_UNDEFINED;
}

static JSValue host_globals_version(JSContext *context, JSValueConst this, int count, JSValueConst *arguments) {
        (void)this;
        (void)count;
        (void)arguments;
        return JS_NewFloat64(context, engine_globals_version(context));
}

/* Was memory refused? If so, there is some now to tell it. */
static JSValue host_is_exhausted(JSContext *context, JSValueConst this, int count, JSValueConst *arguments) {
        (void)this;
        (void)count;
        (void)arguments;
        if (guest.exhausted) {
                free(guest.reserve);
                guest.reserve = NULL;
        }
        return JS_NewBool(context, guest.exhausted);
}

/* Ends the code that is running, as an interrupt does. */
static JSValue host_leave(JSContext *context, JSValueConst this, int count, JSValueConst *arguments) {
        (void)this;
        (void)count;
        (void)arguments;
        guest.interrupted = true;
        return throw_interrupt(context) ? JS_EXCEPTION : JS_UNDEFINED;
}

/* The worker ends a request: nothing interrupts it now. */
static JSValue host_shield(JSContext *context, JSValueConst this, int count, JSValueConst *arguments) {
        (void)this;
        (void)count;
        (void)arguments;
        if (throw_interrupt(context))
                return JS_EXCEPTION;
        guest.shielded = true;
        return JS_UNDEFINED;
}

int host_add_functions(JSContext *context, JSValueConst object) {
        static const struct host_function functions[] = {
                {"classOf", host_class_of, 1},
                {"compiles", host_compiles, 2},
                {"decode", host_decode, 3},
                {"encode", host_encode, 1},
                {"evaluate", host_evaluate, 3},
                {"globalsVersion", host_globals_version, 0},
                {"isExhausted", host_is_exhausted, 0},
                {"isInterrupt", host_is_interrupt, 1},
                {"leave", host_leave, 0},
                {"load", host_load, 1},
                {"now", host_now, 0},
                {"promise", host_promise, 1},
                {"random", host_random, 1},
                {"receive", host_receive, 0},
                {"runJobs", host_run_jobs, 0},
                {"send", host_send, 3},
                {"settle", host_settle, 0},
                {"shield", host_shield, 0},
                {"sleep", host_sleep, 1},
                {"write", host_write, 2},
        };

        return host_add(context, object, functions, sizeof(functions) / sizeof(functions[0]));
}

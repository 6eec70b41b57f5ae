/* SPDX-License-Identifier: Apache-2.0 */
/* The guest's part in C: boots CPython inside of the WebAssembly module, and hands what the engine asks for on to the
 * package sbx_wasm.
 *
 * Exports and imports are those of plugins/backend-wasm/engine/code.h. Compiled for wasm32-wasi and linked with
 * libpython as a reactor. */
#include "guest.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <wasi/api.h>

#define EXPORT(name) __attribute__((export_name(#name)))
#define IMPORT(name) __attribute__((import_module("sbx"), import_name(#name)))

/* Left of each stack when calls are refused: what CPython's C functions need between two looks at it (64 levels), and
 * what it takes to raise the exception and to clean up. */
#define NATIVE_RESERVE (2u << 20)
#define SHADOW_RESERVE (1u << 20)

IMPORT(interrupt_mark) void sbx_interrupt_mark(uint32_t phase);
IMPORT(stack_left) uint32_t sbx_stack_left(void); /* bytes of the native stack */

EXPORT(sbx_start) uint32_t sbx_start(void);
EXPORT(sbx_prepare) uint32_t sbx_prepare(void);
EXPORT(sbx_request) uint32_t sbx_request(void);
EXPORT(sbx_resume) void sbx_resume(uint32_t how);

/* Functions of sbx_wasm.guest. */
static PyObject *guest_prepare, *guest_request, *guest_resume;

/* ---- what CPython and wasi-libc lack ---- */

/* wasi-libc's own answers ENOTSUP when the waiting was interrupted, so that time.sleep() would fail and not call the
 * handlers of signals. Ours is found first. */
int clock_nanosleep(clockid_t clock, int flags, const struct timespec *request, struct timespec *remaining) {
        __wasi_clockid_t id = clock == CLOCK_REALTIME ? __WASI_CLOCKID_REALTIME : __WASI_CLOCKID_MONOTONIC;
        bool absolute = (flags & TIMER_ABSTIME) != 0;
        __wasi_subscription_t wanted = {
                .u = {.tag = __WASI_EVENTTYPE_CLOCK,
                      .u.clock = {.id = id, .flags = absolute ? __WASI_SUBCLOCKFLAGS_SUBSCRIPTION_CLOCK_ABSTIME : 0}},
        };
        __wasi_event_t event;
        __wasi_size_t count;
        __wasi_errno_t error;

        (void)remaining;
        if (request->tv_nsec < 0 || request->tv_nsec >= 1000000000)
                return EINVAL;
        if (request->tv_sec < 0)
                return absolute ? 0 : EINVAL;
        if ((uint64_t)request->tv_sec >= UINT64_MAX / 1000000000 - 1)
                wanted.u.u.clock.timeout = UINT64_MAX;
        else
                wanted.u.u.clock.timeout = (uint64_t)request->tv_sec * 1000000000 + (uint64_t)request->tv_nsec;
        error = __wasi_poll_oneoff(&wanted, &event, 1, &count);
        return error != 0 ? error : event.error;
}

/* Asked by the interpreter every few levels of recursion (recursion.patch): 1 if a stack is nearly used up. Both the
 * stack in linear memory and the one that native code uses are finite, and a trap would be the end of the session. */
int PyOS_CheckStack(void) {
        volatile char here = 0;

        return (uintptr_t)&here < SHADOW_RESERVE || sbx_stack_left() < NATIVE_RESERVE;
}

/* ---- boot ---- */

static PyStatus configure(PyConfig *config) {
        static const wchar_t *const paths[] = {L"/usr/lib/python3.11", L"/usr/lib/python3/site-packages",
                                               L"/usr/lib/sbx"};
        PyStatus status = PyConfig_SetString(config, &config->home, L"/usr");

        config->site_import = 0;
        config->install_signal_handlers = 1;
        config->write_bytecode = 0;
        config->pathconfig_warnings = 0;
        /* The seed is part of every string's hash in the image, so it can't change with the session. */
        config->use_hash_seed = 1;
        config->hash_seed = 0;
        if (!PyStatus_Exception(status))
                status = PyConfig_SetString(config, &config->stdio_encoding, L"utf-8");
        if (!PyStatus_Exception(status))
                status = PyConfig_SetString(config, &config->stdio_errors, L"backslashreplace");
        config->module_search_paths_set = 1;
        for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]) && !PyStatus_Exception(status); i++)
                status = PyWideStringList_Append(&config->module_search_paths, paths[i]);
        return status;
}

static int boot(void) {
        PyPreConfig preconfig;
        PyConfig config;
        PyStatus status;

        PyPreConfig_InitIsolatedConfig(&preconfig);
        preconfig.utf8_mode = 1;
        status = Py_PreInitialize(&preconfig);
        if (!PyStatus_Exception(status)) {
                PyConfig_InitIsolatedConfig(&config);
                status = configure(&config);
                if (!PyStatus_Exception(status))
                        status = Py_InitializeFromConfig(&config);
                PyConfig_Clear(&config);
        }
        if (!PyStatus_Exception(status))
                return 0;
        fprintf(stderr, "CPython does not start: %s\n", status.err_msg ? status.err_msg : "no reason given");
        return -1;
}

static int find_functions(void) {
        PyObject *module = PyImport_ImportModule("sbx_wasm.guest");

        if (module == NULL)
                return -1;
        guest_prepare = PyObject_GetAttrString(module, "prepare");
        guest_request = PyObject_GetAttrString(module, "request");
        guest_resume = PyObject_GetAttrString(module, "resume");
        Py_DECREF(module);
        return guest_prepare && guest_request && guest_resume ? 0 : -1;
}

/* Shows the engine what SIGINT does to memory, so that it can do the same to code that is running. */
static int learn_interrupt(void) {
        int found;

        sbx_interrupt_mark(1);
        raise(SIGINT);
        sbx_interrupt_mark(2);
        found = PyErr_CheckSignals() != 0 && PyErr_ExceptionMatches(PyExc_KeyboardInterrupt);
        PyErr_Clear();
        if (!found)
                fputs("SIGINT raises no KeyboardInterrupt\n", stderr);
        return found ? 0 : -1;
}

uint32_t sbx_start(void) {
        static const char *const variables[][2] = {
                {"HOME", "/tmp"}, {"LANG", "C.UTF-8"}, {"PATH", "/usr/bin:/bin"}, {"TMPDIR", "/tmp"}};

        for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
                if (setenv(variables[i][0], variables[i][1], 1) != 0)
                        return 1;
        if (reserve_install() < 0 || boot() < 0)
                return 1;
        if (find_functions() < 0) {
                PyErr_Print();
                return 1;
        }
        return learn_interrupt() < 0;
}

uint32_t sbx_prepare(void) {
        PyObject *result = PyObject_CallNoArgs(guest_prepare);

        if (result == NULL)
                PyErr_Print();
        Py_XDECREF(result);
        return result == NULL;
}

/* ---- sessions ---- */

uint32_t sbx_request(void) {
        PyObject *result = PyObject_CallNoArgs(guest_request);
        bool goes_on = result == Py_True;

        PyErr_Clear(); /* the worker has told of it; there is nobody else to tell */
        Py_XDECREF(result);
        return !goes_on;
}

void sbx_resume(uint32_t how) {
        PyObject *result = PyObject_CallFunction(guest_resume, "I", how);

        if (result == NULL)
                abort(); /* two sessions would draw the same random numbers */
        Py_DECREF(result);
}

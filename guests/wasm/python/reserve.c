/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that the user's code can't take, so that the worker can tell of code that has taken all.
 *
 * The engine refuses to let memory grow beyond the session's limit, and CPython makes a MemoryError of that. But the
 * worker allocates, too: to read a request, to compile it, to send what went wrong. Without a reserve, the first of
 * these that fails would be the end of the session. So the interpreter's allocators are the ordinary ones, but when
 * they fail outside of the user's code, they give the reserve up and try again.
 *
 * Python sees this as the module _sbx; sbx_wasm/memory.py uses it. */
#include "guest.h"

#include <stdbool.h>
#include <stdlib.h>

#define RESERVE_MAX (768u << 10) /* two arenas of small objects, and something for larger ones */
#define RESERVE_MIN (64u << 10)

static void *reserve;
static bool user_code;

/* True: there is more to be had now. */
static bool give_up(void) {
        if (user_code || reserve == NULL)
                return false;
        free(reserve);
        reserve = NULL;
        return true;
}

static void *take(void *context, size_t size) {
        void *memory;

        (void)context;
        do
                memory = malloc(size > 0 ? size : 1);
        while (memory == NULL && give_up());
        return memory;
}

static void *take_zeroed(void *context, size_t count, size_t size) {
        void *memory;

        (void)context;
        do
                memory = calloc(count > 0 ? count : 1, size > 0 ? size : 1);
        while (memory == NULL && give_up());
        return memory;
}

static void *take_again(void *context, void *old, size_t size) {
        void *memory;

        (void)context;
        do
                memory = realloc(old, size > 0 ? size : 1);
        while (memory == NULL && give_up());
        return memory;
}

static void put_back(void *context, void *memory) {
        (void)context;
        free(memory);
}

static void *take_arena(void *context, size_t size) {
        return take(context, size);
}

static void put_arena_back(void *context, void *memory, size_t size) {
        (void)context;
        (void)size;
        free(memory);
}

/* ---- what Python calls ---- */

static PyObject *hold(PyObject *module, PyObject *unused) {
        (void)module;
        (void)unused;
        for (size_t size = RESERVE_MAX; reserve == NULL && size >= RESERVE_MIN; size /= 2)
                reserve = malloc(size);
        Py_RETURN_NONE;
}

static PyObject *release(PyObject *module, PyObject *unused) {
        (void)module;
        (void)unused;
        free(reserve);
        reserve = NULL;
        Py_RETURN_NONE;
}

static PyObject *enter(PyObject *module, PyObject *unused) {
        (void)module;
        (void)unused;
        user_code = true;
        Py_RETURN_NONE;
}

static PyObject *leave(PyObject *module, PyObject *unused) {
        (void)module;
        (void)unused;
        user_code = false;
        Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
        {"hold", hold, METH_NOARGS, "Takes the reserve, or as much of it as there is."},
        {"release", release, METH_NOARGS, "Gives the reserve up: the user's code may have it, too."},
        {"enter", enter, METH_NOARGS, "From now on the user's code runs, and gets nothing of the reserve."},
        {"leave", leave, METH_NOARGS, "The user's code has ended."},
        {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
        .m_base = PyModuleDef_HEAD_INIT, .m_name = "_sbx", .m_size = -1, .m_methods = functions};

static PyObject *make_module(void) {
        return PyModule_Create(&definition);
}

int reserve_install(void) {
        PyMemAllocatorEx raw = {.malloc = take, .calloc = take_zeroed, .realloc = take_again, .free = put_back};
        PyObjectArenaAllocator arenas = {.alloc = take_arena, .free = put_arena_back};

        PyMem_SetAllocator(PYMEM_DOMAIN_RAW, &raw);
        PyObject_SetArenaAllocator(&arenas);
        return PyImport_AppendInittab("_sbx", make_module);
}

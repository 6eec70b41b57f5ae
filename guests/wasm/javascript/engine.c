/* SPDX-License-Identifier: Apache-2.0 */
/* QuickJS itself, and what the guest needs of its insides: it is one compilation unit with them. */
#include <stdint.h>

#define IMPORT(name) __attribute__((import_module("sbx"), import_name(#name)))

/* Left of each stack when calls are refused: what the deepest chain of C functions between two looks takes. */
#define NATIVE_RESERVE (2u << 20)
#define SHADOW_RESERVE (512u << 10)

IMPORT(stack_left) uint32_t sbx_stack_left(void); /* bytes of the native stack */

static inline int engine_stack_is_low(uintptr_t wanted) {
        return (uintptr_t)__builtin_frame_address(0) < SHADOW_RESERVE + wanted || sbx_stack_left() < NATIVE_RESERVE;
}

#include "quickjs.c"

#include "engine.h"

/* A property of global_var_obj: to the global object, or away if its declaration was never reached. */
static int settle_name(JSContext *context, JSAtom name) {
        JSProperty *property;
        JSShapeProperty *shape = find_own_property(&property, JS_VALUE_GET_OBJ(context->global_var_obj), name);
        int r = 0;

        if (shape != NULL && !JS_IsUninitialized(property->u.value))
                r = JS_DefinePropertyValue(context, context->global_obj, name, JS_DupValue(context, property->u.value),
                                           JS_PROP_C_W_E);
        if (r >= 0)
                r = JS_DeleteProperty(context, context->global_var_obj, name, 0);
        return r < 0 ? -1 : 0;
}

int engine_settle_globals(JSContext *context) {
        JSPropertyEnum *names;
        uint32_t count;
        int r = 0;

        if (JS_VALUE_GET_OBJ(context->global_var_obj)->shape->prop_count == 0)
                return 0;
        if (JS_GetOwnPropertyNames(context, &names, &count, context->global_var_obj, JS_GPN_STRING_MASK) < 0)
                return -1;
        for (uint32_t i = 0; i < count && r == 0; i++)
                r = settle_name(context, names[i].atom);
        for (uint32_t i = 0; i < count; i++)
                JS_FreeAtom(context, names[i].atom);
        js_free(context, names);
        return r;
}

double engine_globals_version(JSContext *context) {
        const JSShape *shape = JS_VALUE_GET_OBJ(context->global_obj)->shape;

        return (double)shape->prop_count * 4294967296.0 + (double)shape->deleted_prop_count;
}

JSValue engine_class_of(JSContext *context, JSValueConst value) {
        if (JS_VALUE_GET_TAG(value) != JS_TAG_OBJECT)
                return JS_NULL;
        return JS_AtomToString(context, context->rt->class_array[JS_VALUE_GET_OBJ(value)->class_id].class_name);
}

void engine_hide_callers(JSContext *context) {
        if (context->rt->current_stack_frame != NULL)
                context->rt->current_stack_frame->js_mode |= JS_MODE_BACKTRACE_BARRIER;
}

void engine_drop_jobs(JSRuntime *runtime) {
        struct list_head *item, *next;

        list_for_each_safe(item, next, &runtime->job_list) {
                JSJobEntry *job = list_entry(item, JSJobEntry, link);

                list_del(&job->link);
                for (int i = 0; i < job->argc; i++)
                        JS_FreeValueRT(runtime, job->argv[i]);
                js_free_rt(runtime, job);
        }
}

void engine_seed_random(JSContext *context, uint64_t seed) {
        context->random_state = seed != 0 ? seed : 1;
}

bool engine_is_interrupt(JSContext *context, JSValueConst error) {
        return JS_IsUncatchableError(context, error);
}

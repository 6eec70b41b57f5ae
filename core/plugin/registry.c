/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin instances of a runtime: brought up at the first request, handed out by name, taken down in reverse. */
#include "plugin/internal.h"

#include <poll.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"

/* How often a thread that waits for another one's start looks at its own cancel fd. */
#define WAIT_SLICE_MS 50
/* What a backend runs on (a container engine) may come later than this program: who asks after so long tries again. */
#define RETRY_MS 1000

struct member {
        struct sbx_slot slot;     /* of the thread that set `busy`; without one, under the lock */
        bool busy;                /* a thread is bringing it up */
        struct sbx_error failure; /* remembered: code is not 0 */
        uint64_t retry_ns;        /* until then; 0: for good */
        unsigned opened, started; /* when: 0 is never; later is larger */
};

struct sbx_registry {
        struct sbx_slot_services services;
        struct member *members;
        size_t count;
        pthread_mutex_t lock; /* `clock`, and of each member everything; its slot while not busy */
        pthread_cond_t changed;
        unsigned clock;
};

/* ---- creation -------------------------------------------------------------------------------------------- */

static int init_locks(struct sbx_registry *registry) {
        int r = sbx_cond_init(&registry->changed);

        if (r < 0)
                return r;
        r = -pthread_mutex_init(&registry->lock, NULL);
        if (r < 0)
                pthread_cond_destroy(&registry->changed);
        return r;
}

int sbx_registry_new(const struct sbx_config *config, const struct sbx_logger *logger,
                     const struct sbx_directories *directories, const struct sbx_tool_services *tools,
                     struct sbx_registry **ret_registry, struct sbx_error *err) {
        size_t count = sbx_config_plugin_count(config);
        _cleanup_free_ struct sbx_registry *registry = calloc(1, sizeof(*registry));
        _cleanup_free_ struct member *members = calloc(count + 1, sizeof(*members));
        int r;

        if (registry == NULL || members == NULL)
                return SBX_NOMEM(err, SBX_PLUGIN_ORIGIN);
        r = init_locks(registry);
        if (r < 0)
                return sbx_error_set(err, r, SBX_PLUGIN_ORIGIN, NULL, "can't make a lock: %s", SBX_ERRNO_TEXT(r));
        registry->services = (struct sbx_slot_services){config, logger, directories, tools};
        registry->count = count;
        for (size_t i = 0; i < count; i++) {
                members[i].slot.entry = sbx_config_plugin(config, i);
                members[i].slot.instance.name = members[i].slot.entry->name;
        }
        registry->members = steal_pointer(members);
        *ret_registry = steal_pointer(registry);
        return 0;
}

/* The member with the highest mark below `below`, so that members can be walked from the last to the first. */
static struct member *last_before(struct sbx_registry *registry, unsigned below, bool started) {
        struct member *found = NULL;
        unsigned best = 0;

        for (size_t i = 0; i < registry->count; i++) {
                unsigned mark = started ? registry->members[i].started : registry->members[i].opened;

                if (mark > best && mark < below) {
                        best = mark;
                        found = &registry->members[i];
                }
        }
        return found;
}

void sbx_registry_free(struct sbx_registry *registry) {
        struct member *member;

        if (registry == NULL)
                return;
        for (unsigned mark = UINT32_MAX; (member = last_before(registry, mark, true)) != NULL; mark = member->started)
                sbx_slot_stop(&member->slot);
        for (unsigned mark = UINT32_MAX; (member = last_before(registry, mark, false)) != NULL; mark = member->opened)
                sbx_slot_close(&member->slot);
        for (size_t i = 0; i < registry->count; i++)
                sbx_slot_unload(&registry->members[i].slot);
        pthread_cond_destroy(&registry->changed);
        pthread_mutex_destroy(&registry->lock);
        free(registry->members);
        free(registry);
}

/* ---- finding --------------------------------------------------------------------------------------------- */

/* The names of the enabled entries, of one kind where the name of the plugin tells; 0 is every kind. */
static void list_names(const struct sbx_registry *registry, uint32_t kind, struct sbx_buffer *out) {
        for (size_t i = 0; i < registry->count; i++) {
                const struct sbx_plugin_entry *entry = registry->members[i].slot.entry;
                const struct sbx_kind *its_kind = sbx_kind_of_plugin(entry->plugin);

                if (!entry->enabled || (kind != 0 && its_kind != NULL && its_kind->kind != kind))
                        continue;
                /* A list that does not fit is cut: it is a help, not the error. */
                if (sbx_buffer_printf(out, "%s%s", out->size > 0 ? ", " : "", entry->name) < 0)
                        return;
        }
}

static int find_member(struct sbx_registry *registry, const char *name, uint32_t kind, struct member **ret_member,
                       struct sbx_error *err) {
        _cleanup_buffer_ struct sbx_buffer names = SBX_BUFFER(SBX_ERROR_HINT_MAX / 2);
        const char *kind_name = kind != 0 ? sbx_plugin_kind_name(kind) : "plugin";
        char hint[SBX_ERROR_HINT_MAX];

        for (size_t i = 0; i < registry->count; i++) {
                struct member *member = &registry->members[i];

                if (strcmp(member->slot.entry->name, name) != 0)
                        continue;
                if (!member->slot.entry->enabled)
                        return sbx_error_set(err, -ENOENT, SBX_PLUGIN_ORIGIN,
                                             "Set enabled = true in the entry, or take another one.",
                                             "plugin entry \"%s\" (%s) is disabled", name, member->slot.entry->origin);
                *ret_member = member;
                return 0;
        }
        list_names(registry, kind, &names);
        if (names.size > 0)
                snprintf(hint, sizeof(hint), "Configured are: %s.", names.data);
        else
                snprintf(hint, sizeof(hint), "No %s is configured. Add an entry to `plugins` in the configuration.",
                         kind_name);
        return sbx_error_set(err, -ENOENT, SBX_PLUGIN_ORIGIN, hint, "there is no %s \"%.128s\"", kind_name, name);
}

/* ---- bringing up ----------------------------------------------------------------------------------------- */

/* Whether the caller itself ran out of time or gave up: such a failure says nothing of the plugin. */
static int call_ended(const struct sbx_call *call) {
        struct pollfd cancel = {.fd = call != NULL ? call->cancel_fd : -1, .events = POLLIN};

        if (call == NULL)
                return 0;
        if (poll(&cancel, 1, 0) > 0) /* a negative descriptor is passed over */
                return -ECANCELED;
        return call->deadline_ns != 0 && sbx_clock_ns() >= call->deadline_ns ? -ETIMEDOUT : 0;
}

/* Waits, with the lock held, until nobody else brings the member up. */
static int wait_for_turn(struct sbx_registry *registry, const struct member *member, const struct sbx_call *call,
                         struct sbx_error *err) {
        while (member->busy) {
                int r = call_ended(call);

                if (r < 0)
                        return sbx_error_set(err, r, SBX_PLUGIN_ORIGIN, NULL,
                                             "gave up waiting for plugin entry \"%s\" to start",
                                             member->slot.entry->name);
                sbx_cond_wait(&registry->changed, &registry->lock, sbx_clock_deadline_ms(WAIT_SLICE_MS));
        }
        return 0;
}

static int check_kind(const struct sbx_slot *slot, uint32_t kind, struct sbx_error *err) {
        uint32_t actual = slot->module->plugin.kind;

        if (kind == 0 || kind == actual)
                return 0;
        return sbx_error_set(err, -EINVAL, SBX_PLUGIN_ORIGIN, "Name an entry of the right kind.",
                             "plugin entry \"%s\" (%s) is a %s, not a %s", slot->entry->name, slot->module->plugin.name,
                             sbx_plugin_kind_name(actual), sbx_plugin_kind_name(kind));
}

/* Takes a member that is this thread's alone to `phase`. */
static int advance(struct sbx_registry *registry, struct sbx_slot *slot, enum sbx_slot_phase phase, uint32_t kind,
                   const struct sbx_call *call, struct sbx_error *err) {
        int r = slot->phase < SBX_SLOT_LOADED ? sbx_slot_load(slot, &registry->services, err) : 0;

        if (r == 0)
                r = check_kind(slot, kind, err);
        if (r == 0 && slot->phase < SBX_SLOT_OPENED)
                r = sbx_slot_open(slot, &registry->services, err);
        if (r == 0 && phase == SBX_SLOT_STARTED && slot->phase < SBX_SLOT_STARTED)
                r = sbx_slot_start(slot, call, err);
        return r;
}

/* Notes, with the lock held, what came of advance(). */
static void settle(struct sbx_registry *registry, struct member *member, int r, const struct sbx_error *problem,
                   bool own_fault) {
        if (member->opened == 0 && member->slot.phase >= SBX_SLOT_OPENED)
                member->opened = ++registry->clock;
        if (member->started == 0 && member->slot.phase == SBX_SLOT_STARTED)
                member->started = ++registry->clock;
        if (r < 0 && !own_fault && !member->slot.entry->critical) {
                bool again =
                        member->slot.phase == SBX_SLOT_OPENED && member->slot.module->plugin.kind == SBX_PLUGIN_BACKEND;

                member->failure = *problem;
                member->retry_ns = again ? sbx_clock_deadline_ms(RETRY_MS) : 0;
        }
        member->busy = false;
        pthread_cond_broadcast(&registry->changed);
}

static int copy_error(const struct sbx_error *problem, struct sbx_error *err) {
        if (err != NULL && err->code == 0)
                *err = *problem;
        return problem->code;
}

static int bring_up(struct sbx_registry *registry, struct member *member, enum sbx_slot_phase phase, uint32_t kind,
                    const struct sbx_call *call, struct sbx_error *err) {
        struct sbx_error problem = {0};
        bool own_fault;
        int r;

        pthread_mutex_lock(&registry->lock);
        r = wait_for_turn(registry, member, call, err);
        if (r < 0)
                goto out;
        if (member->failure.code != 0 && (member->retry_ns == 0 || sbx_clock_ns() < member->retry_ns)) {
                r = copy_error(&member->failure, err);
                goto out;
        }
        member->failure = (struct sbx_error){0};
        if (member->slot.phase >= phase) {
                r = check_kind(&member->slot, kind, err);
                goto out;
        }
        member->busy = true;
        pthread_mutex_unlock(&registry->lock);

        /* Without the lock: a plugin's open() and start() may take their time, and may ask for services. */
        r = advance(registry, &member->slot, phase, kind, call, &problem);
        if (r < 0)
                problem.code = r;
        own_fault = r < 0 && (call_ended(call) < 0 ||
                              (member->slot.module != NULL && check_kind(&member->slot, kind, NULL) < 0));

        pthread_mutex_lock(&registry->lock);
        settle(registry, member, r, &problem, own_fault);
        if (r < 0)
                copy_error(&problem, err);
out:
        pthread_mutex_unlock(&registry->lock);
        return r;
}

int sbx_registry_get(struct sbx_registry *registry, const char *name, uint32_t kind, const struct sbx_call *call,
                     const struct sbx_instance **ret_instance, struct sbx_error *err) {
        struct member *member = NULL;
        int r = find_member(registry, name, kind, &member, err);

        if (r == 0)
                r = bring_up(registry, member, SBX_SLOT_STARTED, kind, call, err);
        if (r < 0)
                return r;
        *ret_instance = &member->slot.instance;
        return 0;
}

int sbx_registry_open(struct sbx_registry *registry, const char *name, const struct sbx_instance **ret_instance,
                      struct sbx_error *err) {
        struct member *member = NULL;
        int r = find_member(registry, name, 0, &member, err);

        if (r == 0)
                r = bring_up(registry, member, SBX_SLOT_OPENED, 0, NULL, err);
        if (r < 0)
                return r;
        *ret_instance = &member->slot.instance;
        return 0;
}

int sbx_registry_start_required(struct sbx_registry *registry, const struct sbx_call *call, struct sbx_error *err) {
        for (size_t i = 0; i < registry->count; i++) {
                struct member *member = &registry->members[i];
                const struct sbx_plugin_entry *entry = member->slot.entry;
                const struct sbx_kind *kind = sbx_kind_of_plugin(entry->plugin);
                bool listens = kind != NULL && (kind->kind == SBX_PLUGIN_SINK || kind->kind == SBX_PLUGIN_CONTEXT);
                struct sbx_error problem = {0};
                int r;

                if (!entry->enabled || (!entry->critical && (!listens || entry->built_in)))
                        continue;
                r = bring_up(registry, member, SBX_SLOT_STARTED, 0, call, &problem);
                if (r < 0 && (entry->critical || call_ended(call) < 0))
                        return copy_error(&problem, err);
                if (r < 0)
                        sbx_log(registry->services.logger, SBX_LOG_WARNING,
                                "going on without an entry that could not be started: %s%s%s", problem.message,
                                problem.hint[0] != '\0' ? ". " : "", problem.hint);
        }
        return 0;
}

/* ---- listing --------------------------------------------------------------------------------------------- */

static int report_file(const char *path,
                       int (*found)(void *data, const char *path, const struct sbx_module *module_or_null,
                                    const struct sbx_error *problem),
                       void *data) {
        struct sbx_error problem = {0};
        struct sbx_module *module = NULL;
        int r = sbx_module_load(path, &module, &problem);

        r = found(data, path, module, r < 0 ? &problem : NULL);
        sbx_module_free(module);
        return r;
}

int sbx_registry_scan(struct sbx_registry *registry,
                      int (*found)(void *data, const char *path, const struct sbx_module *module_or_null,
                                   const struct sbx_error *problem),
                      void *data) {
        char **paths = NULL;
        struct sbx_error err = {0};
        int r = sbx_plugin_list(registry->services.directories, &paths, &err);

        if (r < 0) {
                r = found(data, registry->services.directories->plugins, NULL, &err);
                return r < 0 ? r : err.code;
        }
        for (char **path = paths; r == 0 && *path != NULL; path++)
                r = report_file(*path, found, data);
        sbx_plugin_list_free(paths);
        return r;
}

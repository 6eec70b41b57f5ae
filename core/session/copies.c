/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of a session's guest that stand still, where the backend can copy one: going back to those is quick and exact,
 * for as long as this server lives. Each belongs to a checkpoint of the session's tree; one that has nothing else ends
 * with its copy. */
#include "session/state.h"

#include "base/cleanup.h"
#include "base/error.h"

#define ORIGIN SBX_SESSION_ORIGIN
#define COPIES_DEFAULT 4

static const struct sbx_value *setting(const struct sbx_session *session, const char *name) {
        const struct sbx_instance *instance = session->backend->instance;
        const struct sbx_value *value =
                instance->core_settings != NULL ? sbx_settings_get(instance->core_settings, name) : NULL;

        return value != NULL && value->set ? value : NULL;
}

static bool has_feature(const struct sbx_session *session, uint32_t feature) {
        const struct sbx_backend_ops *ops = session->backend->instance->ops;

        return (ops->features & feature) != 0;
}

bool sbx_copies_possible(const struct sbx_session *session) {
        return has_feature(session, SBX_BACKEND_FORK) && session->vault != NULL;
}

enum sbx_mechanism sbx_copies_mechanism(const struct sbx_session *session) {
        return has_feature(session, SBX_BACKEND_SAVE) ? SBX_MECHANISM_BYTE_EXACT : SBX_MECHANISM_FROZEN;
}

static size_t copies_max(const struct sbx_session *session) {
        const struct sbx_value *value = setting(session, "checkpoint_copies");

        return value != NULL && value->integer > 0 ? (size_t)value->integer : COPIES_DEFAULT;
}

/* ---- the list ---- */

static struct sbx_copy *find(struct sbx_session *session, const char *id) {
        for (size_t i = 0; i < session->copy_count; i++)
                if (strcmp(session->copies[i].checkpoint, id) == 0)
                        return &session->copies[i];
        return NULL;
}

static struct sbx_guest_process *take_out(struct sbx_session *session, struct sbx_copy *copy) {
        struct sbx_guest_process *guest = copy->guest;
        size_t at = (size_t)(copy - session->copies);

        session->copy_count--;
        memmove(copy, copy + 1, (session->copy_count - at) * sizeof(*copy));
        return guest;
}

static void drop(struct sbx_session *session, struct sbx_copy *copy) {
        sbx_reaper_bury(session->owner, take_out(session, copy));
}

struct sbx_guest_process *sbx_copies_find(struct sbx_session *session, const char *id) {
        struct sbx_copy *copy = find(session, id);

        return copy != NULL && sbx_guest_alive(copy->guest) ? copy->guest : NULL;
}

void sbx_copies_clear(struct sbx_session *session) {
        while (session->copy_count > 0)
                drop(session, &session->copies[session->copy_count - 1]);
        free(steal_pointer(session->copies));
}

/* The newest checkpoint that had nothing but a copy, which is gone, unless the guest is what it was: that can be copied
 * again. NULL: there is none. */
static const struct sbx_checkpoint *find_hollow(struct sbx_session *session) {
        const struct sbx_tree *tree = sbx_vault_tree(session->vault);

        for (size_t i = tree->count; i-- > 0;)
                if (tree->items[i]->part_count == 0 && strcmp(tree->items[i]->id, session->current) != 0 &&
                    find(session, tree->items[i]->id) == NULL)
                        return tree->items[i];
        return NULL;
}

void sbx_copies_prune(struct sbx_session *session) {
        const struct sbx_checkpoint *hollow;
        char id[SBX_CHECKPOINT_ID_SIZE];

        if (session->vault == NULL)
                return;
        for (size_t i = session->copy_count; i-- > 0;)
                if (!sbx_guest_alive(session->copies[i].guest) ||
                    sbx_tree_find(sbx_vault_tree(session->vault), session->copies[i].checkpoint) == NULL)
                        drop(session, &session->copies[i]);
        while ((hollow = find_hollow(session)) != NULL) {
                memcpy(id, hollow->id, sizeof(id)); /* the tree's own goes with it */
                if (sbx_vault_remove(session->vault, id, NULL, NULL) < 0)
                        return;
        }
}

/* ---- making one ---- */

/* The oldest copy whose checkpoint can do without: an automatic one, or one that is kept as parts, too. */
static struct sbx_copy *find_victim(struct sbx_session *session, const char *spared) {
        const struct sbx_tree *tree = sbx_vault_tree(session->vault);

        for (size_t i = 0; i < session->copy_count; i++) {
                const struct sbx_checkpoint *owner = sbx_tree_find(tree, session->copies[i].checkpoint);

                if (strcmp(session->copies[i].checkpoint, spared) != 0 &&
                    (owner == NULL || owner->automatic || owner->part_count > 0))
                        return &session->copies[i];
        }
        return NULL;
}

static int make_room(struct sbx_session *session, const char *spared, struct sbx_error *err) {
        size_t max = copies_max(session);
        struct sbx_copy *copies, *victim;

        while (session->copy_count >= max) {
                victim = find_victim(session, spared);
                if (victim == NULL)
                        return sbx_error_set(
                                err, -ENOSPC, ORIGIN, "Raise the option checkpoint_copies of the environment.",
                                "session '%s' has %zu checkpoints that are frozen copies, which is the maximum",
                                session->id, session->copy_count);
                drop(session, victim);
        }
        sbx_copies_prune(session);
        copies = reallocarray(session->copies, session->copy_count + 1, sizeof(*copies));
        if (copies == NULL)
                return SBX_NOMEM(err, ORIGIN);
        session->copies = copies;
        return 0;
}

/* A checkpoint that is nothing but this copy. */
static int add_checkpoint(struct sbx_session *session, const struct sbx_checkpoint *given,
                          const struct sbx_checkpoint **ret_checkpoint, struct sbx_error *err) {
        struct sbx_checkpoint frozen = *given;
        int r;

        frozen.mechanism = sbx_copies_mechanism(session);
        frozen.part_count = 0;
        frozen.bytes = 0;
        frozen.about = sbx_state_about(session->guest);
        if (frozen.about == NULL)
                return SBX_NOMEM(err, ORIGIN);
        r = sbx_vault_add_frozen(session->vault, &frozen, ret_checkpoint, err);
        json_decref(frozen.about);
        return r;
}

int sbx_copies_make(struct sbx_session *session, const struct sbx_checkpoint *given, const char *id,
                    const struct sbx_call *call, struct sbx_error *err) {
        const struct sbx_checkpoint *checkpoint = NULL;
        struct sbx_guest_process *copy = NULL;
        char label[SBX_SESSION_LABEL_SIZE], own[SBX_CHECKPOINT_ID_SIZE];
        struct sbx_guest_spec spec;
        int r;

        snprintf(own, sizeof(own), "%s", id);
        r = make_room(session, own, err);
        if (r < 0)
                return r;
        sbx_session_describe(session, session->memory_limit_bytes, label, &spec);
        spec.flags = SBX_GUEST_FROZEN;
        r = sbx_guest_fork(session->guest, &spec, call, &copy, err);
        if (r < 0)
                return r;
        if (own[0] == '\0') {
                r = add_checkpoint(session, given, &checkpoint, err);
                if (r < 0) {
                        sbx_reaper_bury(session->owner, copy);
                        return r;
                }
                memcpy(own, checkpoint->id, sizeof(own));
        }
        session->copies[session->copy_count] = (struct sbx_copy){.guest = copy};
        memcpy(session->copies[session->copy_count++].checkpoint, own, sizeof(own));
        memcpy(session->current, own, sizeof(own));
        return 0;
}

/* ---- using one ---- */

static int refuse_gone(const char *id, struct sbx_error *err) {
        return sbx_error_set(err, -ENOENT, ORIGIN, NULL, "there is no copy of checkpoint '%s' any more", id);
}

int sbx_copies_use(struct sbx_session *session, const char *id, bool consume, const struct sbx_call *call,
                   struct sbx_guest_process **ret_guest, struct sbx_error *err) {
        struct sbx_copy *copy = find(session, id);
        struct sbx_error problem = {0};
        char label[SBX_SESSION_LABEL_SIZE];
        struct sbx_guest_spec spec;
        int r;

        if (copy == NULL || !sbx_guest_alive(copy->guest))
                return refuse_gone(id, err);
        if (!consume) {
                sbx_session_describe(session, session->memory_limit_bytes, label, &spec);
                spec.flags = SBX_GUEST_FROZEN; /* until the session's guest has ended, which the caller sees to */
                r = sbx_guest_fork(copy->guest, &spec, call, ret_guest, &problem);
                if (r == -ESRCH) {
                        drop(session, copy);
                        return refuse_gone(id, err);
                }
                if (r < 0 && session->guest != NULL && sbx_guest_alive(session->guest))
                        return sbx_error_set(err, r, problem.origin, problem.hint, "%s", problem.message);
                if (r == 0)
                        return 0;
        }
        *ret_guest = take_out(session, copy);
        return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The tree of a session's states: finding, adding and removing checkpoints. */
#include "session/tree.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/utf8.h"

#define ORIGIN "sessions"

static const char *const mechanism_names[] = {
        [SBX_MECHANISM_BYTE_EXACT] = "byte-exact",
        [SBX_MECHANISM_FROZEN] = "frozen process",
        [SBX_MECHANISM_PORTABLE] = "portable",
};
#define MECHANISM_COUNT (sizeof(mechanism_names) / sizeof(mechanism_names[0]))

const char *sbx_mechanism_name(enum sbx_mechanism mechanism) {
        bool known = (size_t)mechanism < MECHANISM_COUNT && mechanism_names[mechanism] != NULL;

        return known ? mechanism_names[mechanism] : "unknown";
}

enum sbx_mechanism sbx_mechanism_find(const char *name) {
        for (size_t i = 1; i < MECHANISM_COUNT; i++)
                if (strcmp(mechanism_names[i], name) == 0)
                        return (enum sbx_mechanism)i;
        return 0;
}

/* ---- labels ---- */

bool sbx_checkpoint_id_number(const char *id, uint64_t *ret_number) {
        uint64_t number = 0;
        size_t digits = strlen(id) - (id[0] == 'c');

        if (id[0] != 'c' || digits == 0 || digits > 19 || id[1] == '0')
                return false;
        for (const char *at = id + 1; *at != '\0'; at++) {
                if (*at < '0' || *at > '9')
                        return false;
                number = number * 10 + (uint64_t)(*at - '0');
        }
        *ret_number = number;
        return number <= SBX_CHECKPOINT_NUMBER_MAX;
}

/* C0, DEL, and C1, which is two bytes in UTF-8. */
static bool has_control_character(const char *text) {
        const unsigned char *at = (const unsigned char *)text;

        for (; *at != '\0'; at++)
                if (*at < 0x20 || *at == 0x7f || (*at == 0xc2 && at[1] < 0xa0))
                        return true;
        return false;
}

int sbx_checkpoint_check_label(const char *label, struct sbx_error *err) {
        size_t size = strlen(label);
        uint64_t number;

        if (size == 0 || size > SBX_CHECKPOINT_LABEL_MAX)
                return sbx_error_set(err, -EINVAL, ORIGIN, "Leave it out, or take a shorter one.",
                                     "a checkpoint's label has 1 to %u bytes, not %zu", SBX_CHECKPOINT_LABEL_MAX, size);
        if (!sbx_utf8_valid((struct sbx_bytes){label, size}) || has_control_character(label))
                return sbx_error_set(err, -EINVAL, ORIGIN, "Use letters, digits, spaces and punctuation.",
                                     "a checkpoint's label is UTF-8 without control characters");
        if (sbx_checkpoint_id_number(label, &number))
                return sbx_error_set(err, -EINVAL, ORIGIN, "Take another one, such as \"before c7\".",
                                     "a checkpoint's label can't look like an id: '%s'", label);
        return 0;
}

/* ---- checkpoints ---- */

void sbx_checkpoint_free(struct sbx_checkpoint *checkpoint) {
        if (checkpoint == NULL)
                return;
        free(checkpoint->label);
        json_decref(checkpoint->about);
        free(checkpoint);
}

static struct sbx_checkpoint *copy_checkpoint(const struct sbx_checkpoint *given) {
        struct sbx_checkpoint *copy = malloc(sizeof(*copy));

        if (copy == NULL)
                return NULL;
        *copy = *given;
        copy->label = given->label != NULL ? strdup(given->label) : NULL;
        copy->about = json_incref(given->about);
        if ((copy->label == NULL) == (given->label == NULL))
                return copy;
        sbx_checkpoint_free(copy);
        return NULL;
}

/* ---- the tree ---- */

void sbx_tree_clear(struct sbx_tree *tree) {
        for (size_t i = 0; i < tree->count; i++)
                sbx_checkpoint_free(tree->items[i]);
        free(tree->items);
        *tree = (struct sbx_tree){0};
}

int sbx_tree_copy(const struct sbx_tree *tree, struct sbx_tree *ret_copy, struct sbx_error *err) {
        struct sbx_tree copy = {.last_number = tree->last_number};

        memcpy(copy.head, tree->head, sizeof(copy.head));
        copy.items = calloc(tree->count + 1, sizeof(*copy.items));
        if (copy.items == NULL)
                return SBX_NOMEM(err, ORIGIN);
        for (; copy.count < tree->count; copy.count++) {
                copy.items[copy.count] = copy_checkpoint(tree->items[copy.count]);
                if (copy.items[copy.count] == NULL) {
                        sbx_tree_clear(&copy);
                        return SBX_NOMEM(err, ORIGIN);
                }
        }
        *ret_copy = copy;
        return 0;
}

/* Ids are numbers without leading zeros: the longer one is the greater one. */
static int compare_ids(const void *id, const void *item) {
        const char *other = (*(struct sbx_checkpoint *const *)item)->id;
        size_t size = strlen(id), other_size = strlen(other);

        return size != other_size ? (size > other_size) - (size < other_size) : strcmp(id, other);
}

struct sbx_checkpoint *sbx_tree_find(const struct sbx_tree *tree, const char *id) {
        struct sbx_checkpoint **found =
                tree->count > 0 ? bsearch(id, tree->items, tree->count, sizeof(*tree->items), compare_ids) : NULL;

        if (found != NULL)
                return *found;
        for (size_t i = tree->count; i-- > 0;)
                if (tree->items[i]->label != NULL && strcmp(tree->items[i]->label, id) == 0)
                        return tree->items[i];
        return NULL;
}

int sbx_tree_append(struct sbx_tree *tree, struct sbx_checkpoint *checkpoint, struct sbx_error *err) {
        struct sbx_checkpoint **items;

        if (tree->count >= SBX_TREE_CHECKPOINTS_MAX)
                return sbx_error_set(err, -ENOSPC, ORIGIN, "Delete checkpoints that nobody needs.",
                                     "a session can't have more than %u checkpoints", SBX_TREE_CHECKPOINTS_MAX);
        items = reallocarray(tree->items, tree->count + 1, sizeof(*items));
        if (items == NULL)
                return SBX_NOMEM(err, ORIGIN);
        tree->items = items;
        items[tree->count++] = checkpoint;
        return 0;
}

static int64_t now_ms(void) {
        struct timespec now;

        clock_gettime(CLOCK_REALTIME, &now);
        return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int sbx_tree_add(struct sbx_tree *tree, const struct sbx_checkpoint *given, struct sbx_checkpoint **ret_checkpoint,
                 struct sbx_error *err) {
        struct sbx_checkpoint *checkpoint;
        int r = given->label != NULL ? sbx_checkpoint_check_label(given->label, err) : 0;

        if (r < 0)
                return r;
        checkpoint = copy_checkpoint(given);
        if (checkpoint == NULL)
                return SBX_NOMEM(err, ORIGIN);
        r = sbx_tree_append(tree, checkpoint, err);
        if (r < 0) {
                sbx_checkpoint_free(checkpoint);
                return r;
        }
        snprintf(checkpoint->id, sizeof(checkpoint->id), "c%" PRIu64, ++tree->last_number);
        memcpy(checkpoint->parent, tree->head, sizeof(checkpoint->parent));
        memcpy(tree->head, checkpoint->id, sizeof(tree->head));
        if (checkpoint->created_ms == 0)
                checkpoint->created_ms = now_ms();
        *ret_checkpoint = checkpoint;
        return 0;
}

void sbx_tree_remove(struct sbx_tree *tree, struct sbx_checkpoint *checkpoint) {
        size_t at = tree->count;

        for (size_t i = 0; i < tree->count; i++) {
                if (tree->items[i] == checkpoint)
                        at = i;
                else if (strcmp(tree->items[i]->parent, checkpoint->id) == 0)
                        memcpy(tree->items[i]->parent, checkpoint->parent, sizeof(checkpoint->parent));
        }
        if (at == tree->count)
                return;
        if (strcmp(tree->head, checkpoint->id) == 0)
                memcpy(tree->head, checkpoint->parent, sizeof(tree->head));
        memmove(tree->items + at, tree->items + at + 1, (tree->count - at - 1) * sizeof(*tree->items));
        tree->count--;
        sbx_checkpoint_free(checkpoint);
}

struct sbx_checkpoint *sbx_tree_surplus(const struct sbx_tree *tree, size_t max) {
        struct sbx_checkpoint *oldest = NULL;
        size_t stored = 0;

        for (size_t i = tree->count; i-- > 0;) {
                struct sbx_checkpoint *at = tree->items[i];

                if (at->part_count == 0)
                        continue;
                stored++;
                if (at->automatic && strcmp(at->id, tree->head) != 0)
                        oldest = at;
        }
        return stored > max ? oldest : NULL;
}

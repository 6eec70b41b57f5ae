/* SPDX-License-Identifier: Apache-2.0 */
/* The order in which calls were asked for, from the tree that they make: a call stands in the file when it is over,
 * after the calls of the code that it ran. */
#include "recording.h"

#include <string.h>

#include "util.h"

#define KEY_MAX 300u /* bytes; longer ones no journal writes */

struct tree {
        const struct replay_node *nodes;
        size_t count;
        size_t *by_id;               /* sorted by id, then by place in the file */
        size_t *child, *last, *next; /* of each node: first and last child, next sibling; REPLAY_NONE: none */
        bool *is_child;
        size_t *stack;
        size_t *order; /* of entries: what is asked for first, comes first */
        size_t ordered;
        bool *visited;
};

static void tree_clear(struct tree *tree) {
        free(tree->by_id);
        free(tree->child);
        free(tree->last);
        free(tree->next);
        free(tree->is_child);
        free(tree->stack);
        free(tree->order);
        free(tree->visited);
}

static int compare_ids(const void *a, const void *b, void *data) {
        const struct replay_node *nodes = data;
        size_t left = *(const size_t *)a, right = *(const size_t *)b;
        int order = strcmp(nodes[left].id, nodes[right].id);

        return order != 0 ? order : (left > right) - (left < right);
}

/* The first node of that id; REPLAY_NONE: there is none. */
static size_t find_node(const struct tree *tree, const char *id) {
        size_t low = 0, high = tree->count;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (strcmp(tree->nodes[tree->by_id[middle]].id, id) < 0)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low < tree->count && strcmp(tree->nodes[tree->by_id[low]].id, id) == 0 ? tree->by_id[low] : REPLAY_NONE;
}

static int tree_alloc(struct tree *tree, size_t entry_count) {
        size_t count = tree->count > 0 ? tree->count : 1;

        tree->by_id = calloc(count, sizeof(size_t));
        tree->child = calloc(count, sizeof(size_t));
        tree->last = calloc(count, sizeof(size_t));
        tree->next = calloc(count, sizeof(size_t));
        tree->is_child = calloc(count, sizeof(bool));
        tree->stack = calloc(count, sizeof(size_t));
        tree->visited = calloc(count, sizeof(bool));
        tree->order = calloc(entry_count > 0 ? entry_count : 1, sizeof(size_t));
        return tree->by_id == NULL || tree->child == NULL || tree->last == NULL || tree->next == NULL ||
                               tree->is_child == NULL || tree->stack == NULL || tree->visited == NULL ||
                               tree->order == NULL
                       ? -ENOMEM
                       : 0;
}

static void connect_nodes(struct tree *tree) {
        for (size_t i = 0; i < tree->count; i++) {
                tree->by_id[i] = i;
                tree->child[i] = tree->last[i] = tree->next[i] = REPLAY_NONE;
        }
        qsort_r(tree->by_id, tree->count, sizeof(size_t), compare_ids, (void *)tree->nodes);
        for (size_t i = 0; i < tree->count; i++) {
                size_t parent = tree->nodes[i].parent != NULL ? find_node(tree, tree->nodes[i].parent) : REPLAY_NONE;

                if (parent == REPLAY_NONE || parent == i)
                        continue;
                tree->is_child[i] = true;
                if (tree->last[parent] == REPLAY_NONE)
                        tree->child[parent] = i;
                else
                        tree->next[tree->last[parent]] = i;
                tree->last[parent] = i;
        }
}

/* A node, then its children in the order of the file. Ids from a file may make a circle: nothing is visited twice. */
static void visit(struct tree *tree, size_t root) {
        size_t depth = 0, node = root;

        while (node != REPLAY_NONE) {
                if (!tree->visited[node]) {
                        tree->visited[node] = true;
                        if (tree->nodes[node].entry != REPLAY_NONE)
                                tree->order[tree->ordered++] = tree->nodes[node].entry;
                        if (tree->child[node] != REPLAY_NONE) {
                                tree->stack[depth++] = node;
                                node = tree->child[node];
                                continue;
                        }
                }
                while (depth > 0 && tree->next[node] == REPLAY_NONE)
                        node = tree->stack[--depth];
                node = depth > 0 ? tree->next[node] : REPLAY_NONE;
        }
}

/* ---- successors ---- */

/* "1.3.model" of "1.2.model"; false: the key has another form. */
static bool next_key(const char *key, char *out, size_t capacity) {
        static const char tail[] = ".model";
        size_t size = strlen(key), digits, number = 0;

        if (size < sizeof(tail) || strcmp(key + size - strlen(tail), tail) != 0)
                return false;
        size -= strlen(tail);
        for (digits = size; digits > 0 && key[digits - 1] >= '0' && key[digits - 1] <= '9'; digits--)
                ;
        if (digits == size || size - digits > 9 || (digits > 0 && key[digits - 1] != '.'))
                return false;
        for (size_t i = digits; i < size; i++)
                number = number * 10 + (size_t)(key[i] - '0');
        return snprintf(out, capacity, "%.*s%zu%s", (int)digits, key, number + 1, tail) < (int)capacity;
}

static int compare_keys(const void *a, const void *b, void *data) {
        const struct replay_entry *entries = data;
        size_t left = *(const size_t *)a, right = *(const size_t *)b;
        int order = strcmp(entries[left].key, entries[right].key);

        return order != 0 ? order : (left > right) - (left < right);
}

/* The first entry with that key; REPLAY_NONE: there is none. `keyed` is sorted. */
static size_t find_key(const struct replay_recording *recording, const size_t *keyed, size_t count, const char *key) {
        size_t low = 0, high = count;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (strcmp(recording->entries[keyed[middle]].key, key) < 0)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low < count && strcmp(recording->entries[keyed[low]].key, key) == 0 ? keyed[low] : REPLAY_NONE;
}

/* "1.2.model" of "1.2.model.failed". */
static bool key_of_success(const char *key, char *out, size_t capacity) {
        static const char tail[] = ".failed";
        size_t size = strlen(key);

        if (size < sizeof(tail) || size - strlen(tail) >= capacity || strcmp(key + size - strlen(tail), tail) != 0)
                return false;
        memcpy(out, key, size - strlen(tail));
        out[size - strlen(tail)] = '\0';
        return true;
}

/* Runs of this program say in their keys which turn a call was. */
static int successors_by_key(struct replay_recording *recording) {
        _cleanup_free_ size_t *keyed = calloc(recording->count, sizeof(size_t));
        size_t count = 0;

        if (keyed == NULL)
                return -ENOMEM;
        for (size_t i = 0; i < recording->count; i++)
                if (recording->entries[i].key != NULL)
                        keyed[count++] = i;
        qsort_r(keyed, count, sizeof(size_t), compare_keys, recording->entries);
        for (size_t i = 0; i < count; i++) {
                struct replay_entry *entry = &recording->entries[keyed[i]];
                char wanted[KEY_MAX];

                if (next_key(entry->key, wanted, sizeof(wanted)))
                        entry->successor = find_key(recording, keyed, count, wanted);
                else if (key_of_success(entry->key, wanted, sizeof(wanted)))
                        entry->superseded = find_key(recording, keyed, count, wanted) != REPLAY_NONE;
        }
        return 0;
}

/* In 2.2.7's trajectories the next turn is a child of the one before it, after the sub-calls: the last child, then. */
static void successors_by_parent(struct replay_recording *recording, const struct tree *tree, const size_t *place_of) {
        for (size_t i = 0; i < tree->count; i++) {
                size_t own = tree->nodes[i].entry, last = tree->last[i];
                struct replay_entry *entry = own != REPLAY_NONE ? &recording->entries[place_of[own]] : NULL;

                if (entry == NULL || entry->key != NULL || last == REPLAY_NONE ||
                    tree->nodes[last].entry == REPLAY_NONE)
                        continue;
                entry->successor = place_of[tree->nodes[last].entry];
        }
}

/* ---- the whole ---- */

static int reorder(struct replay_recording *recording, const struct tree *tree) {
        _cleanup_free_ struct replay_entry *sorted = calloc(recording->count, sizeof(*sorted));
        _cleanup_free_ size_t *place_of = calloc(recording->count, sizeof(size_t));

        if (sorted == NULL || place_of == NULL)
                return -ENOMEM;
        for (size_t i = 0; i < recording->count; i++) {
                sorted[i] = recording->entries[tree->order[i]];
                place_of[tree->order[i]] = i;
        }
        memcpy(recording->entries, sorted, recording->count * sizeof(*sorted));
        successors_by_parent(recording, tree, place_of);
        return successors_by_key(recording);
}

int replay_order(struct replay_recording *recording, const struct replay_node *nodes, size_t node_count) {
        struct tree tree = {.nodes = nodes, .count = node_count};
        int r = tree_alloc(&tree, recording->count);

        if (r == 0) {
                connect_nodes(&tree);
                for (size_t i = 0; i < node_count; i++)
                        if (!tree.is_child[i])
                                visit(&tree, i);
                for (size_t i = 0; i < node_count; i++) /* circles */
                        visit(&tree, i);
                r = reorder(recording, &tree);
        }
        tree_clear(&tree);
        return r;
}

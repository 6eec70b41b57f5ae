/* SPDX-License-Identifier: Apache-2.0 */
/* The names of a directory: slots in the order of their cookies, which reading follows, and a hash table over them.
 * Both grow and shrink with what is in them, so that a directory can't keep more memory than its names were charged
 * for. */
#include "vfs_internal.h"

#define SLOTS_LEAST 8u

/* FNV-1a. A guest that makes its names collide slows itself down. */
static uint32_t hash_text(const char *text, size_t size) {
        uint32_t hash = 2166136261u;

        for (size_t i = 0; i < size; i++)
                hash = (hash ^ (uint8_t)text[i]) * 16777619u;
        return hash;
}

static void insert_bucket(uint32_t *buckets, uint32_t mask, uint32_t hash, uint32_t slot) {
        uint32_t i = hash & mask;

        while (buckets[i] != 0)
                i = (i + 1) & mask;
        buckets[i] = slot + 1;
}

/* New tables of `capacity` slots, without those of removed names. */
static int rebuild(struct vfs_directory *directory, uint32_t capacity) {
        struct vfs_slot *slots = calloc(capacity, sizeof(*slots));
        uint32_t *buckets = calloc((size_t)capacity * 2, sizeof(*buckets));
        uint32_t used = 0;

        if (slots == NULL || buckets == NULL) {
                free(slots);
                free(buckets);
                return WASI_ENOMEM;
        }
        for (uint32_t i = 0; i < directory->used; i++) {
                if (directory->slots[i].name == NULL)
                        continue;
                slots[used] = directory->slots[i];
                insert_bucket(buckets, 2 * capacity - 1, slots[used].name->hash, used);
                used++;
        }
        free(directory->slots);
        free(directory->buckets);
        directory->slots = slots;
        directory->buckets = buckets;
        directory->capacity = capacity;
        directory->used = used;
        return 0;
}

/* The slot of a name; NULL: not there. */
static struct vfs_slot *find_slot(const struct vfs_directory *directory, const char *text, size_t size) {
        uint32_t mask = 2 * directory->capacity - 1, hash = hash_text(text, size);

        if (directory->live == 0)
                return NULL;
        for (uint32_t i = hash & mask; directory->buckets[i] != 0; i = (i + 1) & mask) {
                struct vfs_slot *slot = &directory->slots[directory->buckets[i] - 1];
                const struct vfs_name *name = slot->name;

                if (name != NULL && name->hash == hash && name->size == size && memcmp(name->text, text, size) == 0)
                        return slot;
        }
        return NULL;
}

struct vfs_name *vfs_directory_find(const struct vfs_directory *directory, const char *text, size_t size) {
        const struct vfs_slot *slot = find_slot(directory, text, size);

        return slot != NULL ? slot->name : NULL;
}

static int charge_name(struct vfs *vfs, size_t size) {
        int r;

        if (vfs->usage.entries >= vfs->limits.entries)
                return WASI_ENOSPC;
        r = vfs_charge(vfs, VFS_NAME_COST + size);
        if (r == 0)
                vfs->usage.entries++;
        return r;
}

static void discharge_name(struct vfs *vfs, size_t size) {
        vfs->usage.entries--;
        vfs_discharge(vfs, VFS_NAME_COST + size);
}

int vfs_directory_add(struct vfs *vfs, struct vfs_directory *directory, const char *text, size_t size,
                      struct vfs_node *node, uint64_t cookie) {
        struct vfs_name *name;
        int r = charge_name(vfs, size);

        if (r != 0)
                return r;
        name = malloc(sizeof(*name) + size);
        if (name == NULL || (directory->used == directory->capacity &&
                             rebuild(directory, vfs_power_of_two(SLOTS_LEAST, 2 * (uint64_t)directory->live)) != 0)) {
                free(name);
                discharge_name(vfs, size);
                return WASI_ENOMEM;
        }
        name->node = node;
        name->hash = hash_text(text, size);
        name->size = (uint32_t)size;
        memcpy(name->text, text, size);
        if (directory->next_cookie < VFS_FIRST_COOKIE)
                directory->next_cookie = VFS_FIRST_COOKIE;
        if (cookie == 0)
                cookie = directory->next_cookie++;
        insert_bucket(directory->buckets, 2 * directory->capacity - 1, name->hash, directory->used);
        directory->slots[directory->used++] = (struct vfs_slot){.cookie = cookie, .name = name};
        directory->live++;
        node->links++;
        return 0;
}

void vfs_directory_remove(struct vfs *vfs, struct vfs_directory *directory, struct vfs_name *name) {
        struct vfs_slot *slot = find_slot(directory, name->text, name->size);

        slot->name = NULL;
        directory->live--;
        name->node->links--;
        discharge_name(vfs, name->size);
        free(name);
        /* Without memory for smaller tables the larger ones stay. */
        if (directory->capacity > SLOTS_LEAST && directory->live <= directory->capacity / 4)
                (void)rebuild(directory, vfs_power_of_two(SLOTS_LEAST, 2 * (uint64_t)directory->live));
}

const struct vfs_slot *vfs_directory_after(const struct vfs_directory *directory, uint64_t cookie) {
        uint32_t low = 0, high = directory->used;

        while (low < high) {
                uint32_t middle = low + (high - low) / 2;

                if (directory->slots[middle].cookie <= cookie)
                        low = middle + 1;
                else
                        high = middle;
        }
        while (low < directory->used && directory->slots[low].name == NULL)
                low++;
        return low < directory->used ? &directory->slots[low] : NULL;
}

void vfs_directory_free(struct vfs *vfs, struct vfs_directory *directory) {
        for (uint32_t i = 0; i < directory->used; i++) {
                if (directory->slots[i].name == NULL)
                        continue;
                discharge_name(vfs, directory->slots[i].name->size);
                free(directory->slots[i].name);
        }
        free(directory->slots);
        free(directory->buckets);
        *directory = (struct vfs_directory){0};
}

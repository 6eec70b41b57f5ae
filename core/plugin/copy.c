/* SPDX-License-Identifier: Apache-2.0 */
/* Reading structs that were compiled elsewhere: never past their struct_size, missing members as zero. */
#include "plugin/internal.h"

#include "base/cleanup.h"
#include "base/error.h"

/* Of the first version: `help` is the last member without which an option makes no sense. */
#define OPTION_MINIMUM offsetof(struct sbx_option, minimum)

static uint32_t foreign_size(const void *foreign) {
        uint32_t size;

        memcpy(&size, foreign, sizeof(size));
        return size;
}

void sbx_struct_copy(void *target, size_t size, const void *source) {
        size_t given = foreign_size(source);
        uint32_t own_size = (uint32_t)size;

        memset(target, 0, size);
        memcpy(target, source, given < size ? given : size);
        memcpy(target, &own_size, sizeof(own_size));
}

int sbx_struct_size_check(const void *foreign, size_t minimum, const char *what, struct sbx_error *err) {
        uint32_t size = foreign_size(foreign);

        if (size >= minimum && size <= SBX_STRUCT_SIZE_MAX)
                return 0;
        return sbx_error_set(err, -EINVAL, SBX_PLUGIN_ORIGIN,
                             "Set .struct_size = sizeof(struct ...) with the headers of this ABI, and build it again.",
                             "%s has struct_size %u; at least %zu are needed, and at most %u can be right", what, size,
                             minimum, SBX_STRUCT_SIZE_MAX);
}

/* The entries lie as far apart as the plugin's compiler put them: one struct_size of the first. */
static int count_options(const char *table, size_t stride, const char *what, size_t *ret_count, struct sbx_error *err) {
        for (size_t count = 0; count <= SBX_PLUGIN_OPTIONS_MAX; count++) {
                const char *name, *entry = table + count * stride;

                memcpy(&name, entry + offsetof(struct sbx_option, name), sizeof(name));
                if (name == NULL) {
                        *ret_count = count;
                        return 0;
                }
                if (foreign_size(entry) != stride)
                        return sbx_error_set(err, -EINVAL, SBX_PLUGIN_ORIGIN,
                                             "Set .struct_size = sizeof(struct sbx_option) in every entry.",
                                             "option %zu of %s has struct_size %u, but the first one has %zu",
                                             count + 1, what, foreign_size(entry), stride);
        }
        return sbx_error_set(err, -EINVAL, SBX_PLUGIN_ORIGIN, "End the table with an entry whose name is NULL.",
                             "the option table of %s has more than %d entries, or no end", what,
                             SBX_PLUGIN_OPTIONS_MAX);
}

int sbx_options_copy(const struct sbx_option *table, const char *what, struct sbx_option **ret_table, size_t *ret_count,
                     struct sbx_error *err) {
        struct sbx_option *copy;
        size_t count = 0, stride = 0;
        int r;

        if (table != NULL && table->name != NULL) {
                r = sbx_struct_size_check(table, OPTION_MINIMUM, what, err);
                if (r < 0)
                        return r;
                stride = foreign_size(table);
                r = count_options((const char *)table, stride, what, &count, err);
                if (r < 0)
                        return r;
        }
        copy = calloc(count + 1, sizeof(*copy));
        if (copy == NULL)
                return SBX_NOMEM(err, SBX_PLUGIN_ORIGIN);
        for (size_t i = 0; i < count; i++)
                sbx_struct_copy(&copy[i], sizeof(copy[i]), (const char *)table + i * stride);
        *ret_table = copy;
        *ret_count = count;
        return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Which system calls a guest may make. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum rule_check {
        RULE_ALWAYS = 0,
        RULE_FIRST_EQUALS,   /* argument 0, 32 bits, equals one of `values` */
        RULE_SECOND_EQUALS,  /* argument 1, 32 bits */
        RULE_THIRD_EQUALS,   /* argument 2, 32 bits */
        RULE_THIRD_NULL,     /* argument 2, a pointer, is NULL */
        RULE_FIRST_LACKS,    /* argument 0 has no bit of `mask` */
        RULE_SECOND_LACKS,   /* argument 1 */
        RULE_THIRD_LACKS,    /* argument 2 */
        RULE_FOURTH_LACKS,   /* argument 3 */
        RULE_SECOND_TYPE,    /* argument 1, a mode: one of `values` as its type, no bit of `mask` */
        RULE_THIRD_TYPE,     /* argument 2 */
        RULE_COUNTED_MEMORY, /* a cgroup limits the guest's memory */
        RULE_OWN_TREE,       /* the guest sees nobody else's sockets: struct seccomp_facts */
        RULE_OWN_TREE_FIRST, /* the same, and RULE_FIRST_EQUALS */
        RULE_PAIR, /* argument 0 is AF_UNIX; without a tree of its own, argument 1 a type that has no addresses */
        RULE_NO_SUCH_CALL, /* answers ENOSYS: callers then use an older call, that can be judged */
};

/* A group of calls that are allowed for one reason and under one condition. Names that this machine or libseccomp does
 * not know are left out. */
struct seccomp_rule {
        const char *reason;
        const char *calls; /* separated by spaces */
        enum rule_check check;
        uint32_t mask;
        const uint32_t *values;
        size_t value_count;
};

extern const struct seccomp_rule seccomp_rules[];
extern const size_t seccomp_rule_count;

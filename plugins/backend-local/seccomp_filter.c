/* SPDX-License-Identifier: Apache-2.0 */
/* From the table of system calls to a BPF program, with libseccomp. */
#include "seccomp_filter.h"

#include <linux/seccomp.h>
#include <seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "seccomp_rules.h"
#include "util.h"

#define CALL_NAME_MAX 48
#define PROLOGUE 3
#define SOCKET_TYPE_MASK 0xf /* the kernel's SOCK_TYPE_MASK: flags stand above it */

struct compiler {
        scmp_filter_ctx context;
        const struct seccomp_facts *facts;
        int highest; /* number of a call that the table names */
};

/* The kernel takes 32 bits of these arguments; comparing all 64 would let bits above them through, or refuse what is
 * the same to the kernel. */
static struct scmp_arg_cmp low_bits(unsigned argument, uint64_t mask, uint64_t value) {
        return (struct scmp_arg_cmp){argument, SCMP_CMP_MASKED_EQ, mask & 0xffffffff, value & 0xffffffff};
}

static int add(struct compiler *compiler, int number, uint32_t action, const struct scmp_arg_cmp *condition) {
        int r = seccomp_rule_add_array(compiler->context, action, number, condition != NULL, condition);

        /* A call that this architecture lacks (a pseudo number). */
        return r == -EDOM || r == -EOPNOTSUPP ? 0 : r;
}

static int add_values(struct compiler *compiler, int number, const struct seccomp_rule *rule, unsigned argument,
                      uint64_t mask) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < rule->value_count; i++) {
                struct scmp_arg_cmp condition = low_bits(argument, mask, rule->values[i]);

                r = add(compiler, number, SCMP_ACT_ALLOW, &condition);
        }
        return r;
}

/* Pairs of streams and of sequenced packets are joined for good; datagrams can be sent to any name. */
static int add_pair(struct compiler *compiler, int number) {
        static const uint32_t joined[] = {SOCK_STREAM, SOCK_SEQPACKET};
        struct scmp_arg_cmp conditions[2] = {low_bits(0, 0xffffffff, AF_UNIX)};
        int r = 0;

        if (compiler->facts->own_tree)
                return add(compiler, number, SCMP_ACT_ALLOW, conditions);
        for (size_t i = 0; r == 0 && i < sizeof(joined) / sizeof(joined[0]); i++) {
                conditions[1] = low_bits(1, SOCKET_TYPE_MASK, joined[i]);
                r = seccomp_rule_add_array(compiler->context, SCMP_ACT_ALLOW, number, 2, conditions);
        }
        return r;
}

static int add_call(struct compiler *compiler, int number, const struct seccomp_rule *rule) {
        struct scmp_arg_cmp condition;

        switch (rule->check) {
        case RULE_ALWAYS:
                return add(compiler, number, SCMP_ACT_ALLOW, NULL);
        case RULE_FIRST_EQUALS:
                return add_values(compiler, number, rule, 0, 0xffffffff);
        case RULE_SECOND_EQUALS:
                return add_values(compiler, number, rule, 1, 0xffffffff);
        case RULE_THIRD_EQUALS:
                return add_values(compiler, number, rule, 2, 0xffffffff);
        case RULE_THIRD_NULL:
                condition = (struct scmp_arg_cmp){2, SCMP_CMP_EQ, 0, 0};
                return add(compiler, number, SCMP_ACT_ALLOW, &condition);
        case RULE_FIRST_LACKS:
        case RULE_SECOND_LACKS:
        case RULE_THIRD_LACKS:
        case RULE_FOURTH_LACKS:
                condition = low_bits((unsigned)(rule->check - RULE_FIRST_LACKS), rule->mask, 0);
                return add(compiler, number, SCMP_ACT_ALLOW, &condition);
        case RULE_SECOND_TYPE:
                return add_values(compiler, number, rule, 1, S_IFMT | rule->mask);
        case RULE_THIRD_TYPE:
                return add_values(compiler, number, rule, 2, S_IFMT | rule->mask);
        case RULE_COUNTED_MEMORY:
                return compiler->facts->memory_counted ? add(compiler, number, SCMP_ACT_ALLOW, NULL) : 0;
        case RULE_OWN_TREE:
                return compiler->facts->own_tree ? add(compiler, number, SCMP_ACT_ALLOW, NULL) : 0;
        case RULE_OWN_TREE_FIRST:
                return compiler->facts->own_tree ? add_values(compiler, number, rule, 0, 0xffffffff) : 0;
        case RULE_PAIR:
                return add_pair(compiler, number);
        case RULE_NO_SUCH_CALL:
                return add(compiler, number, SCMP_ACT_ERRNO(ENOSYS), NULL);
        }
        return -EINVAL;
}

static int add_rule(struct compiler *compiler, const struct seccomp_rule *rule) {
        const char *at = rule->calls;
        int r = 0;

        while (r == 0 && *(at += strspn(at, " ")) != '\0') {
                size_t length = strcspn(at, " ");
                char name[CALL_NAME_MAX];
                int number;

                if (length >= sizeof(name))
                        return -EINVAL;
                memcpy(name, at, length);
                name[length] = '\0';
                at += length;
                number = seccomp_syscall_resolve_name(name);
                if (number < 0) /* unknown, or not of this architecture */
                        continue;
                if (number > compiler->highest)
                        compiler->highest = number;
                r = add_call(compiler, number, rule);
        }
        return r;
}

static int export_program(scmp_filter_ctx context, struct sock_filter **ret, size_t *ret_count) {
        _cleanup_close_ int fd = memfd_create("sbx-filter", MFD_CLOEXEC);
        _cleanup_free_ struct sock_filter *program = NULL;
        struct stat st;
        int r;

        if (fd < 0)
                return -errno;
        r = seccomp_export_bpf(context, fd);
        if (r < 0)
                return r;
        if (fstat(fd, &st) < 0)
                return -errno;
        if (st.st_size <= 0 || (size_t)st.st_size % sizeof(*program) != 0)
                return -EIO;
        *ret_count = (size_t)st.st_size / sizeof(*program);
        program = malloc((size_t)st.st_size + PROLOGUE * sizeof(*program));
        if (program == NULL)
                return -ENOMEM;
        if (pread(fd, program + PROLOGUE, (size_t)st.st_size, 0) != st.st_size)
                return -EIO;
        *ret = steal_pointer(program);
        return 0;
}

/* Calls with a number beyond the table's are younger than it: the C library tries them first and falls back on ENOSYS,
 * not on EPERM. Numbers of the x32 table (bit 30) get the same answer; another architecture is killed further on, at
 * the latest. */
static void put_prologue(struct sock_filter program[PROLOGUE], int highest) {
        const struct sock_filter prologue[PROLOGUE] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, (uint32_t)highest, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        };

        memcpy(program, prologue, sizeof(prologue));
}

static int compile(struct compiler *compiler, struct sock_filter **ret, size_t *ret_count) {
        int r = seccomp_attr_set(compiler->context, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);

        /* libseccomp copies what it has at every rule: those with arguments are many, and cheaper while it has little.
         */
        for (int plain = 0; plain <= 1; plain++)
                for (size_t i = 0; r == 0 && i < seccomp_rule_count; i++)
                        if ((seccomp_rules[i].check == RULE_ALWAYS) == (plain == 1))
                                r = add_rule(compiler, &seccomp_rules[i]);
        /* A tree, not a list: faster for every call, and for the kernel's own preparation at each start. */
        if (r == 0)
                r = seccomp_attr_set(compiler->context, SCMP_FLTATR_CTL_OPTIMIZE, 2);
        if (r == 0)
                r = export_program(compiler->context, ret, ret_count);
        if (r < 0)
                return r;
        put_prologue(*ret, compiler->highest);
        *ret_count += PROLOGUE;
        return 0;
}

int seccomp_filter_compile(const struct seccomp_facts *facts, struct sock_filter **ret, size_t *ret_count,
                           struct sbx_error *err) {
        struct compiler compiler = {.context = seccomp_init(SCMP_ACT_ERRNO(EPERM)), .facts = facts};
        int r = compiler.context == NULL ? -ENOMEM : compile(&compiler, ret, ret_count);

        if (compiler.context != NULL)
                seccomp_release(compiler.context);
        if (r < 0)
                return sbx_error_set(err, r, LOCAL_ORIGIN, "a libseccomp of version 2.5 or later is needed",
                                     "layer \"seccomp\": can't compile the filter: %s", strerror(-r));
        return 0;
}

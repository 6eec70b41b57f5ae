/* SPDX-License-Identifier: Apache-2.0 */
/* Runs at build time: compiles the helper's system call filters and prints them as C, so that no start pays for it.
 *
 * Allow-lists: the keeper waits, the zygote forks sessions and speaks with the server, a session serves its guest. What
 * is in none of the lists kills the process: no code of ours makes such a call, so who does has left the sandbox. A few
 * that the C library tries and can do without are answered by an error. */
#include <errno.h>
#include <linux/filter.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <linux/seccomp.h>
#include <unistd.h>

#define PAGE 4096
#define KEEPER 1u
#define ZYGOTE 2u
#define SESSION 4u
#define SERVING (ZYGOTE | SESSION) /* a session's filter lies upon the zygote's: what it needs, both must allow */

/* Of an argument, counted from 0: all of it, or what a mask leaves. */
#define EQUAL(argument, value)                                                                                         \
        { argument, SCMP_CMP_EQ, value, 0 }
#define MASKED(argument, mask, value)                                                                                  \
        { argument, SCMP_CMP_MASKED_EQ, mask, value }

static const struct {
        unsigned who;
        int call;
} plain[] = {
        {KEEPER | SERVING, SCMP_SYS(exit_group)},
        {KEEPER | ZYGOTE, SCMP_SYS(wait4)},
        {KEEPER | SERVING, SCMP_SYS(restart_syscall)},

        /* control stream, output, messages, snapshots */
        {SERVING, SCMP_SYS(read)},
        {SERVING, SCMP_SYS(readv)},
        {SERVING, SCMP_SYS(write)},
        {SERVING, SCMP_SYS(writev)},
        {SERVING, SCMP_SYS(pread64)},
        {SERVING, SCMP_SYS(pwrite64)},
        {SERVING, SCMP_SYS(lseek)},
        {SERVING, SCMP_SYS(ftruncate)},
        {SERVING, SCMP_SYS(close)},
        {SERVING, SCMP_SYS(recvmsg)},
        {SERVING, SCMP_SYS(sendmsg)},
        {SERVING, SCMP_SYS(poll)},
        {SERVING, SCMP_SYS(ppoll)},

        /* time and chance */
        {SERVING, SCMP_SYS(clock_gettime)},
        {SERVING, SCMP_SYS(clock_getres)},
        {SERVING, SCMP_SYS(clock_nanosleep)},
        {SERVING, SCMP_SYS(gettimeofday)},
        {SERVING, SCMP_SYS(time)},
        {SERVING, SCMP_SYS(sched_yield)},
        {SERVING, SCMP_SYS(getrandom)},

        /* memory, see also conditions() */
        {SERVING, SCMP_SYS(brk)},
        {SERVING, SCMP_SYS(munmap)},
        {SERVING, SCMP_SYS(mremap)},
        {SERVING, SCMP_SYS(madvise)},

        {SERVING, SCMP_SYS(getppid)}, /* a copy looks whether its parent lives */

        /* faults and interrupts */
        {SERVING, SCMP_SYS(rt_sigreturn)},
        {SERVING, SCMP_SYS(rt_sigprocmask)},
        {SERVING, SCMP_SYS(sigaltstack)},

        /* the zygote: its children */
        {ZYGOTE, SCMP_SYS(setpgid)},
        {ZYGOTE, SCMP_SYS(getpgid)},
        {ZYGOTE, SCMP_SYS(pidfd_open)},
        {ZYGOTE, SCMP_SYS(prlimit64)},
        {ZYGOTE, SCMP_SYS(close_range)},
};

static void fail(const char *what, int r) {
        fprintf(stderr, "%s: %d\n", what, r);
        exit(1);
}

static void add(scmp_filter_ctx context, uint32_t action, int call, unsigned count, const struct scmp_arg_cmp *args) {
        int r = seccomp_rule_add_array(context, action, call, count, args);

        if (r < 0)
                fail("seccomp_rule_add_array", r);
}

/* Private memory without a file; a session's status page, at the place of the one before. Nothing is ever executable:
 * the code was mapped before. */
static void add_memory(scmp_filter_ctx context) {
        const uint64_t optional = MAP_NORESERVE | MAP_STACK | MAP_FIXED;
        const struct scmp_arg_cmp anonymous[] = {MASKED(2, (uint64_t) ~(PROT_READ | PROT_WRITE), 0),
                                                 MASKED(3, ~optional, MAP_PRIVATE | MAP_ANONYMOUS)};
        const struct scmp_arg_cmp page[] = {EQUAL(1, PAGE), EQUAL(2, PROT_READ | PROT_WRITE),
                                            EQUAL(3, MAP_SHARED | MAP_FIXED), EQUAL(5, 0)};
        const struct scmp_arg_cmp plain_access[] = {MASKED(2, (uint64_t) ~(PROT_READ | PROT_WRITE), 0)};

        add(context, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 2, anonymous);
        add(context, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 4, page);
        add(context, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1, plain_access);
}

/* A session's copy is its sibling, and nothing else is made. Any process may ask to die with its parent. */
static void add_processes(scmp_filter_ctx context) {
        const struct scmp_arg_cmp copy[] = {EQUAL(0, CLONE_PARENT), EQUAL(1, 0)};
        const struct scmp_arg_cmp with_parent[] = {EQUAL(0, PR_SET_PDEATHSIG), EQUAL(1, SIGKILL)};
        /* The handler of a fault that is no guest's lets it happen again, to be seen. */
        const struct scmp_arg_cmp fault[] = {EQUAL(0, SIGSEGV)};

        add(context, SCMP_ACT_ALLOW, SCMP_SYS(clone), 2, copy);
        add(context, SCMP_ACT_ALLOW, SCMP_SYS(prctl), 2, with_parent);
        add(context, SCMP_ACT_ALLOW, SCMP_SYS(rt_sigaction), 1, fault);
}

static void add_zygote(scmp_filter_ctx context) {
        const struct scmp_arg_cmp session[] = {EQUAL(0, CLONE_PIDFD | SIGCHLD), EQUAL(1, 0)};
        const struct scmp_arg_cmp end[] = {EQUAL(1, SIGKILL)};
        const struct scmp_arg_cmp snapshot[] = {EQUAL(2, PROT_READ), EQUAL(3, MAP_PRIVATE)};
        const struct scmp_arg_cmp filter[] = {EQUAL(0, SECCOMP_SET_MODE_FILTER), EQUAL(1, 0)};

        add(context, SCMP_ACT_ALLOW, SCMP_SYS(clone), 2, session);
        add(context, SCMP_ACT_ALLOW, SCMP_SYS(kill), 1, end);
        add(context, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 2, snapshot);
        add(context, SCMP_ACT_ALLOW, SCMP_SYS(seccomp), 2, filter);
}

/* qsort asks how much memory there is; it gets on without an answer. */
static void add_refusals(scmp_filter_ctx context) {
        add(context, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(sysinfo), 0, NULL);
}

static void print_filter(scmp_filter_ctx context, const char *name) {
        struct sock_filter instruction;
        FILE *file = tmpfile();
        int r;

        if (file == NULL)
                fail("tmpfile", -errno);
        r = seccomp_export_bpf(context, fileno(file));
        if (r < 0 || lseek(fileno(file), 0, SEEK_SET) < 0)
                fail("seccomp_export_bpf", r);
        printf("static const struct sock_filter %s[] = {\n", name);
        while (fread(&instruction, sizeof(instruction), 1, file) == 1)
                printf("        {0x%04x, %u, %u, 0x%08x},\n", instruction.code, instruction.jt, instruction.jf,
                       instruction.k);
        printf("};\n");
        fclose(file);
}

static void make_filter(unsigned who, const char *name) {
        scmp_filter_ctx context = seccomp_init(SCMP_ACT_KILL_PROCESS);

        if (context == NULL || seccomp_attr_set(context, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS) < 0)
                fail("seccomp_init", -ENOMEM);
        for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
                if ((plain[i].who & who) != 0)
                        add(context, SCMP_ACT_ALLOW, plain[i].call, 0, NULL);
        if ((who & SERVING) != 0) {
                add_memory(context);
                add_processes(context);
                add_refusals(context);
        }
        if ((who & ZYGOTE) != 0)
                add_zygote(context);
        print_filter(context, name);
        seccomp_release(context);
}

int main(void) {
        printf("/* Made by helper/filters.c. */\n");
        make_filter(KEEPER, "keeper_filter");
        make_filter(ZYGOTE, "zygote_filter");
        make_filter(SESSION, "session_filter");
        return fflush(stdout) == 0 ? 0 : 1;
}

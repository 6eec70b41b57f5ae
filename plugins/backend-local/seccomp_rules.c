/* SPDX-License-Identifier: Apache-2.0 */
/* The table of what a guest may ask of the kernel. All else is refused with EPERM; calls younger than this table, with
 * ENOSYS, as an older kernel would.
 *
 * Left out on purpose, because they widen what a guest can reach or attack, and no Python program that is fit for a
 * sandbox needs them:
 *   other processes     ptrace, process_vm_readv/writev, process_madvise, pidfd_getfd, kcmp, move_pages
 *   new namespaces      unshare, setns, clone with CLONE_NEW*
 *   file trees          mount, umount2, pivot_root, chroot, open_tree, move_mount, fsopen, fsconfig, fsmount, fspick,
 *                       mount_setattr, swapon, swapoff, quotactl, name_to_handle_at, open_by_handle_at, fanotify_*
 *   kernel memory, code init_module, finit_module, delete_module, kexec_*, bpf, iopl, ioperm, modify_ldt
 *   big attack surface  io_uring_*, userfaultfd, perf_event_open, io_setup and the other old AIO calls, keyctl,
 *                       add_key, request_key, vmsplice, remap_file_pages, landlock_*, seccomp
 *   uncounted memory    shmget and the other System V calls, mq_*, memfd_secret
 *   the machine         reboot, settimeofday, clock_settime, adjtimex, syslog, acct, vhangup, sethostname, sync
 *   other users         setuid and its family, capset, setgroups
 *   filters can't see   openat2, clone3 (their flags are in memory) */
#include "seccomp_rules.h"

#include <linux/sched.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif
#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif
#ifndef PR_GET_AUXV
#define PR_GET_AUXV 0x41555856
#endif

#define NEW_NAMESPACES                                                                                                 \
        (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET)

static const uint32_t unix_only[] = {AF_UNIX};
/* FIOCLEX..: descriptor flags. TCGETS, TIOCGWINSZ: "is this a terminal?". What is not here can't be asked, TIOCSTI and
 * TIOCLINUX above all. */
static const uint32_t ioctls[] = {FIOCLEX, FIONCLEX, FIONBIO, FIOASYNC, FIONREAD, TCGETS, TIOCGWINSZ, TIOCGPGRP};
static const uint32_t prctls[] = {
        PR_SET_NAME,        PR_GET_NAME,       PR_SET_PDEATHSIG,       PR_GET_PDEATHSIG,       PR_GET_DUMPABLE,
        PR_SET_DUMPABLE,    PR_GET_SECCOMP,    PR_GET_NO_NEW_PRIVS,    PR_SET_NO_NEW_PRIVS,    PR_CAPBSET_READ,
        PR_GET_SECUREBITS,  PR_SET_TIMERSLACK, PR_GET_TIMERSLACK,      PR_GET_THP_DISABLE,     PR_SET_THP_DISABLE,
        PR_GET_KEEPCAPS,    PR_SET_VMA,        PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER, PR_GET_AUXV,
        PR_GET_TID_ADDRESS,
};
static const uint32_t socket_options[] = {SO_DEBUG,     SO_REUSEADDR, SO_TYPE,       SO_ERROR,     SO_BROADCAST,
                                          SO_SNDBUF,    SO_RCVBUF,    SO_KEEPALIVE,  SO_OOBINLINE, SO_LINGER,
                                          SO_REUSEPORT, SO_PASSCRED,  SO_PEERCRED,   SO_RCVLOWAT,  SO_SNDLOWAT,
                                          SO_RCVTIMEO,  SO_SNDTIMEO,  SO_ACCEPTCONN, SO_PROTOCOL,  SO_DOMAIN};
static const uint32_t limits[] = {RLIMIT_CPU,        RLIMIT_FSIZE,    RLIMIT_DATA,    RLIMIT_STACK,  RLIMIT_RSS,
                                  RLIMIT_NPROC,      RLIMIT_NOFILE,   RLIMIT_MEMLOCK, RLIMIT_AS,     RLIMIT_LOCKS,
                                  RLIMIT_SIGPENDING, RLIMIT_MSGQUEUE, RLIMIT_NICE,    RLIMIT_RTPRIO, RLIMIT_RTTIME};
/* ARCH_SET_GS, ARCH_SET_FS, ARCH_GET_FS, ARCH_GET_GS of asm/prctl.h (x86); ARCH_CET_STATUS, which the loader asks. */
static const uint32_t thread_bases[] = {0x1001, 0x1002, 0x1003, 0x1004, 0x3001};
static const uint32_t query[] = {0xffffffff};
static const uint32_t plain_files[] = {0, S_IFREG, S_IFIFO, S_IFSOCK};

#define VALUES(array) .values = (array), .value_count = sizeof(array) / sizeof((array)[0])
#define SET_ID (S_ISUID | S_ISGID)

const struct seccomp_rule seccomp_rules[] = {
        {"reading and writing what is open",
         "read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 lseek _llseek close close_range dup "
         "dup2 dup3 pipe pipe2 fcntl fcntl64 flock fsync fdatasync sync_file_range ftruncate ftruncate64 fallocate "
         "fadvise64 fadvise64_64 readahead copy_file_range sendfile sendfile64 splice tee"},
        {"looking at files",
         "stat stat64 fstat fstat64 lstat lstat64 newfstatat fstatat64 statx statfs statfs64 fstatfs fstatfs64 access "
         "faccessat faccessat2 readlink readlinkat getcwd chdir fchdir getdents getdents64 getxattr lgetxattr "
         "fgetxattr "
         "listxattr llistxattr flistxattr inotify_init inotify_init1 inotify_add_watch inotify_rm_watch"},
        {"changing files, as mode and Landlock allow",
         "rmdir unlink unlinkat rename renameat renameat2 link linkat symlink symlinkat truncate truncate64 chown "
         "chown32 fchown fchown32 lchown lchown32 fchownat utime utimes futimesat utimensat umask setxattr lsetxattr "
         "fsetxattr removexattr lremovexattr fremovexattr"},
        /* A file that runs with its owner's rights is a trap for whoever finds it outside. */
        {"making files, without set-id bits", "open mkdir chmod fchmod", RULE_SECOND_LACKS, SET_ID},
        {"making files, without set-id bits", "creat", RULE_SECOND_LACKS, SET_ID},
        {"making files, without set-id bits", "mkdirat fchmodat fchmodat2", RULE_THIRD_LACKS, SET_ID},
        {"making files, without set-id bits", "openat", RULE_FOURTH_LACKS, SET_ID},
        {"making FIFOs, no devices", "mknod", RULE_SECOND_TYPE, SET_ID, VALUES(plain_files)},
        {"making FIFOs, no devices", "mknodat", RULE_THIRD_TYPE, SET_ID, VALUES(plain_files)},
        {"its mode is in memory, where a filter can't look", "openat2", RULE_NO_SUCH_CALL},
        {"waiting",
         "poll ppoll ppoll_time64 select _newselect pselect6 pselect6_time64 epoll_create epoll_create1 epoll_ctl "
         "epoll_ctl_old epoll_wait epoll_wait_old epoll_pwait epoll_pwait2 eventfd eventfd2 signalfd signalfd4 "
         "timerfd_create timerfd_settime timerfd_settime64 timerfd_gettime timerfd_gettime64"},
        {"memory",
         "brk mmap mmap2 munmap mremap mprotect madvise mincore msync mlock mlock2 munlock mlockall munlockall "
         "membarrier get_mempolicy pkey_alloc pkey_free pkey_mprotect"},
        {"files in memory, where a cgroup counts them", "memfd_create", RULE_COUNTED_MEMORY},
        {"processes and threads",
         "fork vfork execve execveat exit exit_group wait4 waitid waitpid getpid getppid gettid getpgid getpgrp "
         "setpgid "
         "getsid setsid set_tid_address set_robust_list get_robust_list futex futex_time64 futex_waitv rseq "
         "sched_yield sched_getaffinity sched_setaffinity sched_getparam sched_setparam sched_getscheduler "
         "sched_setscheduler sched_getattr sched_get_priority_max sched_get_priority_min sched_rr_get_interval "
         "sched_rr_get_interval_time64 getpriority setpriority ioprio_get getcpu set_thread_area get_thread_area "
         "restart_syscall pidfd_open"},
        {"thread-local storage", "arch_prctl", RULE_FIRST_EQUALS, 0, VALUES(thread_bases)},
        {"processes and threads, in no new namespace", "clone",
#ifdef __s390x__
         RULE_SECOND_LACKS,
#else
         RULE_FIRST_LACKS,
#endif
         NEW_NAMESPACES},
        {"its flags are in memory, where a filter can't look", "clone3", RULE_NO_SUCH_CALL},
        {"signals, to what it can see",
         "kill tkill tgkill pidfd_send_signal rt_sigaction rt_sigprocmask rt_sigpending rt_sigsuspend rt_sigtimedwait "
         "rt_sigtimedwait_time64 rt_sigqueueinfo rt_tgsigqueueinfo rt_sigreturn sigreturn sigaltstack pause alarm "
         "getitimer setitimer timer_create timer_settime timer_settime64 timer_gettime timer_gettime64 "
         "timer_getoverrun "
         "timer_delete"},
        {"time", "nanosleep clock_nanosleep clock_nanosleep_time64 clock_gettime clock_gettime64 clock_getres "
                 "clock_getres_time64 gettimeofday time times"},
        {"who and where am I",
         "getuid geteuid getgid getegid getresuid getresgid getgroups getuid32 geteuid32 getgid32 getegid32 "
         "getresuid32 getresgid32 getgroups32 capget uname sysinfo getrandom getrusage getrlimit ugetrlimit"},
        {"asking for limits", "prlimit64", RULE_THIRD_NULL},
        /* Lowering them is harmless but for RLIMIT_CORE, whose one byte keeps the host's crash handler away (0 calls
         * it, with the guest's memory). */
        {"lowering limits", "prlimit64", RULE_SECOND_EQUALS, 0, VALUES(limits)},
        {"lowering limits", "setrlimit", RULE_FIRST_EQUALS, 0, VALUES(limits)},
        {"asking, not changing, the execution domain", "personality", RULE_FIRST_EQUALS, 0, VALUES(query)},
        {"thread names and harmless questions", "prctl", RULE_FIRST_EQUALS, 0, VALUES(prctls)},
        {"descriptor flags and \"is it a terminal?\"", "ioctl", RULE_SECOND_EQUALS, 0, VALUES(ioctls)},
        /* By name a guest would reach the sockets of whatever else is in its file tree: those of D-Bus, an agent that
         * holds keys, a container engine. Landlock can't tell them from files. */
        {"sockets by name, in a file tree of its own", "socket", RULE_OWN_TREE_FIRST, 0, VALUES(unix_only)},
        {"sockets by name, in a file tree of its own", "connect", RULE_OWN_TREE},
        {"sockets between its own processes", "socketpair", RULE_PAIR},
        {"sockets between its own processes", "bind listen accept accept4 getsockname getpeername sendto recvfrom send "
                                              "recv sendmsg recvmsg sendmmsg recvmmsg "
                                              "recvmmsg_time64 shutdown"},
        /* No SO_ATTACH_FILTER (programs in the kernel), no SO_PEERPIDFD (a handle of the server). */
        {"usual socket options", "getsockopt setsockopt", RULE_THIRD_EQUALS, 0, VALUES(socket_options)},
};
const size_t seccomp_rule_count = sizeof(seccomp_rules) / sizeof(seccomp_rules[0]);

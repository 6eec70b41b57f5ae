/* SPDX-License-Identifier: Apache-2.0 */
/* The jail, piece by piece: what the launcher does once for a zygote, and what each guest does to itself. All of it
 * runs in processes of one thread. A function changes the calling process and returns 0, or a negative errno with
 * the reason in `err`; after a failure the process must end. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include <snipara-sandbox/types.h>

#include "jail_config.h"

/* Where things are inside. */
#define JAIL_HELPER_DIR "/run/sbx"
#define JAIL_LIBRARY "/run/sbx/zygote.so"
#define JAIL_SCRIPT "/run/sbx/zygote.py"
#define JAIL_GUESTS "/run/sbx/guests"
#define JAIL_WITNESS "/run/sbx/witness" /* anyone may read it by its mode, nobody by Landlock: shows that it works */
#define JAIL_HOSTNAME "sandbox"

/* Address space for programs and libraries, beyond the memory limit of what is written to. */
#define JAIL_TEXT_ALLOWANCE (UINT64_C(1) << 30)

/* File names in the libexec directory. */
#define LOCAL_LAUNCHER "sbx-local-launcher"
#define LOCAL_ZYGOTE_LIBRARY "sbx-local-zygote.so"
#define LOCAL_ZYGOTE_SCRIPT "sbx-local-zygote.py"

/* ---- jail_ids.c: who we are */

/* Root becomes `uid`:`gid`, without other groups, for good, but keeps the capabilities that building the jail needs,
 * those that it has. */
int jail_ids_drop_root(uid_t uid, gid_t gid, struct sbx_error *err);
/* Whether CAP_SYS_ADMIN is among them: not in most containers. */
bool jail_ids_may_administer(void);
/* Enters a user namespace of its own, in which `uid`:`gid` of the outer one are JAIL_INSIDE_ID. */
int jail_ids_enter_user_namespace(uid_t uid, gid_t gid, struct sbx_error *err);
/* Writes the maps of the namespace that this process was just cloned into. Needs /proc. */
int jail_ids_map(uid_t outer_uid, gid_t outer_gid, struct sbx_error *err);
/* The zygote's: CAP_SYS_ADMIN of its user namespace survives execve, nothing else does. */
int jail_ids_keep_for_zygote(struct sbx_error *err);
/* A guest's: no capability in any set, and none to be had again. */
int jail_ids_drop_capabilities(struct sbx_error *err);
bool jail_ids_powerless(void); /* reads it back */

/* ---- jail_root.c: the file tree of zygote and guests */

/* When the server is root and the workspace belongs to somebody else: a user namespace that shows the owner as the
 * guest, for an id-mapped mount. `*ret_userns_fd` stays as it was when none is needed. Before the pid namespace. */
int jail_root_idmap(const struct jail_config *config, int *ret_userns_fd, struct sbx_error *err);
/* Needs mount and pid namespaces of its own and CAP_SYS_ADMIN over them. `userns_fd`: of jail_root_idmap, or -1. */
int jail_root_build(const struct jail_config *config, int userns_fd, struct sbx_error *err);

/* ---- jail_mounts.c: what each guest has of its own */

int jail_mounts_private(const struct jail_config *config, struct sbx_error *err);
/* Makes it the working directory; whether the guest's ids may use it as configured. */
int jail_mounts_enter(const struct jail_config *config, const char *path, struct sbx_error *err);

/* ---- jail_limits.c */

int jail_limits_apply(const struct jail_config *config, uint64_t memory_bytes, uint32_t pids_max,
                      struct sbx_error *err);

/* ---- jail_landlock.c */

int jail_landlock_abi(void); /* of the kernel; 0: none */
/* `scratch`: without a mount namespace, the directory that may be written; else NULL. Needs no_new_privs. -ENOTSUP. */
int jail_landlock_apply(const struct jail_config *config, const char *scratch, int *ret_abi, struct sbx_error *err);

/* ---- jail_seccomp.c */

int jail_seccomp_apply(const struct jail_config *config, struct sbx_error *err);

/* ---- jail_report.c: lines to the server, before any foreign code runs */

struct jail_report {
        char text[8192];
        size_t size;
};
void jail_report_add(struct jail_report *report, const char *name, const char *state, const char *format, ...)
        SBX_PRINTF(4, 5);
int jail_report_send(struct jail_report *report, int fd);
void jail_report_send_failure(int fd, const struct sbx_error *err);

/* ---- jail_guest.c: all of the above for a process that the zygote has just cloned */

struct jail_guest {
        const struct jail_config *config;
        /* Namespaces that somebody else is in: the zygote, and (network, ipc, uts) the guest before this one. */
        const struct jail_namespaces *others;
        uint64_t memory_bytes;
        uint32_t pids_max;
        const char *scratch; /* JAIL_LANDLOCK, JAIL_NONE: its directory */
};
int jail_guest_lock_down(const struct jail_guest *guest, struct jail_report *report, struct sbx_error *err);

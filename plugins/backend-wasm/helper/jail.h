/* SPDX-License-Identifier: Apache-2.0 */
/* The jail of the helper program: what the zygote does to itself before it serves, and each session before it runs
 * guest code. All of it runs in processes of one thread. A function changes the calling process and returns 0, or a
 * negative errno with the reason in `err`; after a failure the process must end.
 *
 * In order: jail_ids_drop_root, jail_namespaces_enter, jail_lock_zygote; in each session jail_lock_session. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "protocol.h"

struct jail {
        const struct helper_config *config;
        bool ids;                        /* changed */
        bool namespaces, user_namespace; /* had */
        char namespaces_why[192];        /* if not */
        int landlock_abi;                /* 0: none */
        pid_t zygote;
        uint64_t image_bytes; /* of linear memory that every session begins with */
};

/* ---- jail_ids.c: who we are */

/* Root becomes the configured ids for good, without other groups, where it may and should. Capabilities that the
 * namespaces need stay. */
int jail_ids_drop_root(struct jail *jail, struct sbx_error *err);
bool jail_ids_may_administer(void); /* has CAP_SYS_ADMIN */
/* Writes the maps of the user namespace that this process was just cloned into; needs /proc. */
int jail_ids_map(uid_t outer_uid, gid_t outer_gid);
/* No capability in any set, and none to be had again. */
int jail_ids_drop_capabilities(struct sbx_error *err);
bool jail_ids_powerless(void); /* reads it back */

/* ---- jail_namespaces.c */

/* Returns in a process in namespaces of its own, process 1 there, with an empty file tree: the caller's child, whose
 * end the caller, which does not return, waits for. Where they can't be had and need not be, returns in the caller, and
 * `jail` says why. */
int jail_namespaces_enter(struct jail *jail, struct sbx_error *err);

/* ---- jail_landlock.c */

int jail_landlock_apply(int *ret_abi, struct sbx_error *err); /* no file at all. ABI 0: this kernel has none */

/* ---- jail_limits.c */

int jail_limits_apply(const struct jail *jail, struct sbx_error *err);
int jail_limits_session(const struct helper_config *config); /* of this process: processor time; makes no processes */
/* Whether a process of the jail (0: this one) may make processes: lets it, or not, or asks. The hard limit is never
 * touched. */
int jail_limits_allow(pid_t pid, bool allowed);
int jail_limits_allowed(pid_t pid); /* 1, 0, or a negative errno */

/* ---- jail_seccomp.c: the programs are made at build time by filters.c */

enum jail_filter { JAIL_FILTER_KEEPER, JAIL_FILTER_ZYGOTE, JAIL_FILTER_SESSION };
int jail_seccomp_apply(enum jail_filter filter); /* needs no_new_privs. Negative errno */
size_t jail_seccomp_size(enum jail_filter filter);

/* ---- jail.c: in order, and tried */

int jail_lock_zygote(struct jail *jail, struct sbx_error *err);
/* Of sessions and their copies. Negative errno. */
int jail_die_with_zygote(const struct jail *jail);
/* Of a process that the zygote has just cloned, before it runs guest code. Negative errno. */
int jail_lock_session(const struct jail *jail);

/* ---- jail_report.c */

/* Tries the last layer, too, in a process of its own; then writes what holds to `fd`, as protocol.h says. */
int jail_report(const struct jail *jail, int fd, struct sbx_error *err);

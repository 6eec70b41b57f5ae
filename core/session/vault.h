/* SPDX-License-Identifier: Apache-2.0 */
/* Where sessions' states are kept: in a store plugin, or for sessions that belong to this server alone in its memory.
 * What the store holds is a tree (the manifest) for each session and the parts of its checkpoints; docs/sessions.md has
 * the names and formats. All that comes out of a store is looked at as if an enemy had written it. */
#pragma once

#include "session/states.h"

struct sbx_vaults; /* of all sessions of a runtime. Thread-safe */
struct sbx_vault;  /* of one session. One thread at a time: whoever has the session's turn */

/* Settings: store (name of the instance), checkpoints_max, checkpoint_memory, store_wait. No plugin is started before
 * it is needed. */
int sbx_vaults_new(const struct sbx_config *config, struct sbx_registry *registry, const struct sbx_logger *logger,
                   struct sbx_vaults **ret_vaults, struct sbx_error *err);
void sbx_vaults_free(struct sbx_vaults *vaults); /* every vault is closed */
/* Whether a session of this id goes into the store: not "" (a fresh one), "default" and what begins with "default-",
 * and nothing where no store is configured. A principal "run:ID", who has sessions for one agent run, has a "default"
 * of his own, which is; what belongs to parts of a run ("run:ID/...") is not. */
bool sbx_vaults_durable(const struct sbx_vaults *vaults, const char *principal, const char *id);
/* Why the store that is configured can't be had, so that no session goes into it; NULL: it can, or nobody has needed it
 * yet. Lives as long as the vaults; logged once, when it is found out. */
const char *sbx_vaults_problem(struct sbx_vaults *vaults);

/* Opens a session's vault: for a durable one takes its lease and reads its manifest. With `create` a session that the
 * store does not know has an empty tree (and nothing of it is in the store until the first checkpoint); without,
 * -ENOENT. -EBUSY: another server has the session: who, and since when he has said nothing; a dead one on this machine,
 * and one whose lease has ended, lose it. -EBADMSG, -EPROTONOSUPPORT: the manifest is damaged, of a newer version: what
 * to do. Where the store can't be had, or takes nothing more and does not know the session, and for what is not
 * durable, it is a new vault in memory, which shares nothing with others of its name. Nobody opens a durable session
 * twice at a time. */
int sbx_vault_open(struct sbx_vaults *vaults, const char *principal, const char *id, bool create,
                   const struct sbx_call *call, struct sbx_vault **ret_vault, struct sbx_error *err);
void sbx_vault_close(struct sbx_vault *vault); /* gives the lease back; NULL is fine */
bool sbx_vault_durable(const struct sbx_vault *vault);
/* Why it is not, though sessions of its name are; NULL: it is, or they are not. Lives as long as the vault. */
const char *sbx_vault_problem(const struct sbx_vault *vault);
/* What is in it lives until the next change of the vault. */
const struct sbx_tree *sbx_vault_tree(const struct sbx_vault *vault);

/* What a session was when it was stored, to be checked before its state is given to a guest. */
struct sbx_vault_identity {
        char environment[128], backend[64], runtime[72]; /* name of the instance, of its plugin, and as asked for */
        char created_at[32];
        uint64_t memory_limit_bytes;
};
/* From the manifest; false: it is new. */
bool sbx_vault_identity(const struct sbx_vault *vault, struct sbx_vault_identity *ret_identity);
void sbx_vault_identify(struct sbx_vault *vault, const struct sbx_vault_identity *identity); /* with the next commit */

/* Keeps a state as a new checkpoint below the head, which it becomes; `given` has label, automatic, executions. When it
 * returns 0 it will be there after this process has been killed, and unless `soon` after the machine has lost its
 * power. Automatic ones beyond checkpoints_max go. -ESTALE: another server has taken the session: nothing is kept, and
 * the session must be given up; -ENOSPC, -EFBIG, -EIO: nothing is kept, the older ones are as they were. */
int sbx_vault_add(struct sbx_vault *vault, const struct sbx_checkpoint *given, struct sbx_session_state *state,
                  bool soon, const struct sbx_call *call, const struct sbx_checkpoint **ret_checkpoint,
                  struct sbx_error *err);
/* One without parts: a frozen copy, which is gone with the server (it is not in the manifest). Nothing is stored by
 * that, nor by what moves to it or removes it, until the next change that is. */
int sbx_vault_add_frozen(struct sbx_vault *vault, const struct sbx_checkpoint *given,
                         const struct sbx_checkpoint **ret_checkpoint, struct sbx_error *err);
/* -ENOENT; -EBADMSG: damaged, or not what the manifest says. */
int sbx_vault_read(struct sbx_vault *vault, const char *checkpoint, const struct sbx_call *call,
                   struct sbx_session_state *ret_state, struct sbx_error *err);
/* The session's state descends from this checkpoint from now on; "": from its beginning. Stored `soon`. */
int sbx_vault_move(struct sbx_vault *vault, const char *checkpoint, const struct sbx_call *call, struct sbx_error *err);
int sbx_vault_remove(struct sbx_vault *vault, const char *checkpoint, const struct sbx_call *call,
                     struct sbx_error *err);
/* All of the session; the vault is closed by that. */
int sbx_vault_destroy(struct sbx_vault *vault, const struct sbx_call *call, struct sbx_error *err);
/* Whatever the store has of a session that nobody has open, also what is damaged. -ENOENT, -EBUSY. */
int sbx_vaults_destroy(struct sbx_vaults *vaults, const char *principal, const char *id, const struct sbx_call *call,
                       struct sbx_error *err);
/* Lease lost, to be asked before a session's guest is used: the guest's state is no longer the session's. A look at a
 * flag and a clock; only where nobody could renew the lease for as long as it lasts (the machine slept) the store is
 * asked. */
bool sbx_vault_lost(struct sbx_vault *vault);

/* What is stored: [{"id", "principal", "key", "environment", "runtime", "created_at", "used_at", "checkpoints",
 * "bytes", "executions", "head", "server": holder or null, "damaged": text or null}], sorted. `principal` NULL:
 * everybody's. One whose manifest is damaged goes by its key, as if it were the local user's (""), and can be destroyed
 * by it. */
int sbx_vaults_list(struct sbx_vaults *vaults, const char *principal, const struct sbx_call *call, json_t **ret_list,
                    struct sbx_error *err);
/* The tree of a stored session, which others may have open. -ENOENT; as sbx_vault_open. */
int sbx_vaults_look(struct sbx_vaults *vaults, const char *principal, const char *id, const struct sbx_call *call,
                    struct sbx_tree *ret_tree, struct sbx_error *err);
/* Removes sessions that nobody has used for `idle_ms` (0: none), and lets the store free what it can: {"removed":
 * [ids], "store": what collect says}. */
int sbx_vaults_collect(struct sbx_vaults *vaults, const char *principal, uint64_t idle_ms, const struct sbx_call *call,
                       json_t **ret_told, struct sbx_error *err);

/* One session as a file (transfer.c): the checkpoint (NULL: all), to be read elsewhere. A file is whole or refused. */
int sbx_vault_export(struct sbx_vault *vault, const char *checkpoint, int fd, const struct sbx_call *call,
                     struct sbx_error *err);
/* Into a vault that has no checkpoint. -EBADMSG, -EPROTONOSUPPORT. */
int sbx_vault_import(struct sbx_vault *vault, int fd, const struct sbx_call *call, struct sbx_error *err);

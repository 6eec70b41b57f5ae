/* SPDX-License-Identifier: Apache-2.0 */
/* The file of a trajectory, by its id. */
#pragma once

#include <snipara-sandbox/plugin.h>

/* `id` is the id of a run, or the beginning of one that no other run has (4 digits at least); its file is in the core's
 * setting log_dir. The path is to be freed. -EINVAL: no id; -ENOENT; -EEXIST: several begin so; -ENOMEM. */
int replay_find_file(const struct sbx_host *host, const char *id, char **ret_path, struct sbx_error *err);

/* SPDX-License-Identifier: Apache-2.0 */
/* A store in memory, which can fail, be slow, or damage what it gives, and lets leases change hands. */
#pragma once

#include "sessions.h"

void fake_store_open(void); /* an empty one, for the tables that are opened from now on */
void fake_store_close(void);
unsigned fake_store_commits(void);      /* that were tried */
void fake_store_fail_commits(int code); /* 0: they work */
void fake_store_fail_gets(int code);
void fake_store_slow_commits(unsigned ms);
void fake_store_hold_commits(bool on); /* they wait until it is off */
unsigned fake_store_held(void);        /* how many do */
/* Flips a bit of what is read, of blobs whose name has this in it; NULL: of none. */
void fake_store_damage(const char *part_of_name);
/* Another server takes every lease that somebody has; and gives them back. */
void fake_store_steal(void);
void fake_store_give_back(void);
size_t fake_store_blobs(void);

/* A table over the store that there is. table_close() does not look for guests that are left, as other tables may have
 * some. */
void server_open(struct table *server, const char *const *settings);
void server_close(struct table *server);
/* What the last result tells of its checkpoint; NULL: nothing. */
json_t *kept_by(const struct table *table);

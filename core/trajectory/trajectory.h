/* SPDX-License-Identifier: Apache-2.0 */
/* Trajectory events and their fan-out to sinks. A queue and one thread keep slow sinks out of the way of executions.
 * When the queue is full the caller waits, for a second at most; then the event is dropped, counted, and told as an
 * event "events_dropped". A sink that fails is reported once, and again when it works; nothing fails because of it.
 * Thread-safe. docs/trajectory.md lists the events. */
#pragma once

#include <jansson.h>

#include "plugin/registry.h"
#include "tools/tools.h"

struct sbx_trajectory;

int sbx_trajectory_new(const struct sbx_logger *logger, struct sbx_trajectory **ret_trajectory, struct sbx_error *err);
void sbx_trajectory_free(struct sbx_trajectory *trajectory); /* delivers what is queued, flushes */
/* `sink` outlives the trajectory; its option `events` says whether it gets all events or those of runs. -ENOSPC: there
 * are 16 already. */
int sbx_trajectory_add_sink(struct sbx_trajectory *trajectory, const struct sbx_instance *sink, struct sbx_error *err);
/* False: no sink wants what happens outside of runs, emitting that is free. */
bool sbx_trajectory_active(const struct sbx_trajectory *trajectory);
/* The same for events of runs. */
bool sbx_trajectory_records_runs(const struct sbx_trajectory *trajectory);
/* Of what happens outside a run: random, the same for the life of the trajectory. Borrowed. */
const char *sbx_trajectory_id(const struct sbx_trajectory *trajectory);
/* Takes the reference of `event` (an object of the caller alone; NULL is -ENOMEM), adds "trajectory_id", "event",
 * "timestamp" (if it has none) and "sequence". `trajectory_id` NULL: sbx_trajectory_id, outside of runs; else the id of
 * a run, whose events wait for a place in the queue as long as it takes sinks to make one (30 s at most). -EBUSY:
 * dropped. Without a sink: 0, and nothing. */
int sbx_trajectory_emit(struct sbx_trajectory *trajectory, const char *trajectory_id, const char *event_name,
                        json_t *event);

/* Waits until everything emitted so far is with the sinks, and flushed; 30 s at most: -ETIMEDOUT. */
int sbx_trajectory_flush(struct sbx_trajectory *trajectory);

/* Emits an event "tool_call" for each call of a tool. Before the first call; `trajectory` outlives the calls. */
void sbx_trajectory_watch_tools(struct sbx_trajectory *trajectory, struct sbx_tools *tools);

/* SHA-256 (FIPS 180-4) as 64 lower-case hexadecimal digits. */
#define SBX_SHA256_TEXT_SIZE 65
void sbx_sha256_text(struct sbx_bytes bytes, char ret_text[SBX_SHA256_TEXT_SIZE]);

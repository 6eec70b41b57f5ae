/* SPDX-License-Identifier: Apache-2.0 */
/* Trajectory events and their fan-out to sinks. A queue and one thread keep slow sinks out of the way of executions;
 * when the queue is full the oldest caller waits, and a sink that fails is reported once and goes on. Thread-safe. */
#pragma once

#include <jansson.h>

#include "plugin/registry.h"

struct sbx_trajectory;

int sbx_trajectory_new(const struct sbx_logger *logger, struct sbx_trajectory **ret_trajectory,
                       struct sbx_error *err);
void sbx_trajectory_free(struct sbx_trajectory *trajectory); /* delivers what is queued, flushes */
/* `sink` outlives the trajectory. */
int sbx_trajectory_add_sink(struct sbx_trajectory *trajectory, const struct sbx_instance *sink, struct sbx_error *err);
bool sbx_trajectory_active(const struct sbx_trajectory *trajectory); /* false: no sink, emitting is free */
/* Takes the reference of `event`, adds "timestamp" and "sequence". */
int sbx_trajectory_emit(struct sbx_trajectory *trajectory, const char *trajectory_id, const char *event_name,
                        json_t *event);

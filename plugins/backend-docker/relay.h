/* SPDX-License-Identifier: Apache-2.0 */
/* Between the core's control socket of a guest and the engine's stream of its container: one thread for all guests. It
 * takes the engine's multiplexing off (8 bytes: stream, 0, 0, 0, u32 big endian size, payload;
 * https://docs.docker.com/engine/api/v1.41/#operation/ContainerAttach), holds at most RELAY_PENDING_MAX bytes each way,
 * and stops reading where the other side does not take. */
#ifndef DOCKER_RELAY_H
#define DOCKER_RELAY_H

#include "engine.h"

#define RELAY_PENDING_MAX ((size_t)256 << 10)
#define RELAY_WORDS_MAX 4096u /* last bytes of the container's standard error that are kept: the worker's last words   \
                               */

struct relay;
struct relay_line; /* one guest's */

int relay_new(struct relay **ret_relay, struct sbx_error *err);
void relay_free(struct relay *relay); /* no line may be left */

struct relay_end {
        void *data;
        /* The engine's stream broke or ended; called once for each stream by the relay's thread; must not block.
         * `idle`: nothing was under way (every request had its result), so that another stream to the same container
         * goes on where this one was (relay_line_resume); else the guest's answer may be lost, and the line is dead
         * already. Not called for a line that was killed or is being freed. */
        void (*ended)(void *data, bool idle);
};
/* Takes the stream over, but on failure. `*ret_control_fd` is the core's end of a socket pair; `*ret_exit_fd` becomes readable once the
 * line is dead. Both are the caller's. `first` is sent before anything of the core's (the worker itself). */
int relay_line_new(struct relay *relay, struct engine_stream *stream, struct sbx_bytes first,
                   const struct relay_end *end, struct relay_line **ret_line, int *ret_control_fd, int *ret_exit_fd,
                   struct sbx_error *err);
/* Takes the streams over; `input` (may be NULL) is where the core's bytes go instead. When that one ends, nothing is lost
 * that was not sent, and `ended` is called once the line is idle. -ESRCH: the line is dead, or has a stream; these stay
 * the caller's. */
int relay_line_resume(struct relay_line *line, struct engine_stream *stream, struct engine_stream *input,
                      struct sbx_error *err);
/* If it has an input stream of its own: as though that had ended. For what ends everything in the container but the
 * worker. */
void relay_line_renew(struct relay_line *line);
/* While it holds, what the core sends waits, until the interrupt of what runs has arrived. */
void relay_line_hold(struct relay_line *line, bool hold);
void relay_line_kill(struct relay_line *line); /* dead from now on: the core sees the end of the stream; idempotent */
bool relay_line_dead(const struct relay_line *line);
/* The last of standard error, repaired UTF-8. */
void relay_line_words(struct relay_line *line, char *text, size_t size);
/* Returns when the thread is done with it, so not to be called by `ended`. NULL is fine. */
void relay_line_free(struct relay_line *line);

#endif

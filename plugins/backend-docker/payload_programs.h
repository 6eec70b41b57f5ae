/* SPDX-License-Identifier: Apache-2.0 */
/* What starts a worker in a container. It comes from nowhere but here: no text of a user, a model or a
 * configuration is ever put into it. */
#ifndef DOCKER_PAYLOAD_PROGRAMS_H
#define DOCKER_PAYLOAD_PROGRAMS_H

#include "payload.h"

#define PAYLOAD_FAMILIES 3
#define PAYLOAD_KEPT_INPUT "1007" /* the descriptor that a worker keeps */

/* payload_boot.c: argument vectors by family, NULL-terminated. */
extern const char *const *const payload_boots[PAYLOAD_FAMILIES];
extern const char *const *const payload_pumps[PAYLOAD_FAMILIES]; /* NULL: this worker keeps no input */

#endif

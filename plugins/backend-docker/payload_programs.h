/* SPDX-License-Identifier: Apache-2.0 */
/* What starts a worker in a container. It comes from nowhere but here: no text of a user, a model or a
 * configuration is ever put into it. */
#ifndef DOCKER_PAYLOAD_PROGRAMS_H
#define DOCKER_PAYLOAD_PROGRAMS_H

#include "payload.h"

#define PAYLOAD_FAMILIES 3

/* payload_boot.c: argument vectors by family, NULL-terminated. */
extern const char *const *const payload_boots[PAYLOAD_FAMILIES];

#endif

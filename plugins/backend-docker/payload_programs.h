/* SPDX-License-Identifier: Apache-2.0 */
/* Fixed programs that containers are started with. They come from nowhere but here: no text of a user, a model or a
 * configuration is ever put into one. */
#ifndef DOCKER_PAYLOAD_PROGRAMS_H
#define DOCKER_PAYLOAD_PROGRAMS_H

#include "payload.h"

#define PAYLOAD_FAMILIES 3

/* payload_boot.c, payload_keeper.c: argument vectors by family, NULL-terminated. */
extern const char *const *const payload_boots[PAYLOAD_FAMILIES];
extern const char *const *const payload_keepers[PAYLOAD_FAMILIES];
extern const char *const *const payload_killers[PAYLOAD_FAMILIES];

#endif

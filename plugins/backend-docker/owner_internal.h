/* SPDX-License-Identifier: Apache-2.0 */
/* What scope.c needs of the owner beyond labels. */
#ifndef DOCKER_OWNER_INTERNAL_H
#define DOCKER_OWNER_INTERNAL_H

#include "locks.h"
#include "owner.h"

struct locks *owner_locks(const struct owner *owner);
const char *owner_scope_name(enum docker_scope scope);

#endif

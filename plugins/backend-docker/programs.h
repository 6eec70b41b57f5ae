/* SPDX-License-Identifier: Apache-2.0 */
/* Fixed programs for containers with several workers, in the language that the image has: keeper and killer of
 * payload.h. No text of a user, a model or a configuration is ever put into one. */
#ifndef DOCKER_PROGRAMS_H
#define DOCKER_PROGRAMS_H

#include "options.h"

/* argv, NULL-terminated. keeper: one more argument, seconds (a fraction is fine). killer: a signal (2 or 9), then
 * marks; one that ends with '*' stands for all that begin so. Its exit code is 0 when nobody with such a mark is left
 * (9), or the worker was signalled (2). */
const char *const *program_keeper(enum docker_family family);
const char *const *program_killer_of(enum docker_family family);
/* By the word of the label `guest`, "python", "node", "bash"; NULL for another. */
const char *const *program_killer(const char *word);
const char *program_family_word(enum docker_family family);

#endif

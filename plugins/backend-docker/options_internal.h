/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files that read options. */
#ifndef DOCKER_OPTIONS_INTERNAL_H
#define DOCKER_OPTIONS_INTERNAL_H

#include "options.h"

#define DOCKER_OPTIONS_ORIGIN "backend-docker"

/* A letter or digit, then those and characters of `more`; at most 127. */
bool docker_word_ok(const char *text, const char *more);

/* options_runtimes.c: the map from runtime to image. */
int docker_runtimes_read(const struct sbx_host *host, struct docker_options *options, struct sbx_error *err);

/* requirement.c: a requirement specifier of PEP 508 without a URL, and nothing else that pip would take: no option, no
 * path. */
bool docker_requirement_ok(const char *text);
/* Of workspace_install_extras, else of docker_workspace_install_extras, where commas stand between them. */
int docker_extras_read(const struct sbx_host *host, struct docker_options *options, struct sbx_error *err);

#endif

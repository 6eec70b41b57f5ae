/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files that prepare images. */
#ifndef DOCKER_PREPARE_INTERNAL_H
#define DOCKER_PREPARE_INTERNAL_H

#include "context.h"
#include "image_internal.h"

/* ---- prepare_project.c ---- */

/* What a project says of its installation. */
struct project_facts {
        bool installable; /* pyproject.toml or setup.py */
        bool dev_extra;   /* it declares the extra "dev" */
        bool requirements, requirements_dev, requirements_test;
};
/* -ENOENT, -EACCES (the directory). */
int project_look(const char *directory, struct project_facts *ret_facts, struct sbx_error *err);
/* Whether a pyproject.toml, setup.cfg, setup.py (by `name`) declares the extra "dev", as far as that can be seen
 * without running anything. */
bool project_declares_dev(const char *name, const char *text);

/* ---- recipe.c ---- */

#define RECIPE_MAX 65536u

/* The build file below FROM and LABEL, to be freed; and what of the project the build needs. -EINVAL: the project has
 * nothing that the setup could install. */
int recipe_make(const struct docker_options *options, const struct project_facts *facts, char **ret_text,
                enum context_what *ret_what, struct sbx_error *err);

/* ---- build_log.c: what a build says, its end kept ---- */

#define BUILD_LOG_MAX 8192u

struct build_log {
        char text[BUILD_LOG_MAX]; /* the end; NUL-terminated lines of printable UTF-8 */
        size_t size;
        char step[16];  /* "3/8" */
        char line[128]; /* the last one with something on it */
};
void build_log_add(struct build_log *log, const char *text);
/* The last lines, at most `size` bytes with the NUL; begins at the beginning of a line. */
void build_log_tail(const struct build_log *log, unsigned lines, char *text, size_t size);

#endif

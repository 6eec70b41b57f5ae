/* SPDX-License-Identifier: Apache-2.0 */
/* Packages for the images that `image build` makes. */
#pragma once

#include "cli/options.h"
#include "cli/runtime.h"

/* Opens the parts anew with the packages of the command line (those arguments that are an option's) added to those of
 * the configuration, for the backend `environment` (NULL: the first whose images take packages); its name is the
 * caller's to free. -EINVAL, -ENOENT. */
int sbx_cli_image_packages(struct sbx_cli *cli, struct sbx_cli_parts *parts, const struct sbx_cli_arguments *with,
                           const char *environment, char **ret_environment, struct sbx_error *err);
/* Tells how sessions come to use what was built of the packages that `instance` was opened with. */
void sbx_cli_image_packages_used(const struct sbx_cli *cli, const struct sbx_instance *instance);

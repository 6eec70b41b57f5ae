/* SPDX-License-Identifier: Apache-2.0 */
/* The start of a guest's process. */
#pragma once

#include "family.h"

/* Makes the guest's place and its streams, and has the zygote make its process, up to where it is locked down: the
 * family's own zygote and image if it has them. Fills in the family's report. -ENOTSUP: its zygote is gone. */
int local_guest_lock_down(struct local_guest *guest, enum local_runtime runtime, const struct sbx_guest_spec *spec,
                          struct streams *streams, const struct sbx_call *call, struct sbx_error *err);

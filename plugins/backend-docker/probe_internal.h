/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files of the probe. */
#ifndef DOCKER_PROBE_INTERNAL_H
#define DOCKER_PROBE_INTERNAL_H

#include "docker.h"

struct probe {
        struct docker *docker;
        const struct sbx_probe_events *events;
        const struct sbx_call *call;
        int first_failure;
};

SBX_PRINTF(5, 6)
void probe_tell(struct probe *probe, enum sbx_probe_status status, const char *subject, const char *remedy,
                const char *detail_format, ...);
/* As probe_tell of a failure whose error says all. */
void probe_fail(struct probe *probe, int code, const char *subject, const struct sbx_error *err);

/* probe_guest.c: whether the images are there (nothing is pulled or built), and a container of the default one. The
 * instance is started. */
void probe_images(struct probe *probe);
void probe_guest(struct probe *probe);

#endif

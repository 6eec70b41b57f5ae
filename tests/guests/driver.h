/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of drive-guests share: the backend, its guests by number, and what can be done with them. */
#pragma once

#include "base/json.h"
#include "guest/guest.h"

#define PATIENCE_MS 120000 /* bounds what would hang; nothing is expected to take as long */

struct driver {
        struct sbx_logger logger;
        struct sbx_directories directories;
        struct sbx_config *config;
        struct sbx_registry *registry;
        const struct sbx_instance *backend;
        struct sbx_guest_process **guests; /* by number; NULL: ended */
        size_t count;
};
extern struct driver driver;

/* Takes `guest` over, and puts its number into the answer. */
int driver_keep(struct sbx_guest_process *guest, json_t *answer, struct sbx_error *err);
/* Where the guest is that the command means; -ESRCH. */
int driver_guest(const json_t *command, struct sbx_guest_process ***ret_place, struct sbx_error *err);

/* A guest as the command wants it: its members are optional. */
int driver_spec(const json_t *command, struct sbx_guest_spec *ret_spec, struct sbx_error *err);
int driver_put_file(const char *path, struct sbx_bytes content, struct sbx_error *err);

/* Commands: each reads members of `command` and adds members to `answer`. */
typedef int driver_command(const json_t *command, const struct sbx_call *call, json_t *answer, struct sbx_error *err);
driver_command driver_start;   /* {"label"?, "runtime"?, "memory_bytes"?} -> {"guest", "report"} */
driver_command driver_execute; /* {"guest", "code", "timeout_ms"?, "output_max_bytes"?} -> what came of it */
driver_command driver_write;   /* {"guest", "path", "from"}: a file of the host's into the guest */
driver_command driver_read;    /* {"guest", "path", "to"} */
driver_command driver_fork;    /* {"guest", "frozen"?} -> {"guest"} */
driver_command driver_save;    /* {"guest", "to"} -> {"size"} */
driver_command driver_restore; /* {"from", "memory_bytes"?} -> {"guest"} */
driver_command driver_limit;   /* {"guest", "memory_bytes"} */
driver_command driver_usage;   /* {"guest"} -> struct sbx_guest_usage */
driver_command driver_end;     /* {"guest"} */

/* SPDX-License-Identifier: Apache-2.0 */
/* Holders of leases. A process is known by its boot, its pid namespace, its pid and when it started: a pid alone is
 * somebody else's after a while. */
#include "session/lease.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/number.h"

#define STAT_SIZE 1024 /* of /proc/PID/stat: 52 numbers and a name of at most 64 bytes */
#define PLACE_SIZE 80

static size_t read_small(const char *path, char *ret_text, size_t size) {
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd >= 0 ? read(fd, ret_text, size - 1) : 0;

        ret_text[n > 0 ? n : 0] = '\0';
        return n > 0 ? (size_t)n : 0;
}

/* Boot and pid namespace: within them a pid means one process. */
static void find_place(char ret_place[PLACE_SIZE]) {
        char boot[48];
        struct stat status;

        read_small("/proc/sys/kernel/random/boot_id", boot, sizeof(boot));
        boot[strcspn(boot, "\n")] = '\0';
        snprintf(ret_place, PLACE_SIZE, "%s.%" PRIu64, boot[0] != '\0' ? boot : "unknown",
                 stat("/proc/self/ns/pid", &status) == 0 ? (uint64_t)status.st_ino : 0);
}

struct process {
        char state;
        int64_t threads, start;
};

/* Fields of /proc/PID/stat behind the name, which may hold anything (proc(5)): 3 state, 20 num_threads, 22 starttime.
 */
static bool look_at(int64_t pid, struct process *ret_process) {
        char path[64], text[STAT_SIZE], *at, *saved = NULL;
        unsigned field = 3;

        snprintf(path, sizeof(path), "/proc/%" PRId64 "/stat", pid);
        if (read_small(path, text, sizeof(text)) == 0 || (at = strrchr(text, ')')) == NULL)
                return false;
        *ret_process = (struct process){0};
        for (at = strtok_r(at + 1, " \n", &saved); at != NULL; at = strtok_r(NULL, " \n", &saved), field++) {
                if (field == 3)
                        ret_process->state = at[0];
                else if (field == 20 && sbx_number_int(at, &ret_process->threads) < 0)
                        return false;
                else if (field == 22)
                        return sbx_number_int(at, &ret_process->start) == 0;
        }
        return false;
}

void sbx_lease_holder(char ret_holder[SBX_LEASE_HOLDER_SIZE]) {
        static atomic_uint last_number;
        char place[PLACE_SIZE], host[65] = "";
        struct process self = {0};

        find_place(place);
        look_at(getpid(), &self);
        gethostname(host, sizeof(host) - 1);
        snprintf(ret_holder, SBX_LEASE_HOLDER_SIZE, "%s/%ld/%" PRId64 ".%u %.60s on %s", place, (long)getpid(),
                 self.start, atomic_fetch_add(&last_number, 1) + 1, program_invocation_short_name, host);
}

struct holder {
        char place[PLACE_SIZE];
        int64_t pid, start;
        const char *name; /* borrowed */
};

/* The text up to `end`, and what is behind it; NULL: there is none, or it is too long. */
static const char *take_until(const char *text, const char *end, char *ret_part, size_t size) {
        size_t length = strcspn(text, end);

        if (text[length] == '\0' || length >= size)
                return NULL;
        memcpy(ret_part, text, length);
        ret_part[length] = '\0';
        return text + length + 1;
}

static bool parse(const char *text, struct holder *ret_holder) {
        char pid[24], start[24], number[24];

        text = take_until(text, "/", ret_holder->place, sizeof(ret_holder->place));
        text = text != NULL ? take_until(text, "/", pid, sizeof(pid)) : NULL;
        text = text != NULL ? take_until(text, ".", start, sizeof(start)) : NULL;
        text = text != NULL ? take_until(text, " ", number, sizeof(number)) : NULL;
        ret_holder->name = text;
        return text != NULL && sbx_number_int(pid, &ret_holder->pid) == 0 && ret_holder->pid > 0 &&
               ret_holder->pid <= INT32_MAX && sbx_number_int(start, &ret_holder->start) == 0;
}

bool sbx_lease_holder_gone(const char *holder) {
        char place[PLACE_SIZE];
        struct holder parsed;
        struct process process;

        find_place(place);
        if (!parse(holder, &parsed) || strcmp(parsed.place, place) != 0 || strncmp(place, "unknown.", 8) == 0)
                return false;
        if (kill((pid_t)parsed.pid, 0) < 0 && errno == ESRCH)
                return true;
        /* Somebody else's processes may be hidden; a leader whose other threads go on is a zombie, too. */
        if (!look_at(parsed.pid, &process))
                return false;
        return process.start != parsed.start ||
               ((process.state == 'Z' || process.state == 'X') && process.threads <= 1);
}

void sbx_lease_holder_show(const char *holder, char *ret_text, size_t size) {
        struct holder parsed;

        if (size == 0)
                return;
        if (parse(holder, &parsed)) {
                const char *on = strstr(parsed.name, " on ");
                int length = (int)(on != NULL ? (size_t)(on - parsed.name) : strlen(parsed.name));

                snprintf(ret_text, size, "%.*s (process %" PRId64 ")%s", length, parsed.name, parsed.pid,
                         on != NULL ? on : "");
        } else {
                snprintf(ret_text, size, "%s", holder);
        }
        for (char *at = ret_text; *at != '\0'; at++)
                if ((unsigned char)*at < 0x20 || (unsigned char)*at >= 0x7f)
                        *at = '?';
}

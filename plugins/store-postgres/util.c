/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting within a call, and the rules of names. */
#include "util.h"

/* Until the deadline, for poll(): rounded up, so that nobody spins in the last millisecond. */
static int milliseconds_until(uint64_t deadline_ns) {
        uint64_t now = monotonic_ns(), left;

        if (deadline_ns == 0)
                return -1;
        if (now >= deadline_ns)
                return 0;
        left = (deadline_ns - now + NS_PER_MS - 1) / NS_PER_MS;
        return left > 3600000 ? 3600000 : (int)left;
}

int wait_for(int fd, short events, const struct sbx_call *call, uint64_t deadline_ns) {
        struct pollfd ready[2] = {{.fd = fd, .events = events},
                                  {.fd = call != NULL ? call->cancel_fd : -1, .events = POLLIN}};

        for (;;) {
                int r = poll(ready, 2, milliseconds_until(deadline_ns));

                if (r < 0 && errno != EINTR)
                        return -errno;
                if (r > 0 && ready[1].revents != 0)
                        return -ECANCELED;
                if (r > 0)
                        return 0;
                if (deadline_ns != 0 && monotonic_ns() >= deadline_ns)
                        return -ETIMEDOUT;
        }
}

static bool is_component(const char *text, size_t size) {
        return size > 0 && !(size == 1 && text[0] == '.') && !(size == 2 && text[0] == '.' && text[1] == '.');
}

int check_name(const char *name, struct sbx_error *err) {
        size_t length = name != NULL ? strnlen(name, NAME_BYTES_MAX + 1) : 0;
        bool good = length > 0 && length <= NAME_BYTES_MAX && strspn(name, NAME_CHARACTERS) == length;

        for (const char *at = name; good && at != NULL;) {
                size_t size = strcspn(at, "/");

                good = is_component(at, size);
                at = at[size] == '/' ? at + size + 1 : NULL;
        }
        return good ? 0
                    : sbx_error_set(err, -EINVAL, POSTGRES_ORIGIN,
                                    "Use 1 to 255 of A-Z a-z 0-9 _ . - and /, without empty parts, \".\" and \"..\".",
                                    "a store can't have the name \"%.64s\"", name != NULL ? name : "");
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Ctrl-C, SIGTERM and SIGHUP as a descriptor that a struct sbx_call can wait for. */
#include "cli/signals.h"

#include <signal.h>
#include <unistd.h>

#include "base/fd.h"

static const int caught[] = {SIGINT, SIGTERM, SIGHUP};

/* A handler gets no argument, so these are the program's only globals. */
static volatile sig_atomic_t wake_fd = -1;
static int read_end = -1, write_end = -1;
static struct sigaction saved[sizeof(caught) / sizeof(caught[0])], saved_pipe;

static void wake(int number) {
        unsigned char byte = (unsigned char)number;
        int saved_errno = errno, fd = wake_fd;

        if (fd >= 0 && write(fd, &byte, 1) < 0) {
                /* A full pipe is readable already: nothing is lost. */
        }
        errno = saved_errno;
}

int sbx_cli_signals_open(struct sbx_cli_signals *ret_signals, bool once) {
        struct sigaction action = {.sa_handler = wake, .sa_flags = SA_RESTART | (once ? SA_RESETHAND : 0)},
                         ignore = {.sa_handler = SIG_IGN};
        int fds[2], r;

        if (write_end >= 0)
                return -EBUSY;
        r = sbx_fd_pipe(fds);
        if (r < 0)
                return r;
        read_end = fds[0];
        write_end = fds[1];
        wake_fd = write_end;
        sbx_fd_set_nonblocking(read_end, true);
        sbx_fd_set_nonblocking(write_end, true);
        for (size_t i = 0; i < sizeof(caught) / sizeof(caught[0]); i++) {
                sigaction(caught[i], NULL, &saved[i]);
                /* nohup and background jobs of a shell start with some of them ignored: that stays. */
                if (saved[i].sa_handler != SIG_IGN)
                        sigaction(caught[i], &action, NULL);
        }
        sigaction(SIGPIPE, &ignore, &saved_pipe);
        ret_signals->fd = read_end;
        return 0;
}

void sbx_cli_signals_close(struct sbx_cli_signals *signals) {
        if (write_end < 0 || signals->fd != read_end)
                return;
        for (size_t i = 0; i < sizeof(caught) / sizeof(caught[0]); i++)
                sigaction(caught[i], &saved[i], NULL);
        sigaction(SIGPIPE, &saved_pipe, NULL);
        wake_fd = -1;
        close(read_end);
        close(write_end);
        read_end = write_end = signals->fd = -1;
}

void sbx_cli_signals_raise(const struct sbx_cli_signals *signals, int number) {
        if (signals->fd >= 0)
                wake(number);
}

int sbx_cli_signals_take(struct sbx_cli_signals *signals) {
        unsigned char bytes[64];
        int found = 0;
        ssize_t n;

        while (signals->fd >= 0 && (n = read(signals->fd, bytes, sizeof(bytes))) > 0)
                for (ssize_t i = 0; i < n; i++)
                        if (found == 0 || found == SIGINT)
                                found = bytes[i];
        return found;
}

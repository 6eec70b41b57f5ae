/* SPDX-License-Identifier: Apache-2.0 */
/* Transport plugins: serve clients. Everything they can do, they do through the tool services of sbx_host. */
#ifndef SNIPARA_SANDBOX_TRANSPORT_H
#define SNIPARA_SANDBOX_TRANSPORT_H

#include <snipara-sandbox/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sbx_transport_ops {
        uint32_t struct_size;
        uint32_t reserved;
        /* Serves until the peer goes (stdio: end of file), or until `call` is cancelled; both return 0. `input_fd`
         * and `output_fd` are the process's own streams for a transport that speaks over them; they stay the caller's.
         * Without `input_fd` (-1) a transport listens on the network, if it can (else -EINVAL), and writes its address
         * to `output_fd`, one line, when it does (-1: nowhere). Before it returns, everything that it submitted is
         * cancelled and done. */
        int (*serve)(void *instance, int input_fd, int output_fd, const struct sbx_call *call, struct sbx_error *err);
};

#ifdef __cplusplus
}
#endif
#endif

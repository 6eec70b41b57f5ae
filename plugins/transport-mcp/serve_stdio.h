/* SPDX-License-Identifier: Apache-2.0 */
/* MCP over two descriptors: one JSON message a line, each way. */
#pragma once

#include "connection.h"

/* Serves one client until the end of `input_fd`, until nobody reads `output_fd`, or until `call` is cancelled (all 0),
 * or its deadline passes (-ETIMEDOUT). A line longer than `message_max` bytes is answered with an error and skipped.
 * While calls run, input is read; while the client is behind with reading, it is not. */
int mcp_stdio_serve(struct mcp_server *server, size_t message_max, int input_fd, int output_fd,
                    const struct sbx_call *call, struct sbx_error *err);

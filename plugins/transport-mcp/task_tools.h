/* SPDX-License-Identifier: Apache-2.0 */
/* Which tools can only be called as tasks: execution.taskSupport "required" in the host's list, kept until the list
 * changes. Thread-safe. */
#pragma once

#include <stdbool.h>

#include <snipara-sandbox/plugin.h>

struct mcp_task_tools;

int mcp_task_tools_new(const struct sbx_host *host, struct mcp_task_tools **ret_tools, struct sbx_error *err);
void mcp_task_tools_free(struct mcp_task_tools *tools); /* NULL is fine */
/* False, too, when the host can't list its tools: then the tool itself finds out that it can't become a task. */
bool mcp_task_tools_require(struct mcp_task_tools *tools, const char *name);

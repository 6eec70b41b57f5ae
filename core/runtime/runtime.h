/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of a runtime, for core/cli: the parts that sbx_runtime_open put together. */
#pragma once

#include <snipara-sandbox/runtime.h>

#include "config/config.h"
#include "plugin/registry.h"
#include "session/session.h"
#include "tools/tools.h"
#include "trajectory/trajectory.h"

struct sbx_runtime {
        struct sbx_logger logger;
        struct sbx_directories directories;
        struct sbx_config *config;
        struct sbx_tools *tools;
        struct sbx_tool_services services; /* of `tools`, for the registry's plugins */
        struct sbx_registry *registry;
        struct sbx_trajectory *trajectory;
        struct sbx_sessions *sessions;
};

/* A caller's struct sbx_call, of whatever size, as this library knows it: in `copy`. NULL stays NULL. */
const struct sbx_call *sbx_runtime_call(const struct sbx_call *call, struct sbx_call *copy);

/* SPDX-License-Identifier: Apache-2.0 */
/* What the program does when it is started as a process of a test. */
#pragma once

int child_main(const char *task); /* the exit code */

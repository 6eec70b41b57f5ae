/* SPDX-License-Identifier: Apache-2.0 */
/* Programs for containers with several workers: process 1, and how the processes of one worker are signalled. */
#include "payload_programs.h"

/* Argument: seconds. Ends when no other process was there for so long. */
#define PYTHON_KEEPER                                                                                                  \
        "import os, signal, sys, time\n"                                                                               \
        "def end(*_):\n"                                                                                               \
        "    os._exit(0)\n"                                                                                            \
        "signal.signal(signal.SIGTERM, end)\n"                                                                         \
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"                                                               \
        "left = limit = float(sys.argv[1])\n"                                                                          \
        "step = min(1.0, max(0.05, limit / 10))\n"                                                                     \
        "while left > 0:\n"                                                                                            \
        "    try:\n"                                                                                                   \
        "        while os.waitpid(-1, os.WNOHANG)[0]:\n"                                                               \
        "            pass\n"                                                                                           \
        "    except OSError:\n"                                                                                        \
        "        pass\n"                                                                                               \
        "    others = any(name.isdecimal() and name != '1' for name in os.listdir('/proc'))\n"                         \
        "    left = limit if others else left - step\n"                                                                \
        "    time.sleep(step)\n"

#define NODE_KEEPER                                                                                                    \
        "'use strict';\n"                                                                                              \
        "const fs = require('fs');\n"                                                                                  \
        "process.on('SIGTERM', () => process.exit(0));\n"                                                              \
        "process.on('SIGINT', () => {});\n"                                                                            \
        "const limit = Number(process.argv[1]) * 1000, step = Math.min(1000, Math.max(50, limit / 10));\n"             \
        "let left = limit;\n"                                                                                          \
        "setInterval(() => {\n"                                                                                        \
        "  const others = fs.readdirSync('/proc').some((name) => /^[0-9]+$/.test(name) && name !== '1');\n"            \
        "  left = others ? limit : left - step;\n"                                                                     \
        "  if (left <= 0) process.exit(0);\n"                                                                          \
        "}, step);\n"

/* Arguments: signal, mark. Signals every process whose environment had the mark when it was started, and so each that
 * such a process forked; for signal 9 until none is left, because they may fork meanwhile. */
#define PYTHON_KILLER                                                                                                  \
        "import os, sys, time\n"                                                                                       \
        "signal, mark = int(sys.argv[1]), b'SBX_MARK=' + sys.argv[2].encode()\n"                                       \
        "def marked():\n"                                                                                              \
        "    for name in os.listdir('/proc'):\n"                                                                       \
        "        if name.isdecimal() and int(name) not in (1, os.getpid()):\n"                                         \
        "            try:\n"                                                                                           \
        "                with open('/proc/%s/environ' % name, 'rb') as file:\n"                                        \
        "                    if mark in file.read().split(b'\\0'):\n"                                                  \
        "                        yield int(name)\n"                                                                    \
        "            except OSError:\n"                                                                                \
        "                pass\n"                                                                                       \
        "for _ in range(1000 if signal == 9 else 1):\n"                                                                \
        "    found = list(marked())\n"                                                                                 \
        "    for pid in found if signal == 9 else found[:1]:\n"                                                        \
        "        try:\n"                                                                                               \
        "            os.kill(pid, signal)\n"                                                                           \
        "        except OSError:\n"                                                                                    \
        "            pass\n"                                                                                           \
        "    if not found:\n"                                                                                          \
        "        break\n"                                                                                              \
        "    time.sleep(0.005)\n"

#define NODE_KILLER                                                                                                    \
        "'use strict';\n"                                                                                              \
        "const fs = require('fs'), signal = Number(process.argv[1]), mark = 'SBX_MARK=' + process.argv[2];\n"          \
        "const marked = () => fs.readdirSync('/proc').filter((name) => {\n"                                            \
        "  if (!/^[0-9]+$/.test(name) || name === '1' || Number(name) === process.pid) return false;\n"                \
        "  try { return fs.readFileSync(`/proc/${name}/environ`, 'latin1').split('\\0').includes(mark); }\n"           \
        "  catch { return false; }\n"                                                                                  \
        "}).map(Number);\n"                                                                                            \
        "for (let round = 0; round < (signal === 9 ? 1000 : 1); round++) {\n"                                          \
        "  const found = marked();\n"                                                                                  \
        "  for (const pid of signal === 9 ? found : found.slice(0, 1)) {\n"                                            \
        "    try { process.kill(pid, signal); } catch {}\n"                                                            \
        "  }\n"                                                                                                        \
        "  if (found.length === 0) break;\n"                                                                           \
        "  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);\n"                                         \
        "}\n"

static const char *const python_keeper[] = {"python3", "-I", "-S", "-c", PYTHON_KEEPER, NULL};
static const char *const python_killer[] = {"python3", "-I", "-S", "-c", PYTHON_KILLER, NULL};
static const char *const node_keeper[] = {"node", "-e", NODE_KEEPER, NULL};
static const char *const node_killer[] = {"node", "-e", NODE_KILLER, NULL};

const char *const *const payload_keepers[PAYLOAD_FAMILIES] = {
        [DOCKER_PYTHON] = python_keeper, [DOCKER_NODE] = node_keeper, [DOCKER_BASH] = python_keeper};
const char *const *const payload_killers[PAYLOAD_FAMILIES] = {
        [DOCKER_PYTHON] = python_killer, [DOCKER_NODE] = node_killer, [DOCKER_BASH] = python_killer};

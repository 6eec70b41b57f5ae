/* SPDX-License-Identifier: Apache-2.0 */
/* The first lines that run in a container: they take the worker from standard input and start it. */
#include "payload_programs.h"

/* Runs on any Python, so that an old one can say what is wrong. Where it is told to keep a writing end of its own
 * input, it does: see payload_pumps. Modules of the workspace must not stand in for those that the worker imports: until
 * it is loaded, sys.path has nothing but the interpreter's own. Not every engine limits core files. */
#define PYTHON_BOOT                                                                                                    \
        "import os, sys\n"                                                                                             \
        "def boot():\n"                                                                                                \
        "    if sys.version_info < (3, 9):\n"                                                                          \
        "        sys.stderr.write('the image has Python %d.%d; 3.9 is needed' % sys.version_info[:2])\n"               \
        "        sys.stderr.flush()\n"                                                                                 \
        "        os._exit(78)\n"                                                                                       \
        "    keep = os.environ.pop('SBX_KEEP_INPUT', None)\n"                                                          \
        "    try:\n"                                                                                                   \
        "        if keep:\n"                                                                                           \
        "            end = os.open('/proc/self/fd/0', os.O_WRONLY)\n"                                                  \
        "            os.dup2(end, int(keep), False)\n"                                                                 \
        "            os.close(end)\n"                                                                                  \
        "    except OSError:\n"                                                                                        \
        "        pass\n"                                                                                               \
        "    path = [p for p in sys.path if p]\n"                                                                      \
        "    extra = os.environ.get('PYTHONPATH', '').split(os.pathsep)\n"                                             \
        "    sys.path[:] = [p for p in path if p not in extra]\n"                                                      \
        "    import resource\n"                                                                                        \
        "    try:\n"                                                                                                   \
        "        resource.setrlimit(resource.RLIMIT_CORE, (1, 1))\n"                                                   \
        "    except (OSError, ValueError):\n"                                                                          \
        "        pass\n"                                                                                               \
        "    def take(size):\n"                                                                                        \
        "        data = bytearray()\n"                                                                                 \
        "        while len(data) < size:\n"                                                                            \
        "            chunk = os.read(0, min(size - len(data), 65536))\n"                                               \
        "            if not chunk:\n"                                                                                  \
        "                os._exit(0)\n"                                                                                \
        "            data += chunk\n"                                                                                  \
        "        return bytes(data)\n"                                                                                 \
        "    import json\n"                                                                                            \
        "    from importlib import import_module\n"                                                                    \
        "    from importlib.machinery import ModuleSpec\n"                                                             \
        "    told = json.loads(take(int.from_bytes(take(4), 'little')))\n"                                             \
        "    files = told['files']\n"                                                                                  \
        "    class Loader:\n"                                                                                          \
        "        @classmethod\n"                                                                                       \
        "        def find_spec(cls, name, path=None, target=None):\n"                                                  \
        "            base = name.replace('.', '/')\n"                                                                  \
        "            for file, package in ((base + '/__init__.py', True), (base + '.py', False)):\n"                   \
        "                if file in files:\n"                                                                          \
        "                    spec = ModuleSpec(name, cls, origin='/.sbx/' + file, is_package=package)\n"               \
        "                    spec.has_location = True\n"                                                               \
        "                    return spec\n"                                                                            \
        "        @classmethod\n"                                                                                       \
        "        def create_module(cls, spec):\n"                                                                      \
        "            return None\n"                                                                                    \
        "        @classmethod\n"                                                                                       \
        "        def exec_module(cls, module):\n"                                                                      \
        "            origin = module.__spec__.origin\n"                                                                \
        "            exec(compile(files[origin[6:]], origin, 'exec', dont_inherit=True), module.__dict__)\n"           \
        "    sys.meta_path.insert(0, Loader)\n"                                                                        \
        "    entry = import_module(told['entry'])\n"                                                                   \
        "    sys.path[:] = path + [os.getcwd()]\n"                                                                     \
        "    return entry.main\n"                                                                                      \
        "boot()()\n"

/* Files require each other by relative paths, and Node's modules by their names. The worker starts a second Node in the
 * same way, over another descriptor: so it gets what was read (require.payload). */
#define NODE_BOOT                                                                                                      \
        "'use strict';\n"                                                                                              \
        "const fs = require('fs'), path = require('path').posix, vm = require('vm');\n"                                \
        "const fd = parseInt(process.env.SBX_CONTROL_FD, 10);\n"                                                       \
        "if (parseInt(process.versions.node, 10) < 18) {\n"                                                            \
        "  fs.writeSync(2, 'the image has Node ' + process.versions.node + '; 18 is needed');\n"                       \
        "  process.exit(78);\n"                                                                                        \
        "}\n"                                                                                                          \
        "const take = (size) => {\n"                                                                                   \
        "  const data = Buffer.alloc(size);\n"                                                                         \
        "  for (let have = 0; have < size;) {\n"                                                                       \
        "    let count;\n"                                                                                             \
        "    try { count = fs.readSync(fd, data, have, size - have, null); } catch (error) {\n"                        \
        "      if (error.code !== 'EAGAIN') throw error;\n"                                                            \
        "      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);\n"                                     \
        "      continue;\n"                                                                                            \
        "    }\n"                                                                                                      \
        "    if (count === 0) process.exit(0);\n"                                                                      \
        "    have += count;\n"                                                                                         \
        "  }\n"                                                                                                        \
        "  return data;\n"                                                                                             \
        "};\n"                                                                                                         \
        "const head = take(4), body = take(head.readUInt32LE(0));\n"                                                   \
        "const told = JSON.parse(body.toString('utf8'));\n"                                                            \
        "const files = new Map(Object.entries(told.files)), loaded = new Map();\n"                                     \
        "const find = (name) => [name, name + '.js', name + '/index.js'].find((file) => files.has(file));\n"           \
        "const load = (file) => {\n"                                                                                   \
        "  if (loaded.has(file)) return loaded.get(file).exports;\n"                                                   \
        "  const module = { exports: {}, id: file, filename: '/.sbx/' + file, loaded: false };\n"                      \
        "  const own = (name) => {\n"                                                                                  \
        "    const inside = /^\\.\\.?\\//.test(name) ? find(path.join(path.dirname(file), name)) : undefined;\n"       \
        "    return inside === undefined ? require(name) : load(inside);\n"                                            \
        "  };\n"                                                                                                       \
        "  own.main = loaded.size === 0 ? module : undefined;\n"                                                       \
        "  own.payload = Buffer.concat([head, body]);\n"                                                               \
        "  loaded.set(file, module);\n"                                                                                \
        "  const names = ['exports', 'require', 'module', '__filename', '__dirname'];\n"                               \
        "  const run = vm.compileFunction(files.get(file), names, { filename: module.filename });\n"                   \
        "  run.call(module.exports, module.exports, own, module, module.filename, path.dirname(module.filename));\n"   \
        "  module.loaded = true;\n"                                                                                    \
        "  return module.exports;\n"                                                                                   \
        "};\n"                                                                                                         \
        "load(told.entry);\n"

/* Podman closes a container's standard input when whoever is attached to it goes, the service itself included. A worker
 * that holds an end of that pipe does not notice; this program, added to the container, writes what comes into the same
 * pipe. */
#define PYTHON_PUMP                                                                                                    \
        "import os, sys\n"                                                                                             \
        "to = os.open('/proc/1/fd/' + sys.argv[1], os.O_WRONLY)\n"                                                     \
        "while True:\n"                                                                                                \
        "    data = os.read(0, 65536)\n"                                                                               \
        "    if not data:\n"                                                                                           \
        "        break\n"                                                                                              \
        "    while data:\n"                                                                                            \
        "        data = data[os.write(to, data):]\n"

static const char *const python_pump[] = {"python3", "-I", "-S", "-c", PYTHON_PUMP, PAYLOAD_KEPT_INPUT, NULL};

static const char *const python[] = {"python3", "-u", "-c", PYTHON_BOOT, NULL};
/* What the flags are for stands in the worker. */
static const char *const node[] = {"node", "--expose-internals", "--no-force-async-hooks-checks",
                                   "--experimental-vm-modules", "-e", NODE_BOOT, NULL};

/* Bash has a worker in Python. */
const char *const *const payload_boots[PAYLOAD_FAMILIES] = {
        [DOCKER_PYTHON] = python, [DOCKER_NODE] = node, [DOCKER_BASH] = python};

const char *const *const payload_pumps[PAYLOAD_FAMILIES] = {[DOCKER_PYTHON] = python_pump, [DOCKER_BASH] = python_pump};

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The attempts to break out once more, from sessions of Node and Bash: the same programs as children of such a session,
and some that are Node's or Bash's own. Prints TAP.

    run_languages.py [--build BUILD] [--only PART]

Positive controls are those of run_attempts.py: these programs are the same."""
import argparse
import json
import os
import shutil
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE), os.path.join(os.path.dirname(HERE), "engines")]

import attempts  # noqa: E402
import harness  # noqa: E402

CHUNK = 20
# They take what belongs to the session itself for another's: here they are not its first process, and find its worker.
OF_THE_FIRST_PROCESS = {"signal-all-pids", "signal-victim", "signal-everybody", "proc-1", "command-lines",
                        "see-processes",
                        "read-descriptors"}
MARK = "=== "

NODE_PROLOGUE = """
const {spawnSync} = require('child_process'), fs = require('fs'), net = require('net'), dgram = require('dgram');
const held = (text) => console.log('HELD ' + text), escaped = (text) => console.log('ESCAPED ' + text);
const fails = (what, work) => { try { escaped(what + ': ' + String(work()).slice(0, 200)) } catch (e) { held(what + ': ' + (e.code ?? e.message)) } };
const never = (what, emitter, event) => new Promise((done) => {
  emitter.on('error', (e) => { held(what + ': ' + (e.code ?? e.message)); done() });
  emitter.on(event, () => { escaped(what); done() });
});
"""

# Node's own ways: its bindings do not go through a program that could be missing.
NODE = {
    "a file of the host": "fails('read', () => fs.readFileSync('@CANARY@')); fails('stat', () => "
                          "fs.statSync('@HOME@'))",
    "files that tell of the "
    "host": "for (const f of ['/etc/shadow', '/proc/kcore', '/proc/1/root/@CANARY@', '/sys/kernel', '/dev/mem', "
                                   "'/proc/sys/kernel/hostname']) fails(f, () => fs.readdirSync(f).join() || "
                                   "fs.readFileSync(f))",
    "writing to the root": "for (const f of ['/x', '/usr/x', '/etc/x', '/run/sbx/x', "
                           "'/run/sbx/guests/node/sbx_node/worker.js']) fails(f, () => fs.writeFileSync(f, 'x'))",
    "tcp": "await never('tcp', net.connect(@TCP_PORT@, '127.0.0.1'), 'connect'); await never('tcp out', "
           "net.connect(@TCP_PORT@, '@ADDRESS@'), 'connect')",
    "listening": "await never('listen', net.createServer().listen(0), 'listening')",
    "udp": "try { await never('udp', dgram.createSocket('udp4').bind(0), 'listening') } catch (e) { held(e.code ?? "
           "e.message) }",
    "an abstract socket": "await never('abstract', net.connect({path: '\\0' + '@ABSTRACT@'.replace(/^\\\\0|^@/, "
                          "'')}), 'connect')",
    "a socket by name": "await never('socket', net.connect('@SOCKET@'), 'connect')",
    "signals to the host": "for (const pid of [@VICTIM@, @SERVER@]) fails('kill ' + pid, () => process.kill(pid, 0))",
    "other ids": "for (const f of ['setuid', 'setgid']) fails(f, () => process[f](0)); fails('groups', () => "
                 "process.setgroups([0]))",
    "priority": "fails('priority', () => require('os').setPriority(0, -10))",
    "devices": "const r = spawnSync('mknod', ['/tmp/d', 'c', '1', '1']); r.status === 0 ? escaped('mknod') : "
               "held('mknod ' + r.status)",
    "new namespaces": "const r = spawnSync('unshare', ['-Ur', 'true']); r.status === 0 ? escaped('unshare') : "
                      "held('unshare ' + (r.status ?? r.error?.code))",
    "the control stream in a child": "const r = spawnSync('sh', ['-c', 'ls /proc/self/fd'], {encoding: 'utf8'}); "
                                     "r.stdout.trim().split(/\\s+/).some((n) => n > 3) ? escaped(r.stdout) : "
                                     "held('descriptors 0 to 3')",
    "secrets in the environment": "const text = JSON.stringify([process.env, process.argv, process.execArgv]); "
                                  "text.includes([...'@TOKEN_REVERSED@'].reverse().join('')) ? escaped(text) : "
                                  "held('no secret')",
    "what the machine is": "const text = fs.readdirSync('/').join(); require('os').hostname() === '@HOSTNAME@' ? "
                           "escaped('hostname') : held(text)",
}

BASH_PROLOGUE = """
held() { echo "HELD $*"; }
escaped() { echo "ESCAPED $*"; }
fails() { local what=$1; shift; if out=$("$@" 2>&1); then escaped "$what: ${out:0:200}"; else held "$what: ${out:0:200}"; fi; }
"""

BASH = {
    "a file of the host": "fails read cat '@CANARY@'; if [[ -e @HOME@/secret ]]; then escaped test; else held test; fi",
    "files that tell of the "
    "host": "for f in /etc/shadow /proc/kcore /proc/1/root/@CANARY@ /dev/mem /proc/sys/kernel/hostname; do fails $f "
            "cat $f; done",
    "writing to the root": "for f in /x /usr/x /etc/x /run/sbx/x /run/sbx/guests/bash/x; do fails $f bash -c \"echo "
                           "x > $f\"; done",
    "tcp": "fails tcp bash -c 'exec 5<>/dev/tcp/127.0.0.1/@TCP_PORT@'; fails out bash -c 'exec "
           "5<>/dev/tcp/@ADDRESS@/@TCP_PORT@'",
    "udp": "fails udp bash -c 'exec 5<>/dev/udp/@ADDRESS@/@TCP_PORT@'",
    "signals to the host": "fails kill kill -0 @VICTIM@; fails kill kill -0 @SERVER@",
    "limits": "fails 'more files' ulimit -Hn 100000; fails 'core files' ulimit -Hc unlimited; fails 'larger files' "
              "ulimit -Hf unlimited",
    "devices": "fails mknod mknod /tmp/d c 1 1",
    "new namespaces": "fails unshare unshare -Ur true; fails chroot chroot / true; fails mount mount -t tmpfs none "
                      "/tmp",
    "secrets in the environment": "token=$(echo @TOKEN_REVERSED@ | rev); if env | grep -q \"$token\"; then escaped "
                                  "env; else held env; fi",
}


def same_programs(only):
    """Those that need nothing of a session but a process in it."""
    for attempt in attempts.every():
        if attempts.NAMESPACES in attempt.isolations and attempt.ends == ("ok",) and not attempt.flags \
                and attempt.judge is None and not attempt.needs_cgroup and only in attempt.name \
                and attempt.name not in OF_THE_FIRST_PROCESS:
            yield attempt


def node_code(chunk):
    parts = [NODE_PROLOGUE]
    for kind, name, text in chunk:
        parts.append("console.log(%s);" % json.dumps(MARK + name))
        if kind == "own":
            parts.append("await (async () => { %s })();" % text)
        else:
            parts.append("spawnSync('/usr/bin/python3', ['-I', '-c', %s], {stdio: 'inherit', timeout: "
                         "60000});" % json.dumps(text))
    return "\n".join(parts)


def bash_code(chunk):
    parts = [BASH_PROLOGUE]
    for kind, name, text in chunk:
        parts.append("echo '%s%s'" % (MARK, name))
        parts.append(text if kind == "own" else "/usr/bin/python3 -I -c \"$(cat <<'SBX_END'\n%s\nSBX_END\n)\"" % text)
    return "\n".join(parts) + "\n"


def filled(host, text):
    for name, value in host.values.items():
        text = text.replace("@%s@" % name, str(value))
    return text


LANGUAGES = {"node": (node_code, NODE), "bash": (bash_code, BASH)}


def outcomes(said):
    """{name: what was said} of a chunk's output."""
    found = {}
    for part in said.split(MARK)[1:]:
        name, _, rest = part.partition("\n")
        found[name] = rest
    return found


class Tap:
    def __init__(self):
        self.count = self.failed = 0

    def add(self, where, name, problem, said):
        self.count += 1
        self.failed += problem is not None
        print("%s %d - %s: %s" % ("not ok" if problem else "ok", self.count, where, name))
        for line in (problem + "\n" + said[-2000:]).splitlines() if problem else ():
            print("# " + line)
        sys.stdout.flush()

    def skip(self, where, why):
        self.count += 1
        print("ok %d - %s # SKIP %s" % (self.count, where, why))


def run_language(tap, host, language, only):
    encode, own = LANGUAGES[language]
    all_of_them = [("own", "%s: %s" % (language, name), filled(host, text)) for name,
                   text in own.items() if only in name]
    all_of_them += [("same", attempt.name, host.program(attempt)) for attempt in same_programs(only)]
    for start in range(0, len(all_of_them), CHUNK):
        chunk = all_of_them[start:start + CHUNK]
        result, complaint = host.execute(encode(chunk), ("--language", language, "--timeout", "300"), 400)
        said = outcomes(result["stdout"]) if result else {}
        for _kind, name, _text in chunk:
            text = said.get(name, "")
            problem = None
            if result is None or result["isolation"] != host.isolation:
                problem = "no result: %s" % (complaint if result is None else result["isolation"])
            elif "ESCAPED" in text:
                problem = "it escaped"
            elif "HELD" not in text:
                problem = "it did not say what held it: %s %s" % (result["error"], result["stderr"][-1500:])
            tap.add("session of " + language, name, problem, text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default=os.environ.get("SNIPARA_SANDBOX_BUILD_ROOT"))
    parser.add_argument("--only", default="", help="attempts whose name has this part")
    options = parser.parse_args()
    print("TAP version 13")
    if not options.build or not os.path.exists(os.path.join(options.build, harness.PROGRAM)):
        print("1..0 # SKIP escape attempts: no program in the build directory %s" % options.build)
        return 0
    harness.become_reaper()
    tap = Tap()
    with tempfile.TemporaryDirectory(prefix="escape-build-") as directory:
        os.chmod(directory, 0o755)
        build = os.path.join(directory, "build")
        harness.stage_build(os.path.abspath(options.build), build)
        with harness.Host(build, os.geteuid(), attempts.NAMESPACES) as host:
            for language in LANGUAGES:
                if shutil.which(language) is None:
                    tap.skip("session of " + language, "there is no %s on this machine" % language)
                    continue
                result, complaint = host.execute("", ("--language", language))
                if result is None:
                    tap.skip("session of " + language, " ".join(complaint.split()))
                    continue
                run_language(tap, host, language, options.only)
            harm = host.unharmed()
            tap.add("both", "the host is unharmed", "; ".join(harm) or None, "")
            host.stop()
    print("1..%d\n# %d run, %d failed" % (tap.count, tap.count, tap.failed))
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())

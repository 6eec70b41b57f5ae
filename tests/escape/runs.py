# SPDX-License-Identifier: Apache-2.0
"""Attempts of code in a session of a run, which may call tools of the host: it gets those that it may have, within the
project, and nothing else. The model is one that wants exactly this code executed."""
import os
import subprocess

import fake_model
import harness

PROMISE = "code of a run reaches allowed tools and allowed files alone"

# Put before the code of each attempt.
CALLS = """
def tool_refuses(what, name, **arguments):
    try:
        got = tools[name](**arguments)
    except ToolError as e:
        held("%s: %s" % (what, str(e).splitlines()[0][:160]))
    else:
        escaped("%s: %.200r" % (what, got))
"""

# It has the session's turn: a call that waits for it would wait for ever.
SESSION_TOOLS = """
for name in ("execute_python", "get_repl_context", "set_repl_context", "clear_repl_context"):
    tool_refuses(name, name, **{"execute_python": {"code": "1"}, "set_repl_context": {"key": "k", "value": "1"}}.get(name, {}))
    tool_refuses(name + " of another session", name, session_id="other",
                 **{"execute_python": {"code": "1"}, "set_repl_context": {"key": "k", "value": "1"}}.get(name, {}))
"""

CLIENT_TOOLS = """
tool_refuses("destroy_session", "destroy_session", session_id="default")
tool_refuses("list_sessions", "list_sessions")
tool_refuses("execute", "execute", code="1")
listed = dir(tools)
found = [n for n in listed if n.startswith(("exec", "destroy", "list_s")) or n.endswith("_repl_context")]
escaped(found) if found else held("not listed")
"""

# By hand, past what the worker checks: the host has the last word.
FORGED_CALL = """
import json, struct
calls = call_tool.__self__
def raw(name, arguments):
    head = json.dumps({"call": 4242, "name": name}).encode()
    body = json.dumps(arguments).encode()
    os.write(calls._channel.write_fd, struct.pack("<IBI", 4 + len(head) + len(body), 0x85, len(head)) + head + body)
    return calls._take(4242)
for name, arguments in (("execute_python", {"code": "1"}), ("destroy_session", {"session_id": "default"}),
                        ("file_read", {"path": "@CANARY@"}), ("agent", {}), ("../file_read", {}), ("*", {})):
    good, said = raw(name, arguments)
    failed = not good or (isinstance(said, dict) and said.get("isError") is True)
    (held if failed and "@TOKEN@" not in json.dumps(said) else escaped)("%s: %.120r" % (name, said))
"""

FILES = """
for path in ("@CANARY@", "../canary", "../home/secret", "./../canary", "@SCRATCH@/project/../canary", "/etc/passwd",
             "/proc/self/environ", "/proc/self/root/etc/passwd", "/dev/mem", "link", "links/canary", "absolute",
             "@CONFIGURATION@", "innocent", ".env", "loop", "~/secret", "", "\\x00", "a" * 5000, "/"):
    tool_refuses("file_read %.60r" % path, "file_read", path=path)
for path in ("..", "/", "links", "/proc/self/fd", "@SCRATCH@", "../home"):
    tool_refuses("list_files %r" % path, "list_files", path=path)
for pattern in ("../*", "/etc/*", "links/../../*", "**/../*"):
    tool_refuses("list_files for %r" % pattern, "list_files", pattern=pattern)
names = [f["path"] for f in tools.list_files(recursive=True, max_results=10000)["files"]]
found = [n for n in names if "canary" in n or "/home/" in n]
escaped(found) if found else held("%d files, all of the project" % len(names))
fine = tools.file_read(path="fine.txt")["content"]
held("what is allowed works") if fine == "fine" else escaped(fine)
"""

# A pipe that nobody writes to would hold the host up.
PIPE = """
tool_refuses("a pipe", "file_read", path="pipe")
"""

# The configuration of this one leaves file_list alone, by the name that code also knows it by.
NOT_ALLOWED = """
for name in dir(tools):
    (held if name == "file_list" else escaped)("listed: " + name)
tool_refuses("file_read", "file_read", path="fine.txt")
tool_refuses("a sub-completion as a tool", "snipara_sub_complete", query="x")
tool_refuses("the alias of one", "rlm_sub_complete", query="x")
try:
    tools.file_list()
    tools.list_files()
    held("what is allowed works")
except ToolError as e:
    escaped("file_list: %s" % e)
"""

TABLE = (
    ("run-session-tools", SESSION_TOOLS, ()),
    ("run-client-tools", CLIENT_TOOLS, ()),
    ("run-forged-calls", FORGED_CALL, ()),
    ("run-file-escapes", FILES, ()),
    ("run-file-pipe", PIPE, ()),
    ("run-tools-not-allowed", NOT_ALLOWED, ("--set", "code_tools=list_files")),
)


def prepare(host):
    """What leads out of the project, in the project."""
    project = host.project
    os.symlink("../canary", os.path.join(project, "link"))
    os.symlink("..", os.path.join(project, "links"))
    os.symlink(host.canary, os.path.join(project, "absolute"))
    os.symlink("loop", os.path.join(project, "loop"))
    os.link(host.configuration, os.path.join(project, "innocent"))
    os.mkfifo(os.path.join(project, "pipe"), 0o666)
    for name, text in (("fine.txt", "fine"), (".env", "KEY=" + host.token)):
        with open(os.path.join(project, name), "w") as f:
            f.write(text)
        os.chmod(os.path.join(project, name), 0o644)


def run(host, model, code, flags):
    """(what the model was told of the execution, complaint)."""
    model.code, model.said = code, None
    environment = dict(host.environment, OPENAI_BASE_URL=model.url, OPENAI_API_KEY="sk-" + host.token)
    environment.pop("SNIPARA_API_KEY")
    arguments = [os.path.join(host.build, harness.PROGRAM), "run", "--config", host.configuration, "--json", "--model",
                 "openai/gpt-4o-mini", *flags, "Go on."]
    process = subprocess.Popen(arguments, env=environment, cwd=host.project, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, **host.identity())
    host.server_pids.append(process.pid)
    try:
        out, err = process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        err += b"\n(no end after 120 s)"
    return model.said, (out[-2000:] + err[-2000:]).decode(errors="replace")


def judge(host, said, complaint):
    if said is None:
        return "the code was not executed: " + complaint
    if "ESCAPED" in said or host.token in said or host.token in complaint:
        return "it escaped"
    if said.startswith("Error:"):  # an exception, and then what was printed before it
        return "it failed"
    return None if "HELD" in said else "it did not say what held it"


def attempts(host, only):
    """Yields (name, promise, problem or None, what was said)."""
    chosen = [row for row in TABLE if only in row[0]]
    if not chosen:
        return
    if not os.path.exists(os.path.join(host.build, "plugins", "llm-litellm", "llm-litellm.so")):
        yield "run", PROMISE, None, "HELD (no provider in this build: no run can begin)"
        return
    prepare(host)
    model = fake_model.FakeModel()
    try:
        for name, code, flags in chosen:
            code = host.guest + CALLS + code
            for key in ("CANARY", "SCRATCH", "CONFIGURATION"):
                code = code.replace("@%s@" % key, host.values[key])
            said, complaint = run(host, model, code.replace('"@TOKEN@"', '"%s"[::-1]' % host.token[::-1]), flags)
            yield name, PROMISE, judge(host, said, complaint), said or complaint
    finally:
        model.close()

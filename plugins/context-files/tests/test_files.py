# SPDX-License-Identifier: Apache-2.0
"""The plugin in a host process: indexing, answers, escapes, memory, damage, several processes at once."""
import json
import os
import random
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

from tap import main, note

HOST = sys.argv.pop(1)
ECANCELED, ENOSPC = -125, -28


class Box:
    """A project and a state directory of its own."""

    def __init__(self, files=(), git=True):
        self.root = os.path.realpath(tempfile.mkdtemp(prefix="context-files-"))
        self.project = os.path.join(self.root, "project")
        os.mkdir(self.project)
        os.mkdir(os.path.join(self.root, "state"), 0o700)
        if git:
            os.makedirs(os.path.join(self.project, ".git", "info"))
        for path, text in dict(files).items():
            self.write(path, text)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.root, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.project, name)

    def write(self, name, text):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())

    def database(self):
        directory = os.path.join(self.root, "state", "snipara-sandbox", "context-files")
        names = [name for name in os.listdir(directory) if name.endswith(".db")]
        assert len(names) == 1, names
        return os.path.join(directory, names[0])

    def host(self, *settings, refresh="0", project=None):
        return Host(self, project or self.project,
                    ["memory_enabled=true", "files.refresh=" + refresh, *settings])


class Host:
    def __init__(self, box, project, settings):
        self.log_path = os.path.join(box.root, "log-%d" % random.randrange(1 << 40))
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen([HOST, project, *settings], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=log, env=dict(os.environ, XDG_STATE_HOME=os.path.join(box.root, "state")))

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.process.stdin.close()
        self.process.stdout.close()
        status = self.process.wait(timeout=120)
        if kind is None:
            assert status == 0, (status, self.log())

    def log(self):
        with open(self.log_path, "rb") as file:
            return file.read().decode("utf-8")

    def send(self, tool, arguments, timeout=0, cancel=-1):
        self.process.stdin.write(b"%s\t%s\t%d\t%d\n" % (tool.encode(), json.dumps(arguments).encode(), timeout, cancel))
        self.process.stdin.flush()

    def receive(self):
        line = self.process.stdout.readline()
        assert line, "the host has ended: " + self.log()
        return json.loads(line.decode("utf-8"))  # strict: every answer is UTF-8 and JSON

    def raw(self, tool, timeout=0, cancel=-1, **arguments):
        self.send(tool, arguments, timeout, cancel)
        return self.receive()

    def call(self, tool, timeout=0, **arguments):
        return answer_of(self.raw("snipara_" + tool, timeout, **arguments))

    def fails(self, tool, **arguments):
        result = self.raw("snipara_" + tool, **arguments)
        assert "error" in result and result["message"], result
        return result

    def found(self, query, **arguments):
        return [section["file"] for section in self.call("context_query", query=query, **arguments)["sections"]]

    def files(self):
        listed = self.call("sections", limit=500)
        assert listed["total"] == len(listed["sections"]), listed["total"]
        return sorted({section["file"] for section in listed["sections"]})

    def until_whole(self, tool, **arguments):
        """Asks until the answer is not partial any more."""
        for _ in range(3000):
            answer = self.call(tool, **arguments)
            if not answer["partial"]:
                return answer
            time.sleep(0.02)
        raise AssertionError("still partial: %r" % answer.get("partial_reason"))


def answer_of(result):
    assert result.get("isError") is False, result
    assert [block["type"] for block in result["content"]] == ["text"]
    return json.loads(result["content"][0]["text"])


# ---- indexing ----

def test_nothing_is_done_before_the_first_call():
    with Box({"a.md": "# Title\nzebra\n"}) as box, box.host() as host:
        names = [tool["name"] for tool in host.raw("tools")]
        assert names == ["snipara_" + n for n in ("context_query", "search", "sections", "read", "remember", "recall",
                                                  "memories", "forget")]
        assert os.listdir(os.path.join(box.root, "state", "snipara-sandbox", "context-files")) == []
        assert "indexed" not in host.log()
        assert host.found("zebra") == ["a.md"]
        assert os.stat(box.database()).st_mode & 0o777 == 0o600
        assert "the project is indexed: 1 files" in host.log()


def test_definitions():
    with Box() as box, box.host() as host:
        for tool in host.raw("tools"):
            assert tool["_meta"] == {"snipara-sandbox/aliases": ["rlm_" + tool["name"][8:]],
                                     "snipara-sandbox/host": True}
            assert tool["inputSchema"]["additionalProperties"] is False
            assert len(tool["description"]) < 2048 and tool["title"]
    with Box() as box, box.host("memory_enabled=false") as host:
        assert len(host.raw("tools")) == 4
        assert host.fails("remember", content="x")["error"] == -2


def test_what_changes_is_indexed_again():
    with Box({"a.md": "# One\nzebra\n", "b/c.txt": "giraffe\n"}) as box, box.host() as host:
        assert host.found("zebra") == ["a.md"] and host.found("giraffe") == ["b/c.txt"]
        box.write("a.md", "# One\nlemur\n")  # as long as before: the time tells
        assert host.found("zebra") == [] and host.found("lemur") == ["a.md"]
        for i in range(20):  # faster than a clock may tick
            box.write("a.md", "# One\nword%02d\n" % i)
            assert host.found("word%02d" % i) == ["a.md"], i
        os.rename(box.path("b/c.txt"), box.path("b/d.txt"))
        assert host.found("giraffe") == ["b/d.txt"]
        os.rename(box.path("b"), box.path("e"))
        assert host.found("giraffe") == ["e/d.txt"]
        os.unlink(box.path("e/d.txt"))
        assert host.found("giraffe") == []
        box.write("new.py", "def okapi():\n    pass\n")
        assert host.found("okapi") == ["new.py"]
        box.write("new.py", b"def okapi():\0\n")  # a text no more
        assert host.found("okapi") == []
        box.write(".gitignore", "a.md\n")
        assert host.files() == [".gitignore"]
        os.unlink(box.path(".gitignore"))
        assert host.files() == ["a.md"]


def test_only_what_changed_is_read():
    with Box({"f%d.txt" % i: "text %d\n" % i for i in range(50)}) as box:
        with box.host() as host:
            host.files()
        time.sleep(0.3)  # the files are no longer so young that a change could go unseen
        with box.host() as host:
            host.files()
        with box.host() as host:
            host.files()
            assert "indexed" not in host.log(), host.log()
            box.write("f7.txt", "another\n")
            assert host.found("another") == ["f7.txt"]
            assert "1 read" in host.log(), host.log()


def test_refresh_is_not_more_often_than_asked_for():
    with Box({"a.txt": "zebra\n"}) as box, box.host(refresh="1h") as host:
        assert host.found("zebra") == ["a.txt"]
        box.write("b.txt", "zebra\n")
        assert host.found("zebra") == ["a.txt"]


def test_ignored_secret_and_odd_files():
    with Box({"ok.txt": "zebra\n", "sub/.gitignore": "*.log\n!keep.log\n", "sub/x.log": "zebra\n",
              "sub/keep.log": "zebra\n", ".gitignore": "/build/\n", "build/x.txt": "zebra\n", "sub/build/x.txt": "zebra\n",
              ".git/config": "zebra\n", ".git/info/exclude": "private.txt\n", "private.txt": "zebra\n",
              "binary": b"zebra\0\n", "latin.txt": b"zebra \xe9\n", "late.txt": b"zebra\n" + b"x" * 9000 + b"\xff\0 \n",
              ".env": "zebra=1\n", "deep/.ENV.production": "zebra\n", ".env.example": "zebra\n", "server.PEM": "zebra\n",
              "id_rsa": "zebra\n", "node_modules/m/i.js": "zebra\n", ".ssh/config": "zebra\n", "secrets.yaml": "zebra\n",
              "credentials.c": "zebra\n", "big.txt": "zebra\n" * 200000, "empty.txt": "",
              "logs/run.jsonl": '{"_type": "trajectory_metadata", "x": "zebra"}\n',
              "toolong/.gitignore": "#\n" * 600000, "toolong/a.txt": "zebra\n",
              "tricky \u00e9\n\"name\".txt": "zebra\n"}) as box:
        os.mkfifo(box.path("fifo.txt"))
        server = socket.socket(socket.AF_UNIX)
        server.bind(box.path("socket.txt"))
        os.symlink("ok.txt", box.path("link.txt"))
        os.symlink("/etc", box.path("etc"))
        os.symlink(".", box.path("loop"))
        os.symlink("..", box.path("sub/up"))
        with open(os.fsencode(box.project) + b"/bad\xff.txt", "w") as file:
            file.write("zebra\n")
        with box.host() as host:
            assert set(host.found("zebra", max_tokens=100000)) == {
                "ok.txt", "sub/keep.log", "sub/build/x.txt", "late.txt", ".env.example", "credentials.c",
                "tricky \u00e9\n\"name\".txt"}
            assert host.call("read", file="late.txt", start_line=2, end_line=2)["content"].endswith("x\ufffd\ufffd \n")
        with box.host("files.exclude=[\"!*.pem\", \"OK.*\"]") as host:
            found = set(host.found("zebra", max_tokens=100000))
            assert "server.PEM" in found and "ok.txt" not in found and ".env" not in found, found
        server.close()


def test_part_of_a_repository():
    with Box({".gitignore": "*.tmp\n/part/only.txt\n", "part/.gitignore": "!kept.tmp\n", "part/a.txt": "zebra\n",
              "part/a.tmp": "zebra\n", "part/kept.tmp": "zebra\n", "part/only.txt": "zebra\n", "other.txt": "zebra\n",
              ".git/info/exclude": "info.txt\n", "part/info.txt": "zebra\n"}) as box:
        with box.host(project=box.path("part")) as host:
            assert set(host.found("zebra")) == {"a.txt", "kept.tmp"}
            host.fails("read", file="only.txt", start_line=1, end_line=1)


def test_limits_are_told():
    with Box({"f%d.txt" % i: "zebra\n" for i in range(10)}) as box:
        with box.host("files.max_files=3") as host:
            answer = host.call("context_query", query="zebra")
            assert len(answer["sections"]) == 3 and answer["partial"] and "max_files" in answer["partial_reason"], answer
    with Box({"f%d.txt" % i: "zebra\n" * 3000 for i in range(10)}) as box:
        with box.host("files.max_total_size=65536") as host:
            answer = host.call("sections", limit=500)
            assert answer["partial"] and "max_total_size" in answer["partial_reason"], answer
            assert len({s["file"] for s in answer["sections"]}) == 3


def test_deep_and_many_directories():
    with Box() as box:
        box.write("/".join("d%d" % i for i in range(60)) + "/a.txt", "zebra\n")
        box.write("e/" * 70 + "a.txt", "zebra\n")
        with box.host() as host:
            answer = host.call("context_query", query="zebra")
            assert len(answer["sections"]) == 1 and answer["partial"] and "deep" in answer["partial_reason"], answer


# ---- answers ----

MARKDOWN = """---
title: Manual
---
Before anything.

# Install

Take the package.

```sh
# not a heading
install it
```

Usage
-----
Call zebra() often.

## Options ##
| a | b |
"""


def test_sections_of_markdown():
    with Box({"doc.md": MARKDOWN, "code.c": "\n\n/* Purpose */\nint x;\n"}) as box, box.host() as host:
        answer = host.call("sections")
        got = [(s["file"], s["title"], s["level"], s["lines"]) for s in answer["sections"]]
        assert got == [("code.c", "/* Purpose */", 0, [1, 4]), ("doc.md", "title: Manual", 0, [1, 5]), ("doc.md", "Install", 1, [6, 14]),
                       ("doc.md", "Usage", 2, [15, 18]), ("doc.md", "Options", 2, [19, 20])], got
        assert [s["title"] for s in host.call("sections", filter="INST")["sections"]] == ["Install"]
        assert [s["title"] for s in host.call("sections", filter="code.")["sections"]] == ["/* Purpose */"]
        assert host.call("sections", filter="%")["total"] == 0 and host.call("sections", filter="_")["total"] == 0
        page = host.call("sections", limit=2, offset=3)
        assert page["total"] == 5 and [s["title"] for s in page["sections"]] == ["Usage", "Options"]


def test_budget():
    files = {"f%d.md" % i: "# Part %d\n%s" % (i, "zebra \u00e9\"\\ lion\n" * (5 + i * 7)) for i in range(30)}
    with Box(files) as box, box.host() as host:
        for tokens in (100, 150, 300, 1000, 5000, 100000):
            answer = host.call("context_query", query="zebra", max_tokens=tokens)
            size = len(json.dumps(answer["sections"], separators=(",", ":"), ensure_ascii=False).encode())
            assert size <= tokens * 4 + 2 and answer["total_tokens"] <= tokens, (tokens, size)
            assert answer["max_tokens"] == tokens and answer["sections"], tokens
            assert sum(s["truncated"] for s in answer["sections"]) <= 1
        assert {s["file"] for s in answer["sections"]} == set(files)
        bare = host.call("context_query", query="zebra", include_metadata=False)["sections"][0]
        assert sorted(bare) == ["content", "file", "lines", "title", "truncated"], bare
        short = host.call("context_query", query="zebra", prefer_summaries=True, max_tokens=100000)["sections"]
        assert {s["file"] for s in short} == set(files) and max(len(s["content"].encode()) for s in short) <= 400


def test_ranking_is_said_to_be_by_keyword():
    with Box({"a.md": "# Session time-outs\nWhat happens to variables.\n", "b.md": "# Other\nsession\n"}) as box:
        with box.host() as host:
            for mode in ("hybrid", "semantic", "keyword", None):
                answer = host.call("context_query", query="session timeouts of variables",
                                   **({"search_mode": mode} if mode else {}))
                assert answer["search_mode"] == "keyword" and ("search_mode_note" in answer) == (mode != "keyword")
                assert [s["file"] for s in answer["sections"]] == ["a.md", "b.md"]
            scores = [s["relevance_score"] for s in answer["sections"]]
            assert scores == sorted(scores, reverse=True) and scores[0] > 0


def test_hostile_queries():
    queries = ["\"", "zebra\"", "\" OR 1 --", "NEAR(zebra lion)", "title: zebra", "zebra*", "-zebra", "^zebra", "(", ")", "AND", "OR",
               "NOT", "zebra AND", "{title}: x", "+", "\u0000", "zebra\u0000lion", "'; DROP TABLE files; --", "\U0001f993",
               "\u201czebra\u201d", "_", "__", "a_b_c__d", "_zebra_", "x" * 9000, "zebra " * 1500, "%", "\\", "\n\t", "",
               "sectio\u0301n", "\ud83e zebra".encode("utf-8", "replace").decode()]
    rng = random.Random(3)
    queries += ["".join(rng.choice("zebra\"'()*:^-+{} ANDORNT_\u00e9\u0000%\\") for _ in range(rng.randint(1, 60)))
                for _ in range(300)]
    with Box({"a.md": "# zebra\nlion a_b_c\n"}) as box, box.host(refresh="1h") as host:
        for query in queries:
            host.call("context_query", query=query)
        assert host.found("zebra\u0000lion") == ["a.md"] and host.found("\"zebra") == ["a.md"]
        assert host.found("what is the zebra?") == ["a.md"] and host.found("c_b") == ["a.md"]
        assert "note" in host.call("context_query", query="?!")


def test_search():
    with Box({"a.c": "int one;\r\nint two;\nchar *three;\n", "b.txt": "n\u00e9e 12\n" + "x" * 20000 + "needle\n",
              "c.txt": "a" * 3000 + "!\n"}) as box, box.host() as host:
        def lines(pattern, **more):
            return [(m["file"], m["line"]) for m in host.call("search", pattern=pattern, **more)["matches"]]
        assert lines(r"^int \w+;$") == [("a.c", 1), ("a.c", 2)]
        assert lines(r"(?i)THREE") == [("a.c", 3)] and lines(r"\bn\we \d{2}") == [("b.txt", 1)]
        match = host.call("search", pattern="needle")["matches"][0]
        assert "needle" in match["text"] and len(match["text"]) <= 300 and match["line"] == 2
        limited = host.call("search", pattern=".", max_results=2)
        assert len(limited["matches"]) == 2 and limited["truncated"]
        for bad in ("(", "[", "*", "(?<n", "\\", "a{2,1}", "", "x" * 1001, "((a{1,65535}){1,65535}){1,65535}", "(?R", "\\C"):
            host.fails("search", pattern=bad)
        costly = host.call("search", pattern="(a+)+$")
        assert costly["partial"] and costly["lines_given_up"] >= 1, costly
        for odd in ("(?:a?){50}a{50}", "(.*)*x", "(a|aa)+$", "^(([a-z])+.)+[A-Z]([a-z])+$", "(?R)?x", "\u0000"):
            host.call("search", pattern=odd)


def test_read():
    with Box({"a.txt": "".join("line %d\n" % i for i in range(1, 501)), "b/b.txt": "last one"}) as box, box.host() as host:
        part = host.call("read", file="a.txt", start_line=3, end_line=4)
        assert part == {"file": "a.txt", "start_line": 3, "end_line": 4, "total_lines": 500, "content": "line 3\nline 4\n",
                        "truncated": False}, part
        part = host.call("read", file="a.txt", start_line=10, end_line=499)
        assert part["end_line"] == 209 and part["content"].count("\n") == 200
        assert host.call("read", file="b/b.txt", start_line=1, end_line=9)["content"] == "last one"
        assert "500 lines" in host.fails("read", file="a.txt", start_line=501, end_line=502)["message"]
        host.fails("read", file="a.txt", start_line=5, end_line=4)
        across = host.call("read", start_line=500, end_line=501)
        assert [(p["file"], p["start_line"], p["content"]) for p in across["parts"]] == \
            [("a.txt", 500, "line 500\n"), ("b/b.txt", 1, "last one")], across
        box.write("long.txt", "y" * 100000)
        part = host.call("read", file="long.txt", start_line=1, end_line=1)
        assert part["truncated"] and len(part["content"]) == 65536


def test_read_does_not_escape():
    with Box({"a.txt": "inside\n", "d/a.txt": "inside\n", ".gitignore": "ignored.txt\nhidden/\n", "ignored.txt": "secret\n",
              "hidden/x.txt": "secret\n", ".env": "secret\n", ".git/config": "secret\n", "b.bin": b"secret\0"}) as box:
        with open(os.path.join(box.root, "outside.txt"), "w") as file:
            file.write("secret\n")
        os.symlink("../outside.txt", box.path("link.txt"))
        os.symlink("..", box.path("up"))
        os.symlink("d", box.path("inner"))
        os.mkfifo(box.path("fifo"))
        with box.host() as host:
            for path in ("../outside.txt", "d/../../outside.txt", box.root + "/outside.txt", "/etc/passwd", "link.txt",
                         "up/outside.txt", "inner/a.txt", "", ".", "..", "./a.txt", "d//a.txt", "d/", "d", "/", "a.txt/",
                         "a.txt/x", "fifo", ".env", "ignored.txt", "hidden/x.txt", ".git/config", "b.bin", "nothing.txt",
                         "a.txt\u0000", "x/" * 100 + "y", "y" * 5000, "\udcff".encode("utf-8", "replace").decode()):
                result = host.raw("snipara_read", file=path, start_line=1, end_line=5)
                assert "error" in result and "secret" not in result["message"].split(": ")[0], (path, result)
            assert host.call("read", file="d/a.txt", start_line=1, end_line=1)["content"] == "inside\n"


def test_read_during_a_swap():
    """A directory and a file that become links to the outside and back again, as fast as can be."""
    with Box({"d/a.txt": "inside\n", "real/a.txt": "inside\n", "f.txt": "inside\n"}) as box:
        outside = os.path.join(box.root, "out")
        os.mkdir(outside)
        with open(os.path.join(outside, "a.txt"), "w") as file:
            file.write("secret\n")
        os.symlink(outside, box.path("link"))
        os.symlink(os.path.join(outside, "a.txt"), box.path("flink"))
        over = threading.Event()

        def swap():
            while not over.is_set():
                for one, other in (("d", "link"), ("f.txt", "flink")):
                    os.rename(box.path(one), box.path("away"))
                    os.rename(box.path(other), box.path(one))
                    os.rename(box.path(one), box.path(other))
                    os.rename(box.path("away"), box.path(one))
        thread = threading.Thread(target=swap)
        thread.start()
        read = 0
        try:
            with box.host() as host:
                for _ in range(400):
                    for path in ("d/a.txt", "f.txt"):
                        result = host.raw("snipara_read", file=path, start_line=1, end_line=1)
                        if "error" not in result:
                            assert answer_of(result)["content"] == "inside\n"
                            read += 1
                    assert "secret" not in json.dumps(host.raw("snipara_context_query", query="secret"))
        finally:
            over.set()
            thread.join()
        note("%d of 800 reads met a file" % read)


# ---- time ----

def big_box(count=10000):
    box = Box()
    for i in range(count):
        if i % 100 == 0:
            os.makedirs(box.path("d%d" % (i // 100)), exist_ok=True)
        with open(box.path("d%d/f%d.txt" % (i // 100, i)), "w") as file:
            file.write("file number%d\nzebra\n" % i)
    return box


def test_ten_thousand_files():
    with big_box() as box:
        partial = 0
        for _ in range(3):  # there is no time at all; unless the call itself is held up for longer than indexing takes
            with box.host("files.wait=0") as host:
                answer = host.call("sections", limit=1)
                assert answer["partial"] or answer["total"] == 10000, answer
                assert not answer["partial"] or "still being indexed" in answer["partial_reason"], answer
                partial += answer["partial"]
            shutil.rmtree(os.path.join(box.root, "state", "snipara-sandbox"))
        assert partial > 0
        with box.host("files.wait=5m", refresh="1h") as host:
            assert host.raw("snipara_sections", cancel=0)["error"] == ECANCELED
            answer = host.until_whole("sections", limit=1)
            assert answer["total"] == 10000
            assert host.found("number7777") == ["d77/f7777.txt"]
            assert len(host.call("search", pattern="number99..$", max_results=500)["matches"]) == 100
            assert host.raw("snipara_search", pattern="nothing like it", cancel=0)["error"] == ECANCELED
        shutil.rmtree(box.path("d50"))
        with box.host("files.wait=5m") as host:
            assert host.call("sections", limit=1)["total"] == 9900


def test_a_deadline_is_kept():
    with big_box(3000) as box, box.host("files.wait=10m", refresh="1h") as host:
        # Three quarters of the time are for indexing; if that is not enough, the answer says so, and is there.
        result = host.raw("snipara_sections", timeout=40)
        if "error" in result:
            assert result["error"] == -110, result  # the machine was too busy to answer at all
        answer = host.until_whole("sections", limit=1)
        assert answer["total"] == 3000


def test_calls_side_by_side():
    with Box({"f%d.md" % i: "# Part %d\nzebra word%d\n" % (i, i) for i in range(200)}) as box:
        with box.host() as host:
            for i in range(40):
                host.send("&snipara_context_query", {"query": "word%d" % i})
                if i % 4 == 0:
                    host.send("&snipara_remember", {"content": "note %d" % i})
                if i % 8 == 0:
                    box.write("f%d.md" % (100 + i), "changed\n")
            host.process.stdin.write(b"wait\n")
            host.process.stdin.flush()
            answers = [answer_of(host.receive()) for _ in range(50)]
            found = [a["sections"][0]["file"] for a in answers if "sections" in a]
            assert found == ["f%d.md" % i for i in range(40)], found
            assert host.call("memories")["total"] == 10


# ---- memory ----

def test_memory_round_trip():
    with Box() as box:
        with box.host() as host:
            stored = host.call("remember", content="The database is PostgreSQL 16 \u00e9\u0001", type="decision", scope="team",
                               category="infra", ttl_days=3, related_to=["mem_1"], document_refs=["docs/db.md"])
            assert stored["status"] == "stored" and stored["memory_id"].startswith("mem_") and stored["expires_at"]
            host.call("remember", content="Deploys happen on Tuesdays")
        with box.host() as host:  # another process, later
            memory, = host.call("recall", query="which database do we use")["memories"]
            assert memory.pop("relevance") >= 0.5 and memory.pop("created_at") and memory.pop("expires_at")
            assert memory == {"memory_id": stored["memory_id"], "content": "The database is PostgreSQL 16 \u00e9\u0001",
                              "type": "decision", "scope": "team", "category": "infra", "related_to": ["mem_1"],
                              "document_refs": ["docs/db.md"]}, memory
            assert host.call("recall", query="database", type="fact")["memories"] == []
            assert host.call("recall", query="database moon sun stars sky", min_relevance=0.5)["memories"] == []
            assert len(host.call("recall", query="database moon sun stars sky", min_relevance=0.3)["memories"]) == 1
            assert host.call("recall", query="\" OR (")["memories"] == []
            listed = host.call("memories")
            assert listed["total"] == 2 and listed["memories"][0]["content"].startswith("Deploys")
            assert host.call("memories", search="TUES")["total"] == 1 and host.call("memories", category="x")["total"] == 0
            assert host.fails("forget")["error"] == -22
            assert host.call("forget", category="infra", type="fact")["deleted"] == 0
            assert host.call("forget", memory_id=stored["memory_id"])["deleted"] == 1
            assert host.call("forget", older_than_days=1)["deleted"] == 0
            assert host.call("forget", type="fact")["deleted"] == 1 and host.call("memories")["total"] == 0
            assert host.call("recall", query="tuesdays")["memories"] == []


def test_memories_expire_and_are_bounded():
    with Box() as box:
        with box.host() as host:
            host.call("remember", content="old zebra", ttl_days=1)
        with sqlite3.connect(box.database()) as database:
            database.execute("UPDATE memories SET expires_ms = 1000")
        database.close()
        with box.host("files.max_memories=2") as host:
            assert host.call("recall", query="zebra")["memories"] == [] and host.call("memories")["total"] == 0
            host.call("remember", content="one")
            host.call("remember", content="two")
            assert host.fails("remember", content="three")["error"] == ENOSPC
            host.fails("remember", content="")
            host.fails("remember", content="x" * 70000)


# ---- the database ----

def rows_of(box):
    with sqlite3.connect(box.database()) as database:
        files = database.execute("SELECT path FROM files ORDER BY path").fetchall()
        orphans = database.execute("SELECT count(*) FROM sections WHERE file NOT IN (SELECT id FROM files)").fetchone()[0]
        sections = [row[0] for row in database.execute("SELECT id FROM sections ORDER BY id")]
        texts = [row[0] for row in database.execute("SELECT rowid FROM section_text ORDER BY rowid")]
    database.close()
    assert orphans == 0 and sections == texts
    return [path for path, in files]


def test_two_processes():
    with Box({"d%d/f%d.md" % (i % 7, i): "# Part %d\nzebra word%d\n" % (i, i) for i in range(600)}) as box:
        with box.host("files.wait=5m") as one, box.host("files.wait=5m") as two:
            for i in range(6):
                one.send("snipara_sections", {"limit": 1})
                two.send("snipara_context_query", {"query": "word%d" % (i * 50)})
                assert answer_of(one.receive())["total"] == 600
                assert answer_of(two.receive())["sections"][0]["file"] == "d%d/f%d.md" % (i * 50 % 7, i * 50)
                for j in range(0, 600, 10):
                    box.write("d%d/f%d.md" % (j % 7, j), "# Part %d\nround%d word%d\n" % (j, i, j))
            for i in range(20):
                one.send("snipara_remember", {"content": "one %d" % i})
                two.send("snipara_remember", {"content": "two %d" % i})
                answer_of(one.receive()), answer_of(two.receive())
            assert one.call("memories")["total"] == 40
            assert len(two.found("round5", max_tokens=100000)) == 60
        assert len(rows_of(box)) == 600


def test_killed_while_indexing():
    with big_box(2000) as box:
        for delay in (0.0, 0.02, 0.05, 0.1):
            host = box.host("files.wait=5m")
            host.send("snipara_sections", {"limit": 1})
            time.sleep(delay)
            host.process.send_signal(signal.SIGKILL)
            host.process.wait()
            host.process.stdin.close()
            host.process.stdout.close()
        with box.host("files.wait=5m") as host:
            assert host.call("sections", limit=1)["total"] == 2000
        assert len(rows_of(box)) == 2000


def damage(path, how):
    size = os.path.getsize(path)
    with open(path, "r+b") as file:
        if how == "garbage":
            file.write(os.urandom(size))
        elif how == "cut":
            file.truncate(size // 2)
        elif how == "header":
            file.write(b"not a database")
        else:
            for at in range(4096, size, 4096):  # all pages but the first
                file.seek(at)
                file.write(b"\xa5" * 2048)


def test_damaged_database():
    files = {"f%d.md" % i: "# Part %d\n%s" % (i, "zebra lion\n" * 50) for i in range(50)}
    for how in ("garbage", "cut", "header", "pages"):
        with Box(files) as box:
            with box.host() as host:
                assert len(host.files()) == 50
            database = box.database()
            for ending in ("-wal", "-shm"):
                if os.path.exists(database + ending):
                    os.unlink(database + ending)
            damage(database, how)
            with box.host("files.wait=5m") as host:
                assert len(host.found("zebra", max_tokens=100000)) >= 50, how
                assert host.files() == sorted(files), how
                assert "was damaged: it was moved to" in host.log(), (how, host.log())
            aside = [name for name in os.listdir(os.path.dirname(database)) if ".damaged-" in name]
            assert aside, how


def test_database_removed_under_a_running_process():
    with Box({"a.txt": "zebra\n"}) as box, box.host() as host:
        assert host.found("zebra") == ["a.txt"]
        directory = os.path.dirname(box.database())
        for name in os.listdir(directory):
            os.unlink(os.path.join(directory, name))
        assert host.found("zebra") == ["a.txt"]


def test_database_of_others_is_refused():
    with Box({"a.txt": "zebra\n"}) as box:
        with box.host() as host:
            host.files()
        os.chmod(box.database(), 0o644)
        with box.host() as host:
            assert "0600" in host.fails("sections")["hint"]
        os.chmod(box.database(), 0o600)
        with sqlite3.connect(box.database()) as database:
            database.execute("PRAGMA user_version = 9")
        database.close()
        with box.host() as host:
            assert "version 9" in host.fails("sections")["message"]
        os.unlink(box.database())
        with box.host("files.database=%s/own.db" % box.root) as host:
            assert host.found("zebra") == ["a.txt"] and os.path.exists(box.root + "/own.db")
        os.symlink(box.root + "/own.db", box.root + "/link.db")
        with box.host("files.database=%s/link.db" % box.root) as host:
            host.fails("sections")


def test_locked_database_does_not_hang_a_call():
    with Box({"a.txt": "zebra\n"}) as box, box.host("files.wait=0") as host:
        host.until_whole("sections")
        blocker = sqlite3.connect(box.database(), isolation_level=None)
        blocker.execute("BEGIN IMMEDIATE")
        assert host.call("sections")["total"] == 1  # readers do not wait
        assert host.raw("snipara_remember", timeout=300, content="x")["error"] == -110
        assert host.raw("snipara_remember", cancel=100, content="x")["error"] == ECANCELED
        blocker.execute("ROLLBACK")
        blocker.close()
        assert host.call("remember", content="x")["status"] == "stored"


def test_odd_arguments():
    """What a schema would refuse is harmless all the same."""
    with Box({"a.txt": "zebra\n"}) as box, box.host() as host:
        for tool in ("context_query", "search", "sections", "read", "remember", "recall", "memories", "forget"):
            for value in (None, 5, -1, 2 ** 62, 1.5, True, [], {}, "x", [[]], "\u0000"):
                arguments = {key: value for key in ("query", "pattern", "max_tokens", "max_results", "filter", "limit", "offset",
                                                    "file", "start_line", "end_line", "content", "type", "scope", "category",
                                                    "ttl_days", "related_to", "search", "memory_id", "older_than_days",
                                                    "search_mode", "min_relevance", "prefer_summaries")}
                host.raw("snipara_" + tool, **arguments)
        assert host.raw("snipara_nothing")["error"] == -2
        assert host.found("zebra") == ["a.txt"]


if __name__ == "__main__":
    main()

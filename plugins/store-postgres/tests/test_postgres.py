#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""store-postgres against a PostgreSQL server of its own: what the conformance suite of stores can't ask, since it knows
no server. Each test has a schema of its own. Several machines are several processes.
Environment: STORE_DRIVE, STORE_PLUGIN; STORE_KILLS: how often something is killed (default 6)."""
import atexit
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time

TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "tests")
sys.path[:0] = [TESTS, os.path.join(TESTS, "store")]
from postgres_server import Server, find_program, server_user
from store_process import Store
from tap import main, skip

KILLS = int(os.environ.get("STORE_KILLS") or 6)
_shared = None
_count = 0


def need_server():
    if find_program("initdb") is None or find_program("postgres") is None:
        skip("PostgreSQL's server is not installed")
    if os.geteuid() == 0 and server_user()[0] is None:
        skip("no ordinary user to run PostgreSQL as")


def server():
    """The one that most tests share: what it loses in a crash is nobody's."""
    global _shared
    need_server()
    if _shared is None:
        _shared = Server(["fsync=off"])
        atexit.register(_shared.close)
    return _shared


def schema():
    global _count
    _count += 1
    return "test_%d" % _count


def store(where=None, name=None, **options):
    where = where or server()
    arguments = ["--conninfo=" + where.conninfo, "--schema=" + (name or schema())]
    arguments += ["--%s=%s" % (key, value) for key, value in options.items()]
    return Store(*arguments)


def key_file(directory, name="key", content=None):
    path = os.path.join(directory, name)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content or os.urandom(32))
    return path


# ---- contents ----

def test_blobs_of_every_size():
    with store() as s:
        for size in (0, 1, 63, 64, 8191, 8192, 8193, 100000, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3000000):
            for seed in ("x%d" % size, "z%d" % size):
                s.do("fill a/b %d %s" % (size, seed))
                s.do("check a/b %d %s" % (size, seed))
        assert s.do("list") == "a/b=3000000"
        told = json.loads(s.do("collect"))
        assert told["blobs"] == 1 and told["damaged"] == [] and told["bytes"] == 3000000, told
        assert told["stored_bytes"] < 1500000, told


def test_equal_contents_are_kept_once():
    name = schema()
    with store(name=name) as s:
        for i in range(4):
            s.do("fill d/%d 200000 same" % i)
        assert server().sql("SELECT count(*) FROM %s.objects" % name) == "1"
        for i in range(4):
            s.do("check d/%d 200000 same" % i)
            s.do("remove d/%d" % i)
        assert server().sql("SELECT count(*) FROM %s.objects" % name) == "0"
        assert server().sql("SELECT count(*) FROM %s.chunks" % name) == "0"


def test_list_pages_in_order():
    with store() as s:
        names = sorted("p/%s" % os.urandom(5).hex() for _ in range(1203))
        for at in range(0, len(names), 200):
            s.do("commit - 0 0 " + " ".join(name + "=v" for name in names[at:at + 200]))
        s.do("put q v")
        assert [word.split("=")[0] for word in s.do("list p/").split()] == names
        assert s.do("list r") == "" and s.do("list p/zz") == "" and s.do("list é") == ""


def test_names_are_checked():
    with store() as s:
        for name in ("/a", "a/", "a//b", ".", "..", "a/../b", "a b", "é", "x" * 256, "a\\b", "a'b"):
            s.send("get " + name)
            assert s.receive().startswith("error EINVAL"), name
        s.do("put %s v" % ("x" * 255))


def test_limits():
    with store(max_blob="100k") as s:
        s.do("fill a 102400 x")
        s.fails("fill a 102401 x", "EFBIG")
        s.do("check a 102400 x")


def test_quota():
    with store(quota="300k") as s:
        s.do("fill a/1 100000 x1")
        s.do("fill a/2 100000 x2")
        s.fails("commit - 0 0 a/3~100000~x3 a/4~100000~x4", "ENOSPC")
        assert s.do("list") == "a/1=100000 a/2=100000"
        s.do("fill a/3 100000 x3")
        assert "quota" in s.fails("fill a/4 100000 x4", "ENOSPC")
        s.do("commit - 0 0 a/4~100000~x4 a/1!")  # no more than before
        s.do("check a/4 100000 x4")
        with store(quota="300k", name="test_%d" % _count) as other:
            other.fails("fill a/5 90000 x5", "ENOSPC")


# ---- several machines ----

def test_first_use_by_many():
    name = schema()
    machines = [store(name=name) for _ in range(6)]
    for number, machine in enumerate(machines):
        machine.send("put first/%d v" % number)
    assert [machine.receive() for machine in machines] == ["ok"] * 6
    assert len(machines[0].do("list").split()) == 6
    for machine in machines:
        assert machine.close() == 0


def test_lease_keeps_others_out():
    name = schema()
    with store(name=name) as a, store(name=name) as b:
        token = a.do("take s/1 anna 60000 0").split()[0]
        assert b.ask("take s/1 bert 60000 0").startswith("error EBUSY %s " % token)
        assert b.do("look s/1").split()[2] == "anna"
        a.do("commit s/1 %s 1 d/m=one d/p~100000~x" % token)
        newer = b.do("take s/1 bert 60000 %s" % token).split()[0]
        assert int(newer) > int(token)
        a.fails("commit s/1 %s 0 d/m=two" % token, "ESTALE")
        a.fails("commit s/1 %s 0 d/q~5000000~x d/m=two" % token, "ESTALE")
        a.fails("renew s/1 %s 1000" % token, "ESTALE")
        a.do("release s/1 %s" % token)  # another's is left alone
        assert a.do("look s/1").split()[2] == "bert"
        assert b.do("get d/m") == "one"
        b.do("commit s/1 %s 0 d/m=three" % newer)
        b.do("release s/1 %s" % newer)
        b.fails("look s/1", "ENOENT")
        b.fails("commit s/1 %s 0 d/m=four" % newer, "ESTALE")
        b.fails("renew s/1 %s 1000" % newer, "ESTALE")
        assert int(a.do("take s/1 anna 1000 0").split()[0]) > int(newer)


def test_lease_that_ended():
    name = schema()
    with store(name=name) as a, store(name=name) as b:
        token = a.do("take s anna 1 0").split()[0]
        time.sleep(0.01)
        assert a.do("look s").split()[1] == "0"
        a.do("commit s %s 0 m=one" % token)  # nobody took it
        a.do("renew s %s 1" % token)
        time.sleep(0.01)
        newer = b.do("take s bert 60000 0").split()[0]
        assert int(newer) > int(token)
        a.fails("commit s %s 0 m=two" % token, "ESTALE")
        for ttl in ("0", "3600001"):
            a.fails("take s anna %s 0" % ttl, "EINVAL")


def test_lease_of_many_contenders():
    """A counter that each reads and writes under the lease: no increment is lost."""
    name, rounds = schema(), 8
    failures = []

    def contend(number):
        with store(name=name) as s:
            for _ in range(rounds):
                while not (answer := s.ask("take c m%d 60000 0" % number)).startswith("ok "):
                    assert answer.startswith("error EBUSY"), answer
                token = answer.split()[1]
                value = s.ask("get d/n")
                value = int(value.split()[1]) if value.startswith("ok ") else 0
                s.do("commit c %s 1 d/n=%d d/who=m%d" % (token, value + 1, number))
                s.do("release c %s" % token)

    def guarded(number):
        try:
            contend(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    with store(name=name) as s:
        assert s.do("get d/n") == str(4 * rounds)


def test_collect_beside_writers():
    name = schema()
    with store(name=name) as writer, store(name=name) as collector:
        for i in range(30):
            writer.send("fill w/x 100000 s%d" % (i % 3))
            told = json.loads(collector.do("collect"))
            assert told["damaged"] == [], told
            assert writer.receive() == "ok"
            writer.do("check w/x 100000 s%d" % (i % 3))
        server().sql("DELETE FROM %s.names" % name)
        told = json.loads(collector.do("collect"))
        assert told["removed"] >= 1 and told["stored_bytes"] == 0, told


def test_threads():
    with store(connections="3") as s:
        s.do("threads 8 12")


# ---- what goes wrong ----

def test_client_killed_in_a_commit():
    """All of a commit or none, wherever its process dies."""
    name, chance = schema(), random.Random(7)
    with store(name=name) as reader:
        reader.do("put d/m 0")
        reader.do("fill d/p 1500000 z0")
        for i in range(1, KILLS + 1):
            with store(name=name) as s:
                token = s.do("take l me 60000 %s" % (reader.do("look l").split()[0] if i > 1 else "0")).split()[0]
                s.send("commit l %s 0 d/m=%d d/p~1500000~z%d" % (token, i, i))
                time.sleep(chance.random() * 0.06)
                s.kill()
            value = reader.do("get d/m")
            assert value in [str(n) for n in range(i + 1)]
            reader.do("check d/p 1500000 z%s" % value)
        assert json.loads(reader.do("collect"))["damaged"] == []


def test_server_killed():
    """What was acknowledged is there after a crash of the server; the client goes on without being told."""
    need_server()
    own, chance = Server(), random.Random(11)
    try:
        with store(own, "killed") as s:
            token = s.do("take l me 600000 0").split()[0]
            written = 0
            for _ in range(max(2, KILLS // 3)):
                timer = threading.Timer(0.05 + chance.random() * 0.2, own.kill)
                timer.start()
                while timer.is_alive():
                    answer = s.ask("commit l %s 0 d/m=%d d/p~300000~z%d" % (token, written + 1, written + 1),
                                   "deadline 300")
                    if answer != "ok":
                        break
                    written += 1
                timer.join()
                own.start()
                value = int(s.do("get d/m"))
                assert value in (written, written + 1), (value, written)
                s.do("check d/p 300000 z%d" % value)
                written = value
                assert int(s.do("look l").split()[0]) == int(token)
            assert written > 0
    finally:
        own.close()


def test_server_that_comes_later():
    need_server()
    own = Server()
    try:
        with store(own, "later", connect_timeout="300ms") as s:
            s.do("put a 1")
            own.stop()
            assert "server" in s.fails("put a 2", "EIO")
            for _ in range(5):
                s.fails("put a 2", "EIO")
            own.start()
            s.do("put a 3")
            assert s.do("get a") == "3"
        with store(own, "later", connect_timeout="30s") as s:
            own.stop()
            s.send("get a")
            own.start()
            assert s.receive() == "ok 3"
    finally:
        own.close()


def test_calls_end_in_time():
    """A transaction of somebody else holds the lease's row."""
    name = schema()
    with store(name=name, timeout="500ms") as s:
        token = s.do("take l me 60000 0").split()[0]
        holder = threading.Thread(target=server().sql, args=(
            "BEGIN; UPDATE %s.leases SET holder = 'other'; SELECT pg_sleep(4); ROLLBACK" % name,))
        holder.start()
        wait_until(lambda: counted("query LIKE '%pg_sleep(4)%' AND wait_event = 'PgSleep'") > 0)
        assert "timeout" in s.fails("commit l %s 0 m=1" % token, "ETIMEDOUT")
        s.fails("commit l %s 0 m=1" % token, "ETIMEDOUT", "deadline 50")
        s.fails("commit l %s 0 m=1" % token, "ECANCELED", "deadline 0")
        holder.join()
        s.do("commit l %s 0 m=1" % token)


def wait_until(condition):
    """At most a minute."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "what was waited for does not come"
        time.sleep(0.02)


def counted(what):
    return int(server().sql("SELECT count(*) FROM pg_stat_activity WHERE " + what))


def test_silent_client_frees_its_locks():
    """A machine that stops in the middle of a commit does not hold its transaction for long."""
    name = schema()
    with store(name=name) as other, store(name=name, timeout="3s") as s:
        token = s.do("take l me 60000 0").split()[0]
        with server().session() as blocker:
            blocker.say("BEGIN; LOCK TABLE %s.chunks IN EXCLUSIVE MODE;" % name)
            wait_until(lambda: counted("state = 'idle in transaction'") == 1)
            s.send("commit l %s 0 m=1 p~40000000~x" % token)
            wait_until(lambda: counted("wait_event_type = 'Lock'") == 1)
            s.kill(signal.SIGSTOP)
        newer = other.do("take l other 60000 %s" % token).split()[0]
        other.do("commit l %s 0 m=2" % newer)
        wait_until(lambda: counted("state LIKE 'idle in transaction%'") == 0)
        s.kill(signal.SIGCONT)
        assert s.receive().startswith("error ESTALE")
        assert other.do("get m") == "2"
        assert other.do("list p") == ""


def damaged(s, blob, size, statement):
    server().sql(statement)
    assert "damaged" in s.fails("check %s %d z" % (blob, size), "EBADMSG")


def test_damage_is_found():
    name = schema()
    with store(name=name) as s:
        s.do("put ok/1 whole")
        for what in ("data = set_byte(data, 3, get_byte(data, 3) # 1)", "data = substr(data, 1, 10)", "data = ''",
                     "size = 41", "size = 100000", "sum = set_byte(sum, 0, get_byte(sum, 0) # 1)"):
            s.do("fill d/s 40 z")
            damaged(s, "d/s", 40, "UPDATE %s.names SET %s WHERE name = 'd/s'" % (name, what))
        for what in ("UPDATE {0}.chunks SET data = set_byte(data, 1000, get_byte(data, 1000) # 8) WHERE number = 1",
                     "UPDATE {0}.chunks SET data = substr(data, 1, 1000) WHERE number = 0",
                     "DELETE FROM {0}.chunks WHERE number = 2",
                     "UPDATE {0}.chunks a SET data = b.data FROM {0}.chunks b WHERE a.number = 0 AND b.number = 1",
                     "UPDATE {0}.names SET size = 2500001 WHERE name = 'd/p'"):
            s.do("fill d/p 2500000 z")
            damaged(s, "d/p", 2500000, what.format(name))
            told = json.loads(s.do("collect"))
            assert told["damaged"] == ["d/p", "d/s"], told
        s.do("fill d/p 2500000 z")  # the same content again mends it
        s.do("check d/p 2500000 z")
        assert s.do("get ok/1") == "whole"
        assert json.loads(s.do("collect"))["damaged"] == ["d/s"]


def test_rows_are_bound_to_their_names():
    name = schema()
    with store(name=name) as s:
        s.do("commit - 0 0 a/1=one a/2=two a/3~20000~x a/4~20000~y")
        server().sql("UPDATE %s.names n SET data = m.data, sum = m.sum, size = m.size FROM %s.names m WHERE n.name ="
                     " 'a/1' AND m.name = 'a/2'" % (name, name))
        s.fails("get a/1", "EBADMSG")
        server().sql("UPDATE %s.names n SET hash = m.hash, sum = m.sum, size = m.size FROM %s.names m WHERE n.name ="
                     " 'a/3' AND m.name = 'a/4'" % (name, name))
        s.fails("get a/3", "EBADMSG")
        s.do("check a/4 20000 y")


def test_bombs_and_lies():
    """Rows of an attacker: sizes that are none, frames that unpack to far more than they say."""
    name = schema()
    with store(name=name, max_blob="64m") as s:
        s.do("fill d/p 100000 z")
        # A zstd frame of 1 GiB of zeros (RFC 8878): magic, single segment with an 8-byte size, one RLE block.
        bomb = "01" + "28b52ffd" + "e0" + "0000004000000000" + "020000"[:6] + "00"
        server().sql("UPDATE %s.chunks SET data = '\\x%s'" % (name, bomb))
        s.fails("get d/p", "EBADMSG")
        server().sql("UPDATE %s.names SET size = 9223372036854775807" % name)
        s.fails("get d/p", "EFBIG")
        server().sql("UPDATE %s.objects SET size = 9223372036854775807" % name)
        assert json.loads(s.do("collect"))["damaged"] == ["d/p"]
        server().sql("ALTER TABLE %s.names DISABLE TRIGGER ALL; UPDATE %s.names SET hash = '\\x00'" % (name, name))
        s.fails("get d/p", "EFBIG")
        server().sql("UPDATE %s.names SET size = 5" % name)
        s.fails("get d/p", "EBADMSG")
        server().sql("UPDATE %s.names SET name = '../../etc/passwd'" % name)
        assert "then error" in s.ask("list")
        server().sql("UPDATE %s.names SET name = repeat('x', 300)" % name)
        assert "then error" in s.ask("list")
        assert s.ask("collect").startswith("error ")


def test_other_versions():
    name = schema()
    with store(name=name) as s:
        s.do("put a 1")
    server().sql("UPDATE %s.store SET version = 2" % name)
    with store(name=name) as s:
        assert "newer" in s.fails("get a", "EPROTONOSUPPORT")
    server().sql("UPDATE %s.store SET version = 1" % name)
    with store(name=name) as s:
        assert s.do("get a") == "1"
    server().sql("UPDATE %s.store SET identity = replace(identity, 'salt', 'solt')" % name)
    with store(name=name) as s:
        s.fails("get a", "EBADMSG")
    server().sql("DROP SCHEMA %s CASCADE" % name)
    with store(name=name) as s:
        s.fails("get a", "ENOENT")  # made anew


# ---- secrets ----

def test_encryption():
    name = schema()
    with tempfile.TemporaryDirectory() as directory:
        key = key_file(directory)
        with store(name=name, key_file=key) as s:
            s.do("put a/secret TheTextOfASession")
            s.do("fill a/p 1500000 zzzz")
            s.do("check a/p 1500000 zzzz")
            assert s.do("get a/secret") == "TheTextOfASession"
            found = server().sql("SELECT count(*) FROM %s.names WHERE position('OfASession'::bytea IN data) > 0" % name)
            assert found == "0"
            server().sql("UPDATE %s.chunks SET data = set_byte(data, 1, 0)" % name)
            s.fails("get a/p", "EBADMSG")
        with store(name=name, key_file=key_file(directory, "other")) as s:
            assert "not the one" in s.fails("get a/secret", "EKEYREJECTED")
        with store(name=name) as s:
            assert "encrypted" in s.fails("get a/secret", "ENOKEY")
        with store(name=name, key_file=key) as s:
            assert s.do("get a/secret") == "TheTextOfASession"
        with store() as plain:
            plain.do("put a 1")
        with store(name="test_%d" % _count, key_file=key) as s:
            s.fails("get a", "EKEYREJECTED")


def test_options_that_are_wrong():
    with tempfile.TemporaryDirectory() as directory:
        open_key = key_file(directory)
        os.chmod(open_key, 0o644)
        for options, words in (({"key_file": open_key}, "chmod"),
                               ({"key_file": key_file(directory, "short", b"too short")}, "64 hexadecimal"),
                               ({"key_file": directory + "/none"}, "none"), ({"schema": "a\"b"}, "schema"),
                               ({"schema": "pg_x"}, "schema")):
            with store(**{"name": "unused", **options}) if "schema" not in options else \
                    Store("--schema=" + options["schema"]) as s:
                assert words in s.receive(), words
                s.process.wait()
                s.process.returncode = 0
        s = Store("--conninfo=host=x password='Geheim dbname=x")
        answer = s.receive()
        s.process.wait()
        assert "EINVAL" in answer and "Geheim" not in answer, answer
        s.close()


def test_password():
    need_server()
    own = Server(password="Sesam-Oeffne")
    try:
        variable = "$SNIPARA_SANDBOX_STORE_PASSWORD="
        with Store("--conninfo=" + own.conninfo, variable + "Sesam-Oeffne") as s:
            s.do("put a 1")
        with Store("--conninfo=" + own.conninfo, variable + "Falsch-Geraten") as s:
            answer = s.fails("put a 1", "EACCES")
            assert "Falsch" not in answer and "28P01" in answer, answer
        with Store("--conninfo=" + own.conninfo) as s:
            assert "password_env" in s.fails("put a 1", "EACCES")
    finally:
        own.close()


def test_rights():
    name = schema()
    server().sql("CREATE ROLE guest LOGIN; CREATE ROLE reader LOGIN; ALTER ROLE reader SET default_transaction_read_only = on")
    try:
        with store(name=name) as s:
            s.do("put a 1")
        for user, code in (("guest", "EACCES"), ("reader", "EACCES")):
            with Store("--conninfo=" + server().conninfo.replace("tester", user), "--schema=" + name) as s:
                s.fails("put a 2", code)
        server().sql("GRANT ALL ON SCHEMA {0} TO reader; GRANT ALL ON ALL TABLES IN SCHEMA {0} TO reader".format(name))
        with Store("--conninfo=" + server().conninfo.replace("tester", "reader"), "--schema=" + name) as s:
            assert s.do("get a") == "1"
            assert "primary" in s.fails("put a 2", "EROFS")
    finally:
        server().sql("DROP OWNED BY guest, reader; DROP ROLE guest, reader")


def test_hostile_settings_of_a_role():
    """Objects of other schemas do not get between, and commits stay durable."""
    name = schema()
    server().sql("CREATE ROLE odd LOGIN SUPERUSER; ALTER ROLE odd SET synchronous_commit = off;"
                 " ALTER ROLE odd SET search_path = public; ALTER ROLE odd SET default_transaction_isolation ="
                 " 'serializable'; CREATE TABLE public.names (name text); CREATE TABLE public.store (version int)")
    try:
        with Store("--conninfo=" + server().conninfo.replace("tester", "odd"), "--schema=" + name) as s:
            s.do("put a 1")
            assert s.do("get a") == "1"
            shown = server().sql("SELECT query FROM pg_stat_activity WHERE usename = 'odd'")
            assert shown, "it has a connection"
            assert "durability" in s.ask("probe")
    finally:
        server().sql("DROP TABLE public.names, public.store; DROP OWNED BY odd CASCADE; DROP ROLE odd")


def test_probe():
    with store() as s:
        answer = s.ask("probe")
        assert answer.endswith("= ok") and "takes a lease, a blob" in answer and "fsync" in answer, answer
        assert s.do("list") == ""
    with Store("--conninfo=host=/nonexistent", "--connect_timeout=100ms") as s:
        answer = s.ask("probe")
        assert "2 PostgreSQL: can't connect" in answer and not answer.endswith("= ok"), answer


def test_restart():
    """An instance that is stopped and started goes on."""
    with store() as s:
        s.do("put a 1")
        s.do("restart")
        assert s.do("get a") == "1"


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""The helper program: sessions begin, are interrupted, copied, saved, restored, limited, and end. Its jail is
test_jail.py's subject."""
import os
import signal
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../../../tests")]
import helper_driver as driver
from helper_driver import Gone, Helper, Refused
from tap import main

HOW_FORKED, HOW_RESTORED = 1, 2
TRAP_BOUNDS, TRAP_UNREACHABLE, TRAP_EXIT = 1, 6, 7


def raises(kind, function, *args):
    try:
        function(*args)
    except kind as failure:
        return failure
    raise AssertionError("%s was not raised" % kind.__name__)


# ---- sessions

def test_sessions_begin_alike_and_do_not_meet():
    with Helper() as helper:
        first, second = helper.spawn(), helper.spawn()
        assert first.do(driver.ADD, 1) == 101
        assert first.do(driver.ADD, 1) == 102
        assert second.do(driver.ADD, 5) == 105
        assert helper.spawn().do(driver.ADD, 0) == 100


def test_several_requests_in_one_write():
    with Helper() as helper:
        session = helper.spawn()
        for i in range(10):
            session.send_rogue(driver.ADD, 1)
        assert [session.answer() for _ in range(10)] == list(range(101, 111))


def test_spawn_before_ready():
    with Helper(wait=False) as helper:
        session, fds = driver.Session.make(helper)
        helper.send(driver.SPAWN, session.id, fds)
        for fd in fds:
            os.close(fd)
        helper.await_ready()
        session.pidfd = helper.answer()["fds"][0]
        assert session.do(driver.ADD, 0) == 100
        helper.sessions.append(session)


def test_a_closed_stream_ends_a_session():
    with Helper() as helper:
        for stream in "control", "command":
            session = helper.spawn()
            getattr(session, stream).close()
            assert session.end() == 0, stream


def test_how_sessions_end():
    with Helper() as helper:
        trapped, left, killed = helper.spawn(), helper.spawn(), helper.spawn()
        raises(Gone, trapped.do, driver.TRAP, TRAP_UNREACHABLE)
        assert trapped.end() == driver.EXIT_TRAP + TRAP_UNREACHABLE
        assert trapped.usage()["trap"] == TRAP_UNREACHABLE
        raises(Gone, left.do, driver.EXIT, 7)
        assert left.end() == 7 and left.usage()["trap"] == TRAP_EXIT and left.usage()["exit_code"] == 7
        assert helper.status(killed)["code"] == driver.UNKNOWN
        killed.signal(signal.SIGKILL)
        assert killed.end() == -signal.SIGKILL


def test_processor_time_of_the_dead():
    with Helper() as helper:
        session = helper.spawn()
        session.do(driver.FILL, 0, 131072, 1)
        session.signal(signal.SIGKILL)
        session.await_death()
        assert helper.status(session)["cpu_ns"] > 0


def test_release_kills_and_forgets():
    with Helper() as helper:
        session = helper.spawn()
        helper.send(driver.RELEASE, session.id)
        session.await_death()
        assert helper.status(session)["code"] == driver.UNKNOWN
        assert helper.spawn().do(driver.ADD, 0) == 100


def test_too_many_sessions():
    with Helper(sessions_max=3) as helper:
        sessions = [helper.spawn() for _ in range(3)]
        failure = raises(Refused, helper.spawn)
        assert failure.code == -11 and "too many" in failure.text and "sessions" in failure.hint
        helper.send(driver.RELEASE, sessions[0].id)
        assert helper.spawn().do(driver.ADD, 0) == 100


def test_hundreds_at_once():
    with Helper(sessions_max=300) as helper:
        sessions = [helper.spawn() for _ in range(300)]
        for number, session in enumerate(sessions):
            assert session.do(driver.ADD, number) == 100 + number
        for number, session in enumerate(sessions):
            assert session.do(driver.ADD, 0) == 100 + number


def test_an_id_is_used_once():
    with Helper() as helper:
        session = helper.spawn()
        _, fds = driver.Session.make(helper)
        assert raises(Refused, helper.ask, driver.SPAWN, session.id, fds).code < 0
        assert session.do(driver.ADD, 0) == 100
        for fd in fds:
            os.close(fd)


# ---- interrupts

def test_interrupts():
    with Helper() as helper:
        session = helper.spawn()
        for op, answer in (driver.SPIN, 1), (driver.SLEEP, 27):  # 27: WASI's EINTR
            session.send_rogue(op)
            session.await_executing()
            for _ in range(driver.LIMIT_S * 10):  # the first one may come before the code does
                session.signal(signal.SIGINT)
                if driver.readable(session.control, 0.1):
                    break
            assert session.answer() == answer
        # Between two requests it is dropped.
        session.signal(signal.SIGINT)
        assert session.do(driver.ADD, 1) == 101


# ---- limits

def test_memory_grows_up_to_the_limit():
    with Helper(memory_max=8 << 20) as helper:
        free, limited = helper.spawn(), helper.spawn(memory_max=1 << 20)
        assert free.do(driver.GROW, 128) == 16 and free.do(driver.GROW, 1) == -1
        assert limited.do(driver.GROW, 16) == 16 and limited.do(driver.GROW, 1) == -1
        assert limited.usage()["memory"] == 1 << 20 and limited.usage()["memory_refused"] == 1
        limited.page[:8] = (2 << 20).to_bytes(8, "little")
        assert limited.do(driver.GROW, 16) == 32


def test_processor_time_is_limited():
    with Helper(cpu_seconds=1) as helper:
        session, other = helper.spawn(), helper.spawn()
        session.send_rogue(driver.SPIN)
        assert session.end() == -signal.SIGXCPU
        assert other.do(driver.ADD, 0) == 100


# ---- copies

def test_a_copy_goes_its_own_way():
    with Helper() as helper:
        parent = helper.spawn()
        parent.do(driver.ADD, 11)
        parent.do(driver.GROW, 4)
        copy = parent.fork()
        assert (copy.do(driver.RESUMED), parent.do(driver.RESUMED)) == (HOW_FORKED, 0)
        assert (copy.do(driver.ADD, 1), parent.do(driver.ADD, 2)) == (112, 113)
        assert (copy.do(driver.ADD, 0), parent.do(driver.ADD, 0)) == (112, 113)
        assert copy.usage()["memory"] == 4 * 65536
        parent.signal(signal.SIGKILL)
        assert parent.end() == -signal.SIGKILL
        grandchild = copy.fork()
        assert grandchild.do(driver.ADD, 1) == 113 and copy.do(driver.ADD, 0) == 112
        raises(Gone, copy.do, driver.EXIT, 3)
        assert copy.end() == 3


def test_a_copy_is_not_made_without_permission():
    with Helper() as helper:
        session = helper.spawn()
        failure = raises(Refused, session.clone)
        assert failure.code == -11, failure
        assert session.do(driver.ADD, 0) == 100
        assert session.fork().do(driver.ADD, 0) == 100
        assert raises(Refused, session.clone).code == -11


def test_only_a_copy_of_its_own_is_adopted():
    with Helper() as helper:
        session, other = helper.spawn(), helper.spawn()
        session.do(driver.ADD, 0)  # it has locked itself down
        for claimed in (other.pid, session.pid, 1, 0, -1, 99999):
            failure = raises(Refused, lambda: helper.ask(driver.ADOPT, helper.new_id(), parent=session.id, pid=claimed))
            assert failure.code == -1, (claimed, failure)
        helper.ask(driver.PERMIT, session.id)
        copy, pid = session.clone()
        # Not as another's, not twice, not under an id that is somebody's.
        for parent, id in (other.id, helper.new_id()), (session.id, other.id):
            raises(Refused, lambda: helper.ask(driver.ADOPT, id, parent=parent, pid=pid))
        copy.pidfd = helper.ask(driver.ADOPT, copy.id, parent=session.id, pid=pid)["fds"][0]
        helper.sessions.append(copy)
        raises(Refused, lambda: helper.ask(driver.ADOPT, helper.new_id(), parent=session.id, pid=pid))
        assert copy.do(driver.ADD, 1) == 101


def test_a_copy_that_nobody_adopts_dies_with_its_parent():
    with Helper() as helper:
        session = helper.spawn()
        helper.ask(driver.PERMIT, session.id)
        copy, _ = session.clone()
        assert copy.do(driver.ADD, 1) == 101
        session.signal(signal.SIGKILL)
        session.await_death()
        raises(Gone, copy.take, 1)
        copy.forget()


# ---- states

def test_a_state_is_restored_elsewhere():
    with Helper() as helper:
        session = helper.spawn()
        session.do(driver.ADD, 23)
        session.do(driver.GROW, 2)
        session.do(driver.FILL, 65536, 16 * 65536, 7)
        state = session.save()
        assert session.do(driver.ADD, 1) == 124
    with Helper() as helper:
        twins = [helper.spawn(state), helper.spawn(state)]
        for twin in twins:
            assert twin.do(driver.RESUMED) == HOW_RESTORED
            assert twin.do(driver.ADD, 1) == 124
            assert twin.usage()["memory"] == 2 * 65536
        assert twins[0].fork().do(driver.ADD, 1) == 125


def test_states_that_are_none():
    with Helper() as helper:
        session = helper.spawn()
        session.do(driver.ADD, 1)
        state = session.save()
        bad = [b"x", b"x" * 8192, state[:-1], state[:200], state[:96] + b"\1" * 8 + state[104:]]
        bad += [state[:at] + bytes([state[at] ^ 0xff]) + state[at + 1:] for at in (0, 8, 20, 130, len(state) - 5)]
        for number, content in enumerate(bad):
            failure = raises(Refused, helper.spawn, content)
            assert failure.code < 0, number
            assert helper.sessions[-1].end() == driver.EXIT_SETUP, number
        assert helper.spawn(state).do(driver.ADD, 0) == 101


def test_a_state_beyond_the_limits():
    with Helper() as helper:
        session = helper.spawn()
        session.do(driver.GROW, 64)
        state = session.save()
    with Helper(memory_max=1 << 20) as helper:
        raises(Refused, helper.spawn, state)
    with Helper(snapshot_max=64) as helper:
        raises(Refused, helper.spawn, state)
        failure = raises(Refused, helper.spawn().save)
        assert failure.code == -27, failure  # EFBIG


# ---- the helper's own end

def test_all_sessions_end_with_the_helper():
    for namespaces in 0, 1:
        helper = Helper(namespaces=namespaces)
        sessions = [helper.spawn() for _ in range(3)]
        sessions.append(sessions[0].fork())
        sessions[0].send_rogue(driver.SPIN)
        assert helper.close() == 0, namespaces
        # Killed, it takes them along as well.
        helper = Helper(namespaces=namespaces)
        sessions = [helper.spawn() for _ in range(3)]
        sessions[0].send_rogue(driver.SPIN)
        os.kill(helper.pid, signal.SIGKILL)
        assert helper.close() == -signal.SIGKILL, namespaces


# ---- what it refuses

def test_what_does_not_fit():
    cases = [({"config": b"\0" * driver.CONFIG.size}, "one version"),
             ({"config": b""}, "one version"),
             ({"image": __file__}, ""),
             ({"code": __file__}, "can't be loaded"),
             ({"image_flags": os.O_RDWR}, "reading alone")]
    for arguments, text in cases:
        helper = Helper(wait=False, **arguments)
        failure = raises(Refused, helper.await_ready)
        assert failure.code < 0 and text in failure.text and failure.hint, (arguments, failure.text)
        assert helper.close() == 1


def test_messages_that_are_none():
    with Helper() as helper:
        session = helper.spawn()
        assert raises(Refused, helper.ask, 99, 5).code < 0
        assert raises(Refused, helper.ask, driver.SPAWN, helper.new_id()).code < 0
        session.send_command(99, 3)
        assert raises(Refused, session.reply, 3).code < 0
        session.send_command(driver.FORK, 4)
        assert raises(Refused, session.reply, 4).code < 0
        session.send_command(driver.SAVE, 5)
        assert raises(Refused, session.reply, 5).code < 0
        assert session.do(driver.ADD, 0) == 100
        session.command.send(b"short")
        assert session.end() == driver.EXIT_SETUP
        assert helper.spawn().do(driver.ADD, 0) == 100


if __name__ == "__main__":
    main()

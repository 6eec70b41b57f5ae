#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two servers want one session: one has it, the other is told who, and no state forks by accident.

Environment: KIND is the backend (local); COUNT how often each of the competitors counts (5)."""
import os
import signal
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import durable_case as case  # noqa: E402
from tap import main, note  # noqa: E402

KIND = os.environ.get("KIND", "local")
COUNT = int(os.environ.get("COUNT", "5"))


def refused(server, session, code="print(1)"):
    """What a server says that must not have the session."""
    try:
        told = server.execute(session, code)
    except case.Refused as reason:
        return str(reason)
    raise AssertionError("two servers have the session: %s" % told)


def test_the_second_server_is_told_who_has_it():
    with case.Machine(KIND, 'store_wait = "200ms";\n') as machine:
        first, second = machine.serve(machine.project("one")), machine.serve(machine.project("two"))
        first.run("mine", "count = 1")
        text = refused(second, "mine")
        note(text)
        assert "mine" in text and str(first.pid) in text, text
        for tool, more in (("checkpoint_session", {}), ("rollback_session", {"checkpoint": "c1"}), ("fork_session", {})):
            try:
                second.call(tool, session_id="mine", **more)
            except case.Refused as reason:
                assert str(first.pid) in str(reason), reason
            else:
                raise AssertionError(tool + " of another server's session")
        second.run("other", "print(1)")
        first.run("mine", "count += 1")
        stored = [one for one in second.call("list_sessions")["stored"] if one["id"] == "mine"]
        assert len(stored) == 1 and str(first.pid) in str(stored[0]["server"]), stored
        first.stop()
        told = second.run("mine", "print(count)")
        assert told.text.strip().endswith("2") and told.notice_kind == "resumed", told
        second.stop()


def test_who_waits_gets_it_when_the_other_goes():
    with case.Machine(KIND, 'store_wait = "5m";\n') as machine:
        first, second = machine.serve(machine.project("one")), machine.serve(machine.project("two"))
        first.run("mine", "count = 1")
        for end in (first.stop, second.kill):
            other = second if end == first.stop else machine.serve(machine.project("three"))
            request = other.begin("execute_python", {"session_id": "mine", "code": "count += 1\nprint(count)"})
            first.run("elsewhere", "pass") if end == first.stop else None
            end()
            told = case.Told(other.finish(request))
            assert told.end == "ok" and told.notice_kind == "resumed", str(told) + machine.logged()
            note(told.text)
        assert told.text.strip().endswith("3"), told
        other.stop()


def test_a_dead_servers_session_is_free_at_once():
    """Nobody waits for the lease of a process that is gone."""
    with case.Machine(KIND, 'store_wait = "0s";\n') as machine:
        count = 0
        server = machine.serve()
        for _ in range(3):
            count += 1
            server.run("mine", "count = globals().get('count', 0) + 1")
            server.kill()
            server = machine.serve()
        told = server.run("mine", "print(count)")
        assert told.text.strip().endswith(str(count)), told
        server.stop()


def test_no_count_is_lost_between_programs():
    """Each run of the program is a server of its own; they take turns with the session."""
    with case.Machine(KIND, 'store_wait = "5m";\n') as machine:
        config, wrong = machine.project(), []

        def compete(number):
            for _ in range(COUNT):
                done = machine.run("exec", "--session", "counter", "-c", "count = globals().get('count', 0) + 1",
                                   config=config)
                if done.returncode:
                    wrong.append("%d: %s" % (number, done.stderr))

        threads = [threading.Thread(target=compete, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong, wrong
        done = machine.run("exec", "--session", "counter", "-c", "print(count)", config=config)
        assert done.stdout.splitlines()[-1] == str(2 * COUNT), done


def test_a_server_that_was_away_gives_the_session_up():
    """Its lease ends while it is stopped; what it comes back with is not the session's any more. Takes as long as a lease
    lasts, so it is of the suite `slow`."""
    with case.Machine(KIND, 'store_wait = "2m";\n') as machine:
        first, second = machine.serve(machine.project("one")), machine.serve(machine.project("two"))
        first.run("mine", "count = 1")
        below = case.mcp_client.process_tree(first.pid)
        try:
            os.kill(first.pid, signal.SIGSTOP)
            told = second.run("mine", "count += 10\nprint(count)")
            assert told.text.strip().endswith("11") and told.notice_kind == "resumed", told
        finally:
            os.kill(first.pid, signal.SIGCONT)
        assert case.mcp_client.alive(below)
        # It waits for its turn as others do, and then finds what the other one made.
        request = first.begin("execute_python", {"session_id": "mine", "code": "count += 100\nprint(count)"})
        second.run("mine", "count += 20")
        second.stop()
        told = case.Told(first.finish(request))
        assert told.end == "ok" and told.text.strip().endswith("131") and told.notice_kind == "resumed", told
        first.stop()


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A session's tree of states against a model of it: after random programs, checkpoints, rollbacks, forks, kills, restarts of
the server and destroyed sessions, list_checkpoints says what the model says, and values are those of the model.

Environment: KIND is the backend (wasm); TREES how many seeds (2), from SEED on; STEPS of each (40)."""
import collections
import os
import random
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import durable_case as case  # noqa: E402
import model  # noqa: E402
from tap import main, note  # noqa: E402

KIND = os.environ.get("KIND", "wasm")
TREES = int(os.environ.get("TREES", "2"))
STEPS = int(os.environ.get("STEPS", "40"))
SEED = int(os.environ.get("SEED", "0")) or random.SystemRandom().randrange(1, 1 << 31)
KEPT = 10          # checkpoints_max: few, so that they go
SESSIONS_MAX = 5
SETTINGS = 'interrupt_grace = "1m";\nstore_wait = "1m";\ncheckpoints_max = %d;\n' % KEPT


class Node:
    def __init__(self, parent, label, automatic, path):
        self.parent, self.label, self.automatic, self.path = parent, label, automatic, path


class Tree:
    """What the session ought to tell of its checkpoints."""

    def __init__(self):
        self.nodes, self.head = {}, None  # by id, oldest first

    def add(self, name, label, automatic, path):
        assert name not in self.nodes, "%s is another one's id" % name
        self.nodes[name] = Node(self.head, label, automatic, path)
        self.head = name
        while len(self.nodes) > KEPT and (oldest := self._surplus()):
            self._remove(oldest)

    def _surplus(self):
        return next((name for name, node in self.nodes.items() if node.automatic and name != self.head), None)

    def _remove(self, name):
        gone = self.nodes.pop(name)
        for node in self.nodes.values():
            if node.parent == name:
                node.parent = gone.parent

    def find(self, label):
        """The newest of that label."""
        return next(name for name, node in reversed(self.nodes.items()) if node.label == label)

    def listing(self):
        return [(name, node.parent, node.label, node.automatic, name == self.head) for name, node in self.nodes.items()]


class Session:
    def __init__(self, name, programs, path=()):
        self.name, self.programs, self.path, self.tree = name, programs, list(path), Tree()


class World:
    def __init__(self, machine, models, seed):
        self.machine, self.models, self.seed, self.chance = machine, models, seed, random.Random(seed)
        self.server = machine.serve()
        self.sessions, self.number = [], 0
        self.done = collections.Counter()
        self.acts = {"set": 8, "look": 4, "checkpoint": 4, "rollback": 4, "rollback_label": 1, "fork": 2, "fork_old": 2,
                     "new": 1, "kill_guest": 2, "kill_server": 1, "restart": 1, "destroy": 1}

    def name(self):
        self.number += 1
        return "tree-%d" % self.number

    def programs(self):
        return model.Programs(self.seed * 1000003 + self.number, exact=KIND == "wasm")

    # ---- what is done

    def heard(self, session, told, path):
        """Each execution's state is kept; one that changed nothing may be the one that there was."""
        assert told.state == "kept" and told.id, "%s%s" % (told, self.machine.logged())
        session.path = path
        if told.id in session.tree.nodes:
            known = session.tree.nodes[told.id]
            assert told.id == session.tree.head, "%s, and the head is %s" % (told.id, session.tree.head)
            wrong = model.difference(self.models.look(path), self.models.look(known.path))
            assert not wrong, "it says that nothing changed:\n" + wrong
        else:
            session.tree.add(told.id, None, True, path)

    def set(self, session):
        program = session.programs.next()
        told = self.server.execute(session.name, program)
        assert told.end in ("ok", "error"), told
        self.heard(session, told, session.path + [program])

    def look(self, session):
        told = self.server.look(session.name)
        wrong = model.difference(told.account, self.models.look(session.path))
        assert not wrong, "%s: %s\n%s" % (session.name, told, wrong)
        self.heard(session, told, session.path)

    def checkpoint(self, session):
        label = self.chance.choice((None, "one", "two", "drei \u00e4\u4e2d"))
        given = self.server.call("checkpoint_session", session_id=session.name, **({"label": label} if label else {}))
        session.tree.add(given["id"], label, False, session.path)

    def _roll_back(self, session, wanted, node):
        given = self.server.call("rollback_session", session_id=session.name, checkpoint=wanted)
        assert given["id"] == node and not given["missing"], given
        session.tree.head, session.path = node, session.tree.nodes[node].path

    def rollback(self, session):
        if session.tree.nodes:
            node = self.chance.choice(list(session.tree.nodes))
            self._roll_back(session, node, node)

    def rollback_label(self, session):
        labels = sorted({node.label for node in session.tree.nodes.values() if node.label})
        if labels:
            label = self.chance.choice(labels)
            self._roll_back(session, label, session.tree.find(label))

    def fork(self, session, checkpoint=None):
        if len(self.sessions) >= SESSIONS_MAX:
            return
        named = {"checkpoint": checkpoint} if checkpoint else {}
        path = session.tree.nodes[checkpoint].path if checkpoint else session.path
        if self.chance.randrange(2):
            named["new_session_id"] = self.name()
        given = self.server.call("fork_session", session_id=session.name, **named)
        assert not given["missing"], given
        assert given["session_id"] == named.get("new_session_id", given["session_id"]) != session.name, given
        self.number += 1
        branch = Session(given["session_id"], self.programs(), path)
        # Where it begins is its first checkpoint, which may be stored a moment later; of the other's it has none.
        assert case.wait_for(lambda: self.server.checkpoints(branch.name)), "the fork is never stored"
        for one in self.server.checkpoints(branch.name):
            branch.tree.add(one["id"], one["label"], one["automatic"], path)
        assert len(branch.tree.nodes) == 1, branch.tree.listing()
        self.sessions.append(branch)
        if not checkpoint:  # the state now may have become a checkpoint of the original's
            self.adopt(session)

    def adopt(self, session):
        """A fork of now may leave a checkpoint of it behind."""
        for one in self.server.checkpoints(session.name):
            if one["id"] not in session.tree.nodes:
                assert one["parent"] == session.tree.head and one["automatic"], one
                session.tree.add(one["id"], one["label"], True, session.path)

    def fork_old(self, session):
        if session.tree.nodes:
            self.fork(session, self.chance.choice(list(session.tree.nodes)))

    def new(self, _):
        if len(self.sessions) < SESSIONS_MAX:
            self.sessions.append(Session(self.name(), self.programs()))
            self.set(self.sessions[-1])

    def kill_guest(self, _):
        """Whose it is nobody knows: what is kept to go back to may be gone instead."""
        found = self.server.processes("guest")
        if found:
            case.kill(self.chance.choice(found))

    def kill_server(self, _):
        self.server.kill()
        self.server = self.machine.serve(self.machine.project("project-%d" % self.chance.randrange(3)))

    def restart(self, _):
        self.server.stop()
        self.server = self.machine.serve()

    def destroy(self, session):
        if len(self.sessions) > 1:
            self.server.call("destroy_session", session_id=session.name)
            self.sessions.remove(session)

    # ---- what is compared

    def compare(self, session):
        if session in self.sessions:
            told = [(one["id"], one["parent"], one["label"], one["automatic"], one["head"])
                    for one in self.server.checkpoints(session.name)]
            assert told == session.tree.listing(), "%s:\n%s\nand not\n%s" % (
                session.name, "\n".join(map(str, told)), "\n".join(map(str, session.tree.listing())))

    def step(self):
        if not self.sessions:
            self.new(None)
        act = self.chance.choices(list(self.acts), list(self.acts.values()))[0]
        session = self.chance.choice(self.sessions)
        self.done[act] += 1
        getattr(self, act)(session)
        self.compare(session)

    def end(self):
        """All that was not looked at: each session, and each state of each."""
        for session in self.sessions:
            self.look(session)
            for node in list(session.tree.nodes):
                if node in session.tree.nodes:
                    self._roll_back(session, node, node)
                    told = self.server.look(session.name)
                    wrong = model.difference(told.account, self.models.look(session.path))
                    assert not wrong, "%s at %s: %s\n%s" % (session.name, node, told, wrong)
                    self.heard(session, told, session.path)
                    self.compare(session)


def one_tree(seed):
    with case.Machine(KIND, SETTINGS) as machine, model.Model() as models:
        world = World(machine, models, seed)
        try:
            for _ in range(STEPS):
                world.step()
            world.end()
        except AssertionError as wrong:
            raise AssertionError("seed %d, after %s: %s" % (seed, dict(world.done), wrong)) from wrong
        world.server.stop()
        return world.done


def test_the_tree_is_the_models():
    done = collections.Counter()
    for seed in range(SEED, SEED + TREES):
        done += one_tree(seed)
    note("%d seeds from %d, %d steps each: %s" % (TREES, SEED, STEPS, dict(sorted(done.items()))))


if __name__ == "__main__":
    main()

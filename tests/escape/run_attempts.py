#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes every attempt to break out of the jail (attempts/) with the real program, and prints TAP, or with --table a table.

    run_attempts.py --build BUILD [--isolation namespaces|landlock|wasm] [--user root|ordinary] [--only PART] [--table]
    run_attempts.py --build BUILD --engine docker|podman... [--only PART] [--table]     in containers

By default both isolations of backend-local are tried, as root and as an ordinary user if this is root. An attempt passes when it was held:
the execution ended as it may, said what was refused, and the host is unharmed. Where it can be had, a positive control
runs the same program outside first: it must break out there, else it would prove nothing. Afterwards no process, mount,
cgroup or file may be left."""
import argparse
import concurrent.futures
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE), os.path.join(os.path.dirname(HERE), "engines")]

import attempts  # noqa: E402
import containers  # noqa: E402
import engines  # noqa: E402
import harness  # noqa: E402
import runs  # noqa: E402
import sessions  # noqa: E402


class Report:
    def __init__(self, table):
        self.table, self.count, self.failed, self.rows = table, 0, 0, []

    def add(self, where, name, promise, problem, detail, skipped=None):
        self.count += 1
        self.failed += problem is not None
        outcome = "skipped: " + skipped if skipped else "NOT HELD: " + problem if problem else "held"
        self.rows.append((where, name, promise, outcome, detail))
        if self.table:
            return
        directive = " # SKIP " + skipped if skipped else ""
        print("%s %d - %s: %s%s" % ("not ok" if problem else "ok", self.count, where, name, directive))
        if problem:
            for line in ("promise: %s\n%s\n%s" % (promise, problem, detail)).rstrip().splitlines():
                print("# " + line)
        sys.stdout.flush()

    def print_table(self):
        widths = [max(len(str(row[i])) for row in self.rows + [("where", "attempt", "promise", "outcome", "")])
                  for i in range(3)]
        line = "%%-%ds  %%-%ds  %%-%ds  %%s" % tuple(widths)
        print(line % ("where", "attempt", "promise", "outcome"))
        for where, name, promise, outcome, detail in self.rows:
            said = detail.splitlines()[0][:70] if outcome == "held" and detail else ""
            print(line % (where, name, promise, outcome + (" (%s)" % said.replace("HELD ", "") if said else "")))
        print("%d attempts, %d not held" % (self.count, self.failed))


def judge(attempt, result, complaint, host):
    """None, or what is wrong with how the attempt ended."""
    if result is None:
        return "no result: %s" % complaint
    if result["isolation"] != host.isolation:
        return "isolation was %s" % result["isolation"]
    if result["end"] not in attempt.ends:
        return "it ended as %s: %s" % (result["end"], result["error"])
    if "ESCAPED" in result["stdout"]:
        return "it escaped"
    if attempt.judge is not None:
        return attempt.judge(result, host)
    return None if "HELD" in result["stdout"] else "it did not say what held it"


def control(attempt, host):
    """None, or why the attempt would prove nothing: outside, it doesn't break out either."""
    if attempt.control is None or (attempt.control == "escaped as root" and host.uid != 0):
        return None
    said = host.outside(host.program(attempt))
    return None if "ESCAPED" in said else "the positive control failed; outside it says: " + said


def make(attempt, host):
    """(problem or None, what was said, why it was skipped or None)"""
    if attempt.needs_cgroup and not host.has_cgroups:
        return None, "", "this user can't have cgroups here"
    problem = control(attempt, host)
    if problem is not None:
        return problem, "", None
    result, complaint = host.execute(host.program(attempt), attempt.flags)
    said = result["stdout"] + result["stderr"] if result else ""
    return judge(attempt, result, complaint, host), said, None


def first_execution(host):
    result, complaint = host.execute("print('up')")
    if result is None:
        raise harness.Unavailable(complaint.strip())
    host.has_cgroups = result["memory_peak_bytes"] > 0 or host.engine is not None  # nobody else knows it


def run_kind(report, build, user, uid, isolation, only):
    """All attempts of one user and one isolation."""
    where = "%s, %s" % (isolation, user)
    machine = harness.Machine(uid)
    chosen = [a for a in attempts.every() if isolation in a.isolations and only in a.name]
    with harness.Host(build, uid, isolation) as host:
        try:
            first_execution(host)
        except harness.Unavailable as e:
            report.add(where, "the program runs", "", "it doesn't", str(e))
            return
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for attempt, (problem, said, skipped) in zip(chosen, pool.map(lambda a: make(a, host), chosen)):
                report.add(where, attempt.name, attempt.promise, problem, said, skipped)
        for name, promise, problem, said in sessions.attempts(host, only):
            report.add(where, name, promise, problem, said)
        for name, promise, problem, said in runs.attempts(host, only):
            report.add(where, name, promise, problem, said)
        harm = host.unharmed()
        report.add(where, "the host is unharmed", "", "; ".join(harm) or None, "")
        host.stop()
        litter = host.litter()
    left = litter + machine.leftovers(host.server_pids)
    report.add(where, "nothing is left behind", "no process, mount, cgroup or file", "; ".join(left) or None, "")


def in_one_session(attempt):
    """Those that leave the session as it was may share one: a container costs more than they do."""
    return attempt.ends == ("ok",) and not attempt.flags and attempt.judge is None and not attempt.alone


def make_together(chosen, host):
    """As make(), one after another in one session. No positive controls: those of the same programs are tried with the
    other isolations."""
    results, complaint = host.execute_all([host.program(attempt) for attempt in chosen])
    results += [None] * (len(chosen) - len(results))
    for attempt, result in zip(chosen, results):
        said = result["stdout"] + result["stderr"] if result else ""
        yield attempt, judge(attempt, result, complaint, host), said


def run_engine(report, build, engine, only):
    """All attempts in containers of one engine."""
    where = "container, " + engine.kind
    machine = harness.Machine(0, engine)
    chosen = [a for a in attempts.every() if attempts.CONTAINER in a.isolations and only in a.name]
    for attempt in chosen:
        reason = containers.reason_without(engine.kind, attempt.name)
        if reason is not None:
            report.add(where, attempt.name, attempt.promise, None, "", reason)
    chosen = [a for a in chosen if containers.reason_without(engine.kind, a.name) is None]
    with harness.Host(build, 0, attempts.CONTAINER, engine) as host:
        first_execution(host)
        together = [a for a in chosen if in_one_session(a)]
        for attempt, problem, said in make_together(together, host) if together else ():
            report.add(where, attempt.name, attempt.promise, problem, said)
        for attempt in chosen:
            if not in_one_session(attempt):
                result, complaint = host.execute(host.program(attempt), attempt.flags)
                said = result["stdout"] + result["stderr"] if result else ""
                report.add(where, attempt.name, attempt.promise, judge(attempt, result, complaint, host), said)
        for name, promise, problem, said in sessions.attempts(host, only):
            report.add(where, name, promise, problem, said)
        harm = host.unharmed()
        report.add(where, "the host is unharmed", "", "; ".join(harm) or None, "")
        host.stop()
        litter = host.litter()
    left = litter + machine.leftovers(host.server_pids)
    report.add(where, "nothing is left behind", "no process, container, cgroup or file", "; ".join(left) or None, "")


def run_engines(report, build, kinds_wanted, only):
    for kind in kinds_wanted:
        try:
            with engines.shared(kind) as engine:
                run_engine(report, build, engine, only)
        except (engines.Unavailable, harness.Unavailable) as reason:
            report.add("container, " + kind, "all attempts", "", None, "", " ".join(str(reason).split()))


def kinds(options):
    users = [("root", 0), ("ordinary user", harness.ORDINARY_UID)] if os.geteuid() == 0 \
        else [("ordinary user", os.geteuid())]
    for isolation in (attempts.NAMESPACES, attempts.LANDLOCK) if options.isolation is None else (options.isolation,):
        for user, uid in users:
            if options.user in (None, user.split()[0]):
                yield user, uid, isolation


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default=os.environ.get("SNIPARA_SANDBOX_BUILD_ROOT"))
    parser.add_argument("--isolation", choices=(attempts.NAMESPACES, attempts.LANDLOCK, attempts.WASM))
    parser.add_argument("--user", choices=("root", "ordinary"))
    parser.add_argument("--engine", action="append", choices=engines.KINDS, default=[])
    parser.add_argument("--only", default="", help="attempts whose name has this part")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if not options.build or not os.path.exists(os.path.join(options.build, harness.PROGRAM)):
        print("TAP version 13\n1..0 # SKIP escape attempts: no program in the build directory %s" % options.build)
        return 0
    harness.become_reaper()
    report = Report(options.table)
    if not options.table:
        print("TAP version 13")
    with tempfile.TemporaryDirectory(prefix="escape-build-") as directory:
        os.chmod(directory, 0o755)
        build = os.path.join(directory, "build")
        harness.stage_build(os.path.abspath(options.build), build)
        if options.engine:
            run_engines(report, build, options.engine, options.only)
        else:
            for user, uid, isolation in kinds(options):
                run_kind(report, build, user, uid, isolation, options.only)
    if options.table:
        report.print_table()
    else:
        print("1..%d\n# %d run, %d failed" % (report.count, report.count, report.failed))
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())

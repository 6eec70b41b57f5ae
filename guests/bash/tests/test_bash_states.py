# SPDX-License-Identifier: Apache-2.0
"""Portable states of the Bash worker: what one session holds is there in another one, in another directory."""

import json
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from bash_guest import BashGuest
from portable import restore, save


class StatesTest(unittest.TestCase):
    def guest(self, **environment):
        """In a directory of its own, which belongs to the session alone."""
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        guest = BashGuest(cwd=directory.name, env={"TMPDIR": directory.name, **environment})
        self.addCleanup(guest.close)
        guest.directory = directory.name
        return guest

    def move(self, guest, **environment):
        """Another session with the state of the first: (it, what was told at saving, at restoring)."""
        told, parts = save(guest)
        self.assertEqual(told["end"], "ok", told)
        other = self.guest(**environment)
        restored = restore(other, parts)
        self.assertEqual(restored["end"], "ok", restored)
        self.assertEqual((restored["variables"], restored["names"]), (told["variables"], told["names"]))
        return other, told, restored

    def moved(self, code, look, **environment):
        """What code prints in the other session, which is what it prints in the first one."""
        guest = self.guest()
        guest.run(code)
        other, told, restored = self.move(guest, **environment)
        self.assertEqual(restored["missing"], told["unsaved"])
        here, there = guest.run(look), other.run(look)
        self.assertEqual((here["stdout"], here["exit_code"]), (there["stdout"], there["exit_code"]), there)
        return there["stdout"]

    def test_variables(self):
        code = r"""s="it's \"\$quoted\""; n=$'new\nline\ttab'; bytes=$'\x01\xff\xfe'; declare -i i=40; declare -u up=abc
            a=(1 'two words' $'three\n' [7]=seven); declare -A m=([k]=v ["a b"]='c d' [$'\n']=nl); e=; declare -a empty=()
            declare -A later; declare -r fixed=const; declare -x EXPORTED=env; declare -n ref=s; declare -ri both=3
            multi='
declare -- fake="not a variable"
declare -r trap="neither"'"""
        look = r"""declare -p s n bytes i up a m e empty fixed EXPORTED both multi; i+=2; echo $i $ref; up=xyz; echo $up
            later[key]=1; declare -p later; sh -c 'echo $EXPORTED'; fixed=2; echo no; declare -p fake"""
        out = self.moved(code, look)
        self.assertIn("42 it's", out)
        self.assertIn('declare -A later=([key]="1" )', out)
        self.assertNotIn("no\n", out.replace("not a", ""))

    def test_functions(self):
        code = r"""f() { local x=$1; cat <<X
}
f () { $x
X
            }
            g() ( echo sub; ); h() { f "$@" | tr a-z A-Z; }; export -f g; d-e.f() { echo odd; }; rec() { (($1)) && rec $(($1-1)) || echo end; }"""
        out = self.moved(code, "f arg; g; h up; d-e.f; rec 3; bash -c g; declare -f f g h d-e.f rec; declare -F")
        self.assertIn("F () { UP\n", out)
        self.assertIn("declare -fx g\n", out)

    def test_aliases_options_and_the_like(self):
        code = r"""alias ll='echo aliased' f=ll; unalias ll 2>/dev/null; alias ll="echo 'it'"; set -o pipefail -f; shopt -s nullglob
            shopt -u extglob; umask 027; set -- one "two three" ''; unset HOME; PATH=$PATH:/extra; IFS=,; false"""
        out = self.moved(code, "echo $?; alias; ll; set +o; shopt; umask; echo $#; printf '<%s>' \"$@\"; echo ${HOME-none}; "
                               'echo "$PATH"; declare -p IFS')
        self.assertTrue(out.startswith("1\n"))
        self.assertIn("<one><two three><>none\n", out)
        self.assertIn(":/extra\n", out)

    def test_errexit_and_traps(self):
        guest = self.guest()
        guest.run("trap 'echo bye' EXIT; trap 'echo err' ERR; trap 'echo usr' USR1; set -u")
        other, _told, restored = self.move(guest)
        self.assertEqual(restored["missing"], [])
        for one in (guest, other):
            self.assertEqual(one.run("kill -USR1 $$; false; true")["stdout"], "usr\nerr\n")
            result = one.run("exit 5")
            self.assertEqual((result["stdout"], result["exit_code"]), ("bye\n", 5))
            self.assertIn("unset_one: unbound", one.run("echo $unset_one")["stderr"])
        guest = self.guest()
        guest.run("set -e")
        other, _told, _restored = self.move(guest)
        for _ in range(2):
            self.assertEqual(other.run("false; echo no")["stdout"], "")
            save(other)  # does not take it back

    def test_files_and_the_directory(self):
        guest = self.guest()
        guest.run("mkdir -p sub/deep; cd sub/deep; echo content > file; ln -s file link; chmod 640 file; touch -d @1000000000 file")
        guest.run("mkdir private; echo x > private/y; chmod 500 private")
        other, told, restored = self.move(guest)
        self.assertEqual((restored["missing"], told["files"]["count"]), ([], 6))
        out = other.run("pwd; cat link; stat -c '%a %Y %n' file private; ls private; cd -")["stdout"]
        self.assertEqual(out, f"{other.directory}/sub/deep\ncontent\n640 1000000000 file\n500 {self.time(guest)} private\ny\n"
                              f"{guest.directory}\n")

    @staticmethod
    def time(guest):
        return int(os.stat(guest.directory + "/sub/deep/private").st_mtime)

    def test_directory_that_is_not_there(self):
        guest = self.guest()
        with tempfile.TemporaryDirectory() as gone:
            guest.run(f"cd {gone}")
            _told, parts = save(guest)
        other = self.guest()
        restored = restore(other, parts)
        self.assertEqual([(item["name"], item["type"]) for item in restored["missing"]], [(gone, "directory")])
        self.assertEqual(other.run("pwd")["stdout"], other.directory + "\n")

    def test_what_cannot_be_saved(self):
        guest = self.guest()
        guest.run("sleep 1000 & exec 7>/dev/null 8< <(sleep 1000); x=kept; true & wait $!")
        told, parts = save(guest)
        found = {(item["name"], item["type"]) for item in told["unsaved"]}
        self.assertLessEqual({("%1", "background job"), ("descriptor 7", "file"), ("descriptor 8", "pipe")}, found)
        self.assertIn("sleep", guest.run("jobs")["stdout"])  # and the session is as it was
        other = self.guest()
        restored = restore(other, parts)
        self.assertEqual(restored["missing"], told["unsaved"])
        self.assertEqual(other.run("echo $x; jobs")["stdout"], "kept\n")

    def test_environment_is_the_new_one(self):
        guest = self.guest(HOST_NAME="first", SAME="same")
        guest.run("OTHER=1; HOST_NAME+=!; export HOST_NAME")
        other = self.guest(HOST_NAME="second", SAME="another")
        restore(other, save(guest)[1])
        self.assertEqual(other.run("echo $HOST_NAME $SAME; echo $$")["stdout"].split()[:2], ["first!", "another"])

    def test_random_numbers_differ(self):
        guest = self.guest()
        guest.run("RANDOM=42; x=$RANDOM")
        _told, parts = save(guest)
        seen = set()
        for _ in range(3):
            other = self.guest()
            restore(other, parts)
            seen.add(other.run("echo $RANDOM $RANDOM $RANDOM")["stdout"])
        self.assertEqual(len(seen), 3)

    def test_unchanged(self):
        guest = self.guest()
        guest.run("x=1; f() { :; }; echo a > file")
        told, parts = save(guest)
        again, none = save(guest, told["digest"])
        self.assertEqual((again["unchanged"], none, again["digest"]), (True, [], told["digest"]))
        guest.run("echo looks; : $x")
        self.assertTrue(save(guest, told["digest"])[0]["unchanged"])
        for change in ("x=2", "f() { echo; }", "echo b >> file", "cd /", "alias q=r", "set -o pipefail"):
            guest.run(change)
            before, told = told, save(guest, told["digest"])[0]
            self.assertNotIn("unchanged", told, change)
            self.assertNotEqual(before["digest"], told["digest"])
        other, told, _restored = self.move(guest)
        self.assertTrue(save(other, save(other)[0]["digest"])[0]["unchanged"])

    def test_large_values(self):
        guest = self.guest()
        guest.run("big=$(head -c 5000000 /dev/zero | tr '\\0' x); small=1; list=($(seq 20000))")
        told, parts = save(guest)
        self.assertIn(5000000, [len(part) // 1000 * 1000 for part in parts])
        refused, _parts = save(guest, max_bytes=1000000)
        self.assertEqual((refused["end"], refused["error"]["errno"]), ("error", "EFBIG"))
        other = self.guest()
        self.assertEqual(restore(other, parts)["end"], "ok")
        self.assertEqual(other.run("echo ${#big} ${#list[@]} ${list[19999]}")["stdout"], "5000000 20000 20000\n")

    def test_only_once_and_only_fresh(self):
        guest = self.guest()
        guest.run("x=1")
        _told, parts = save(guest)
        refused = restore(guest, parts)
        self.assertEqual((refused["end"], refused["error"]["errno"]), ("error", "EBUSY"))
        self.assertEqual(guest.run("echo $x")["stdout"], "1\n")

    def damaged(self, parts):
        guest = self.guest()
        told = restore(guest, parts)
        self.assertEqual(told["end"], "error", told)
        self.assertEqual(guest.run("echo on")["stdout"], "on\n")
        return told["error"].get("errno")

    def test_damaged_states(self):
        guest = self.guest()
        guest.run("x=1; y=2; f() { echo; }")
        _told, parts = save(guest)
        index = json.loads(parts[0])
        self.assertEqual(self.damaged([]), "EBADMSG")
        self.assertEqual(self.damaged([b"", *parts[1:]]), "EBADMSG")
        self.assertEqual(self.damaged([parts[0][:-5], *parts[1:]]), "EBADMSG")
        self.assertEqual(self.damaged(parts[:1]), "EBADMSG")
        self.assertEqual(self.damaged([parts[0], parts[1][:-1]]), "EBADMSG")
        self.assertEqual(self.damaged([parts[0], bytes(len(parts[1]))]), "EBADMSG")

        def changed(**members):
            return [json.dumps({**index, **members}).encode(), *parts[1:]]

        self.assertEqual(self.damaged(changed(version=99)), "EPROTONOSUPPORT")
        self.assertEqual(self.damaged(changed(language="python")), "EBADMSG")
        for key in index["bash"]:
            for value in (None, 5, [[1]], {"a": []}, "\0", [["v", "x", 1, -1, 5]], "\u20ac"):
                if value is None and key in ("traps", "aliases", "umask"):
                    continue
                told = restore(self.guest(), changed(bash={**index["bash"], key: value}))
                self.assertIn((told["end"], told.get("error", {}).get("errno")), [("error", "EBADMSG"), ("ok", None)], key)

    def test_values_that_do_not_come_back_alone_are_named(self):
        guest = self.guest()
        guest.run("x=1; y=2; f() { echo f; }")
        _told, parts = save(guest)
        broken = parts[1].replace(b'y="2"', b'y="2 ')
        self.assertNotEqual(broken, parts[1])
        other = self.guest()
        told = restore(other, [parts[0], broken])
        self.assertEqual([(item["name"], item["type"]) for item in told["missing"]], [("y", "variable")])
        self.assertEqual(other.run("echo $x ${y-none}; f")["stdout"], "1 none\nf\n")


if __name__ == "__main__":
    unittest.main()

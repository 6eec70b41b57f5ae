# SPDX-License-Identifier: Apache-2.0
"""Portable states of a session: what is the same for every language. docs/guest-protocol.md has the frames.

The index (part 0) says what the state is made of; a language adds to it and to the parts, and takes from them.
"""

import os
from errno import EBUSY, ENOMEM, EPROTONOSUPPORT

from . import jsontext
from .states_budget import Budget, Overdue, overdue
from .states_files import Files, own_directories
from .states_files import restore as restore_files
from .states_parts import Given, Parts, damaged

FORMAT = "snipara-sandbox state"
VERSION = 1
LISTED_MAX = 200
_ALL = 1 << 60


class States:
    """One for each session. A language has `language`, `gather`, `is_fresh`, `apply` and `names`."""

    language = ""

    def __init__(self, session):
        self.session = session
        self.given = Given()
        self._files = Files()
        self._directories = None

    # ---- what a language does ----

    def gather(self, index, parts, unsaved, budget):
        """Adds to the index, the parts and the list of what can't be saved. How many variables that are."""
        raise NotImplementedError

    def is_fresh(self):
        """Has nothing been run here?"""
        raise NotImplementedError

    def apply(self, index, given, missing, budget):
        """Takes up what gather() put there; EBADMSG before anything is changed. How many variables came back."""
        raise NotImplementedError

    def names(self):
        """The names of variables, as in any result."""
        raise NotImplementedError

    # ---- requests ----

    def save(self, request):
        """`save`: sends the parts; the rest of the answer."""
        most = request.get("max_bytes") or _ALL
        try:
            return self._save(Parts(most), request)
        except Overdue:
            raise overdue() from None

    def _save(self, parts, request):
        unsaved = []
        index = {"format": FORMAT, "version": VERSION, "language": self.language}
        with Budget(self.session.interrupts, request.get("max_ms") or 0) as budget:
            count = self.gather(index, parts, unsaved, budget)
            own = self.directories(unsaved)
            index["files"], files, size = self._files.gather(own, parts, unsaved, budget.begin)
            digest = parts.digest(jsontext.dumps(index))
        index["unsaved"] = [_listed(item) for item in unsaved[:LISTED_MAX]]
        told = {
            "variables": count,
            "names": self.names(),
            "unsaved": index["unsaved"],
            "files": {"count": files, "bytes": size},
            "digest": digest,
        }
        if digest == request.get("digest"):
            told["unchanged"] = True
            return told
        parts.set_index(jsontext.dumps(index))
        parts.send(self.session.channel)
        return told

    def directories(self, unsaved):
        """[(name, path)] of those that belong to the session; what others share goes on the list, once."""
        if self._directories is None:
            self._directories = own_directories(self.session)
        own, shared = self._directories
        for _name, path in shared:
            if os.listdir(path) and not any(one["name"] == path for one in unsaved):
                reason = "other sessions have their files in it, too"
                unsaved.append({"name": path, "type": "directory", "reason": reason})
        return own

    def restore(self, request):
        """`restore`, after the parts have come: the rest of the answer."""
        given, self.given = self.given, Given()
        if given.count() != request["parts"]:
            raise damaged(f"{given.count()} of {request['parts']} parts came")
        index = given.index()
        self._check(index)
        missing = [_listed(item) for item in index.get("unsaved", [])]
        with Budget(self.session.interrupts, 0) as budget:
            try:
                restore_files(self.directories([]), index["files"], given, missing)
                count = self.apply(index, given, missing, budget)
            except OSError:
                raise
            except MemoryError:
                raise OSError(ENOMEM, "The session has too little memory for this state") from None
            except Exception as error:
                raise damaged(f"{type(error).__name__} where it is read") from error
        return {"variables": count, "names": self.names(), "missing": missing[:LISTED_MAX]}

    def _check(self, index):
        if index.get("format") != FORMAT or type(index.get("version")) is not int:
            raise damaged("its index is of something else")
        if index["version"] > VERSION:
            raise OSError(EPROTONOSUPPORT, f"This state has version {index['version']}; this worker knows {VERSION}")
        if index.get("language") != self.language:
            raise damaged(f"it is one of {index.get('language')!r}, and this session speaks {self.language}")
        if not self.is_fresh():
            raise OSError(EBUSY, "The session has run something already")


def _listed(item):
    return {key: jsontext.clean(item[key])[:300] for key in ("name", "type", "reason")}


def environment_changes(before):
    """What differs from an environment as it was."""
    now = os.environ
    changed = {name: value for name, value in now.items() if before.get(name) != value}
    gone = [name for name in before if name not in now]
    return {"set": changed, "unset": gone}


def change_environment(told):
    """Does what environment_changes() found."""
    for name in told["unset"]:
        os.environ.pop(name, None)
    for name, value in told["set"].items():
        os.environ[name] = value

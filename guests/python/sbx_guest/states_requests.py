# SPDX-License-Identifier: Apache-2.0
"""Requests about portable states. What they need is loaded when the first one comes."""

from . import frames, jsontext


class StateRequests:
    """What a worker does for requests about states: a mix-in that needs `session`, `_guarded` and `new_states`."""

    _states = None

    def state_handlers(self):
        """By the type of frame; none where this interpreter lacks what they need."""
        return {frames.SAVE: self._save_state, frames.RESTORE: self._restore_state, frames.GIVE_STATE: self._take_state}

    def states(self):
        """Made when it is first needed."""
        if self._states is None:
            self._states = self.new_states()
        return self._states

    def new_states(self):
        """The States of this language."""
        raise NotImplementedError

    def _save_state(self, payload):
        return self._guarded(jsontext.loads(payload), self._save_guarded, jsontext.loads(payload))

    def _save_guarded(self, request):
        return self.states().save(request), b""

    def _take_state(self, payload):
        self.states().given.take(payload)
        return None, None

    def _restore_state(self, payload):
        return self._guarded(jsontext.loads(payload), self._restore_guarded, jsontext.loads(payload))

    def _restore_guarded(self, request):
        return self.states().restore(request), b""

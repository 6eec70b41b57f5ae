# SPDX-License-Identifier: Apache-2.0
"""Callbacks for the moment when the user's code imports a module, so that the worker need not import it ahead."""

import sys


class _Loader:
    """Stands in for a module's loader until the module is loaded."""

    def __init__(self, loader, callbacks, name, callback):
        self._loader = loader
        self._callbacks = callbacks
        self._name = name
        self._callback = callback

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__loader__ = module.__spec__.loader = self._loader
        try:
            self._loader.exec_module(module)
        except BaseException:
            self._callbacks[self._name] = self._callback  # for the next try
            raise
        self._callback(module)


class Watcher:
    """A meta path finder that finds nothing itself."""

    def __init__(self):
        self._callbacks = {}
        sys.meta_path.insert(0, self)

    def when_imported(self, name, callback):
        """Calls ``callback(module)`` once the module is there; at once if it is."""
        module = sys.modules.get(name)
        if module is not None:
            callback(module)
        else:
            self._callbacks[name] = callback

    def find_spec(self, name, path=None, target=None):
        """Part of the import protocol."""
        callback = self._callbacks.pop(name, None)
        if callback is None:
            return None
        for finder in sys.meta_path:
            if finder is self:
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader, self._callbacks, name, callback)
                return spec
        self._callbacks[name] = callback
        return None

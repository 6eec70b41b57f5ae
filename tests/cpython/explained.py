# SPDX-License-Identifier: Apache-2.0
"""Why tests of CPython fail in a WebAssembly sandbox: the feature that they need and that is not there. Only for failures
that are such; a wrong result is never one."""
import re

CAPI = "needs _testcapi, a module for tests of CPython's C interface"
TRIMMED = "about a module that the image leaves out"
BESIDE = "expects the tests to lie beside the standard library, which is read-only"
BUILTINS = "the sandbox's own exceptions (ToolError, LLMError) are builtins"
MODES = "files have no permissions that could be changed"
INPUT = "nobody answers input() in a session"

# (pattern of the test's id, pattern of the failure's text, the reason)
RULES = [
    (r"", r"requires _testcapi\.(with_tp_del|without_gc)", CAPI),
    (r"", r"ModuleNotFoundError: No module named '_test(internal)?capi'", CAPI),
    (r"^test_call$", r"'NoneType' object has no attribute 'MethInstance'", CAPI),
    (r"", r"No module named '(_osx_support|distutils\.tests|ensurepip|unittest\.test|lib2to3|idlelib|tkinter|turtledemo"
         r"|__phello__\.spam)'", TRIMMED),
    (r"test_importlib\.frozen", r"/tmp/library/__(hello|phello)__", BESIDE),
    (r"test_importlib\.frozen.*test_lacking_parent", r"__phello__\.spam", TRIMMED),
    (r"test_stdlib_validates", r"No such file or directory: '/usr/lib/python3\.11/test/", BESIDE),
    (r"test_baseexception.*test_inheritance", r"(ToolError|LLMError).* not accounted for", BUILTINS),
    (r"test_pickle\.CompatPickleTests\.test_exceptions", r"LLMError", BUILTINS),
    (r"test_builtin.*test_input|test_support.*test_captured_stdin", r"EOFError: input\(\) is not available", INPUT),
    (r"test_signal.*test_functions_module_attr", r"'sbx_wasm\.absent' != 'signal'",
     "names that are not there are answered by the sandbox's own text"),
    (r"test_pathlib.*test_mkdir_parents", r"AssertionError: 493 != 365", MODES),
    (r"test_shutil.*test_copymode_follow_symlinks", r"AssertionError: (\d+) == \1", MODES),
    (r"test_pydoc.*test_mixed_case_module_names", r"argument of type 'NoneType' is not iterable",
     "Debian's pydoc links to its local manual, which is not there"),
]

_COMPILED = [(re.compile(test), re.compile(text), reason) for test, text, reason in RULES]


def reason(test, why):
    """What explains the failure, or None."""
    for name, text, words in _COMPILED:
        if name.search(test) and text.search(why):
            return words
    return None

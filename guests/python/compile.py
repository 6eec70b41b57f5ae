# SPDX-License-Identifier: Apache-2.0
"""Makes byte code of the worker's files, for the Python that runs this.

Other versions of Python compile the files when they start, which costs them some 20 ms each time, or have it made by
``pythonX.Y compile.py FILES``.
"""

import argparse
import glob
import os
import py_compile
import sys


def compile_files(paths):
    """`unchecked`: the files' times differ from machine to machine, their content does not change."""
    for path in paths:
        py_compile.compile(path, doraise=True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)


def main():
    """Compiles the files named, or those of an installed directory below DESTDIR."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stamp", help="file to write when all is done")
    parser.add_argument("--installed", help="directory with the installed files")
    parser.add_argument("files", nargs="*")
    options = parser.parse_args()
    paths = options.files
    if options.installed:
        directory = os.environ.get("DESTDIR", "") + options.installed
        paths = sorted(glob.glob(os.path.join(glob.escape(directory), "*.py")))
    compile_files(paths)
    if options.stamp:
        with open(options.stamp, "w", encoding="ascii") as file:
            file.write(sys.version + "\n")


if __name__ == "__main__":
    main()

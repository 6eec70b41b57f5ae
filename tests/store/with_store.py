#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a program that needs a store of its own, and removes the store afterwards:

    with_store.py dir|postgres COMMAND [ARGUMENT ...]

The configuration has it as the entry `store`; of a store in a directory, @DIRECTORY@ in the arguments is where, and
@KEY@ a key file. What can't be run here is told as skipped."""
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "plugins", "store-postgres", "tests"))


def replace(arguments, values):
    for name, value in values.items():
        arguments = [argument.replace("@%s@" % name, value) for argument in arguments]
    return arguments


def key_file(directory):
    path = os.path.join(directory, "key")
    with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
        file.write(os.urandom(32))
    return path


def run_dir(arguments, directory):
    values = {"DIRECTORY": os.path.join(directory, "store"), "KEY": key_file(directory)}
    return subprocess.run(replace(arguments, values), check=False).returncode


def run_postgres(arguments, directory):
    from postgres_server import Server, find_program, server_user

    if find_program("initdb") is None or find_program("postgres") is None:
        print("1..0 # SKIP PostgreSQL's server is not installed")
        return 0
    if os.geteuid() == 0 and server_user()[0] is None:
        print("1..0 # SKIP no ordinary user to run PostgreSQL as")
        return 0
    server = Server(["fsync=off"])
    try:
        configuration = os.path.join(directory, "snipara-sandbox.cfg")
        with open(configuration, "w", encoding="utf-8") as file:
            file.write('plugins = ({ name = "store"; plugin = "store-postgres"; conninfo = "%s"; });\n' % server.conninfo)
        os.environ["SNIPARA_SANDBOX_CONFIG"] = configuration
        return subprocess.run(replace(arguments, {"KEY": key_file(directory)}), check=False).returncode
    finally:
        server.close()


def main():
    directory = tempfile.mkdtemp(prefix="sbx-store-")
    environment = os.path.join(directory, "home")
    os.mkdir(environment, 0o700)
    os.environ.update(HOME=environment, XDG_STATE_HOME=environment, XDG_CONFIG_HOME=environment)
    try:
        return {"dir": run_dir, "postgres": run_postgres}[sys.argv[1]](sys.argv[2:], directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())

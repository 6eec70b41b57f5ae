#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes what MCP registries and clients install from: an MCPB bundle and its server.json.

    meson compile -C build mcp-bundle          (or: make_bundle.py --build build --out DIRECTORY [--url ADDRESS])

writes snipara-sandbox-VERSION-MACHINE.mcpb (a zip archive: manifest.json and an installation below server/, with the
shared libraries that it needs beside the C library) and server.json, which names the bundle by the address where it will
be published, and its SHA-256. Without --url, server.json says nothing of packages. The lists of tools and prompts in the
manifest are what the installed program itself answers. The same build gives the same bytes.

Formats: MCPB manifest 0.3 (github.com/modelcontextprotocol/mcpb, MANIFEST.md); server.json of the MCP registry, schema
2025-12-11.
"""
import argparse
import hashlib
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAME = "snipara-sandbox"
REGISTRY_NAME = "io.github.snipara/snipara-sandbox"
TITLE = "Snipara Sandbox"
DESCRIPTION = "Durable, isolated Python sessions for AI agents: variables and files survive between calls"
SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest that a zip archive can say
KEYS = {"openai_api_key": ("OPENAI_API_KEY", "OpenAI API key"),
        "anthropic_api_key": ("ANTHROPIC_API_KEY", "Anthropic API key"),
        "snipara_api_key": ("SNIPARA_API_KEY", "Snipara API key")}
# Parts of the C library must be those of the system that runs the program.
SYSTEM = re.compile(r"(ld-linux.*|lib(c|m|dl|rt|pthread|resolv|util|gcc_s)\.so.*|linux-vdso.*)$")


def fail(problem, hint):
    sys.exit(f"error: {problem}\nhint: {hint}")


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        fail(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stderr[-2000:]}",
             "see the lines above")
    return done.stdout


def introspect(build):
    options = json.loads(run("meson", "introspect", "--buildoptions", str(build)))
    project = json.loads(run("meson", "introspect", "--projectinfo", str(build)))
    return {option["name"]: option["value"] for option in options}["prefix"], project["version"]


def stage(build, prefix, folder):
    """An installation below folder/server; what only developers need is left out."""
    destination = folder / "destdir"
    run("meson", "install", "-C", str(build), "--quiet", "--no-rebuild", "--destdir", str(destination),
        preexec_fn=lambda: os.umask(0o022))
    server = folder / "bundle" / "server"
    shutil.copytree(destination / prefix.lstrip("/"), server, symlinks=True)
    for unwanted in ("include", "share/man", "share/zsh", "share/fish", "share/bash-completion"):
        shutil.rmtree(server / unwanted, ignore_errors=True)
    for path in [*server.rglob("*.pc"), *server.rglob("libsnipara-sandbox.so*")]:
        path.unlink()  # the program has the library's parts in itself
    for folder_path in sorted((p for p in server.rglob("*") if p.is_dir() and not p.is_symlink()), reverse=True):
        if not any(folder_path.iterdir()):
            folder_path.rmdir()
    return server


def add_libraries(server):
    """The shared libraries that the program and its plugins load, but for those of the system."""
    objects = [server / "bin" / NAME, *server.rglob("*.so")]
    found = {}
    for path in objects:
        for name, target in re.findall(r"^\s+(\S+) => (/\S+)", run("ldd", str(path)), re.M):
            if not SYSTEM.match(name):
                found[name] = target
    folder = server / "lib" / "bundled"
    folder.mkdir(parents=True)
    for name, target in sorted(found.items()):
        shutil.copyfile(os.path.realpath(target), folder / name)
    return folder


def add_licences(libraries, folder):
    """What their Debian packages say of the bundled libraries."""
    folder.mkdir()
    for library in sorted(libraries.iterdir()):
        owner = subprocess.run(["dpkg", "-S", f"*/{library.name}"], capture_output=True, text=True, check=False).stdout
        package = owner.split(":")[0].split(",")[0]
        notice = pathlib.Path("/usr/share/doc", package, "copyright") if package else None
        if notice is None or not notice.is_file():
            print(f"warning: no copyright notice for {library.name}: add it to the bundle by hand", file=sys.stderr)
        else:
            shutil.copyfile(notice, folder / f"{package}.txt")


def ask(server, libraries):
    """What the staged program offers: its lists of tools and prompts, over MCP."""
    requests = [{"jsonrpc": "2.0", "id": 0, "method": "initialize",
                 "params": {"protocolVersion": "2025-11-25", "capabilities": {},
                            "clientInfo": {"name": "make_bundle", "version": "1"}}},
                {"jsonrpc": "2.0", "method": "notifications/initialized"},
                {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, {"jsonrpc": "2.0", "id": 2, "method": "prompts/list"}]
    with tempfile.TemporaryDirectory() as home:
        environment = {"PATH": os.environ["PATH"], "HOME": home, "LD_LIBRARY_PATH": str(libraries), "LC_ALL": "C.UTF-8"}
        process = subprocess.Popen([server / "bin" / NAME, "mcp-serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   text=True, cwd=home, env=environment)
        answers = {}
        try:
            for request in requests:
                process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            while len(answers) < 3:
                line = process.stdout.readline()
                if not line:
                    fail("the staged program ended without answering", f"run {server}/bin/{NAME} doctor")
                message = json.loads(line)
                if "id" in message:
                    answers[message["id"]] = message
        finally:
            process.stdin.close()
            process.wait(60)
    tools = [{"name": tool["name"], "description": tool["description"].split("\n")[0][:300]}
             for tool in answers[1]["result"]["tools"]]
    return tools, bool(answers[2].get("result", {}).get("prompts"))


def manifest(version, tools, has_prompts):
    program = "${__dirname}/server"
    value = {
        "manifest_version": "0.3",
        "name": NAME,
        "display_name": TITLE,
        "version": version,
        "description": DESCRIPTION,
        "long_description":
            "Runs Python that an AI agent writes in a jail of its own (namespaces, seccomp, Landlock, cgroups), with "
            "variables, imports and files that stay between calls. Needs Linux with a Python 3.8 or newer; "
            "`snipara-sandbox doctor` tells what the machine can do.",
        "author": {"name": "The snipara-sandbox authors"},
        "license": "Apache-2.0",
        "keywords": ["sandbox", "python", "code execution", "agents"],
        "server": {
            "type": "binary",
            "entry_point": f"server/bin/{NAME}",
            "mcp_config": {
                "command": f"{program}/bin/{NAME}",
                "args": ["mcp-serve"],
                "env": {"LD_LIBRARY_PATH": f"{program}/lib/bundled",
                        **{variable: f"${{user_config.{key}}}" for key, (variable, _) in KEYS.items()}},
            },
        },
        "tools": tools,
        "tools_generated": True,  # context sources add theirs
        "compatibility": {"platforms": ["linux"]},
        "user_config": {key: {"type": "string", "title": title, "sensitive": True, "required": False,
                              "description": f"For agents that run inside of the sandbox: {variable}. May stay empty."}
                        for key, (variable, title) in KEYS.items()},
    }
    if has_prompts:
        value["prompts_generated"] = True
    return value


def write_bundle(folder, path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for file in sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix != ".pyc"):  # .pyc: times in them
            info = zipfile.ZipInfo(str(file.relative_to(folder)), EPOCH)
            executable = os.stat(file).st_mode & 0o111
            info.external_attr = (0o100755 if executable else 0o100644) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, file.read_bytes())  # a link becomes what it points to: clients may not make links


def server_json(version, bundle, url):
    value = {"$schema": SCHEMA, "name": REGISTRY_NAME, "title": TITLE, "description": DESCRIPTION, "version": version}
    if url:
        digest = hashlib.sha256(bundle.read_bytes()).hexdigest()
        value["packages"] = [{"registryType": "mcpb", "identifier": f"{url.rstrip('/')}/{bundle.name}", "version": version,
                              "fileSha256": digest, "transport": {"type": "stdio"},
                              "environmentVariables": [
                                  {"name": variable, "description": f"{title}, for agents inside of the sandbox",
                                   "isRequired": False, "isSecret": True} for variable, title in KEYS.values()]}]
    return value


def write_json(path, value):
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", required=True, type=pathlib.Path, help="a Meson build directory that is built")
    parser.add_argument("--out", required=True, type=pathlib.Path, help="where the two files go")
    parser.add_argument("--url", default="", help="where the bundle will be published, without its name")
    options = parser.parse_args()
    if not (options.build / "build.ninja").is_file():
        fail(f"{options.build} is no build directory", "meson setup build && ninja -C build")
    if options.url and not re.match(r"https://\S+$", options.url):
        fail(f"--url {options.url}: no https address", "give the directory of the release")
    prefix, version = introspect(options.build)
    options.out.mkdir(parents=True, exist_ok=True)
    bundle = options.out / f"{NAME}-{version}-{platform.machine()}.mcpb"
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        folder = pathlib.Path(name)
        server = stage(options.build, prefix, folder)
        libraries = add_libraries(server)
        tools, has_prompts = ask(server, libraries)
        shutil.copyfile(ROOT / "LICENSE", folder / "bundle" / "LICENSE")
        add_licences(libraries, folder / "bundle" / "licences")
        write_json(folder / "bundle" / "manifest.json", manifest(version, tools, has_prompts))
        write_bundle(folder / "bundle", bundle)
    write_json(options.out / "server.json", server_json(version, bundle, options.url))
    print(f"{bundle}  {bundle.stat().st_size / 1e6:.1f} MB, {len(tools)} tools\n{options.out / 'server.json'}")


if __name__ == "__main__":
    main()

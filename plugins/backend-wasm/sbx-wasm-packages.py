# SPDX-License-Identifier: Apache-2.0
"""Collects packages of pure Python for an image of backend-wasm, and lays them out as they will be in it.

Nothing of a package is run here: wheels are unpacked, files are copied. What it writes below --out:
tree/usr/lib/python3/site-packages/ (the files), preload (modules to import, one a line), packages.json (what they are).
The last line on standard error says why it has failed.
"""
import argparse
import compileall
import email.parser
import importlib.metadata
import importlib.util
import json
import os
import py_compile
import re
import shutil
import stat
import subprocess
import sys
import zipfile

SITE = "tree/usr/lib/python3/site-packages"
DISTRIBUTION = "/usr/lib/python3/dist-packages"  # of Debian and its kin
BYTES_MAX = 256 << 20
FILES_MAX = 20000
NATIVE = re.compile(r"\.(so|pyd|dll|dylib|a|o)$|\.so\.[0-9.]+$")
NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
NOT_PACKAGES = {"tests", "test", "docs", "doc", "examples", "setup", "conftest", "build", "dist"}


class Refusal(Exception):
    """A package can't be had; the text says which, and why."""


def normal(name):
    """A distribution's name as names are compared (packaging.python.org, "Name normalization")."""
    return re.sub(r"[-_.]+", "-", name).lower()


def refuse_native(package, path):
    raise Refusal(f"{package}: it holds native code ({path}), which can't run in WebAssembly; "
                  "use the backend local or docker for it")


class Site:
    """The directory of packages as it will be in the image."""

    def __init__(self, out):
        self.directory = os.path.join(out, SITE)
        self.bytes = self.files = 0
        self.preload = []
        self.packages = []
        os.makedirs(self.directory)

    def add(self, package, name, read, size):
        """One file, `name` relative and with slashes; `read` opens its content."""
        parts = name.split("/")
        if any(part in ("", ".", "..") or "\\" in part or "\0" in part for part in parts):
            raise Refusal(f"{package}: {name!r} is no path of a package")
        if "__pycache__" in parts or name.endswith(".pyc"):
            return
        if NATIVE.search(parts[-1]):
            refuse_native(package, name)
        self.files += 1
        self.bytes += size
        if self.files > FILES_MAX or self.bytes > BYTES_MAX:
            raise Refusal(f"{package}: more than {FILES_MAX} files or {BYTES_MAX >> 20} MiB in all")
        path = os.path.join(self.directory, *parts)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with read() as source, open(path, "wb") as target:
            while chunk := source.read(min(1 << 20, size + 1)):
                size -= len(chunk)
                if size < 0:
                    raise Refusal(f"{package}: {name} is larger than it says")
                target.write(chunk)

    def add_file(self, package, source, name):
        """A file of this machine; not a device or a pipe."""
        status = os.stat(source)
        if not stat.S_ISREG(status.st_mode):
            raise Refusal(f"{package}: {source} is no file")
        self.add(package, name, lambda: open(source, "rb"), status.st_size)

    def add_tree(self, package, source, name):
        """All files below a directory. Links may lead to what is in the same directory, or in the distribution's."""
        root = os.path.realpath(source)
        for directory, directories, files in os.walk(root):
            directories[:] = sorted(d for d in directories if d != "__pycache__" and not d.startswith("."))
            for entry in directories + sorted(files):
                path = os.path.join(directory, entry)
                real = os.path.realpath(path)
                if os.path.islink(path) and not real.startswith((root + "/", "/usr/lib/python3/", "/usr/share/")):
                    raise Refusal(f"{package}: {path} is a link that leads elsewhere")
                if entry in files:
                    self.add_file(package, real, f"{name}/{os.path.relpath(path, root)}")

    def note(self, name, version, source, modules):
        """A package that is there now, and what to import of it."""
        self.packages.append({"name": name, "version": version, "source": source})
        for module in modules:
            if module.isidentifier() and module not in self.preload:
                self.preload.append(module)


# ---- wheels ----

def wheel_modules(archive):
    """Top-level modules of a wheel."""
    found = []
    for name in archive.namelist():
        first, _, rest = name.partition("/")
        if rest == "__init__.py":
            found.append(first)
        elif not rest and first.endswith(".py"):
            found.append(first[:-3])
    return sorted(set(found))


def wheel_metadata(archive, package):
    for name in archive.namelist():
        if re.fullmatch(r"[^/]+\.dist-info/METADATA", name):
            text = archive.read(name).decode("utf-8", "replace")
            return email.parser.Parser().parsestr(text, headersonly=True)
    raise Refusal(f"{package}: it is no wheel (there is no METADATA in it)")


def add_wheel(site, path, preload=True):
    """A wheel, by PEP 427: what is pure goes where packages go; programs and headers are of no use here."""
    package = os.path.basename(path)
    tag = package[:-4].rsplit("-", 2)[-2:]
    if tag != ["none", "any"]:
        raise Refusal(f"{package}: it is a wheel of native code; only those that end in none-any.whl run in "
                      "WebAssembly")
    try:
        with zipfile.ZipFile(path) as archive:
            for item in archive.infolist():
                name = re.sub(r"^[^/]+\.data/(purelib|platlib)/", "", item.filename)
                if not item.is_dir() and not re.match(r"[^/]+\.data/", name):
                    site.add(package, name, lambda item=item: archive.open(item), item.file_size)
            metadata = wheel_metadata(archive, package)
            site.note(metadata["Name"] or package, metadata["Version"] or "", "wheel",
                      wheel_modules(archive) if preload else [])
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise Refusal(f"{package}: it is no wheel: {error}") from error
    return normal(metadata["Name"] or "")


# ---- directories ----

def is_package(path):
    return os.path.isfile(os.path.join(path, "__init__.py"))


def directory_modules(path):
    """(name, path) of what can be imported of a directory: packages, and modules beside them."""
    found = []
    for entry in sorted(os.listdir(path)):
        full = os.path.join(path, entry)
        module = entry[:-3] if entry.endswith(".py") and os.path.isfile(full) else entry if is_package(full) else ""
        if module.isidentifier() and module not in NOT_PACKAGES:
            found.append((module, full))
    return found


def refuse_natives(package, path):
    """Native code beside the packages: they would miss it."""
    for entry in os.listdir(path):
        if NATIVE.search(entry):
            refuse_native(package, entry)


def add_directory(site, package, path):
    """A package, or a directory of packages; also one with its sources in src."""
    path = os.path.realpath(path)
    if is_package(path):
        modules = [(os.path.basename(path), path)]
    else:
        refuse_natives(package, path)
        source = os.path.join(path, "src")
        modules = directory_modules(path) or (directory_modules(source) if os.path.isdir(source) else [])
    if not modules:
        raise Refusal(f"{package}: there is no package in {path} (a directory with __init__.py, or a module)")
    for module, full in modules:
        if os.path.isdir(full):
            site.add_tree(package, full, module)
        else:
            site.add_file(package, full, module + ".py")
    site.note(package, "", "directory", [module for module, _ in modules])


def add_path(site, package, project):
    path = os.path.join(project, package)
    if path.endswith(".whl") and os.path.isfile(path):
        add_wheel(site, path)
    elif path.endswith(".py") and os.path.isfile(path):
        module = os.path.basename(path)[:-3]
        site.add_file(package, path, module + ".py")
        site.note(package, "", "module", [module])
    elif os.path.isdir(path):
        add_directory(site, package, path)
    else:
        raise Refusal(f"{package}: {path} is no wheel, module or directory")


# ---- names: pip ----

def find_pip():
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-I", "-m", "pip"]
    program = shutil.which("pip3", path="/usr/local/bin:/usr/bin:/bin") or shutil.which("pip3")
    return [program] if program else None


def download(names, python, out):
    """Wheels of pure Python with what they depend on. Returns their paths; None: pip is not there; or what it said."""
    pip = find_pip()
    if pip is None:
        return None, "pip is not installed"
    directory = os.path.join(out, "wheels")
    os.makedirs(directory)
    command = pip + ["download", "--no-input", "--disable-pip-version-check", "--no-cache-dir", "--retries", "1",
                     "--timeout", "20", "--progress-bar", "off", "--only-binary", ":all:", "--platform", "any",
                     "--implementation", "py", "--abi", "none", "--python-version", python, "--dest", directory, "--"]
    result = subprocess.run(command + names, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, errors="replace", check=False)
    if result.returncode == 0:
        return [os.path.join(directory, name) for name in sorted(os.listdir(directory))], ""
    errors = [line for line in result.stdout.splitlines() if line.startswith("ERROR:")]
    return None, (errors or result.stdout.splitlines() or ["pip failed"])[-1].removeprefix("ERROR: ")


# ---- names: the distribution's packages ----

def installed():
    """Distributions by their normal name."""
    found = {}
    for distribution in importlib.metadata.distributions(path=[DISTRIBUTION]):
        name = distribution.metadata["Name"]
        if name:
            found.setdefault(normal(name), distribution)
    return found


def installed_modules(distribution):
    """Top-level modules; Debian drops the lists of files."""
    text = distribution.read_text("top_level.txt")
    names = text.split() if text else []
    for file in distribution.files or []:
        first = file.parts[0]
        if len(file.parts) > 1 and file.parts[1] == "__init__.py":
            names.append(first)
        elif len(file.parts) == 1 and first.endswith(".py"):
            names.append(first[:-3])
    names = names or [normal(distribution.metadata["Name"]).replace("-", "_")]
    return sorted({name for name in names if name.isidentifier()})


def version_tuple(text):
    return tuple(int(part) for part in re.findall(r"\d+", text))


def marker_holds(marker, python):
    """Of an environment marker, what decides for this guest: extras never, versions of Python by comparing."""
    if "extra" in marker:
        return False
    if re.search(r"(sys_platform|platform_system|os_name)\s*==\s*['\"](win32|Windows|nt|darwin|Darwin)['\"]", marker):
        return False
    for operator, version in re.findall(r"python(?:_full)?_version\s*(<=|>=|<|>|==)\s*['\"]([0-9.]+)['\"]", marker):
        wanted = version_tuple(version)
        have = version_tuple(python)[:len(wanted)]
        if not {"<": have < wanted, "<=": have <= wanted, ">": have > wanted, ">=": have >= wanted,
                "==": have == wanted}[operator]:
            return False
    return True


def requirements(distribution, python):
    for text in distribution.requires or []:
        requirement, _, marker = text.partition(";")
        match = NAME.match(requirement.strip())
        if match and marker_holds(marker, python):
            yield normal(match.group())


def add_installed(site, name, found, python, done, why, preload=True):
    """A distribution of this machine and all that it depends on."""
    distribution = found.get(name)
    if distribution is None:
        raise Refusal(f"{name}: it is not in {DISTRIBUTION}, and {why}")
    done.add(name)
    modules = installed_modules(distribution)
    for module in modules:
        path = os.path.join(DISTRIBUTION, module)
        if os.path.isdir(path):
            site.add_tree(name, path, module)
        elif os.path.isfile(path + ".py"):
            site.add_file(name, path + ".py", module + ".py")
        elif any(entry.startswith(module + ".") and NATIVE.search(entry) for entry in os.listdir(DISTRIBUTION)):
            refuse_native(name, module)
    site.note(name, distribution.version, "distribution", modules if preload else [])
    for required in requirements(distribution, python):
        if required not in done:
            add_installed(site, required, found, python, done, why, preload=False)


def split_name(package):
    """("attrs", "23.1.0") of "attrs==23.1.0"."""
    name, _, version = package.partition("==")
    if not NAME.fullmatch(name) or (version and not re.fullmatch(r"[A-Za-z0-9.!+_-]+", version)):
        raise Refusal(f"{package}: it is neither a name (\"attrs\", \"attrs==23.1.0\") nor a wheel, module or "
                      "directory")
    return normal(name), version


def add_names(site, packages, python, out):
    wanted = {name: version for name, version in map(split_name, packages)}
    wheels, why = download(packages, python, out)
    if wheels is not None:
        for wheel in wheels:
            name = normal(os.path.basename(wheel).split("-")[0])
            add_wheel(site, wheel, preload=name in wanted)
        return
    print(f"from {DISTRIBUTION}, because {why}", flush=True)
    found = installed()
    done = set()
    for name, version in wanted.items():
        if version and name in found and found[name].version != version:
            raise Refusal(f"{name}: {DISTRIBUTION} has version {found[name].version}, not {version}, and {why}")
        if name not in done:
            add_installed(site, name, found, python, done, why)


# ---- all of it ----

def is_path(package):
    return "/" in package or package == "." or package.endswith((".whl", ".py"))


def compile_tree(site, python):
    """Byte code, if this Python is the guest's: what is imported later need not be compiled in each session."""
    if sys.version_info[:2] == version_tuple(python)[:2]:
        compileall.compile_dir(site.directory, quiet=2, stripdir=site.directory, prependdir="/" + SITE.split("/", 1)[1],
                               invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)


def collect(options):
    site = Site(options.out)
    names = [package for package in options.packages if not is_path(package)]
    for package in options.packages:
        if is_path(package):
            print(package, flush=True)
            add_path(site, package, options.project)
    if names:
        print(" ".join(names), flush=True)
        add_names(site, names, options.python, options.out)
    compile_tree(site, options.python)
    with open(os.path.join(options.out, "preload"), "w", encoding="utf-8") as file:
        file.writelines(module + "\n" for module in site.preload)
    with open(os.path.join(options.out, "packages.json"), "w", encoding="utf-8") as file:
        json.dump(sorted(site.packages, key=lambda package: package["name"]), file)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--project", required=True, help="where relative paths begin")
    parser.add_argument("--python", required=True, help="the guest's version, \"3.11.2\"")
    parser.add_argument("--out", required=True, help="an empty directory")
    parser.add_argument("packages", nargs="+")
    try:
        collect(parser.parse_args())
    except (Refusal, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

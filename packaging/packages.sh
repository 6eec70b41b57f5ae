# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154
# The Debian packages that building and testing need, and how to install those that are missing. Sourced by
# ./quickstart and ./run-tests; they set `top`.

packages_build=(gcc libc6-dev meson ninja-build pkg-config python3
                libjansson-dev libconfig-dev libmd-dev libseccomp-dev libedit-dev
                libcurl4-openssl-dev libsqlite3-dev libpcre2-dev
                libmicrohttpd-dev libgnutls28-dev librhonabwy-dev libarchive-dev libzstd-dev
                libsodium-dev libpq-dev)
packages_test=("${packages_build[@]}" g++ clang libclang-rt-14-dev libcmocka-dev bubblewrap shellcheck procps util-linux
               binutils openssl gnutls-bin python3-matplotlib postgresql)
# What makes the guests of backend-wasm from Debian's sources (guests/wasm); cross compilers are unpacked, not installed.
packages_wasm=(clang-14 lld-14 llvm-14 make patch dpkg-dev python3.11 libzstd-dev)
# Container engines that tests start for themselves, and what makes the image that they need.
packages_engines=(docker.io containerd runc podman conmon debootstrap tar)

say() { printf '%s\n' "$*" >&2; }
step() { if [ -t 2 ]; then printf '\033[1m==> %s\033[0m\n' "$*" >&2; else say "==> $*"; fi; }
fail() { say "error: $1"; [ -z "${2:-}" ] || say "hint: $2"; exit 1; }

# Runs a command with the rights to install packages.
as_root() {
        if [ "$(id -u)" = 0 ]; then
                "$@"
        elif command -v sudo >/dev/null 2>&1; then
                sudo "$@"
        else
                fail "installing packages needs root" "run this as root, or install sudo, or install by hand: $*"
        fi
}

package_missing() { ! dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null | grep -qx installed; }

# install_packages PACKAGE...: those that are missing; quiet when nothing is. Output goes to a log that is shown on failure.
install_packages() {
        local package missing=() log
        command -v apt-get >/dev/null 2>&1 || {
                say "This is not a Debian-like system: make sure that these are installed: $*"
                return 0
        }
        for package in "$@"; do
                if package_missing "$package"; then missing+=("$package"); fi
        done
        [ ${#missing[@]} -gt 0 ] || return 0
        step "Installing ${missing[*]}"
        log=$(mktemp)
        if ! { as_root apt-get update -q && as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q \
                --no-install-recommends "${missing[@]}"; } >"$log" 2>&1 </dev/null; then
                tail -n 20 "$log" >&2
                fail "apt-get could not install: ${missing[*]}" "the last lines of its output are above; the whole is in $log"
        fi
        rm -f "$log"
}

# build DIR NAME SETUP_OPTION...: configures if needed and compiles; shows the compiler's words only when it fails.
build() {
        local dir=$1 name=$2 log
        shift 2
        log=$(mktemp)
        step "Building ($name)"
        if ! { if [ -f "$dir/build.ninja" ]; then meson configure "$dir" "$@"; else meson setup "$dir" "$top" "$@"; fi &&
                ninja -C "$dir"; } >"$log" 2>&1 </dev/null; then
                tail -n 60 "$log" >&2
                fail "the build ($name) failed" "the last lines of its output are above; the whole is in $log"
        fi
        rm -f "$log"
}

# build_wasm_guests: into build/wasm-guest; minutes the first time, what has been done is kept. Shows its progress.
build_wasm_guests() {
        step "Building the guests of backend-wasm (some minutes the first time)"
        /usr/bin/python3.11 "$top/guests/wasm/build.py" --output "$top/build/wasm-guest" </dev/null ||
                fail "the guests of backend-wasm could not be built" "the last lines above say why; what was done is kept"
}

#!/bin/sh
# Makes build/compiled: the package with the path of a command compiled (docs/adr/0034), as the image has it.
# `check` only says whether it is there, and made of these sources. Without a C compiler or Python.h it is not
# made, which is said; nothing but the tests of it needs it. COMPILED_FOR is another interpreter than that of .venv.
set -eu
cd "$(dirname "$0")/.."

python=${COMPILED_FOR:-$PWD/.venv/bin/python}
place=build/compiled

say() { printf 'compiled: %s\n' "$*"; }

fingerprint() {
    "$python" - <<'PYTHON'
import hashlib, pathlib, sys
digest = hashlib.sha256(sys.version.encode())
for path in sorted(pathlib.Path("node").rglob("*.py")):
    digest.update(f"{path} ".encode() + path.read_bytes())
print(digest.hexdigest())
PYTHON
}

is_current() { [ "$(cat "$place/.stamp" 2>/dev/null)" = "$(fingerprint)" ]; }

has_compiler() {
    command -v cc >/dev/null 2>&1 &&
        [ -f "$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["include"])')/Python.h" ]
}

get_compiler() {
    command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ] || return 0
    headers="python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-dev"
    say "installing gcc, libc6-dev and $headers"
    export DEBIAN_FRONTEND=noninteractive
    for _ in 1 2; do
        apt-get install -qq -y --no-install-recommends gcc libc6-dev "$headers" >/dev/null 2>&1 && return 0
        apt-get update -qq >/dev/null 2>&1 || return 0
    done
}

if is_current; then exit 0; fi
[ "${1:-}" != check ] || exit 1
has_compiler || get_compiler
if ! has_compiler; then
    rm -rf "$place"
    say "no C compiler, or no Python.h: what is compiled is not made, and its tests are skipped"
    say "to have it: apt install gcc libc6-dev python3-dev (or your system's packages of them)"
    exit 0
fi
say "compiling the paths of a command and of a migration: a minute"
rm -rf "$place" build/wheel
mkdir -p build
(cd node && HOLDFAST_COMPILED=1 "$python" -m hatchling build -t wheel -d ../build/wheel >../build/log 2>&1) || { cat build/log >&2; exit 1; }
mkdir -p "$place"
"$python" -m zipfile -e build/wheel/*.whl "$place"
rm -rf build/wheel
fingerprint >"$place/.stamp"
say "$place"

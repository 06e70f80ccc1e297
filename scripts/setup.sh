#!/bin/sh
# Makes .venv ready for everything that `make` does: pinned and hashed requirements, and the three
# distributions as editable installs. A stamp with the fingerprint of what it installed lets the
# next run end at once. Needs Python >= 3.11 with venv, and nothing else.
set -eu
cd "$(dirname "$0")/.."

python=.venv/bin/python
stamp=.venv/.stamp

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }

# The place counts too: an environment that was moved or copied doesn't work. So does the
# interpreter: it may be replaced under the environment.
fingerprint() {
    "$1" - <<'PYTHON'
import hashlib, pathlib, sys
digest = hashlib.sha256(f"{sys.version} {pathlib.Path.cwd()}".encode())
for name in (
    "requirements/dev.txt", "requirements/spark.txt", "scripts/setup.sh",
    "node/pyproject.toml", "operator/pyproject.toml", "pipeline/pyproject.toml",
    "node/src/holdfast/__init__.py", "operator/src/holdfast_operator/__init__.py",
    "pipeline/src/holdfast_spark/__init__.py",
):
    digest.update(pathlib.Path(name).read_bytes())
print(digest.hexdigest())
PYTHON
}

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

# A distribution's interpreter is built with what its compiler learnt of a run; one that was compiled at
# home mostly is not, and members on it are a fifth slower. So those in /usr/bin come first.
find_python() {
    names="python3.14 python3.13 python3.12 python3.11 python3"
    for check in has_venv true; do
        for candidate in ${PYTHON:-$(printf '/usr/bin/%s ' $names) $names}; do
            if is_new_enough "$candidate" && $check "$candidate"; then
                printf '%s\n' "$candidate"
                return
            fi
        done
    done
}

has_venv() {
    "$1" -c 'import ensurepip, venv' >/dev/null 2>&1
}

# Debian splits venv off the interpreter; as root we can put that right.
get_venv() {
    package="python$("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv"
    if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
        say "installing $package"
        export DEBIAN_FRONTEND=noninteractive
        apt-get install -qq -y "$package" >/dev/null 2>&1 ||
            { apt-get update -qq && apt-get install -qq -y "$package"; } >/dev/null 2>&1 || true
    fi
    has_venv "$1" || fail "$1 has no venv module; install it (on Debian and Ubuntu: apt install $package)"
}

if [ -f "$stamp" ] && is_new_enough "$python" && [ "$(fingerprint "$python")" = "$(cat "$stamp")" ]; then
    exit 0
fi

if ! { is_new_enough "$python" && "$python" -m pip --version >/dev/null 2>&1; }; then
    base=$(find_python)
    [ -n "$base" ] || fail "needs Python 3.11 or newer on the path (or PYTHON=/path/to/python3)"
    has_venv "$base" || get_venv "$base"
    say "making .venv with $("$base" --version 2>&1) ($base)"
    rm -rf .venv
    "$base" -m venv .venv
fi

rm -f "$stamp"
pip() { "$python" -m pip install --quiet --no-input --disable-pip-version-check "$@"; }
say "installing pinned requirements"
pip --require-hashes -r requirements/dev.txt
# PySpark is a source archive of half a gigabyte. It is made a wheel by what has just been installed,
# pinned, and not by whatever is the newest.
say "installing PySpark; the first time that takes a few minutes"
pip --require-hashes --no-build-isolation -r requirements/spark.txt
say "installing holdfast, holdfast-operator and holdfast-spark, editable"
pip --no-deps --no-build-isolation -e ./node -e ./operator -e ./pipeline
fingerprint "$python" >"$stamp"
say "ready: .venv/bin/holdfast"

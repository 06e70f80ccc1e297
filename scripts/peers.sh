#!/bin/sh
# Gets what the tests need beside Python: redis-server, which they compare Holdfast with, and the
# Java that Spark runs on. Without one of them the tests of it are skipped, and say so. A server that
# a package's installation starts is not wanted, so it is stopped again.
set -eu

say() { printf 'peers: %s\n' "$*"; }

can_install() { command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; }

install_it() {
    say "installing $1"
    export DEBIAN_FRONTEND=noninteractive
    apt-get install -qq -y --no-install-recommends "$1" >/dev/null 2>&1 ||
        { apt-get update -qq && apt-get install -qq -y --no-install-recommends "$1"; } >/dev/null 2>&1
}

# want COMMAND PACKAGE WHAT-IS-SKIPPED
want() {
    if command -v "$1" >/dev/null 2>&1; then
        return
    fi
    if ! can_install; then
        say "$1 is not on the path: $3 will be skipped"
        say "to run them: apt install $2 (or your system's package of it)"
    elif ! install_it "$2"; then
        say "$2 could not be installed: $3 will be skipped"
    fi
}

has_redis() { command -v redis-server >/dev/null 2>&1; }

if ! has_redis; then
    want redis-server redis-server "the comparisons with Redis (7.0)"
    if has_redis && command -v systemctl >/dev/null 2>&1; then
        systemctl disable --now redis-server >/dev/null 2>&1 || true
    fi
fi
if [ -z "${JAVA_HOME:-}" ]; then
    want java openjdk-17-jre-headless "the tests of the Spark connector (Java 17 or 21)"
fi

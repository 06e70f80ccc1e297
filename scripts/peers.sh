#!/bin/sh
# Gets what the tests compare Holdfast with: redis-server. Without it those tests are skipped, and
# say so. A server that the package's installation starts is not wanted, so it is stopped again.
set -eu

say() { printf 'peers: %s\n' "$*"; }

if command -v redis-server >/dev/null 2>&1; then
    exit 0
fi
if ! command -v apt-get >/dev/null 2>&1 || [ "$(id -u)" != 0 ]; then
    say "redis-server is not on the path: the comparisons with it will be skipped"
    say "to run them: apt install redis-server (or your system's package of Redis 7.0)"
    exit 0
fi
say "installing redis-server"
export DEBIAN_FRONTEND=noninteractive
install_it() { apt-get install -qq -y --no-install-recommends redis-server >/dev/null 2>&1; }
install_it || { apt-get update -qq >/dev/null 2>&1 && install_it; } ||
    say "it could not be installed: the comparisons with it will be skipped"
if command -v systemctl >/dev/null 2>&1; then
    systemctl disable --now redis-server >/dev/null 2>&1 || true
fi

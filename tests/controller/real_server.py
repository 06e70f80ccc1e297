"""A real API server with its etcd, for what only a real one decides: schemas, CEL, defaults.

No kubelet, no controllers. Where a binary is missing, the tests that need it are skipped and say
so; `tests/e2e/kube/build` makes kube-apiserver, Debian's etcd-server has etcd.
"""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

from holdfast.shell.free_ports import free_ports
from holdfast_operator.kubernetes.access import Access
from tests.shell.waiting import wait_until

CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "holdfast-kube"
START_SECONDS: Final = 90.0
TOKEN: Final = "token-of-the-tests"


def find(name: str) -> str:
    """On the path, or where `tests/e2e/kube/build` keeps it."""
    kept = sorted(CACHE.glob(f"*/{name}"))
    return shutil.which(name) or (str(kept[-1]) if kept else "")


def binaries() -> tuple[str, str]:
    """Both of them; otherwise the test is skipped."""
    found = find("etcd"), find("kube-apiserver")
    missing = [
        name for name, path in zip(("etcd", "kube-apiserver"), found, strict=True) if not path
    ]
    if missing:
        pytest.skip(
            f"no {', '.join(missing)} here: what only a real API server decides is not tested"
            " (tests/e2e/kube/build makes it)"
        )
    return found


@contextmanager
def serving(folder: Path) -> Iterator[Access]:
    """An empty cluster, and how it is asked."""
    etcd, apiserver = binaries()
    client, peer, secure = free_ports("127.0.0.1", 3)
    with ExitStack() as stack:
        place = f"http://127.0.0.1:{client}"
        between = f"http://127.0.0.1:{peer}"
        command = [etcd, "--data-dir", str(folder / "etcd"), "--unsafe-no-fsync"]
        command += ["--listen-client-urls", place, "--advertise-client-urls", place]
        command += ["--listen-peer-urls", between, "--initial-advertise-peer-urls", between]
        stack.enter_context(running([*command, "--initial-cluster", f"default={between}"], folder))
        server = f"https://127.0.0.1:{secure}"
        stack.enter_context(running([apiserver, *flags(folder, place, secure)], folder))
        wait_until(lambda: is_ready(server), "the API server is ready", START_SECONDS)
        yield Access(server, token=TOKEN, insecure=True)


def flags(folder: Path, etcd: str, port: int) -> list[str]:
    """Of an API server that knows one user, who may do everything."""
    key = folder / "account.key"
    subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True)
    tokens = folder / "tokens.csv"
    tokens.write_text(f"{TOKEN},tests,tests,system:masters\n")
    given = {
        "etcd-servers": etcd,
        "secure-port": str(port),
        "bind-address": "127.0.0.1",
        "cert-dir": str(folder / "certificates"),
        "token-auth-file": str(tokens),
        "authorization-mode": "RBAC",
        "service-cluster-ip-range": "10.96.0.0/16",
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-account-key-file": str(key),
        "service-account-signing-key-file": str(key),
        "disable-admission-plugins": "ServiceAccount",
    }
    return [f"--{name}={value}" for name, value in given.items()]


@contextmanager
def running(command: list[str], folder: Path) -> Iterator[None]:
    """A process, to the end of the test."""
    log = folder / f"{Path(command[0]).name}.log"
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, stdin=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def is_ready(server: str) -> bool:
    """Whether it can be asked."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    request = urllib.request.Request(  # noqa: S310 - our own server
        f"{server}/readyz", headers={"authorization": f"Bearer {TOKEN}"}
    )
    try:
        with urllib.request.urlopen(request, context=context, timeout=5) as answer:  # noqa: S310
            return bool(answer.status == 200)
    except OSError:
        return False

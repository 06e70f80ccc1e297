"""Certificates for tests, made by the openssl command."""

from __future__ import annotations

import subprocess
from pathlib import Path

from holdfast.shell.tls import Tls, make_tls

CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")


class Authority:
    """Signs certificates of members."""

    def __init__(self, folder: Path, name: str) -> None:
        self.base = folder / name
        self._request(self.base, name, "-x509")

    def files(self, name: str) -> dict[str, str]:
        """Of a new member: authority, certificate, key."""
        base = self.base.with_name(f"{self.base.name}-{name}")
        self._request(base, name, "-x509", "-CA", f"{self.base}.pem", "-CAkey", f"{self.base}.key")
        return {"authority": f"{self.base}.pem", "certificate": f"{base}.pem", "key": f"{base}.key"}

    def member(self, name: str) -> Tls:
        """What a new member's links are encrypted with."""
        return make_tls(**self.files(name))

    @staticmethod
    def _request(base: Path, name: str, *more: str) -> None:
        files = ("-keyout", f"{base}.key", "-out", f"{base}.pem")
        command = ("openssl", "req", *CURVE, "-subj", f"/CN={name}", *files, *more)
        subprocess.run(command, check=True, capture_output=True, timeout=20)

"""The way to the API server: in a pod its service account, elsewhere a kubeconfig.

A service account's token is renewed in its file by the kubelet, so it is read again now and then.
"""

from __future__ import annotations

import base64
import os
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from holdfast_operator.kubernetes.errors import NoAccess

ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class Access:
    """Where the API server is, and as whom it is asked."""

    server: str
    authority: str = ""
    """File; empty for the system's."""
    certificate: str = ""
    key: str = ""
    token: str = field(default="", repr=False)
    token_file: str = ""
    namespace: str = "default"
    insecure: bool = False

    def bearer(self) -> str:
        """The token now; empty where a certificate says who asks."""
        if self.token_file:
            return Path(self.token_file).read_text(encoding="utf-8").strip()
        return self.token

    def context(self) -> ssl.SSLContext:
        """How the connection is encrypted, and who is believed."""
        made = ssl.create_default_context(cafile=self.authority or None)
        if self.insecure:
            made.check_hostname = False
            made.verify_mode = ssl.CERT_NONE
        if self.certificate:
            made.load_cert_chain(self.certificate, self.key or None)
        return made


def find(environment: Mapping[str, str] = os.environ, account: Path = ACCOUNT) -> Access:
    """KUBECONFIG beats the service account, which beats the user's own kubeconfig."""
    named = environment.get("KUBECONFIG", "")
    if named:
        return from_kubeconfig(Path(named.split(os.pathsep)[0]))
    host = environment.get("KUBERNETES_SERVICE_HOST", "")
    if host and (account / "token").exists():
        return _of_pod(host, environment.get("KUBERNETES_SERVICE_PORT", "443"), account)
    own = Path(environment.get("HOME", "/")) / ".kube" / "config"
    if own.exists():
        return from_kubeconfig(own)
    raise NoAccess("no KUBECONFIG, no service account, no ~/.kube/config")


def _of_pod(host: str, port: str, account: Path) -> Access:
    shown = f"[{host}]" if ":" in host else host
    return Access(
        server=f"https://{shown}:{port}",
        authority=str(account / "ca.crt"),
        token_file=str(account / "token"),
        namespace=(account / "namespace").read_text(encoding="utf-8").strip(),
    )


def from_kubeconfig(path: Path) -> Access:
    """The current context. A command that prints credentials is not run."""
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
        context = _named(config["contexts"], config["current-context"])["context"]
        cluster = _named(config["clusters"], context["cluster"])["cluster"]
        user = _named(config["users"], context["user"])["user"]
        return Access(
            server=cluster["server"].rstrip("/"),
            authority=_file(cluster, "certificate-authority", path),
            certificate=_file(user, "client-certificate", path),
            key=_file(user, "client-key", path),
            token=user.get("token", ""),
            token_file=user.get("tokenFile", ""),
            namespace=context.get("namespace", "default"),
            insecure=bool(cluster.get("insecure-skip-tls-verify")),
        )
    except OSError as error:
        raise NoAccess(f"{path}: {error.strerror or error}") from error
    except (yaml.YAMLError, KeyError, TypeError, StopIteration, ValueError) as error:
        raise NoAccess(f"{path} is no kubeconfig: {error!r}") from error


def _named(entries: list[Any], name: str) -> Any:
    return next(each for each in entries if each["name"] == name)


def _file(entry: Mapping[str, Any], key: str, kubeconfig: Path) -> str:
    """A file that is named, or data that stands there itself."""
    named = entry.get(key, "")
    if named:
        return str((kubeconfig.parent / named).resolve())
    data = entry.get(f"{key}-data", "")
    if not data:
        return ""
    with tempfile.NamedTemporaryFile("wb", prefix="holdfast-", suffix=".pem", delete=False) as file:
        file.write(base64.b64decode(data))
    return file.name

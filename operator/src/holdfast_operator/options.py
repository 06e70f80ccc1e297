"""What the operator is started with: flags, each with an environment variable of the same name."""

from __future__ import annotations

import argparse
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

PREFIX: Final = "HOLDFAST_OPERATOR_"


@dataclass(frozen=True, slots=True)
class Options:
    """Settings of one operator."""

    namespaces: tuple[str, ...]
    """Empty: all of them."""
    own_namespace: str
    identity: str
    image: str
    pull_policy: str
    lease: str
    bind: str
    port: int
    webhook_port: int
    webhook_service: str
    """Empty: no webhook."""
    webhook_configuration: str
    webhook_secret: str
    nodes: bool
    dry_run: bool
    log_level: str
    log_format: str


def parse(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> Options:
    """From flags, else from the environment, else defaults."""

    def given(name: str, default: str) -> str:
        return environment.get(PREFIX + name.upper().replace("-", "_"), default)

    parser = argparse.ArgumentParser("holdfast-operator", description="Looks after Clusters.")
    texts = {
        "namespaces": ("", "namespaces to watch, with commas; empty: all"),
        "own-namespace": ("default", "where its Lease and its Secret are"),
        "identity": (socket.gethostname(), "name in the Lease"),
        "image": ("holdfast:latest", "image of members, where a Cluster names none"),
        "pull-policy": ("IfNotPresent", "pull policy of that image"),
        "lease": ("holdfast-operator", "name of the Lease"),
        "bind": ("0.0.0.0", "address of its ports"),  # noqa: S104 - probed from outside its pod
        "port": ("8081", "port of health and metrics"),
        "webhook-port": ("9443", "port of the webhook"),
        "webhook-service": ("", "Service of the webhook; empty: no webhook"),
        "webhook-configuration": ("holdfast-operator", "ValidatingWebhookConfiguration"),
        "webhook-secret": ("holdfast-operator-webhook", "Secret with its certificate"),
        "log-level": ("info", "debug, info, warning, error"),
        "log-format": ("json", "json or text"),
    }
    for name, (default, text) in texts.items():
        shown = f"{text} ({default})" if default else text
        parser.add_argument(f"--{name}", default=given(name, default), help=shown)
    yes = {"nodes": "nodes may be read: zones are known", "dry-run": "only print the plans"}
    for name, text in yes.items():
        on = given(name, "false") == "true"
        parser.add_argument(f"--{name}", action="store_true", default=on, help=text)
    values = vars(parser.parse_args(arguments))
    values["namespaces"] = tuple(filter(None, values["namespaces"].split(",")))
    for name in ("port", "webhook_port"):
        if not values[name].isdecimal():
            parser.error(f"--{name.replace('_', '-')}: {values[name]!r} is no port")
        values[name] = int(values[name])
    return Options(**values)

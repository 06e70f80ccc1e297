"""Encryption of the members' links: both sides show a certificate of the cluster's authority.

Names in certificates are not compared with addresses: whoever has a certificate of this authority,
and knows the cluster's secret (`handshake`), is a member, wherever it is.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from holdfast.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Tls:
    """Contexts for both directions; with them every link is encrypted."""

    server: ssl.SSLContext
    client: ssl.SSLContext


def make_tls(*, authority: str, certificate: str, key: str) -> Tls:
    """From files in PEM; a `ConfigurationError` when they can't be used."""
    try:
        contexts = [
            ssl.create_default_context(purpose, cafile=authority)
            for purpose in (ssl.Purpose.CLIENT_AUTH, ssl.Purpose.SERVER_AUTH)
        ]
        for context in contexts:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_REQUIRED
            context.minimum_version = ssl.TLSVersion.TLSv1_3
            context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        files = f"tls_ca = {authority!r}, tls_cert = {certificate!r}, tls_key = {key!r}"
        raise ConfigurationError([f"{files}: {error.strerror or error}"]) from error
    return Tls(*contexts)

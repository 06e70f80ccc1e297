"""The webhook's certificates: an own authority, made anew in time, kept in a Secret.

Rules
-----
* One authority and one certificate for all replicas, in one Secret: whoever makes them first wins,
  the others read them.
* They are made anew when a third of their life is left. The bundle that the API server is given has
  the old authority, too, until its end: so replicas may change one after another.
* The API server learns the bundle from the `ValidatingWebhookConfiguration`, which is changed when
  it differs. Where that is not allowed (an installation in a namespace) there is no webhook.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFE: Final = timedelta(days=90)
RENEW_LEFT: Final = LIFE / 3
AUTHORITY: Final = "ca.crt"
CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
SKEW: Final = timedelta(minutes=10)
"""Clocks of others may be behind."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate with its key, and who is to be believed."""

    bundle: bytes
    certificate: bytes
    key: bytes

    def data(self) -> dict[str, str]:
        """As a Secret keeps it."""
        parts = {AUTHORITY: self.bundle, CERTIFICATE: self.certificate, KEY: self.key}
        return {name: base64.b64encode(part).decode() for name, part in parts.items()}


def of_data(data: dict[str, str]) -> Pair | None:
    """From a Secret; None if it has none that can be read."""
    try:
        parts = [base64.b64decode(data[name]) for name in (AUTHORITY, CERTIFICATE, KEY)]
        x509.load_pem_x509_certificates(parts[0])
        x509.load_pem_x509_certificate(parts[1])
    except (KeyError, ValueError):
        return None
    return Pair(*parts)


def needs_renewal(pair: Pair | None, names: list[str], now: datetime) -> bool:
    """Whether there is none for these names that lasts long enough."""
    if pair is None:
        return True
    certificate = x509.load_pem_x509_certificate(pair.certificate)
    extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    known = extension.value.get_values_for_type(x509.DNSName)
    return known != names or certificate.not_valid_after_utc - now < RENEW_LEFT


def make(names: list[str], now: datetime, before: Pair | None = None) -> Pair:
    """A new authority and a certificate of it; older authorities are believed to their end."""
    authority_key = ec.generate_private_key(ec.SECP256R1())
    issuer = _name("holdfast-operator")
    authority = (
        _builder(issuer, issuer, authority_key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    key = ec.generate_private_key(ec.SECP256R1())
    alternative = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
    certificate = (
        _builder(_name(names[0][:64]), issuer, key.public_key(), now)
        .add_extension(alternative, critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    return Pair(
        bundle=authority.public_bytes(pem) + _still_valid(before, now),
        certificate=certificate.public_bytes(pem),
        key=key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )


def _still_valid(before: Pair | None, now: datetime) -> bytes:
    if before is None:
        return b""
    kept = [
        each
        for each in x509.load_pem_x509_certificates(before.bundle)
        if each.not_valid_after_utc > now
    ]
    return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in kept)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(subject: x509.Name, issuer: x509.Name, key: Any, now: datetime) -> Any:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + LIFE)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )

"""The settings of a member, from a file, the environment and flags, checked all at once.

A flag beats the environment, the environment beats the file, the file beats the default. Whatever
is wrong is told in one go: each reason names the key, the value, where it came from and what is
allowed. `options` has the list.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, get_type_hints

import msgspec

from holdfast.core.config import Config
from holdfast.core.stores.settings import NameSettings
from holdfast.errors import ConfigurationError
from holdfast.ids import Address
from holdfast.shell.memory import memory_max_bytes
from holdfast.shell.options import Options
from holdfast.shell.tls import Tls, make_tls
from holdfast.wire.requests import RequestLimits

PREFIX: Final = "HOLDFAST_"
SECRET_BYTES_MIN: Final = 16
NAMES: Final = "names"
UNNAMED: Final = "unnamed"
NOT_OURS: Final = re.compile(r"(.*_)?(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT(_\d+_.*)?)")
"""What Kubernetes puts into the environment for a Service whose name begins like ours."""

HINTS: Final = get_type_hints(Options, include_extras=True)
NAME_HINTS: Final = get_type_hints(NameSettings)
UNGUARDED: Final = (
    "bind = {bind} is reached from other machines, and without a secret anybody there could join"
    " or read everything: give secret_file, or allow_no_secret = true"
)


@dataclass(frozen=True, slots=True)
class Given:
    """One value, and where it came from."""

    value: object
    source: str


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that a member is started with; what is here can work."""

    options: Options
    core: Config
    secret: bytes = field(repr=False)
    name: str
    group: str
    advertise: str
    tls: Tls | None = field(default=None, repr=False)
    """Of links to other members."""
    unknown: tuple[str, ...] = ()
    """Names in the environment that begin like ours and mean nothing."""

    @property
    def limits(self) -> RequestLimits:
        """Of applications' requests."""
        return RequestLimits(self.options.value_bytes_max, self.options.request_bytes_max)

    def address(self, port: int) -> Address:
        """Where others reach this member by a port."""
        return join_address(self.advertise, port)


def join_address(host: str, port: int) -> Address:
    """`host:port`, with brackets where the host has colons itself."""
    return Address(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")


def load(
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
) -> Settings:
    """The settings, or a `ConfigurationError` with every reason why not."""
    reasons: list[str] = []
    given: dict[str, Given] = {}
    tables: dict[str, Any] = {}
    if file is not None:
        _from_file(file, given, tables, reasons)
    unknown = _from_environment(environment or {}, given)
    for key, value in (flags or {}).items():
        given[key] = Given(value, f"--{key.replace('_', '-')}")
    values = _convert(given, reasons)
    options = Options(**values)
    unnamed, names = _names(tables, options, reasons)
    secret = _secret(options, reasons)
    tls = _tls(options, reasons)
    reasons += _contradictions(options, secret)
    core = _core(options, unnamed, names, reasons)
    host = socket.gethostname()
    group = _group(options, host, reasons)
    if reasons or core is None:
        raise ConfigurationError(reasons)
    return Settings(
        options=options,
        core=core,
        secret=secret,
        name=options.name or f"{host}-{options.port_member}",
        group=group,
        advertise=options.advertise or options.bind,
        tls=tls,
        unknown=unknown,
    )


# Where they come from -----------------------------------------------------------------------------


def _from_file(
    file: Path, given: dict[str, Given], tables: dict[str, Any], reasons: list[str]
) -> None:
    try:
        found = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        reasons.append(f"{file}: {error.strerror or error}")
        return
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        reasons.append(f"{file} is no TOML: {error}")
        return
    for key, value in found.items():
        if key in (NAMES, UNNAMED):
            tables[key] = value
        elif key in HINTS:
            given[key] = Given(value, str(file))
        else:
            reasons.append(f"{key}: there is no such setting (in {file})")


def _from_environment(environment: Mapping[str, str], given: dict[str, Given]) -> tuple[str, ...]:
    unknown = []
    for name, value in sorted(environment.items()):
        if not name.startswith(PREFIX):
            continue
        key = name.removeprefix(PREFIX).lower()
        if key in HINTS:
            given[key] = Given(_split(key, value), name)
        elif not NOT_OURS.fullmatch(name.removeprefix(PREFIX)):
            unknown.append(name)
    return tuple(unknown)


def _split(key: str, value: str) -> object:
    """A list comes as text with commas."""
    if HINTS[key] != tuple[str, ...]:
        return value
    return [part.strip() for part in value.split(",") if part.strip()]


def _convert(given: Mapping[str, Given], reasons: list[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, each in given.items():
        value = _split(key, each.value) if isinstance(each.value, str) else each.value
        try:
            values[key] = msgspec.convert(value, HINTS[key], strict=False)
        except msgspec.ValidationError as error:
            shown = "***" if key == "secret" else repr(each.value)
            allowed = _allowed(HINTS[key], error)
            reasons.append(f"{key} = {shown} (from {each.source}): {allowed}")
    return values


def _allowed(hint: object, error: msgspec.ValidationError) -> str:
    """What a setting may be."""
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return f"allowed are {', '.join(hint)}"
    text = str(error).replace("`", "")
    return text[:1].lower() + text[1:]


# What they must keep together ---------------------------------------------------------------------


def _names(
    tables: Mapping[str, Any], options: Options, reasons: list[str]
) -> tuple[NameSettings, dict[bytes, NameSettings]]:
    """Settings of structures: what a name does not say it takes from `unnamed`."""
    base: dict[str, Any] = {"backups": options.backup_count}
    base.update(_name_values(UNNAMED, tables.get(UNNAMED, {}), reasons))
    unnamed = _name_settings(UNNAMED, base, reasons)
    names: dict[bytes, NameSettings] = {}
    given = tables.get(NAMES, {})
    if not isinstance(given, dict):
        reasons.append("names: must be tables, like [names.users]")
        given = {}
    for name, table in given.items():
        where = f"{NAMES}.{name}"
        values = {**base, **_name_values(where, table, reasons)}
        names[name.encode()] = _name_settings(where, values, reasons)
    return unnamed, names


def _name_values(where: str, table: object, reasons: list[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if not isinstance(table, dict):
        reasons.append(f"{where}: must be a table")
        return values
    for key, value in table.items():
        if key not in NAME_HINTS:
            reasons.append(f"{where}.{key}: there is no such setting of a name")
            continue
        try:
            values[key] = msgspec.convert(value, NAME_HINTS[key], strict=False)
        except msgspec.ValidationError as error:
            reasons.append(f"{where}.{key} = {value!r}: {_allowed(NAME_HINTS[key], error)}")
    return values


def _name_settings(where: str, values: Mapping[str, Any], reasons: list[str]) -> NameSettings:
    try:
        return NameSettings(**values)
    except ConfigurationError as error:
        reasons += [f"{where}: {reason}" for reason in error.reasons]
        return NameSettings(backups=0)


def _core(
    options: Options, unnamed: NameSettings, names: dict[bytes, NameSettings], reasons: list[str]
) -> Config | None:
    values = {each.name: getattr(options, each.name) for each in _core_options()}
    promised = [options.backup_count, unnamed.backups, *(each.backups for each in names.values())]
    values["backup_count"] = max(promised)
    values["memory_max_bytes"] = _memory_max(options, reasons)
    initial = tuple(Address(each) for each in options.initial)
    named = ((f"{NAMES}.{name.decode()}", each) for name, each in names.items())
    for where, each in ((UNNAMED, unnamed), *named):
        if each.copies > options.replica_count:
            reasons.append(
                f"{where}: {each.copies} copies do not fit replica_count = {options.replica_count}"
            )
    try:
        return Config(**values, initial=initial, unnamed=unnamed, names=names)
    except ConfigurationError as error:
        reasons += error.reasons
        return None


def _memory_max(options: Options, reasons: list[str]) -> int:
    given = str(options.memory_max)
    try:
        return memory_max_bytes(given, options.processes)
    except ConfigurationError as error:
        reasons += [f"memory_max = {given!r}: {reason}" for reason in error.reasons]
        return 0


def _core_options() -> Iterator[Any]:
    return (each for each in fields(Options) if each.metadata["core"])


def _secret(options: Options, reasons: list[str]) -> bytes:
    """From the file, or as it was given; line ends around it are none of it."""
    if options.secret and options.secret_file:
        reasons.append("secret and secret_file: give one of them")
        return b""
    secret = options.secret.encode()
    if options.secret_file:
        try:
            secret = Path(options.secret_file).read_bytes().strip()
        except OSError as error:
            reasons.append(f"secret_file = {options.secret_file!r}: {error.strerror or error}")
            return b""
    if (secret or options.secret_file) and len(secret) < SECRET_BYTES_MIN:
        reasons.append(
            f"the secret has {len(secret)} bytes: it must have at least {SECRET_BYTES_MIN}"
        )
    return secret


def _group(options: Options, host: str, reasons: list[str]) -> str:
    """The failure domain: as given, or what the file of that name says."""
    group = options.group or host
    if not options.groups_dir:
        return group
    file = Path(options.groups_dir) / group
    try:
        domain = file.read_text(encoding="utf-8").strip() if file.name == group else ""
    except (OSError, UnicodeDecodeError) as error:
        reasons.append(
            f"groups_dir = {options.groups_dir!r}: no failure domain of {group}: {error}"
        )
        return group
    if not domain:
        reasons.append(f"groups_dir = {options.groups_dir!r}: no failure domain of {group!r}")
    return domain


def _tls(options: Options, reasons: list[str]) -> Tls | None:
    files = (options.tls_ca, options.tls_cert, options.tls_key)
    if not any(files):
        return None
    if not all(files):
        reasons.append("tls_ca, tls_cert and tls_key: give all three, or none")
        return None
    try:
        return make_tls(authority=files[0], certificate=files[1], key=files[2])
    except ConfigurationError as error:
        reasons += error.reasons
        return None


def _contradictions(options: Options, secret: bytes) -> Iterator[str]:
    for address in options.initial:
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) <= 65_535:
            yield f"initial: {address!r} is no host:port"
    ports = [
        port
        for port in (
            options.port_plain,
            options.port_cluster,
            options.port_http,
            options.port_member,
        )
        if port
    ]
    if len(set(ports)) < len(ports):
        yield "two of port_plain, port_cluster, port_http, port_member are the same"
    if not options.hands_over and not options.data_dir:
        yield "hands_over = false without data_dir would end a member and all that it has"
    if options.request_bytes_max < options.value_bytes_max:
        yield "request_bytes_max must not be less than value_bytes_max"
    if options.bind in ("", "0.0.0.0", "::") and not options.advertise:  # noqa: S104 - compared
        yield f"bind = {options.bind!r} names no host for others: say it by advertise"
    if not secret and not options.allow_no_secret and not is_loopback(options.bind):
        yield UNGUARDED.format(bind=options.bind)


def is_loopback(host: str) -> bool:
    """Whether nobody on another machine can reach this address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

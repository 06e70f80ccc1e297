"""How a pod gets at backups: where they are, what is mounted, who may read a bucket."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from holdfast_operator.model.places import ObjectStore, Place
from holdfast_operator.names import SOURCE_DIR, SOURCE_SECRET_DIR, http_url, secret
from holdfast_operator.observed import Raw

KEYS: Final = {
    "AWS_ACCESS_KEY_ID": False,
    "AWS_SECRET_ACCESS_KEY": False,
    "AWS_SESSION_TOKEN": True,
}
"""Of the Secret; whether it may lack it."""


@dataclass(frozen=True, slots=True)
class Access:
    """To one depot."""

    address: str
    """As the command line takes it."""
    flags: tuple[str, ...] = ()
    environment: tuple[Raw, ...] = ()
    mounts: tuple[Raw, ...] = field(default=())
    volumes: tuple[Raw, ...] = field(default=())


def at_members(cluster: str, namespace: str) -> Access:
    """What the members of a cluster keep themselves; they ask for its secret."""
    file = f"{SOURCE_SECRET_DIR}/secret"
    kept = {"secretName": secret(cluster), "defaultMode": 0o440}
    return Access(
        http_url(cluster, namespace),
        ("--secret-file", file),
        mounts=({"name": "source-secret", "mountPath": SOURCE_SECRET_DIR, "readOnly": True},),
        volumes=({"name": "source-secret", "secret": kept},),
    )


def at_place(place: Place, *, writes: bool) -> Access:
    """A claim that is mounted, or an object store."""
    if place.object_store is not None:
        return _store(place.object_store, place.where)
    mount: Raw = {"name": "source", "mountPath": SOURCE_DIR}
    claim: Raw = {"claimName": place.claim}
    if not writes:
        mount["readOnly"] = True
        claim["readOnly"] = True
    return Access(
        f"{SOURCE_DIR}/{place.path}",
        mounts=(mount,),
        volumes=({"name": "source", "persistentVolumeClaim": claim},),
    )


def _store(store: ObjectStore, address: str) -> Access:
    def key(name: str, *, optional: bool) -> Raw:
        chosen = {"name": store.credentials, "key": name, "optional": optional}
        return {"name": name, "valueFrom": {"secretKeyRef": chosen}}

    plain = {"AWS_REGION": store.region, "AWS_ENDPOINT_URL": store.endpoint}
    return Access(
        address,
        environment=(
            *(key(name, optional=optional) for name, optional in KEYS.items()),
            *({"name": name, "value": value} for name, value in plain.items() if value),
        ),
    )

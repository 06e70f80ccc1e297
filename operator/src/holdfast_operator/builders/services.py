"""Services: names of the pods, and the ports that applications use."""

from __future__ import annotations

from holdfast_operator.builders.common import metadata
from holdfast_operator.names import (
    CLUSTER_LABEL,
    COMPONENT,
    PORT_CLUSTER,
    PORT_HTTP,
    PORT_MEMBER,
    PORT_PLAIN,
    http_service,
    members_service,
)
from holdfast_operator.observed import Observed, Raw


def members(o: Observed) -> Raw:
    """Headless. Members must find one another before they are ready."""
    spec = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": _selector(o),
        "ports": [_port("member", PORT_MEMBER), _port("http", PORT_HTTP)],
    }
    return _service(o, members_service(o.name), spec)


def client(o: Observed) -> Raw:
    """Redis protocols: any ready member."""
    service = o.spec.service
    spec = {
        "type": service.type,
        "selector": _selector(o),
        "ports": [_port("plain", PORT_PLAIN), _port("cluster", PORT_CLUSTER)],
    }
    return _service(o, o.name, spec, dict(service.annotations))


def http(o: Observed) -> Raw:
    """Control, REST and the documents about them: any ready member."""
    spec = {"selector": _selector(o), "ports": [_port("http", PORT_HTTP)]}
    return _service(o, http_service(o.name), spec)


def _selector(o: Observed) -> dict[str, str]:
    return {CLUSTER_LABEL: o.name, COMPONENT: "member"}


def _port(name: str, number: int) -> Raw:
    return {"name": name, "port": number, "targetPort": number, "protocol": "TCP"}


def _service(o: Observed, name: str, spec: Raw, annotations: dict[str, str] | None = None) -> Raw:
    more = {"annotations": annotations} if annotations else {}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(o, name, **more),
        "spec": spec,
    }

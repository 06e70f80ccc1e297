"""The pod template: one container with the members, as little else as possible.

Restricted by the pod security standard: not root, nothing writable but the volume and /tmp, no
privileges. A member is told who it is by the downward API: name, node, addresses.
"""

from __future__ import annotations

from holdfast_operator.builders import seeding
from holdfast_operator.builders.common import NOT_ROOT, RESTRICTED, SECRET_KEY, fingerprint
from holdfast_operator.builders.settings import FILE, INITIAL, MAY_FOUND, settings_text
from holdfast_operator.model.cluster import Spread
from holdfast_operator.names import (
    CLUSTER_LABEL,
    CONFIG_DIR,
    CONTAINER,
    DATA_DIR,
    HOST_LABEL,
    PORT_CLUSTER,
    PORT_HTTP,
    PORT_MEMBER,
    PORT_PLAIN,
    PORT_STEP,
    SECRET_DIR,
    TEMPLATE_ANNOTATION,
    TOPOLOGY_DIR,
    VOLUME,
    ZONE_LABEL,
    Role,
    config_map,
    founding_map,
    members_service,
    pod_labels,
    secret,
    topology_map,
)
from holdfast_operator.observed import Observed, Raw


def template(o: Observed, role: Role) -> Raw:
    """The template, with its own fingerprint: a pod of another one is outdated.

    What makes the first files of a restored cluster is no part of the fingerprint: it goes when it
    is done, and nobody restarts for that."""
    made = _template(o, role)
    mark = fingerprint([made, settings_text(o), o.spec.pod_template.restarted_at])
    made["metadata"]["annotations"] = {
        **o.spec.pod_template.annotations,
        TEMPLATE_ANNOTATION: mark,
    }
    made["spec"]["initContainers"] = []
    if role is Role.DATA and o.spec.origin is not None and not o.status.cluster_id:
        container, volumes = seeding.seeder(o, made["spec"]["containers"][0])
        made["spec"]["initContainers"] = [container]
        made["spec"]["volumes"] += volumes
    return made


def template_mark(o: Observed, role: Role) -> str:
    """The fingerprint that an up-to-date pod has."""
    mark: str = template(o, role)["metadata"]["annotations"][TEMPLATE_ANNOTATION]
    return mark


def _template(o: Observed, role: Role) -> Raw:
    spec, scheduling = o.spec, o.spec.scheduling
    by_node = spec.availability.spread is Spread.NODE
    pod: Raw = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": spec.pod_template.termination_grace_period_seconds,
        "securityContext": NOT_ROOT,
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": HOST_LABEL if by_node else ZONE_LABEL,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {CLUSTER_LABEL: o.name}},
            }
        ],
        "containers": [_container(o, role)],
        "volumes": _volumes(o),
    }
    if scheduling.node_selector:
        pod["nodeSelector"] = dict(scheduling.node_selector)
    if scheduling.tolerations:
        pod["tolerations"] = list(scheduling.tolerations)
    if scheduling.affinity:
        pod["affinity"] = dict(scheduling.affinity)
    if scheduling.priority_class_name:
        pod["priorityClassName"] = scheduling.priority_class_name
    if scheduling.service_account_name:
        pod["serviceAccountName"] = scheduling.service_account_name
    if spec.image.pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in spec.image.pull_secrets]
    labels = {**spec.pod_template.labels, **pod_labels(o.name, role)}
    return {"metadata": {"labels": labels, "annotations": {}}, "spec": pod}


def _container(o: Observed, role: Role) -> Raw:
    spec = o.spec
    made: Raw = {
        "name": CONTAINER,
        "image": spec.image.name or o.defaults.image,
        "imagePullPolicy": spec.image.pull_policy or o.defaults.pull_policy,
        "args": ["member", "--config", f"{CONFIG_DIR}/{FILE}"],
        "env": [*_environment(o, role), *spec.pod_template.env],
        "ports": _ports(spec.processes_per_pod),
        "securityContext": RESTRICTED,
        "volumeMounts": _mounts(o),
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    resources = {
        key: dict(values)
        for key, values in (
            ("requests", spec.resources.requests),
            ("limits", spec.resources.limits),
        )
        if values
    }
    made["resources"] = resources
    return made | _probes(spec.processes_per_pod)


def _probes(processes: int) -> Raw:
    """Ready: joined and loaded. Live: the loop turns. Never whether the grid is safe: one that
    rebalances serves well. Several processes are asked by a program, as a probe asks one port."""
    if processes == 1:
        ready: Raw = {"httpGet": {"path": "/healthz/ready", "port": "http"}}
        live: Raw = {"httpGet": {"path": "/healthz/live", "port": "http"}}
    else:
        ports = [str(PORT_HTTP + PORT_STEP * i) for i in range(processes)]
        ready = {"exec": {"command": ["holdfast-probe", "ready", *ports]}}
        live = {"exec": {"command": ["holdfast-probe", "live", *ports]}}
    slow = 1 if processes == 1 else 5
    return {
        "readinessProbe": {**ready, "periodSeconds": slow, "timeoutSeconds": 5},
        "livenessProbe": {
            **live,
            "initialDelaySeconds": 30,
            "periodSeconds": 10,
            "timeoutSeconds": 10,
            "failureThreshold": 6,
        },
    }


def _environment(o: Observed, role: Role) -> list[Raw]:
    def field(name: str, path: str) -> Raw:
        return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}

    def founded(name: str, key: str) -> Raw:
        chosen = {"name": founding_map(o.name), "key": key}
        return {"name": name, "valueFrom": {"configMapKeyRef": chosen}}

    values = {
        "HOLDFAST_KIND": role.value,
        "HOLDFAST_BIND": "0.0.0.0",  # noqa: S104 - a pod's own addresses
        "HOLDFAST_ADVERTISE": (f"$(HOLDFAST_NAME).{members_service(o.name)}.$(POD_NAMESPACE).svc"),
        "HOLDFAST_GROUP": "$(NODE_NAME)",
        "HOLDFAST_SECRET_FILE": f"{SECRET_DIR}/{SECRET_KEY}",
    }
    if o.spec.persistence.enabled:
        values["HOLDFAST_DATA_DIR"] = f"{DATA_DIR}/member"
    if o.spec.availability.spread is Spread.ZONE:
        values["HOLDFAST_GROUPS_DIR"] = TOPOLOGY_DIR
    return [
        field("HOLDFAST_NAME", "metadata.name"),
        field("POD_NAMESPACE", "metadata.namespace"),
        field("NODE_NAME", "spec.nodeName"),
        founded("HOLDFAST_INITIAL", INITIAL),
        founded("HOLDFAST_MAY_FOUND", MAY_FOUND),
        *({"name": key, "value": value} for key, value in values.items()),
    ]


def _ports(processes: int) -> list[Raw]:
    first = {
        "plain": PORT_PLAIN,
        "cluster": PORT_CLUSTER,
        "http": PORT_HTTP,
        "member": PORT_MEMBER,
    }
    return [
        {
            "name": name if i == 0 else f"{name}-{i}",
            "containerPort": port + PORT_STEP * i,
            "protocol": "TCP",
        }
        for i in range(processes)
        for name, port in first.items()
    ]


def _mounts(o: Observed) -> list[Raw]:
    mounts: list[Raw] = [
        {"name": "config", "mountPath": CONFIG_DIR, "readOnly": True},
        {"name": "secret", "mountPath": SECRET_DIR, "readOnly": True},
        {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - of the container
    ]
    if o.spec.persistence.enabled:
        mounts.append({"name": VOLUME, "mountPath": DATA_DIR})
    if o.spec.availability.spread is Spread.ZONE:
        mounts.append({"name": "topology", "mountPath": TOPOLOGY_DIR, "readOnly": True})
    return mounts


def _volumes(o: Observed) -> list[Raw]:
    volumes: list[Raw] = [
        {"name": "config", "configMap": {"name": config_map(o.name)}},
        {"name": "secret", "secret": {"secretName": secret(o.name), "defaultMode": 0o440}},
        {"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}},
    ]
    if o.spec.availability.spread is Spread.ZONE:
        volumes.append({"name": "topology", "configMap": {"name": topology_map(o.name)}})
    return volumes

"""The objects that a cluster consists of now, and which of them are not as they are to be."""

from __future__ import annotations

from holdfast_operator.actions import Action, Apply, Delete, MakeSecret
from holdfast_operator.builders import disruption, services, settings
from holdfast_operator.builders.sets import stateful_set
from holdfast_operator.differing import covers
from holdfast_operator.names import Role, secret
from holdfast_operator.observed import Observed, Raw


def wanted(o: Observed, sizes: dict[Role, int]) -> list[Raw]:
    """In the order in which they are needed."""
    made = [settings.founding(o), settings.settings(o)]
    topology = settings.topology(o)
    if topology is not None:
        made.append(topology)
    made += [services.members(o), services.client(o), services.http(o)]
    if o.spec.availability.pdb:
        made.append(disruption.budget(o))
    for role in Role:
        if role is Role.DATA or sizes[role] or role in o.sets:
            made.append(stateful_set(o, role, sizes[role]))
    return made


def changes(o: Observed, sizes: dict[Role, int]) -> list[Action]:
    """Apply what differs; what is as it is to be costs no request."""
    actions: list[Action] = []
    if not o.secret_exists:
        actions.append(MakeSecret(secret(o.name)))
    for body in wanted(o, sizes):
        live = o.children.get((body["kind"], body["metadata"]["name"]))
        if live is None:
            actions.append(Apply(body, only_new=body["kind"] == "StatefulSet"))
        elif not covers(live, body):
            actions.append(Apply(_versioned(body, live)))
    budget = o.children.get(("PodDisruptionBudget", o.name))
    if budget is not None and not o.spec.availability.pdb:
        uid = budget["metadata"]["uid"]
        actions.append(Delete("PodDisruptionBudget", o.name, uid))
    return actions


def _versioned(body: Raw, live: Raw) -> Raw:
    """A set is changed only as it was looked at."""
    if body["kind"] != "StatefulSet":
        return body
    version = live["metadata"].get("resourceVersion", "")
    return {**body, "metadata": {**body["metadata"], "resourceVersion": version}}

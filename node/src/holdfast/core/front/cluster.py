"""CLUSTER: what cluster-aware clients ask, to find the owner of a key by themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final

from holdfast.core.data.copies import Holding
from holdfast.core.data.gates import SLOTS
from holdfast.core.data.plane import slot_of
from holdfast.core.data.sessions import Session
from holdfast.core.front.asides import Aside, Subcommand, choose
from holdfast.core.front.shape import (
    Range,
    node_name,
    partition_of_slot,
    shape_of,
    split_address,
)
from holdfast.core.front.surroundings import Surroundings
from holdfast.core.stores.command import Blocked, Trait
from holdfast.core.stores.numbers import parse_integer
from holdfast.core.stores.replies import ZERO, array, bulk, bulks, integer
from holdfast.core.views import Member
from holdfast.errors import CommandError

INVALID_SLOT: Final = "ERR Invalid slot"
INVALID_SLOT_OR_COUNT: Final = "ERR Invalid slot or number of keys"


def cluster(around: Surroundings, session: Session, args: list[bytes]) -> bytes | Blocked:
    """CLUSTER subcommand [argument...]."""
    return choose("CLUSTER", CLUSTER, around, session, args)


def where(member: Member) -> tuple[str, int]:
    """Host and port of a member's cluster port."""
    return split_address(member.endpoints.cluster or member.address)


def _slots(around: Surroundings, _: Session, __: list[bytes]) -> bytes:
    """SLOTS: Return information about slots range mappings, with the nodes of each."""
    shape = shape_of(around.context)
    listed = {member.id: member for member in shape.members}
    return array(
        [
            array(
                [
                    integer(each.first),
                    integer(each.last),
                    _node(listed[each.owner]),
                    *map(_node, shape.replicas_of(each.owner)),
                ]
            )
            for each in shape.ranges
        ]
    )


def _node(member: Member) -> bytes:
    host, port = where(member)
    name = node_name(member.id).encode()
    return array([bulk(host.encode()), integer(port), bulk(name), array([])])


def _shards(around: Surroundings, session: Session, _: list[bytes]) -> bytes:
    """SHARDS: Return information about masters, their slots and their replicas."""
    shape, dialect = shape_of(around.context), session.dialect
    shards = []
    for master in shape.members:
        if master.id in shape.masters:
            continue
        edges = [edge for each in shape.ranges_of(master.id) for edge in (each.first, each.last)]
        nodes = [_described(session, master, b"master")]
        nodes += [_described(session, each, b"replica") for each in shape.replicas_of(master.id)]
        shards.append(
            dialect.pairs(
                [bulk(b"slots"), array([*map(integer, edges)]), bulk(b"nodes"), array(nodes)]
            )
        )
    return array(shards)


def _described(session: Session, member: Member, role: bytes) -> bytes:
    host, port = where(member)
    return session.dialect.pairs(
        [
            *(bulk(b"id"), bulk(node_name(member.id).encode())),
            *(bulk(b"port"), integer(port)),
            *(bulk(b"ip"), bulk(host.encode())),
            *(bulk(b"endpoint"), bulk(host.encode())),
            *(bulk(b"role"), bulk(role)),
            *(bulk(b"replication-offset"), ZERO),
            *(bulk(b"health"), bulk(b"online")),
        ]
    )


def _nodes(around: Surroundings, session: Session, _: list[bytes]) -> bytes:
    """NODES: Return cluster configuration, one line a node."""
    context, shape = around.context, shape_of(around.context)
    term = 0 if context.view is None else context.view.term
    lines = []
    for member in shape.members:
        host, port = where(member)
        link = split_address(member.address)[1]
        master = shape.masters.get(member.id)
        flags = ["myself"] if member.id == context.me.id else []
        flags.append("master" if master is None else "slave")
        words = [
            node_name(member.id),
            f"{host}:{port}@{link}",
            ",".join(flags),
            "-" if master is None else node_name(master),
            *("0", "0", str(term), "connected"),
            *map(_span, shape.ranges_of(member.id)),
        ]
        lines.append(" ".join(words) + "\n")
    return session.dialect.text("".join(lines).encode())


def _span(each: Range) -> str:
    return f"{each.first}-{each.last}" if each.first < each.last else str(each.first)


def _info(around: Surroundings, session: Session, _: list[bytes]) -> bytes:
    """INFO: Return information about the cluster."""
    context, shape = around.context, shape_of(around.context)
    term = 0 if context.view is None else context.view.term
    fine = around.is_member and shape.slots == SLOTS
    pairs = {
        "cluster_enabled": 1,
        "cluster_state": "ok" if fine else "fail",
        "cluster_slots_assigned": shape.slots,
        "cluster_slots_ok": shape.slots,
        "cluster_slots_pfail": 0,
        "cluster_slots_fail": 0,
        "cluster_known_nodes": len(shape.members),
        "cluster_size": len({each.owner: None for each in shape.ranges}),
        "cluster_current_epoch": term,
        "cluster_my_epoch": term,
    }
    text = "".join(f"{name}:{value}\r\n" for name, value in pairs.items())
    return session.dialect.text(text.encode())


def _myid(around: Surroundings, _: Session, __: list[bytes]) -> bytes:
    """MYID: Return the node id."""
    return bulk(node_name(around.context.me.id).encode())


def _keyslot(_: Surroundings, __: Session, args: list[bytes]) -> bytes:
    """KEYSLOT <key>: Return the hash slot for <key>."""
    return integer(slot_of(args[2]))


def _count_keys(around: Surroundings, _: Session, args: list[bytes]) -> bytes:
    """COUNTKEYSINSLOT <slot>: Return the number of keys in <slot>, here."""
    slot = parse_integer(args[2])
    if not 0 <= slot < SLOTS:
        raise CommandError(INVALID_SLOT)
    return integer(sum(1 for _ in keys_of(around, slot)))


def _get_keys(around: Surroundings, _: Session, args: list[bytes]) -> bytes:
    """GETKEYSINSLOT <slot> <count>: Return key names stored here in a slot."""
    slot, count = parse_integer(args[2]), parse_integer(args[3])
    if not 0 <= slot < SLOTS or count < 0:
        raise CommandError(INVALID_SLOT_OR_COUNT)
    return bulks(islice(keys_of(around, slot), count))


def keys_of(around: Surroundings, slot: int) -> Iterable[bytes]:
    """The keys of one slot, if its partition is mine."""
    partition = partition_of_slot(slot, len(around.context.table))
    holdings: list[Holding] = [each for each in around.owned() if each.partition == partition]
    return (
        key
        for holding in holdings
        for fragment in holding.space.shown()
        for key in fragment.records
        if slot_of(key) == slot
    )


def _failures(around: Surroundings, _: Session, args: list[bytes]) -> bytes:
    """COUNT-FAILURE-REPORTS <node-id>: Return number of failure reports: who fails is let go."""
    names = [node_name(member.id) for member in shape_of(around.context).members]
    if args[2].decode(errors="replace") not in names:
        text = args[2].decode(errors="surrogateescape")
        raise CommandError(f"ERR Unknown node {text}")
    return ZERO


def _links(around: Surroundings, session: Session, _: list[bytes]) -> bytes:
    """LINKS: Return information about the connections to other nodes."""
    names = {each.address: node_name(each.id) for each in shape_of(around.context).members}
    return array(
        [
            session.dialect.pairs(
                [
                    *(bulk(b"direction"), bulk(b"to" if each.dialled else b"from")),
                    *(bulk(b"node"), bulk(names[each.address].encode())),
                    *(bulk(b"create-time"), integer(each.since)),
                    *(bulk(b"events"), bulk(b"rw" if each.unsent_bytes else b"r")),
                    *(bulk(b"send-buffer-allocated"), integer(each.unsent_bytes)),
                    *(bulk(b"send-buffer-used"), integer(each.unsent_bytes)),
                ]
            )
            for each in around.facts.links
            if each.address in names
        ]
    )


CLUSTER: Final[Mapping[bytes, Subcommand[Surroundings]]] = {
    b"COUNT-FAILURE-REPORTS": (3, _failures),
    b"COUNTKEYSINSLOT": (3, _count_keys),
    b"GETKEYSINSLOT": (4, _get_keys),
    b"INFO": (2, _info),
    b"KEYSLOT": (3, _keyslot),
    b"LINKS": (2, _links),
    b"MYID": (2, _myid),
    b"NODES": (2, _nodes),
    b"SHARDS": (2, _shards),
    b"SLOTS": (2, _slots),
}

COMMANDS: Final = (Aside("CLUSTER", -2, Trait(0), cluster, subcommands=CLUSTER),)

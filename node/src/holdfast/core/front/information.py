"""INFO and CONFIG GET: what is true here, in Redis' words. What nobody knows is left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from holdfast.core.data.sessions import Session
from holdfast.core.front.asides import Aside, Subcommand, choose
from holdfast.core.front.facts import VERSION_OF_REDIS
from holdfast.core.front.shape import node_name
from holdfast.core.front.surroundings import Surroundings
from holdfast.core.stores.command import Blocked, Trait
from holdfast.core.stores.glob import glob
from holdfast.core.stores.replies import bulk
from holdfast.core.stores.settings import Eviction

Lines = dict[str, object]
"""None stands for what is not known."""
DAY_S: Final = 86_400
POLICIES: Final = {
    Eviction.NONE: "noeviction",
    Eviction.LRU: "allkeys-lru",
    Eviction.RANDOM: "allkeys-random",
}


def server(around: Surroundings, session: Session) -> Lines:
    """What runs here."""
    facts, uptime = around.facts, (around.context.now - around.since) // 1000
    return {
        "redis_version": VERSION_OF_REDIS,
        "redis_mode": "standalone" if session.forwards else "cluster",
        "holdfast_version": facts.version or None,
        "os": facts.os,
        "arch_bits": 64,
        "process_id": facts.process_id,
        "run_id": node_name(around.context.me.id),
        "tcp_port": facts.plain_port,
        "uptime_in_seconds": uptime,
        "uptime_in_days": uptime // DAY_S,
    }


def clients(around: Surroundings, _: Session) -> Lines:
    """Who is connected."""
    return {
        "connected_clients": len(around.sessions.open),
        "maxclients": around.facts.connections_max,
        "blocked_clients": len(around.data.plane.waiting),
    }


def memory(around: Surroundings, _: Session) -> Lines:
    """What the data takes."""
    facts = around.facts
    return {
        "used_memory": facts.memory_used_bytes,
        "used_memory_rss": facts.memory_used_bytes,
        "used_memory_peak": facts.memory_peak_bytes,
        "used_memory_dataset": around.data.memory.measure(),
        "maxmemory": around.context.config.memory_max_bytes,
        "maxmemory_policy": memory_policy(around),
    }


def memory_policy(around: Surroundings) -> str:
    """What becomes of names that are not configured."""
    return POLICIES[around.context.config.unnamed.eviction]


def persistence(around: Surroundings, _: Session) -> Lines:
    """Whether the data is on disk."""
    return {
        "loading": int(not around.membership.loaded),
        "aof_enabled": int(around.context.me.persistent),
    }


def stats(around: Surroundings, _: Session) -> Lines:
    """What happened since the start."""
    facts = around.facts
    return {
        "total_connections_received": facts.connections_received,
        "total_commands_processed": around.data.plane.commands,
        "total_net_input_bytes": facts.bytes_in,
        "total_net_output_bytes": facts.bytes_out,
        "rejected_connections": facts.connections_refused,
        "forwarded_commands": around.forwarded(),
        "migrations_active": len(around.participation.active),
    }


def replication(around: Surroundings, _: Session) -> Lines:
    """How many members have copies of what is mine."""
    me, rows = around.context.me.id, around.context.table.rows
    backups = {each: None for row in rows if row.owner == me for each in row.replicas[1:] if each}
    return {"role": "master", "connected_slaves": len(backups)}


def cpu(around: Surroundings, _: Session) -> Lines:
    """What the process has used."""
    facts = around.facts
    return {"used_cpu_sys": facts.cpu_system_s, "used_cpu_user": facts.cpu_user_s}


def cluster(_: Surroundings, session: Session) -> Lines:
    """Whether clients should ask for the owners of keys."""
    return {"cluster_enabled": int(not session.forwards)}


def keyspace(around: Surroundings, _: Session) -> Lines:
    """How many keys are mine."""
    keys = sum(len(fragment) for holding in around.owned() for fragment in holding.space.shown())
    return {"db0": f"keys={keys}"} if keys else {}


SECTIONS: Final[Mapping[str, Callable[[Surroundings, Session], Lines]]] = {
    "Server": server,
    "Clients": clients,
    "Memory": memory,
    "Persistence": persistence,
    "Stats": stats,
    "Replication": replication,
    "CPU": cpu,
    "Cluster": cluster,
    "Keyspace": keyspace,
}
EVERYTHING: Final = (b"ALL", b"DEFAULT", b"EVERYTHING")


def info(around: Surroundings, session: Session, args: list[bytes]) -> bytes:
    """INFO [section...]."""
    wanted = [word.upper() for word in args[1:]]
    whole = not wanted or any(word in EVERYTHING for word in wanted)
    texts = []
    for title, section in SECTIONS.items():
        if whole or title.upper().encode() in wanted:
            lines = section(around, session).items()
            told = [f"{name}:{value}\r\n" for name, value in lines if value is not None]
            texts.append(f"# {title}\r\n{''.join(told)}")
    return session.dialect.text("\r\n".join(texts).encode())


# CONFIG -------------------------------------------------------------------------------------------


def config(around: Surroundings, session: Session, args: list[bytes]) -> bytes | Blocked:
    """CONFIG subcommand [argument...]."""
    return choose("CONFIG", CONFIG, around, session, args)


def _get(around: Surroundings, session: Session, args: list[bytes]) -> bytes:
    """GET <pattern> [<pattern> ...]: Return parameters matching the glob-like <pattern>."""
    facts = around.facts
    known = {
        b"appendonly": "yes" if around.context.me.persistent else "no",
        b"cluster-enabled": "no" if session.forwards else "yes",
        b"databases": "1",
        b"maxclients": facts.connections_max,
        b"maxmemory": around.context.config.memory_max_bytes,
        b"maxmemory-policy": memory_policy(around),
        b"port": facts.plain_port,
        b"save": "",
    }
    matchers = [glob(pattern.lower()) for pattern in args[2:]]
    told = []
    for name, value in known.items():
        if value is not None and any(matches(name) for matches in matchers):
            told += [bulk(name), bulk(str(value).encode())]
    return session.dialect.pairs(told)


CONFIG: Final[Mapping[bytes, Subcommand[Surroundings]]] = {b"GET": (-3, _get)}

COMMANDS: Final = (
    Aside("CONFIG", -2, Trait(0), config, subcommands=CONFIG),
    Aside("INFO", -1, Trait(0), info),
)

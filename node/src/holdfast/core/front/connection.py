"""What a client says about its connection: HELLO, AUTH, CLIENT, PING and their like.

Redis without a password lets everybody in as the user `default`, whatever the password; so do we.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from holdfast.core.data.sessions import Session
from holdfast.core.front.asides import Aside, Subcommand, choose
from holdfast.core.front.facts import VERSION_OF_REDIS
from holdfast.core.front.surroundings import Surroundings
from holdfast.core.stores.command import SYNTAX, Blocked, Trait, wrong_arity
from holdfast.core.stores.numbers import parse_integer
from holdfast.core.stores.replies import EMPTY, OK, RESP2, RESP3, bulk, integer, simple
from holdfast.errors import CommandError

NOT_CONFIGURED: Final = (
    "ERR AUTH <password> called without any password configured for the default user."
    " Are you sure your configuration is correct?"
)
NOT_KNOWN: Final = "WRONGPASS invalid username-password pair or user is disabled."
NO_PROTOCOL: Final = "NOPROTO unsupported protocol version"
NO_NUMBER: Final = "ERR Protocol version is not an integer or out of range"
NO_NAME: Final = "ERR Client names cannot contain spaces, newlines or special characters."
NO_DATABASE: Final = "ERR DB index is out of range"
NO_ID: Final = "ERR Invalid client ID"
KINDS: Final = (b"NORMAL", b"MASTER", b"REPLICA", b"SLAVE", b"PUBSUB")
"""Types of clients that Redis knows; ours are all normal."""


def hello(around: Surroundings, session: Session, args: list[bytes]) -> bytes:
    """HELLO [2 | 3 [AUTH user password] [SETNAME name]]."""
    dialect, name = session.dialect, session.name
    if len(args) > 1:
        try:
            number = parse_integer(args[1])
        except CommandError:
            raise CommandError(NO_NUMBER) from None
        if number not in (2, 3):
            raise CommandError(NO_PROTOCOL)
        dialect = RESP2 if number == 2 else RESP3
    rest = args[2:]
    while rest:
        word = rest[0].upper()
        if word == b"AUTH" and len(rest) > 2:
            check_user(rest[1])
            rest = rest[3:]
        elif word == b"SETNAME" and len(rest) > 1:
            name = checked_name(rest[1])
            rest = rest[2:]
        else:
            text = rest[0].decode(errors="surrogateescape")
            raise CommandError(f"ERR Syntax error in HELLO option '{text}'")
    session.name, session.dialect = name, dialect
    around.data.plane.call.dialect = dialect
    mode = b"standalone" if session.forwards else b"cluster"
    told = [
        *(b"server", bulk(b"redis")),
        *(b"version", bulk(VERSION_OF_REDIS.encode())),
        *(b"proto", integer(dialect.number)),
        *(b"id", integer(session.number)),
        *(b"mode", bulk(mode)),
        *(b"role", bulk(b"master")),
        *(b"modules", EMPTY),
    ]
    return dialect.pairs([bulk(item) if at % 2 == 0 else item for at, item in enumerate(told)])


def check_user(user: bytes) -> None:
    """Only the default user is there, and has no password."""
    if user != b"default":
        raise CommandError(NOT_KNOWN)


def checked_name(name: bytes) -> bytes:
    """A client's name, if it is one."""
    if not all(0x21 <= byte <= 0x7E for byte in name):
        raise CommandError(NO_NAME)
    return name


def auth(_: Surroundings, __: Session, args: list[bytes]) -> bytes:
    """AUTH [user] password."""
    if len(args) > 3:
        raise CommandError(SYNTAX)
    if len(args) == 2:
        raise CommandError(NOT_CONFIGURED)
    check_user(args[1])
    return OK


def ping(_: Surroundings, __: Session, args: list[bytes]) -> bytes:
    """PING [message]."""
    if len(args) > 2:
        raise wrong_arity("PING")
    return simple("PONG") if len(args) == 1 else bulk(args[1])


def echo(_: Surroundings, __: Session, args: list[bytes]) -> bytes:
    """ECHO message."""
    return bulk(args[1])


def select(_: Surroundings, __: Session, args: list[bytes]) -> bytes:
    """SELECT index."""
    if parse_integer(args[1]) != 0:
        raise CommandError(NO_DATABASE)
    return OK


def quit_(around: Surroundings, session: Session, _: list[bytes]) -> bytes:
    """QUIT."""
    session.leaving = session.apart = True
    around.leaving[session.number] = None
    return OK


def reset(around: Surroundings, session: Session, _: list[bytes]) -> bytes:
    """RESET."""
    session.reset()
    around.data.plane.call.dialect = RESP2
    return simple("RESET")


def agreed(_: Surroundings, __: Session, ___: list[bytes]) -> bytes:
    """READONLY | READWRITE: every read is the owner's, so both change nothing."""
    return OK


# CLIENT -------------------------------------------------------------------------------------------


def client(around: Surroundings, session: Session, args: list[bytes]) -> bytes | Blocked:
    """CLIENT subcommand [argument...]."""
    return choose("CLIENT", CLIENT, around, session, args)


def _id(_: Surroundings, session: Session, __: list[bytes]) -> bytes:
    """ID: Return the ID of the current connection."""
    return integer(session.number)


def _getname(_: Surroundings, session: Session, __: list[bytes]) -> bytes:
    """GETNAME: Return the name of the current connection."""
    return bulk(session.name) if session.name else session.dialect.null


def _setname(_: Surroundings, session: Session, args: list[bytes]) -> bytes:
    """SETNAME <name>: Assign the name <name> to the current connection."""
    session.name = checked_name(args[2])
    return OK


def _setinfo(_: Surroundings, session: Session, args: list[bytes]) -> bytes:
    """SETINFO <option> <value>: Say what the client's library is: lib-name, lib-ver."""
    option = args[2].lower()
    if option not in (b"lib-name", b"lib-ver"):
        text = args[2][:128].decode(errors="surrogateescape")
        raise CommandError(f"ERR Unrecognized option '{text}'")
    if not all(0x21 <= byte <= 0x7E for byte in args[3]):
        word = option.decode()
        raise CommandError(f"ERR {word} cannot contain spaces, newlines or special characters.")
    if option == b"lib-name":
        session.library = args[3]
    else:
        session.library_version = args[3]
    return OK


def _info(around: Surroundings, session: Session, _: list[bytes]) -> bytes:
    """INFO: Return information about the current connection."""
    return session.dialect.text(line_of(around, session))


def _list(around: Surroundings, session: Session, args: list[bytes]) -> bytes:
    """LIST [TYPE type | ID id...]: Return information about client connections."""
    chosen = list(around.sessions.open.values())
    if len(args) > 2:
        word = args[2].upper()
        if word == b"TYPE" and len(args) == 4:
            chosen = chosen if is_normal(args[3]) else []
        elif word == b"ID" and len(args) > 3:
            wanted = frozenset(map(client_id, args[3:]))
            chosen = [each for each in chosen if each.number in wanted]
        else:
            raise CommandError(SYNTAX)
    return session.dialect.text(b"".join(line_of(around, each) for each in chosen))


def is_normal(kind: bytes) -> bool:
    """Whether a type of clients is the one that ours are of."""
    if kind.upper() not in KINDS:
        text = kind.decode(errors="surrogateescape")
        raise CommandError(f"ERR Unknown client type '{text}'")
    return kind.upper() == b"NORMAL"


def client_id(text: bytes) -> int:
    """A session's number."""
    try:
        return parse_integer(text)
    except CommandError:
        raise CommandError(NO_ID) from None


def _agree(_: Surroundings, __: Session, args: list[bytes]) -> bytes:
    """NO-EVICT (ON|OFF): Protect the connection from eviction; none is ever evicted."""
    if args[2].upper() not in (b"ON", b"OFF"):
        raise CommandError(SYNTAX)
    return OK


def _no_touch(around: Surroundings, session: Session, args: list[bytes]) -> bytes:
    """NO-TOUCH OFF: Commands of the connection count as uses of their keys, always."""
    if args[2].upper() == b"ON":
        raise CommandError("ERR every command counts as a use of its keys here")
    return _agree(around, session, args)


def line_of(around: Surroundings, session: Session) -> bytes:
    """What is known of a client, as Redis says it."""
    age = (around.context.now - session.since) // 1000
    queued = -1 if session.queue is None else len(session.queue)
    text = (
        f"id={session.number} addr={session.peer} name={session.name.decode()} age={age}"
        f" flags={'x' if session.queue is not None else 'N'} db=0 sub=0 psub=0 ssub=0"
        f" multi={queued} watch={len(session.watched)} user=default resp={session.dialect.number}"
        f" lib-name={session.library.decode()} lib-ver={session.library_version.decode()}\n"
    )
    return text.encode()


CLIENT: Final[Mapping[bytes, Subcommand[Surroundings]]] = {
    b"GETNAME": (2, _getname),
    b"ID": (2, _id),
    b"INFO": (2, _info),
    b"LIST": (-2, _list),
    b"NO-EVICT": (3, _agree),
    b"NO-TOUCH": (3, _no_touch),
    b"SETINFO": (4, _setinfo),
    b"SETNAME": (3, _setname),
}
FAST: Final = Trait.FAST

COMMANDS: Final = (
    Aside("AUTH", -2, FAST, auth),
    Aside("CLIENT", -2, Trait(0), client, subcommands=CLIENT),
    Aside("ECHO", 2, FAST, echo),
    Aside("HELLO", -1, FAST, hello),
    Aside("PING", -1, FAST, ping),
    Aside("QUIT", -1, FAST, quit_),
    Aside("RESET", 1, FAST, reset),
    Aside("SELECT", 2, FAST, select),
)
ON_THE_CLUSTER: Final = (
    Aside("READONLY", 1, FAST, agreed),
    Aside("READWRITE", 1, FAST, agreed),
)

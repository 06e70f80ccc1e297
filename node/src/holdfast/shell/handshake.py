"""The first words on a link: both sides show that they know the cluster's secret. Sans I/O.

Rules (`design/3` §1, `design/4` "Security")
--------------------------------------------
* Nobody reads a message from, or sends one to, a process that has not shown that it knows the
  secret of the cluster. Each side answers a challenge that the other has just made, so what was
  overheard is of no use later; each side's answer has its role in it, so it can't be sent back.
* The dialler shows first. Who accepts tells nothing but its name before that.
* A refusal is one sentence, and the other side gets it before the connection ends.
* Nothing is waited for that is longer than `BODY_MAX`.

    dialler                                   accepter
       │ greeting: version, cluster, address, nonce ►│
       │◄ greeting, or a refusal                     │
       │ proof: HMAC(secret, "dialler", both)       ►│
       │◄ proof: HMAC(secret, "accepter", both), or a refusal
       ▼                                             ▼
      OPEN: frames of the wire (`wire.codec`) from here on, in both directions

States
------
    GREETING ──► PROVING ──► OPEN            any of them ──► REFUSED (final)

What can go wrong
-----------------
*Someone sits between the two and only passes on.* The secret is not learnt, but what follows is
read; that is what TLS is for (`tls`).
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from dataclasses import dataclass
from enum import Enum, IntEnum, auto
from typing import Final

import msgspec

from holdfast.errors import RemoteProtocolError
from holdfast.ids import Address

LINK_VERSION: Final = 1
MAGIC: Final = b"HFLK"
HEAD: Final = struct.Struct(">4sBH")
BODY_MAX: Final = 1024
NONCE_BYTES: Final = 32
NAME_MAX: Final = 255


class Refused(RemoteProtocolError):
    """There will be no link; the message says why, to both sides."""


class State(Enum):
    """How far the two have come."""

    GREETING = auto()
    PROVING = auto()
    OPEN = auto()
    REFUSED = auto()


class Lane(IntEnum):
    """What a connection carries. Each pair of members has one of each."""

    CONTROL = 0
    """Heartbeats and whatever else is short, and must not wait."""
    DATA = 1
    """What applications write and ask for: one message may have many megabytes."""


class Role(Enum):
    """Which side a proof is of."""

    DIALLER = b"dialler"
    ACCEPTER = b"accepter"


class Greeting(msgspec.Struct, frozen=True, tag=1, forbid_unknown_fields=False, omit_defaults=True):
    """Who speaks, and the challenge for the other."""

    version: int
    cluster: str
    address: str
    nonce: bytes
    lane: Lane = Lane.CONTROL
    """As the dialler wants it."""


class Proof(msgspec.Struct, frozen=True, tag=2):
    """The answer to the challenge."""

    mac: bytes


class Refusal(msgspec.Struct, frozen=True, tag=3):
    """There will be no link."""

    reason: str


Word = Greeting | Proof | Refusal
_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final[msgspec.msgpack.Decoder[Word]] = msgspec.msgpack.Decoder(Word)


@dataclass(frozen=True, slots=True)
class Myself:
    """What this member says of itself, and what it must know of the other."""

    cluster: str
    address: Address
    secret: bytes


def pack(word: Word) -> bytes:
    """A word as it travels."""
    body = _ENCODER.encode(word)
    return HEAD.pack(MAGIC, LINK_VERSION, len(body)) + body


class Handshake:
    """One side of one handshake."""

    def __init__(self, role: Role, myself: Myself, nonce: bytes, lane: Lane = Lane.CONTROL) -> None:
        assert len(nonce) == NONCE_BYTES
        self.role = role
        self.lane = lane
        self.state = State.GREETING
        self.peer = Address("")
        """Where the other side says that it is reached."""
        self._myself = myself
        self._mine = Greeting(LINK_VERSION, myself.cluster, myself.address, nonce, lane)
        self._theirs: Greeting | None = None
        self._buffer = bytearray()

    def begin(self) -> bytes:
        """What to send when the connection is made."""
        return pack(self._mine) if self.role is Role.DIALLER else b""

    @property
    def rest(self) -> bytes:
        """What came behind the handshake: the first bytes of frames."""
        return bytes(self._buffer)

    def feed(self, data: bytes) -> bytes:
        """Take what arrived; return what to send. Raises `Refused`; `farewell` is sent then."""
        self._buffer += data
        out = b""
        while self.state in (State.GREETING, State.PROVING):
            word = self._next_word()
            if word is None:
                break
            out += self._on_word(word)
        return out

    def farewell(self, refusal: Refused) -> bytes:
        """What the other side is told before the end."""
        return pack(Refusal(refusal.message))

    # Words --------------------------------------------------------------------------------------

    def _next_word(self) -> Word | None:
        if len(self._buffer) < HEAD.size:
            if not MAGIC.startswith(bytes(self._buffer[: len(MAGIC)])):
                raise self._refuse("this port is for members of the cluster")
            return None
        magic, version, size = HEAD.unpack_from(self._buffer)
        if magic != MAGIC:
            raise self._refuse("this port is for members of the cluster")
        if version != LINK_VERSION:
            raise self._refuse(f"this member speaks version {LINK_VERSION} of the link")
        if size > BODY_MAX:
            raise self._refuse(f"{size} bytes are too many for a handshake")
        if len(self._buffer) < HEAD.size + size:
            return None
        body = bytes(self._buffer[HEAD.size : HEAD.size + size])
        del self._buffer[: HEAD.size + size]
        try:
            return _DECODER.decode(body)
        except (msgspec.DecodeError, RecursionError) as error:
            raise self._refuse("a word of the handshake is malformed") from error

    def _on_word(self, word: Word) -> bytes:
        if isinstance(word, Refusal):
            self.state = State.REFUSED
            raise Refused(f"the other side refuses: {word.reason[:BODY_MAX]}")
        if self.state is State.GREETING and isinstance(word, Greeting):
            return self._on_greeting(word)
        if self.state is State.PROVING and isinstance(word, Proof):
            return self._on_proof(word)
        raise self._refuse("a word of the handshake came out of turn")

    def _on_greeting(self, greeting: Greeting) -> bytes:
        if len(greeting.nonce) != NONCE_BYTES or len(greeting.address) > NAME_MAX:
            raise self._refuse("a word of the handshake is malformed")
        if greeting.cluster != self._myself.cluster:
            raise self._refuse(
                f"{self._myself.address} is of cluster {self._myself.cluster},"
                f" not {greeting.cluster[:NAME_MAX]}"
            )
        self._theirs = greeting
        self.peer = Address(greeting.address)
        self.lane = greeting.lane if self.role is Role.ACCEPTER else self.lane
        self.state = State.PROVING
        if self.role is Role.ACCEPTER:
            return pack(self._mine)
        return pack(Proof(self._mac(Role.DIALLER)))

    def _on_proof(self, proof: Proof) -> bytes:
        other = Role.ACCEPTER if self.role is Role.DIALLER else Role.DIALLER
        if not hmac.compare_digest(proof.mac, self._mac(other)):
            raise self._refuse(
                f"the cluster secret of {self._myself.address} is not that of {self.peer}"
            )
        self.state = State.OPEN
        return pack(Proof(self._mac(Role.ACCEPTER))) if self.role is Role.ACCEPTER else b""

    def _mac(self, role: Role) -> bytes:
        """Of the whole conversation, in the same order on both sides."""
        assert self._theirs is not None
        dialled = (self._mine, self._theirs)
        both = dialled if self.role is Role.DIALLER else dialled[::-1]
        said = _ENCODER.encode((role.value, *both))
        return hmac.new(self._myself.secret, said, hashlib.sha256).digest()

    def _refuse(self, reason: str) -> Refused:
        self.state = State.REFUSED
        return Refused(reason)

"""The first words on a link: who knows the secret is let in, and nobody else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.ids import Address
from holdfast.shell.handshake import (
    BODY_MAX,
    HEAD,
    LINK_VERSION,
    MAGIC,
    NONCE_BYTES,
    Greeting,
    Handshake,
    Myself,
    Proof,
    Refused,
    Role,
    State,
    pack,
)

SECRET = b"a secret of some length"


def side(
    role: Role, *, cluster: str = "c", secret: bytes = SECRET, nonce: bytes = b""
) -> Handshake:
    myself = Myself(cluster, Address(f"{role.name.lower()}:1"), secret)
    return Handshake(role, myself, nonce or role.value.ljust(NONCE_BYTES, b"-"))


def talk(dialler: Handshake, accepter: Handshake) -> None:
    """Let both speak until neither has anything to say."""
    to_accepter, to_dialler = dialler.begin(), accepter.begin()
    while to_accepter or to_dialler:
        to_dialler += accepter.feed(to_accepter)
        to_accepter, to_dialler = dialler.feed(to_dialler), b""


def test_both_know_the_secret() -> None:
    dialler, accepter = side(Role.DIALLER), side(Role.ACCEPTER)
    talk(dialler, accepter)
    assert dialler.state is accepter.state is State.OPEN
    assert (dialler.peer, accepter.peer) == ("accepter:1", "dialler:1")


def test_frames_may_follow_at_once() -> None:
    dialler, accepter = side(Role.DIALLER), side(Role.ACCEPTER)
    proof = dialler.feed(accepter.feed(dialler.begin()))
    dialler.feed(accepter.feed(proof) + b"frames")
    assert dialler.rest == b"frames"


@pytest.mark.parametrize(("mine", "theirs"), [(b"x" * 16, SECRET), (SECRET, b""), (b"", SECRET)])
def test_wrong_secret_is_refused_by_who_accepts_and_told(mine: bytes, theirs: bytes) -> None:
    dialler, accepter = side(Role.DIALLER, secret=mine), side(Role.ACCEPTER, secret=theirs)
    proof = dialler.feed(accepter.feed(dialler.begin()))
    with pytest.raises(Refused, match="the cluster secret of accepter:1 is not that of dialler:1"):
        accepter.feed(proof)
    with pytest.raises(Refused, match="the other side refuses: the cluster secret of accepter:1"):
        dialler.feed(accepter.farewell(Refused("the cluster secret of accepter:1 is not yours")))
    assert dialler.state is accepter.state is State.REFUSED


def test_who_accepts_must_know_the_secret_too() -> None:
    dialler, accepter = side(Role.DIALLER), side(Role.ACCEPTER)
    dialler.feed(accepter.feed(dialler.begin()))
    with pytest.raises(Refused, match="secret"):
        dialler.feed(pack(Proof(b"\0" * 32)))


def test_another_cluster_is_refused() -> None:
    dialler, accepter = side(Role.DIALLER, cluster="green"), side(Role.ACCEPTER, cluster="blue")
    with pytest.raises(Refused, match="accepter:1 is of cluster blue, not green"):
        accepter.feed(dialler.begin())


def test_a_proof_can_not_be_sent_back() -> None:
    """1. Someone without the secret accepts. 2. It echoes greeting and proof of the dialler."""
    dialler = side(Role.DIALLER)
    proof = dialler.feed(dialler.begin())
    with pytest.raises(Refused, match="secret"):
        dialler.feed(proof)


def test_a_proof_is_worth_nothing_in_another_conversation() -> None:
    first, accepter = side(Role.DIALLER), side(Role.ACCEPTER)
    greeting = first.begin()
    proof = first.feed(accepter.feed(greeting))
    later = side(Role.ACCEPTER, nonce=b"another".ljust(NONCE_BYTES))
    later.feed(greeting)
    with pytest.raises(Refused, match="secret"):
        later.feed(proof)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "for members"),
        (b"*1\r\n", "for members"),
        (HEAD.pack(MAGIC, LINK_VERSION + 1, 5), "speaks version 1"),
        (HEAD.pack(MAGIC, LINK_VERSION, BODY_MAX + 1), "too many"),
        (HEAD.pack(MAGIC, LINK_VERSION, 3) + b"\xc1\xc1\xc1", "malformed"),
        (HEAD.pack(MAGIC, LINK_VERSION, 1000) + b"\x91" * 1000, "malformed"),
        (pack(Proof(b"x")), "out of turn"),
        (pack(Greeting(1, "c", "a:1", b"short")), "malformed"),
        (pack(Greeting(1, "c", "a" * 300, b"x" * NONCE_BYTES)), "malformed"),
    ],
)
def test_what_is_no_handshake_is_refused(data: bytes, reason: str) -> None:
    accepter = side(Role.ACCEPTER)
    with pytest.raises(Refused, match=reason):
        accepter.feed(data)
    assert accepter.state is State.REFUSED


@given(st.integers(1, 7))
def test_pieces_make_no_difference(size: int) -> None:
    dialler, accepter = side(Role.DIALLER), side(Role.ACCEPTER)

    def give(to: Handshake, data: bytes) -> bytes:
        return b"".join(to.feed(data[at : at + size]) for at in range(0, len(data), size))

    proof = give(dialler, give(accepter, dialler.begin()))
    give(dialler, give(accepter, proof))
    assert dialler.state is accepter.state is State.OPEN


@given(st.binary(max_size=200), st.sampled_from(list(Role)))
def test_no_bytes_open_a_link(data: bytes, role: Role) -> None:
    handshake = side(role)
    try:
        handshake.feed(data)
    except Refused:
        assert handshake.state is State.REFUSED
    assert handshake.state is not State.OPEN

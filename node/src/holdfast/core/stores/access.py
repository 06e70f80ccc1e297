"""How commands come to their values: what has expired is not there, what is locked is not touched.

The owner decides that a value has expired (seed 004: a backup does nothing by itself). A value is
found expired when somebody looks for it, or by the owner's own rounds (`expiry`); either way it is
removed by a mutation, so that no other holder can bring it back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from holdfast.core.stores.command import LOCKED, TOO_LARGE, WRONG_TYPE, Call
from holdfast.core.stores.containers import CONTAINER_BYTES_MAX, Container
from holdfast.core.stores.eviction import check_key, make_room
from holdfast.core.stores.expiry import has_expired
from holdfast.core.stores.fragment import Fragment, Value
from holdfast.core.stores.record import NEVER, Kind
from holdfast.core.stores.space import Space, name_of
from holdfast.errors import CommandError

AnyContainer = TypeVar("AnyContainer", bound=Container)


def live(space: Space, call: Call, key: bytes) -> tuple[Fragment, Value] | None:
    """Where a key is, and its value, unless it has expired. The key is used now."""
    found = present(space, call, key)
    if found is not None and found[0].touched_wanted:
        found[0].touched[key] = call.now
    return found


def present(space: Space, call: Call, key: bytes) -> tuple[Fragment, Value] | None:
    """The same by somebody who asks about a key, and does not use it."""
    found = space.find(key)
    if found is None:
        return None
    fragment, value = found
    if not has_expired(fragment, key, value, call.now):
        return found
    if call.may_write:
        fragment.remove(key)
    return None


def container_of(
    space: Space, call: Call, key: bytes, kind: type[AnyContainer]
) -> tuple[Fragment, AnyContainer] | None:
    """A container of this kind; a key of another kind is refused with Redis' text."""
    found = live(space, call, key)
    if found is None:
        return None
    fragment, value = found
    if not isinstance(value, kind):
        raise CommandError(WRONG_TYPE)
    return fragment, value


def container_for(
    space: Space, call: Call, key: bytes, kind: type[AnyContainer], items: Sequence[bytes]
) -> tuple[Fragment, AnyContainer]:
    """A container that these items go into, or a new one, which is here with its first change."""
    found = container_of(space, call, key, kind)
    held = kind() if found is None else found[1]
    if held.size + held.cost(items) > CONTAINER_BYTES_MAX:
        raise CommandError(TOO_LARGE)
    if found is not None:
        return found
    if kind.kind is Kind.LIST:
        fragment, settings = space.internal, space.settings_of(name_of(key))
    else:
        fragment = space.home(key)
        settings = fragment.settings
    check_key(key)
    make_room(fragment, call, (key,))
    held.expiry = call.now + settings.ttl_ms if settings.ttl_ms else NEVER
    if fragment.touched_wanted:
        fragment.touched[key] = call.now
    return fragment, held


def check_lock(space: Space, call: Call, key: bytes) -> None:
    """Refuse to touch a key that another session has locked."""
    fragment = space.look(key)
    if fragment is not None and fragment.locks:
        lock = fragment.locks.get(key)
        if lock is not None and lock.session != call.session and call.now < lock.expiry:
            raise CommandError(LOCKED)

"""The data of one partition: a fragment for each name, and one for all that has no name of its own.

Rules (seed 000 "Fragmented Migration"; seed 004; `design/4` "Keys and structures")
-----------------------------------------------------------------------------------
* The name of a key is what stands before its first `:`, else `default`.
* Strings, hashes and sets are *fragmented*: those of one name form a fragment. Lists and queues are
  not: those of a whole partition share the *internal* fragment.
* The internal fragment goes to as many backups as any name asks for. How many of these a write of a
  list waits for follows the list's name, and so does its life (`ttl_ms`); idle time, limits and
  eviction are for what is fragmented.
* What jobs have laid aside (`staging`) is a fragment of its own, with a name that no key has. It
  goes to as many backups as the internal one, and nobody is shown its keys.
* A key has one kind. Who looks for a key looks in the fragment of its name, then in the internal
  one.
* Names cost memory in each partition. From the `NAMES_MAX`th on, the keys of a new name live in the
  fragment `default`, and stay there: once a foreign key is in it, no new name begins in this
  partition, so a key is looked for in one place only. Whoever fills a space as a backup learns of
  that when its reign begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from holdfast.core.stores.fragment import Fragment, Value, Written
from holdfast.core.stores.settings import Eviction, NameSettings
from holdfast.ids import PartitionId

DEFAULT: Final = b"default"
INTERNAL: Final = b""
"""The name of the internal fragment: no key's name is empty."""
STAGING: Final = b":staging"
"""The name of what is laid aside: no key's name has a colon."""
NAMES_MAX: Final = 256

SettingsOf = Callable[[bytes], NameSettings]


def name_of(key: bytes) -> bytes:
    """The structure that a key belongs to."""
    end = key.find(b":")
    return key[:end] if end > 0 else DEFAULT


class Space:
    """One partition's fragments."""

    __slots__ = (
        "crowded",
        "epoch",
        "fragments",
        "internal",
        "mark",
        "partition",
        "recent",
        "settings_of",
        "written",
    )

    def __init__(
        self,
        settings_of: SettingsOf,
        epoch: int,
        partition: PartitionId = PartitionId(0),
        written: Written | None = None,
    ) -> None:
        self.settings_of = settings_of
        self.epoch = epoch
        self.partition = partition
        self.written = Written() if written is None else written
        """What the owner has changed since somebody looked (`Fragment.written`)."""
        plain = replace(settings_of(INTERNAL), idle_ms=0, entries_max=0, eviction=Eviction.NONE)
        self.internal = Fragment(INTERNAL, plain, epoch, partition, self.written)
        self.fragments: dict[bytes, Fragment] = {INTERNAL: self.internal}
        self.crowded = False
        """Whether `default` holds keys of other names."""
        self.recent: Fragment | None = None
        """The one that was looked for last by a name with a colon; and with what its keys begin."""
        self.mark = b""

    def __iter__(self) -> Iterator[Fragment]:
        return iter(self.fragments.values())

    def shown(self) -> Iterator[Fragment]:
        """Those whose keys applications may see."""
        return (each for each in self.fragments.values() if each.name != STAGING)

    def reign(self, epoch: int) -> None:
        """A new owner's epoch begins; what it has may have come in any way."""
        self.epoch = epoch
        default = self.fragments.get(DEFAULT)
        if default is not None:
            self.crowded = any(
                name_of(key) != DEFAULT for keys in (default.records, default.locks) for key in keys
            )
        for fragment in self.fragments.values():
            fragment.reign(epoch)

    def named(self, name: bytes) -> Fragment:
        """The fragment of a name, as somebody else says that there is one."""
        fragment = self.fragments.get(name)
        if fragment is None:
            settings = self.internal.settings if name == STAGING else self.settings_of(name)
            fragment = self.fragments[name] = Fragment(
                name, settings, self.epoch, self.partition, self.written
            )
        return fragment

    def forget(self, name: bytes) -> None:
        """A fragment is here no more; the internal one is always there."""
        if name == INTERNAL:
            self.internal.clear()
            self.internal.take()
        else:
            self.fragments.pop(name, None)
            self.recent = None
            self.crowded = self.crowded and name != DEFAULT

    def again(self, key: bytes) -> Fragment | None:
        """The fragment of a key's own name, if there is one; most keys have the last one's."""
        recent = self.recent
        if recent is not None and key.startswith(self.mark):
            return recent
        name, colon, _ = key.partition(b":")
        if not (colon and name):
            return self.fragments.get(DEFAULT)
        found = self.fragments.get(name)
        if found is not None:
            self.recent, self.mark = found, name + b":"
        return found

    def look(self, key: bytes) -> Fragment | None:
        """The fragment where a string, hash or set of this key would be, if there is one."""
        end = key.find(b":")
        fragment = self.fragments.get(key[:end] if end > 0 else DEFAULT)
        if fragment is None and self.crowded:
            return self.fragments[DEFAULT]
        return fragment

    def home(self, key: bytes) -> Fragment:
        """The fragment where a string, hash, set or lock of this key belongs."""
        fragment = self.look(key)
        if fragment is not None:
            return fragment
        name = name_of(key)
        if name != DEFAULT and len(self.fragments) > NAMES_MAX:
            self.crowded = True
            name = DEFAULT
        return self.named(name)

    def find(self, key: bytes) -> tuple[Fragment, Value] | None:
        """Where a key of any kind is, and its value; whether it has expired is not looked at."""
        fragment = self.look(key)
        if fragment is not None:
            value = fragment.records.get(key)
            if value is not None:
                return fragment, value
        value = self.internal.records.get(key)
        return None if value is None else (self.internal, value)

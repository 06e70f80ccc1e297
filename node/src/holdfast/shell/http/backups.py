"""`/v1/backups`: one backup of all members, made through any of them; and what there is.

    asked ─► one after the other seals ─► all keep their parts ─► complete
                 └── one can't ──► refused; nothing is kept

Rules (`design/5`, "Backup": a cut in two phases; writes are not stopped)
------------------------------------------------------------------------
* Members with files take part, all that are listed. If one does not answer, there is no backup.
* They seal one after the other, and begin with their parts one after the other: where some share a
  machine, clients would wait for all of them at once. Parts are made at the same time, and each is
  a prefix of what its member has written: whatever was acknowledged before it was asked for is in
  it. Which copy of a partition counts is settled by those who start with it: they recall.
* What one of them could not make is missing in the catalogue; to ask again under the same name
  makes what is missing.
* A part's files can be fetched from its member, by whoever knows the cluster's secret: that is how
  a backup leaves the members (ADR 24). Nothing else of a member's directory can.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Mapping, Sequence
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from fastapi import APIRouter, Depends
from fastapi.responses import FileResponse

from holdfast.core.views import Member
from holdfast.errors import DiskFailed, IllegalArgument, StorageError
from holdfast.shell.http.cluster import view_of
from holdfast.shell.http.peers import Peers
from holdfast.shell.http.ports import MemberPort
from holdfast.shell.http.refusals import Kind, Refused
from holdfast.shell.http.security import Guard, same_origin
from holdfast.storage.backup import Index, Part
from holdfast.storage.catalogue import check_name
from holdfast.wire.api.backups import (
    BackupModel,
    BackupOrder,
    BackupPart,
    BackupsModel,
    BackupWish,
    OwnParts,
)

OWN_PATH: Final = "/v1/members/self/backups"
PART_SECONDS: Final = 3_600.0
"""How long a member may take for its part."""
REST_SECONDS: Final = 0.05
"""Between what is asked of two members: each takes some milliseconds at once to begin."""


class BackupRoutes:
    """Backups over HTTP."""

    def __init__(
        self, member: MemberPort, peers: Peers, problems: dict[int | str, dict[str, Any]]
    ) -> None:
        self._member = member
        self._peers = peers
        self._one = asyncio.Lock()
        """Parts build on one another: one at a time."""
        secret = Depends(Guard(member).needs_secret)
        guards = [Depends(same_origin), secret]
        self.router = APIRouter(tags=["backups"], responses=problems)
        add = self.router.add_api_route
        add("/v1/backups", self.get_backups, methods=["GET"], dependencies=[secret])
        add("/v1/backups", self.post_backup, methods=["POST"], dependencies=guards)
        add(OWN_PATH, self.get_own, methods=["GET"], dependencies=[secret], include_in_schema=False)
        add("/v1/backups/{name}", self.delete_backup, methods=["DELETE"], dependencies=guards)
        add_done = partial(
            add, dependencies=guards, include_in_schema=False, status_code=HTTPStatus.NO_CONTENT
        )
        add(OWN_PATH, self.post_own, methods=["POST"], dependencies=guards, include_in_schema=False)
        own = f"{OWN_PATH}/{{name}}"
        add_done(own, self.delete_own, methods=["DELETE"])
        files = f"{own}/{{file:path}}"
        add(
            files,
            self.get_file,
            methods=["GET", "HEAD"],
            dependencies=[secret],
            include_in_schema=False,
        )

    async def get_backups(self) -> BackupsModel:
        """What all members have kept."""
        view_of(self._member)
        own = await self.get_own()
        others = [each for each in self._others() if each.persistent]
        asked = (self._peers.ask_model(each, OWN_PATH, OwnParts) for each in others)
        told = dict(zip((each.name for each in others), await asyncio.gather(*asked), strict=True))
        silent = [name for name, parts in told.items() if parts is None]
        return BackupsModel(
            backups=together([own, *(parts for parts in told.values() if parts is not None)]),
            silent_members=silent,
        )

    async def post_backup(self, wish: BackupWish) -> BackupModel:
        """Make a backup of all members with files; it is answered when every part is there. Writes
        go on meanwhile. Under the name of one that is not complete, what is missing is made."""
        view = view_of(self._member)
        name = (
            wish.name or f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{secrets.token_hex(2)}"
        )
        try:
            check_name(name)
        except IllegalArgument as error:
            raise Refused(Kind.INVALID, f"body.name: {error.message}") from error
        members = [each for each in view.members if each.persistent]
        if not members:
            raise Refused(Kind.ILLEGAL_STATE, "no member has files (data_dir): nothing is to keep")
        ids: list[str] = [each.id for each in members]
        seal, keep = (BackupOrder(name=name, parts=ids, seal=each) for each in (True, False))
        for each in members:
            await self._order(each, seal)
            await asyncio.sleep(REST_SECONDS)
        kept = (
            self._order(each, keep, after=number * REST_SECONDS)
            for number, each in enumerate(members)
        )
        (made,) = together(await asyncio.gather(*kept))
        return made

    async def delete_backup(self, name: str) -> BackupsModel:
        """Remove a backup at all members; files that a later one refers to stay until that one is
        removed, too. To remove what is not there is no error."""
        self._check(name)
        view = view_of(self._member)
        others = [each for each in view.members if each.persistent]
        await asyncio.gather(*(self._delete(each, name) for each in others))
        return await self.get_backups()

    async def _delete(self, member: Member, name: str) -> None:
        if member.id == self._member.node.me.id:
            await self.delete_own(name)
            return
        path = f"{OWN_PATH}/{name}"
        done = await self._peers.order(member, path, b"", PART_SECONDS, method="DELETE")
        if done.refused:
            raise Refused(Kind.NO_ANSWER, f"{member.name} keeps its part: {done.refused}")

    @staticmethod
    def _check(name: str) -> None:
        try:
            check_name(name)
        except IllegalArgument as error:
            raise Refused(Kind.INVALID, f"name: {error.message}") from error

    async def _order(self, member: Member, order: BackupOrder, after: float = 0.0) -> OwnParts:
        await asyncio.sleep(after)
        if member.id == self._member.node.me.id:
            return await self.post_own(order)
        body = order.model_dump_json().encode()
        done = await self._peers.order(member, OWN_PATH, body, PART_SECONDS)
        if done.refused:
            raise Refused(Kind.NO_ANSWER, f"{member.name} keeps no part of it: {done.refused}")
        return OwnParts.model_validate_json(done.content)

    def _others(self) -> tuple[Member, ...]:
        return tuple(self._member.node.context.others())

    # One member's part ----------------------------------------------------------------------------

    async def get_own(self) -> OwnParts:
        """For the other members: what is kept here."""
        return self._own(await self._member.backups())

    def _own(self, kept: Mapping[str, Index]) -> OwnParts:
        return OwnParts(
            parts={name: self._part(name, index) for name, index in kept.items()},
            needs={name: list(index.parts) for name, index in kept.items()},
        )

    def _part(self, name: str, index: Index) -> BackupPart:
        return BackupPart(
            member=self._member.node.me.name,
            id=index.member,
            created=index.created_s,
            previous=index.previous,
            directory=self._member.backup_place(name),
            files=len(index.files),
            bytes=index.total_bytes,
            own_bytes=index.own_bytes,
        )

    async def post_own(self, order: BackupOrder) -> OwnParts:
        """For the other members: seal, or keep this member's part; what of it is kept then."""
        view = view_of(self._member)
        part = Part(order.name, tuple(order.parts), view.cluster)
        try:
            async with self._one:
                if not order.seal:
                    return self._own({order.name: await self._member.back_up(part)})
                await self._member.seal()
                return self._own({})
        except DiskFailed as error:
            raise Refused(Kind.UNAVAILABLE, f"the disk failed: {error.message}") from error
        except (StorageError, OSError) as error:
            raise Refused(Kind.NO_ROOM, f"the part can't be written: {error}") from error

    async def delete_own(self, name: str) -> None:
        """For the other members: keep this member's part no more."""
        self._check(name)
        async with self._one:
            await self._member.forget_backup(name)

    async def get_file(self, name: str, file: str) -> FileResponse:
        """For whoever carries backups away: one file of a part."""
        self._check(name)
        path = await asyncio.to_thread(file_below, self._member.backup_place(name), file)
        if path is None:
            raise Refused(Kind.NOT_FOUND, f"the part {name} has no file {file}")
        return FileResponse(path, media_type="application/octet-stream")


def file_below(place: str, file: str) -> Path | None:
    """That file, if it is there and really below."""
    folder = Path(place).resolve()
    path = (folder / file).resolve()
    return path if path.is_relative_to(folder) and path.is_file() else None


def by_member(part: BackupPart) -> tuple[str, str]:
    """Whoever is asked names them in this order."""
    return part.member, part.id


def together(own: Sequence[OwnParts]) -> list[BackupModel]:
    """The parts of all members, by backup; of one member alone, nobody else is missed."""
    names = {name: None for each in own for name in each.parts}
    found = []
    for name in names:
        parts = sorted((each.parts[name] for each in own if name in each.parts), key=by_member)
        needed = dict.fromkeys(need for each in own for need in each.needs.get(name, ()))
        missing = [each for each in needed if each not in {part.id for part in parts}]
        found.append(
            BackupModel(
                name=name,
                created=max(part.created for part in parts),
                complete=not missing,
                missing=missing,
                bytes=sum(part.bytes for part in parts),
                own_bytes=sum(part.own_bytes for part in parts),
                parts=parts,
            )
        )
    return sorted(found, key=lambda each: (each.created, each.name))

"""Looking at the cluster through a member of it, and telling the board what was seen."""

from __future__ import annotations

from holdfast.cli.dev.board import Board, Held, Place, Sight
from holdfast.cli.migrations import summary
from holdfast.cli.top import Glances, Load
from holdfast.client.http import HttpClient
from holdfast.errors import ClientError, RemoteProtocolError
from holdfast.ids import MemberId
from holdfast.wire.api.cluster import ClusterModel
from holdfast.wire.api.partitions import MigrationsModel

ANSWER_SECONDS = 5.0


class Watch:
    """Asks one member as long as it answers, then another."""

    def __init__(self, board: Board, secret: bytes) -> None:
        self._board = board
        self._secret = secret
        self._asked = ""
        self._client: HttpClient | None = None
        self._glances: Glances | None = None

    async def look(self) -> None:
        """Look once. Afterwards the board knows how things are, or why nobody can say."""
        ready = [place for place in self._board.places if place.ready]
        if not ready:
            self._board.problem = "no member is ready"
            return
        try:
            cluster, moves, loads = await (await self._glances_at(ready[0])).look()
        except (ClientError, RemoteProtocolError) as error:
            self._board.problem = error.message
            await self.close()
            return
        self._board.problem = ""
        self._board.sight = sight_of(cluster, moves, loads)

    async def _glances_at(self, place: Place) -> Glances:
        url = f"http://{place.who.http}" if place.who is not None else ""
        if self._glances is None or url != self._asked:
            await self.close()
            self._asked = url
            self._client = HttpClient(url, secret=self._secret, answer_seconds=ANSWER_SECONDS)
            self._glances = Glances(self._client)
        return self._glances

    async def close(self) -> None:
        """Ask nobody any more."""
        if self._client is not None:
            await self._client.close()
        self._client = self._glances = None


def sight_of(cluster: ClusterModel, moves: MigrationsModel | None, loads: dict[str, Load]) -> Sight:
    """What the board needs of what was answered."""
    pending = cluster.pending
    return Sight(
        state=cluster.state.value,
        pending="" if pending is None else f"{pending.target} waits: {pending.reason}",
        master=MemberId(cluster.master),
        safe=cluster.safety.safe,
        reasons=tuple(cluster.safety.reasons),
        moving=summary(moves) if moves is not None and moves.remaining else "",
        held={
            MemberId(each.id): Held(
                each.owned_partitions,
                each.backup_partitions,
                loads[each.name].commands_per_second if each.name in loads else None,
            )
            for each in cluster.members
        },
    )

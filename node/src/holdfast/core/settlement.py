"""A new master's first work: what is the newest table, and how did the running migrations end?

Rules (seed 002 §1.2, §2.2; `design/3` §2, §3, §9)
--------------------------------------------------
* Before it publishes, lets anyone in, or grants a lease, a new master asks **every** member of its
  view for its table, its completed migrations and its active ones. Each answers or leaves.
* Per partition the row with the greatest version wins. A commit that reached a destination is
  therefore kept, and one that reached nobody is not.
* A migration that is active somewhere and whose partition still has the version from before it is
  rolled back: the row gets version + 2. One whose partition has a newer version has ended; its
  participants learn it from the row, which is published with its completed entry.
* Where the table has one version for all rows, it has one again: a commit that reached only its
  destination left the others behind.
* A row that a member has and has not seen published is published to it again, so that it may serve
  it (`participation`).
* The stable table of the newest transition wins.
* When a whole cluster comes back from files, members that are listed may take long to start; who is
  waited for, and for how long, is said by the policy (`recovery`, `mastership.awaited_from_files`).

States
------
    ASKING ──all members of the view have reported──► settled (the mastership leads)
      └── a newer term, or the mandate is over ──► nothing was changed

What can go wrong
-----------------
* *A member reports, then another master's publication reaches it.* It can't: to answer it took the
  view of this term, and follows no older one.
* *The new master dies before it has published.* It changed nothing elsewhere; the next one asks
  again, and finds the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.core.context import MASTER, Context
from holdfast.core.effects import NoticeKind
from holdfast.core.membership import Membership
from holdfast.core.messages import (
    Completed,
    Fetch,
    Migration,
    Origin,
    Outcome,
    Report,
    StableTable,
)
from holdfast.core.participation import Participation
from holdfast.core.publication import Publisher
from holdfast.core.recovery import choose
from holdfast.core.table import UNKNOWN, Row
from holdfast.core.versioning import decided, levelled
from holdfast.core.views import Member, View
from holdfast.ids import MemberId, PartitionId

ASK_AGAIN = MASTER + "fetch again"


class Settlement:
    """Asking everyone, and settling what they say."""

    def __init__(
        self,
        context: Context,
        membership: Membership,
        participation: Participation,
        publisher: Publisher,
    ) -> None:
        self.context = context
        self.membership = membership
        self.participation = participation
        self.publisher = publisher
        self.reports: dict[MemberId, tuple[int, Report]] = {}

    # A member's side ------------------------------------------------------------------------------

    def on_fetch(self, origin: Origin, message: Fetch) -> None:
        """Tell the new master what I know; I follow nobody older from here."""
        self.membership.install(message.view)
        if self.membership.follows(origin, message.view.term) and self.context.listed:
            self.context.send(origin.address, self._report(message))

    def _report(self, message: Fetch) -> Report:
        context, participation = self.context, self.participation
        same = context.table.stamp == message.stamp
        return Report(
            term=message.view.term,
            stamp=context.table.stamp,
            rows=() if same else context.table.rows,
            completed=tuple(e for es in participation.completed.values() for e in es),
            active=tuple(active.migration for active in participation.active.values()),
            unpublished=tuple(participation.unpublished),
            stable=context.stable,
        )

    # The master's side ----------------------------------------------------------------------------

    def begin(self) -> None:
        """A mastership begins."""
        self.reports = {}
        self.ask()

    def ask(self) -> None:
        """Ask whoever has not reported."""
        context = self.context
        context.timers.set(ASK_AGAIN, context.now + context.config.retry_ms)
        for member in self.missing():
            self.ask_member(member)

    def ask_member(self, member: Member) -> None:
        """Ask one member."""
        view = self.context.view
        assert view is not None
        self.context.send(member.address, Fetch(view, self.context.table.stamp))

    def missing(self) -> tuple[Member, ...]:
        """Members of the view that have not reported."""
        return tuple(
            member
            for member in self.context.others()
            if self.reports.get(member.id, (-1, None))[0] != member.incarnation
        )

    def on_report(self, origin: Origin, message: Report) -> None:
        """One more has answered."""
        view = self.context.view
        if view is None or message.term != view.term:
            return
        if view.has(origin.id, origin.incarnation):
            self.reports[origin.id] = (origin.incarnation, message)

    def advance(self) -> None:
        """Repeat the question."""
        if self.context.timers.due(ASK_AGAIN, self.context.now):
            self.ask()

    def settle(self) -> None:
        """Everyone has reported: make the newest table mine, and end what was running."""
        context, view = self.context, self.context.view
        assert view is not None
        mine = context.table.rows
        tables: dict[MemberId, tuple[Row, ...]] = {context.me.id: mine}
        for member, report in self._reports():
            tables[member] = report.rows or mine
        choice = choose(context.config.recovery_policy, tables, ())
        taken = context.table.apply(choice.rows)
        if view.recovering:
            detail = f"{len(choice.leaders)} led, {choice.overruled} partitions settled one by one"
            context.notice(NoticeKind.RECOVERED, view.cluster, detail)
        self._adopt_stable(view)
        self.publisher.begin()
        for member, report in self._reports():
            versions = [int(row.version) for row in tables[member]]
            for partition in report.unpublished:
                versions[partition] = UNKNOWN
            self.publisher.subscribe(member, versions)
        self.publisher.hold_what_is_lacking()
        self.publisher.publish_here(context.table.rows, taken)
        self._end_migrations(view)
        self.publisher.change(levelled(context.table, view.level))

    def _reports(self) -> Iterator[tuple[MemberId, Report]]:
        for member in self.context.others():
            yield member.id, self.reports[member.id][1]

    def _adopt_stable(self, view: View) -> None:
        tables = [report.stable for _, report in self._reports()]
        self.membership.keep_stable(newest_stable(view, [*tables, self.context.stable]))

    def _end_migrations(self, view: View) -> None:
        """Roll back what nobody has committed; tell how the rest ended."""
        table = self.context.table
        for entry in self._known_ends():
            self.publisher.remember(entry)
        for migration in self._active():
            held = table.row(migration.partition)
            if held.version > migration.version_before:
                continue
            row = held.changed(migration.version_failed, migration.before, migration.id.term)
            rolled_back = Completed(migration, Outcome.FAILED)
            self.publisher.change(decided(table, view.level, row), (rolled_back,))
            self.context.notice(
                NoticeKind.MIGRATION_ENDED, f"partition {migration.partition}", "rolled back"
            )

    def _known_ends(self) -> Iterator[Completed]:
        """Completed migrations that explain a row as it is now, each once."""
        lists = [report.completed for _, report in self._reports()]
        lists += list(self.participation.completed.values())
        seen: dict[tuple[int, int], None] = {}
        for entry in (entry for entries in lists for entry in entries):
            key = (entry.migration.id.term, entry.migration.id.sequence)
            row = self.context.table.row(entry.migration.partition)
            if key not in seen and entry.version_after == row.version:
                seen[key] = None
                yield entry

    def _active(self) -> Iterator[Migration]:
        seen: dict[PartitionId, None] = {}
        lists = [report.active for _, report in self._reports()]
        lists.append(tuple(active.migration for active in self.participation.active.values()))
        for migration in (migration for migrations in lists for migration in migrations):
            if migration.partition not in seen:
                seen[migration.partition] = None
                yield migration


def newest_stable(view: View, tables: list[StableTable | None]) -> StableTable | None:
    """The stable table of the transition that the view names, if anyone has it."""
    for table in tables:
        if table is not None and (table.term, table.version) == view.stable:
            return table
    return None

"""Faults stay within what a cluster can survive."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.core.config import RecoveryPolicy
from holdfast.core.events import Received
from holdfast.core.messages import NewView
from holdfast.core.node import Node
from holdfast.ids import Version
from holdfast.sim.bugs import mixes
from holdfast.sim.options import Options
from holdfast.sim.process import Process
from holdfast.sim.run import Run
from holdfast.sim.timeline import SECOND

LONG_ENOUGH_US = 20 * SECOND
"""Four members have found each other, and whoever has a say is a voter."""


def formed(arbiter_us: int | None) -> tuple[Run, list[Process]]:
    """Four data members with files, to whom nothing happens."""

    def calm(options: Options) -> Options:
        options = mixes.coming_back(options)
        return replace(
            options,
            config=replace(options.config, recovery_policy=RecoveryPolicy.MOST_RECENT),
            shell=replace(options.shell, arbiter_us=arbiter_us),
        )

    run = Run(1, tune=calm)
    for site in run.options.sites:
        run.world.add_site(site)
        run.world.launch(site)
    run.world.run_until(LONG_ENOUGH_US)
    processes = run.world.processes
    for process in processes:
        view = process.node.view
        assert view is not None
        assert len(view.voters) == len(processes)
    return run, processes


def test_a_member_with_files_may_end_while_another_one_goes() -> None:
    run, (first, second, *_) = formed(arbiter_us=20_000)
    first.going = True
    assert run.faults.may_crash(first)
    assert run.faults.may_crash(second)


@pytest.mark.parametrize(("arbiter_us", "may"), [(20_000, False), (None, True)])
def test_the_last_one_that_stays_does_not_end_where_the_others_could_go_on(
    arbiter_us: int | None, may: bool
) -> None:
    run, (stays, *others) = formed(arbiter_us)
    for process in others:
        process.going = True
    assert run.faults.may_crash(stays) is may
    assert run.faults.may_crash(others[0])


@pytest.mark.parametrize("waits", [False, True])
def test_a_view_that_waits_at_a_door_is_as_good_as_held(*, waits: bool) -> None:
    """It was taken back, but who stands still will learn of it first: then of its two voters one is
    not a majority (seed 11563)."""
    run, (first, second, third, _) = formed(None)
    first.site.persistent = False
    view = third.node.view
    assert view is not None
    two = tuple(each for each in view.members if each.id in (first.member.id, second.member.id))
    taken_back = replace(view, members=two, version=Version(view.version + 1))
    if waits:
        third.inbox.append(Received(first.node.origin, NewView(taken_back)))
    assert run.faults.may_crash(first) is not waits


@pytest.mark.parametrize("came_back", [False, True])
def test_who_has_just_come_back_from_files_does_not_stand_for_its_stay_before(
    *, came_back: bool
) -> None:
    """One of two voters had come back, and the other was destroyed before it let it in: whoever
    comes back can't tell whether that one had decided anything (seed 2837)."""
    run, (first, second, *_) = formed(arbiter_us=20_000)
    first.site.persistent = False
    view = first.node.view
    assert view is not None
    two = tuple(each for each in view.members if each.id in (first.member.id, second.member.id))
    two = tuple(replace(m, incarnation=m.incarnation - (came_back and m is two[1])) for m in two)
    for process in run.world.processes:
        node = process.node
        assert isinstance(node, Node)
        node.context.view = replace(view, members=two, version=Version(view.version + 1))
    assert first.node.is_master
    assert run.faults.may_crash(first) is not came_back

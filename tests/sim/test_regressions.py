"""Seeds that broke an invariant once, each with the name of what went wrong.

They broke before there were applications, and run without them. A seed keeps its meaning only as
long as options are drawn, and members behave, as they did then.
So each rule that was mended has a test of its own besides, named here in brackets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pytest

from holdfast.sim.bugs import mixes
from holdfast.sim.options import Options
from holdfast.sim.run import Run

CORE: Final = (
    (
        452,
        "a removal needed a voter that died",
        "A silent voter was taken out, another died before it confirmed that, and the two that"
        " lived could not decide without it for ever [core/test_withdrawal].",
    ),
    (
        608,
        "a removal needed a voter that died, on disks",
        "The same where the silent one comes back from files [core/test_withdrawal].",
    ),
    (
        1014,
        "a leaving master needed a voter that died",
        "The master had taken itself out, and the rest could not confirm that"
        " [core/test_withdrawal].",
    ),
    (
        1413,
        "a removal and a newcomer",
        "The change that could not be committed also kept the door shut [core/test_withdrawal].",
    ),
    (
        3296,
        "a demotion needed a voter that died",
        "Becoming lite is a change of the voters like any other [core/test_withdrawal].",
    ),
    (
        3830,
        "a voter died at the door",
        "A lone voter made another of a newcomer that died at once [core/test_withdrawal].",
    ),
    (
        1132,
        "a founding that reached nobody",
        "Its founder kept a cluster that never came to be, while the others founded another"
        " [core/test_forming].",
    ),
    (
        2866,
        "a founding that reached nobody, asked for a state",
        "The same; requests at that founder were never answered [core/test_forming].",
    ),
    (
        7711,
        "a promise to a second founder",
        "Whoever had promised it could learn nothing of the first view, and not vote in it"
        " [core/test_forming].",
    ),
    (
        8911,
        "a second founder that could not go on",
        "It had claimed a term itself and took no view of an older one [core/test_forming].",
    ),
    (
        2444,
        "a recovery waited for a member that was to leave",
        "Asked to leave, it did not ask for its place, and the policy `full` waits for ever"
        " [core/test_forming].",
    ),
    (
        992,
        "a recovery of eleven waited for a member that was to leave",
        "The same with an arbiter [core/test_forming].",
    ),
    (
        3781,
        "the last voter left two newcomers",
        "Nobody that was left had a vote [core/test_service].",
    ),
    (
        2043,
        "a copy was given up for one that had not begun",
        "The owner had not heard that it holds the partition [core/test_execution].",
    ),
    (
        8346,
        "a partition was lost while its holder stood at the door",
        "It was let in by the very step that gave away what it held [core/test_rebalancing].",
    ),
    (
        10256,
        "a dead stay was let in",
        "Its request came after the word of its death, and it left in the same step"
        " [core/test_joining].",
    ),
)
"""What the core did wrong."""

HARNESS: Final = (
    (
        550,
        "a loss was told by a step that was cut off",
        "The checker saw the step only when the process went on, and the new owner before"
        " [sim/test_world].",
    ),
    (
        2293,
        "a loss was told by a step that ended in a crash",
        "The checker never saw that step [sim/test_world].",
    ),
    (
        8277,
        "a loss was told by a step that ended the stay",
        "The checker never saw the last step of a member that leaves [sim/test_world].",
    ),
    (
        2746,
        "a view that nobody ever saw",
        "It was made and lost before it was on disk, so its maker made that version again"
        " [sim/test_checkers_forgive].",
    ),
    (
        1384,
        "a plan gave back a copy that it had added",
        "Never fewer than min(now, target) is said of the plan, not of each step"
        " [sim/test_checkers_forgive].",
    ),
    (
        2700,
        "a master that settled held an older row",
        "It was compared with its own row, and not with the one that others had committed"
        " [sim/test_checkers_forgive].",
    ),
    (
        875,
        "a state was changed and a stranger let in by one step",
        "Two versions of the view were made, and the second was judged by the state before both"
        " [sim/test_checkers_forgive].",
    ),
    (
        2754,
        "everyone left but members that were cut off",
        "The workload counted these among those that stay.",
    ),
    (
        5846,
        "the last member that stayed was destroyed",
        "The other voter had been asked to leave, and did.",
    ),
    (
        7862,
        "a blackout took data without files",
        "A lite site whose member had been promoted counted as lite.",
    ),
    (
        3014,
        "a blackout before the arbiter's word",
        "Who comes back from files can't tell whether the lost member died in time.",
    ),
    (
        250,
        "a founder was destroyed while it founded",
        "Three of four initial members had met, and a majority of four was needed.",
    ),
)
"""What the simulator expected wrongly, or did beyond what can be survived."""

SEEDS: Final = (*CORE, *HARNESS)


@pytest.mark.parametrize(("seed", "name", "why"), SEEDS, ids=[f"{s[0]} {s[1]}" for s in SEEDS])
def test_seed_that_broke_once_holds(seed: int, name: str, why: str) -> None:
    run = Run(seed, tune=lambda options: replace(options, clients=0))
    assert run.verdict().violation is None, f"{name}: {why}"


@pytest.mark.parametrize(("seed", "mix"), [(3124, None), (4, mixes.starved)])
def test_the_last_one_that_stays_does_not_end_while_another_leaves(
    seed: int, mix: Callable[[Options], Options] | None
) -> None:
    """Two voters were left. One had asked to leave; the other ended, to come back from its
    files, and an arbiter said that it was dead. So the leaver went on alone and left, with the only
    newest view and data in its files: whoever came back waited for it for ever
    [sim/test_faults]."""
    assert Run(seed, tune=mix).verdict().violation is None


@pytest.mark.parametrize("seed", [1044, 1186])
def test_a_loss_of_which_nobody_heard_is_none(seed: int) -> None:
    """It was told twice, or by a master that gave the partition to itself and came back with that
    from its own file; then members went on that had the data [sim/test_checkers]."""
    assert Run(seed, tune=mixes.starved).verdict().violation is None


@pytest.mark.parametrize("seed", [92, 190])
def test_a_copy_that_began_empty_says_so_when_it_is_to_lead(seed: int) -> None:
    """A member lost its power before its row was on its disk. It got the row again as if it were
    new, and led with nothing, without a word [core/data/test_holdings]."""
    assert Run(seed, tune=mixes.losing_power).verdict().violation is None


def test_an_owner_goes_on_without_a_backup_when_that_one_knows() -> None:
    """The master was the owner, and only it and the new backup had heard of that one. Both died:
    the backup before led, and did not know what it lacked [core/test_publication]."""
    assert Run(2031).verdict().violation is None


@pytest.mark.parametrize(("seed", "mix"), [(319, mixes.coming_back), (93, None), (2410, None)])
def test_who_never_led_does_not_take_itself_for_an_owner_after_a_restart(
    seed: int, mix: Callable[[Options], Options] | None
) -> None:
    """The first took its row from its files; the second had it in none when it went by it
    [core/test_publication]; the third had only been taken out for a moment, and forgot that it
    withheld it [core/test_membership]."""
    assert Run(seed, tune=mix).verdict().violation is None


def test_who_waits_for_others_to_hear_of_its_row_asks_for_no_other_reign() -> None:
    """It had come back from its files as master and owner. Each of its steps made a row that
    nobody had heard of, and asked for the next [scenario old_master_is_told_again...]."""
    assert Run(14).verdict().violation is None


def test_a_change_that_cannot_be_committed_is_not_made_over_and_over() -> None:
    """Who had restarted was taken out before who was silent, in each step anew
    [core/test_mastership]."""
    assert Run(347).verdict().violation is None


def test_an_answer_comes_too_late_for_its_partition() -> None:
    """One message of a turn ended what the next one was an answer to [core/data/test_pulling]."""
    assert Run(102, tune=mixes.moving).verdict().violation is None


def test_what_comes_of_looking_at_a_step_waits_for_its_effects() -> None:
    """A client gave up its key when a loss was announced, and its connection ended in the middle of
    that very step: what the owner wrote in the next one came to its disk before what it had written
    in this one [sim/test_world]."""
    assert Run(3302).verdict().violation is None


def test_a_frame_waits_for_no_row_that_leaves_nothing_to_its_receiver() -> None:
    """It waited for ever, and behind it every write of its owner [core/data/test_replicas]."""
    assert Run(5324).verdict().violation is None


def test_what_could_not_be_repaired_when_the_grace_ended_is_repaired_later() -> None:
    """A migration was running, and only the members' next change was waited for
    [core/test_rebalancing]."""
    assert Run(5370).verdict().violation is None


def test_a_backup_that_did_not_resume_says_so_when_it_leads() -> None:
    """A name without backups was gone with its owner, and who led next said nothing of it
    [core/data/test_holdings]."""
    assert Run(7543).verdict().violation is None


def test_what_stands_where_the_stable_table_has_a_hole_stays_there() -> None:
    """The table was written down while data moved. A backup that had come to its place by then was
    sent back to a colder one, and somebody else got a copy instead [core/test_repair]."""
    assert Run(2835).verdict().violation is None


@pytest.mark.parametrize("seed", [1200, 3906])
def test_who_has_what_is_lost_by_no_row_does_not_hold_it(seed: int) -> None:
    """Who had been displaced, as the last two that had it were destroyed at once; a destination
    whose word did not come through, as the source was [sim/test_checkers_forgive]."""
    assert Run(seed).verdict().violation is None


def test_the_last_voter_does_not_leave_before_those_that_ask_are_heard() -> None:
    """It had just begun to lead, and they had been refused until then: it took all data along, and
    nobody was left who could decide anything [core/test_last_voter]."""
    assert Run(3082).verdict().violation is None


def test_a_name_that_is_forgotten_leaves_no_lock_on_disk() -> None:
    """After a restart a backup had one that its owner had let go of [core/data/test_copies]."""
    assert Run(170, tune=mixes.coming_back).verdict().violation is None


def test_what_a_pull_brings_after_its_migration_failed_makes_no_copy_whole() -> None:
    """The next migration began in the same turn, of the same owner for the same index: what was
    held was begun anew, the pull went on, and a copy that lacked the first half of it was taken for
    whole."""
    assert Run(6841).verdict().violation is None


def test_a_table_of_one_version_has_one_again_after_two_masters_died_in_commits() -> None:
    """Each time only the destination had the row: the third master's migration of another partition
    named a version that was there already, and ended its process [core/test_versioning]."""
    assert Run(10526).verdict().violation is None


def test_who_was_let_in_as_lite_becomes_a_voter_when_it_has_seen_the_table() -> None:
    """It had seen no row, went on alone as one of two voters, and began every partition anew while
    the other one's files had them [core/test_promotion]."""
    assert Run(270, tune=mixes.moving).verdict().violation is None


def test_what_a_stay_acknowledges_is_not_said_in_the_name_of_the_next() -> None:
    """A backup was taken out while its disk was slow: what it had taken before would have made
    writes safe that it never took [core/data/test_replicas]."""
    assert Run(376, tune=mixes.written_to).verdict().violation is None


def test_what_a_master_said_before_it_went_by_its_row_leaves_before_that_is_on_disk() -> None:
    """[sim/test_checkers_of_members]."""
    assert Run(309, tune=mixes.losing_power).verdict().violation is None


def test_a_copy_is_not_given_up_when_somebody_leaves_who_was_to_keep_one() -> None:
    """An owner that was to become lite gave its place to one of two others, and the second of them
    left meanwhile: one copy remained of three [core/test_execution]."""
    assert Run(39, tune=mixes.moving).verdict().violation is None


def test_a_name_that_does_not_go_to_an_index_claims_on_disk_what_a_migration_made_of_it() -> None:
    """Its file held a mutation more than it said; after a restart an owner led from it, whoever
    came back stood at the same place, and the two had something else for good
    [core/data/test_recall]."""
    assert Run(570, tune=mixes.coming_back).verdict().violation is None


def test_what_a_migration_brought_that_never_ended_is_forgotten_in_the_files() -> None:
    """A destination lost its power before the commit. When it held the partition in the end, its
    files had what the first migration had brought as well: another start later it was there again,
    and who stood at the same place did not have it [core/data/test_holdings]."""
    assert Run(994, tune=mixes.losing_power).verdict().violation is None

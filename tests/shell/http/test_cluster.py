"""Questions and wishes about a running cluster, asked of any of its members."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from functools import partial

import httpx
import pytest

from holdfast.core.views import Kind
from holdfast.wire.api.cluster import ClusterModel, MemberModel, MembersModel, SelfModel
from holdfast.wire.api.partitions import MigrationsModel, NamesModel, PartitionsModel
from tests.shell.http import clusters
from tests.shell.http.clusters import Processes, Running
from tests.shell.waiting import wait_until


@pytest.fixture
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    """A cluster for one test, which does it harm."""
    yield from clusters.several(tmp_path_factory.mktemp("fresh"))


def cluster(member: Running) -> ClusterModel:
    """What a member says of the cluster."""
    return ClusterModel.model_validate_json(member.get("/v1/cluster").content)


def is_in_state(member: Running, state: str) -> bool:
    """Whether a member knows of this state."""
    return cluster(member).state == state


def members(member: Running) -> dict[str, MemberModel]:
    """The members by name."""
    told = MembersModel.model_validate_json(member.get("/v1/members").content)
    return {each.name: each for each in told.members}


def post(processes: Processes, asked: Running, path: str, body: str = "") -> httpx.Response:
    """A wish, with the secret."""
    headers = {**processes.credentials, "content-type": "application/json"}
    return asked.ask("POST", path, body.encode(), **headers)


def test_a_member_says_who_it_is_and_since_when(several: Processes) -> None:
    for running in several.living():
        told = SelfModel.model_validate_json(running.get("/v1/self").content)
        listed = members(running)[running.name]
        assert (told.id, told.incarnation, told.name) == (
            listed.id,
            listed.incarnation,
            listed.name,
        )
        assert told.ready
        assert not told.unready_reason
        assert 0 <= time.time() - told.started_at.timestamp() < 3_600


def one_word(members: Processes) -> list[ClusterModel]:
    """What each says, once all say that it is safe: on a busy machine a copy may lag."""
    told: list[ClusterModel] = []

    def all_safe() -> bool:
        told[:] = [cluster(member) for member in members.living()]
        return all(each.safety.safe for each in told)

    wait_until(all_safe, "every member calls the cluster safe")
    return told


def test_every_member_tells_the_same_cluster(several: Processes) -> None:
    told = one_word(several)
    for each, member in zip(told, several.living(), strict=True):
        assert each.answered_by == members(several.living()[0])[member.name].id
    plain = {each.model_dump_json(exclude={"answered_by"}) for each in told}
    assert len(plain) == 1
    first = told[0]
    assert (first.state, first.pending, first.master_answers) == ("ACTIVE", None, True)
    assert (first.partitions.total, first.partitions.with_owner) == (32, 32)
    assert [each.kind for each in first.members].count(Kind.LITE) == 1


def test_the_table_tells_how_every_replica_is(several: Processes) -> None:
    asked = several.others()[0]
    told = PartitionsModel.model_validate_json(asked.get("/v1/partitions").content)
    slots = [each.last_slot + 1 - each.first_slot for each in told.partitions]
    assert sum(slots) == 16_384
    for each in told.partitions:
        owner, backup, *colder = each.replicas
        assert (owner.in_sync, backup.in_sync) == (True, True)
        assert all(replica.in_sync is None for replica in colder)
    quick = PartitionsModel.model_validate_json(asked.get("/v1/partitions?health=false").content)
    assert quick.stamp == told.stamp
    assert {replica.in_sync for each in quick.partitions for replica in each.replicas} == {None}


def test_names_are_summed_over_the_members(one: Running) -> None:
    httpx.put(f"{one.url}/v1/maps/users/1", content=b"v")
    told = NamesModel.model_validate_json(one.get("/v1/namespaces").content)
    users = next(each for each in told.names if each.name == "users")
    assert (users.owned_entries, users.backup_entries, users.ttl_ms) == (1, 0, 3_600_000)
    assert users.owned_bytes > 0
    assert told.silent_members == []


def test_the_state_is_changed_through_any_member(several: Processes) -> None:
    for asked, state in zip(several.living(), ("FROZEN", "PASSIVE", "ACTIVE"), strict=False):
        body = json.dumps({"state": state, "wait": 10}).encode()
        headers = {**several.credentials, "content-type": "application/json"}
        answer = asked.ask("PUT", "/v1/cluster/state", body, **headers)
        assert (answer.status_code, answer.json()["state"]) == (200, state)
        for member in several.living():
            wait_until(partial(is_in_state, member, state), f"everyone is {state}")


def test_a_lite_member_is_promoted_and_demoted_through_another(several: Processes) -> None:
    asked = next(member for member in several.living() if member.name != "light")
    done = post(several, asked, "/v1/members/light:promote")
    assert (done.status_code, done.json()["done"]) == (200, "promote")
    assert members(asked)["light"].kind == "data"
    several.settle()
    assert members(asked)["light"].owned_partitions > 0
    again = post(several, asked, "/v1/members/light:promote")
    assert (again.status_code, again.json()["type"]) == (409, "urn:holdfast:problem:illegal-state")
    assert post(several, asked, "/v1/members/light:demote").status_code == 200
    light = members(asked)["light"]
    assert (light.kind, light.owned_partitions, light.backup_partitions) == ("lite", 0, 0)
    several.settle()


def test_migrations_are_told_by_the_master_through_any_member(several: Processes) -> None:
    several.settle()
    for member in several.living():
        told = MigrationsModel.model_validate_json(member.get("/v1/migrations").content)
        assert told.master == cluster(member).master
        assert (told.activity, told.remaining, told.running) == ("idle", 0, [])


def test_any_member_answers_any_key(several: Processes) -> None:
    for number in range(20):
        asked = several.living()[number % 4]
        path = f"/v1/maps/things/{number}"
        written = httpx.put(asked.url + path, content=b"v%d" % number, timeout=30)
        assert written.status_code == 204, written.text
        for member in several.living():
            found = member.get(path)
            assert (found.status_code, found.content) == (200, b"v%d" % number)
            assert found.headers["etag"] == written.headers["etag"]


def events(lines: Iterator[str]) -> Iterator[MigrationsModel]:
    """Events of a stream."""
    for line in lines:
        if line.startswith("data: "):
            yield MigrationsModel.model_validate_json(line.removeprefix("data: "))


def test_migrations_are_told_as_they_happen(several: Processes) -> None:
    """1. Somebody who is not the master is asked. 2. A promotion moves partitions. 3. The stream
    has a plan, progress, and the end; the history has every step."""
    asked = several.others()[0]
    url = f"{asked.url}/v1/migrations/events?interval=0.05"
    with httpx.stream("GET", url, timeout=30) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        told = events(stream.iter_lines())
        before = next(told)
        assert post(several, asked, "/v1/members/light:promote").status_code == 200
        seen = [before]
        for each in told:
            seen.append(each)
            if each.activity == "idle" and each.planned > 0 and each.completed == each.planned:
                break
    assert len(seen) >= 2
    assert seen[-1].elapsed_seconds > 0
    history = MigrationsModel.model_validate_json(asked.get("/v1/migrations").content).history
    assert history[-1].kind == "migration ended"
    assert post(several, asked, "/v1/members/light:demote").status_code == 200
    several.settle()


def test_a_member_leaves_through_another_and_its_process_ends(fresh: Processes) -> None:
    master, other = fresh.master(), fresh.others()[0]
    watching = httpx.stream("GET", f"{master.url}/v1/migrations/events", timeout=30)
    with watching as stream:
        lines = stream.iter_lines()
        assert next(lines).startswith("event:")
        done = post(fresh, other, f"/v1/members/{master.name}:shutdown")
        assert (done.status_code, done.json()["done"]) == (200, "leave")
        assert master.popen.wait(20) == 0
        for _ in lines:  # the stream ends with its member
            pass
    fresh.settle()
    assert master.name not in members(other)


def test_a_confirmed_death_is_told_to_everyone_and_its_partitions_are_owned(
    fresh: Processes,
) -> None:
    victim = next(each for each in fresh.others() if each.name != "light")
    asked = next(each for each in fresh.living() if each is not victim)
    stay = members(asked)[victim.name]
    path = f"/v1/members/{victim.name}:confirm-dead"
    wrong = post(fresh, asked, path, json.dumps({"incarnation": stay.incarnation + 1}))
    assert wrong.status_code == 422
    victim.kill()
    done = post(fresh, asked, path, json.dumps({"incarnation": stay.incarnation, "ago": 0.1}))
    assert done.status_code == 200
    told = done.json()["told"]
    assert sorted(told) == sorted(each.name for each in fresh.living())
    assert done.json()["untold"] == []
    wait_until(lambda: victim.name not in members(asked), "it is no member any more")
    wait_until(lambda: cluster(asked).partitions.with_owner == 32, "all partitions have an owner")


def test_a_question_for_a_master_that_is_gone_is_answered_with_a_problem(
    fresh: Processes,
) -> None:
    master, asked = fresh.master(), fresh.others()[0]
    master.kill()
    answer = asked.get("/v1/migrations")
    assert (answer.status_code, answer.json()["type"]) == (502, "urn:holdfast:problem:no-answer")
    assert not asked.is_safe()
    assert not cluster(asked).master_answers

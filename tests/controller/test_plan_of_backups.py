"""Backups that are carried away, schedules, and Restores, by tables: what is seen, what follows."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast.wire.api.backups import BackupModel, BackupPart
from holdfast_operator.actions import Apply, Delete, Forget
from holdfast_operator.builders.jobs import REPORT
from holdfast_operator.builders.pods import template, template_mark
from holdfast_operator.builders.settings import begun_with, founding
from holdfast_operator.cron import following, is_schedule, latest, parse
from holdfast_operator.model.backup import BackupScheduleSpec, BackupScheduleStatus, BackupStatus
from holdfast_operator.model.places import Place
from holdfast_operator.model.restore import RestoreSpec, RestoreStatus
from holdfast_operator.model.status import ClusterStatus
from holdfast_operator.names import Role
from holdfast_operator.observed import (
    Declared,
    Job,
    Observed,
    RestoreObserved,
    Scheduled,
    Target,
    declared_of,
    job_of,
    pod_of,
    scheduled_of,
)
from holdfast_operator.plan import RestorePlan, plan, restoring
from holdfast_operator.plan.restoring import identity
from tests.controller.sample import NOW, asked, changed_pod, condition, observed, replicas, spec

CLAIM = Place(claim="vault")
STORE = Place.model_validate(
    {"objectStore": {"bucket": "b", "prefix": "/p/", "endpoint": "https://s", "credentials": "k"}}
)
NEW = RestoreStatus.model_validate({})
ORIGIN = {"identity": "5d2f4a0e-3a52-4d0f-9d1c-0f6f6f6f6f6f", "backup": "b1"}


def backup(name: str, target: Place | None = None, schedule: str = "", **status: Any) -> Declared:
    """One that is declared."""
    made = BackupStatus.model_validate(status)
    created = f"2026-11-18T12:00:0{name[-1]}Z"
    return Declared(name, f"{name}-uid", 1, created, made, "orders", target, schedule)


def kept(name: str) -> BackupModel:
    """As the grid's catalogue has it."""
    part = BackupPart(
        member="orders-0", id="id", created=1.0, previous="", directory="/d", files=2, bytes=9,
        own_bytes=4,
    )  # fmt: skip
    return BackupModel(
        name=name, created=1.0, complete=True, missing=[], bytes=9, own_bytes=4, parts=[part]
    )


def jobs(o: Observed) -> list[dict[str, Any]]:
    """Jobs that are to be made."""
    bodies = [each.body for each in asked(o, Apply) if each.only_new]
    return [body for body in bodies if body["kind"] == "Job"]


def arguments(job: dict[str, Any]) -> list[str]:
    """Of its only container."""
    (container,) = job["spec"]["template"]["spec"]["containers"]
    found: list[str] = container["args"]
    return found


# Carried away -------------------------------------------------------------------------------------


def test_a_whole_backup_is_carried_to_its_target_and_complete_only_then() -> None:
    o = replace(observed(), backups=[backup("b1", CLAIM)], catalogue=[kept("b1-b1-uid")])
    made = plan(o)
    assert made.backups["b1"].phase == "Carrying"
    assert made.backups["b1"].completed_at is None
    (job,) = jobs(o)
    assert job["metadata"]["name"] == "b1-carry-b1-uid"
    assert job["metadata"]["ownerReferences"][0]["kind"] == "Backup"
    assert arguments(job) == [
        "carry", "b1-b1-uid", "--from", "http://orders-http.shop.svc:8080",
        "--secret-file", "/etc/holdfast/source/secret",
        "--to", "/var/lib/holdfast-source/backups", "--report", REPORT,
    ]  # fmt: skip
    volumes = {each["name"]: each for each in job["spec"]["template"]["spec"]["volumes"]}
    assert volumes["source"]["persistentVolumeClaim"] == {"claimName": "vault"}
    assert volumes["source-secret"]["secret"]["secretName"] == "orders-secret"
    assert "holdfast.io/cluster" not in job["spec"]["template"]["metadata"]["labels"]


@pytest.mark.parametrize(
    ("job", "phase", "message"),
    [
        (None, "Carrying", ""),
        (Job("b1-carry-b1-uid", "u"), "Carrying", ""),
        (Job("b1-carry-b1-uid", "u", succeeded=True), "Completed", ""),
        (
            Job("b1-carry-b1-uid", "u", failed=True, message="no such bucket"),
            "Failed",
            "it is with the members alone: it can't be carried to s3://b/p: no such bucket",
        ),
    ],
    ids=["gone", "runs", "done", "failed"],
)
def test_what_became_of_a_carrying(job: Job | None, phase: str, message: str) -> None:
    begun = backup("b1", STORE, phase="Carrying", keptAs="b1-b1-uid", size="9")
    o = replace(observed(), backups=[begun, backup("b2")], jobs={job.name: job} if job else {})
    told = plan(o).backups["b1"]
    assert (told.phase, told.message) == (phase, message)
    assert told.place == ("s3://b/p" if phase == "Completed" else "")
    assert len(jobs(o)) == (job is None)
    waits = plan(o).backups["b2"]
    assert (waits.message == "another Backup comes first") == (phase == "Carrying")


def test_an_object_store_is_used_with_what_its_secret_has() -> None:
    o = replace(observed(), backups=[backup("b1", STORE)], catalogue=[kept("b1-b1-uid")])
    (job,) = jobs(o)
    assert "s3://b/p" in arguments(job)
    (container,) = job["spec"]["template"]["spec"]["containers"]
    env = {each["name"]: each for each in container["env"]}
    assert env["AWS_ENDPOINT_URL"]["value"] == "https://s"
    assert env["AWS_REGION"]["value"] == "us-east-1"
    for key, optional in (("AWS_SECRET_ACCESS_KEY", False), ("AWS_SESSION_TOKEN", True)):
        chosen = {"name": "k", "key": key, "optional": optional}
        assert env[key]["valueFrom"]["secretKeyRef"] == chosen


def test_a_backup_that_is_going_is_left_alone() -> None:
    o = replace(observed(), backups=[replace(backup("b1"), terminating=True)])
    assert not plan(o).backups


# Schedules ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "now", "last", "following_one"),
    [
        ("0 3 * * *", "2026-11-18T12:00", "2026-11-18T03:00", "2026-11-19T03:00"),
        ("*/15 9-17 * * 1-5", "2026-11-21T12:00", "2026-11-20T17:45", "2026-11-23T09:00"),
        ("30 0 1,15 * *", "2026-11-18T00:00", "2026-11-15T00:30", "2026-12-01T00:30"),
        ("0 0 13 * 5", "2026-11-18T12:00", "2026-11-13T00:00", "2026-11-20T00:00"),
        ("0 0 * * 7", "2026-11-18T12:00", "2026-11-15T00:00", "2026-11-22T00:00"),
        ("0 0 29 2 *", "2026-11-18T12:00", "", "2028-02-29T00:00"),
        ("5/20 12 * * *", "2026-11-18T12:30", "2026-11-18T12:25", "2026-11-18T12:45"),
        ("0 0 30 2 *", "2026-11-18T12:00", "", ""),
    ],
)
def test_times_are_those_of_cron(text: str, now: str, last: str, following_one: str) -> None:
    moment = datetime.fromisoformat(now).replace(tzinfo=UTC)
    found = (
        latest(parse(text), moment - timedelta(days=400), moment),
        following(parse(text), moment),
    )
    wanted = [datetime.fromisoformat(t).replace(tzinfo=UTC) if t else None
              for t in (last, following_one)]  # fmt: skip
    assert list(found) == wanted


@pytest.mark.parametrize(
    "text", ["* * * *", "60 * * * *", "a * * * *", "*/0 * * * *", "5-1 * * * *"]
)
def test_what_is_no_time_is_refused(text: str) -> None:
    assert not is_schedule(text)


def schedule(name: str = "daily", **values: Any) -> Scheduled:
    """At three, made two days ago."""
    status = BackupScheduleStatus.model_validate(values.pop("status", {}))
    declared = {"cluster": "orders", "schedule": "0 3 * * *", "keep": 2, **values}
    made = BackupScheduleSpec.model_validate(declared)
    return Scheduled(
        name, f"uid-{name}", 1, NOW - timedelta(days=2), made, status, declared.get("target")
    )


def test_a_backup_is_declared_when_its_time_has_come_and_once() -> None:
    o = replace(observed(), schedules=[schedule(target={"claim": "vault"})])
    made = plan(o)
    (body,) = [each.body for each in asked(o, Apply)]
    assert body["metadata"]["name"] == "daily-202611180300"
    assert body["metadata"]["labels"]["holdfast.io/schedule"] == "daily"
    assert body["spec"] == {"cluster": "orders", "target": {"claim": "vault"}}
    told = made.schedules["daily"]
    assert told.last_time == datetime(2026, 11, 18, 3, tzinfo=UTC)
    assert told.next_time == datetime(2026, 11, 19, 3, tzinfo=UTC)
    again = replace(o, schedules=[schedule(status=told.wire())])
    assert not asked(again, Apply)
    assert plan(again).schedules["daily"] == told
    before = replace(o, backups=[backup("daily-202611180300")])
    assert not asked(before, Apply), "another operator was quicker"
    (body,) = [each.body for each in asked(replace(o, schedules=[schedule()]), Apply)]
    assert body["spec"] == {"cluster": "orders"}, "it stays with the members"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda o: replace(o, schedules=[schedule(suspend=True)]), "suspended"),
        (lambda o: replace(o, deleting=True, schedules=[schedule()]), ""),
        (lambda o: replace(o, schedules=[schedule(schedule="0 0 30 2 *")]), "no such time"),
    ],
    ids=["suspended", "deleted", "never"],
)
def test_when_no_backup_is_declared(change: Any, message: str) -> None:
    o = change(observed())
    assert not [each for each in asked(o, Apply) if each.body["kind"] == "Backup"]
    assert message in plan(o).schedules["daily"].message


def test_old_backups_go_from_the_members_first() -> None:
    done = [backup(f"b{i}", CLAIM, "daily", phase="Completed") for i in range(4)]
    others = [backup("b4", phase="Completed"), backup("b5", None, "daily", phase="Failed")]
    last = {"lastTime": "2026-11-18T03:00:00Z"}
    o = replace(observed(), backups=[*done, *others],
                schedules=[schedule(status=last), schedule("other", status=last)])  # fmt: skip
    there = replace(o, catalogue=[kept(f"b{i}-b{i}-uid") for i in range(4)])
    assert asked(there, Forget) == [Forget("b1-b1-uid"), Forget("b0-b0-uid")]
    assert asked(there, Delete) == []
    half = replace(o, catalogue=[kept("b1-b1-uid")])
    assert asked(half, Forget) == [Forget("b1-b1-uid")]
    assert asked(half, Delete) == [Delete("Backup", "b0", "b0-uid")]
    assert plan(o).schedules["daily"].kept == 4
    silent = replace(o, grid=None)
    assert asked(silent, Delete) == asked(silent, Forget) == []
    going = [replace(each, terminating=True) for each in done]
    assert asked(replace(o, backups=going), Delete) == []


def test_the_job_of_the_next_one_removes_them_at_the_target() -> None:
    done = [backup(f"b{i}", CLAIM, "daily", phase="Completed") for i in range(3)]
    new = backup("b9", CLAIM, "daily")
    o = replace(observed(), backups=[*done, new], catalogue=[kept("b9-b9-uid")],
                schedules=[schedule(status={"lastTime": "2026-11-18T03:00:00Z"})])  # fmt: skip
    (job,) = jobs(o)
    words = arguments(job)
    gone = [words[i + 1] for i, word in enumerate(words) if word == "--forget"]
    assert gone == ["b1-b1-uid", "b0-b0-uid"]


# A Cluster that is made of a backup ---------------------------------------------------------------


def unformed(origin: dict[str, Any], **declared: Any) -> Observed:
    """One that is being filled."""
    o = observed(spec(origin={**ORIGIN, **origin}, **declared))
    return replace(o, status=ClusterStatus.model_validate({}), grid=None, migrations=None)


def test_each_pod_makes_its_own_files_before_its_member_starts() -> None:
    o = unformed({"cluster": "old"})
    made = template(o, Role.DATA)["spec"]
    (seeder,) = made["initContainers"]
    assert seeder["image"] == made["containers"][0]["image"]
    assert seeder["args"] == [
        "seed", "/var/lib/holdfast/member", "--from", "http://old-http.shop.svc:8080",
        "--backup", "b1", "--cluster", ORIGIN["identity"], "--partitions", "271", "--level", "3",
        "--copies", "2", "--own", "$(HOLDFAST_NAME)",
        "--secret-file", "/etc/holdfast/source/secret",
    ]  # fmt: skip
    assert made["volumes"][-1]["secret"]["secretName"] == "old-secret"
    assert template(o, Role.LITE)["spec"]["initContainers"] == []
    data = founding(o)["data"]
    assert data["may_found"] == "false", "half of it is no grid"
    host = "orders-1.orders-members.shop.svc:7380"
    assert data["newcomers"].split(",")[1] == f"orders-1={host}=orders-1"


def test_it_is_gone_when_the_grid_is_whole_and_nobody_restarts() -> None:
    before = unformed({"place": {"claim": "vault", "path": "a/b"}}, processesPerPod=2)
    (seeder,) = template(before, Role.DATA)["spec"]["initContainers"]
    assert "/var/lib/holdfast-source/a/b" in seeder["args"]
    assert seeder["args"][-4:] == ["--own", "$(HOLDFAST_NAME)-0", "--own", "$(HOLDFAST_NAME)-1"]
    volume = template(before, Role.DATA)["spec"]["volumes"][-1]
    assert volume["persistentVolumeClaim"] == {"claimName": "vault", "readOnly": True}
    after = observed(before.spec)
    assert template(after, Role.DATA)["spec"]["initContainers"] == []
    assert template_mark(before, Role.DATA) == template_mark(after, Role.DATA)


def test_a_cluster_that_is_filled_keeps_the_pods_that_it_begins_with() -> None:
    o = unformed({"cluster": "old"})
    assert plan(o).status.phase == "Restoring"
    written = {("ConfigMap", "orders-founding"): {"metadata": {"uid": "u"}, **founding(o)}}
    assert begun_with(replace(o, children=written)) == 3
    fewer = replace(unformed({"cluster": "old"}, members=2), children=written)
    assert replicas(fewer)["orders"] == 3
    more = replace(unformed({"cluster": "old"}, members=5), children=written)
    assert replicas(more)["orders"] == 5
    assert founding(more)["data"] == founding(o)["data"]


def test_why_files_can_not_be_made_is_said() -> None:
    o = changed_pod(
        unformed({"cluster": "old"}), "orders-1",
        waiting="CrashLoopBackOff", complaint="there is no whole backup", started_at=None,
        ready=False,
    )  # fmt: skip
    made = plan(o)
    assert condition(made, "Degraded") == ("True", "PodFailing")
    told = next(each for each in made.status.conditions if each.type == "Degraded")
    assert "orders-1: CrashLoopBackOff, there is no whole backup" in told.message


# Readers ------------------------------------------------------------------------------------------


def test_what_a_seeder_complains_of_is_read() -> None:
    raw = {
        "metadata": {"name": "orders-0", "uid": "u", "labels": {}},
        "status": {
            "initContainerStatuses": [
                {
                    "name": "seed",
                    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                    "lastState": {
                        "terminated": {"exitCode": 2, "message": "a\nholdfast: no backup\n"}
                    },
                }
            ],
            "containerStatuses": [
                {"name": "member", "state": {"waiting": {"reason": "PodInitializing"}}}
            ],
        },
    }
    pod = pod_of(raw)
    assert (pod.waiting, pod.complaint) == ("CrashLoopBackOff", "no backup")
    state: dict[str, Any] = raw["status"]["initContainerStatuses"][0]  # type: ignore[index]  # JSON
    state["state"] = {"waiting": {"reason": "PodInitializing"}}
    del state["lastState"]
    assert (pod_of(raw).waiting, pod_of(raw).complaint) == ("PodInitializing", "")


def test_jobs_and_what_their_pods_said_are_read() -> None:
    raw: dict[str, Any] = {"metadata": {"name": "j", "uid": "j1"}}
    assert job_of(raw, []) == Job("j", "j1")

    def said(at: str, message: str, uid: str = "j1") -> dict[str, Any]:
        end = {"terminated": {"message": message}} if message else {"running": {}}
        return {
            "metadata": {"creationTimestamp": at, "ownerReferences": [{"uid": uid}]},
            "status": {"containerStatuses": [{"state": end}]},
        }

    pods = [said("2", "holdfast: second\n"), said("1", "first"), said("3", ""), said("9", "x", "y")]
    raw["status"] = {"conditions": [{"type": "Failed", "status": "True", "message": "limit"}]}
    assert job_of(raw, pods).message == "second"
    assert job_of(raw, []) == Job("j", "j1", failed=True, message="limit")
    raw["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    assert job_of(raw, [said("1", "{}")]) == Job("j", "j1", succeeded=True, message="{}")


def test_backups_and_schedules_are_read() -> None:
    meta = {"name": "b", "uid": "u", "labels": {"holdfast.io/schedule": "daily"},
            "creationTimestamp": "2026-11-18T12:00:00Z", "generation": 3}  # fmt: skip
    spec_of = {"cluster": "orders", "schedule": "0 3 * * *", "target": {"claim": "vault"}}
    found = declared_of({"metadata": meta, "spec": spec_of})
    assert (found.cluster, found.schedule, found.target) == ("orders", "daily", CLAIM)
    assert declared_of({"metadata": meta, "spec": {"cluster": "orders"}}).target is None
    timed = scheduled_of({"metadata": meta, "spec": spec_of, "status": {"kept": 2}})
    assert (timed.status.kept, timed.created, timed.raw_target) == (2, NOW, {"claim": "vault"})


# Restores -----------------------------------------------------------------------------------------


def restore(of: dict[str, Any] | None = None, **changes: Any) -> RestoreObserved:
    """Of a Backup that is complete and with its members, into a grid of five."""
    declared = {"members": 5, "partitions": 1_021}
    named = of or {"backup": "b1"}
    given = {"source": named, "cluster": {"name": "copy", "spec": declared}}
    made = RestoreObserved(
        name="try",
        namespace="shop",
        uid="11111111-uid",
        generation=2,
        now=NOW,
        spec=RestoreSpec.model_validate(given),
        raw_spec=declared,
        status=NEW,
        backup=backup("b1", phase="Completed"),
        source=ClusterStatus.model_validate({"phase": "Running"}),
    )
    return replace(made, **changes)


REPORTED = json.dumps({"name": "b1-b1-uid", "grid": "shop/orders", "level": 3, "bytes": 9})


def checked(
    r: RestoreObserved, message: str = REPORTED, *, failed: bool = False
) -> RestoreObserved:
    """Its Job has ended."""
    name = "try-check-11111111"
    job = Job(name, "j", succeeded=not failed, failed=failed, message=message)
    return replace(r, jobs={name: job})


def bodies(made: RestorePlan) -> list[dict[str, Any]]:
    """What is made."""
    return [each.body for each in made.actions if isinstance(each, Apply) and each.only_new]


def test_a_restore_looks_then_declares_the_cluster_then_waits_for_it() -> None:
    r = restore()
    made = restoring(r)
    (job,) = bodies(made)
    assert made.status.phase == "Checking"
    assert arguments(job) == [
        "depot", "http://orders-http.shop.svc:8080", "--check", "b1-b1-uid",
        "--secret-file", "/etc/holdfast/source/secret", "--report", REPORT,
    ]  # fmt: skip
    assert job["metadata"]["labels"]["holdfast.io/cluster"] == "copy"
    looking = {"try-check-11111111": Job("try-check-11111111", "j")}
    assert restoring(replace(r, jobs=looking)).actions == ()
    made = restoring(checked(r))
    (cluster,) = bodies(made)
    assert cluster["metadata"] == {"name": "copy", "namespace": "shop"}
    origin = {"identity": identity(r), "backup": "b1-b1-uid", "cluster": "orders"}
    assert cluster["spec"] == {"members": 5, "partitions": 1_021, "origin": origin}
    assert (made.status.size, made.status.grid) == ("9", "shop/orders")
    half = Target(identity(r), False, ClusterStatus.model_validate({"members": "2/5"}), ("p: why",))
    made = restoring(replace(r, status=made.status, target=half))
    assert (made.status.phase, made.status.members) == ("Filling", "2/5")
    assert made.status.message == "p: why"
    assert [event.reason for event in made.events] == ["Restoring"]
    whole = {"members": "5/5", "clusterId": identity(r)}
    done = replace(half, status=ClusterStatus.model_validate(whole), complaints=())
    made = restoring(replace(r, status=made.status, target=done))
    assert (made.status.phase, made.status.completed_at) == ("Completed", NOW)
    assert {c.type: c.status.value for c in made.status.conditions} == {
        "Complete": "True", "Failed": "False",
    }  # fmt: skip
    assert [event.reason for event in made.events] == ["Restored"]
    again = restoring(replace(r, status=made.status, target=None))
    assert (again.actions, again.events, again.status) == ((), (), made.status)


def test_the_same_restore_makes_the_same_grid_and_another_one_another() -> None:
    assert identity(restore()) == identity(restore(name="renamed"))
    assert identity(restore()) != identity(restore(uid="2"))


@pytest.mark.parametrize(
    ("source", "where"),
    [
        ({"kept": {"claim": "vault", "name": "b7"}}, "/var/lib/holdfast-source/backups"),
        (
            {"kept": {"objectStore": {"bucket": "b", "credentials": "k"}, "name": "b7"}},
            "s3://b",
        ),
    ],
    ids=["claim", "object store"],
)
def test_a_backup_away_from_the_members(source: dict[str, Any], where: str) -> None:
    r = restore(source, backup=None, source=None)
    (job,) = bodies(restoring(r))
    assert arguments(job)[:4] == ["depot", where, "--check", "b7"]
    (cluster,) = bodies(restoring(checked(r)))
    origin = cluster["spec"]["origin"]
    assert "cluster" not in origin
    assert Place.model_validate(origin["place"]).where in (where, "claim vault, backups")


def test_a_backup_with_a_target_needs_its_grid_no_more() -> None:
    r = restore(backup=backup("b1", CLAIM, phase="Completed"), source=None)
    (job,) = bodies(restoring(r))
    assert "/var/lib/holdfast-source/backups" in arguments(job)


@pytest.mark.parametrize(
    ("change", "phase", "message"),
    [
        (lambda r: replace(r, spec_reasons=("bad",)), "Failed", "bad"),
        (lambda r: replace(r, backup=None), "Pending", "there is no Backup b1"),
        (lambda r: replace(r, backup=backup("b1", phase="Running")), "Pending", "not complete"),
        (
            lambda r: replace(r, backup=backup("b1", phase="Failed", message="why")),
            "Failed",
            "the Backup b1 has failed: why",
        ),
        (lambda r: replace(r, source=None), "Failed", "the Cluster is gone"),
        (
            lambda r: replace(r, source=ClusterStatus.model_validate({"phase": "Hibernated"})),
            "Pending",
            "they sleep: wake them",
        ),
        (
            lambda r: replace(r, target=Target("", False, ClusterStatus.model_validate({}))),
            "Failed",
            "there is a Cluster copy already",
        ),
        (lambda r: replace(r, claims=("data-copy-0",)), "Failed", "delete them, or choose another"),
        (
            lambda r: replace(r, status=RestoreStatus.model_validate({"phase": "Filling"})),
            "Failed",
            "was deleted before it was whole",
        ),
        (
            lambda r: replace(
                r, target=Target(identity(r), True, ClusterStatus.model_validate({}))
            ),
            "Failed",
            "was deleted before it was whole",
        ),
        (lambda r: checked(r, "no backup", failed=True), "Failed", "can't be used: no backup"),
        (lambda r: checked(r, "nonsense"), "Failed", "says not what it found"),
        (
            lambda r: checked(r, REPORTED.replace('"level": 3', '"level": 4')),
            "Failed",
            "of compatibilityLevel 4: declare it instead of 3",
        ),
    ],
    ids=[
        "spec", "no backup", "runs", "failed", "no grid", "asleep", "taken", "claims", "deleted",
        "deleting", "broken", "mute", "level",
    ],
)  # fmt: skip
def test_why_a_restore_can_not_be_is_told(change: Any, phase: str, message: str) -> None:
    made = restoring(change(restore()))
    assert made.status.phase == phase
    assert message in made.status.message
    assert made.actions == ()
    failed = next(each for each in made.status.conditions if each.type == "Failed")
    assert (failed.status == "True", failed.observed_generation) == (phase == "Failed", 2)
    assert (made.status.started_at is None) == (phase == "Pending")
    later = replace(change(restore()), now=NOW + timedelta(minutes=1), status=made.status)
    if phase == "Pending":
        assert restoring(later).status == made.status, "nothing is written twice"


def test_a_restore_that_is_deleted_does_nothing_more() -> None:
    made = restoring(restore(deleting=True))
    assert (made.actions, made.status) == ((), NEW)

"""`Cluster`: what is declared about a grid."""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, ClassVar

from pydantic import Field

from holdfast_operator.model.base import Labels, Model, Quantity, Rule, free_form, free_list
from holdfast_operator.model.places import Name, Place
from holdfast_operator.quantities import number

Seconds = Annotated[int, Field(ge=0, le=86_400)]


def amount(quantity: str) -> Decimal:
    """Of a quantity that has the form of one."""
    return number(quantity) or Decimal(0)


class State(StrEnum):
    """What the grid may do (`holdfast.core.states`)."""

    ACTIVE = "ACTIVE"
    NO_MIGRATION = "NO_MIGRATION"
    STABLE_CLUSTER = "STABLE_CLUSTER"
    FROZEN = "FROZEN"
    PASSIVE = "PASSIVE"


class Fsync(StrEnum):
    """When a write counts as written to disk."""

    OFF = "off"
    EVERY_SECOND = "everysec"
    ALWAYS = "always"


class Eviction(StrEnum):
    """What goes when a structure holds more than it may."""

    NONE = "none"
    LRU = "lru"
    RANDOM = "random"


class Policy(StrEnum):
    """Which members must be back before a whole grid starts from its files."""

    FULL = "FullRecovery"
    MOST_RECENT = "PartialMostRecent"
    MOST_COMPLETE = "PartialMostComplete"


class Reclaim(StrEnum):
    """What becomes of the claims when the Cluster is deleted."""

    RETAIN = "Retain"
    DELETE = "Delete"


class Spread(StrEnum):
    """What a failure domain is: no two copies of a partition in one, while domains suffice."""

    NODE = "Node"
    ZONE = "Zone"


class Upgrade(StrEnum):
    """How pods get a new template."""

    ROLLING_STABLE = "RollingStable"
    ROLLING_MIGRATE = "RollingMigrate"
    ON_DELETE = "OnDelete"


class Structure(Model):
    """Settings of one name."""

    RULES: ClassVar = (
        Rule(
            "(has(self.backups) ? self.backups : 0) + self.asyncBackups <= 6",
            "a partition has at most 6 backups: lower backups or asyncBackups",
            lambda s, _: (s.backups or 0) + s.async_backups <= 6,
        ),
        Rule(
            "self.eviction == 'none' || self.entriesPerPartition > 0",
            "eviction needs a limit: set entriesPerPartition",
            lambda s, _: s.eviction is Eviction.NONE or s.entries_per_partition > 0,
        ),
    )

    name: str = Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9_.:\-]+$")
    backups: int | None = Field(
        default=None, ge=0, le=6, description="Synchronous backups. Default: spec.backups."
    )
    async_backups: int = Field(default=0, ge=0, le=6, description="Asynchronous backups.")
    ttl_seconds: int = Field(default=0, ge=0, le=2**31, description="0: for ever.")
    idle_seconds: int = Field(default=0, ge=0, le=2**31, description="0: never.")
    entries_per_partition: int = Field(default=0, ge=0, le=2**31, description="0: no limit.")
    eviction: Eviction = Eviction.NONE
    persistence: Fsync | None = Field(default=None, description="Default: persistence.fsync.")


class Lite(Model):
    """Members that hold no partitions."""

    RULES: ClassVar = (
        Rule(
            "self.promote <= self.members",
            "promote can't be more than lite.members",
            lambda s, _: s.promote <= s.members,
        ),
    )

    members: int = Field(default=0, ge=0, le=100, description="Lite pods.")
    promote: int = Field(
        default=0, ge=0, le=100, description="Lite pods 0 to promote-1 become data members."
    )


class Migration(Model):
    """How data moves."""

    max_parallel: int = Field(
        default=10, ge=1, le=1_000, description="Migrations of one member at a time."
    )
    blocking: bool = Field(
        default=False, description="Refuse writes of a partition while it migrates, not at the end."
    )
    stale_read_disabled: bool = Field(
        default=True, description="Refuse reads of a partition at the end of its migration."
    )
    rejoin_grace_seconds: Seconds = Field(
        default=30, description="So long a lost member is expected back: nothing is re-replicated."
    )
    stable_repair_after_seconds: Seconds | None = Field(
        default=None, description="The same in STABLE_CLUSTER; not given: for ever."
    )


class Recovery(Model):
    """How a whole grid comes back from its files."""

    policy: Policy = Policy.MOST_COMPLETE
    validation_seconds: int = Field(default=120, ge=1, le=86_400)
    load_seconds: int = Field(default=900, ge=1, le=86_400)


class Persistence(Model):
    """Files of the members."""

    RULES: ClassVar = (
        Rule(
            "self.enabled == oldSelf.enabled",
            "persistence.enabled can't be changed: restore a backup into a new Cluster",
            lambda s, old: s.enabled == old.enabled,
        ),
        Rule(
            "quantity(self.size).compareTo(quantity(oldSelf.size)) >= 0",
            "persistence.size can't be lowered: a volume never shrinks",
            lambda s, old: amount(s.size) >= amount(old.size),
        ),
        Rule(
            "has(self.storageClassName) == has(oldSelf.storageClassName) &&"
            " (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",
            "persistence.storageClassName can't be changed: restore a backup into a new Cluster",
            lambda s, old: s.storage_class_name == old.storage_class_name,
        ),
        Rule(
            "quantity(self.size).isGreaterThan(quantity('511Mi'))",
            "persistence.size must be at least 512Mi",
            lambda s, _: amount(s.size) > amount("511Mi"),
        ),
    )

    enabled: bool = True
    size: Quantity = "8Gi"
    storage_class_name: str | None = Field(default=None, max_length=253)
    fsync: Fsync = Fsync.EVERY_SECOND
    recovery: Recovery = Recovery()
    reclaim: Reclaim = Reclaim.RETAIN


class Availability(Model):
    """Failure domains and voluntary disruptions."""

    RULES: ClassVar = (
        Rule(
            "self.spread == oldSelf.spread",
            "availability.spread can't be changed",
            lambda s, old: s.spread is old.spread,
        ),
    )

    spread: Spread = Spread.NODE
    pdb: bool = Field(default=True, description="Whether a PodDisruptionBudget follows the copies.")


class Scheduling(Model):
    """Where pods may run."""

    node_selector: Labels
    tolerations: list[dict[str, Any]] = free_list("Tolerations of the pods.")
    affinity: dict[str, Any] = free_form("Affinity of the pods.")
    priority_class_name: str | None = Field(default=None, max_length=253)
    service_account_name: str | None = Field(default=None, max_length=253)


class PodTemplate(Model):
    """What is added to every pod."""

    labels: Labels
    annotations: Labels
    env: list[dict[str, Any]] = free_list("Environment of the members, as in a container.")
    restarted_at: str = Field(
        default="", max_length=64, description="Any new text restarts the pods, one by one."
    )
    termination_grace_period_seconds: int = Field(
        default=660, ge=1, le=86_400, description="How long a pod may hand over its data."
    )


class Image(Model):
    """What the pods run. What is not given is the operator's default."""

    name: str | None = Field(default=None, max_length=512, pattern=r"^\S+$")
    pull_policy: str | None = Field(default=None, pattern="^(Always|IfNotPresent|Never)$")
    pull_secrets: list[str] = Field(default_factory=list, max_length=16)


class Resources(Model):
    """Of each pod's container."""

    requests: Annotated[
        dict[str, str], Field(default_factory=lambda: {"cpu": "100m", "memory": "256Mi"})
    ]
    limits: Labels


class Service(Model):
    """The Services that applications use."""

    type: str = Field(default="ClusterIP", pattern="^(ClusterIP|NodePort|LoadBalancer)$")
    annotations: Labels


class Origin(Model):
    """What the first files of the members are made of. A Restore says it."""

    identity: str = Field(
        pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", description="Of the new grid."
    )
    backup: str = Field(min_length=1, max_length=64, description="Its name where it is kept.")
    cluster: Name | None = Field(
        default=None, description="The Cluster whose members keep it, if it is there alone."
    )
    place: Place | None = Field(default=None, description="Where it was carried to.")


class ClusterSpec(Model):
    """What is declared."""

    RULES: ClassVar = (
        Rule(
            "self.partitions == oldSelf.partitions",
            "partitions can't be changed: restore a backup into a new Cluster",
            lambda s, old: s.partitions == old.partitions,
        ),
        Rule(
            "self.compatibilityLevel == oldSelf.compatibilityLevel",
            "compatibilityLevel can't be changed",
            lambda s, old: s.compatibility_level == old.compatibility_level,
        ),
        Rule(
            "has(self.origin) == has(oldSelf.origin) &&"
            " (!has(self.origin) || self.origin == oldSelf.origin)",
            "origin can't be changed: it says what the first files were made of",
            lambda s, old: s.origin == old.origin,
        ),
        Rule(
            "!has(self.origin) || self.persistence.enabled",
            "origin needs persistence.enabled: a backup becomes the members' files",
            lambda s, _: s.origin is None or s.persistence.enabled,
        ),
        Rule(
            "!has(self.origin) || has(self.origin.cluster) != has(self.origin.place)",
            "origin has either a cluster or a place",
            lambda s, _: s.origin is None or (s.origin.cluster is None) != (s.origin.place is None),
        ),
        Rule(
            "!self.hibernate || self.persistence.enabled",
            "hibernate needs persistence.enabled: without files the data would be gone",
            lambda s, _: not s.hibernate or s.persistence.enabled,
        ),
        Rule(
            "self.upgradeStrategy != 'RollingStable' || self.persistence.enabled",
            "upgradeStrategy RollingStable needs persistence.enabled:"
            " choose RollingMigrate or OnDelete",
            lambda s, _: s.upgrade_strategy is not Upgrade.ROLLING_STABLE or s.persistence.enabled,
        ),
        Rule(
            "!has(self.structures) ||"
            " self.structures.all(s, self.structures.exists_one(t, t.name == s.name))",
            "two structures have the same name",
            lambda s, _: len({each.name for each in s.structures}) == len(s.structures),
        ),
        Rule(
            "self.lite.promote == 0 || self.compatibilityLevel >= 2",
            "lite.promote needs compatibilityLevel 2 or higher",
            lambda s, _: s.lite.promote == 0 or s.compatibility_level >= 2,
        ),
        Rule(
            "self.backups < self.members + self.lite.promote",
            "backups must be fewer than the data members (members and lite.promote)",
            lambda s, _: s.backups < s.members + s.lite.promote,
        ),
        Rule(
            "!has(self.structures) || self.structures.all(s, !has(s.backups) ||"
            " s.backups < self.members + self.lite.promote)",
            "backups of each structure must be fewer than the data members"
            " (members and lite.promote)",
            lambda s, _: max(s.backups_of_each) < s.members + s.lite.promote,
        ),
        Rule(
            "self.partitions >= self.members",
            "partitions must be at least members: each member is to own one",
            lambda s, _: s.partitions >= s.members,
        ),
    )

    members: int = Field(default=3, ge=1, le=100, description="Data pods.")
    processes_per_pod: int = Field(
        default=1, ge=1, le=16, description="Member processes in a pod, one a core."
    )
    lite: Lite = Lite()
    state: State = Field(default=State.ACTIVE, description="What may move, join and be written.")
    partitions: int = Field(default=271, ge=1, le=16_384)
    backups: int = Field(
        default=1, ge=0, le=6, description="Backups of every name that does not say otherwise."
    )
    structures: list[Structure] = Field(default_factory=list, max_length=100)
    migration: Migration = Migration()
    persistence: Persistence = Persistence()
    availability: Availability = Availability()
    resources: Resources = Field(default_factory=lambda: Resources.model_validate({}))
    scheduling: Scheduling = Field(default_factory=lambda: Scheduling.model_validate({}))
    pod_template: PodTemplate = Field(default_factory=lambda: PodTemplate.model_validate({}))
    image: Image = Image()
    service: Service = Field(default_factory=lambda: Service.model_validate({}))
    hibernate: bool = Field(default=False, description="Pods go, claims stay.")
    compatibility_level: int = Field(default=3, ge=1, le=3)
    upgrade_strategy: Upgrade = Upgrade.ROLLING_STABLE
    origin: Origin | None = Field(
        default=None, description="What it is restored from; said by a Restore, at the beginning."
    )

    @property
    def backups_of_each(self) -> list[int]:
        """Of every name: those that are listed, and all others."""
        own = (each.backups for each in self.structures)
        return [self.backups, *(self.backups if n is None else n for n in own)]

"""Hazelcast open source, as the bench builds, starts and loads it (`bench/hazelcast/Peer.java`).

Its jar comes from Maven Central by name, once, into `bench/hazelcast/build`, which is not kept.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final, NamedTuple

from bench.processes import HOST, Process, Stage, program, wait_for
from bench.running import say
from holdfast.shell.free_ports import free_ports

HOME: Final = Path(__file__).parent / "hazelcast"
BUILD: Final = HOME / "build"
OPEN: Final = (
    "java.base/java.lang=ALL-UNNAMED",
    "java.base/sun.nio.ch=ALL-UNNAMED",
    "java.management/sun.management=ALL-UNNAMED",
    "jdk.management/com.sun.management.internal=ALL-UNNAMED",
)
"""What Hazelcast asks a Java of today for."""
BUILD_SECONDS: Final = 900
LIMIT_SECONDS: Final = 600.0
LOOK_SECONDS: Final = 0.02


def build() -> None:
    """The jar and our class, if they are not there."""
    maven, compiler = program("mvn"), program("javac")
    if not list(BUILD.glob("lib/hazelcast-*.jar")):
        say("gets Hazelcast from Maven Central, once")
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={BUILD / 'lib'}"]
        subprocess.run(
            [maven, "-q", "-B", "-f", str(HOME / "pom.xml"), *goal, "-DincludeScope=runtime"],
            check=True,
            timeout=BUILD_SECONDS,
            stdout=subprocess.DEVNULL,
        )
    source, built = HOME / "Peer.java", BUILD / "classes" / "Peer.class"
    if not built.exists() or built.stat().st_mtime < source.stat().st_mtime:
        places = ["-cp", f"{BUILD / 'lib'}/*", "-d", str(BUILD / "classes")]
        subprocess.run([compiler, "--release", "17", *places, str(source)], check=True)


class Said(NamedTuple):
    """A line of a process."""

    at: float
    """Of the monotonic clock."""
    words: list[str]


class Talker:
    """A process of Java that answers in lines."""

    def __init__(self, process: Process) -> None:
        self.process = process

    def said(self) -> list[Said]:
        """All so far."""
        lines = self.process.said().splitlines(keepends=True)
        found = [line.split() for line in lines if line.endswith("\n")]
        return [Said(float(at), words) for at, *words in found if at[0].isdigit()]

    def wait(self, word: str, number: int = 1) -> Said:
        """The so many-th line that begins with it."""

        def seen() -> Said | None:
            self.process.check_alive()
            found = [each for each in self.said() if each.words[0] == word]
            return found[number - 1] if len(found) >= number else None

        return wait_for(seen, f"Hazelcast says {word}", LIMIT_SECONDS, LOOK_SECONDS)

    def result(self, word: str) -> list[str]:
        """What a process that ends by itself has said."""
        self.process.popen.wait(LIMIT_SECONDS)
        found = [each.words[1:] for each in self.said() if each.words[0] == word]
        if not found:
            raise RuntimeError(f"Hazelcast's client failed: {self.process.said()[-2_000:]}")
        return found[-1]

    def tell(self, line: str) -> None:
        """A command."""
        assert self.process.popen.stdin is not None
        self.process.popen.stdin.write(f"{line}\n".encode())
        self.process.popen.stdin.flush()

    def ask(self, command: str, word: str = "") -> list[str]:
        """A command, and its answer."""
        word = word or command
        before = sum(each.words[0] == word for each in self.said())
        self.tell(command)
        return self.wait(word, before + 1).words[1:]


class Hazelcast:
    """Members with one backup."""

    def __init__(self, stage: Stage, count: int) -> None:
        build()
        self._stage = stage
        ports = free_ports(HOST, count)
        self._founders = ",".join(map(str, ports))
        self.members = [self._member(port) for port in ports]
        for member in self.members:
            member.wait("ready")

    def _member(self, port: int) -> Talker:
        return self._java("member", str(port), self._founders, "1")

    def _java(self, *arguments: str) -> Talker:
        opened = [word for each in OPEN for word in ("--add-opens", each)]
        places = ["-cp", f"{BUILD / 'classes'}:{BUILD / 'lib'}/*"]
        command = [program("java"), "-Xmx1500m", "--add-modules", "java.se", *opened, *places]
        name = f"hazelcast-{arguments[0]}"
        return Talker(
            self._stage.start(name, [*command, "Peer", *arguments], stdin=subprocess.PIPE)
        )

    def add(self) -> Talker:
        """One more."""
        member = self._member(free_ports(HOST, 1)[0])
        member.wait("ready")
        self.members.append(member)
        return member

    def fill(self, keys: int, size: int) -> None:
        """Values for numbered keys."""
        self._java("fill", self._founders, str(keys), str(size)).result("filled")

    def load(
        self, verb: str, *, keys: int, size: int, threads: int, seconds: float
    ) -> tuple[float, float]:
        """As many operations as may be: a second, and the p99 in milliseconds."""
        numbers = (str(keys), str(size), verb, str(threads), str(seconds))
        rate, p99 = self._java("load", self._founders, *numbers).result("load")
        return float(rate), float(p99)

    def steady(self, *, keys: int, size: int, rate: int) -> Talker:
        """So many operations a second; `mark` tells what they met since the last one."""
        talker = self._java("steady", self._founders, str(keys), str(size), str(rate))
        talker.wait("steady")
        return talker

    def wait_safe(self) -> None:
        """Until the first member says that every copy is there."""
        first = self.members[0]
        wait_for(lambda: first.ask("safe") == ["true"], "Hazelcast is safe", LIMIT_SECONDS,
                 LOOK_SECONDS)  # fmt: skip

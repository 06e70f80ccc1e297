"""The plugin: `kubectl holdfast status | state | promote | migrations`.

Everything is asked of the API server with the rights of whoever asks. A change is a patch of the
spec, so that what is declared and what is so do not part; `--wait` waits until the operator says
so.
Exit codes: 0 done; 1 refused, or not in time; 2 bad input; 3 no way to the API server.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final

from holdfast_operator.kubernetes.access import find
from holdfast_operator.kubernetes.client import Kubernetes
from holdfast_operator.kubernetes.errors import ApiRefused, KubernetesError
from holdfast_operator.model.cluster import State
from holdfast_operator.observed import Raw

LOOK_SECONDS: Final = 0.5
EXIT_REFUSED, EXIT_BAD, EXIT_NO_API = 1, 2, 3

Say = Callable[[str], None]


class Asker:
    """One question or wish about one Cluster."""

    def __init__(self, api: Kubernetes, given: argparse.Namespace, say: Say) -> None:
        self._api = api
        self._given = given
        self._say = say
        self._namespace: str = given.namespace or api.access.namespace

    async def cluster(self) -> Raw:
        """As it is now."""
        return await self._api.get("Cluster", self._namespace, self._given.cluster)

    async def status(self) -> int:
        """Everything at a glance."""
        for line in described(await self.cluster()):
            self._say(line)
        return 0

    async def state(self) -> int:
        """Show it, or declare another one."""
        wanted = self._given.state
        if wanted is None:
            raw = await self.cluster()
            pending = raw.get("status", {}).get("pending")
            now = raw.get("status", {}).get("state", "")
            self._say(f"{now} (pending: {pending})" if pending else now)
            return 0
        return await self._declare({"state": wanted}, "StateApplied")

    async def promote(self) -> int:
        """Declare how many lite members are data members."""
        return await self._declare({"lite": {"promote": self._given.count}}, None)

    async def migrations(self) -> int:
        """Once, or whenever they change, until nothing is left."""
        last = ""
        while True:
            raw = await self.cluster()
            line = in_migrations(raw)
            if line != last:
                self._say(line)
                last = line
            done = not raw.get("status", {}).get("migrations", {}).get("remaining")
            if done or not self._given.watch:
                return 0
            await asyncio.sleep(LOOK_SECONDS)

    async def _declare(self, spec: Raw, condition: str | None) -> int:
        raw = await self._api.merge("Cluster", self._namespace, self._given.cluster, {"spec": spec})
        self._say(f"declared: {spec}")
        if not self._given.wait:
            return 0
        try:
            async with asyncio.timeout(self._given.wait):
                await self._until(raw["metadata"]["generation"], condition)
        except TimeoutError:
            self._say("not in time; it stays declared")
            return EXIT_REFUSED
        return 0

    async def _until(self, generation: int, condition: str | None) -> None:
        """Of that generation or a later one; a reason for waiting is told once."""
        last = ""
        while True:
            raw = await self.cluster()
            found = condition_of(raw, condition or "Progressing")
            fresh = found.get("observedGeneration", 0) >= generation
            if fresh and found.get("status") == ("True" if condition else "False"):
                self._say("done")
                return
            told = f"{found.get('reason', '')}: {found.get('message', '')}"
            if fresh and told != last:
                self._say(told)
                last = told
            await asyncio.sleep(LOOK_SECONDS)


def condition_of(raw: Raw, kind: str) -> Raw:
    """One condition; empty before it is known."""
    found: list[Raw] = raw.get("status", {}).get("conditions", [])
    return next((each for each in found if each["type"] == kind), {})


def in_migrations(raw: Raw) -> str:
    """In a line."""
    seen = raw.get("status", {}).get("migrations", {})
    if not seen.get("remaining"):
        return "nothing moves"
    return (
        f"{seen.get('completed', 0)} of {seen.get('planned', 0)} migrations,"
        f" {seen.get('running', 0)} running, {seen.get('bytes', 0) / 1e6:.1f} MB,"
        f" {seen.get('ratePerSecond', 0)} a second"
    )


def described(raw: Raw) -> Iterator[str]:
    """A Cluster for people."""
    status = raw.get("status", {})
    pending = status.get("pendingState") or {}
    yield f"{raw['metadata']['namespace']}/{raw['metadata']['name']}: {status.get('phase', '')}"
    waits = " -> {target} ({reason}: {message})".format(**pending) if pending else ""
    yield f"state       {status.get('state', '')}{waits}"
    yield f"safe        {'yes' if status.get('safe') else 'no'}"
    yield f"members     {status.get('members', '')}, lite {status.get('liteMembers', '')}"
    yield f"migrations  {in_migrations(raw)}"
    for each in status.get("memberList", []):
        role = "master" if each.get("master") else each.get("kind", "")
        yield (
            f"  {each['name']:<24} {each.get('state', ''):<9} {role:<7}"
            f" owns {each.get('ownedPartitions', 0):>5}, backs up {each.get('backups', 0):>5}"
            f"  {each.get('reason', '')}"
        ).rstrip()
    for each in status.get("conditions", []):
        yield f"{each['type']:<13}{each['status']:<8}{each['reason']}: {each['message']}"


def parser() -> argparse.ArgumentParser:
    """The words."""
    made = argparse.ArgumentParser("kubectl holdfast", description="Ask and change Clusters.")
    made.add_argument("-n", "--namespace", default="", help="default: the context's")
    words = made.add_subparsers(dest="word", required=True)
    texts = {
        "status": "members, state, safety, conditions",
        "state": "show the state, or declare another",
        "promote": "declare how many lite members hold data",
        "migrations": "what moves",
    }
    parts = {word: words.add_parser(word, help=text) for word, text in texts.items()}
    for part in parts.values():
        part.add_argument("cluster")
    for word in ("state", "promote"):
        help_text = "seconds to wait for it; 0: not at all"
        parts[word].add_argument("--wait", type=float, default=60.0, help=help_text)
    parts["state"].add_argument("state", nargs="?", choices=[state.value for state in State])
    parts["promote"].add_argument("count", type=int)
    parts["migrations"].add_argument("--watch", action="store_true", help="until nothing moves")
    return made


async def run(given: argparse.Namespace, api: Kubernetes, say: Say) -> int:
    """Do it; the exit code."""
    asker = Asker(api, given, say)
    words: dict[str, Callable[[], Awaitable[int]]] = {
        "status": asker.status,
        "state": asker.state,
        "promote": asker.promote,
        "migrations": asker.migrations,
    }
    return await words[given.word]()


def answer(arguments: Sequence[str], say: Say, complain: Say) -> int:
    """From the words to the exit code."""
    given = parser().parse_args(arguments)

    async def job() -> int:
        async with Kubernetes(find()) as api:
            return await run(given, api, say)

    try:
        return asyncio.run(job())
    except ApiRefused as error:
        complain(str(error))
        return EXIT_REFUSED
    except KubernetesError as error:
        complain(str(error))
        return EXIT_NO_API
    except KeyboardInterrupt:
        return 130


def main() -> None:
    """The program."""

    def say(line: str) -> None:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    def complain(line: str) -> None:
        sys.stderr.write(f"holdfast: {line}\n")

    sys.exit(answer(sys.argv[1:], say, complain))


if __name__ == "__main__":
    main()

"""A process that behaves as the test wants: the protocol of a member process, and nothing else.

    small_member.py ID WORD...

Words, in order: `introduce`, `wait`, `ready`, `say` and `hang` do as they are called, `babble` says
no report, `orphan` leaves a process behind, `exit=N` ends, `stubborn` ignores SIGTERM. Without an
exit it ends when it gets SIGTERM, with code 0, or when its supervisor is gone, with code 7.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from holdfast.ids import Address, MemberId
from holdfast.shell.supervisor.lifeline import Lifeline
from holdfast.shell.supervisor.processes import CHILD_FD
from holdfast.shell.supervisor.reports import Introduced, Ready, Waiting


def introduction(member: str) -> Introduced:
    """Incarnation and ports are the process: no two are the same."""
    pid = os.getpid()
    ports = [Address(f"{kind}:{pid}") for kind in ("link", "plain", "cluster", "http")]
    return Introduced(MemberId(member), pid, member, "data", "group", *ports)


async def live(member: str, words: list[str]) -> int:
    """Do the words, then wait for an end."""
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, asked.set)
    line = await Lifeline.connect(CHILD_FD)
    for word in words:
        match word.partition("="):
            case "introduce", _, _:
                line.tell(introduction(member))
            case "wait", _, _:
                line.tell(Waiting("for others"))
            case "ready", _, _:
                line.tell(Ready())
            case "say", _, text:
                sys.stdout.write(f"{text}\n")
                sys.stdout.flush()
            case "babble", _, _:
                os.write(CHILD_FD, b"hello?\n")
            case "stubborn", _, _:
                loop.add_signal_handler(signal.SIGTERM, lambda: None)
            case "orphan", _, _:
                script = "sh -c 'exit 3' & echo left $!"
                await (await asyncio.create_subprocess_exec("sh", "-c", script)).wait()
            case "exit", _, code:
                await line.close()
                return int(code)
    gone = asyncio.create_task(line.supervisor_gone())
    leave = asyncio.create_task(asked.wait())
    await asyncio.wait((gone, leave), return_when=asyncio.FIRST_COMPLETED)
    return 7 if gone.done() else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(live(sys.argv[1], sys.argv[2:])))

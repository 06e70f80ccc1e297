"""A member takes the processor from nobody, where the system allows that."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from holdfast.shell import scheduling

TELLS = """
import os, threading
from holdfast.shell.scheduling import prefer_batches
prefer_batches()
found = [os.sched_getscheduler(0)]
thread = threading.Thread(target=lambda: found.append(os.sched_getscheduler(0)))
thread.start()
thread.join()
print(*found)
"""


@pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="this system has no such scheduling")
def test_the_process_and_its_threads_are_scheduled_in_batches() -> None:
    done = subprocess.run([sys.executable, "-c", TELLS], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(os.SCHED_BATCH)] * 2


def test_where_that_is_forbidden_it_is_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", forbidden, raising=False)
    monkeypatch.setattr(os, "sched_param", lambda _: None, raising=False)
    monkeypatch.setattr(os, "SCHED_BATCH", 3, raising=False)
    scheduling.prefer_batches()


def test_where_nobody_knows_it_it_is_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "SCHED_BATCH", raising=False)
    monkeypatch.setattr(os, "sched_setscheduler", lambda *_: pytest.fail("it is asked for"))
    scheduling.prefer_batches()

"""What happened, as a sentence."""

from __future__ import annotations

from typing import Final

from holdfast.shell.supervisor.happenings import Tell, What

SENTENCES: Final = {
    What.STARTED: "{name} is started ({detail})",
    What.INTRODUCED: "{name} is {detail}",
    What.WAITING: "{name} does not serve: {detail}",
    What.READY: "{name} is ready",
    What.LEAVING: "{name} is asked to leave",
    What.LEFT: "{name} has left ({detail})",
    What.DIED: "{name} died ({detail})",
    What.REFUSED: "{name} can't work so ({detail}) and is not started again",
    What.KILLED: "{name} is killed",
    What.RESTARTS: "{name} is started again {detail}",
    What.CONFIRMED: "the other members know that {detail} of {name} is gone",
    What.UNCONFIRMED: "the other members could not be told that {name} is gone: {detail}",
    What.BABBLED: "{name} said what makes no sense: {detail}",
}
ALARMING: Final = frozenset({What.DIED, What.REFUSED, What.KILLED, What.UNCONFIRMED, What.BABBLED})
"""What somebody should look at."""


def sentence(tell: Tell, name: str) -> str:
    """One line for people; `name` is what they call the child."""
    return SENTENCES[tell.what].format(name=name, detail=tell.detail)

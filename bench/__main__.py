"""`python -m bench`: measure Holdfast beside its peers, and print how they compare.

Every figure is measured in this run on this machine; a ratio tells more than the rates behind it.
The results are written to `bench/results/`, with the facts of the machine.

Exit code 0: measured, whatever was reached. 1: a figure could not be measured. 2: bad input. 130:
interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "node" / "src"), str(ROOT / "pipeline" / "src")]

from bench import machine, package
from bench.figures.all import ALL
from bench.outcomes import Outcome
from bench.processes import MissingProgram, signals_end
from bench.running import Figure, Plan, say
from bench.table import show

RESULTS: Final = Path(__file__).parent / "results"
EXIT_FAILED: Final = 1
EXIT_INTERRUPTED: Final = 130


def options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__.partition("\n\n")[0])
    names = [figure.name for figure in ALL]
    parser.add_argument("--list", action="store_true", help="list the figures, measure nothing")
    parser.add_argument(
        "--only",
        action="append",
        choices=names,
        metavar="NAME",
        help="this one; may be repeated",
    )
    parser.add_argument("--quick", action="store_true", help="a fifth of the work, one round")
    parser.add_argument("--rounds", type=positive, help="rounds of each comparison (3)")
    parser.add_argument(
        "--megabytes", type=positive, default=200, help="of values, where data moves (200)"
    )
    parser.add_argument("--repeats", type=positive, help="deaths of members (5)")
    return parser.parse_args(arguments)


def positive(text: str) -> int:
    """A number of things."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def plan_of(given: argparse.Namespace) -> Plan:
    """How to run."""
    return Plan(
        quick=given.quick,
        rounds=given.rounds or (1 if given.quick else 3),
        megabytes=given.megabytes,
        repeats=given.repeats or (2 if given.quick else 5),
    )


def run(
    figures: Sequence[Figure],
    plan: Plan,
    outcomes: list[Outcome],
    records: list[dict[str, Any]],
) -> None:
    """Measure, and add what was found; what can't be measured is told and left out. The lists are
    the caller's, so that an interruption leaves what was measured before it."""
    for number, figure in enumerate(figures, 1):
        say(f"[{number}/{len(figures)}] {figure.name}: {figure.about}")
        others, error = machine.Neighbours(), "interrupted"
        begun = len(outcomes)
        try:
            error = measure(figure, plan, outcomes)
        finally:
            share = others.share()
            rows = [outcome.record() for outcome in outcomes[begun:]]
            found = {"name": figure.name, "error": error, "others_share": round(share, 3)}
            records.append({**found, "rows": rows})
        say(f"{figure.name} is done; others used {share:.0%} of the machine")


def measure(figure: Figure, plan: Plan, outcomes: list[Outcome]) -> str:
    """Add its rows; why it could not be measured, if so."""
    try:
        outcomes.extend(figure.measure(plan))
    except MissingProgram as missing:
        say(f"{figure.name} is not measured: {missing}")
        return str(missing)
    except Exception as failure:  # the other figures are worth having
        say(f"{figure.name} failed: {''.join(traceback.format_exception(failure))}")
        return f"{type(failure).__name__}: {failure}"
    return ""


def write(plan: Plan, records: list[dict[str, Any]], load: tuple[float, float, float]) -> Path:
    """The file of this run."""
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / f"{time.strftime('%Y%m%d-%H%M%S')}.json"
    document = {
        "at": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "machine": machine.facts(),
        "load_average": {"before": load, "after": os.getloadavg()},
        "plan": {"quick": plan.quick, "rounds": plan.rounds, "megabytes": plan.megabytes},
        "figures": records,
    }
    file.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return file


def main() -> int:
    """Measure what was asked for."""
    given = options()
    if given.list:
        for figure in ALL:
            print(f"{figure.name:14}{figure.about}")
        return 0
    plan, load = plan_of(given), os.getloadavg()
    wanted = [figure for figure in ALL if not given.only or figure.name in given.only]
    outcomes: list[Outcome] = []
    records: list[dict[str, Any]] = []
    interrupted = False
    try:
        with signals_end():
            how = "compiled" if package.is_compiled() else "interpreted; `make compiled` first"
            say(f"members run {how}")
            run(wanted, plan, outcomes, records)
    except KeyboardInterrupt:
        interrupted = True
        say("interrupted; everything that was started has ended")
    if outcomes:
        show(outcomes)
        if plan.quick:
            print("quick: one round of little work. It runs; the figures mean nothing.")
        print(f"written to {write(plan, records, load)}")
    if interrupted:
        return EXIT_INTERRUPTED
    return EXIT_FAILED if any(record["error"] for record in records) else 0


if __name__ == "__main__":
    code = main()
    if code == EXIT_INTERRUPTED:
        # Where the interruption met an `exec` (a dataclass is made by one), the interpreter would
        # end itself by SIGINT, whatever code it is given.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)

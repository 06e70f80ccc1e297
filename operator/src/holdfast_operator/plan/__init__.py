"""Deciding, without doing: from what was observed to what is to be done, and what is to be said.

    plan(observed) ─► actions, status, events, when to look again

Rules
-----
* Everything follows from the declared spec and from what is so now. What was begun earlier is seen
  in the things themselves (sizes of sets, kinds of members, the grid's state, templates of pods),
  so an operator that is killed anywhere goes on where it was.
* An action may be repeated. Whatever is dangerous twice (deleting a pod) names the exact object.
* Never green early: a condition is True only for what was looked at with this generation of the
  spec, and what is not known is not so.
* A reason for waiting is a value (`Hold`), and ends up in a condition.

Rows of the behaviour table and their modules: `course.py` puts them in order; `resizing.py`,
`restarting.py`, `stating.py`, `deaths.py`, `losing.py`, `volumes.py`, `backing_up.py`,
`scheduling.py`; what is said: `reporting.py` and `conditions.py`. A Restore has a plan of its own:
`restoring.py`.
"""

from holdfast_operator.plan.making import Plan, plan
from holdfast_operator.plan.restoring import RestorePlan, restoring

__all__ = ["Plan", "RestorePlan", "plan", "restoring"]

"""Whether what clients saw of one key can be explained by one order of their operations.

A history is *linearizable* if every operation can be given one instant between its call and its
return, such that a plain, sequential key would have given the same replies (Herlihy and Wing).
Keys are independent of each other, so each is judged alone (`design/3` §11).

    by_key(operations) ──► per key: Checker ── invocations and returns, in the order of time
                                       │
                     front: what the key may be now, and which pending operations it contains
                                       │ each return: who must have come before it? (`search`)
                                       ▼
                       nothing left: NotLinearizable │ budget spent: Undecided │ Linearizable

Rules
-----
* The search is that of Wing and Gong (*Testing and Verifying Concurrent Objects*, 1993) with what
  Lowe added (*Testing for linearizability*, 2017): a pair of *which operations are in* and *state*
  is visited once, and an operation is put in order only when a return demands it. So the checker
  walks along the time and keeps a **front** instead of going back: whatever returned is in every
  configuration and is forgotten. Where nothing is pending the front is a set of states and no
  more; a long history costs what its pieces between such quiet moments cost.
* That keys can be judged alone, and the table of visited pairs: also Horn and Kroening, *Faster
  linearizability checking via P-compositionality* (2015), and Porcupine, which follows them.
* An operation of **unknown outcome** is pending for ever, and may be left out. Each of the
  following only leaves out orders that another order makes superfluous, never a verdict:

      a read without a reply       says nothing: dropped
      same state, fewer used       the configuration that used a subset of the unknown ones can do
                                   all that the other can (`front`)
      equal calls                  are used in the order in which they began
      a run of unknown ones        is there to explain what a known one replied: it is not followed
                                   by an operation that overwrites everything, begins only with
                                   what may matter to a known one, and stops where no known one's
                                   reply fits the size that the state can still get
      used in every configuration  forgotten

* A pending read whose reply fits is put in order at once: it is nobody's loss.

What can go wrong
-----------------
* The problem is NP-complete. Steps are counted, and beyond the budget the verdict is `Undecided`;
  nothing hangs. Many different unknown pushes to one list, never read back, are the worst case.
* A model that is wrong calls sound members broken. It is written for itself, knows nothing of the
  stores, and what the search believes about calls (`traits`) is tested against it.
* Clocks differ. How a deadline becomes an operation of its own, between the instants at which it
  may have ended and must have, is said in `mortal`. So this is also the check that nothing that
  has expired, and nothing that was deleted, is served again: a reply with it has no order.
"""

from holdfast.sim.linearizability.checker import Checker, check
from holdfast.sim.linearizability.history import UNKNOWN, Operation, by_key
from holdfast.sim.linearizability.model import Failure
from holdfast.sim.linearizability.verdicts import (
    Linearizable,
    NotLinearizable,
    Undecided,
    Verdict,
)

__all__ = [
    "Checker",
    "check",
    "Operation",
    "UNKNOWN",
    "Failure",
    "by_key",
    "Verdict",
    "Linearizable",
    "NotLinearizable",
    "Undecided",
]

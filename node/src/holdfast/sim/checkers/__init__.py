"""What must hold, as objects that watch: each is shown, by a test, to fire when it doesn't.

Checkers look at what a step changed, so that they can look after every step. They know everything
in the world and use it only to judge; no process ever learns from them.

    ownership      at any instant one member at most may acknowledge writes of a partition
    rows           nobody twice in a row, versions only grow, one content for each version
    views          one content for each view, keys only grow, joins as the state allows
    masters        one master a term, one mandate at an instant
    moves          copies never dip, bounds are kept, nothing moves unasked
    lineage        who serves holds the data; no partition begins anew unless it was lost
    requests       each request gets exactly one answer
    quiet          after the faults: everything agrees and nothing is left over
"""

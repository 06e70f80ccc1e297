"""What must hold, as objects that watch: each is shown, by a test, to fire when it doesn't.

Checkers look at what a step changed, so that they can look after every step. They know everything
in the world and use it only to judge; no process ever learns from them.

    ownership      at any instant one member at most may acknowledge writes of a partition
    published      who serves does so by a row that a master has decided
    rows           nobody twice in a row, versions only grow, one content for each version
    views          one content for each view, keys only grow, joins as the state allows
    masters        one master a term, one mandate at an instant
    vows           no promise is given while a vow to another living master runs
    memory         what a member sent survives its restart
    moves          copies never dip, bounds are kept, nothing moves unasked
    copies         whoever its row names has the data
    knowledge      plans are made when all know the members; ends are told until all know them
    changes        a change of the state finds everyone settled; one stable table for each
    lineage        who serves holds the data; no partition begins anew unless it was lost
    losses         a partition is lost only when nobody is awaited that has its data
    acks           a backup that acknowledges tells which of its copies lack something
    requests       each request gets exactly one answer
    quiet          after the faults: everything agrees and nothing is left over

`watch` works out what a step changed, once for all of them; `everything` puts them together.
"""

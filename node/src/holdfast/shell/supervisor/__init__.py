"""The supervisor of member processes: what a pod runs, and `holdfast dev` (`design/2`).

    signals, exits, reports ─► supervision (pure) ─► spawn, signal, confirm a death, tell, finish
                                   ▲                      │
                                   └──── supervisor (asyncio) ── processes, confirming

`supervision` decides; `policy`, `layout` and `reports` are what it knows of exit codes and times,
of names and ports, and of what a process says about itself. The rest carries: `processes` starts,
signals and reaps, `confirming` tells the other members of a death, `lifeline` is the end of the
socket that a member process holds.
"""

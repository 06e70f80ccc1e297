"""The shell of a member: sockets, clock and signals around the core, and no decision.

    settings ─► lifecycle ─► member ─┬─► driver ─► core.Node.step ─► effects
                                     ├─► resp      applications (Redis protocol)
                                     └─► link      the other members

`driver` is the one that owns the node's state; everything else gives it events and carries its
effects away (`design/2`).
"""

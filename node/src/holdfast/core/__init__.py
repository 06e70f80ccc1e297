"""The pure core: one deterministic machine that decides everything.

Events go in, effects come out (`node.Node.step`). Nothing in this package reads a clock, a
socket, a disk or a source of randomness, so the same code runs in a member's process and in the
simulator (`holdfast.sim`), and a run can be repeated from its seed.
"""

"""A world in which the real core runs, on virtual time, until it breaks or the seed is done.

    options ── drawn from the seed ──► world: sites, processes, clocks, disks, network
                                         │   each step of a node: event in, effects out
                    faults, workload ────┤
                                         ▼
                                      checkers, after every step ──► verdict (`run.run_seed`)

Everything random comes from one `random.Random(seed)`, in an order that depends on nothing else,
so a seed is a whole history that can be repeated.
"""

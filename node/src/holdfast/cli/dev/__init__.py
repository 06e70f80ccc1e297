"""`holdfast dev`: a cluster on this machine, in one command.

command ─► members (names, ports, flags) ─► shell.supervisor ─► processes
                                                │ tells
                watching (HTTP, each second) ─► board ─► showing: table, lines, or JSON
"""

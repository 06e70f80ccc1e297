"""Hot restart: what a member writes to disk, and how the next process finds it again.

`format` has the bytes, and is pure. `files` is the only module that touches a disk; all others do
it through that, so that tests can break it. `engine` is what a shell uses.
"""

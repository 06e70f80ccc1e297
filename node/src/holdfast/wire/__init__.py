"""Bytes to messages and back, pure: no socket, no clock, no state of the cluster.

`numbers` gives each message its number, `validation` what a well-typed message must still keep,
`codec` encodes and decodes one frame, `frames` cuts a stream of bytes into frames.
"""

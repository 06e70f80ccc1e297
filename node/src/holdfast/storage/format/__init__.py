"""Bytes on disk: blocks, records, table files, manifests. Pure functions, and typed errors."""

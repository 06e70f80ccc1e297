"""Whole jobs, beside the data source: `convert`, `audit`, `import`, `export`.

Each is a function that takes a session, and a command of `python -m holdfast_spark`.
"""

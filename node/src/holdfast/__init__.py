"""Holdfast: a data grid whose data moves only when you say so."""

__version__ = "0.1.0"

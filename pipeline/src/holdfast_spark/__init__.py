"""Holdfast as a Spark data source: plan without importing Spark, then read and write blocks."""

__version__ = "0.1.0"

"""What a use of the connector will do, decided without Spark, cluster or clock.

Spark's objects come in as plain data: a schema as its JSON, a filter by its name and fields. So
all of it is tested by tables.
"""

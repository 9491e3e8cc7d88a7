"""Modes of Spark that take no Python: a source, a filter and a sink in Java, measured like the others.

`modes` says what there is, `jar` compiles, `round` runs one, `driver` is its process. Must not know a topology.
"""

"""Modes of Spark that take no Python: a source, a filter and a sink in Java, measured like the others.

`modes` lists the modes, `jar` compiles, `round` runs one, `driver` is its process. Must not know a topology.

Imports nothing of: topology.components, topology.graph, topology.plan, topology.topology, topology.runtime
"""

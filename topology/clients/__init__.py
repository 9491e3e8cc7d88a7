"""Connections that sources and sinks of one server share: its client library, certificates, and its error if away.

`nats`, … connect by one protocol each; a library is imported when it is first used. Must not know sources, sinks or
tuples.

Imports nothing of: topology.runtime, topology.components, topology.core
"""

"""Sinks on message servers: one protocol a file, each a publisher under a `PublishingSink`.

Client libraries are extras, imported when a sink is opened. Must not know another protocol.

Imports nothing of: bolts.sinks.servers, spouts, bridge, topology.runtime
"""

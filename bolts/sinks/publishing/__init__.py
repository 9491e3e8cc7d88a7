"""The common part of sinks that send each record to a server as a message: bodies, and keys that are known already.

`publisher.Publisher` is what one protocol implements; `sink.PublishingSink` does the rest. Must not know any protocol.

Imports nothing of: spouts, bridge, topology.runtime, topology.cli, asyncio
"""

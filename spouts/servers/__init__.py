"""Sources on message servers: one protocol a file, each a connection under a `BrokerSource`.

Client libraries are extras, imported when a source is opened. Must not know another protocol.

Imports nothing of: spouts.servers, spouts.file_tail, topology.runtime
"""
